"""Processes that die at any moment: same bytes afterwards, nothing left behind."""

import os
import pty
import random
import signal
import subprocess
import threading
import time

import lk

STEPS = 150


def expected_of(box, stream, steps=STEPS):
    daemon = box.serve(stream, "reference")
    made = lk.run_world(box, daemon, 1, steps, show="none")
    daemon.stop()
    return [digest for digest, _ in made]


def restarts(box, stream, name, kill, rounds, snapshots, world=4):
    """Ranks consume while `kill` strikes again and again; the digests of the steps."""
    runtime = {"workers": 2, "http": f"127.0.0.1:{lk.free_port()}",
               "snapshots": {"dir": f"snap-{name}", "every": snapshots}}
    config = box.config(stream, name, **runtime)
    current = [box.daemon(config, index=False)]
    ranks = box.world(current[0], world, timeout=60000)
    results = [None] * world

    def consume(r):
        try:
            results[r] = ranks[r].do(f"next {STEPS} 8", 120)
        except lk.Failure as e:
            results[r] = ([], str(e))

    threads = [threading.Thread(target=consume, args=(r,)) for r in range(world)]
    for thread in threads:
        thread.start()
    slowest = 0
    draw = random.Random(name)
    for _ in range(rounds):
        time.sleep(draw.random() * 0.4)
        if not any(thread.is_alive() for thread in threads):
            break
        begin = time.monotonic()
        current[0] = kill(box, current[0], config)
        slowest = max(slowest, time.monotonic() - begin)
    for thread in threads:
        thread.join()
    failures = [failure for _, failure in results if failure]
    lk.check(not failures, f"{name}: no trainer noticed anything but time", failures[:1])
    steps = lk.steps_of([batches for batches, _ in results]) if not failures else []
    reconnects = sum(r.get("info")[0]["connections"] - 1 for r in ranks) if not failures else 0
    for r in ranks:
        if r.close() != 0:
            lk.not_ok(f"{name}: trainers end with 0", r.process.returncode)
    return current[0], [digest for digest, _ in steps], slowest, reconnects


def reconnect(box):
    """After each kill every rank goes on soon: none waits for its time-out."""
    config = box.config(box.mixed(100))
    box.index(config)
    daemon = box.daemon(config, index=False)
    ranks = box.world(daemon, 6, timeout=60000)
    for r in ranks:
        r.connect()
        r.send("next 1000000 3")
    draw = random.Random(7)
    worst, rounds = 0, 100 if lk.LONG else 8
    for _ in range(rounds):
        time.sleep(draw.random() * 0.2)
        daemon.kill()
        time.sleep(0.05)    # what had been fetched ahead is used up
        for r in ranks:
            r.skip(0)
        daemon = box.daemon(config, index=False)
        begin = time.monotonic()
        for r in ranks:
            if not r.skip(30):
                return lk.not_ok("every rank goes on after a restart", f"{r.name} does not")
        worst = max(worst, time.monotonic() - begin)
    lk.check(worst < 10, f"after each of {rounds} restarts every rank goes on within seconds", f"{worst:.1f} s")


def kill_daemon(box, daemon, config):
    daemon.kill()
    left = workers_left(box)
    if left:
        lk.not_ok("workers die with their daemon", left)
    return box.daemon(config, index=False)


def workers_left(box):
    """Workers that are still there a while after their daemon was killed."""
    end = time.monotonic() + 5
    while time.monotonic() < end:
        left = {pid: c for pid, c in lk.processes_of(box.path).items() if "lanekeeper-worker" in c}
        if not left:
            return {}
        time.sleep(0.02)
    return left


def kill_workers(box, daemon, config):
    for pid in daemon.workers():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return daemon


def kill_both(box, daemon, config):
    kill_workers(box, daemon, config)
    return kill_daemon(box, daemon, config)


