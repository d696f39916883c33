"""Cases with one right answer, known beforehand: what each token must be."""

import re
import time

import lk


def tokens_of(box, where, show="tokens", **options):
    """All rows' tokens of a stream that ends, and the text of its end."""
    trainer = box.trainer(where, **options)
    trainer.get(f"show {show}")
    batches, end = lk.to_the_end(trainer)
    trainer.close()
    return [row for b in batches for row in b["tokens"]], end


def singles(box, name, values):
    return box.dataset(name, [chr(v) for v in values])


def resume(box):
    """RC-001, RC-003, RC-005: any number of kills gives the uncut stream."""
    singles(box, "d", range(1, 101))
    stream = box.plain({"d": {"path": "d", "epochs": 1}})
    runtime = {"snapshots": {"dir": "snap", "every": 7}}
    config = box.config(stream, **runtime)
    daemon = box.daemon(config)
    trainer = box.trainer(daemon)
    trainer.get("show tokens")
    got = [b["tokens"][0][0] for b in trainer.get("next 5")]
    state = trainer.get("state")[0]["state"]
    lk.check(len(state) == 80, "a state has 40 bytes", len(state))
    for steps in (0, 25, 10, 1, 19):    # the first: saved straight after loading
        daemon.kill()
        trainer.kill()
        daemon = box.daemon(config, index=False)
        trainer = box.trainer(daemon, state=state)
        trainer.get("show tokens")
        again = trainer.get("state")[0]["state"]
        lk.check(again == state, f"a state saved at once after loading at step {len(got)} is the same", again)
        if steps:
            got += [b["tokens"][0][0] for b in trainer.get(f"next {steps}")]
        state = trainer.get("state")[0]["state"]
        step = int.from_bytes(bytes.fromhex(state)[8:16], "little")
        lk.check(step == len(got), f"after {len(got)} steps the state says so", step)
    rest, end = lk.to_the_end(trainer)
    got += [b["tokens"][0][0] for b in rest]
    lk.same(got, list(range(1, 101)), "five kills: samples 0 to 99 once each, in order")
    lk.check(end.startswith("OUT_OF_RANGE") and "100 steps" in end, "the end says how many steps there were", end)
    damaged = state[:20] + ("0" if state[20] != "0" else "1") + state[21:]
    failure = box.trainer(daemon, state=damaged).connect()
    lk.check(failure.startswith("DATA_LOSS"), "a damaged state is refused", failure)
    failure = box.trainer(daemon, state=state[:40]).connect()
    lk.check(failure.startswith("DATA_LOSS"), "half a state is refused", failure)


def epochs(box):
    """RC-002: where a run was cut does not show in later epochs."""
    singles(box, "d", range(1, 101))
    stream = box.plain({"d": {"path": "d", "epochs": 3}}, batch=4)
    daemon = box.serve(stream)
    whole, _ = tokens_of(box, daemon)
    lk.same([r[0] for r in whole], list(range(1, 101)) * 3, "three epochs have all 100 samples each")
    first = box.trainer(daemon)
    first.get("show tokens")
    got = [r for b in first.get("next 18") for r in b["tokens"]]
    state = first.get("state")[0]["state"]
    daemon.kill()
    second = box.trainer(box.serve(stream, index=False), state=state)
    second.get("show tokens")
    got += [r for b in lk.to_the_end(second)[0] for r in b["tokens"]]
    lk.same(got, whole, "a run cut in epoch 0 goes on as the uncut one to the end of epoch 2")


def changing_world(box):
    """RC-007: 4, then 3, 6 and 1 ranks."""
    singles(box, "d", range(1, 121))
    stream = box.plain({"d": {"path": "d", "epochs": 2, "then": "release"}}, batch=12)
    config = box.config(stream)
    box.index(config)
    got, state = [], None
    for world in (4, 3, 6, 1):
        daemon = box.daemon(config, index=False)
        ranks = box.world(daemon, world, **({"state": state} if state else {}))
        lk.lines_of(ranks, "show tokens")
        for _, step in lk.steps_of(lk.lines_of(ranks, "next 5")):
            got += [t[0] for t in step]
        states = {r.get("state")[0]["state"] for r in ranks}
        lk.check(len(states) == 1, f"{world} ranks store the same state", states)
        state = states.pop()
        daemon.kill()
        for r in ranks:
            r.kill()
    lk.same(got, list(range(1, 121)) * 2, "5 steps each on 4, 3, 6 and 1 ranks: each of 240 samples once, in order")


