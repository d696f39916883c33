#!/usr/bin/env python3
"""coverage.py BUILD [--seeds N] [--keep]: which lines and branches of the pure part (base, seq, core) tests reach.

BUILD is made with --coverage and -O0. Runs the unit tests of these layers, the golden order, the comparison with
the order oracle, and N seeds of the simulator; --keep looks at what ran before.
Prints a table and what was not reached; fails under 98 % of lines or 95 % of branches, and where something that is
not reached has no reason in coverage.txt beside this script. A reason for nothing is told: another processor may need it.

Counted is every line and branch that gcc makes, at -O0, of server/{base,seq,core}, headers included, save those of
LK_CHECK: what fails there stops the process, before it could say what it had run. So the branches of such a statement
do not count, nor does a line that is LK_CHECK(false), which says that it cannot be reached, nor lk_check_failed.
"""

import argparse
import collections
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

LAYERS = ("base", "seq", "core")
LINES, BRANCHES = 98.0, 95.0
here = pathlib.Path(__file__).resolve().parent
top = here.parent.parent


def run(*command):
    slow = {**os.environ, "CK_DEFAULT_TIMEOUT": "60", "CK_TIMEOUT_MULTIPLIER": "10"}
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=slow)
    print(f"  {' '.join(str(c) for c in command)[:90]}: {(done.stdout.splitlines() or [''])[-1]}", flush=True)
    if done.returncode != 0:
        sys.exit(done.stdout[-3000:] + f"\ncoverage: it ended with {done.returncode}")


def run_all(build, seeds):
    for old in build.rglob("*.gcda"):
        old.unlink()
    for layer in LAYERS:
        for source in sorted((top / "tests/unit" / layer).glob("test_*.c")):
            run(build / "tests/unit" / layer / source.stem)
    dump = build / "tests/oracle/lane_dump"
    run(sys.executable, top / "tests/golden/order_golden.py", "--dump", dump)
    run(sys.executable, top / "tests/oracle/compare_order.py", "--dump", dump, "--jobs", 1, "--cases", 200)
    run(build / "tests/sim/sim", "--seeds", f"0..{seeds}", "--jobs", 2)


# What gcov says -------------------------------------------------------------------------------------

class Source:
    """One file: {line: times}, {line: [times of each branch]}, and its text."""

    def __init__(self, path):
        self.path = path
        self.text = (top / path).read_text().splitlines()
        self.lines, self.branches = collections.Counter(), {}
        self.checks, self.never = checks_of(self.text)

    def add(self, line):
        number = line["line_number"]
        if number in self.never:
            return
        self.lines[number] += line["count"]
        if number in self.checks:
            return
        counts = [b["count"] for b in line.get("branches", [])]
        before = self.branches.get(number, [])
        if len(before) == len(counts):    # an inline function in several objects
            counts = [a + b for a, b in zip(before, counts)]
        if len(counts) >= len(before):
            self.branches[number] = counts

    def missed(self):
        """[(line, what)]"""
        for number in sorted(self.lines):
            if self.lines[number] == 0:
                yield number, "line"
            elif 0 in self.branches.get(number, []):
                yield number, f"{self.branches[number].count(0)} of {len(self.branches[number])} branches"


def checks_of(text):
    """Lines of LK_CHECK statements, and of those that say that they are not reached."""
    checks, never = set(), set()
    inside = 0
    for number, line in enumerate(text, 1):
        if line.startswith("_Noreturn void lk_check_failed("):
            end = text.index("}", number)
            never.update(range(number, end + 2))
        at = line.find("LK_CHECK(")
        if inside == 0 and at < 0:
            continue
        checks.add(number)
        if re.search(r"LK_CHECK\(false\b|LK_CHECK\(0\b|LK_CHECK\(!\"", line):
            never.add(number)
        part = line if inside else line[at:]
        inside = max(0, inside + part.count("(") - part.count(")"))
    return checks, never


def gathered(build):
    """{path: Source}"""
    found = {}
    for layer in LAYERS:
        for notes in sorted((build / "server" / layer).rglob("*.gcno")):
            out = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout", str(notes)],
                                 stdout=subprocess.PIPE, text=True, check=True, cwd=top).stdout
            for file in json.loads(out)["files"]:
                path = file["file"]
                if path.split("/")[0] != "server" or path.split("/")[1] not in LAYERS:
                    continue
                source = found.setdefault(path, None) or Source(path)
                found[path] = source
                for line in file["lines"]:
                    source.add(line)
    return found


# What it means --------------------------------------------------------------------------------------

class Reason:
    def __init__(self, text):
        self.path, self.code, self.why = (part.strip() for part in text.split(" | "))
        self.used = 0

    def covers(self, path, code):
        return fnmatch.fnmatch(path, self.path) and self.code in code


def reasons():
    return [Reason(line) for line in (here / "coverage.txt").read_text().splitlines()
            if line.strip() and not line.startswith("#")]


def share(part, whole):
    return 100.0 * part / whole if whole else 100.0


def table(found):
    """(share of lines, share of branches) of all"""
    total = [0] * 4
    print(f"  {'file':34} {'lines':>12} {'branches':>12}")
    for path in sorted(found):
        source = found[path]
        branches = [n for counts in source.branches.values() for n in counts]
        row = [sum(1 for n in source.lines.values() if n), len(source.lines), sum(1 for n in branches if n), len(branches)]
        total = [a + b for a, b in zip(total, row)]
        print(f"  {path:34} {share(*row[:2]):10.1f} % {share(*row[2:]):10.1f} %")
    print(f"  {'all':34} {total[0]:5} of {total[1]:5} {total[2]:5} of {total[3]:5}")
    return share(*total[:2]), share(*total[2:])


def main():
    parse = argparse.ArgumentParser()
    parse.add_argument("build", type=pathlib.Path)
    parse.add_argument("--seeds", type=int, default=3000)
    parse.add_argument("--keep", action="store_true")
    options = parse.parse_args()
    build = options.build.resolve()
    if not options.keep:
        run_all(build, options.seeds)
    found = gathered(build)
    lines, branches = table(found)
    known, unexplained = reasons(), 0
    for path in sorted(found):
        for number, what in found[path].missed():
            code = found[path].text[number - 1].strip()
            why = next((r for r in known if r.covers(path, code)), None)
            if why is None:
                unexplained += 1
                print(f"  {path}:{number}: {what}: {code}")
            else:
                why.used += 1
    idle = [r for r in known if r.used == 0]
    for reason in idle:
        print(f"  coverage.txt: all is reached: {reason.path} | {reason.code}")
    print(f"coverage: lines={lines:.2f}% branches={branches:.2f}% unexplained={unexplained} of no use={len(idle)}")
    sys.exit(lines < LINES or branches < BRANCHES or unexplained > 0)


if __name__ == "__main__":
    main()
