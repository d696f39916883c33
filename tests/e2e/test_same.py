"""Law 1 and 2: nothing but (recipe, data, step) can change a byte."""

import random

import lk

STEPS = 24


def reference(box, stream, steps=STEPS):
    daemon = box.serve(stream, "reference")
    made = lk.run_world(box, daemon, 1, steps)
    return daemon, made


def worlds(box):
    daemon, expected = reference(box, box.mixed())
    for world in (2, 3, 5, 7, 8):
        lk.same(lk.run_world(box, daemon, world, STEPS), expected,
                f"{world} ranks together get the batches of one: digests and tokens")
    asked = box.trainer(daemon).get(f"digest 0 {STEPS}")
    lk.same([d["digest"] for d in asked], [d for d, _ in expected],
            "the digest of a step is the sum of its ranks' digests")
    trainers = box.world(daemon, 2, timeout=5000)
    answer = box.trainer(daemon, rank=0, world=9).do("next")[1]
    lk.check(answer.startswith("INVALID_ARGUMENT") and "9" in answer and "8" in answer,
             "nine ranks of a batch of eight are refused with both numbers", answer)
    del trainers


def runtimes(box):
    """Each a different way to run the same recipe, with daemons of their own."""
    stream = box.mixed()
    _, expected = reference(box, stream)
    for i, (name, runtime, options) in enumerate((
            ("2 workers", {"workers": 2}, {}),
            ("4 workers and prefetch 1", {"workers": 4, "prefetch_steps": 1}, {}),
            ("prefetch 32", {"prefetch_steps": 32}, {}),
            ("an arena of 1 MiB", {"arena": "1MiB"}, {}),
            ("no cache", {"cache": 0}, {}),
            ("snapshots every step", {"snapshots": {"dir": "snap-a", "every": 1}}, {}),
            ("snapshots every seventh step, only two kept",
             {"snapshots": {"dir": "snap-b", "every": 7, "keep": 2}}, {}),
            ("batches inline over ipc", {}, {"sharing": "never"}),
            ("tcp", {"listen": "tcp://127.0.0.1:0"}, {"sharing": "never"}),
            ("tcp with shared memory", {"listen": "tcp://127.0.0.1:0"}, {"sharing": "always"}),
            ("shared memory and no look-ahead", {}, {"sharing": "always", "lookahead": 0}),
            ("look-ahead 64", {}, {"lookahead": 64}))):
        daemon = box.serve(stream, f"run{i}", index=False, **runtime)
        lk.same(lk.run_world(box, daemon, 3, STEPS, **options), expected,
                f"with {name}: the same digests and tokens")
        status = daemon.status()["streams"][0]
        shared = status["batches_shared"] > 0
        lk.check(shared == (options.get("sharing") != "never"),
                 f"with {name}: batches went the way that was asked for", status["batches_shared"])
        code, _ = daemon.stop()
        lk.check(code == 0, f"with {name}: the daemon ends with 0", code)