def batch_schedule(box):
    """RC-009: another batch size moves step boundaries and nothing else."""
    singles(box, "d", range(1, 104))
    def stream(batch, **more):
        return box.plain({"d": {"path": "d", "epochs": 1}}, batch=batch, **more)
    daemon = box.serve(stream([{"from": 0, "size": 4}, {"from": 10, "size": 6}]))
    trainer = box.trainer(daemon)
    trainer.get("show tokens")
    batches, _ = lk.to_the_end(trainer)
    lk.same([b["rows"] for b in batches], [4] * 10 + [6] * 10, "10 steps of 4, then 10 of 6, as scheduled")
    lk.same([r[0] for r in batches[10]["tokens"]], list(range(41, 47)), "the first batch of six is samples 40 to 45")
    lk.same([r[0] for b in batches for r in b["tokens"]], list(range(1, 101)), "and the order is that of one size")
    four = box.serve(stream(4), "four", index=False)
    info, other = (box.trainer(d).get("info")[0] for d in (daemon, four))
    lk.check(info["order"] == other["order"] and info["stream"] != other["stream"],
             "the batch size is in the stream digest, not in the order digest", (info, other))


def save_at_zero(box):
    """RC-012: a state of step 0, and at the edges of the shuffle window."""
    singles(box, "d", range(1, 11))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, seed=42, pipeline=[
        {"shuffle": {"buffer": 5}}, {"pack": {"algorithm": "concat"}}])
    daemon = box.serve(stream, snapshots={"dir": "snap", "every": 1})
    states, got = [], []
    trainer = box.trainer(daemon)
    trainer.get("show tokens")
    for _ in range(10):
        states.append(trainer.get("state")[0]["state"])
        got += trainer.get("next")[0]["tokens"][0]
    lk.same(sorted(got), list(range(1, 11)), "the window shuffle gives each sample once")
    lk.check(got != sorted(got), "in another order than they lie", got)
    for at in (0, 4, 5, 6, 9):
        daemon.kill()
        daemon = box.serve(stream, index=False, snapshots={"dir": "snap", "every": 1})
        rest, _ = tokens_of(box, daemon, state=states[at])
        lk.same([r[0] for r in rest], got[at:], f"restored at step {at}: the rest is the same")


def packing_open(box):
    """RC-014: the document that the cut goes through, and the end with a buffer half full."""
    box.dataset("d", ["abc", "defghi", "jk", "lmnopqr", "s", "tuv"])
    text = [ord(c) for c in "abcdefghijklmnopqrstuv"]
    for tail in ("drop", "pad"):
        stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=8, tail=tail, pad_id=0)
        expected = [text[:8], text[8:16]] + ([text[16:] + [0, 0]] if tail == "pad" else [])
        daemon = box.serve(stream, tail, snapshots={"dir": f"snap-{tail}", "every": 1})
        rows, end = tokens_of(box, daemon)
        lk.same(rows, expected, f"tail {tail}: rows are tokens 0-7 and 8-15" + (", and 16-21 padded" if tail == "pad" else ""))
        lk.check(end.startswith("OUT_OF_RANGE"), f"tail {tail}: then it ends", end)
        totals = daemon.status()["streams"][0]["cursors"][0]
        numbers = [totals[k] for k in ("tokens_in", "tokens_out", "tokens_lost", "tokens_padded")]
        lk.same(numbers, [22, 16, 6, 0] if tail == "drop" else [22, 22, 0, 2],
                f"tail {tail}: tokens in, out, lost and padded are counted")
        daemon.kill()
        daemon = box.serve(stream, tail, index=False, snapshots={"dir": f"snap-{tail}", "every": 1})
        rows, _ = tokens_of(box, daemon, step=1)
        lk.same(rows, expected[1:], f"tail {tail}: restored inside the document of six tokens, the same rows")


