"""The frame of the fault matrix: what is done to a run, what is promised then, and whether it held.

A group is a function in a module chaos_NAME.py of this folder, with the promise beside it:

    @chaos.group(promise="An older snapshot is used, and named; the digests are the same.", case="RC-017")
    def torn(run):
        for place in run.pick(range(1000), short=20):
            run.strike(f"cut at {place}", tear, place)

    def tear(fault, place):
        box = fault.box()                 # a lk.Box of its own; what is left in it is a failure
        lk.check(…)                       # each fact that fails, and each exception, is a failure

`run.strike(key, do, …)` is one injected fault: it calls do(fault, …), and counts whether it was survived. Keys
are unique in a group. A fault's random numbers (fault.random) come from seed, group and key alone, so that
`--seed N --only GROUP --fault KEY` makes the same choices without the faults before it. `run.random` belongs to the
group, and is used for what all of its faults share.

What end-to-end tests already prove is named by `elsewhere`, so that it stands in the table; the long form runs it.
"""

import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import lk    # noqa: E402

GROUPS = []


class Skip(Exception):
    """The machine does not allow it; the text says what is missing."""


class Missed(Exception):
    """The fault did not come about (this run made fewer calls): it is not counted."""


class Group:
    def __init__(self, module, function, promise, case, where):
        self.name = f"{module.removeprefix('chaos_')}.{function.__name__}"
        self.function, self.promise, self.case, self.where = function, promise, case, where
        self.says = (function.__doc__ or function.__name__.replace("_", " ")).split("\n")[0].rstrip(".")


def group(promise, case=""):
    """Registers a function as a group of faults; its docstring's first line says what is done."""
    def register(function):
        where = f"chaos/{function.__module__}.py {function.__name__}"
        GROUPS.append(Group(function.__module__, function, promise, case, where))
        return function
    return register


def elsewhere(says, promise, test, case=""):
    """A row for `test` ("e2e/test_x.py name"), which `make check` runs; the long form runs it in its long form."""
    script, name = test.split()

    def again(run):
        run.strike(name, _run_test, script, name)

    again.__name__, again.__doc__ = f"{pathlib.Path(script).stem.removeprefix('test_')}_{name}", says
    caller = sys._getframe(1).f_globals["__name__"]
    GROUPS.append(Group(caller, again, promise, case, test))


def _run_test(fault, script, name):
    if not fault.run.long:
        return
    done = subprocess.run([sys.executable, str(ROOT / "tests" / script), fault.run.build, name],
                          env={**os.environ, "LK_LONG": "1"}, capture_output=True, text=True, timeout=1800)
    bad = [l for l in done.stdout.splitlines() if l.startswith("not ok")]
    lk.check(done.returncode == 0, f"{script} {name}", lambda: (bad or done.stderr[-400:]))


class Fault:
    def __init__(self, run, key):
        self.run, self.key, self.build, self.long = run, key, run.build, run.long
        self.random = random.Random(f"{run.seed}/{run.group.name}/{key}")
        self._boxes = []

    def box(self, like=None):
        """A folder for this fault, ended and looked through after it; with a copy of what is in the box `like`."""
        box = lk.Box(self.build, re.sub(r"\W+", "-", self.run.group.name))
        if like is not None:
            shutil.copytree(like.path, box.path, dirs_exist_ok=True, symlinks=True,
                            ignore=lambda folder, names: [n for n in names if n == "tmp" or n.endswith(".log")])
        self._boxes.append(box)
        return box

    def done(self, foreign, keep):
        for box in self._boxes:
            box.finish(foreign)
        for box in self._boxes:
            if keep() and os.environ.get("LK_KEEP") == "1":
                print(f"# kept {box.path}", flush=True)
            else:
                shutil.rmtree(box.path, ignore_errors=True)


