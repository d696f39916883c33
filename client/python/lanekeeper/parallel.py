"""The data-parallel rank of a process that is more than a data-parallel rank.

A stream knows data-parallel ranks alone. Processes that hold parts of one model (tensor, pipeline or context
parallel) are one of them together: they ask for the same rank of the same world, get the same rows, and read, on one
machine, the same memory.

    place = lanekeeper.parallel.from_sizes(tp=4, pp=2)
    stream = lanekeeper.Stream(address, rank=place.rank, world=place.world)
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, Sequence

from .errors import FailedPrecondition, InvalidArgument
from .launch import resolve


class DataParallel(NamedTuple):
    """For Stream(rank=…, world=…); and which context-parallel slice of each sequence is this process's, for
    batch.training(cp=place)."""

    rank: int
    world: int
    cp_rank: int = 0
    cp_size: int = 1


#: Dimensions that split the data, by the names that frameworks use.
DATA_DIMENSIONS = ("dp", "data", "data_parallel", "replicate", "dp_replicate", "dp_shard", "fsdp", "ddp", "shard")
_CONTEXT_DIMENSIONS = ("cp", "context", "context_parallel")


def from_sizes(tp: int = 1, pp: int = 1, cp: int = 1, dp: int | None = None, *, order: str = "tp-cp-dp-pp",
               rank: int | None = None, world: int | None = None) -> DataParallel:
    """From the sizes of the dimensions and their @order, the fastest varying first.

    order: "tp-cp-dp-pp" is Megatron's and TorchTitan's: neighbours in rank are tensor-parallel peers.
    dp:    None: what is left of the world.
    rank, world: of this process among all; None: see `lanekeeper.launch`.

    InvalidArgument: the sizes do not make up the world, or @order does not name each of tp, cp, dp, pp once.
    """
    place = resolve(rank, world)
    names = order.split("-")
    if sorted(names) != ["cp", "dp", "pp", "tp"]:
        raise InvalidArgument(f"order={order!r}: expected tp, cp, dp and pp, each once, joined by -")
    sizes = {"tp": tp, "pp": pp, "cp": cp}
    others = 1
    for name, size in sizes.items():
        if size < 1:
            raise InvalidArgument(f"{name}={size}: expected at least 1")
        others *= size
    if place.world % others != 0 or (dp is not None and dp * others != place.world):
        given = "" if dp is None else f" x dp {dp}"
        raise InvalidArgument(f"tp {tp} x pp {pp} x cp {cp}{given} do not make up a world of {place.world}")
    sizes["dp"] = place.world // others
    at, coordinate = place.rank, {}
    for name in names:
        at, coordinate[name] = divmod(at, sizes[name])
    return DataParallel(coordinate["dp"], sizes["dp"], coordinate["cp"], cp)


def from_device_mesh(mesh: Any, dimensions: Sequence[str] | None = None) -> DataParallel:
    """From a torch DeviceMesh with named dimensions; the data-parallel ones in the order of the mesh.

    dimensions: the names of those that split the data; None: those in `DATA_DIMENSIONS`.

    InvalidArgument: the mesh has no names, or none of these. FailedPrecondition: this process is not in the mesh.
    """
    names = tuple(mesh.mesh_dim_names or ())
    data = [name for name in names if name in (DATA_DIMENSIONS if dimensions is None else dimensions)]
    if not data or (dimensions is not None and len(data) != len(dimensions)):
        wanted = ", ".join(DATA_DIMENSIONS if dimensions is None else dimensions)
        raise InvalidArgument(f"the mesh's dimensions are {', '.join(names) or 'without names'}; looked for {wanted}",
                              "name those that split the data: from_device_mesh(mesh, dimensions=[…])")
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise FailedPrecondition("this process is not part of the mesh", "only those that are open a Stream")
    rank, world, cp_rank, cp_size = 0, 1, 0, 1
    for i, name in enumerate(names):
        if name in data:
            rank, world = rank * mesh.size(i) + coordinate[i], world * mesh.size(i)
        elif name in _CONTEXT_DIMENSIONS:
            cp_rank, cp_size = cp_rank * mesh.size(i) + coordinate[i], cp_size * mesh.size(i)
    return DataParallel(rank, world, cp_rank, cp_size)


def from_megatron(parallel_state: Any = None) -> DataParallel:
    """From Megatron-core's parallel state, once it is initialised.

    parallel_state: None: megatron.core.parallel_state. FailedPrecondition: not installed, or not initialised.
    """
    if parallel_state is None:
        try:
            parallel_state = importlib.import_module("megatron.core.parallel_state")
        except ImportError:
            raise FailedPrecondition("megatron-core is not installed") from None
    if not parallel_state.model_parallel_is_initialized():
        raise FailedPrecondition("Megatron's parallel state is not initialised",
                                 "call initialize_model_parallel before the stream is opened")
    return DataParallel(parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size(),
                        parallel_state.get_context_parallel_rank(), parallel_state.get_context_parallel_world_size())