def daemons(box):
    """RC-111, RC-121: killed again and again, it serves within seconds, and nothing piles up."""
    rounds = 100 if lk.LONG else 8
    stream = box.mixed()
    expected = expected_of(box, stream)
    for name, kill, snapshots in (("daemon killed", kill_daemon, 20), ("daemon killed, no snapshots", kill_daemon, 0),
                                  ("workers killed", kill_workers, 0), ("both killed", kill_both, 20)):
        daemon, got, slowest, reconnects = restarts(box, stream, name.replace(" ", "-").replace(",", ""), kill, rounds, snapshots)
        lk.same(got, expected, f"{name}, again and again: the digests of an undisturbed run")
        if kill is not kill_workers:
            lk.check(reconnects > 0, f"{name}: trainers did reconnect", reconnects)
            lk.check(slowest < 5, f"{name}: every restart served within 5 s", f"{slowest:.1f} s")
        else:
            deaths = daemon.status()["workers"]["deaths"]
            lk.check(deaths > 0, f"{name}: the deaths are counted", deaths)
        code, took = daemon.stop()
        lk.check(code == 0 and took < 5, f"{name}: SIGTERM then ends it with 0 within 5 s", f"{code} in {took:.1f} s")
        lk.check(not box.left_processes(), f"{name}: no process is left", box.left_processes)


def stopped_workers(box):
    """RC-125: workers die with a killed daemon, also those that stand still and see no connection close."""
    daemon = box.serve(box.mixed(100), workers=2)
    lk.wait_until(lambda: daemon.log().count("worker_ready") == 2, 20, "two workers")
    for pid in daemon.workers():
        os.kill(pid, signal.SIGSTOP)
    daemon.kill()
    lk.check(not box.left_processes(), "stopped workers die with their daemon", box.left_processes)


def terminate(box):
    """RC-125: SIGTERM at any moment, and twice."""
    stream = box.mixed()
    config = box.config(stream, workers=2, drain_timeout="4s")
    box.index(config)
    draw = random.Random(1)
    worst, codes = 0, []
    for i in range(50 if lk.LONG else 10):
        daemon = box.daemon(config, index=False, ready=i % 2 == 0)
        ranks = []
        if i % 2 == 0:
            ranks = box.world(daemon, 2, timeout=3000)
            for r in ranks:
                r.connect()
                r.send("next 10000")
        time.sleep(draw.random() * 0.3)
        if i % 2 == 1:    # before it is ready, but not before it could set itself up for signals
            lk.wait_until(lambda d=daemon: blocked_signals(d.pid) or d.process.poll() is not None, 10, "signals")
        code, took = daemon.stop(20)
        codes.append(code)
        worst = max(worst, took)
        lk.check(not workers_left(box), f"SIGTERM number {i}: no worker is left") if i == 0 else None
        for r in ranks:
            r.kill()
    lk.check(set(codes) == {0}, "SIGTERM at random moments: exit status 0", codes)
    lk.check(worst < 5, "within 5 s", f"{worst:.1f} s")
    for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGHUP, "SIGHUP")):
        daemon = box.daemon(config, index=False)
        daemon.process.send_signal(number)
        if number == signal.SIGINT:
            lk.check(daemon.wait(10) == 0, f"{name} ends it with 0", daemon.process.returncode)
        else:
            trainer = box.trainer(daemon)
            lk.check(trainer.do("next 3")[1] == "" and daemon.process.poll() is None, f"{name} disturbs nobody", daemon.log()[-200:])
            daemon.kill()
    daemon = box.daemon(config, index=False)
    for pid in daemon.workers():
        os.kill(pid, signal.SIGSTOP)
    trainer = box.trainer(daemon, timeout=2000)
    trainer.connect()
    trainer.send("next 5")
    time.sleep(0.2)
    daemon.process.terminate()
    lk.wait_until(lambda: "stopping" in daemon.log(), lk.ANSWER_S, "the first SIGTERM")    # two at once would be one
    begin = time.monotonic()
    daemon.process.terminate()
    code = daemon.wait(10)
    lk.check(code == 0 and time.monotonic() - begin < 1, "a second SIGTERM ends it at once, with stopped workers",
             f"{code} after {time.monotonic() - begin:.1f} s")
    lk.check(not workers_left(box), "and no worker is left, not even a stopped one", lambda: lk.processes_of(box.path))
    failure = trainer.answer()[1]
    lk.check(failure.startswith(("UNAVAILABLE", "DEADLINE_EXCEEDED")), "a trainer that waits is told within its time-out", failure)


def blocked_signals(pid):
    try:
        with open(f"/proc/{pid}/status") as f:
            mask = next(line.split()[1] for line in f if line.startswith("SigBlk"))
        return int(mask, 16) >> (signal.SIGTERM - 1) & 1
    except (OSError, StopIteration):
        return 0


