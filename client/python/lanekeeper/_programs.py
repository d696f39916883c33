"""The commands that are installed with the package: the C programs, under their names."""

import os
import sys

from .daemon import program


def _become(name: str) -> None:
    path = str(program(name))
    os.execv(path, [path, *sys.argv[1:]])


def lanekeeper() -> None:
    _become("lanekeeper")


def lanekeeperd() -> None:
    _become("lanekeeperd")


def worker() -> None:
    _become("lanekeeper-worker")
