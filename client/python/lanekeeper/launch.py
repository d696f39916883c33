"""Which rank of how many is this process? As whatever started it says."""

from __future__ import annotations

import logging
import os
import sys
from typing import Mapping, NamedTuple

from .errors import InvalidArgument

log = logging.getLogger("lanekeeper")

# Pairs of variables, the most explicit first. srun sets the number of its own tasks; the job's may differ.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


class Place(NamedTuple):
    """A rank, 0 … world - 1, of a world, 1 …; and in words where that is from."""

    rank: int
    world: int
    source: str


_ALONE = Place(0, 1, "nothing says otherwise")


def _number(environment: Mapping[str, str], name: str) -> int:
    try:
        return int(environment[name])
    except ValueError:
        raise InvalidArgument(f"{name}={environment[name]!r} is no number", "give rank= and world=") from None


def _from_variables(environment: Mapping[str, str]) -> Place | None:
    for rank, world in _VARIABLES:
        if rank in environment and world in environment:
            return Place(_number(environment, rank), _number(environment, world), f"{rank} and {world}")
    if "RANK" in environment:
        raise InvalidArgument("RANK is set, but WORLD_SIZE is not", "set both, or give rank= and world=")
    return None


def _from_torch() -> Place | None:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return Place(distributed.get_rank(), distributed.get_world_size(), "torch.distributed")


def _from_jax() -> Place | None:
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "process_index"):
        return None
    return Place(jax.process_index(), jax.process_count(), "jax.process_index")


def detect(environment: Mapping[str, str] | None = None) -> Place:
    """The place of this process: from torch.distributed if it is initialised, else RANK and WORLD_SIZE
    (torchrun), SLURM_PROCID and SLURM_NTASKS (srun), OMPI_COMM_WORLD_RANK and _SIZE or PMI_RANK and _SIZE
    (mpirun), else from JAX if it is imported; else 0 of 1.

    InvalidArgument: a variable is no number, or RANK is set without WORLD_SIZE.
    """
    found = _from_torch() or _from_variables(os.environ if environment is None else environment) or _from_jax()
    return found or _ALONE


_said: set[Place] = set()


def resolve(rank: int | None, world: int | None) -> Place:
    """Fills in what is not given; says once, in the log of `lanekeeper`, what was found."""
    if rank is not None and world is not None:
        place = Place(int(rank), int(world), "given")
    else:
        found = detect()
        if (rank is None) != (world is None) and found is _ALONE:
            raise InvalidArgument(f"{'rank' if world is None else 'world'} is given, "
                                  f"but {'world' if world is None else 'rank'} is not, and nothing else says it",
                                  "give both rank= and world=")
        source = found.source if rank is None and world is None else f"partly given, else {found.source}"
        place = Place(found.rank if rank is None else int(rank), found.world if world is None else int(world), source)
    if not 0 <= place.rank < place.world:
        raise InvalidArgument(f"rank {place.rank} of world {place.world} ({place.source}): expected 0 <= rank < world")
    if place.source != "given" and place not in _said:
        _said.add(place)
        log.info("rank %d of %d (%s)", *place)
    return place
