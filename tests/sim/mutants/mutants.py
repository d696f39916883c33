#!/usr/bin/env python3
"""mutants.py BUILD [--jobs N] [--seeds N] [--all] [--write] [--list FILE] [NAME…]: breaks one line at a time.

Each mutant of list.txt is applied to a copy of the tree, built, and given to the checks in turn, until one
catches it: the simulator over the seeds of make check, the golden digests, the order oracle, the unit tests of the file. What
catches must let the unbroken tree pass, or it proves nothing. The last line is "caught=N of=N"; the exit status
is 1 if any escaped.

--all goes on to every check, --write puts what was found into README.md, and --applies only looks whether each old
line stands exactly once in its file.
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
SOURCES = ("Makefile", "server", "proto", "client/c", "client/cli", "tests/sim", "tests/lib", "tests/unit", "tests/oracle",
           "tests/golden", "tests/bench")
BUILT = ("lib", "proto", "server", "tests/sim", "tests/lib", "tests/bench", "tests/unit", "tests/oracle")
PURE = ("base", "seq", "core")    # what lane_dump is made of
CPU_S = 300    # what takes more hangs; the simulator itself ends a seed long before
MEMORY = 8 << 30
CHECKS = ("sim", "golden", "order", "unit")


class Bad(Exception):
    """The list, or the tree, is not as it must be."""


@dataclasses.dataclass
class Mutant:
    name: str
    area: str
    file: str
    old: str
    new: str
    what: str


def read_list(path):
    """Blocks of "key value" lines with an empty line between them; "-" is the old line, "+" the new one."""
    mutants, fields = [], ("name", "area", "file", "-", "+", "what")
    text = "\n".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
    for block in re.split(r"\n\s*\n", text.strip()):
        got = {}
        for line in block.splitlines():
            key, _, value = line.partition(" ")
            if key not in fields or key in got:
                raise Bad(f"{path.name}: {line!r}: expected one each of {' '.join(fields)}")
            got[key] = value.strip()
        if set(got) != set(fields):
            raise Bad(f"{path.name}: {got.get('name', block)}: expected one each of {' '.join(fields)}")
        mutants.append(Mutant(*(got[key] for key in fields)))
    names = [m.name for m in mutants]
    for name in names:
        if names.count(name) > 1:
            raise Bad(f"{path.name}: {name} is there twice")
    return mutants


def broken(mutant, root):
    """The text of its file with the old line replaced."""
    lines = (root / mutant.file).read_text().splitlines(keepends=True)
    at = [i for i, line in enumerate(lines) if line.strip() == mutant.old]
    if len(at) != 1:
        raise Bad(f"{mutant.name}: {mutant.file} has the line {mutant.old!r} {len(at)} times, expected once")
    line = lines[at[0]]
    lines[at[0]] = line[:len(line) - len(line.lstrip())] + mutant.new + "\n"
    if lines[at[0]] == line:
        raise Bad(f"{mutant.name}: nothing is changed")
    return "".join(lines)


def limits():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def environment():
    """Of a make above: what it was told to set, but not its jobs."""
    told = os.environ.get("MAKEFLAGS", "").partition("-- ")[2]
    return {**os.environ, "MAKEFLAGS": f"-- {told}" if told else ""}


def run(command, cwd, seconds=600):
    """Exit status (None: too long) and output."""
    child = subprocess.Popen([str(c) for c in command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             stdin=subprocess.DEVNULL, text=True, errors="replace", start_new_session=True,
                             env=environment(), preexec_fn=limits)
    try:
        out, _ = child.communicate(timeout=seconds)
        return child.returncode, out
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return None, f"not over in {seconds} s"


class Tree:
    """A copy of the tree with what was built of it, under other names: its own "build"."""

    def __init__(self, at, build):
        self.at, self.build = at, at / "build"
        shutil.rmtree(at, ignore_errors=True)
        for name in SOURCES:
            self.copy(ROOT / name, at / name, lambda path: True)
        for name in BUILT:
            self.copy(build / name, self.build / name, self.wanted)

    @staticmethod
    def wanted(path):
        return path.suffix in (".o", ".a", ".c", ".h") or path.name in ("sim", "lane_dump")

    @staticmethod
    def copy(source, to, wanted):
        files = [source] if source.is_file() else [p for p in source.rglob("*") if p.is_file()]
        for path in files:
            if wanted(path) and "__pycache__" not in path.parts:
                there = to / path.relative_to(source) if path != source else to
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, there)

    def make(self, *targets):
        code, out = run(["make", "-s", "BUILD=build", "WERROR=", *targets], self.at)
        return code == 0, out

    def stamps(self):
        return {p: p.stat().st_mtime_ns for p in self.build.rglob("*") if p.is_file()}

    def keep(self):
        """What is there now is what restore() brings back."""
        self.first = self.stamps()
        self.whole = self.at.with_name(self.at.name + ".whole")
        shutil.rmtree(self.whole, ignore_errors=True)
        shutil.copytree(self.build, self.whole)

    def restore(self, file):
        shutil.copy2(ROOT / file, self.at / file)
        for path, stamp in self.stamps().items():
            if path not in self.first:
                path.unlink()
            elif stamp != self.first[path]:
                path.unlink()
        for path in self.first:
            if not path.exists():
                shutil.copy2(self.whole / path.relative_to(self.build), path)


# Checks ------------------------------------------------------------------------------------------


def check_sim(tree, mutant, seeds):
    """The first seed that fails, and how; None: all pass."""
    return first_failure(tree, "--seeds", f"0..{seeds}", "--first")


def first_failure(tree, *options):
    code, out = run(["build/tests/sim/sim", *options], tree.at)
    failed = [line for line in out.splitlines() if re.match(r"seed \d+: ", line)]
    return failed[0] if failed else None if code == 0 else last_line(out, code)


def check_golden(tree, mutant, seeds):
    code, out = run([sys.executable, "tests/golden/order_golden.py", "--dump", "build/tests/oracle/lane_dump"], tree.at)
    return None if code == 0 else last_line(out, code)


def check_order(tree, mutant, seeds):
    code, out = run([sys.executable, "tests/oracle/compare_order.py", "--dump", "build/tests/oracle/lane_dump",
                     "--jobs", "1", "--cases", "60"], tree.at)
    return None if code == 0 else last_line(out, code)


def units_of(mutant):
    """Of its file, of the stages' contract, and of the lanes that all of the pure part makes up."""
    layer, stem = pathlib.Path(mutant.file).parts[1], pathlib.Path(mutant.file).stem
    names = [f"{layer}/test_{stem}"]
    if layer == "seq":
        names.append("seq/test_contract")
    if layer in PURE:
        names.append("core/test_lane")
    return [f"tests/unit/{n}" for n in dict.fromkeys(names) if (ROOT / f"tests/unit/{n}.c").exists()]


