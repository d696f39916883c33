"""NeMo AutoModel: a stream as the dataset of its recipes for language models.

    dataset:
      _target_: lanekeeper.adapters.nemo.RecipeDataset
      address: ipc:///run/lanekeeper.sock
    dataloader:
      collate_fn: lanekeeper.adapters.nemo.collate

A recipe's loader takes rows, step_scheduler.local_batch_size at a time, which `collate` puts together again without a
copy. A step of the stream is a step of training where the stream's batch is step_scheduler.global_batch_size. Rank and
world are the ones that NeMo has for the data-parallel group; it cuts sequences for context parallelism by itself. The
state lies in the checkpoint with that of NeMo's loader, a file a rank, all alike: see `spread`.
"""

from __future__ import annotations

import os
import pathlib
import shutil
from typing import Any, NoReturn, Sequence

import numpy as np
import torch

from ..batch import Batch
from ..errors import FailedPrecondition, InvalidArgument, NotFound
from ..stream import Stream
from ._common import NO_WORKERS, ZERO, check_options
from .torch import StreamDataset

_PACKINGS: dict[str | None, str | bool] = {None: False, "flash": "flat", "thd": "rows"}    # and cu_seqlens
_NO_LENGTH = -1000    # behind the last length of a row, as NeMo's collaters have it
_COLLATE = "set dataloader.collate_fn: lanekeeper.adapters.nemo.collate in the recipe"


class Row:
    """A row of a rank's batch, for `collate`. Another collater, which asks it for its keys, gets the reason."""

    __slots__ = ("dataset", "batch")

    def __init__(self, dataset: RecipeDataset, batch: Batch) -> None:
        self.dataset = dataset
        self.batch = batch

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise InvalidArgument("the recipe's dataloader collates a stream's rows by itself", _COLLATE)

    def __getitem__(self, key: Any) -> NoReturn:
        self.__getattr__("keys")


class RecipeDataset(StreamDataset):
    """The rows of a stream, for a recipe's `dataset`, not its validation_dataset, which is read to its end each time;
    `collate` makes dicts of them:

    input_ids, labels, position_ids: int64 [B, T]. Labels are shifted, as NeMo's losses want them; positions begin anew in
                  each document, from which transformers' attention keeps documents apart.
    padding_mask: bool [B, T], True where the row is padding; as the packer has it.

    address:  of a lanekeeperd, or a configuration file.
    stream:   its name; None: the only one that there is.
    packing:  None. "flash": also cu_seq_lens_q, cu_seq_lens_k (int32, over B·T tokens), max_length_q and max_length_k, for
              transformers' flash attention. "thd": also seq_lens and seq_lens_padded (int64 [B, documents], -1000
              behind the last) and qkv_format, for Transformer Engine; then the recipe has packed_sequence:
              {packed_sequence_size: T, packing_strategy: thd, prepacked: true}, and no context parallelism, for which
              documents would have to be padded one by one.
    timeout:  see `Stream`.
    copy:     tensors of their own, which may be written to.
    training: other options of `Batch.training`.
    """

    def __init__(self, address: str, stream: str | None = None, *, packing: str | None = None, timeout: float | None = 60.0,
                 copy: bool = False, **training: Any) -> None:
        if packing not in _PACKINGS:
            raise InvalidArgument(f"packing={packing!r}: expected one of {', '.join(map(repr, _PACKINGS))}")
        own: dict[str, Any] = {"cu_seqlens": _PACKINGS[packing], "document_ids": False, "loss_mask": False}
        for name in own.keys() & training.keys():
            raise InvalidArgument(f"{name} is the adapter's to choose, as packing= says")
        check_options(training)
        super().__init__(lambda: Stream(address, stream, *self._place, timeout=timeout), copy=copy, **own, **training)
        self.packing = packing
        self._place: tuple[int | None, int | None] = (None, None)

    def shard(self, num_shards: int, index: int) -> RecipeDataset:
        """Called by the recipe's loader: opens the stream as data-parallel rank @index of @num_shards."""
        self._place = (index, num_shards)
        if (self.stream.rank, self.stream.world) != (index, num_shards):
            raise FailedPrecondition(f"the stream is rank {self.stream.rank} of {self.stream.world}, and cannot be sharded again")
        return self

    def shuffle(self, *_: Any, **__: Any) -> NoReturn:
        """InvalidArgument: the order is the stream's."""
        raise InvalidArgument("shuffle: the recipe's loader would shuffle a stream, whose order and shuffle its pipeline says",
                              "leave shuffle out of the recipe's dataloader")

    def __reduce__(self) -> NoReturn:
        raise FailedPrecondition(NO_WORKERS, ZERO)    # a loader's workers are what would be given a copy

    def _cut(self, batch: Batch) -> list[Batch]:
        return list(batch.micro_batches(batch.rows)) if batch.rows > 0 else []

    def _item(self, part: Batch) -> Any:
        return Row(self, part)

    def state_dict(self) -> dict[str, Any]:
        """`Stream.state_dict` of what was taken. FailedPrecondition: only a part of a step was, so that NeMo's steps are
        not the stream's: resumed from there, its rows would come twice."""
        if self._begun is not None:
            raise FailedPrecondition(
                f"a checkpoint within step {self._begun}: step_scheduler.global_batch_size is no multiple of the stream's batch",
                "make them equal")
        return super().state_dict()

    def tensors(self, batch: Batch) -> dict[str, Any]:
        """What `collate` gives of rows."""
        made = super().tensors(batch)
        used = torch.from_numpy(batch.used.astype(np.int64)).unsqueeze(1)
        wanted: dict[str, Any] = {key: made[key] for key in ("input_ids", "labels", "position_ids") if key in made}
        wanted["padding_mask"] = torch.arange(batch.sequence) >= used
        if self.packing == "flash":
            bounds, most = made["cu_seqlens"], made["max_seqlen"]
            wanted.update(cu_seq_lens_q=bounds, cu_seq_lens_k=bounds, max_length_q=most, max_length_k=most)
        elif self.packing == "thd":
            wanted.update(_lengths(made["cu_seqlens"], used, batch.sequence), qkv_format="thd")
        return wanted


