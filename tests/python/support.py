"""What the tests of client/python share: an interpreter with NumPy, the package over a build folder, boxes.

Import it first: `import support`. It begins anew with an interpreter that has NumPy (Debian's python3-numpy, where
the one that runs has none), or skips the test, and makes `import lanekeeper` find the package and what was built.
"""

import contextlib
import functools
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import textwrap
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "client" / "python"
SYSTEM = "/usr/bin/python3"


def _interpreter():
    if importlib.util.find_spec("numpy") is not None:
        return
    if os.path.exists(SYSTEM) and os.path.realpath(sys.executable) != os.path.realpath(SYSTEM) and subprocess.run(
            [SYSTEM, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
        os.execv(SYSTEM, [SYSTEM, *sys.argv])
    print("skipped: NumPy is not installed (Debian: python3-numpy)")
    sys.exit(77)


_interpreter()
if len(sys.argv) < 2:
    sys.exit(f"usage: {sys.argv[0]} BUILD_DIR [TEST…]")
os.environ["LANEKEEPER_DIR"] = str(pathlib.Path(sys.argv[1]).resolve())
for name in ("RANK", "WORLD_SIZE", "LANEKEEPER_ADDRESS", *(n for n in os.environ if n.startswith(("SLURM_", "OMPI_", "PMI_")))):
    os.environ.pop(name, None)
sys.dont_write_bytecode = True
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests" / "e2e")]

import lk    # noqa: E402


def environment(box, **more):
    """Of a process of its own that uses the package."""
    return box.environment({"LANEKEEPER_DIR": os.environ["LANEKEEPER_DIR"], "PYTHONDONTWRITEBYTECODE": "1",
                            "PYTHONPATH": os.pathsep.join([str(PACKAGE), str(ROOT / "tests" / "e2e")]), **more})


def python(box, code, *arguments, **options):
    """Starts Python on @code; a Popen with text pipes."""
    more = options.pop("environment", {})
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(box, **more), **options)


def said(process, seconds=60):
    """(status, standard output, standard error) of one that ends by itself; of its output what has not been read yet,
    also where a readline() has taken in more than its line, which communicate() would lose."""
    errors = []
    reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
    too_late = threading.Timer(seconds, process.kill)
    for thread in (reader, too_late):
        thread.start()
    with contextlib.suppress(OSError):    # it may have ended without reading all
        process.stdin.close()
    out = process.stdout.read()
    reader.join()
    status = process.wait()
    too_late.cancel()
    for pipe in (process.stdout, process.stderr):
        pipe.close()
    return status, out, errors[0]


def inside(test):
    """Processes that this test's own process starts belong to its box, too."""
    @functools.wraps(test)
    def wrapped(box):
        before, kept = dict(os.environ), tempfile.tempdir
        os.environ.update({lk.MARK: str(box.path), "TMPDIR": str(box.path / "tmp")})
        tempfile.tempdir = None
        try:
            test(box)
        finally:
            os.environ.clear()
            os.environ.update(before)
            tempfile.tempdir = kept
    return wrapped


def raises(kind, call, fact, *patterns):
    """A fact that a call raises this, and that its text has each of the words. The exception."""
    try:
        got = call()
    except kind as error:
        missing = [p for p in patterns if p not in str(error)]
        lk.check(not missing, fact, f"{type(error).__name__} without {missing}: {error}")
        return error
    except Exception as error:    # noqa: BLE001 - another one is the failure
        lk.not_ok(fact, f"{type(error).__name__}: {error}")
        return None
    lk.not_ok(fact, f"no error, but {lk.short(got)}")
    return None


def main(tests):
    lk.main([inside(test) for test in tests])
