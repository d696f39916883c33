"""What can go wrong: one class for each of gRPC's codes, with the daemon's own words and what to do.

    try:
        batch = next(stream)
    except lanekeeper.DeadlineExceeded as error:
        print(error.detail)     # what was waited for

All are `LanekeeperError`. Those that have a counterpart in Python are that, too: `OutOfRange` is an
`IndexError`, `InvalidArgument` a `ValueError`, `DeadlineExceeded` a `TimeoutError`, `Unavailable` a
`ConnectionError`.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Code(enum.IntEnum):
    """gRPC's status codes, by name and number."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class LanekeeperError(Exception):
    """Base of all errors.

    code:   the status, a `Code`.
    detail: what happened, in the daemon's or the library's words.
    hint:   what to do about it; may be empty.
    """

    code: ClassVar[Code] = Code.UNKNOWN
    _hint: ClassVar[str] = ""

    def __init__(self, detail: str, hint: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = self._hint if hint is None else hint

    def __str__(self) -> str:
        text = f"{self.code.name}: {self.detail}"
        return f"{text}\n  {self.hint}" if self.hint else text


class Cancelled(LanekeeperError):
    """The call was given up before it was done."""

    code = Code.CANCELLED


class Unknown(LanekeeperError):
    """An error of a kind that this library does not know."""

    code = Code.UNKNOWN


class InvalidArgument(LanekeeperError, ValueError):
    """An argument is out of its range; the detail says which, and the range."""

    code = Code.INVALID_ARGUMENT


class DeadlineExceeded(LanekeeperError, TimeoutError):
    """Time is up; the detail says what was waited for."""

    code = Code.DEADLINE_EXCEEDED
    _hint = "call again to go on waiting, give a longer timeout=, or see `lanekeeper status` for what stalls"


class NotFound(LanekeeperError):
    """There is no such stream, file or program; the detail names what there is."""

    code = Code.NOT_FOUND


class AlreadyExists(LanekeeperError):
    """Somebody else has it."""

    code = Code.ALREADY_EXISTS


class PermissionDenied(LanekeeperError):
    """Not allowed."""

    code = Code.PERMISSION_DENIED


class ResourceExhausted(LanekeeperError):
    """Out of memory, or of something else that is bounded."""

    code = Code.RESOURCE_EXHAUSTED


class FailedPrecondition(LanekeeperError):
    """It cannot work now or later without a change; the detail says what of.

    Most often: a state of another stream (both digests are named), a daemon that now serves another
    stream, a stream smaller than one batch, a row that crashes every worker.
    """

    code = Code.FAILED_PRECONDITION


class Aborted(LanekeeperError):
    """Given up by the daemon; asking again may help."""

    code = Code.ABORTED


class OutOfRange(LanekeeperError, IndexError):
    """The stream ended before this step; the detail says how many steps it has."""

    code = Code.OUT_OF_RANGE


class Unimplemented(LanekeeperError):
    """Daemon and library speak different versions."""

    code = Code.UNIMPLEMENTED
    _hint = "install the same version of lanekeeper for the daemon and for Python"


class Internal(LanekeeperError):
    """A bug of lanekeeper."""

    code = Code.INTERNAL


class Unavailable(LanekeeperError, ConnectionError):
    """No daemon could be reached until time was up."""

    code = Code.UNAVAILABLE
    _hint = "start `lanekeeperd CONFIG` there, or give the configuration file itself instead of the address"


class DataLoss(LanekeeperError):
    """Data is damaged, or not what it was when it was indexed; the detail names it."""

    code = Code.DATA_LOSS
    _hint = "`lanekeeper verify` and `lanekeeper index --verify CONFIG` say more about files"


class Unauthenticated(LanekeeperError):
    """Not let in."""

    code = Code.UNAUTHENTICATED


_CLASSES: dict[int, type[LanekeeperError]] = {
    int(kind.code): kind
    for kind in (Cancelled, Unknown, InvalidArgument, DeadlineExceeded, NotFound, AlreadyExists,
                 PermissionDenied, ResourceExhausted, FailedPrecondition, Aborted, OutOfRange,
                 Unimplemented, Internal, Unavailable, DataLoss, Unauthenticated)
}


def error_of(code: int, detail: str, hint: str | None = None) -> LanekeeperError:
    """The exception for a code that is not OK."""
    return _CLASSES.get(code, Unknown)(detail, hint)
