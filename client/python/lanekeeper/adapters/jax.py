"""JAX: a stream as an iterator of NumPy arrays or of global `jax.Array`s, with the state that Grain's iterators have.

    from lanekeeper.adapters.jax import BatchIterator
    batches = BatchIterator("ipc:///run/lanekeeper.sock", sharding=NamedSharding(mesh, PartitionSpec("data")))
    for batch in batches:
        state, loss = train(state, batch["input_ids"], batch["labels"])
    checkpoint["data"] = batches.get_state()        # numbers and strings, the same in every process

Each process asks for its own rows; with a sharding they become one array over all processes, without a copy between
them.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

import jax
import numpy as np

from ..errors import FailedPrecondition
from ..stream import Stream
from ._common import Source, check_options, open_source

_ROWS = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask")


class BatchIterator:
    """Dicts of input_ids, labels, position_ids, document_ids (int32 [rows, T]) and loss_mask (bool), and "step".

    source:   a Stream; or an address, a configuration file, or a function that opens a stream: see `_common.Source`.
              Rank and world are then jax.process_index() and process_count(), unless the environment says otherwise.
    sharding: None: NumPy arrays of this process's rows, views of the daemon's memory. Else a Sharding whose first
              dimension is that of the global batch: global `jax.Array`s. Each process must hold the rows that it asks
              for, which is so where devices are in the order of processes and the batch divides.
    training: options of `Batch.training`; dtype is int32 by default, cu_seqlens, of one process alone, False.
    """

    def __init__(self, source: Source, *, sharding: jax.sharding.Sharding | None = None, **training: Any) -> None:
        check_options(training)
        self.training = {"dtype": np.int32, "cu_seqlens": False, **training}
        self._sharding = sharding
        self._source = source
        self._stream: Stream | None = None

    @property
    def stream(self) -> Stream:
        """The stream; it is opened now if it was not."""
        if self._stream is None:
            self._stream = open_source(self._source)
        return self._stream

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        """The next step. StopIteration: the stream has ended, in all processes at this step.

        FailedPrecondition: the sharding does not give this process the rows that it asked for.
        """
        batch = next(self.stream)
        made = dict(batch.training(**self.training))
        if self._sharding is not None:
            shape = (batch.global_rows, made["input_ids"].shape[1])
            try:
                self._check_rows(batch, shape)
            except FailedPrecondition:
                self.stream.seek(batch.step)    # it was not used
                raise
            whole: Any = jax.make_array_from_process_local_data    # which has no types
            for name in _ROWS:
                if name in made:
                    made[name] = whole(self._sharding, made[name], shape)
        return {**made, "step": batch.step}

    def _check_rows(self, batch: Any, shape: tuple[int, int]) -> None:
        indices: Any = self._sharding.addressable_devices_indices_map(shape).values()    # type: ignore[union-attr]
        held = {index[0].indices(shape[0])[:2] for index in indices}
        first, last = min(begin for begin, _ in held), max(end for _, end in held)
        if (first, last) != (batch.first_row, batch.first_row + batch.rows):
            raise FailedPrecondition(
                f"step {batch.step}: this process's devices hold rows {first} to {last - 1} of {shape[0]}, but "
                f"the stream gave it {batch.rows} rows from {batch.first_row} on",
                "let the sharding's first axis follow the processes, with a batch that they divide; or give rank= and world=")

    def get_state(self) -> dict[str, Any]:
        """`Stream.state_dict`: JSON-able, the same in every process."""
        return self.stream.state_dict()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from the state of any process of however many; see `Stream.load_state_dict`."""
        self.stream.load_state_dict(state)
