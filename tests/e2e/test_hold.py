"""RC-134: a batch keeps its bytes as long as it is held, and holding them hurts nobody else."""

import signal
import time

import lk


def held_for_ever(box):
    """Two hundred batches held, across the close of the handle and the death of the daemon."""
    stream = box.mixed()
    config = box.config(stream, prefetch_steps=4)
    daemon = box.daemon(config)
    holder = box.trainer(daemon, rank=0, world=2, sharing="always")
    holder.get("hold 4000")
    batches = holder.get("next 200")
    lk.check(sum(b["shared"] for b in batches) >= 4, "some of them are in shared memory", sum(b["shared"] for b in batches))
    other = box.trainer(daemon, rank=1, world=2)
    begin = time.monotonic()
    others = other.get("next 250")
    lk.check(time.monotonic() - begin < 30, "meanwhile another rank goes on", f"{time.monotonic() - begin:.1f} s")
    lk.same(holder.get("check")[0], {"held": 200, "changed": 0}, "200 held batches keep their bytes while 250 more are made")
    leased = daemon.status()["streams"][0]["slots_leased"]
    lk.check(leased > 0, "the leases are counted", leased)
    daemon.kill()
    daemon = box.daemon(config, index=False)
    more = holder.get("next 20")
    lk.same(holder.get("check")[0], {"held": 220, "changed": 0}, "they keep them when the daemon is killed and comes back")
    holder.get("close")
    other.get("next 20")
    lk.same(holder.get("check")[0], {"held": 220, "changed": 0}, "and when their own handle is closed")
    holder.get("release")
    lk.check(holder.close() == 0, "releasing late, and twice, is fine")
    reference = box.serve(stream, "reference", index=False)
    expected = lk.run_world(box, reference, 1, 220, show="none")
    got = lk.steps_of([batches + more, others[:220]])
    lk.same(got, expected, "and all of it was the right data")


def never_released(box):
    """Trainers that hold all they get do not hold up one that does not."""
    stream = box.mixed()
    daemon = box.serve(stream, prefetch_steps=2)
    greedy = [box.trainer(daemon, rank=r, world=4, lookahead=8) for r in range(3)]
    for g in greedy:
        g.get("hold 4000")
    lk.lines_of(greedy, "next 60")
    good = box.trainer(daemon, rank=3, world=4, sharing="auto")
    good.get("next 300")
    lk.ok("a rank goes on for 300 steps beside three that never release")
    lk.same([g.get("check")[0]["changed"] for g in greedy], [0, 0, 0], "and theirs keep their bytes")
    status = daemon.status()["streams"][0]
    lk.check(0 < status["slots_leased"] < status["slots"], "leases stay bounded", (status["slots_leased"], status["slots"]))
    for g in greedy:
        g.kill()
    lk.wait_until(lambda: daemon.status()["streams"][0]["slots_leased"] <= 3, 10, "leases of killed trainers freed")
    lk.ok("killed while holding, they give all back")


def stopped_trainer(box):
    """RC-125: a trainer under SIGSTOP disturbs nobody, and goes on when it wakes."""
    stream = box.mixed()
    daemon = box.serve(stream)
    sleeper, other = (box.trainer(daemon, rank=r, world=2) for r in range(2))
    lk.lines_of([sleeper, other], "next 5")
    sleeper.send("next 100")
    sleeper.kill(signal.SIGSTOP)
    got = other.get("next 200")
    lk.check(len(got) == 200, "another rank goes 200 steps while one is stopped")
    sleeper.kill(signal.SIGCONT)
    batches, failure = sleeper.answer()
    lk.check(len(batches) == 100 and not failure and [b["step"] for b in batches] == list(range(5, 105)),
             "woken, it goes on where it was", failure)


def memory_is_bounded(box):
    """A small arena under buffers that hold far more: the bytes are the same, and memory stays flat."""
    texts = lk.prose(9, 3000, 6000)
    box.dataset("big", texts, 4)
    stream = box.plain({"big": {"path": "big"}}, lanes=4, batch=8, sequence=1024, order={"block_rows": 32},
                       pipeline=[{"shuffle": {"buffer": 600}}, {"pack": {"algorithm": "exact_fit", "pool": 64}}])
    expected = None
    for arena in ("256MiB", "1MiB"):
        daemon = box.serve(stream, f"a{arena}", arena=arena, workers=2, prefetch_steps=2)
        got = lk.run_world(box, daemon, 2, 120, show="none")
        status = daemon.status()
        daemon.stop()
        if expected is None:
            expected = got
            lk.check(status["arena"]["evicted"] == 0 and status["arena"]["bytes"] > 2 << 20,
                     "the buffers hold more than twice the small arena", status["arena"])
        else:
            lk.same(got, expected, "with an arena far too small for the buffers: the same digests")
            lk.check(status["arena"]["evicted"] > 0 and status["arena"]["bytes"] <= 1 << 20,
                     "rows were evicted, fetched again, and the budget kept", status["arena"])


if __name__ == "__main__":
    lk.main([held_for_ever, never_released, stopped_trainer, memory_is_bounded])
