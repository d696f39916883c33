"""A stream of batches: one rank of it."""

from __future__ import annotations

import atexit
import ctypes
import json
import logging
import operator
import os
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generator, Iterator, Mapping

from . import _native
from .batch import Batch, Lease, _getpid
from .daemon import PrivateDaemon, private, release
from .errors import Code, DataLoss, FailedPrecondition, InvalidArgument, LanekeeperError, OutOfRange, error_of
from .launch import resolve

log = logging.getLogger("lanekeeper")

_lib = _native.lib
_next = _lib.lanekeeper_next
_get = _lib.lanekeeper_get
_where = _lib.lanekeeper_step
_seek = _lib.lanekeeper_seek
_byref = ctypes.byref
_SHARED = {None: _native.SHARED_AUTO, False: _native.SHARED_NEVER, True: _native.SHARED_ALWAYS}
_STATE_VERSION = 1
_TELL_S = 5.0


@dataclass(frozen=True)
class Info:
    """What a stream is. Digests are 32 hexadecimal digits, as the command line prints them."""

    stream_digest: str         #: identifies what every step is
    order_digest: str          #: the same without the batch sizes
    sequence: int              #: T, tokens of a sequence
    lanes: int
    vocab: int                 #: every token id is below it
    pad_id: int                #: what fills the rest of a row
    datasets: tuple[str, ...]  #: names by the numbers that parts have
    shared: bool               #: batches come through shared memory at present
    connections: int           #: made so far: 1 + reconnects


@dataclass(frozen=True)
class TracePart:
    """Where a piece of a step came from."""

    dataset: str
    shard: str
    row_in_shard: int
    row: int       #: in the dataset
    sequence: int  #: row of the global batch
    at: int        #: first token in it
    tokens: int
    epoch: int     #: pass over the dataset, from 0
    first: int     #: token of the document where the piece begins


