"""A daemon of one's own: what a Stream starts that is given a configuration instead of an address.

It listens on a Unix socket in a new folder, and holds the reading end of a pipe whose writing end is
here: when this process ends, however that may be, the kernel closes the pipe, and the daemon cleans
up and ends. Its log has no name in the file system either; what it says goes on to the logger "lanekeeper".
"""

from __future__ import annotations

import fcntl
import logging
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from contextlib import contextmanager
from typing import Iterator

from . import _native
from .errors import FailedPrecondition, NotFound

log = logging.getLogger("lanekeeper")

_STOP_S = 15.0    # a daemon drains for 10 s by default
_LOG_MAX = 1 << 20
_HEED_S = 1.0
_LEVELS = {"error": logging.ERROR, "warn": logging.WARNING, "info": logging.INFO, "debug": logging.DEBUG}


def program(name: str) -> pathlib.Path:
    """The path of lanekeeperd, lanekeeper or lanekeeper-worker."""
    for folder in _native.folders():
        if (folder / name).exists():
            return folder / name
    found = shutil.which(name)
    if found is None:
        looked = ", ".join(map(str, _native.folders()))
        raise NotFound(f"{name} is neither in {looked} nor in PATH",
                       "`pip install ./client/python`, or set LANEKEEPER_DIR to the folder that `make` built in")
    return pathlib.Path(found)


