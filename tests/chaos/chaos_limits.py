"""Limits of the process, and clocks that jump."""

import os
import re
import signal
import time

import chaos
import lk
from shim import Shim

STEPS = 40


def recorded(run, **keys):
    box = run.box()
    stream = box.mixed(120, sequence=64, **keys)
    reference = box.serve(stream, "reference", snapshots={"dir": "none", "every": 0}, counts={"size": 0})
    box.digests = [d for d, _ in lk.run_world(box, reference, 1, STEPS, show="none")]
    reference.stop()
    return box, stream


def settled(daemon):
    lk.wait_until(lambda: " daemon: ready" in daemon.log() or daemon.process.poll() is not None, 15, "ready, or an end")
    return daemon.process.poll() is None


# Limits ---------------------------------------------------------------------------------------------

@chaos.group("The same digests; or the daemon does not start, and says the limit and what it needs. With 64 it serves sixteen clients.",
             case="RC-095")
def open_files(run):
    """ulimit -n of 64 under sixteen clients that come, go and are killed; of everything down to 3"""
    like, stream = recorded(run, batch=16)
    run.strike("64, sixteen clients", crowd, like, stream)
    for limit in run.pick(range(3, 64), short=3):
        run.strike(str(limit), few_files, like, stream, limit)


def crowd(fault, like, stream):
    box = fault.box(like)
    daemon = box.serve(stream, index=False, how={"prefix": ["prlimit", "--nofile=64:64"]})
    refused = 0
    for i in range(3 if not fault.long else 20):
        ranks = [box.trainer(daemon, rank=r, world=16, sharing="always" if r % 2 else "never", timeout=15000) for r in range(16)]
        failures = [f for f in (t.connect(30) for t in ranks) if f]
        refused += len(failures)
        answers = [t.do(f"next {STEPS // 2}", 60) for t in ranks if not t.connect_failure]
        if not failures:
            lk.same([d for d, _ in lk.steps_of([b for b, _ in answers])], like.digests[:STEPS // 2], f"{fault.key}: the same digests")
        for t in ranks:
            t.kill() if fault.random.randrange(2) else t.close()
        lk.wait_until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) < 40, 15, "descriptors of clients that went")
    lk.same(refused, 0, f"{fault.key}: nobody is refused")
    lk.check(daemon.status()["healthy"], f"{fault.key}: it is healthy")


def few_files(fault, like, stream, limit):
    box = fault.box(like)
    config = box.config(stream, workers=2)
    daemon = box.daemon(config, index=False, ready=False, prefix=["prlimit", f"--nofile={limit}:{limit}"])
    if settled(daemon):
        lk.same([d for d, _ in lk.run_world(box, daemon, 2, STEPS, show="none")], like.digests, f"{fault.key}: the same digests")
    else:
        said = "cannot_start" in daemon.log() or limit < 12 and re.search("shared libraries|open shared object", daemon.log())
        lk.check(daemon.process.returncode in (1, 127) and said, f"{fault.key}: it says why", (daemon.process.returncode, daemon.log()[-400:]))


@chaos.group("The same digests, without what cannot be written; or the daemon does not start, or waits for workers, and says why. SIGXFSZ "
             "kills nothing.")
def file_size(run):
    """ulimit -f: no file may grow beyond so many bytes"""
    like, stream = recorded(run)
    for limit in run.pick([0, 1, 100, 1000, 4096, 100000, 1 << 20, 1 << 24], short=3):
        run.strike(str(limit), small_files, like, stream, limit)


def small_files(fault, like, stream, limit):
    box = fault.box(like)
    config = box.config(stream, snapshots={"dir": "snap", "every": 1})
    # The log goes through a pipe: it is a file that may not grow, too.
    log = box.path / "log"
    os.mkfifo(log)
    reader = lk.subprocess.Popen(["cat", str(log)], stdout=lk.subprocess.PIPE, env=box.environment())
    command = f'exec prlimit --fsize={limit}:{limit} "$0" "$1" 2>"{log}"'
    daemon = lk.subprocess.Popen(["sh", "-c", command, str(box.daemon_path), str(config)], env=box.environment(), stdin=lk.subprocess.DEVNULL)
    socket = box.path / "config" / "s"
    lk.wait_until(lambda: socket.exists() or daemon.poll() is not None, 15, "its socket, or an end")
    try:
        if daemon.poll() is None:
            answers = [t.do(f"next {STEPS}", 20) for t in box.world(f"ipc://{socket}", 2, timeout=3000)]
            daemon.terminate()
            lk.same(daemon.wait(10), 0, f"{fault.key}: SIGTERM ends it with 0")
            said = reader.communicate(timeout=5)[0].decode()
            if any(f for _, f in answers):    # workers cannot be given the memory for their results
                lk.check("worker_not_started" in said and "File too large" in said, f"{fault.key}: why there is nothing is said",
                         (answers, said[-300:]))
            else:
                lk.same([d for d, _ in lk.steps_of([b for b, _ in answers])], like.digests, f"{fault.key}: the same digests")
        else:
            said = reader.communicate(timeout=5)[0].decode()
            lk.check(daemon.returncode == 1 and "cannot_start" in said and "File too large" in said, f"{fault.key}: it says why",
                     (daemon.returncode, said[-300:]))
    finally:
        for process in (daemon, reader):
            if process.poll() is None:
                process.kill()
            process.wait()
        reader.stdout.close()


