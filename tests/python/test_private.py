"""A configuration file instead of an address, interrupts, and what is left when Python ends in any way."""

import support

import json
import logging
import os
import re
import signal
import time

import lanekeeper
from lanekeeper import Stream

import lk


def config_of(box, name="c", **keys):
    """One as a user writes it: nothing but what a stream needs."""
    if not (box.path / "docs").exists():
        box.dataset("docs", lk.prose(2, 300), 2)
    return box.write(f"{name}.yaml", json.dumps({"streams": {"pretrain": {
        "sequence": 64, "batch": 8, "tokenizer": {"bytes": True, "append": "eos"},
        "datasets": {"docs": {"path": "docs"}}, "pipeline": [{"pack": {"algorithm": "concat"}}], **keys}}}))


def left(box):
    """Files of private daemons that are still there."""
    return [p.name for p in (box.path / "tmp").iterdir()]


def from_a_file(box):
    """Indexes are made, a private daemon serves, and is gone with its last stream."""
    config = config_of(box)
    support.raises(lanekeeper.IndexMissing, lambda: Stream(config, index=False), "index=False: a missing index is an error that names the command",
                   f"lanekeeper index {config}")
    with Stream(config) as stream:
        pid = stream.daemon.pid
        first = [next(stream).digest for _ in range(5)]
        state = stream.state_dict()
        lk.check(stream.address.startswith("ipc://") and stream.status()["pid"] == pid, "a daemon of its own serves it", stream)
        with Stream(str(config), "pretrain", rank=1, world=2) as second:
            lk.same(second.daemon.pid, pid, "a second stream of the same file shares it")
            kept = next(second)
        lk.same(stream[0].digest, first[0], "which stays when that is closed")
        tokens = kept.tokens.copy()
    lk.check(pid not in lk.processes_of(box.path) and not box.left_processes() and not left(box), "closed: no process and no file is left", left(box))
    lk.check((kept.tokens == tokens).all(), "its batches are as they were")
    with Stream(config, state=state) as stream:
        digests = stream.digests(0, 6)
        lk.same((digests[:5], next(stream).digest), (first, digests[5]), "a new one goes on from the state, with the same steps")
    started = box.daemon(box.config(json.loads(config.read_text())["streams"]["pretrain"], "served"), index=True)
    lk.same(Stream(started.address).digests(0, 6), digests, "a daemon that was started by hand serves the same")
    broken = box.write("broken.yaml", config.read_text().replace('"batch": 8', '"batch": 7'))
    support.raises(lanekeeper.FailedPrecondition, lambda: Stream(broken), "a file that is wrong: the daemon's words, and what to do", "batch", "config check")
    unkept = box.write("unkept.yaml", json.dumps({**json.loads(config.read_text()), "runtime": {"counts": {"dir": "c.yaml/counts"}}}))
    said, listening = [], logging.Handler()
    listening.emit = lambda record: said.append((record.levelname, record.getMessage()))
    logging.getLogger("lanekeeper").addHandler(listening)
    Stream(unkept).close()
    logging.getLogger("lanekeeper").removeHandler(listening)
    lk.check(len(said) == 1 and said[0][0] == "WARNING" and "lanekeeperd: counts: none_kept" in said[0][1], "what it warns of at its start is passed on", said)
    lk.check(not left(box) , "nothing is left of daemons that did not start", left(box))


BROKEN = """
    import logging, sys, lanekeeper
    how, config = sys.argv[1:]
    if how == "all":
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    with lanekeeper.Stream(config) as stream:
        if how == "within":
            class Within(logging.StreamHandler):
                def emit(self, record, daemon=stream.daemon):
                    daemon._heed_at = 0.0
                    daemon.heed()
                    super().emit(record)
            logging.getLogger("lanekeeper").addHandler(Within())
        print(sum(1 for _ in stream))
"""


def log_of_a_file(box):
    """What a private daemon says while it serves is told: rows that are dropped without doing anything, the rest when asked for."""
    lines = lk.rows(["a good row"] * 400).splitlines(keepends=True) + ['{"text": "cut\n'] * 100
    box.write("broken/a.jsonl", "".join(lines))
    config = config_of(box, on_bad_row="drop", tail="pad", order={"shuffle_rows": False}, datasets={"broken": {"path": "broken", "epochs": 1}})
    box.index(config)
    status, out, err = support.said(support.python(box, BROKEN, "warnings", config))
    lk.check(status == 0 and int(out) > 2, "a stream with broken rows", (status, out, err[-300:]))
    lk.same([sum(bool(re.match(p, line)) for line in err.splitlines()) for p in ("lanekeeperd: stream: row_dropped", "lanekeeperd: stream: rows_dropped")] +
            [len(err.splitlines())], [20, 1, 21], "its first rows are warned of, once how many more there were, and nothing else is said")
    lk.check(re.search(r"dataset broken shard a.jsonl row 4\d\d: malformed_row", err) and "more rows dropped: 80 malformed_row" in err, "by name and number", err[-600:])
    status, out, err = support.said(support.python(box, BROKEN, "all", config))
    lk.check(status == 0 and "INFO lanekeeperd: daemon: ready" in err and len(re.findall(r"(?m)^WARNING lanekeeperd: stream: row_dropped", err)) == 20 and
             len(re.findall(r"(?m)^INFO lanekeeperd: stream: row_malformed", err)) == 20 and "INFO lanekeeperd: daemon: stopping" in err,
             "with the level of INFO all that it says, at its level, to its end", err[-800:])
    status, out, err = support.said(support.python(box, BROKEN, "within", config))
    rows = [int(row) for row in re.findall(r"row_dropped .* row (4\d\d):", err)]
    lk.check(status == 0 and len(rows) == 20 and len(set(rows)) == 20, "a handler that uses the stream: each line once", (status, rows, err[-800:]))


