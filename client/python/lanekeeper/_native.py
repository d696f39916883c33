"""liblanekeeper by ctypes: what client/c/lanekeeper.h declares, and no more.

tests/python/test_native.py compares sizes, offsets and numbers with the header. Every function
releases the GIL while it runs.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from ctypes import POINTER, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from .errors import NotFound

LOOKAHEAD_MAX = 64
STATE_MAX = 64
TIMEOUT_MAX_MS = 86_400_000
CONSUMED = 2**64 - 1

SHARED_AUTO, SHARED_NEVER, SHARED_ALWAYS = 0, 1, 2
U16, U32, I64, I32 = 2, 4, 8, 104
LABELS_NONE, LABELS_SHIFTED, LABELS_SAME = 0, 1, 2
BORDERS_MASKED, BORDERS_KEPT = 0, 1
POSITIONS_NONE, POSITIONS_PIECE, POSITIONS_DOCUMENT, POSITIONS_ROW = 0, 1, 2, 3
SLICE_CONTIGUOUS, SLICE_ZIGZAG = 0, 1
CU_SEQLENS_NONE, CU_SEQLENS_FLAT, CU_SEQLENS_ROWS = 0, 1, 2

Interrupted = ctypes.CFUNCTYPE(c_int, c_void_p)


class Error(ctypes.Structure):
    _fields_ = [("code", c_int), ("text", c_char * 1024)]


class Options(ctypes.Structure):
    _fields_ = [("address", c_char_p), ("stream", c_char_p), ("rank", c_uint32), ("world", c_uint32),
                ("step", c_uint64), ("lookahead", c_uint32), ("timeout_ms", c_uint32), ("sharing", c_int),
                ("state", c_char_p), ("state_bytes", c_size_t), ("interrupted", Interrupted),
                ("context", c_void_p)]


class Info(ctypes.Structure):
    _fields_ = [("stream_digest", c_uint8 * 16), ("order_digest", c_uint8 * 16), ("sequence", c_uint32),
                ("lanes", c_uint32), ("vocab", c_uint32), ("pad_id", c_uint32), ("datasets", c_uint32),
                ("shared", c_uint32), ("connections", c_uint64)]


class Row(ctypes.Structure):
    _fields_ = [("digest_lo", c_uint64), ("digest_hi", c_uint64), ("first_part", c_uint32),
                ("n_parts", c_uint32), ("used", c_uint32), ("reserved", c_uint32)]


class Part(ctypes.Structure):
    _fields_ = [("row", c_uint64), ("dataset", c_uint32), ("epoch", c_uint32), ("first", c_uint32),
                ("tokens", c_uint32)]


# Addresses are c_void_p throughout: NumPy looks at the memory, not ctypes.
class Batch(ctypes.Structure):
    _fields_ = [("step", c_uint64), ("first_row", c_uint32), ("rows", c_uint32), ("global_rows", c_uint32),
                ("sequence", c_uint32), ("tokens", c_void_p), ("row", c_void_p), ("part", c_void_p),
                ("n_parts", c_uint64), ("digest", c_uint8 * 16), ("shared", c_uint32), ("owner", c_void_p)]


class TrainingOptions(ctypes.Structure):
    _fields_ = [("dtype", c_int), ("labels", c_int), ("borders", c_int), ("positions", c_int),
                ("cu_seqlens", c_int), ("loss_mask", c_uint32), ("document_ids", c_uint32),
                ("ignore_index", c_int64)]


class Training(ctypes.Structure):
    _fields_ = [("rows", c_uint32), ("sequence", c_uint32), ("dtype", c_int), ("shared", c_uint32),
                ("input_ids", c_void_p), ("labels", c_void_p), ("positions", c_void_p),
                ("document_ids", c_void_p), ("loss_mask", c_void_p), ("cu_seqlens", c_void_p),
                ("max_seqlens", c_void_p), ("n_cu_seqlens", c_uint32), ("max_seqlen", c_int32),
                ("num_valid_tokens", c_uint64), ("owner", c_void_p)]


class TracePart(ctypes.Structure):
    _fields_ = [("dataset", c_char_p), ("shard", c_char_p), ("row_in_shard", c_uint64), ("row", c_uint64),
                ("sequence", c_uint32), ("at", c_uint32), ("tokens", c_uint32), ("epoch", c_uint32),
                ("first", c_uint32)]


class Trace(ctypes.Structure):
    _fields_ = [("n", c_size_t), ("part", POINTER(TracePart)), ("owner", c_void_p)]


_HANDLE = c_void_p
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "lanekeeper_code_name": (c_char_p, [c_int]),
    "lanekeeper_options_init": (None, [POINTER(Options)]),
    "lanekeeper_connect": (c_int, [POINTER(Options), POINTER(c_void_p), POINTER(Error)]),
    "lanekeeper_close": (None, [_HANDLE]),
    "lanekeeper_error_text": (c_char_p, [_HANDLE]),
    "lanekeeper_info": (c_int, [_HANDLE, POINTER(Info)]),
    "lanekeeper_dataset": (c_char_p, [_HANDLE, c_uint32]),
    "lanekeeper_next": (c_int, [_HANDLE, POINTER(Batch)]),
    "lanekeeper_get": (c_int, [_HANDLE, c_uint64, POINTER(Batch)]),
    "lanekeeper_release": (None, [POINTER(Batch)]),
    "lanekeeper_copy_tokens": (c_int, [POINTER(Batch), c_int, c_void_p, c_size_t]),
    "lanekeeper_training_options_init": (None, [POINTER(TrainingOptions)]),
    "lanekeeper_training": (c_int, [POINTER(Batch), POINTER(TrainingOptions), POINTER(Training), POINTER(Error)]),
    "lanekeeper_training_slice": (c_int, [POINTER(Training), c_uint32, c_uint32, c_int, POINTER(Training), POINTER(Error)]),
    "lanekeeper_training_done": (None, [POINTER(Training)]),
    "lanekeeper_state": (c_int, [_HANDLE, c_uint64, c_void_p, POINTER(c_size_t)]),
    "lanekeeper_resume": (c_int, [_HANDLE, c_char_p, c_size_t]),
    "lanekeeper_seek": (c_int, [_HANDLE, c_uint64]),
    "lanekeeper_step": (c_uint64, [_HANDLE]),
    "lanekeeper_sequences": (c_uint64, [_HANDLE, c_uint64]),
    "lanekeeper_digest": (c_int, [_HANDLE, c_uint64, c_uint64, c_void_p]),
    "lanekeeper_status": (c_int, [_HANDLE, POINTER(c_void_p)]),
    "lanekeeper_trace": (c_int, [_HANDLE, c_uint64, c_uint32, c_uint32, POINTER(Trace)]),
    "lanekeeper_trace_done": (None, [POINTER(Trace)]),
    "lanekeeper_free": (None, [c_void_p]),
}


def folders() -> list[pathlib.Path]:
    """Where the library and the programs may lie: LANEKEEPER_DIR, or what was installed with this package."""
    named = os.environ.get("LANEKEEPER_DIR")
    return [pathlib.Path(named)] if named else [pathlib.Path(__file__).parent / "_bin"]


def _load() -> ctypes.CDLL:
    for folder in folders():
        path = folder / "liblanekeeper.so"
        if path.exists():
            return ctypes.CDLL(str(path))
    try:
        return ctypes.CDLL("liblanekeeper.so.0")
    except OSError:
        looked = ", ".join(map(str, folders()))
        raise NotFound(f"liblanekeeper.so is neither in {looked} nor installed",
                       "`pip install ./client/python`, or set LANEKEEPER_DIR to the folder that `make` built in") from None


def _declare(library: ctypes.CDLL) -> ctypes.CDLL:
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


lib = _declare(_load())


def digest_text(digest: bytes) -> str:
    """32 hexadecimal digits, the high half first, as the daemon's log and the command line print it."""
    return digest[::-1].hex()