def empty_texts(box):
    """RC-037: documents without a token."""
    def served(name, texts, append):
        box.dataset(name, texts)
        tokenizer = {"bytes": True, "append": "eos"} if append else {"bytes": True}
        return box.plain({"d": {"path": name, "epochs": 1}}, tokenizer=tokenizer)
    texts = ["", "a", "", "", "", "b", ""]
    rows, _ = tokens_of(box, box.serve(served("with", texts, True), "with-eos"))
    lk.same([r[0] for r in rows], [256, 97, 256, 256, 256, 256, 98, 256, 256],
            "with an end token an empty text is that token alone")
    trainer = box.trainer(box.serve(served("without", texts, False), "no-eos"))
    trainer.get("show all")
    batches, _ = lk.to_the_end(trainer)
    lk.same([b["tokens"][0][0] for b in batches], [97, 98], "without one it is nothing")
    lk.same([b["parts"][0] for b in batches], [[["d", 1, 0, 0, 1]], [["d", 5, 0, 0, 1]]],
            "and leaves no piece of length 0")
    for name, path in (("only empty texts", "empty"), ("only one empty text", "one")):
        stream = served(path, [""] * (5 if path == "empty" else 1), False)
        no_tokens(box, stream, path, name)
        del stream["datasets"]["d"]["epochs"]
        no_tokens(box, stream, path + "-repeat", name + ", repeated")


def no_tokens(box, stream, name, what):
    """RC-127: refused at start, or by the first request at once; never a loop."""
    config = box.config(stream, name)
    box.index(config)

    def first_request():
        daemon = box.daemon(config, index=False, ready=False)
        try:
            daemon.ready(10)
        except lk.Failure:
            lk.check("token" in daemon.log(), f"a dataset with {what} is refused at start, saying so", daemon.log()[-300:])
            return 0.0
        trainer = box.trainer(daemon, timeout=20000)
        trainer.connect()
        begin = time.monotonic()
        _, failure = trainer.do("next")
        took = time.monotonic() - begin
        lk.check(re.search("token|global batch", failure) is not None and not failure.startswith("DEADLINE"),
                 f"a dataset with {what} is an error", failure)
        daemon.stop()
        return took
    lk.quickly(first_request, 1, f"a dataset with {what} is an error within a second")


def everything_filtered(box):
    """RC-127, RC-138: a filter that nothing passes."""
    box.dataset("d", ["a", "bb"] * 20)
    pipeline = [{"filter": {"min_bytes": 10}}, {"pack": {"algorithm": "concat"}}]
    for repeat in (True, False):
        stream = box.plain({"d": {"path": "d", **({} if repeat else {"epochs": 1})}}, pipeline=pipeline)
        no_tokens(box, stream, f"all{repeat}", "every row filtered out, " + ("repeated" if repeat else "once"))
    box.dataset("good", ["abcdefghijkl"] * 20)
    stream = box.plain({"d": {"path": "d"}, "good": {"path": "good"}}, pipeline=pipeline)
    no_tokens(box, stream, "mixed", "every row filtered out, beside a good one")


def control_characters(box):
    """RC-039: NUL is a character."""
    box.dataset("d", ["a\0b", "\x01", "\x7f", "\0"])
    rows, _ = tokens_of(box, box.serve(box.plain({"d": {"path": "d", "epochs": 1}})))
    lk.same([r[0] for r in rows], [97, 0, 98, 1, 127, 0], "NUL, U+0001 and U+007F come through")
    trainer = box.trainer(box.daemons[-1])
    trainer.get("show parts")
    lk.same(trainer.get("get 2")[0]["parts"][0], [["d", 0, 0, 2, 1]], "and what follows a NUL is of the same document")