class Stream:
    """Rank @rank of @world of a stream of batches: `for batch in stream`, or any step: `stream[step]`.

    address:   "ipc:///path/of.sock" or "tcp://host:port" of a lanekeeperd; or the path of a configuration file, for
               which a private daemon is started that ends with this process; or None: $LANEKEEPER_ADDRESS.
    stream:    its name; None: the only one that the daemon serves.
    rank, world: 0 … world-1 of 1 … sequences of a step, among the data-parallel ranks (see `lanekeeper.parallel`).
               None: from torch.distributed, RANK and WORLD_SIZE, SLURM_*, OMPI_*, JAX; see `lanekeeper.launch`.
    step:      where iterating begins.
    lookahead: 0 … 64 steps asked for beyond the one that is used. Each costs the daemon a batch of memory.
    timeout:   seconds of every call, up to a day; None: no end. Then DeadlineExceeded says what was waited for, and
               asking again goes on waiting.
    copy:      True: batches are copies of their own. Else they are views of the daemon's memory: see `Batch`.
    state:     of `state_dict`, to go on from; step is not used then.
    shared:    None: shared memory if the daemon is on this machine; False: never; True: Unavailable if it cannot be.
    index:     of a configuration file: True: indexes that are missing are made first, with a word in the log; False:
               IndexMissing names the command that makes them.

    What a private daemon says, of rows that it drops for instance, goes to logging.getLogger("lanekeeper"), at the
    level that it has there; Python shows warnings without being asked.

    A restart of the daemon costs time and nothing else. Any thread may use a stream, one at a time; waiting releases
    the GIL, and Ctrl-C ends it. A forked child cannot use its parent's stream: it gets FailedPrecondition, and opens
    its own. What goes wrong is a `LanekeeperError`.

        with lanekeeper.Stream("lanekeeper.yaml") as stream:
            for batch in stream:
                train(batch.training())
                checkpoint["data"] = stream.state_dict()
    """

    def __init__(self, address: str | os.PathLike[str] | None = None, stream: str | None = None,
                 rank: int | None = None, world: int | None = None, step: int = 0, *, lookahead: int = 2,
                 timeout: float | None = 60.0, copy: bool = False, state: Mapping[str, Any] | None = None,
                 shared: bool | None = None, index: bool = True) -> None:
        self._handle: ctypes.c_void_p | None = None
        self._daemon: PrivateDaemon | None = None
        self._pid = _getpid()
        self._lock = threading.RLock()
        self._busy = False
        self._copy = copy
        self._patient = timeout is None
        self.stream = stream
        place = resolve(rank, world)
        self.rank, self.world, self._source = place
        self._settle_address(address, index)
        self._failure: list[BaseException] = []
        unanswered = [self.address]
        self._watch: Any = _native.Interrupted(_watching(self._daemon, self._failure, unanswered).send)
        handle = self._handle = self._connect(lookahead, timeout, step, state, shared)
        unanswered.clear()
        self._step: int = _where(handle)
        self._info = self._learn(handle)
        _open.add(self)

    # ---- connecting, and the end ----

    def _settle_address(self, address: str | os.PathLike[str] | None, index: bool) -> None:
        if address is None:
            address = os.environ.get("LANEKEEPER_ADDRESS")
            if not address:
                raise InvalidArgument("no address", "give the address of a lanekeeperd, or a configuration file, "
                                      "or set LANEKEEPER_ADDRESS")
        if isinstance(address, str) and "://" in address:
            self.address = address
        else:
            self._daemon = private(address, index=index)
            self.address = self._daemon.address

    def _connect(self, lookahead: int, timeout: float | None, step: int, state: Mapping[str, Any] | None,
                 shared: bool | None) -> ctypes.c_void_p:
        options, error, handle = _native.Options(), _native.Error(), ctypes.c_void_p()
        _lib.lanekeeper_options_init(_byref(options))
        options.address = self.address.encode()
        options.stream = None if self.stream is None else self.stream.encode()
        options.rank, options.world = self.rank, self.world
        options.step = _in_range("step", step, 2**64 - 1)
        options.lookahead = _in_range("lookahead", lookahead, _native.LOOKAHEAD_MAX)
        options.timeout_ms = _milliseconds(timeout)
        if shared not in _SHARED:
            raise InvalidArgument(f"shared={shared!r}: expected None, True or False")
        options.sharing = _SHARED[shared]
        if state is not None:
            packed = _state_bytes(state)
            options.state, options.state_bytes = packed, len(packed)
        options.interrupted = self._watch
        while True:
            code = _lib.lanekeeper_connect(_byref(options), _byref(handle), _byref(error))
            if code == Code.OK:
                break
            if not (self._patient and code in (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE)):
                self._raise(code, error.text)
        return handle

    def close(self) -> None:
        """Parts from the daemon, and ends a private one that no other stream uses. Batches stay as they are as long
        as they are referenced. Twice is fine; so is a stream that a forked child inherited."""
        if self._pid != _getpid():
            return
        with self._lock:
            if self._busy:
                raise FailedPrecondition("a call on this stream is running: it cannot be closed from within")
            handle, self._handle = self._handle, None
            _open.discard(self)
            if handle is not None:
                _lib.lanekeeper_close(handle)
            self._watch = None
            daemon, self._daemon = self._daemon, None
        if daemon is not None:
            release(daemon)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            self.close()

    # ---- calls ----

    def _raise(self, code: int, text: bytes) -> None:
        if code == Code.CANCELLED and self._failure:
            raise self._failure.pop()
        hint = None
        if code == Code.FAILED_PRECONDITION and b"stream digest" in text:
            hint = ("the recipe, the data or the tokenizer has changed since the state was made: go back to those, "
                    "or begin anew with step= instead of state=")
        raise error_of(code, text.decode(errors="replace"), hint)

    def _foreign(self) -> FailedPrecondition:
        return FailedPrecondition(
            f"this stream was opened by process {self._pid}; process {_getpid()} is a forked child of it and cannot use it",
            "open a Stream in the child itself; with a torch DataLoader, use num_workers=0: the daemon's workers do "
            "the work, and look-ahead hides the waiting")

    def _begin(self) -> ctypes.c_void_p:
        """The handle, for a call; under the lock."""
        if self._busy:    # only a signal handler gets here: the lock is this thread's
            raise FailedPrecondition("a call on this stream is being interrupted by a signal handler, in which "
                                     "only state_dict() and what asks no daemon may be used")
        if self._handle is None:
            raise FailedPrecondition("this stream is closed")
        return self._handle

    @contextmanager
    def _calling(self) -> Iterator[ctypes.c_void_p]:
        if self._pid != _getpid():    # before the lock, which a thread that is not here may hold
            raise self._foreign()
        with self._lock:
            handle = self._begin()
            self._busy = True
            try:
                yield handle
            finally:
                self._busy = False

    def _check(self, handle: ctypes.c_void_p, code: int) -> bool:
        """True: well. False: call again. Raises otherwise."""
        if code == Code.OK:
            return True
        if self._patient and code in (Code.DEADLINE_EXCEEDED, Code.UNAVAILABLE):
            return False
        self._raise(code, _lib.lanekeeper_error_text(handle))
        return False

    # ---- batches ----

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        """The batch of the next step. StopIteration: the stream has ended, on all ranks at this step.

        The step counts as used once this returns; after any failure, Ctrl-C included, the same step is next.
        """
        if self._pid != _getpid():
            raise self._foreign()
        if (daemon := self._daemon) is not None:
            daemon.heed()
        lease = Lease()
        try:
            with self._lock:
                handle = self._begin()
                self._busy = True
                try:
                    if _where(handle) != self._step:    # what C gave did not arrive: see below
                        _seek(handle, self._step)
                    while (code := _next(handle, _byref(lease.raw))) != 0:
                        if code == Code.OUT_OF_RANGE:
                            raise StopIteration
                        self._check(handle, code)
                finally:
                    self._busy = False
                batch = Batch(lease)
                self._step = batch.step + 1
        except BaseException:
            # A signal handler's exception may come as late as when the lock is released.
            if lease.raw.tokens and self._step == lease.raw.step + 1:
                self._step -= 1
            raise
        return batch.copy() if self._copy else batch

    def __getitem__(self, step: int) -> Batch:
        """The batch of any step, past or to come, without moving where iterating goes on.

        OutOfRange (an IndexError): the stream ends before it; the text says how many steps it has.
        """
        if isinstance(step, slice):
            raise TypeError("one step at a time: [stream[s] for s in range(…)]")
        step = operator.index(step)
        if step < 0:
            raise OutOfRange(f"step {step}: steps are counted from 0, and not from the end")
        if step >= 2**64:
            raise InvalidArgument(f"step={step}: expected 0 to {2**64 - 1}")
        if self._pid != _getpid():
            raise self._foreign()
        if (daemon := self._daemon) is not None:
            daemon.heed()
        lease = Lease()
        with self._lock:
            handle = self._begin()
            self._busy = True
            try:
                while (code := _get(handle, step, _byref(lease.raw))) != 0:
                    self._check(handle, code)
            finally:
                self._busy = False
        batch = Batch(lease)
        return batch.copy() if self._copy else batch

    # ---- where it is ----

    @property
    def step(self) -> int:
        """The next step of iterating: how many are used. What was only fetched ahead does not count."""
        return self._step

    def seek(self, step: int) -> None:
        """Iterating goes on at @step."""
        with self._calling() as handle:
            _seek(handle, _in_range("step", step, 2**64 - 1))
            self._step = step

    def skip(self, steps: int) -> None:
        """Leaves out the next @steps steps (or, negative, goes back), for instance those of a loss spike."""
        self.seek(self._step + steps)

    @property
    def sequences_seen(self) -> int:
        """Sequences of the steps before `step`, over all ranks."""
        return self._sequences(self._step)

    @property
    def tokens_seen(self) -> int:
        """Tokens of the steps before `step`, over all ranks, with padding. The same on every rank, after any
        restart, and under any number of ranks."""
        return self._sequences(self._step) * self._info.sequence

    def _still(self) -> ctypes.c_void_p:
        """The handle, for what only reads what never changes: without the lock, also in a signal handler."""
        if self._pid != _getpid():
            raise self._foreign()
        handle = self._handle
        if handle is None:
            raise FailedPrecondition("this stream is closed")
        return handle

    def _sequences(self, step: int) -> int:
        return int(_lib.lanekeeper_sequences(self._still(), step))

    def state_dict(self, step: int | None = None) -> dict[str, Any]:
        """What to put into a checkpoint: numbers and strings, for JSON or torch.save; the same on every rank.

        It says which step is next, counting what was used, and of which stream. A signal handler may call this. Any
        number of ranks may go on from it. @step: the next one, where the caller knows better than `step`, for instance
        because a framework fetches ahead.
        """
        handle = self._still()
        out, n = (ctypes.c_uint8 * _native.STATE_MAX)(), ctypes.c_size_t()
        step = self._step if step is None else _in_range("step", step, 2**64 - 1)
        _lib.lanekeeper_state(handle, step, out, _byref(n))
        return {"version": _STATE_VERSION, "step": step, "stream_digest": self._info.stream_digest,
                "state": bytes(out[:n.value]).hex()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Iterating goes on from a state, whichever rank's of however many it was; at any time, also after iterating
        has begun.

        FailedPrecondition: it is of another stream (both digests are named). DataLoss: it is damaged. InvalidArgument:
        it is no state of `state_dict`. The stream is then where it was.
        """
        packed = _state_bytes(state_dict)
        with self._calling() as handle:
            self._check(handle, _lib.lanekeeper_resume(handle, packed, len(packed)))
            step = int(_where(handle))
            if step != state_dict["step"]:
                _seek(handle, self._step)
                raise DataLoss(f"the state says step {state_dict['step']!r}, and means {step}: it was changed by hand",
                               "to go on elsewhere use seek(step) or skip(steps)")
            self._step = step

    # ---- what it is ----

    @property
    def info(self) -> Info:
        """What the stream is; never asks the daemon. While another thread, or a call under a signal handler, uses the
        stream, `shared` and `connections` are as they were last."""
        if self._pid != _getpid():
            raise self._foreign()
        if self._lock.acquire(blocking=False):
            try:
                if self._handle is not None and not self._busy:
                    self._info = self._learn(self._handle)
            finally:
                self._lock.release()
        return self._info

    @staticmethod
    def _learn(handle: ctypes.c_void_p) -> Info:
        raw = _native.Info()
        _lib.lanekeeper_info(handle, _byref(raw))
        names = tuple(_lib.lanekeeper_dataset(handle, i).decode() for i in range(raw.datasets))
        return Info(_native.digest_text(bytes(raw.stream_digest)), _native.digest_text(bytes(raw.order_digest)),
                    raw.sequence, raw.lanes, raw.vocab, raw.pad_id, names, bool(raw.shared), raw.connections)

    def status(self) -> dict[str, Any]:
        """The daemon's status, the document of `lanekeeper status --json`."""
        text = ctypes.c_void_p()
        with self._calling() as handle:
            while not self._check(handle, _lib.lanekeeper_status(handle, _byref(text))):
                pass
        try:
            found: dict[str, Any] = json.loads(ctypes.string_at(text.value or 0))
            return found
        finally:
            _lib.lanekeeper_free(text)

    def digest(self, step: int) -> str:
        """Of all rows of a step, as `lanekeeper digest` prints it. The daemon makes the step."""
        return self.digests(step, step + 1)[0]

    def digests(self, begin: int, end: int) -> list[str]:
        """Of the steps begin … end-1, at most 10,000. All of them within the timeout."""
        begin, end = _in_range("begin", begin, 2**64 - 1), _in_range("end", end, 2**64 - 1)
        if not 0 <= end - begin <= 10_000:
            raise InvalidArgument(f"steps {begin} to {end}: expected a range of at most 10,000 steps")
        out = ctypes.create_string_buffer(max(1, 16 * (end - begin)))
        with self._calling() as handle:
            while not self._check(handle, _lib.lanekeeper_digest(handle, begin, end, out)):
                pass
        return [_native.digest_text(out.raw[16 * i:16 * i + 16]) for i in range(end - begin)]

    def trace(self, step: int, first_row: int = 0, rows: int | None = None) -> list[TracePart]:
        """Which documents the rows first_row … first_row + rows - 1 of the global batch of a step are made of; None:
        all from first_row on."""
        found = _native.Trace()
        if rows == 0:
            return []
        with self._calling() as handle:
            while not self._check(handle, _lib.lanekeeper_trace(
                    handle, _in_range("step", step, 2**64 - 1), _in_range("first_row", first_row, 2**32 - 1),
                    0 if rows is None else _in_range("rows", rows, 2**32 - 1), _byref(found))):
                pass
        try:
            return [TracePart(p.dataset.decode(), p.shard.decode(errors="surrogateescape"), p.row_in_shard, p.row,
                              p.sequence, p.at, p.tokens, p.epoch, p.first) for p in found.part[:found.n]]
        finally:
            _lib.lanekeeper_trace_done(_byref(found))

    @property
    def daemon(self) -> PrivateDaemon | None:
        """The private daemon of a configuration file."""
        return self._daemon

    def __reduce__(self) -> Any:
        raise TypeError("a lanekeeper Stream cannot be pickled: it is a connection of this process; pass the address "
                        "and state_dict(), and open a Stream where it is needed (with a torch DataLoader: num_workers=0)")

    def __repr__(self) -> str:
        name = "" if self.stream is None else f"{self.stream!r}, "
        closed = "" if self._handle is not None else ", closed"
        return f"Stream({self.address!r}, {name}rank={self.rank}, world={self.world} ({self._source}), step={self._step}{closed})"


# ---- helpers ----

def _in_range(name: str, value: int, most: int) -> int:
    value = operator.index(value)
    if not 0 <= value <= most:
        raise InvalidArgument(f"{name}={value}: expected 0 to {most}")
    return value


def _milliseconds(timeout: float | None) -> int:
    if timeout is None:
        return _native.TIMEOUT_MAX_MS
    if not 0 < timeout <= _native.TIMEOUT_MAX_MS / 1000:
        raise InvalidArgument(f"timeout={timeout}: expected seconds, above 0 and up to a day, or None")
    return max(1, round(timeout * 1000))


def _state_bytes(state: Mapping[str, Any]) -> bytes:
    """The C library's state in what state_dict made."""
    if not isinstance(state, Mapping) or not isinstance(state.get("state"), str) or "step" not in state:
        raise InvalidArgument(f"no state of Stream.state_dict: {str(state)[:100]}",
                              "pass the whole dict; to go on from a bare step use step= or seek(step)")
    if state.get("version") != _STATE_VERSION:
        raise InvalidArgument(f"a state of version {state.get('version')!r}; this lanekeeper knows version {_STATE_VERSION}")
    try:
        return bytes.fromhex(state["state"])
    except ValueError:
        raise DataLoss("the state is damaged: its text is not hexadecimal") from None


def _watching(daemon: PrivateDaemon | None, failure: list[BaseException],
              unanswered: list[str]) -> Generator[int, Any, None]:
    """What C calls ten times a second while it waits: has the user pressed Ctrl-C, or the private daemon ended?

    A generator, so that what a signal handler raises as Python code begins to run is raised inside of the `try`:
    where a function begins it would be lost, as C cannot pass it on. @unanswered: an address that is told, once, if
    it is still there after a while: a wrong one looks like a daemon that is not up yet.
    """
    def watch() -> Generator[int, Any, None]:
        answer = 0
        tell = time.monotonic() + _TELL_S
        while True:
            try:
                while True:
                    yield answer
                    answer = 0
                    if daemon is not None:
                        daemon.check()
                    if unanswered and time.monotonic() > tell:
                        log.warning("no lanekeeperd answers at %s yet; waiting for one", unanswered.pop())
            except GeneratorExit:
                raise
            except BaseException as error:    # noqa: B036 - it is raised again where C was called
                failure.append(error)
                answer = 1
    made = watch()
    next(made)
    return made


_open: weakref.WeakSet[Stream] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Leases and private daemons are given back in order, while there is a Python to do it."""
    for stream in list(_open):
        if stream._pid != _getpid() or not stream._lock.acquire(timeout=1.0):
            continue    # a thread waits in it, and ends with the process, as does the daemon's pipe
        try:
            stream.close()
        except LanekeeperError as error:
            log.debug("at exit: %s", error)
        finally:
            stream._lock.release()