def collate(rows: Sequence[Row] | Row) -> dict[str, Any]:
    """The dict of consecutive rows of one step: a micro-batch. InvalidArgument: they are of two steps."""
    parts = [row.batch for row in ([rows] if isinstance(rows, Row) else rows)]
    first, last = parts[0], parts[-1]
    whole = first._of
    if whole is None or last._of is not whole:
        raise InvalidArgument(
            f"rows of steps {first.step} and {last.step} in one micro-batch of {len(parts)}: a rank has {whole and whole.rows} rows of a "
            "step", "choose a step_scheduler.local_batch_size that divides them, and a global_batch_size that is the stream's batch")
    dataset = (rows if isinstance(rows, Row) else rows[0]).dataset
    return dataset.tensors(whole._cut(first._at, last._at + 1))


def _lengths(bounds: torch.Tensor, used: torch.Tensor, sequence: int) -> dict[str, torch.Tensor]:
    """Documents' lengths, and with the padding, which counts with the last document of its row."""
    starts, ends = bounds[:, :-1].long(), bounds[:, 1:].long()
    real = starts < used
    real[:, 0] = True    # of a row that is all padding, too
    last = ends >= used
    n = int(real.sum(1).max())
    lengths = (torch.minimum(ends, used) - starts).masked_fill(~real, _NO_LENGTH)
    padded = (ends.masked_fill(last, sequence) - starts).masked_fill(~real, _NO_LENGTH)
    return {"seq_lens": lengths[:, :n], "seq_lens_padded": padded[:, :n]}


def spread(checkpoint: str | os.PathLike[str], ranks: int, processes: int | None = None) -> None:
    """Makes a checkpoint that was saved by fewer ranks one that @ranks data-parallel ranks resume from.

    NeMo looks for a file of each rank, of the loader and of the random numbers. The loader's are all alike. Processes
    that there were not go on with the random numbers of one that there was: rank modulo their number.

    checkpoint: its folder, epoch_…_step_….
    processes:  of all, with tensor, pipeline and context parallelism; None: as many.
    NotFound: it holds no such file.
    """
    for name, wanted in (("dataloader_dp_rank", ranks), ("rng_global_rank", ranks if processes is None else processes)):
        folder = pathlib.Path(checkpoint) / name.split("_")[0]
        there = len(list(folder.glob(f"{name}_*.pt")))
        if there == 0:
            raise NotFound(f"no {name}_0.pt in {folder}", "name the folder of one checkpoint, epoch_…_step_…")
        for rank in range(there, wanted):
            shutil.copyfile(folder / f"{name}_{rank % there}.pt", folder / f"{name}_{rank}.pt")
