"""PyTorch: a stream as an IterableDataset, for DataLoader and torchdata's StatefulDataLoader.

    from lanekeeper.adapters.torch import loader
    for batch in loader("ipc:///run/lanekeeper.sock"):      # or a Stream, or a configuration file
        loss = train(batch["input_ids"], batch["labels"])

A batch is a dict of tensors over the daemon's memory, of this rank's rows: it comes ready, so the loader neither
batches (batch_size=None) nor has workers (num_workers=0).
"""

from __future__ import annotations

import logging
from typing import Any, Iterator, Mapping, Sequence

import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from ..batch import Batch
from ..errors import FailedPrecondition, InvalidArgument
from ..stream import Stream
from ._common import NO_WORKERS, ZERO, Source, check_options, check_workers, open_source

log = logging.getLogger("lanekeeper")


class StreamDataset(IterableDataset[dict[str, Any]]):
    """The batches of a stream as dicts of tensors; for a DataLoader with batch_size=None and num_workers=0.

    source:        a Stream; or an address, a configuration file, or a function that opens a stream: see `Source`.
    micro_batches: a step's rows come in so many dicts, for gradient accumulation; 1 … rows of a rank.
    keys:          which entries a dict has; None: all that `training` makes, and "step".
    copy:          tensors of their own, which may be written to. Else do not write to them in place.
    training:      options of `Batch.training`, for instance labels="same".

    Iterating begins where the stream is, and ends where it ends, on all ranks at the same step; epochs are the
    recipe's. It has no length, as a stream need not end.
    """

    def __init__(self, source: Source, *, micro_batches: int = 1, keys: Sequence[str] | None = None, copy: bool = False,
                 **training: Any) -> None:
        check_options(training)
        if micro_batches < 1:
            raise InvalidArgument(f"micro_batches={micro_batches}: expected at least 1")
        self._source = source
        self._stream: Stream | None = None
        self.micro_batches = micro_batches
        self.keys = None if keys is None else tuple(keys)
        self.copy = copy
        self.training = training
        self._begun: int | None = None    # the step some of whose micro-batches, but not all, were taken
        self._moves = 0                   # seeks, which end what an iterator has left of a step

    @property
    def stream(self) -> Stream:
        """The stream; it is opened now if it was not."""
        if self._stream is None:
            _refuse_workers()
            self._stream = open_source(self._source)
        return self._stream

    @property
    def step(self) -> int:
        """The next step: how many were taken whole."""
        return self.stream.step if self._begun is None else self._begun

    def __iter__(self) -> Iterator[dict[str, Any]]:
        _refuse_workers()
        return self._batches()

    def _batches(self) -> Iterator[dict[str, Any]]:
        stream = self.stream
        if self._begun is not None:    # an earlier iterator was left within a step: that is taken anew
            self.seek(self._begun)
        for batch in stream:
            moves = self._moves
            parts = self._cut(batch)
            for i, part in enumerate(parts):
                if self._moves != moves:
                    break
                self._begun = None if i + 1 == len(parts) else batch.step
                yield self._item(part)

    def _cut(self, batch: Batch) -> list[Batch]:
        return [batch] if self.micro_batches == 1 else list(batch.micro_batches(self.micro_batches))

    def _item(self, part: Batch) -> Any:
        return self.tensors(part)

    def tensors(self, batch: Batch) -> dict[str, Any]:
        """What iterating gives of a batch."""
        made = {**batch.training(**self.training).torch(copy=self.copy), "step": batch.step}
        if self.keys is None:
            return made
        missing = [key for key in self.keys if key not in made]
        if missing:
            raise InvalidArgument(f"keys: {', '.join(missing)} not among {', '.join(made)}")
        return {key: made[key] for key in self.keys}

    def seek(self, step: int) -> None:
        """Iterating goes on at @step, which a checkpoint of the trainer may know."""
        self.stream.seek(step)
        self._moved()

    def state_dict(self) -> dict[str, Any]:
        """`Stream.state_dict` of what was taken; a step that was taken in part is next again."""
        return self.stream.state_dict(self.step)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from the state of any rank of any number of ranks; see `Stream.load_state_dict`."""
        self.stream.load_state_dict(state_dict)
        self._moved()

    def _moved(self) -> None:
        self._begun = None
        self._moves += 1

    def set_epoch(self, epoch: int) -> None:
        """Changes nothing: a stream's epochs are its recipe's, and a step has the same batch whenever it comes."""
        log.debug("set_epoch(%d) changes nothing: the epochs of a stream are its recipe's", epoch)

    def __repr__(self) -> str:
        return f"StreamDataset({self._source if self._stream is None else self._stream!r})"


def _refuse_workers() -> None:
    if get_worker_info() is not None:
        raise FailedPrecondition(NO_WORKERS, ZERO)


def loader(source: Source, *, pin_memory: bool = False, num_workers: int = 0, stateful: bool = False,
           **dataset: Any) -> DataLoader[dict[str, Any]]:
    """A DataLoader over `StreamDataset(source, **dataset)`.

    pin_memory:  batches are copied to pinned memory, for `.to("cuda", non_blocking=True)`; needs CUDA.
    num_workers: 0. InvalidArgument otherwise, with the reason.
    stateful:    torchdata's StatefulDataLoader, which has state_dict and load_state_dict. Its state is of what the
                 loader gave, which is what was used unless something behind it fetches ahead.
    """
    check_workers(num_workers)
    if pin_memory and not torch.cuda.is_available():
        raise FailedPrecondition("pinned memory needs CUDA, and PyTorch sees no device", "leave pin_memory out")
    kind: Any = DataLoader
    if stateful:
        try:
            from torchdata.stateful_dataloader import StatefulDataLoader
            kind = StatefulDataLoader
        except ImportError:
            raise FailedPrecondition("StatefulDataLoader needs torchdata, which is not installed",
                                     "pip install torchdata, or keep the state_dict of the StreamDataset itself") from None
    made: DataLoader[dict[str, Any]] = kind(StreamDataset(source, **dataset), batch_size=None, num_workers=0,
                                            pin_memory=pin_memory)
    return made