def long_document(box):
    """RC-072: split, never cut off."""
    singles(box, "one", [])
    box.dataset("one", ["".join(chr(i) for i in range(1, 11))])
    stream = box.plain({"d": {"path": "one", "epochs": 1}}, sequence=4,
                       tokenizer={"bytes": True, "append": "eos"})
    trainer = box.trainer(box.serve(stream))
    trainer.get("show all")
    batches, _ = lk.to_the_end(trainer)
    lk.same([b["tokens"][0] for b in batches], [[1, 2, 3, 4], [5, 6, 7, 8]], "11 tokens in rows of 4: two rows")
    lk.same([b["parts"][0] for b in batches], [[["d", 0, 0, 0, 4]], [["d", 0, 0, 4, 4]]],
            "and the second row's piece says that it begins at token 4")
    lost = box.daemons[-1].status()["streams"][0]["cursors"][0]["tokens_lost"]
    lk.check(lost == 3, "the tail of three tokens is counted", lost)


def edges(box):
    """RC-073: ends of rows and of documents that coincide."""
    texts, at = [], 1
    for n in (4, 4, 3, 5, 0, 1):
        texts.append("".join(chr(i) for i in range(at, at + n)))
        at += n
    box.dataset("d", texts)
    trainer = box.trainer(box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, sequence=4)))
    trainer.get("show all")
    batches, _ = lk.to_the_end(trainer)
    lk.same([t for b in batches for t in b["tokens"][0]], list(range(1, 17)), "rows are tokens 1 to 16")
    lk.same([[p[4] for p in b["parts"][0]] for b in batches], [[4], [4], [3, 1], [4]],
            "segments are [4] [4] [3,1] [4], none of length 0")


