"""TorchTitan: a stream as its data loader.

    from lanekeeper.adapters.torchtitan import LanekeeperLoader
    config.dataloader = LanekeeperLoader.Config(address="ipc:///run/lanekeeper.sock")

TorchTitan takes its global batch in micro-batches of training.local_batch_size rows a rank; so does this, and a step
of the stream is a step of training where the recipe's batch is training.global_batch_size and its sequence
training.seq_len. Rank and world are the ones TorchTitan gives its loaders: those of its data-parallel mesh.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping

import torch
from torchtitan.components.dataloader import BaseDataLoader

from ..errors import InvalidArgument
from ..stream import Stream
from .torch import StreamDataset


class LanekeeperLoader(BaseDataLoader):    # type: ignore[misc]
    """({"input", "positions"}, labels) of training.local_batch_size rows; positions begin anew in each document, from
    which TorchTitan's flex and varlen attention make their masks.

    InvalidArgument: the sequence is not training.seq_len, or the rows of a rank are no multiple of local_batch_size.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):    # type: ignore[misc]
        address: str = ""
        """Address of a lanekeeperd, or a configuration file."""
        stream: str | None = None
        """Its name; None: the only one that there is."""
        borders: str = "masked"
        """Whether labels go across documents: masked or kept."""

    def __init__(self, config: Config, *, dp_world_size: int, dp_rank: int, seq_len: int, local_batch_size: int,
                 **_: Any) -> None:
        stream = Stream(config.address, config.stream, dp_rank, dp_world_size)
        if stream.info.sequence != seq_len:
            raise InvalidArgument(f"training.seq_len={seq_len}, but the stream's sequences have {stream.info.sequence} tokens",
                                  "make them equal: set sequence in the recipe, or training.seq_len")
        self._rows = local_batch_size
        self._stream = stream
        self._next: int | None = None    # the step after those taken whole; None: where the stream is
        self._data = StreamDataset(stream, keys=("input_ids", "labels", "position_ids"), borders=config.borders)

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        if self._next is not None and self._next != self._stream.step:
            self._stream.seek(self._next)
        for batch in self._stream:
            self._next = batch.step
            if batch.rows % self._rows != 0:
                raise InvalidArgument(f"a rank has {batch.rows} rows, which is no multiple of training.local_batch_size={self._rows}",
                                      "choose a batch in the recipe, or a local_batch_size, that divides")
            k = batch.rows // self._rows
            for i, part in enumerate(batch.micro_batches(k)):
                self._next = batch.step + (i + 1 == k)
                made = self._data.tensors(part)
                yield {"input": made["input_ids"], "positions": made["position_ids"]}, made["labels"]

    def state_dict(self) -> dict[str, Any]:
        """`Stream.state_dict` of the steps that were taken whole; the same on every rank."""
        return self._stream.state_dict(self._next)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from the state of any rank of however many. An empty one, of a checkpoint without, changes nothing."""
        if state_dict:
            self._stream.load_state_dict(state_dict)
            self._next = None

    def close(self) -> None:
        self._stream.close()