def ranks_of_a_file(box):
    """Ranks that begin at once on a file without indexes: one of them makes them, and all serve the same stream."""
    config = config_of(box)
    code = """
        import sys, lanekeeper
        with lanekeeper.Stream(sys.argv[1], rank=int(sys.argv[2]), world=3) as stream:
            print([next(stream).digest for _ in range(3)])"""
    said = [support.said(rank) for rank in [support.python(box, code, config, r) for r in range(3)]]
    lk.same([status for status, _, _ in said], [0, 0, 0], "three ranks, each with a daemon of its own")
    lk.same(sum("making the indexes" in err for _, _, err in said), 1, "one of them made the indexes")
    with Stream(config) as whole:
        digests = [lanekeeper.add_digests(list(cut)) for cut in zip(*(eval(out) for _, out, _ in said))]    # noqa: S307
        lk.same(digests, whole.digests(0, 3), "their cuts are the steps")


def dies_under_us(box):
    """A private daemon that is killed is an error that says so, at once."""
    with Stream(config_of(box), lookahead=0) as stream:
        next(stream)
        os.kill(stream.daemon.pid, signal.SIGKILL)
        begin = time.monotonic()
        support.raises(lanekeeper.FailedPrecondition, lambda: [stream[s] for s in range(50, 60)], "a private daemon that was killed: said so", "lanekeeperd ended", "-9")
        lk.check(time.monotonic() - begin < 3, "at once", f"{time.monotonic() - begin:.1f} s")
        again = Stream(stream.daemon.config, state=stream.state_dict())
        lk.same(next(again).step, 1, "opened again, it goes on with a new daemon")
        again.close()


USER = """
    import os, signal, sys, time, threading, lanekeeper
    how, config = sys.argv[1:]
    stream = lanekeeper.Stream(config)
    next(stream)
    if how == "thread":
        made = []
        thread = threading.Thread(target=lambda: made.append(lanekeeper.Stream(config.replace("c.yaml", "d.yaml"))))
        thread.start(); thread.join()
        next(made[0])
        next(stream)
    pid = stream.daemon.pid
    if how == "child":
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    print(pid, flush=True)
    if how == "error":
        raise RuntimeError("the trainer's")
    if how == "exit":
        sys.exit(3)
    if how == "_exit":
        os._exit(4)
    if how == "held":
        held = [next(stream), stream]
        held.append(held)
        sys.exit(5)
    if how == "waiting":    # a thread that waits for ever
        os.kill(pid, signal.SIGSTOP)
        threading.Thread(target=lambda: [stream[s] for s in range(1000, 2000)], daemon=True).start()
        time.sleep(0.3)
        os.system(f"(sleep 3; kill -CONT {pid}) >&- 2>&- &")
        begin = time.monotonic()
        import atexit
        atexit._run_exitfuncs()
        sys.exit(6 if time.monotonic() - begin < 2.5 else 7)
    if how == "end":
        sys.stdin.close()
    else:
        time.sleep(60)
"""


def nothing_stays(box):
    """However Python ends, no daemon, worker or file is left."""
    config = config_of(box)
    config_of(box, "d")
    box.index(config)
    ends = {"end": 0, "exit": 3, "error": 1, "_exit": 4, "held": 5, "waiting": 6, "thread": None, "SIGKILL": None, "SIGTERM": None, "child": None}
    users = {how: support.python(box, USER, how, config) for how in ends}
    for how, user in users.items():
        pid = user.stdout.readline().strip()
        lk.check(pid.isdigit(), f"{how}: it runs", lambda u=user: u.stderr.read()[-300:])
    for how, user in users.items():
        if ends[how] is None:
            user.send_signal(signal.SIGTERM if how == "SIGTERM" else signal.SIGKILL)
        status = user.wait(30)
        if ends[how] is not None:
            lk.same(status, ends[how], f"{how}: it ends with the status that it should")
        for pipe in (user.stdin, user.stdout, user.stderr):
            pipe.close()
    lk.wait_until(lambda: not [c for c in lk.processes_of(box.path).values() if "lanekeeperd" in c.partition(" ")[0]], 20, "private daemons end")
    lk.ok("no private daemon is left, not even where a forked child lives on")
    for pid in box.left_processes(0.1):
        os.kill(pid, signal.SIGKILL)    # the forked child
    lk.check(not box.left_processes() and not left(box), "nor a worker, nor a file", (box.left_processes(0), left(box)))