def many_sources(box):
    """RC-077: 300 data sets, each of one document that is its number."""
    datasets = {}
    for i in range(300):
        box.dataset(f"sources/s{i:03d}", [chr(33 + i // 90) + chr(33 + i % 90)])
        datasets[f"s{i:03d}"] = {"path": f"sources/s{i:03d}"}
    daemon = box.serve(box.plain(datasets, sequence=2, mixture="samples"))
    trainer = box.trainer(daemon)
    trainer.get("show all")
    batches = trainer.get("next 300")
    numbers = [(b["tokens"][0][0] - 33) * 90 + b["tokens"][0][1] - 33 for b in batches]
    lk.same(sorted(numbers), list(range(300)), "300 samples of 300 sources: each once")
    lk.same([b["parts"][0][0][0] for b in batches], [f"s{n:03d}" for n in numbers],
            "and each names its source, the 256th too")


def weights(box):
    """RC-078, RC-079: extreme, zero, negative and absurd weights."""
    for i in range(3):
        singles(box, f"w{i}", range(1 + 40 * i, 41 + 40 * i))
    def stream(values, **more):
        return box.plain({f"w{i}": {"path": f"w{i}", "weight": v} for i, v in enumerate(values)},
                         mixture="samples", **more)
    daemon = box.serve(stream([0.001, 0.999]), "extreme")
    for n in (1, 20, 1000, 5000):
        trainer = box.trainer(daemon)
        trainer.get("show parts")
        names = [b["parts"][0][0] for b in trainer.get(f"next {n}")]
        few = sum(1 for p in names if p[0] == "w0")
        lk.check(abs(few - 0.001 * n) <= 1, f"weights 0.001 and 0.999: within 1 of the share after {n}", few)
        trainer.close()
    epochs = [p[2] for p in names if p[0] == "w1"]
    lk.check(epochs == sorted(epochs) and epochs[-1] == (len(epochs) - 1) // 40,
             "each wrap is a new epoch, counted", epochs[-1])
    for name, values, share in (("w.7", [0.7, 0.3], 0.7), ("sum to 3", [2, 1], 2 / 3), ("sum to .9", [0.6, 0.3], 2 / 3)):
        trainer = box.trainer(box.serve(stream(values), f"x{values[0]}".replace(".", "-"), index=False))
        trainer.get("show parts")
        drift = worst = 0
        for n, b in enumerate(trainer.get("next 300"), 1):
            drift += b["parts"][0][0][0] == "w0"
            worst = max(worst, abs(drift - n * share))
        lk.check(worst <= 1 + 1e-9, f"weights that {name}: never more than one sample off", worst)
    trainer = box.trainer(box.serve(stream([1, 0], epochs=1), "zero", index=False))
    trainer.get("show parts")
    batches, end = lk.to_the_end(trainer)
    lk.check({b["parts"][0][0][0] for b in batches} == {"w0"} and len(batches) == 40 and end.startswith("OUT_OF_RANGE"),
             "weight 0 is absent, and the other's end is the stream's", (len(batches), end))
    for values, words in (([0, 0], "weight"), ([-1, 2], "-1"), ([float("nan"), 1], "NaN"),
                          ([float("inf"), 1], "Infinity"), ([1e-320, 1], "weight|datasets")):
        box.refused(box.config(stream(values), "bad"), f"weights {values} are refused at start", words)
    box.refused(box.config(stream([]), "none"), "no datasets at all are refused", "datasets")


def stop_rules(box):
    """RC-081: first exhausted, without replacement."""
    values = [[1, 2, 3], [11, 12, 13, 14], [21, 22, 23, 24, 25]]
    for i, v in enumerate(values):
        singles(box, f"s{i}", v)
    singles(box, "s3", [21, 22, 23])
    def rows(third, then, name, **keys):
        d = {n: {"path": p, "epochs": 1, "then": then, **keys} for n, p in
             (("a", "s0"), ("b", "s1"), ("c", third))}
        return [r[0] for r in tokens_of(box, box.serve(box.plain(d, mixture="samples"), name))[0]]
    lk.same(rows("s2", "stop", "first"), [1, 11, 21, 2, 12, 22, 3, 13, 23], "stop: the first that ends, ends all")
    lk.same(rows("s3", "release", "without"), [1, 11, 21, 2, 12, 22, 3, 13, 23, 14],
            "release: without replacement, to the last sample")


def few_samples(box):
    """RC-091, RC-092: the end comes at the same step on every rank."""
    singles(box, "two", [1, 2])
    singles(box, "d25", range(1, 26))
    for tail in ("drop", "pad"):
        stream = box.plain({"d": {"path": "two", "epochs": 1}}, batch=8, tail=tail, pad_id=7)
        config = box.config(stream, f"few-{tail}")
        box.index(config)
        if tail == "drop":
            def told():
                trainer = box.trainer(box.daemon(config, index=False), timeout=20000)
                begin = time.monotonic()
                failure = trainer.connect() or trainer.do("next")[1]
                took = time.monotonic() - begin
                lk.check("smaller than one global batch" in failure, "two samples, batch 8, drop: an error that says so", failure)
                box.daemons[-1].stop()
                return took
            lk.quickly(told, 2, "two samples, batch 8, drop: at once")
            continue
        ranks = box.world(box.daemon(config, index=False), 8)
        lk.lines_of(ranks, "show all")
        answers = [lk.to_the_end(r) for r in ranks]
        lk.check(all(len(a[0]) == 1 and a[1].startswith("OUT_OF_RANGE") for a in answers),
                 "two samples, world 8, pad: one step on every rank", [len(a[0]) for a in answers])
        lk.same([a[0][0]["tokens"][0] for a in answers], [[1], [2]] + [[7]] * 6, "the others get padding")
        lk.same([a[0][0]["used"][0] for a in answers], [1, 1] + [0] * 6, "that is marked as such")
    for tail, steps, left in (("drop", 2, 5), ("pad", 3, 0)):
        stream = box.plain({"d": {"path": "d25", "epochs": 1}}, batch=10, tail=tail)
        daemon = box.serve(stream, f"d25-{tail}")
        ranks = box.world(daemon, 2)
        lk.lines_of(ranks, "show all")
        answers = [lk.to_the_end(r) for r in ranks]
        lk.same([len(a[0]) for a in answers], [steps] * 2, f"25 samples, 2 ranks of 5, {tail}: {steps} steps each")
        lk.check(all(f"after {steps} steps" in a[1] for a in answers), f"{tail}: both are told the number", [a[1] for a in answers])
        used = sum(u for a in answers for b in a[0] for u in b["used"])
        lk.check(used == 25 - left, f"{tail}: {25 - left} samples were delivered", used)
        totals = daemon.status()["streams"][0]["cursors"][0]
        lk.check(totals["identity"], f"{tail}: the token identity holds at the end", totals)
    box.dataset("hundred", [chr(1 + i) for i in range(100)])
    stream = box.plain({"d": {"path": "hundred", "epochs": 1}}, lanes=2, batch=4, sequence=10,
                       order={"block_rows": 5})
    daemon = box.serve(stream, "hundred")
    answers = [lk.to_the_end(r) for r in box.world(daemon, 4)]
    lk.check(len({(len(a[0]), a[1]) for a in answers}) == 1 and len(answers[0][0]) == 2,
             "100 one-token documents in rows of 10, world 4: two steps on each rank", [len(a[0]) for a in answers])


def counts(box):
    """RC-138: read = filtered + bad + kept, exactly."""
    good = lk.rows(["long enough 1", "x", "long enough 2", "y", "long enough 3", "z", "long enough 4", "long enough 5"])
    box.write("d/a.jsonl", good + '{"text": 5}\n{"text": "broken\n')
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, on_bad_row="drop", sequence=13,
                       pipeline=[{"filter": {"min_bytes": 5}}, {"pack": {"algorithm": "concat"}}])
    daemon = box.serve(stream)
    rows, _ = tokens_of(box, daemon)
    lk.same([bytes(r).decode() for r in rows], [f"long enough {i}" for i in range(1, 6)], "the good rows are served")
    totals = daemon.status()["streams"][0]["cursors"][0]
    dropped = {k: v for k, v in totals["dropped"].items() if v}
    lk.same([totals["rows"], totals["records"], sum(dropped.values())], [10, 5, 5], "10 read = 5 kept + 5 dropped")
    lk.same(dropped, {"filter_bytes": 3, "malformed_row": 1, "missing_text": 1}, "3 filtered, 2 bad, by rule")
    for row, why in ((8, "its text is a number"), (9, "it is cut off")):
        lk.check(re.search(rf"row_dropped.*shard a\.jsonl row {row}\b", daemon.log()) is not None,
                 f"row {row} is listed with shard and row ({why})", daemon.log()[-500:])


def finite_epochs(box):
    """RC-020, and every row exactly `epochs` times, with lanes, shuffles and every packer."""
    texts = [f"{i:03d}" + "x" * (i * 7 % 23) for i in range(200)]
    box.dataset("d", texts, 4)
    box.dataset("e", texts[:90], 2)
    for algorithm in ("concat", "first_fit", "best_fit", "exact_fit"):
        pack = {"algorithm": algorithm} if algorithm == "concat" else {"algorithm": algorithm, "pool": 16}
        stream = box.plain({"d": {"path": "d", "epochs": 3, "weight": 2}, "e": {"path": "e", "epochs": 2}},
                           seed=7, lanes=4, batch=8, sequence=32, tail="pad", pad_id=255,
                           tokenizer={"bytes": True, "append": "eos"},
                           order={"block_rows": 8}, pipeline=[{"split": {"max_tokens": 20}}, {"shuffle": {"buffer": 16}}, {"pack": pack}])
        daemon = box.serve(stream, algorithm)
        trainer = box.trainer(daemon)
        trainer.get("show all")
        batches, end = lk.to_the_end(trainer)
        expected = {(name, row, epoch): len(texts[row]) + 1 for name, n, times in (("d", 200, 3), ("e", 90, 2))
                    for row in range(n) for epoch in range(times)}
        seen, wrong = {}, 0
        for b in batches:
            for tokens, parts in zip(b["tokens"], b["parts"]):
                at = 0
                for name, row, epoch, first, n in parts:
                    whole = [*texts[row].encode(), 256]
                    wrong += tokens[at:at + n] != whole[first:first + n]
                    seen.setdefault((name, row, epoch), []).append((first, n))
                    at += n
                wrong += any(t != 255 for t in tokens[at:])
        lk.check(wrong == 0, f"{algorithm}: every piece has the bytes of its row", f"{wrong} have not")
        lk.check({k: sum(n for _, n in v) for k, v in seen.items()} == expected,
                 f"{algorithm}: with a padded tail every token of every row comes exactly `epochs` times",
                 f"{len(seen)} of {len(expected)} documents")
        lk.check(all(sorted(v)[0][0] == 0 and all(a[0] + a[1] == b[0] for a, b in zip(sorted(v), sorted(v)[1:]))
                     for v in seen.values()), f"{algorithm}: pieces of a document meet and do not overlap")
        totals = daemon.status()["streams"][0]["cursors"][0]
        lk.check(totals["identity"] and totals["tokens_in"] == sum(expected.values()) and totals["tokens_lost"] == 0
                 and totals["tokens_waiting"] == 0, f"{algorithm}: counted so, too",
                 {k: v for k, v in totals.items() if k.startswith("tokens")})
    singles(box, "thousand", [])
    box.dataset("thousand", [f"{i:03d}" for i in range(1000)])
    orders = []
    for run in range(2):
        stream = box.plain({"d": {"path": "thousand", "epochs": 3}}, seed=7, sequence=3, batch=10,
                           order={"block_rows": 1})
        rows, _ = tokens_of(box, box.serve(stream, f"thousand{run}"))
        ids = [int(bytes(r)) for r in rows]
        orders.append([ids[i:i + 1000] for i in (0, 1000, 2000)])
    lk.check(all(sorted(o) == list(range(1000)) for o in orders[0]), "each of three epochs is a permutation of 1,000 rows")
    a, b, c = orders[0]
    lk.check(a != b and b != c and a != c and a != sorted(a), "the three orders differ")
    lk.same(orders[1], orders[0], "and a second run gives the same three")


def start_errors(box):
    """Each is one line that names what is wrong, and exit status 1, within seconds."""
    box.dataset("d", ["a", "b", "c"])
    good = box.plain({"d": {"path": "d"}})
    config = box.config(good, "plain")
    box.refused(config, "a dataset without an index is refused, naming it", r"dataset d\b", "index")
    box.index(config)
    box.refused(box.config({**good, "lanes": 4, "batch": 4}, "lanes"),
                "three rows for four lanes are refused with both numbers", r"\b3\b", r"\b4\b")
    box.refused(box.config({**good, "lanes": 2, "batch": 3}, "cut"), "a batch that is no multiple of the lanes is refused",
                "batch", r"\b3\b", r"\b2\b")
    box.refused(box.config({**good, "sequense": 3}, "typo"), "an unknown key is refused, with the nearest known one",
                "sequense", "sequence", r"typo\.yaml:\d+:\d+")
    box.refused(box.config({**good, "tokenizer": {"hf": "no/such.json"}}, "tokenizer"),
                "a tokenizer that is not there is refused, naming it", "no/such.json")
    box.refused(box.config({**good, "datasets": {"d": {"path": "nowhere"}}}, "nowhere"),
                "a folder that is not there is refused, naming it", "nowhere")
    box.refused(box.path / "absent.yaml", "a configuration that is not there is refused", "absent.yaml")
    box.write("d/more.jsonl", lk.rows(["d"]))
    box.refused(config, "a shard that was added after indexing is refused", "d")


if __name__ == "__main__":
    lk.main([resume, epochs, changing_world, batch_schedule, save_at_zero, packing_open, empty_texts,
             everything_filtered, control_characters, long_document, edges, many_sources, weights,
             stop_rules, few_samples, counts, finite_epochs, start_errors])