def index(config: str | os.PathLike[str]) -> None:
    """Makes the indexes of all datasets of a configuration: `lanekeeper index CONFIG`.

    FailedPrecondition: it failed, with what it said.
    """
    done = subprocess.run([program("lanekeeper"), "index", os.fspath(config)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
    if done.returncode != 0:
        raise FailedPrecondition(f"`lanekeeper index {os.fspath(config)}` failed: {done.stderr.strip()[-800:]}")


class IndexMissing(FailedPrecondition):
    """A dataset of the configuration has no index, and index=False."""


class PrivateDaemon:
    """lanekeeperd on a configuration file, until `stop`, the last reference, or the end of the process.

    address: to connect to; it listens there once it is ready.
    pid:     of the daemon.
    """

    def __init__(self, config: str | os.PathLike[str], *, index: bool = True) -> None:
        self.config = os.path.abspath(os.fspath(config))
        if not os.path.isfile(self.config):
            raise NotFound(f"{self.config}: expected a configuration file, found a folder or a device",
                           "`lanekeeper init FOLDER` writes a configuration for a folder of data")
        self.users = 0
        self._owner = os.getpid()
        self._log = os.memfd_create("lanekeeperd.log", os.MFD_CLOEXEC)
        fcntl.fcntl(self._log, fcntl.F_SETFL, fcntl.fcntl(self._log, fcntl.F_GETFL) | os.O_APPEND)
        self._told = 0    # bytes of it that were passed on
        self._telling = threading.Lock()    # held by whoever passes it on; nobody waits for it but `stop`
        self._served = False
        self._heed_at = 0.0
        self._folder = self._make_folder()
        self.address = f"ipc://{self._folder}/lanekeeper.sock"
        self._process = self._start()
        _living.add(self)
        if index:
            self._index_if_missing()
            self.heed()

    @staticmethod
    def _make_folder() -> str:
        # A socket's path has 107 bytes at most: in a deep TMPDIR there is no room.
        above = tempfile.gettempdir()
        return tempfile.mkdtemp(prefix="lanekeeper-", dir=above if len(above) <= 60 else "/tmp")

    def _start(self) -> subprocess.Popen[bytes]:
        os.makedirs(self._folder, exist_ok=True)
        # A session of its own: Ctrl-C is for Python, which then ends it in order.
        return subprocess.Popen([program("lanekeeperd"), "--until-eof", "--run-dir", self._folder, self.config],
                                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._log,
                                start_new_session=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """What it said last, a line an event."""
        size = os.fstat(self._log).st_size
        return os.pread(self._log, 1 << 16, max(0, size - (1 << 16))).decode(errors="replace")

    def running(self) -> bool:
        return self._process.poll() is None

    def listens(self) -> bool:
        return os.path.exists(self.address[len("ipc://"):])

    def check(self) -> None:
        """FailedPrecondition with its last words if it has ended."""
        self._pass_on()
        status = self._process.poll()
        if status is None:
            return
        last = (self.log().strip().splitlines() or ["nothing"])[-1]
        if "no such index" in last:
            raise IndexMissing(f"a dataset of {self.config} has no index: {last}", f"make it: `lanekeeper index {self.config}`")
        raise FailedPrecondition(f"the private lanekeeperd ended with status {status}; it said: {last}",
                                 f"`lanekeeper config check {self.config}` says what is wrong with a configuration")

    def _wait(self) -> None:
        while not self.listens():
            self.check()
            time.sleep(0.002)

    def _index_if_missing(self) -> None:
        """Waits until it listens; makes indexes if it ended for want of one."""
        try:
            self._wait()
            return
        except IndexMissing:
            pass
        with _one_at_a_time(self.config):
            if not self._again():    # nobody else made them meanwhile
                log.warning("making the indexes of %s, once (`lanekeeper index`)", self.config)
                index(self.config)
                if not self._again():
                    self.check()    # raises

    def heed(self) -> None:
        """Passes on what it has said. Often called; looks now and then."""
        now = time.monotonic()
        if now >= self._heed_at:
            self._heed_at = now + _HEED_S
            self._pass_on()

    def _pass_on(self) -> None:
        """Unless another thread is at it, or this one: a handler of the logger, or of a signal, may use the stream."""
        if os.getpid() != self._owner or not self._telling.acquire(blocking=False):
            return
        try:
            self._tell_news()
        finally:
            self._telling.release()

    def _tell_news(self) -> None:
        """What it has said since the last time, for the logger: nobody else reads its log. What it says before it
        serves is for whoever waits for that: its end is an exception."""
        self._served = self._served or self.listens()
        size = os.fstat(self._log).st_size
        if self._served and size > self._told:
            said = os.pread(self._log, size - self._told, self._told)
            for line in said[:said.rfind(b"\n") + 1].splitlines(keepends=True):
                self._told += len(line)
                _tell(line.decode(errors="replace").strip())
        if size > _LOG_MAX and self._log >= 0 and (not self._served or os.fstat(self._log).st_size == self._told):
            os.ftruncate(self._log, 0)
            self._told = 0

    def _again(self) -> bool:
        """Starts it anew, and waits until it listens. False: an index is missing still."""
        os.ftruncate(self._log, 0)
        self._told = 0
        self._process = self._start()
        try:
            self._wait()
            return True
        except IndexMissing:
            return False

    def stop(self) -> None:
        """Ends it, within seconds, and removes what it used. Twice is fine."""
        _living.discard(self)
        if os.getpid() != getattr(self, "_owner", -1):
            return
        process = getattr(self, "_process", None)
        if process is not None:
            self._end(process)
        shutil.rmtree(getattr(self, "_folder", ""), ignore_errors=True)
        if self._log >= 0:
            # For good: from now on there is nothing to pass on. It is not to be had where a handler, within it, stops us.
            if self._telling.acquire(timeout=_HEED_S) and process is not None and not sys.is_finalizing():
                self._tell_news()
            log, self._log = self._log, -1
            os.close(log)

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        # One word, not two: a second one, as the end of its input is, would cut its cleaning short.
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def __del__(self) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"PrivateDaemon({self.config!r}, pid={self.pid}, address={self.address!r})"


def _tell(line: str) -> None:
    """A line of its log: time, level, and the rest; or what a worker, or the system, says there."""
    _, level, text = (line.split(" ", 2) + ["", ""])[:3]
    if level in _LEVELS:
        log.log(_LEVELS[level], "lanekeeperd: %s", text)
    elif line:
        log.warning("lanekeeperd: %s", line)


@contextmanager
def _one_at_a_time(config: str) -> Iterator[None]:
    """Of the processes of this machine that have the same configuration."""
    with open(config, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# ---- one for each configuration in a process ----

_living: weakref.WeakSet[PrivateDaemon] = weakref.WeakSet()
_shared: dict[tuple[str, int, int], PrivateDaemon] = {}
_lock = threading.Lock()


def private(config: str | os.PathLike[str], *, index: bool = True) -> PrivateDaemon:
    """The private daemon of this process for @config; streams of one file share it as long as it is unchanged.
    For `release`."""
    try:
        status = os.stat(config)
    except FileNotFoundError:
        raise NotFound(f"{os.fspath(config)!r} is neither an ipc:// or tcp:// address nor a configuration file that is there",
                       "an address is ipc:///path/of.sock or tcp://host:port") from None
    key = (os.path.realpath(config), status.st_mtime_ns, os.getpid())
    with _lock:
        found = _shared.get(key)
        if found is None or not found.running():
            found = _shared[key] = PrivateDaemon(config, index=index)
        found.users += 1
        return found


def release(daemon: PrivateDaemon) -> None:
    """The last user stops it."""
    with _lock:
        daemon.users -= 1
        if daemon.users > 0:
            return
        for key in [key for key, one in _shared.items() if one is daemon]:
            del _shared[key]
    daemon.stop()


def _in_child() -> None:
    """A forked child must not keep the daemon alive: it closes its copy of the pipe."""
    global _lock
    _lock = threading.Lock()
    _shared.clear()
    for daemon in list(_living):
        if daemon._process.stdin is not None:
            daemon._process.stdin.close()


os.register_at_fork(after_in_child=_in_child)
