"""A batch as NumPy arrays that are the daemon's memory, and its life."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Iterator

import numpy as np
from numpy.typing import NDArray

from . import _native
from .errors import FailedPrecondition, InvalidArgument, error_of

if TYPE_CHECKING:
    from .training import Training

#: A row: `digest_lo`, `digest_hi`; `first_part`, `n_parts`: its pieces in `parts`; `used`: tokens that are data.
ROW = np.dtype([("digest_lo", "<u8"), ("digest_hi", "<u8"), ("first_part", "<u4"), ("n_parts", "<u4"),
                ("used", "<u4"), ("reserved", "<u4")])
#: A piece of a document: its `row` in the dataset, the `dataset`'s number, `epoch`, the `first` token of the
#: document that is in it (0: a document begins here), and how many `tokens`.
PART = np.dtype([("row", "<u8"), ("dataset", "<u4"), ("epoch", "<u4"), ("first", "<u4"), ("tokens", "<u4")])

_release = _native.lib.lanekeeper_release
_getpid = os.getpid


class Lease:
    """The right to read a batch's memory: given back when the last array that looks at it is gone."""

    __slots__ = ("raw", "pid", "memory")

    def __init__(self) -> None:
        self.raw = _native.Batch()
        self.memory: tuple[NDArray[Any], ...] = ()    # of a copy
        self.pid = _getpid()

    def check(self) -> None:
        if _getpid() != self.pid:
            raise FailedPrecondition(f"this batch was leased by process {self.pid}, of which this one is a forked child",
                                     "copy what the child is to have before forking (batch.tokens.copy())")

    def __del__(self, release: Any = _release, byref: Any = ctypes.byref, getpid: Any = _getpid) -> None:
        # A forked child must not give back what its parent holds.
        if getpid() == getattr(self, "pid", 0):
            release(byref(self.raw))


