"""Edges: ends of streams, giants, budgets that are too small, workers of other machines."""

import os
import random
import re
import signal
import subprocess
import time

import lk


def ends(box):
    """A finite stream's end is a property of the data: whoever asks, wherever first, after whatever."""
    texts = lk.prose(6, 400, 60)
    box.dataset("d", texts, 3)
    box.dataset("e", texts[:50])
    for tail in ("drop", "pad"):
        stream = box.plain({"d": {"path": "d", "epochs": 2, "weight": 3}, "e": {"path": "e", "epochs": 1}},
                           lanes=4, batch=8, sequence=32, tail=tail, order={"block_rows": 8},
                           pipeline=[{"shuffle": {"buffer": 16}}, {"pack": {"algorithm": "exact_fit", "pool": 16}},
                                     {"shuffle": {"buffer": 4}}])
        daemon = box.serve(stream, f"{tail}-ref")
        trainer = box.trainer(daemon)
        batches, end = lk.to_the_end(trainer)
        digests = [b["digest"] for b in batches]
        n = len(digests)
        lk.check(n > 10 and f"after {n} steps" in end, f"{tail}: it ends, and the text says after how many steps", (n, end))
        runtime = {"snapshots": {"dir": f"snap-{tail}", "every": 3}}
        config = box.config(stream, f"{tail}-snap", **runtime)
        fresh = box.daemon(config, index=False)
        beyond = box.trainer(fresh, step=n + 500).do("next")[1]
        lk.check(beyond.startswith("OUT_OF_RANGE") and f"after {n} steps" in beyond,
                 f"{tail}: asked first for a step far beyond, it says the same", beyond)
        last = box.trainer(fresh, step=n - 1).do("next 2")
        lk.check([b["digest"] for b in last[0]] == digests[-1:] and last[1].startswith("OUT_OF_RANGE"),
                 f"{tail}: the last step is the same, and none comes after", last)
        fresh.stop()
        for world in (1, 3, 8):
            daemon.kill()
            daemon = box.daemon(config, index=False)
            ranks = box.world(daemon, world, step=n // 2)
            answers = [lk.to_the_end(r) for r in ranks]
            lk.check(len({(len(b), e) for b, e in answers}) == 1, f"{tail}, {world} ranks from the middle: all end together",
                     [(len(b), e) for b, e in answers])
            lk.same([d for d, _ in lk.steps_of([b for b, _ in answers])], digests[n // 2:],
                    f"{tail}, {world} ranks from the middle, after a restart: the same digests to the end")
        steps = [random.Random(1).randrange(n) for _ in range(40)]
        got = box.trainer(daemon).get("get " + " ".join(map(str, steps)))
        lk.same([b["digest"] for b in got], [digests[s] for s in steps], f"{tail}: the same in random order")
        daemon.kill()


def giants(box):
    """A document far larger than the arena, a message or a sequence; a row of many megabytes."""
    big = "".join(chr(97 + i % 26) for i in range(1_500_000))
    box.write("d/a.jsonl", lk.rows(["small 1", big, "small 2"]))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=4096, batch=4)
    expected = ("small 1" + big + "small 2").encode()
    daemon = box.serve(stream, arena="1MiB", cache=0)
    trainer = box.trainer(daemon, timeout=80000)
    trainer.get("show tokens")
    got = b"".join(bytes(t) for b in lk.to_the_end(trainer)[0] for t in b["tokens"])
    lk.check(got == expected[:len(got)] and len(got) == len(expected) // 16384 * 16384,
             "a document of 1.5 M tokens through an arena of 256 k: every token in its place", (len(got), len(expected)))
    with open(f"/proc/{daemon.pid}/status") as f:
        peak = next(int(l.split()[1]) for l in f if l.startswith("VmHWM"))
    lk.check(peak < 200 << 10 or box.sanitized, "and memory stays bounded", f"{peak} kB")
    box.write("huge/a.jsonl", '{"text":"before"}\n{"other":"' + "x" * 40_000_000 + '","text":"long row"}\n{"text":"after"}\n')
    stream = box.plain({"d": {"path": "huge", "epochs": 1}}, sequence=1)
    trainer = box.trainer(box.serve(stream, "huge"), timeout=60000)
    trainer.get("show tokens")
    batches, end = lk.to_the_end(trainer)
    lk.check(bytes(b["tokens"][0][0] for b in batches) == b"beforelong rowafter", "a row of 40 MB is read like any other",
             (len(batches), end))


def small_budgets(box):
    """What does not fit a budget is refused with both numbers, or slower; never wrong and never stuck."""
    stream = box.mixed(100, batch=64, sequence=512)
    reference = box.serve(stream, "reference", prefetch_steps=1)
    expected = lk.run_world(box, reference, 1, 6, show="none")
    reference.stop()
    daemon = box.serve(stream, "message", index=False, max_message="64KiB", prefetch_steps=1)
    got = lk.run_world(box, daemon, 1, 6, show="none", sharing="always")
    lk.same(got, expected, "max_message bounds what clients send: larger batches are served by shared memory")
    got = lk.run_world(box, daemon, 1, 6, show="none", sharing="never")
    lk.same(got, expected, "and inline")
    daemon.stop()
    few = box.serve(stream, "few", index=False, max_waiting=4, prefetch_steps=2)
    begin = time.monotonic()
    got = lk.run_world(box, few, 16, 6, show="none", lookahead=4, timeout=60000)
    took = time.monotonic() - begin
    lk.same(got, expected, "with max_waiting 4, sixteen ranks that look four steps ahead get all the same")
    lk.check(took < 20, "without waiting for deadlines", f"{took:.1f} s")
    few.stop()
    # The cost of the lanes' buffers is known beforehand.
    wide = box.mixed(100, lanes=8, pipeline=[{"shuffle": {"buffer": 1000000}}, {"pack": {"algorithm": "concat"}}])
    box.refused(box.config(wide, "wide", state="16MiB"), "buffers that may need more than `state` are refused at start", "state")


def schedule_and_worlds(box):
    """A world that a later, smaller step cannot be cut for is refused there, with both numbers."""
    stream = box.mixed(100, lanes=2, batch=[{"from": 0, "size": 8}, {"from": 5, "size": 2}, {"from": 9, "size": 6}])
    daemon = box.serve(stream)
    whole = lk.run_world(box, daemon, 1, 14)
    lk.same([len(t) for _, t in whole], [8] * 5 + [2] * 4 + [6] * 5, "steps have the sizes of the schedule")
    lk.same(lk.run_world(box, daemon, 2, 14), whole, "two ranks get the same through all sizes")
    batches, failure = box.trainer(daemon, rank=1, world=4, lookahead=4, timeout=5000).do("next 14")
    lk.check(len(batches) == 5 and failure.startswith("INVALID_ARGUMENT") and "2" in failure,
             "four ranks are served as long as a step has four rows, and then told", (len(batches), failure))
    single = box.mixed(100, lanes=2, batch=2)
    other = box.serve(single, "single", index=False)
    small = [row for _, step in lk.run_world(box, other, 1, 39) for row in step]
    lanes = [[], []]
    for i, row in enumerate(small):
        lanes[i % 2].append(row)
    at = 0
    for _, step in whole:
        half = len(step) // 2
        if step != lanes[0][at:at + half] + lanes[1][at:at + half]:
            lk.not_ok("the schedule cuts the lanes' sequences and changes none", at)
            break
        at += half
    else:
        lk.ok("the schedule cuts the lanes' sequences and changes none")


def many_lanes(box):
    """The lanes of a large run: what a row costs does not grow with their number."""
    stream = box.mixed(2048, lanes=1024, batch=2048, sequence=512,
                       pipeline=[{"shuffle": {"buffer": 8}}, {"pack": {"algorithm": "exact_fit", "pool": 16}}])
    daemon = box.serve(stream, workers=2, state="1GiB", arena="64MiB", prefetch_steps=2)
    whole = lk.run_world(box, daemon, 1, 3)
    lk.check([len(tokens) for _, tokens in whole] == [2048] * 3, "1,024 lanes give three steps of 2,048 sequences")
    ranks = [box.trainer(daemon, rank=r, world=2048) for r in (0, 1000, 2047)]
    lk.lines_of(ranks, "show tokens")
    for rank, batches in zip((0, 1000, 2047), lk.lines_of(ranks, "next 3")):
        lk.same([b["tokens"] for b in batches], [tokens[rank:rank + 1] for _, tokens in whole],
                f"rank {rank} of 2,048 has its sequence of each")


def two_streams(box):
    """One daemon, two recipes over the same data; neither knows of the other."""
    a, b = box.mixed(), box.mixed(seed=9, lanes=2, batch=6)
    alone = {}
    for name, stream in (("a", a), ("b", b)):
        daemon = box.serve(stream, f"only-{name}", index=name == "a")
        alone[name] = lk.run_world(box, daemon, 1, 20, show="none")
        daemon.stop()
    daemon = box.serve(None, "both", index=False, streams={"a": a, "b": b}, arena="1MiB", snapshots={"dir": "snap", "every": 4})
    ranks = {n: [box.trainer(daemon, stream=n, rank=r, world=2) for r in range(2)] for n in ("a", "b")}
    got = lk.lines_of(ranks["a"] + ranks["b"], "next 20")
    lk.same([(d, t) for d, t in lk.steps_of(got[:2])], alone["a"], "two streams of one daemon: the first as if alone")
    lk.same([(d, t) for d, t in lk.steps_of(got[2:])], alone["b"], "and the second")
    failure = box.trainer(daemon, timeout=3000).connect()
    lk.check(re.search(r"\ba\b.*\bb\b", failure) is not None, "a trainer that names none is told their names", failure)


def remote_workers(box):
    """Workers of other machines: the same bytes, with and without local ones, killed or not."""
    stream = box.mixed()
    reference = box.serve(stream, "reference")
    expected = lk.run_world(box, reference, 1, 100, show="none")
    reference.stop()
    token = box.write("token", "a secret of some length\n")
    wrong = box.write("wrong", "another secret of some length\n")
    os.chmod(token, 0o600)
    os.chmod(wrong, 0o600)
    for local in (0, 1):
        address = f"tcp://127.0.0.1:{lk.free_port()}"
        daemon = box.serve(stream, f"remote{local}", index=False, workers=local, workers_listen=address, worker_token_file=str(token))
        begin = time.monotonic()

        def worker(secret):
            return subprocess.Popen([str(box.build / "lanekeeper-worker"), "--connect", address, "--token-file", str(secret),
                                     "--reconnect", "3"], env=box.environment(), stderr=subprocess.PIPE, text=True)
        stranger = worker(wrong)
        workers = [worker(token) for _ in range(2)]
        lk.wait_until(lambda d=daemon: d.status()["workers"]["remote"] == 2, 20, "two remote workers")
        ranks = box.world(daemon, 2, timeout=60000)
        for r in ranks:
            r.connect()
            r.send("next 100 5")
        for _ in range(3):
            time.sleep(0.15)
            workers[0].kill()
            workers[0].communicate()
            workers[0] = worker(token)
        got = [r.answer() for r in ranks]
        lk.check(not any(f for _, f in got), f"{local} local and 2 remote workers, some killed: nobody notices", [f for _, f in got])
        lk.same(lk.steps_of([b for b, _ in got]), expected, f"{local} local and 2 remote workers: the same digests")
        try:
            code = stranger.wait(15)
            said = stranger.stderr.read()
            lk.check(code == 1, "a worker with another secret is refused", (code, said))
        except subprocess.TimeoutExpired:
            lk.not_ok("a worker with another secret is refused", "it goes on trying")
            stranger.kill()
        daemon.stop()
        ends_ = []
        for w in workers:
            try:
                ends_.append(w.wait(10))
            except subprocess.TimeoutExpired:
                ends_.append("runs on")
                w.kill()
        lk.check(all(e in (0, 1) for e in ends_), "remote workers end when their daemon has gone", ends_)
        for w in [stranger, *workers]:
            w.stderr.close()
        del begin


def no_workers(box):
    """Neither local nor remote ones."""
    stream = box.mixed(100)
    box.index(box.config(stream))
    box.refused(box.config(stream, "none", workers=0), "no workers at all are refused at start", "workers_listen")


def missing_worker_program(box):
    """No lanekeeper-worker beside the daemon: said, not a silent wait."""
    folder = box.path / "bin"
    folder.mkdir()
    (folder / "lanekeeperd").write_bytes(box.daemon_path.read_bytes())
    (folder / "lanekeeperd").chmod(0o755)
    config = box.config(box.mixed(100))
    box.index(config)
    daemon = box.daemon(config, index=False, ready=False, binary=folder / "lanekeeperd")
    lk.wait_until(lambda: "ready" in daemon.log() or daemon.process.poll() is not None, 10, "a start")
    if daemon.process.poll() is None:
        box.trainer(daemon, timeout=1500).do("next")
    lk.check("lanekeeper-worker" in daemon.log(), "a worker program that is not there is named", daemon.log()[-300:])


if __name__ == "__main__":
    lk.main([ends, giants, small_budgets, schedule_and_worlds, many_lanes, two_streams, remote_workers, no_workers, missing_worker_program])
