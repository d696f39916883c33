#!/usr/bin/env python3
"""leaks.py BUILD: a leak in any program fails its test. BUILD is one with AddressSanitizer.

A library that forgets memory is preloaded into one program after the other: daemon, worker, tool, trainer, and a unit
test. Each time tests/run.sh, told to run what uses it, must fail and show the leak, whether or not anybody looks at
how that program ended; and without the leak it must pass.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
top = here.parent.parent
PROGRAMS = ("lanekeeperd", "lanekeeper-worker", "lanekeeper", "trainer", "test_mem", "nothing")


def run_sh(build, command, leak_in):
    """run.sh with one test: (exit status, output)"""
    environment = {**os.environ, "LD_PRELOAD": str(build / "tests/proof/plant/leak.so"), "LK_LEAK_IN": leak_in,
                   "LK_ASAN_MORE": "verify_asan_link_order=0"}
    with tempfile.TemporaryDirectory(prefix="lk-leaks-") as logs:
        done = subprocess.run([top / "tests/run.sh", "--build", logs, "--sanitized", build, "--run", command],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def serve(build):
    """A daemon with a worker, a trainer and the tool, at whose ends nobody looks."""
    sys.path.insert(0, str(top / "tests/e2e"))
    import lk

    def whole(box):
        config = box.config(box.plain({"d": {"path": str(box.dataset("d", lk.prose(1, 20)))}}))
        box.tool("index", config)
        daemon = lk.Daemon(box, config).ready()
        trainer = box.trainer(daemon)
        trainer.get("next 3")
        trainer.close()
        daemon.stop()
        box.daemons.clear()
    sys.argv[1:] = [build]
    lk.main([whole])


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if len(sys.argv) > 2:
        return serve(sys.argv[1])
    failed = False
    for program in PROGRAMS:
        command = f"{build}/tests/unit/base/test_mem" if program == "test_mem" else f"{sys.executable} {__file__} {build} serve"
        status, said = run_sh(build, command, program)
        found = re.search(r"LeakSanitizer: detected memory leaks", said) is not None
        good = (status == 0 and not found) if program == "nothing" else (status == 1 and found)
        print(f"{'ok' if good else 'not ok'} - a leak in {program}: exit status {status}, {'shown' if found else 'not shown'}",
              flush=True)
        if not good:
            print(said[-3000:])
        failed |= not good
    sys.exit(failed)


if __name__ == "__main__":
    main()