def check_unit(tree, mutant, seeds):
    for name in units_of(mutant):
        good, out = tree.make(f"build/{name}")
        if not good:
            raise Bad(f"{mutant.name}: {name} cannot be built: {out[-600:]}")
        code, out = run([f"build/{name}"], tree.at, 120)
        if code != 0:
            return f"{name[len('tests/unit/'):]}: {unit_failure(out, code)}"
    return None


def unit_failure(out, code):
    failed = re.findall(r":[FE]:[^:]*:([^:]*):", out)
    return failed[0] if failed else last_line(out, code)


def last_line(out, code):
    lines = [line.strip() for line in (out or "").splitlines() if line.strip()]
    return lines[-1] if lines else f"status {code}"


def concerns(check, mutant):
    return check in ("sim", "unit") or pathlib.Path(mutant.file).parts[1] in PURE


# Mutants -----------------------------------------------------------------------------------------


class Runner:
    def __init__(self, options):
        self.options = options
        self.scratch = options.build.resolve() / "mutants"
        self.trees = queue.Queue()
        self.whole = Tree(self.scratch / "whole", options.build)
        good, out = self.whole.make("build/tests/sim/sim", "build/tests/oracle/lane_dump")
        if not good:
            raise Bad(f"the tree cannot be built: {out[-2000:]}")
        for job in range(options.jobs):
            tree = Tree(self.scratch / str(job), options.build)
            tree.make("build/tests/sim/sim", "build/tests/oracle/lane_dump")
            tree.keep()
            self.trees.put(tree)
        self.passes = {}
        self.lock = threading.Lock()    # the unbroken tree is one

    def done(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def check(self, check, tree, mutant):
        """What was found, or None."""
        found = {"sim": check_sim, "golden": check_golden, "order": check_order,
                 "unit": check_unit}[check](tree, mutant, self.options.seeds)
        if found is not None:
            with self.lock:
                self.must_pass(check, mutant, found)
        return found

    def must_pass(self, check, mutant, found):
        """The same check of the tree as it is."""
        seed = re.match(r"seed (\d+): ", found)
        key = (check, seed.group(1) if seed else units_of(mutant)[0] if check == "unit" and units_of(mutant) else "")
        if key not in self.passes:
            if check == "sim":
                what = ("--seed", seed.group(1)) if seed else ("--seeds", f"0..{self.options.seeds}")
                self.passes[key] = first_failure(self.whole, *what) is None
            else:
                self.passes[key] = {"golden": check_golden, "order": check_order,
                                    "unit": check_unit}[check](self.whole, mutant, 0) is None
        if not self.passes[key]:
            raise Bad(f"{mutant.name}: {check}: {found}; but that fails without the mutant, too")

    def run(self, mutant):
        """check: what was found (None: nothing, "-": does not look at this file)"""
        tree = self.trees.get()
        try:
            return self.run_in(tree, mutant)
        except Bad as bad:
            return {"bad": str(bad)}
        finally:
            tree.restore(mutant.file)
            self.trees.put(tree)

    def run_in(self, tree, mutant):
        (tree.at / mutant.file).write_text(broken(mutant, ROOT))
        sim = tree.build / "tests/sim/sim"
        before = sim.stat().st_mtime_ns
        good, out = tree.make("build/tests/sim/sim", "build/tests/oracle/lane_dump")
        if not good:
            raise Bad(f"{mutant.name}: it cannot be built: {out[-2000:]}")
        found = {}
        for check in CHECKS:
            if not concerns(check, mutant) or (check == "sim" and sim.stat().st_mtime_ns == before):
                found[check] = "-"
                continue
            found[check] = self.check(check, tree, mutant)
            if found[check] is not None and not self.options.all:
                break
        return found


def caught_by(found):
    return [check for check in CHECKS if found.get(check) not in (None, "-")]


def report(mutant, found):
    by = caught_by(found)
    if "bad" in found:
        print(f"BAD     {found['bad']}", flush=True)
        return
    print(f"{'caught ' if by else 'ESCAPED'} {mutant.name} ({mutant.file}): {mutant.what}: "
          + "; ".join(f"{check}: {found[check][:160]}" for check in by), flush=True)


# README.md ---------------------------------------------------------------------------------------

HEAD = """# Mutants: what would be noticed

Each of [list.txt](list.txt) breaks one line of the core. `make mutants` applies them one by one to a copy of the tree,
builds it, and asks the simulator (its first {seeds} seeds), then the golden digests
(tests/golden), the order oracle (60 recipes) and the unit tests of the file, until one of them fails, as it does not without the mutant. **{caught} of {all}
are caught**, {sim} of them by the simulator.

The last column says by which check, and the first seed that fails; `sim --seed N` shows how. `make mutants
MUTANTS="NAME…"` runs some. This page is made by `mutants.py BUILD --write`; with names, their rows alone.

"""


def words(found):
    said = []
    for check in caught_by(found):
        seed = re.match(r"seed (\d+): ", found[check])
        said.append(f"sim, seed {seed.group(1)}" if seed else f"unit, {found[check].partition(': ')[0]}"
                    if check == "unit" else check)
    return "; ".join(said) or "**nobody**"


def write_readme(mutants, results, seeds):
    """Of mutants that were not run, the page keeps what it says."""
    page = HERE / "README.md"
    by = dict(re.findall(r"^\| (\S+) \|.* \| ([^|]*) \|$", page.read_text() if page.exists() else "", re.M))
    by.update({mutant.name: words(found) for mutant, found in results})
    rows = [(m, by.get(m.name, "**nobody**")) for m in mutants]
    text = HEAD.format(seeds=f"{seeds:,}", caught=sum("**" not in who for _, who in rows), all=len(rows),
                       sim=sum(who.startswith("sim") for _, who in rows))
    for area in dict.fromkeys(m.area for m in mutants):
        text += f"## {area}\n\n| name | file | what is broken | caught by |\n|---|---|---|---|\n"
        for mutant, who in rows:
            if mutant.area == area:
                text += f"| {mutant.name} | {mutant.file[len('server/'):]} | {mutant.what} | {who} |\n"
        text += "\n"
    page.write_text(text.rstrip() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=10000)
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "list.txt")
    for name in ("--all", "--write", "--applies"):
        parser.add_argument(name, action="store_true")
    options = parser.parse_intermixed_args()
    mutants = read_list(options.list)
    unknown = set(options.names) - {m.name for m in mutants}
    if unknown:
        raise Bad(f"no such mutant: {' '.join(sorted(unknown))}")
    for mutant in mutants:
        broken(mutant, ROOT)
    if options.applies:
        print(f"mutants: each of {len(mutants)} applies")
        return 0
    chosen = [m for m in mutants if not options.names or m.name in options.names]
    runner = Runner(options)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        running = {threads.submit(runner.run, mutant): mutant for mutant in chosen}
        for one in concurrent.futures.as_completed(running):
            report(running[one], one.result())
        results = [(mutant, one.result()) for one, mutant in running.items()]
    runner.done()
    caught = sum(bool(caught_by(found)) for _, found in results)
    if options.write:
        write_readme(mutants, results, options.seeds)
    print(f"caught={caught} of={len(results)}")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Bad as bad:
        print(f"mutants: {bad}")
        sys.exit(1)
