#!/usr/bin/env python3
"""run.py BUILD [--short] [--seed N] [--seconds S] [--only PATTERN] [--fault KEY] [--jobs N] | --list

Runs the groups of faults of chaos_*.py (chaos.py says what these are), or those that PATTERN finds in MODULE.GROUP.
The long form strikes with every fault, and goes on with random ones for S seconds a group; the short one with a sample.
Prints a line a group, and last "faults=N survived=N"; exit status 1 if the two differ. A failure comes with the
command that does the same again. --list: the table of faults and promises, in Markdown.
"""

import argparse
import concurrent.futures
import importlib
import pathlib
import re
import subprocess
import sys
import time

import chaos
import lk


def load():
    for path in sorted(pathlib.Path(__file__).parent.glob("chaos_*.py")):
        importlib.import_module(path.stem)


def table(groups):
    print("| fault | promise | case | where |\n|---|---|---|---|")
    for g in groups:
        print(f"| {g.says} | {g.promise} | {g.case} | `{g.where}` |")


def run_here(group, options):
    begin = time.monotonic()
    run = chaos.Run(group, options.build, not options.short, options.seed, options.seconds, options.fault)
    faults, survived, skipped = run.whole()
    word = f"skipped: {skipped}" if skipped else f"survived {survived} of {faults}"
    print(f"{time.monotonic() - begin:7.1f} s  {group.name}: {word}", flush=True)
    return faults, survived


def run_apart(group, options):
    """In a process of its own, whose output comes in one piece."""
    command = [sys.executable, __file__, options.build, "--seed", str(options.seed), "--seconds", str(options.seconds),
               "--only", f"^{re.escape(group.name)}$", *(["--short"] if options.short else [])]
    done = subprocess.run(command, capture_output=True, text=True)
    *lines, last = done.stdout.splitlines() or [""]
    print("\n".join([*lines, *done.stderr.splitlines()]), flush=True)
    counts = re.match(r"faults=(\d+) survived=(\d+)$", last)
    if counts is None:
        print(f"not ok - {group.name}: ended with {done.returncode} in its midst: {last}", flush=True)
        return 1, 0
    return int(counts[1]), int(counts[2])


def main():
    parse = argparse.ArgumentParser(usage=__doc__.split("\n\n")[0], description=__doc__.split("\n\n")[1])
    parse.add_argument("build", nargs="?")
    parse.add_argument("--short", action="store_true")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=0)
    parse.add_argument("--only", default=".")
    parse.add_argument("--fault")
    parse.add_argument("--jobs", type=int, default=1)
    parse.add_argument("--list", action="store_true")
    options = parse.parse_args()
    load()
    groups = [g for g in chaos.GROUPS if re.search(options.only, g.name)]
    if options.list:
        table(groups)
        return 0
    if options.build is None or not groups:
        parse.error("no BUILD" if options.build is None else f"no group has {options.only!r} in its name")
    if options.short:    # what stands elsewhere is run there
        groups = [g for g in groups if g.where.startswith("chaos/")]
    lk.SAY_OK = False
    if options.jobs > 1 and options.fault is None:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            counts = list(pool.map(lambda g: run_apart(g, options), groups))
    else:
        counts = [run_here(g, options) for g in groups]
    faults, survived = (sum(c) for c in zip(*counts)) if counts else (0, 0)
    print(f"faults={faults} survived={survived}")
    return 0 if faults == survived else 1


if __name__ == "__main__":
    sys.exit(main())
