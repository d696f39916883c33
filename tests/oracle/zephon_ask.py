"""Asks zephon_run.py, in an interpreter that has the Python `zephon`: None where there is none."""

import functools
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


@functools.cache
def interpreters(build):
    """Those that may have it: the one named, this one, and that of tests/fetch_oracles.sh."""
    named = os.environ.get("LK_ZEPHON_PYTHON")
    found = [named] if named else [sys.executable, str(pathlib.Path(build) / "venv/bin/python"),
                                   str(HERE.parent.parent / "build/venv/bin/python")]
    return tuple(p for p in dict.fromkeys(found) if os.path.exists(p))


def run(build, seconds=300, **asked):
    """The answer of zephon_run.py; None: no interpreter at hand has what it needs."""
    for python in interpreters(str(build)):
        done = subprocess.run([python, str(HERE / "zephon_run.py")], input=json.dumps(asked), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=seconds)
        if done.returncode == 77:
            continue
        if done.returncode != 0:
            raise RuntimeError(f"zephon_run.py ended with {done.returncode}: {done.stderr[-800:]}")
        return json.loads(done.stdout)
    return None