def quit_at_once(box):
    """RC-125: SIGQUIT is no way to stop, but it leaves nothing behind that hurts."""
    stream = box.mixed(100)
    config = box.config(stream, workers=2)
    box.index(config)
    for round_ in range(20 if lk.LONG else 2):
        daemon = box.daemon(config, index=False, prefix=["prlimit", "--core=0:0"])
        trainer = box.trainer(daemon, timeout=2000)
        failures = [trainer.do("next 3")[1]]
        trainer.send("next 100000")
        daemon.process.send_signal(signal.SIGQUIT)
        code = daemon.wait(5)
        lk.check(code == -signal.SIGQUIT and not workers_left(box), f"SIGQUIT number {round_}: it ends, and its workers with it",
                 lambda c=code: (c, lk.processes_of(box.path)))
        failures.append(trainer.answer()[1])
        lk.check(failures[0] == "" and failures[1].startswith(("UNAVAILABLE", "DEADLINE_EXCEEDED")),
                 "a trainer that waits is told within its time-out", failures)
        trainer.kill()
    daemon = box.daemon(config, index=False)
    lk.check(not box.trainer(daemon).do("next 3")[1], "the next daemon starts in its place and serves")


class OnTerminal(lk.Daemon):
    """A daemon that leads a session on a terminal of its own, as one started from a shell does."""

    def __init__(self, box, config_path):
        self.box, self.config_path, self.text = box, config_path, b""
        self.master, slave = pty.openpty()
        os.set_blocking(self.master, False)
        self.process = subprocess.Popen(["setsid", "--ctty", str(box.daemon_path), str(config_path)],
                                        stdin=slave, stdout=slave, stderr=slave, env=box.environment())
        os.close(slave)
        box.daemons.append(self)

    def log(self):
        try:
            while self.master is not None and (piece := os.read(self.master, 65536)):
                self.text += piece
        except OSError:    # nothing more at present, or for ever
            pass
        return self.text.replace(b"\r\n", b"\n").decode(errors="replace")

    def hang_up(self):
        self.log()
        os.close(self.master)
        self.master = None


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def terminal(box):
    """RC-125: the terminal that it was started from is closed: it goes on, and its log goes nowhere."""
    stream = box.mixed(100)
    config = box.config(stream, workers=2)
    box.index(config)
    daemon = OnTerminal(box, config).ready()
    trainer = box.trainer(daemon, timeout=20000)
    expected = [b["digest"] for b in trainer.get("get " + " ".join(map(str, range(40))))]
    got = trainer.get("next 10")
    before = daemon.workers()
    daemon.hang_up()
    got += trainer.get("next 10")
    lk.check(daemon.process.poll() is None and daemon.workers() == before, "its terminal is closed: daemon and workers stay",
             (daemon.process.returncode, before, daemon.workers()))
    for pid in before:    # each death, and each new worker, is a line of the log
        os.kill(pid, signal.SIGKILL)
    lk.wait_until(lambda: len(set(daemon.workers()) - set(before)) == 2, 15, "two new workers")
    got += trainer.get("next 10")
    daemon.process.send_signal(signal.SIGHUP)
    got += trainer.get("next 10")
    lk.same([b["digest"] for b in got], expected, "what it serves is the same, whatever it cannot write to its log")
    pids = [daemon.pid, *daemon.workers()]
    busy = sum(map(cpu_seconds, pids))
    time.sleep(1)    # a length of time to measure in, not a wait for something
    busy = sum(map(cpu_seconds, pids)) - busy
    lk.check(busy < 0.3, "and it does not spin", f"{busy:.2f} s of processor time in a second")
    code, took = daemon.stop()
    lk.check(code == 0 and took < 5, "SIGTERM then ends it with 0", (code, took))
    lk.check(not workers_left(box), "and no worker is left", lambda: lk.processes_of(box.path))
    daemon = OnTerminal(box, config).ready()
    os.write(daemon.master, b"\x03")
    lk.check(daemon.wait(5) == 0, "Ctrl-C on its terminal ends it with 0", daemon.process.returncode)
    lk.check("SIGINT" in daemon.log(), "and its log says why", daemon.log()[-200:])
    daemon.hang_up()


