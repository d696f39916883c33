"""Ranks that take every step whatever happens, and what they must have got: the digests of an undisturbed run."""

import contextlib
import json
import threading
import time

import lk


class Rank:
    """Takes steps 0 … steps-1. A trainer of it that dies is replaced by one that begins at the step after
    the last one that came: a checkpoint holds nothing else."""

    def __init__(self, box, where, rank, world, steps, pause_ms=0, **options):
        self.box, self.where, self.steps, self.pause_ms = box, where, steps, pause_ms
        self.options = {"rank": rank, "world": world, "timeout": 60000, **options}
        self.batches, self.failure, self.deaths, self.trainer = [], "", 0, None
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while len(self.batches) < self.steps and not self.failure:
            where = self.where() if callable(self.where) else self.where
            trainer = self.box.trainer(where, step=len(self.batches), **self.options)
            self.trainer = trainer
            try:
                self._take(trainer)
            except (lk.Failure, OSError) as e:
                if trainer.process.poll() is None:    # it lives, so it was not one of our blows
                    self.failure = str(e)
                self.deaths += 1

    def _take(self, trainer):
        if trainer.connect():
            self.failure = f"connect: {trainer.connect_failure}"
            return
        trainer.send(f"next {self.steps - len(self.batches)} {self.pause_ms}")
        until = time.monotonic() + 2 * lk.ANSWER_S
        while (line := trainer._line(until)) != "ok":
            if line.startswith("fail "):
                self.failure = line[5:]
                return
            self.batches.append(json.loads(line))
        status = trainer.close()
        if status not in (0, -9, -15):
            self.failure = f"a trainer ended with {status}"

    def over(self):
        return not self.thread.is_alive()

    def got(self):
        return [(b["step"], b["first"], b["digest"], b["hash"]) for b in self.batches]


class Ranks:
    def __init__(self, box, where, world, steps, pause_ms=0, each=None, **options):
        self.box, self.world, self.steps = box, world, steps
        self.rank = [Rank(box, where, r, world, steps, pause_ms, **{**options, **(each(r) if each else {})})
                     for r in range(world)]

    def over(self):
        return all(r.over() for r in self.rank)

    def taken(self):
        """How many batches all of them have by now."""
        return sum(len(r.batches) for r in self.rank)

    def join(self):
        for r in self.rank:
            r.thread.join()

    def check(self, expected, fact):
        """All have all steps: those of `undisturbed`, to the byte."""
        self.join()
        failures = [f"rank {i}: {r.failure}" for i, r in enumerate(self.rank) if r.failure]
        if failures:
            return lk.not_ok(fact, f"{failures[:2]} after {[len(r.batches) for r in self.rank]} steps")
        for i, r in enumerate(self.rank):
            if r.got() != expected[i][:self.steps]:
                return lk.same(r.got(), expected[i][:self.steps], f"{fact}: rank {i}")
        return lk.ok(fact)


def undisturbed(box, stream, world, steps, name="undisturbed"):
    """What each rank gets when nothing happens: lists of (step, first row, digest, hash of what was read)."""
    daemon = box.serve(stream, name, workers=2, http=None)
    ranks = Ranks(box, daemon.address, world, steps)
    ranks.join()
    failures = [r.failure for r in ranks.rank if r.failure]
    if failures:
        raise lk.Failure(f"the undisturbed run: {failures[0]}")
    daemon.stop()
    return [r.got() for r in ranks.rank]


@contextlib.contextmanager
def good_trainer(box, daemon, expected, fact, most_s, **options):
    """One that takes the steps again and again while something is done to its daemon. It must get them all,
    the right ones, and none may take longer than most_s."""
    over, wrong, slowest, rounds = threading.Event(), [], [0.0], [0]
    trainer = box.trainer(daemon, **{"timeout": 60000, "lookahead": 0, **options})
    digests = [digest for _, _, digest, _ in expected]
    trainer.connect()

    def run():
        try:
            while not over.is_set():
                for step in range(len(digests)):
                    begin = time.monotonic()
                    got = trainer.get(f"get {step}")[0]
                    slowest[0] = max(slowest[0], time.monotonic() - begin)
                    if got["digest"] != digests[step]:
                        wrong.append(step)
                    rounds[0] += 1
                    if over.is_set():
                        break
        except (lk.Failure, OSError) as e:
            wrong.append(str(e))
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    lk.check(not wrong and rounds[0] > 0, f"{fact}: a good trainer beside it gets what it should", wrong[:3])
    lk.check(slowest[0] < most_s, f"{fact}: and waits less than {most_s} s for each of {rounds[0]} steps",
             f"{slowest[0]:.2f} s")
