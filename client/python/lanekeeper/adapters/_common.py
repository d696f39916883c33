"""What the adapters share: where a stream comes from, and why loaders have no workers."""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Mapping, Union

from ..errors import InvalidArgument
from ..stream import Stream
from ..training import make

#: A Stream; or its address or configuration file, or a function that opens one: then it is opened when it is first
#: needed, so that torch.distributed may be initialised in between and say rank and world.
Source = Union[Stream, str, "os.PathLike[str]", Callable[[], Stream]]

#: Of `Batch.training`.
OPTIONS = tuple(inspect.signature(make).parameters)[1:]

NO_WORKERS = ("a stream is a connection of one process, and the daemon's workers do the work: a loader's workers would "
              "each open one more and give every batch as often as there are workers")
ZERO = "use num_workers=0: look-ahead (Stream(lookahead=…)) hides the waiting"


def open_source(source: Source) -> Stream:
    """The stream of a `Source`."""
    if isinstance(source, Stream):
        return source
    return source() if callable(source) else Stream(source)


def check_options(training: Mapping[str, Any]) -> None:
    """InvalidArgument unless all are options of `Batch.training`."""
    unknown = sorted(set(training) - set(OPTIONS))
    if unknown:
        raise InvalidArgument(f"{', '.join(unknown)}: no option of batch.training, which has {', '.join(OPTIONS)}")


def check_workers(num_workers: int) -> None:
    """InvalidArgument, with the reason, unless it is 0."""
    if num_workers != 0:
        raise InvalidArgument(f"num_workers={num_workers}: {NO_WORKERS}", ZERO)
