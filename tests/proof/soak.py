#!/usr/bin/env python3
"""soak.py BUILD SECONDS [STEPS_PER_SECOND]: a daemon, two workers and two trainers, for a long time.

One trainer keeps its handle and makes training arrays of every batch; the other comes back every 40 steps as
another rank of another world. The daemon writes snapshots and counts. Every second it is taken down what each
process holds. Nothing may grow: the most of the second half may exceed the most of the first one by no more than
MARGINS say. Prints a table, and last a line: `soak: steps=N … flat` or `… grew: WHAT`; exit status 1 then.
"""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e"))
import lk  # noqa: E402

# What an allocator's luck is worth, a connection that is being opened or closed at the moment of a sample, and what
# is kept of snapshots: a run that has become twice as long has KEEP more of each lane (host/snapshots.c), and a few are
# being written.
KEEP, LANES = 4, 4
MARGINS = {"rss": lambda most: most * 0.03 + (1 << 20), "pss": lambda most: most * 0.03 + (1 << 20),
           "descriptors": lambda most: 3, "threads": lambda most: 0, "shm": lambda most: 0, "files": lambda most: KEEP * LANES + 8}
STEPS_MIN = 20000 / 600    # a second, of both trainers


def sample(pid):
    """What a process holds at this moment."""
    proc = pathlib.Path(f"/proc/{pid}")
    held = {"rss": 0, "pss": 0}
    for line in (proc / "smaps_rollup").read_text().splitlines():
        key, _, rest = line.partition(":")
        if key in ("Rss", "Pss"):
            held[key.lower()] = int(rest.split()[0]) * 1024
    held["descriptors"] = len(os.listdir(proc / "fd"))
    held["threads"] = len(os.listdir(proc / "task"))
    return held


def of_machine(box):
    """/dev/shm, in files and bytes, and the files of the daemon's folders."""
    shm = list(pathlib.Path("/dev/shm").glob("*"))
    return {"shm": len([p for p in shm if "lanekeeper" in p.name or p.name.startswith("lk")]),
            "files": sum(len(files) for _, _, files in os.walk(box.path))}


def grown(samples):
    """[(name, kind, most of the first half, most of the second)] and those of them that grew too much."""
    half = len(samples) // 2
    rows, bad = [], []
    for name, kind in ((n, k) for n, held in samples[-1].items() for k in held):
        first = max(s[name][kind] for s in samples[:half])
        second = max(s[name][kind] for s in samples[half:])
        rows.append((name, kind, first, second))
        if second > first + MARGINS[kind](first):
            bad.append(f"{kind} of {name} {first} -> {second}")
    return rows, bad


def soak(box, seconds, pace):
    """(samples, steps)"""
    stream = box.mixed(lanes=LANES, batch=[{"from": 0, "size": 8}, {"from": 2000, "size": 16}, {"from": 4000, "size": 8}])
    daemon = box.serve(stream, workers=2, snapshots={"dir": "snapshots", "every": 50, "keep": KEEP})
    program = box.build / "tests/proof/soak_trainer"
    trainers = {how: subprocess.Popen([program, daemon.address, how, str(seconds), str(pace)], text=True,
                                      stdout=subprocess.PIPE, env=box.environment()) for how in ("steady", "moving")}
    pids = {"daemon": daemon.pid, **{how: p.pid for how, p in trainers.items()}}
    lk.wait_until(lambda: len(daemon.workers()) == 2, 20, "two workers")
    pids.update({f"worker {i}": pid for i, pid in enumerate(daemon.workers())})
    samples, end = [], time.monotonic() + seconds - 2
    while time.monotonic() < end:
        time.sleep(1)
        samples.append({**{name: sample(pid) for name, pid in pids.items()}, "machine": of_machine(box)})
    said = {how: p.communicate(timeout=60)[0].strip() for how, p in trainers.items()}
    for how, p in trainers.items():
        lk.check(p.returncode == 0, f"the {how} trainer: {said[how]}", f"exit status {p.returncode}")
    lk.same(daemon.workers(), sorted(pid for name, pid in pids.items() if "worker" in name), "the workers lived on")
    status, took = daemon.stop()
    lk.check(status == 0, f"the daemon stops in {took:.1f} s", f"exit status {status}: {daemon.log()[-400:]}")
    return samples, sum(int(line.split()[0].partition("=")[2]) for line in said.values() if line)


def self_test():
    """A megabyte a sample is found, and so is one descriptor in ten; what stays is not."""
    def made(rss, descriptors):
        return [{"daemon": {"rss": rss(i), "pss": 5, "descriptors": descriptors(i), "threads": 3}} for i in range(40)]
    flat = grown(made(lambda i: 1 << 24, lambda i: 20 + i % 3))[1]
    leaky = grown(made(lambda i: (1 << 24) + (i << 20), lambda i: 20 + i // 3))[1]
    rising = grown(made(lambda i: min(1 << 24, i << 20), lambda i: 20))[1]
    if flat or len(leaky) != 2 or rising:
        sys.exit(f"soak.py: flat {flat}, leaky {leaky}, rising {rising}")


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    seconds, pace = float(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 100
    figures = []

    def whole(box):
        samples, steps = soak(box, seconds, pace)
        rows, bad = grown(samples)
        for name, kind, first, second in rows:
            print(f"  {name:10} {kind:12} {first:12} {second:12}")
        lk.check(steps >= STEPS_MIN * seconds, f"{steps} steps", f"fewer than {STEPS_MIN * seconds:.0f}")
        lk.check(not bad, "nothing grows", bad)
        change = {kind: max((s - f for _, k, f, s in rows if k == kind)) for kind in MARGINS}
        figures.append(f"soak: steps={steps} seconds={seconds:.0f} samples={len(samples)} "
                       + " ".join(f"{k}{v:+d}" for k, v in change.items()) + " "
                       + ("flat" if not bad else "grew: " + ", ".join(bad)))

    del sys.argv[2:]
    try:
        lk.main([whole])
    finally:
        print(*figures)


if __name__ == "__main__":
    main()
