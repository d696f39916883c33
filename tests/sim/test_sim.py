#!/usr/bin/env python3
"""test_sim.py BUILD [SEEDS]: the simulator over its first seeds, and over those that failed once.

Besides: a seed's event log is the same whichever process runs it and whatever memory held before.
"""

import pathlib
import subprocess
import sys

here = pathlib.Path(__file__).parent
sim = pathlib.Path(sys.argv[1]) / "tests/sim/sim"
seeds = int(sys.argv[2]) if len(sys.argv) > 2 else 10000


def run(*options):
    done = subprocess.run([sim, *map(str, options)], stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


def logs(*options):
    """seed: hash of its event log"""
    _, out = run("--seeds", f"0..{min(seeds, 200)}", "--hash", *options)
    return dict(line.split() for line in out.splitlines() if line[0].isdigit())


def main():
    failed = False
    code, out = run("--seeds", f"0..{seeds}", "--jobs", 2)
    print(out, end="")
    failed |= code != 0 or f"seeds={seeds} " not in out
    code, out = run("--turns", "--seeds", f"0..{min(seeds, 60)}", "--jobs", 2)
    print(f"more far steps than cursors: {out}", end="")
    failed |= code != 0
    for line in (here / "regressions").read_text().splitlines():
        if line and not line.startswith("#"):
            code, out = run("--seed", line.split()[0])
            print(f"{'FAILED' if code else 'passed'}: {line}\n{out if code else ''}", end="")
            failed |= code != 0
    first = logs()
    if not first or logs("--jobs", 2, "--perturb", 90) != first or logs("--perturb", 0) != first:
        print("FAILED: the event logs of the same seeds differ")
        failed = True
    sys.exit(failed)


main()
