"""What a training step is fed with: input ids, labels, positions, documents. Made in C, or by the daemon
once for all processes of a node that look at the same rows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _native
from .batch import Batch, Lease, _getpid, view, writable_alias
from .errors import FailedPrecondition, InvalidArgument, error_of
from .parallel import DataParallel

_LABELS = {True: _native.LABELS_SHIFTED, "shifted": _native.LABELS_SHIFTED, "same": _native.LABELS_SAME,
           False: _native.LABELS_NONE, None: _native.LABELS_NONE}
_BORDERS = {"masked": _native.BORDERS_MASKED, "kept": _native.BORDERS_KEPT}
_POSITIONS = {True: _native.POSITIONS_PIECE, "piece": _native.POSITIONS_PIECE,
              "document": _native.POSITIONS_DOCUMENT, "row": _native.POSITIONS_ROW,
              False: _native.POSITIONS_NONE, None: _native.POSITIONS_NONE}
_CU_SEQLENS = {True: _native.CU_SEQLENS_FLAT, "flat": _native.CU_SEQLENS_FLAT, "rows": _native.CU_SEQLENS_ROWS,
               False: _native.CU_SEQLENS_NONE, None: _native.CU_SEQLENS_NONE}
_SLICES = {"zigzag": _native.SLICE_ZIGZAG, "contiguous": _native.SLICE_CONTIGUOUS}
_DTYPES = {np.dtype(np.int32): (_native.I32, "<i4"), np.dtype(np.int64): (_native.I64, "<i8")}


class _Arrays:
    """What lanekeeper_training made, until the last array that looks at it is gone."""

    __slots__ = ("raw", "pid", "lease")

    def __init__(self, lease: Lease) -> None:
        self.raw = _native.Training()
        self.lease = lease    # of a copy, the memory of int32 input_ids
        self.pid = _getpid()

    def __del__(self, done: Any = _native.lib.lanekeeper_training_done, byref: Any = ctypes.byref,
                getpid: Any = _getpid) -> None:
        if getpid() == getattr(self, "pid", 0):
            done(byref(self.raw))


class Training(Mapping[str, Any]):
    """The arrays of a training step; also a mapping of those that were asked for: `model(**batch.training())`.

    Read-only views, T tokens a row. A piece is a document or what of it lies in the row; a border lies between two
    pieces, and where the padding begins. What is padding the packer knows: it is never guessed from an id.

    input_ids:        dtype [rows, T]. int32: the batch's own memory.
    labels:           dtype [rows, T]. "shifted": label[i] is token[i + 1], the last of a row is ignored. "same":
                      label[i] is token[i], for models that shift by themselves (Hugging Face). Padding, and with
                      borders="masked" what would be predicted from another piece, is `ignore_index`.
    position_ids:     dtype [rows, T]. "piece": from 0 in each piece; "document": the token's place in its document,
                      which may exceed T; "row": 0 … T-1.
    document_ids:     dtype [rows, T]. Number of the piece in its row, from 0; padding -1.
    loss_mask:        bool [rows, T]. True where the label counts.
    cu_seqlens:       int32. "flat": [n], over all rows, from 0 to rows·T. "rows": [rows, n], each from 0 to T, and T
                      again up to the common length. A row's padding is a piece of its own.
    max_seqlen:       int: tokens of the longest piece.
    max_seqlens:      int32 [rows], with cu_seqlens="rows".
    num_valid_tokens: int: labels that count, the sum of the loss mask.

    With cp=(rank, size), or a `parallel.DataParallel`, all arrays [rows, T] are the columns of that context-parallel rank,
    [rows, T / size], copied: "zigzag", chunks rank and 2·size-1-rank of 2·size, as Megatron has it; or "contiguous".
    num_valid_tokens counts them alone; cu_seqlens and max_seqlen are those of the whole rows.
    """

    __slots__ = ("_values", "shared", "step")

    def __init__(self, values: dict[str, Any], step: int, shared: bool) -> None:
        self._values = values
        self.step = step
        #: True: the daemon made the arrays, and all processes of these rows look at the same.
        self.shared = shared

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(f"{name}: not asked for of batch.training(), which made {', '.join(self._values)}") from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def torch(self, *, device: Any = None, copy: bool = False) -> dict[str, Any]:
        """The same as tensors over the same memory; numbers stay numbers.

        Do not write to them in place: it is read-only memory, and the process would end (SIGSEGV). @copy: tensors of
        their own, which may be written to. @device: where to copy to, for instance "cuda".
        """
        import torch
        made: dict[str, Any] = {}
        for name, value in self._values.items():
            if isinstance(value, np.ndarray):
                tensor = torch.from_numpy(value.copy() if copy and device is None else writable_alias(value))
                made[name] = tensor if device is None else tensor.to(device, copy=copy)
            else:
                made[name] = value
        return made

    def pin(self) -> dict[str, Any]:
        """The same as tensors in pinned memory, copied, for `.to("cuda", non_blocking=True)`.

        FailedPrecondition: there is no CUDA here.
        """
        return pin(self._values)

    def __reduce__(self) -> Any:
        raise TypeError("lanekeeper's training arrays cannot be pickled: they are memory of this machine; "
                        "send copies of them")

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name}{list(value.shape)} {value.dtype}" if isinstance(value, np.ndarray) else f"{name}={value}"
                           for name, value in self._values.items())
        return f"Training(step={self.step}, {shapes})"


def pin(values: Mapping[str, Any] | Batch) -> dict[str, Any]:
    """Copies of arrays as torch tensors in pinned memory; of a batch: its input_ids.

    FailedPrecondition: there is no torch with CUDA here, or it sees no device.
    """
    try:
        import torch
    except ImportError:
        raise FailedPrecondition("pinned memory needs PyTorch, which is not installed") from None
    if not torch.cuda.is_available():
        raise FailedPrecondition("pinned memory needs CUDA, and PyTorch sees no device", "use .torch() on a CPU")
    if isinstance(values, Batch):
        values = {"input_ids": values.input_ids}
    pinned: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            source = torch.from_numpy(writable_alias(value))
            pinned[name] = torch.empty(source.shape, dtype=source.dtype, pin_memory=True).copy_(source)
        else:
            pinned[name] = value
    return pinned


def _choose(table: dict[Any, int], name: str, value: Any) -> int:
    try:
        return table[value]
    except (KeyError, TypeError):
        words = ", ".join(repr(key) for key in table if key is not None)
        raise InvalidArgument(f"{name}={value!r}: expected one of {words}") from None


def make(batch: Batch, labels: bool | str = True, positions: bool | str = True, cu_seqlens: bool | str = True,
         loss_mask: bool = True, document_ids: bool = True, *, borders: str = "masked", ignore_index: int = -100,
         dtype: Any = np.int64, cp: tuple[int, int] | DataParallel | None = None, cp_slice: str = "zigzag") -> Training:
    """`Batch.training`. InvalidArgument: an option is none of those that there are, or does not fit."""
    if batch._of is not None:
        full = make(batch._of, labels, positions, cu_seqlens, True, document_ids, borders=borders,
                    ignore_index=ignore_index, dtype=dtype, cp=cp, cp_slice=cp_slice)
        return _cut(full, batch, loss_mask)
    kind, typestr = _DTYPES.get(np.dtype(dtype), (0, ""))
    if kind == 0:
        raise InvalidArgument(f"dtype {np.dtype(dtype)}: expected int32 or int64")
    options = _native.TrainingOptions(
        kind, _choose(_LABELS, "labels", labels), _choose(_BORDERS, "borders", borders),
        _choose(_POSITIONS, "positions", positions), _choose(_CU_SEQLENS, "cu_seqlens", cu_seqlens),
        bool(loss_mask), bool(document_ids), ignore_index)
    made, error = _Arrays(batch._held()), _native.Error()
    code = _native.lib.lanekeeper_training(ctypes.byref(batch._raw()), ctypes.byref(options),
                                           ctypes.byref(made.raw), ctypes.byref(error))
    if code != 0:
        raise error_of(code, error.text.decode(errors="replace"))
    if cp is not None:
        made = _slice(made, cp, cp_slice)
    return _wrap(batch, made, options, typestr)


def _slice(whole: _Arrays, cp: tuple[int, int] | DataParallel, kind: str) -> _Arrays:
    """The context-parallel part of all arrays."""
    rank, size = (cp.cp_rank, cp.cp_size) if isinstance(cp, DataParallel) else cp
    if not 0 <= rank < size < 2**32:
        raise InvalidArgument(f"cp={tuple(cp)}: expected 0 <= rank < size")
    part, error = _Arrays(whole.lease), _native.Error()
    code = _native.lib.lanekeeper_training_slice(ctypes.byref(whole.raw), rank, size, _choose(_SLICES, "cp_slice", kind),
                                                 ctypes.byref(part.raw), ctypes.byref(error))
    if code != 0:
        raise error_of(code, error.text.decode(errors="replace"))
    return part


def _wrap(batch: Batch, made: _Arrays, options: _native.TrainingOptions, typestr: str) -> Training:
    raw = made.raw
    shape = (raw.rows, raw.sequence)
    values: dict[str, Any] = {"input_ids": view(raw.input_ids, shape, typestr, made)}
    if options.labels:
        values["labels"] = view(raw.labels, shape, typestr, made)
    if options.positions:
        values["position_ids"] = view(raw.positions, shape, typestr, made)
    if options.cu_seqlens:
        flat = options.cu_seqlens == _native.CU_SEQLENS_FLAT
        n = raw.n_cu_seqlens
        values["cu_seqlens"] = view(raw.cu_seqlens, (n,) if flat else (raw.rows, n), "<i4", made)
        values["max_seqlen"] = raw.max_seqlen
        if not flat:
            values["max_seqlens"] = view(raw.max_seqlens, (raw.rows,), "<i4", made)
    if options.loss_mask:
        values["loss_mask"] = view(raw.loss_mask, shape, "|b1", made)
    if options.document_ids:
        values["document_ids"] = view(raw.document_ids, shape, typestr, made)
    values["num_valid_tokens"] = raw.num_valid_tokens
    return Training(values, batch.step, bool(raw.shared))


def _cut(full: Training, part: Batch, loss_mask: bool) -> Training:
    """The rows of a micro-batch of what was made for the whole."""
    rows = slice(part._at, part._at + part.rows)
    values: dict[str, Any] = {}
    for name, value in full.items():
        values[name] = value[rows] if isinstance(value, np.ndarray) and name != "cu_seqlens" else value
    if "max_seqlens" in full:
        entries = full["cu_seqlens"][rows]
        values["cu_seqlens"] = entries[:, :int((entries < part.sequence).sum(1).max()) + 1]
        values["max_seqlen"] = int(values["max_seqlens"].max())
    elif "cu_seqlens" in full:
        values["cu_seqlens"] = _cut_flat(full["cu_seqlens"], rows.start * part.sequence, rows.stop * part.sequence)
        values["max_seqlen"] = int(np.diff(values["cu_seqlens"]).max())
    values["num_valid_tokens"] = int(np.count_nonzero(values["loss_mask"]))
    if not loss_mask:
        del values["loss_mask"]
    return Training(values, part.step, full.shared)


def _cut_flat(cu_seqlens: NDArray[np.int32], begin: int, end: int) -> NDArray[np.int32]:
    """Every row begins a piece, so both ends are among the entries."""
    first, last = np.searchsorted(cu_seqlens, [begin, end])
    cut: NDArray[np.int32] = cu_seqlens[first:last + 1] - np.int32(begin)
    cut.flags.writeable = False
    return cut