WAITER = """
    import os, signal, sys, time, lanekeeper
    stream = lanekeeper.Stream(sys.argv[1], lookahead=0, timeout=None)
    digests = [next(stream).digest]
    if sys.argv[2] == "handler":
        def handler(*_):
            try:
                next(stream)
            except lanekeeper.FailedPrecondition as error:
                print(stream.state_dict()["step"], stream.tokens_seen, stream.info.sequence, "signal handler" in str(error), flush=True)
        signal.signal(signal.SIGUSR1, handler)
    print("waits", flush=True)
    try:
        next(stream) if sys.argv[2] != "digest" else stream.digests(100, 200)
        print("came", flush=True)
    except KeyboardInterrupt:
        print("interrupted", stream.step, flush=True)
    print(next(stream).step, flush=True)
"""


def interrupts(box):
    """Ctrl-C ends a wait at once, for every call that waits, and the same step is next."""
    daemon = box.serve(box.mixed())
    daemon.process.send_signal(signal.SIGSTOP)
    for name, address in (("a daemon that is stopped", daemon.address), ("no daemon", f"ipc://{box.path}/none")):
        waiter = support.python(box, 'import sys, lanekeeper; print("waits", flush=True); lanekeeper.Stream(sys.argv[1])', address)
        waiter.stdout.readline()
        time.sleep(0.4)
        begin = time.monotonic()
        waiter.send_signal(signal.SIGINT)
        status, _, err = support.said(waiter, 20)
        lk.check(status != 0 and "KeyboardInterrupt" in err and time.monotonic() - begin < 3.5, f"Ctrl-C ends connecting to {name}", (status, err[-200:]))
    daemon.process.send_signal(signal.SIGCONT)
    for call in ("next", "digest", "handler"):
        waiter = support.python(box, WAITER.replace('print("waits", flush=True)', 'print("waits", flush=True); sys.stdin.readline()'), daemon.address, call)
        lk.same(waiter.stdout.readline(), "waits\n", f"{call}: it is there")
        daemon.process.send_signal(signal.SIGSTOP)
        waiter.stdin.write("go\n")
        waiter.stdin.flush()
        time.sleep(0.5)
        begin = time.monotonic()
        if call == "handler":
            waiter.send_signal(signal.SIGUSR1)
            lk.same(waiter.stdout.readline(), "1 1024 128 True\n", "a signal handler may ask for the state, and is refused what would wait")
            daemon.process.send_signal(signal.SIGCONT)
            lk.same(waiter.stdout.readline(), "came\n", "and the wait goes on after it")
            lk.same(support.said(waiter), (0, "2\n", ""), "to the next step")
            continue
        waiter.send_signal(signal.SIGINT)
        lk.same(waiter.stdout.readline(), "interrupted 1\n", f"{call}: Ctrl-C ends the wait")
        lk.check(time.monotonic() - begin < 1, "within a second", f"{time.monotonic() - begin:.2f} s")
        daemon.process.send_signal(signal.SIGCONT)
        lk.same(support.said(waiter), (0, "1\n", ""), "the same step is next")


STORM = """
    import signal, sys, lanekeeper
    class Ring(BaseException):
        pass
    armed = False
    def handler(*_):
        global armed
        if armed:
            armed = False
            raise Ring
    stream = lanekeeper.Stream(sys.argv[1])
    steps, rings, batch = [], 0, None

    def note():
        if batch is not None and steps[-1:] != [batch.step]:
            steps.append(batch.step)

    def enough():    # of both, however quick the steps are
        return len(steps) >= 2000 and rings > 50

    def loop():    # a frame of its own: not every jump of a loop lies within the try around it
        global armed, batch
        armed = True
        for batch in stream:
            note()
            armed = not enough()    # again: a signal may have been lost in a __del__
            if not armed:
                return

    signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0007)
    while not enough():
        try:
            loop()
        except Ring:
            rings += 1
            note()    # a batch came, and then the signal did
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(rings > 50, steps == list(range(len(steps))), [s for i, s in enumerate(steps) if s != i][:3])
"""


def storm(box):
    """Exceptions of signal handlers at any instant of a loop: no step is lost, none comes twice."""
    daemon = box.serve(box.mixed(sequence=16))
    status, out, _ = support.said(support.python(box, STORM, daemon.address))    # what is raised in a __del__ is only printed
    lk.same((status, out), (0, "True True []\n"), "2,000 steps under a storm of signals: each one came, once")


if __name__ == "__main__":
    support.main([from_a_file, log_of_a_file, ranks_of_a_file, dies_under_us, nothing_stays, interrupts, storm])