def sixteen(box):
    """RC-122: sixteen daemons at once, of one configuration's data."""
    stream = box.mixed(100)
    reference = box.serve(stream, "reference")
    expected = lk.run_world(box, reference, 1, 10, show="none")
    reference.stop()
    for round_ in range(20 if lk.LONG else 1):
        configs = [box.config(stream, f"d{i}", workers=1, http=None, snapshots={"dir": f"d{i}/snap", "every": 5}) for i in range(16)]
        daemons = [box.daemon(c, index=False, ready=False) for c in configs]
        for d in daemons:
            d.ready()
        lk.ok("sixteen daemons started at once are all ready") if round_ == 0 else None
        trainers = [box.trainer(d) for d in daemons]
        got = [lk.steps_of([batches]) for batches in lk.lines_of(trainers, "next 10")]
        lk.same([g for g in got if g != expected], [], "and all of them serve the same digests")
        if round_ % 2 == 0:
            for d in daemons:
                d.process.kill()
        else:
            for d in daemons:
                d.process.terminate()
        for d in daemons:
            d.wait()
        for t in trainers:
            t.kill()
        lk.check(not workers_left(box), "ended together they leave no worker behind",
                 lambda: lk.processes_of(box.path))


def same_place_twice(box):
    """A second daemon on the sockets of a living one is refused and does it no harm; on those of a dead one it starts."""
    stream = box.mixed(100)
    first = box.serve(stream)
    lk.quickly(lambda: box.refused(first.config_path, "a second daemon on the same sockets is refused, naming one and what to do", str(box.path),
                                   "it serves already.*--run-dir DIR"), 1, "within a second")
    lk.check(box.trainer(first).do("next 3")[1] == "", "and the first goes on serving")
    first.kill()
    begin = time.monotonic()
    second = box.daemon(first.config_path, index=False)
    lk.check(box.trainer(second).do("next 3")[1] == "" and time.monotonic() - begin < 5,
             "after kill -9 the next daemon takes the dead one's sockets")


def other_data(box):
    """RC-111: the daemon comes back with other data."""
    stream = box.mixed(200)
    fixed = {"listen": f"tcp://127.0.0.1:{lk.free_port()}"}
    daemon = box.serve(stream, "a", **fixed)
    ranks = box.world(daemon, 4, timeout=10000)
    lk.lines_of(ranks, "next 50")
    before = ranks[0].get("info")[0]["stream"]
    state = ranks[0].get("state")[0]["state"]
    daemon.kill()
    time.sleep(0.3)
    other = box.serve(box.mixed(200, seed=4), "b", index=False, **fixed)
    now = box.trainer(other).get("info")[0]["stream"]
    for r in ranks:
        r.send("next 5")
    answers = [r.answer() for r in ranks]

    def names_both(text):
        return text.startswith("FAILED_PRECONDITION") and all(
            d in text or reversed_digest(d) in text for d in (before, now))
    lk.check(all(names_both(f) for _, f in answers), "another stream in its place: each rank gets one error with both digests",
             lambda: (answers, before, now))
    # Batches of the right stream that had been fetched ahead may still come.
    lk.check(all(len(b) <= 2 for b, _ in answers), "and no batch of the other one", [len(b) for b, _ in answers])
    failure = box.trainer(other, state=state).connect()
    lk.check(names_both(failure), "a state of the first stream is refused by it with both digests", failure)
    other.kill()
    back = box.serve(stream, "a", index=False, **fixed)
    again = box.trainer(back, state=state)
    lk.check(again.get("next")[0]["step"] == 50, "with the right data again, a resumed rank goes on at step 50")


def ignored_children(box):
    """Started by something that ignores SIGCHLD, which a process passes on, it still sees how its workers end."""
    config = box.config(box.mixed(100), workers=1)
    box.index(config)

    def ends():
        daemon = box.daemon(config, index=False, prefix=("env", "--ignore-signal=SIGCHLD"))
        os.kill(daemon.workers()[0], signal.SIGSEGV)

        def died():
            return [line for line in daemon.log().splitlines() if "worker_died" in line]
        lk.wait_until(died, lk.ANSWER_S, "a worker's death in the log")
        lk.check("SIGSEGV" in died()[0], "where SIGCHLD is ignored, a worker that crashes is seen to crash", died())
        return daemon.stop()[1]
    lk.quickly(ends, 1.2, "and the daemon ends at once")


def reversed_digest(digest):
    """As text, a digest has its high half first; as bytes, the low one, little-endian."""
    return bytes.fromhex(digest)[::-1].hex()


if __name__ == "__main__":
    lk.main([daemons, stopped_workers, reconnect, terminate, quit_at_once, terminal, sixteen, same_place_twice, other_data, ignored_children])