@chaos.group("The same digests, or an end that says that memory ran out; then a daemon without the limit serves the same.")
def memory(run):
    """RLIMIT_AS from too little for anything to enough"""
    like, stream = recorded(run)
    for mib in run.pick([*range(16, 200, 8), 300, 400, 600, 1000], short=2):
        run.strike(f"{mib} MiB", little_memory, like, stream, mib << 20)


def little_memory(fault, like, stream, limit):
    box = fault.box(like)
    if box.sanitized:
        raise chaos.Missed
    config = box.config(stream, snapshots={"dir": "snap", "every": 2})
    daemon = box.daemon(config, index=False, ready=False, prefix=["prlimit", f"--as={limit}:{limit}"])
    says = r"memory|Cannot allocate|failed to map segment|cannot start|worker_not_started"
    ended = not settled(daemon)
    if not ended:
        ranks = box.world(daemon, 2, timeout=2500)
        answers = [t.do(f"next {STEPS}", 30) if not t.connect(10) else ([], t.connect_failure) for t in ranks]
        for batches, failure in answers:
            lk.check(not failure or re.search(says, failure + daemon.log()), f"{fault.key}: a failure says why", (failure, daemon.log()[-300:]))
        if not any(f for _, f in answers):
            lk.same([d for d, _ in lk.steps_of([b for b, _ in answers])], like.digests, f"{fault.key}: the same digests")
        if daemon.process.poll() is None:
            daemon.stop()
    lk.check(not ended or re.search(says, daemon.log()), f"{fault.key}: its end says why", (daemon.process.returncode, daemon.log()[-300:]))
    box.daemons.remove(daemon)    # it may end by SIGABRT, having said that memory ran out
    again = box.daemon(config, index=False)
    lk.same([d for d, _ in lk.run_world(box, again, 2, STEPS, show="none")], like.digests, f"{fault.key}: then, without the limit, the same digests")


# Clocks ---------------------------------------------------------------------------------------------

def jumps(draw, clock, n=6):
    """n jumps within the first second: back and forth by seconds to years; "mono" only forward."""
    at, sum_, spec = 0, 0, []
    for _ in range(n):
        at += 20 + draw.randrange(150)
        by = draw.choice([1, 7, 61, 3600, 86400, 40_000_000]) * (draw.choice([1, -1]) if clock == "real" else 1)
        sum_ = sum_ + by if clock == "mono" else by
        spec.append(f"{clock}@{at}={sum_}")
    return ",".join(spec)


@chaos.group("The time of day decides nothing: the same digests, nothing waits longer, and the log's stamps alone are odd.")
def time_of_day(run):
    """The time of day jumps by seconds to years, back and forth, in the daemon (workers and trainers do not ask for it)"""
    like, stream = recorded(run)
    for i in run.rounds(short=1, long=15):
        run.strike(f"round {i}", jumping, like, stream, "lanekeeperd", "real")


@chaos.group("As after a suspended machine: what was waited for is late, may be asked for again, workers may be replaced; the digests are "
             "the same, and nothing hangs.")
def leaps(run):
    """The monotonic clock leaps forward by seconds to a year in the daemon, its workers, or a trainer"""
    like, stream = recorded(run)
    for i in run.rounds(short=2, long=20):
        program = ("lanekeeperd", "trainer", "lanekeeper-worker")[i % 3]
        run.strike(f"{program}, round {i}", jumping, like, stream, program, "mono")


def jumping(fault, like, stream, program, clock):
    box = fault.box(like)
    config = box.config(stream, snapshots={"dir": "snap", "every": 2}, log_level="debug")
    shim = Shim(box, program, clock=jumps(fault.random, clock))
    daemon = box.daemon(config, index=False, environment=shim.environment())
    ranks = box.world(daemon, 2, prefix=shim.prefix() if program == "trainer" else (), timeout=20000)
    begin, got = time.monotonic(), [[], []]
    for t in ranks:
        if t.connect(20):
            raise lk.Failure(f"{t.name}: {t.connect_failure}")
    while min(map(len, got)) < STEPS and time.monotonic() - begin < 30:
        for t, mine in zip(ranks, got):
            if len(mine) < STEPS:
                t.send(f"next {STEPS - len(mine)} 30")
        for t, mine in zip(ranks, got):
            if len(mine) < STEPS:
                batches, failure = t.answer(30)
                mine += batches
                # A deadline that the clock has passed is one; it is asked again.
                lk.check(not failure or clock == "mono" and failure.startswith(("DEADLINE_EXCEEDED", "UNAVAILABLE")),
                         f"{fault.key}: no failure but deadlines", failure)
    lk.same([d for d, _ in lk.steps_of(got)], like.digests, f"{fault.key}: the same digests")
    lk.check(time.monotonic() - begin < 20, f"{fault.key}: in time", f"{time.monotonic() - begin:.1f} s")
    for pid in daemon.workers():    # which is a line in the log, if nothing else is
        os.kill(pid, signal.SIGKILL)
    lk.wait_until(lambda: "worker_died" in daemon.log(), 10, "its log")
    if shim.struck() == 0:
        raise chaos.Missed
    code, took = daemon.stop(15)
    lk.check(code == 0 and took < 8, f"{fault.key}: SIGTERM ends it with 0, soon", (code, took))


chaos.elsewhere("A limit of 64 or 256 open files, 5,000 shards, 200 clients",
                "A whole epoch is served; where too few may be open the daemon does not start, and says how many it needs.",
                "e2e/test_data.py files_limit", case="RC-095")
