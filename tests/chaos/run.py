#!/usr/bin/env python3
"""run.py BUILD [--short] [--seed N] [--seconds S] [--only PATTERN] [--fault KEY] [--jobs N] [--note] | --list

Runs the groups of faults of chaos_*.py (chaos.py says what these are), or those that PATTERN finds in MODULE.GROUP.
The long form strikes with every fault, and goes on with random ones for S seconds a group; the short one with a sample.
Prints a line a group, and last "faults=N survived=N"; exit status 1 if the two differ. A failure comes with the
command that does the same again. --note: what a long form came to is kept in figures.tsv (group, faults, survived,
seconds). --list: the table of faults and promises, with these, in Markdown.
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

FIGURES = pathlib.Path(__file__).with_name("figures.tsv")


def load():
    for path in sorted(pathlib.Path(__file__).parent.glob("chaos_*.py")):
        importlib.import_module(path.stem)


def figures():
    """{group: (faults, survived, seconds)} of the last long form that was noted."""
    lines = FIGURES.read_text().splitlines() if FIGURES.exists() else []
    return {name: tuple(map(int, numbers)) for name, *numbers in (line.split("\t") for line in lines)}


def note(groups, counts):
    known = {**figures(), **{g.name: c for g, c in zip(groups, counts) if c[0] > 0}}
    FIGURES.write_text("".join(f"{g.name}\t" + "\t".join(map(str, known[g.name])) + "\n" for g in chaos.GROUPS if g.name in known))


def table(groups):
    known = figures()
    print("| fault | promise | case | where | last long form |\n|---|---|---|---|---|")
    for g in groups:
        faults, survived, seconds = known.get(g.name, (0, 0, 0))
        took = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds} s"
        came = "" if faults == 0 else f"{survived:,} of {faults:,}, {took}" if g.where.startswith("chaos/") else f"{took}"
        print(f"| {g.says} | {g.promise} | {g.case} | `{g.where}` | {came} |")


def run_here(group, options):
    begin = time.monotonic()
    run = chaos.Run(group, options.build, not options.short, options.seed, options.seconds, options.fault)
    faults, survived, skipped = run.whole()
    word = f"skipped: {skipped}" if skipped else f"survived {survived} of {faults}"
    seconds = time.monotonic() - begin
    print(f"{seconds:7.1f} s  {group.name}: {word}", flush=True)
    return faults, survived, round(seconds)


def run_apart(group, options):
    """In a process of its own, whose output comes in one piece, but for how far it is."""
    command = [sys.executable, __file__, options.build, "--seed", str(options.seed), "--seconds", str(options.seconds),
               "--only", f"^{re.escape(group.name)}$", *(["--short"] if options.short else [])]
    lines, begin = [], time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as apart:
        for line in apart.stdout:
            if line.startswith("# progress"):
                print(line, end="", flush=True)
            else:
                lines.append(line.rstrip("\n"))
    *lines, last = lines or [""]
    print("\n".join(lines), flush=True)
    counts = re.match(r"faults=(\d+) survived=(\d+)$", last)
    if counts is None:
        print(f"not ok - {group.name}: ended with {apart.returncode} in its midst: {last}", flush=True)
        return 1, 0, 0
    return int(counts[1]), int(counts[2]), round(time.monotonic() - begin)


def main():
    parse = argparse.ArgumentParser(usage=__doc__.split("\n\n")[0], description=__doc__.split("\n\n")[1])
    parse.add_argument("build", nargs="?")
    parse.add_argument("--short", action="store_true")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=0)
    parse.add_argument("--only", default=".")
    parse.add_argument("--fault")
    parse.add_argument("--jobs", type=int, default=1)
    parse.add_argument("--note", action="store_true")
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
    if options.note and not options.short and options.fault is None:
        note(groups, counts)
    faults, survived = sum(c[0] for c in counts), sum(c[1] for c in counts)
    print(f"faults={faults} survived={survived}")
    return 0 if faults == survived else 1


if __name__ == "__main__":
    sys.exit(main())