def _end_of(box, daemons, trainers):
    """Ends what a fault started in a box that others use after it: thousands of them have one."""
    for trainer in box.trainers[trainers:]:
        if trainer.process.poll() is None:
            trainer.kill()
        trainer.process.wait()
        for pipe in (trainer.process.stdin, trainer.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
    for daemon in box.daemons[daemons:]:
        if (daemon.process.poll() or 0) < 0 and daemon.process.returncode != -signal.SIGKILL:
            lk.not_ok("no daemon crashes", f"signal {-daemon.process.returncode}: {daemon.log()[-500:]}")
        daemon.kill()
        daemon.log_path.unlink()
    del box.trainers[trainers:], box.daemons[daemons:]


class Run:
    """One pass over a group."""

    def __init__(self, group, build, long, seed, seconds=0, only_fault=None):
        self.group, self.build, self.long, self.seed = group, build, long, seed
        self.only_fault = only_fault
        self.random = random.Random(f"{seed}/{group.name}")
        self.end = time.monotonic() + seconds
        self.faults = self.survived = self.missed = 0
        self.seen = set()
        self.shared = []
        self.begin = self.told = time.monotonic()
        self.expected = 0

    def progress(self):
        """Every ten seconds, where there is much to do: `expected` faults, of which some do not come about."""
        now = time.monotonic()
        if self.expected and now - self.told > 10:
            self.told = now
            print(f"# progress {self.group.name}: {self.faults + self.missed} of {self.expected} after {now - self.begin:.0f} s", flush=True)

    def pick(self, items, short):
        """All of them in the long form; in the short one so many, drawn by the seed, in their order."""
        items = list(items)
        if self.long or self.only_fault is not None or len(items) <= short:
            self.expected += len(items)
            return items
        draw = random.Random(f"{self.seed}/{self.group.name}/pick/{len(self.seen)}")
        return [items[i] for i in sorted(draw.sample(range(len(items)), short))]

    def rounds(self, short, long):
        """0, 1, 2…: so many, and in the long form until the run's seconds are over."""
        i = 0
        while i < (long if self.long else short) or (self.long and time.monotonic() < self.end):
            yield i
            i += 1
            if self.only_fault is not None and i >= 100000:
                return
            if self.only_fault is not None and self.faults:
                return

    def box(self):
        """A folder that the group's faults share, ended with the group."""
        box = lk.Box(self.build, re.sub(r"\W+", "-", self.group.name))
        self.shared.append(box)
        return box

    def strike(self, key, do, *arguments):
        """One fault: do(fault, …) is to end without an exception, and without a fact that fails."""
        key = str(key)
        if key in self.seen:
            raise ValueError(f"{self.group.name}: two faults are called {key!r}")
        self.seen.add(key)
        if self.only_fault is not None and key != self.only_fault:
            return
        self.faults += 1
        before, foreign = len(lk._failed), lk.foreign_files()
        running = [(box, len(box.daemons), len(box.trainers)) for box in self.shared]
        fault = Fault(self, key)
        try:
            do(fault, *arguments)
        except (Missed, Skip) as e:
            self.faults -= 1
            self.survived -= 1    # and is added below
            self.missed += isinstance(e, Missed)
            if isinstance(e, Skip):
                print(f"# {self.group.name}: {key}: skipped: {e}", flush=True)
        except Exception as e:    # noqa: BLE001 - what breaks has not survived, the others go on
            self._broken(key, e)
        for box, daemons, trainers in running:
            _end_of(box, daemons, trainers)
        fault.done(foreign, lambda: len(lk._failed) > before)
        if len(lk._failed) == before:
            self.survived += 1
        else:
            print(f"# to see it again: {self.again(key)}", flush=True)
        self.progress()

    def strike_together(self, faults, do, *arguments):
        """Several faults in one run, since each run takes a second: `faults` is {key: fault}, and do(fault, …, list of
        them) returns those that came about, and those that never can. The keys of both, of which the first are counted;
        or None when not all was as it should: then strike with each of them, to know which it was."""
        before, foreign, wrong = len(lk._failed), lk.foreign_files(), []
        running = [(box, len(box.daemons), len(box.trainers)) for box in self.shared]
        fault, not_ok = Fault(self, f"{len(faults)} from {next(iter(faults))}"), lk.not_ok
        lk.not_ok = lambda fact, why: wrong.append(f"{fact}: {why}")
        try:
            came, never = do(fault, *arguments, list(faults.values()))
        except Exception as e:    # noqa: BLE001
            wrong.append(f"{type(e).__name__}: {str(e)[:500]}")
        for box, daemons, trainers in running:
            _end_of(box, daemons, trainers)
        fault.done(foreign, lambda: bool(wrong))
        lk.not_ok = not_ok
        self.progress()
        if wrong or len(lk._failed) > before:
            print(f"# {self.group.name}: {fault.key}, together: not well, so one by one: {wrong[0][:300]}", flush=True)
            return None
        self.seen.update(key for key, value in faults.items() if value in came)
        self.faults += len(came)
        self.survived += len(came)
        self.missed += len(never)
        return [key for key, value in faults.items() if value in came or value in never]

    def again(self, key):
        form = "" if self.long else " --short"
        quoted = "'" + key.replace("'", "'\\''") + "'"
        return (f"seed {self.seed}: python3 tests/chaos/run.py {self.build}{form} --seed {self.seed} "
                f"--only '^{self.group.name}$' --fault {quoted}")

    def _broken(self, key, e):
        here = [f for f in traceback.extract_tb(e.__traceback__) if "chaos" in f.filename]
        line = f"{pathlib.Path(here[-1].filename).name}:{here[-1].lineno}" if here else "?"
        lk.not_ok(f"{self.group.name}: {key}", f"{line}: {type(e).__name__}: {str(e)[:1500]}")

    def whole(self):
        """The group from its beginning to its end; (faults, survived, the word if it was skipped)."""
        foreign, skipped = lk.foreign_files(), ""
        before = len(lk._failed)
        try:
            self.group.function(self)
        except Skip as e:
            skipped = str(e)
        except Exception as e:    # noqa: BLE001
            self._broken("while preparing", e)
        outside = len(lk._failed)
        if self.missed and self.faults == 0 and self.only_fault is None:
            lk.not_ok(self.group.name, f"none of {self.missed} faults came about")
        for box in self.shared:
            box.finish(foreign)
            shutil.rmtree(box.path, ignore_errors=True)
        # What fails outside of a fault is a fault that was not survived.
        if len(lk._failed) > before and self.survived == self.faults or len(lk._failed) > outside:
            self.faults += 1
            print(f"# to see it again: {self.again('').split(' --fault')[0]}", flush=True)
        if self.only_fault is not None and self.only_fault not in self.seen and not skipped:
            print(f"# {self.group.name}: no fault is called {self.only_fault!r}", flush=True)
        return self.faults, self.survived, skipped
