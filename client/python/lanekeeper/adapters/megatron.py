"""Megatron-core: a stream as the data iterator of its schedules.

    from lanekeeper.adapters.megatron import BatchIterator, open_stream
    data = BatchIterator(open_stream("ipc:///run/lanekeeper.sock"), num_microbatches=get_num_microbatches())
    forward_backward_func(forward_step_func=…, data_iterator=data, num_microbatches=…, …)

    def forward_step(data_iterator, model):
        batch = next(data_iterator)     # on every tensor- and pipeline-parallel rank: nothing is broadcast
        output = model(batch["tokens"], batch["position_ids"], batch["attention_mask"], labels=batch["labels"],
                       packed_seq_params=batch["packed_seq_params"])

Tensor- and pipeline-parallel peers ask for the same rank, and read, on one machine, the same memory; so no rank has to
send another what it was given (is_dataset_built_on_rank is true everywhere).
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import torch

from .. import parallel
from ..errors import InvalidArgument
from ..parallel import DataParallel
from ..stream import Stream
from .torch import StreamDataset


def open_stream(address: Any, **options: Any) -> Stream:
    """A Stream of this process's data-parallel rank, as Megatron's parallel state has it; see `Stream` for options.

    FailedPrecondition: the parallel state is not initialised.
    """
    place = parallel.from_megatron()
    return Stream(address, rank=place.rank, world=place.world, **options)


class BatchIterator:
    """An iterator over micro-batches, each a dict:

    tokens, labels, position_ids: int64 [rows, T]; packed: [1, rows·T].
    loss_mask:         float32, of the same shape: 1 where the label counts.
    attention_mask:    None: causal, which transformer engines make themselves.
    packed_seq_params: packed=True: Megatron's PackedSeqParams ("thd"): documents do not see each other. Else None.

    stream:           of the data-parallel rank: `open_stream`.
    num_microbatches: a step of the stream, which is a global batch, comes in so many.
    packed:           True: documents are sequences of their own. InvalidArgument with context parallelism, which
                      would need each document padded and cut by itself.
    place:            for context parallelism: this rank's columns; None: as the parallel state has it.
    training:         other options of `Batch.training`. Labels that do not count are 0 by default, as Megatron
                      computes their loss before it masks it.
    """

    def __init__(self, stream: Stream, *, num_microbatches: int = 1, packed: bool = False,
                 place: DataParallel | None = None, device: Any = None, **training: Any) -> None:
        place = parallel.from_megatron() if place is None else place
        if packed and place.cp_size > 1:
            raise InvalidArgument(f"packed=True with {place.cp_size} context-parallel ranks: documents would have to be padded "
                                  "and cut one by one", "use packed=False, or no context parallelism")
        training = {"ignore_index": 0, "document_ids": False, **training}
        if place.cp_size > 1:
            training["cp"] = place
        self._data = StreamDataset(stream, micro_batches=num_microbatches, **training)
        self._batches = iter(self._data)
        self._packed = packed
        self._device = device

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next micro-batch. StopIteration: the stream has ended, on all ranks at this step."""
        made = next(self._batches)
        batch: dict[str, Any] = {"tokens": made["input_ids"], "labels": made["labels"],
                                 "loss_mask": made["loss_mask"].float(), "position_ids": made["position_ids"]}
        if self._packed:
            batch = {name: tensor.view(1, -1) for name, tensor in batch.items()}
        bounds: torch.Tensor = made["cu_seqlens"]
        if self._device is not None:
            batch = {name: tensor.to(self._device, non_blocking=True) for name, tensor in batch.items()}
            bounds = bounds.to(self._device, non_blocking=True)
        batch["attention_mask"] = None
        batch["packed_seq_params"] = _packed(bounds, made["max_seqlen"]) if self._packed else None
        return batch

    @property
    def step(self) -> int:
        """The next step: how many were taken whole."""
        return self._data.step

    def seek(self, step: int) -> None:
        """Iterating goes on at @step: Megatron's iteration, where a step is one."""
        self._data.seek(step)
        self._batches = iter(self._data)

    def state_dict(self) -> dict[str, Any]:
        """`Stream.state_dict` of what was taken; the same on every rank."""
        return self._data.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from the state of any rank of any layout; see `Stream.load_state_dict`."""
        self._data.load_state_dict(state_dict)
        self._batches = iter(self._data)


def _packed(bounds: torch.Tensor, most: int) -> Any:
    from megatron.core.packed_seq_params import PackedSeqParams
    return PackedSeqParams(qkv_format="thd", cu_seqlens_q=bounds, cu_seqlens_kv=bounds, max_seqlen_q=most, max_seqlen_kv=most)