def odd_sizes(box):
    """Rows of an odd number of tokens, whatever lies behind them in a message or in memory."""
    box.dataset("d", lk.prose(2, 300, 40))
    for sequence, batch in ((1, 1), (3, 5), (5, 3), (7, 9)):
        stream = box.plain({"d": {"path": "d"}}, sequence=sequence, batch=batch)
        daemon = box.serve(stream, f"odd{sequence}")
        made = {}
        for sharing in ("always", "never"):
            for world in {1, (batch + 1) // 2, batch}:
                made[sharing, world] = lk.run_world(box, daemon, world, 12, sharing=sharing)
        first = made["always", 1]
        lk.same([how for how, got in made.items() if got != first], [],
                f"rows of {sequence} tokens, {batch} a step: the same in memory and inline, for each world")


def order_of_asking(box):
    stream = box.mixed()
    daemon, expected = reference(box, stream, 60)
    digests = [d for d, _ in expected]
    fresh = box.serve(stream, "fresh", index=False, snapshots={"dir": "snap", "every": 10})
    steps = [random.Random(5).randrange(60) for _ in range(120)]
    got = box.trainer(fresh, timeout=60000).get("get " + " ".join(map(str, steps)))
    lk.same([b["digest"] for b in got], [digests[s] for s in steps],
            "steps asked for in random order, many of them twice, are those of a run in order")
    one = box.serve(stream, "onecursor", index=False, max_cursors=1)
    got = box.trainer(one, timeout=60000).get("get " + " ".join(map(str, steps[:30])))
    lk.same([b["digest"] for b in got], [digests[s] for s in steps[:30]],
            "the same with one cursor and no snapshots")


def far_apart(box):
    """A rank a hundred steps behind gets its bytes, and does not disturb the others."""
    stream = box.mixed()
    daemon = box.serve(stream, prefetch_steps=4, snapshots={"dir": "snap", "every": 20})
    lone = box.serve(stream, "lone", index=False)
    expected = lk.run_world(box, lone, 1, 140)
    late, early = box.trainer(daemon, rank=1, world=2), box.trainer(daemon, rank=0, world=2)
    lk.lines_of([late, early], "show tokens")
    ahead = early.get("next 120")
    together = []
    for _ in range(4):    # both at work at once
        early.send("next 5")
        late.send("next 30")
        ahead += early.answer()[0]
        together += late.answer()[0]
    together += late.get("next 20")
    lk.same(lk.steps_of([ahead, together]), expected,
            "ranks that are up to 120 steps apart get what ranks side by side get")


def lookahead(box):
    """RC-006: what was fetched ahead does not count as consumed."""
    box.dataset("d", [chr(i + 1) for i in range(40)])
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, batch=4)
    for depth in (0, 1, 4, 8):
        daemon = box.serve(stream, f"depth{depth}")
        ranks = box.world(daemon, 2, lookahead=depth)
        lk.lines_of(ranks, "show tokens")
        seen = lk.lines_of(ranks, "next 3")
        states = {r.get("state")[0]["state"] for r in ranks}
        lk.check(len(states) == 1, f"look-ahead {depth}: every rank's state is the same", states)
        for r in ranks:
            r.kill()
        daemon.kill()
        daemon = box.serve(stream, f"depth{depth}", index=False)
        again = box.world(daemon, 2, lookahead=depth, state=states.pop())
        lk.lines_of(again, "show tokens")
        for rank, trainer in enumerate(again):
            more, _ = lk.to_the_end(trainer)
            seen[rank] += more
        lk.check(seen[0][3]["step"] == 3, f"look-ahead {depth}: the first step after is 3",
                 seen[0][3]["step"])
        lk.same([t[0] for _, step in lk.steps_of(seen) for t in step], list(range(1, 41)),
                f"look-ahead {depth}: each of 40 samples comes once, in order")
        daemon.stop()


def replicas(box):
    """RC-010: tensor-parallel ranks ask as the same rank, and nothing is counted twice."""
    box.dataset("d", [chr(i + 1) for i in range(120)])
    daemon = box.serve(box.plain({"d": {"path": "d"}}, batch=4))
    pairs = [[box.trainer(daemon, rank=r, world=4) for _ in range(2)] for r in range(4)]
    everyone = [t for pair in pairs for t in pair]
    lk.lines_of(everyone, "show tokens")
    got = lk.lines_of(everyone, "next 25")
    bare = [[{k: v for k, v in b.items() if k != "shared"} for b in batches] for batches in got]
    lk.same(bare[0::2], bare[1::2], "both of a pair get identical bytes at each of 25 steps")
    states = {t.get("state")[0]["state"] for t in everyone}
    states |= {t.get("state 25")[0]["state"] for t in everyone[:2]}
    lk.check(len(states) == 1, "all eight have one state, that of step 25: 100 samples, not 200", states)
    state = states.pop()
    four = box.world(daemon, 4, state=state)
    lk.lines_of(four, "show tokens")
    tokens = [t[0] for _, step in lk.steps_of(lk.lines_of(four, "next")) for t in step]
    lk.same(tokens, [101, 102, 103, 104], "after 25 steps of four unique samples the next is the 100th")


if __name__ == "__main__":
    lk.main([worlds, runtimes, odd_sizes, order_of_asking, far_apart, lookahead, replicas])