class _View:
    """What NumPy takes as the owner of an array's memory."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def view(address: int | None, shape: tuple[int, ...], dtype: str, owner: object) -> NDArray[Any]:
    """A read-only array over memory that @owner keeps alive, or an empty one."""
    if address is None or 0 in shape:
        empty = np.empty(shape, dtype)
        empty.flags.writeable = False
        return empty
    return np.asarray(_View({"version": 3, "shape": shape, "typestr": dtype, "data": (address, True)}, owner))


def _records(address: int | None, n: int, dtype: np.dtype[np.void], owner: object) -> NDArray[np.void]:
    return view(address, (n * dtype.itemsize,), "|u1", owner).view(dtype)


def writable_alias(array: NDArray[Any]) -> NDArray[Any]:
    """The same memory, not marked read-only, for libraries that know no read-only arrays.

    Writing to it, where it is the daemon's memory, ends the process (SIGSEGV).
    """
    if array.flags.writeable or array.size == 0:
        return array
    interface = array.__array_interface__
    return np.asarray(_View({**interface, "data": (interface["data"][0], False)}, array))


class Batch:
    """This rank's rows of one step.

    Its arrays are read-only views of the daemon's shared memory (or of bytes that came over the wire): nothing
    is copied. They stay as they are while the batch or any array or tensor made of it is referenced, whatever
    happens to the stream or the daemon meanwhile, and the memory goes back when the last of them is gone. To keep
    many batches, copy them: what is held is memory that the daemon cannot use.

    step:        number of the step, from 0.
    rows:        sequences of this rank.
    first_row:   number in the global batch of row 0.
    global_rows: sequences of the step, over all ranks.
    sequence:    T, tokens of a sequence.
    shared:      True: it lies in memory that the daemon shares.
    """

    __slots__ = ("step", "first_row", "rows", "global_rows", "sequence", "shared", "_lease", "_at", "_tokens",
                 "_of", "__weakref__")

    def __init__(self, lease: Lease) -> None:
        raw = lease.raw
        self.step: int = raw.step
        self.first_row: int = raw.first_row
        self.rows: int = raw.rows
        self.global_rows: int = raw.global_rows
        self.sequence: int = raw.sequence
        self.shared = bool(raw.shared)
        self._lease: Lease | None = lease
        self._at = 0    # row of the leased batch that our row 0 is
        self._tokens: NDArray[np.uint32] | None = None
        self._of: Batch | None = None    # the batch that this micro-batch is of

    def _held(self) -> Lease:
        lease = self._lease
        if lease is None:
            raise FailedPrecondition(f"the batch of step {self.step} was released")
        lease.check()
        return lease

    @property
    def tokens(self) -> NDArray[np.uint32]:
        """Token ids: uint32 [rows, sequence], read-only, not copied. Behind `used` tokens a row is padding."""
        if self._tokens is None:
            lease = self._held()
            raw = lease.raw
            address = raw.tokens and raw.tokens + self._at * self.sequence * 4
            self._tokens = view(address, (self.rows, self.sequence), "<u4", lease)
        return self._tokens

    @property
    def input_ids(self) -> NDArray[np.int32]:
        """The same memory as int32 [rows, sequence], which all frameworks know."""
        return self.tokens.view(np.int32)

    @property
    def row_table(self) -> NDArray[np.void]:
        """One record of dtype `ROW` a row, read-only: digest, pieces, used tokens."""
        lease = self._held()
        raw = lease.raw
        address = raw.row and raw.row + self._at * ROW.itemsize
        return _records(address, self.rows, ROW, lease)

    @property
    def used(self) -> NDArray[np.uint32]:
        """Tokens of each row that are data, uint32 [rows]; the rest of the row is padding."""
        used: NDArray[np.uint32] = self.row_table["used"]
        return used

    @property
    def parts(self) -> NDArray[np.void]:
        """One record of dtype `PART` a piece of a document; a row's are
        `parts[row.first_part : row.first_part + row.n_parts]`, in token order."""
        lease = self._held()
        raw = lease.raw
        return _records(raw.part, raw.n_parts, PART, lease)

    @property
    def digest(self) -> str | None:
        """Of this rank's cut, as 32 hexadecimal digits; `add_digests` of all ranks' is the step's.
        None for a micro-batch."""
        if self._of is not None:
            return None
        return _native.digest_text(bytes(self._held().raw.digest))

    def tokens_as(self, dtype: Any) -> NDArray[Any]:
        """A copy of the tokens as uint16, uint32 or int64. OutOfRange: an id does not fit uint16."""
        kinds = {np.dtype(np.uint16): _native.U16, np.dtype(np.uint32): _native.U32, np.dtype(np.int64): _native.I64}
        wanted = np.dtype(dtype)
        if wanted not in kinds:
            raise InvalidArgument(f"dtype {wanted}: expected uint16, uint32 or int64")
        raw = self._raw()
        out = np.empty((self.rows, self.sequence), wanted)
        if out.size == 0:
            return out
        code = _native.lib.lanekeeper_copy_tokens(ctypes.byref(raw), kinds[wanted], out.ctypes.data, out.nbytes)
        if code != 0:
            raise error_of(code, f"step {self.step}: a token id does not fit {wanted}")
        return out

    def _raw(self) -> _native.Batch:
        """The C struct of our rows. Ours to read, not to release."""
        raw = self._held().raw
        if self._of is None:
            return raw
        part = _native.Batch.from_buffer_copy(raw)
        part.tokens = raw.tokens + self._at * self.sequence * 4
        part.row = raw.row + self._at * ROW.itemsize
        part.rows = self.rows
        part.first_row = self.first_row
        return part

    def copy(self) -> Batch:
        """A batch that holds nothing of the daemon's: its `tokens` and `input_ids` are its own, and may be
        written to."""
        if self._of is not None:
            return self._of.copy()._cut(self._at, self._at + self.rows)
        lease = Lease()
        lease.raw = _native.Batch.from_buffer_copy(self._raw())
        lease.raw.owner = None
        lease.raw.shared = 0
        lease.memory = (self.tokens.copy(), self.row_table.copy(), self.parts.copy())
        for name, array in zip(("tokens", "row", "part"), lease.memory):
            setattr(lease.raw, name, array.ctypes.data)
        batch = Batch(lease)
        batch._tokens = lease.memory[0]
        return batch

    def release(self) -> None:
        """Lets go of the memory now, rather than with the batch. Arrays that are still referenced keep it."""
        self._lease = self._tokens = None

    def micro_batches(self, k: int) -> Iterator[Batch]:
        """The rows in @k consecutive cuts, as even as can be: cut i is the rows from rows·i÷k to rows·(i+1)÷k.

        Views of the same memory. InvalidArgument unless 1 <= k <= rows.
        """
        if not 1 <= k <= self.rows:
            raise InvalidArgument(f"{k} micro-batches of {self.rows} rows: expected 1 to {self.rows}")
        return iter([self._cut(self.rows * i // k, self.rows * (i + 1) // k) for i in range(k)])

    def _cut(self, begin: int, end: int) -> Batch:
        cut = object.__new__(type(self))
        for name in ("step", "global_rows", "sequence", "shared", "_lease"):
            setattr(cut, name, getattr(self, name))
        cut.rows = end - begin
        cut.first_row = self.first_row + begin
        cut._at = self._at + begin
        cut._tokens = None if self._tokens is None else self._tokens[begin:end]
        cut._of = self if self._of is None else self._of
        return cut

    def training(self, **options: Any) -> Training:
        """What a training step is fed with; see `lanekeeper.training.Training` and `make` there.

        labels=True ("shifted", "same", False), borders="masked" ("kept"), positions=True ("piece", "document",
        "row", False), cu_seqlens=True ("flat", "rows", False), loss_mask=True, document_ids=True,
        ignore_index=-100, dtype=numpy.int64 (or int32), cp=None ((rank, size) of context parallelism),
        cp_slice="zigzag" ("contiguous").
        """
        from .training import make
        return make(self, **options)

    # DLPack: torch.from_dlpack(batch), jax.dlpack.from_dlpack(batch): the int32 input ids.

    def __dlpack__(self, **how: Any) -> Any:
        try:
            return self.input_ids.__dlpack__(**how)
        except (BufferError, TypeError):    # a protocol or a NumPy without read-only arrays
            return writable_alias(self.input_ids).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)    # the CPU

    def __len__(self) -> int:
        return self.rows

    def __reduce__(self) -> Any:
        raise TypeError("a lanekeeper Batch cannot be pickled: it is memory of this machine; send batch.tokens.copy(), "
                        "or open a Stream of the same rank where it is needed")

    def __repr__(self) -> str:
        return (f"Batch(step={self.step}, rows={self.first_row}…{self.first_row + self.rows - 1} of {self.global_rows}, "
                f"sequence={self.sequence}, {'shared memory' if self.shared else 'own memory'})")


def add_digests(digests: list[str]) -> str:
    """Those of all ranks' cuts to that of the step."""
    return f"{sum(int(d, 16) for d in digests) % (1 << 128):032x}"
