"""compare_zephon.py BUILD CORPUS TOKENIZER [ROW…]: what the Python zephon and this daemon do in the same situations.

Measures both and prints a table in Markdown (tests/README.md holds one). CORPUS has the folders docs, man and code of
JSONL, as tests/demo/corpus.py makes them; TOKENIZER is a folder with tokenizer.json. ROWs: world resume edited knob
malformed packers; all of them without. Exit status 77: zephon is not installed.

Everything is measured on one machine, with its inline runner; a sequence counts as the same when all of its ids are.
But for the packers, documents are of one token, repeated: its number, so that it can be seen which came how often.
"""

import collections
import concurrent.futures
import gzip
import json
import pathlib
import random
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import lk  # noqa: E402
import zephon_ask  # noqa: E402

LANES, STEPS, LENGTH = 8, 12, 512
WIDTH = 8    # sequences of a step


def made_up(box, name, rows, shards, longest=400):
    """Documents that begin with their number; how long they are: [characters]."""
    draw = random.Random(3)
    lengths = [20 + draw.getrandbits(16) % longest for _ in range(rows)]
    texts = [(f"{i} " + "x" * n)[:n] for i, n in enumerate(lengths)]
    box.dataset(name, texts, shards)
    return texts


# One of each ---------------------------------------------------------------------------------------

def theirs(box, name="d", **asked):
    asked = {"datasets": {name: [str(box.path / name), 1]}, "lanes": LANES, "shuffle": 100, "flush": 2,
             "pack": {"algorithm": "wrap", "length": LENGTH}, **asked}
    return zephon_ask.run(box.build, **{k: v for k, v in asked.items() if v is not None})


def sequences(answer):
    """The ids of every sequence, in order."""
    if answer["error"]:
        raise lk.Failure(f"zephon: {answer['error']}")
    return [tuple(record["ids"]) for batch in answer["batches"] for record in batch]


def ours(box, name="d", **keys):
    stream = {"seed": 1, "lanes": LANES, "batch": WIDTH, "sequence": LENGTH, "tokenizer": {"bytes": True},
              "datasets": {name: {"path": name, "epochs": 1}}, "order": {"block_rows": 16},
              "pipeline": [{"shuffle": {"buffer": 100}}, {"pack": {"algorithm": "concat"}}]}
    return {**stream, **keys}


def steps_equal(got, expected):
    """Of two lists of steps, each a list of sequences: how many are the same in order, and as sets."""
    in_order = sum(a == b for a, b in zip(got, expected))
    as_sets = sum(collections.Counter(a) == collections.Counter(b) for a, b in zip(got, expected))
    return in_order, as_sets


def cut(found, sizes):
    """Sequences to steps of ranks: found[r] gives sizes[r] of them to each step."""
    steps = min(len(f) // n for f, n in zip(found, sizes))
    return [[s for f, n in zip(found, sizes) for s in f[i * n:(i + 1) * n]] for i in range(steps)]


def owned(world):
    """How many of the lanes each rank has, contiguously."""
    return [LANES // world + (r < LANES % world) for r in range(world)]


def ranks(box, world, per_rank, steps, **asked):
    """Zephon as so many ranks: ([each one's sequences], what it warned of)."""
    answers = [theirs(box, world=world, rank=r, take=per_rank[r] * steps, **asked) for r in range(world)]
    return [sequences(a) for a in answers], sorted({w for a in answers for w in a["warnings"]})


def warned(warnings):
    return f", with a warning ({warnings[0][:60]}…)" if warnings else ", without a word"


# Rows: each gives the situation, what zephon did, what we did --------------------------------------

def world(box):
    """A world that does not divide the lanes."""
    made_up(box, "d", 4096, 8)
    single = sequences(theirs(box, take=2 * STEPS * WIDTH))
    steps = cut([single], [WIDTH])
    got, warnings = ranks(box, 3, owned(3), STEPS)
    own = steps_equal(cut(got, owned(3)), steps[:STEPS])
    got, more = ranks(box, 3, [8, 8, 8], STEPS // 2)
    wide = cut([single], [24])
    even = steps_equal(cut(got, [8, 8, 8]), wide[:STEPS // 2])
    told = [f"ranks take as many as they have lanes (3, 3, 2): {own[0]} of {STEPS} steps equal one rank's{warned(warnings)}",
            f"each takes 8 a step: {even[0]} of {STEPS // 2} equal, {even[1]} as sets{warned(more)}"]
    said = []
    for width in (8, 24):
        daemon = box.serve(ours(box, batch=width), f"w{width}")
        expected = lk.run_world(box, daemon, 1, STEPS)
        equal = sum(a == b for a, b in zip(lk.run_world(box, daemon, 3, STEPS), expected))
        sizes = [len(range(r * width // 3, (r + 1) * width // 3)) for r in range(3)]
        said.append(f"steps of {width} ({', '.join(map(str, sizes))}): {equal} of {STEPS} equal one rank's, tokens and digests")
        daemon.stop()
    return "3 ranks, 8 lanes", told, said


def resume(box):
    """Saved by one rank with buffers half full, resumed by others."""
    made_up(box, "d", 4096, 8)
    ahead = 6
    told = []
    whole = sequences(theirs(box, take=(3 + ahead) * WIDTH + 3))
    for at in (3 * WIDTH, 3 * WIDTH + 3):
        saved = str(box.path / f"at-{at}")
        theirs(box, take=at, save=saved)
        steps = cut([whole[at:]], [WIDTH])[:ahead]
        results = []
        for ranks_now in (1, 2, 3, 4, 8):
            got, warnings = ranks(box, ranks_now, owned(ranks_now), ahead, restore=saved)
            results.append((ranks_now, *steps_equal(cut(got, owned(ranks_now)), steps), bool(warnings)))
        what = f"saved after {at} sequences ({'a whole step' if at % WIDTH == 0 else 'inside a step'})"
        told.append(f"{what}, of the next {ahead} steps are equal, by ranks: " +
                    ", ".join(f"{r}: {a}{f' ({b} as sets)' if a < b else ''}{', with a warning' if w else ''}" for r, a, b, w in results))
    config = box.config(ours(box), snapshots={"dir": "snap", "every": 2})
    daemon = box.daemon(config)
    expected = lk.run_world(box, daemon, 1, 3 + ahead)
    trainer = box.trainer(daemon)
    trainer.get("next 3")
    state = trainer.get("state")[0]["state"]
    daemon.kill()
    results = []
    for ranks_now in (1, 2, 3, 4, 8):
        daemon = box.daemon(config, index=False)
        got = lk.run_world(box, daemon, ranks_now, ahead, state=state)
        results.append(f"{ranks_now}: {sum(a == b for a, b in zip(got, expected[3:]))}")
        daemon.kill()
    return ("saved by one rank with a shuffle buffer and a sequence half full, resumed by 1, 2, 3, 4, 8", told,
            [f"after kill -9 at step 3, of the next {ahead} steps are equal, by ranks: {', '.join(results)}"])


def shuffle_rows(path, change):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(change(lines)))


EDITS = (
    ("a document grew that came last before it, or comes first after it", lambda d, row: shuffle_rows(d / "part-00000.jsonl", lambda l: [longer(t, row) for t in l])),
    ("a row was deleted", lambda d, row: shuffle_rows(d / "part-00000.jsonl", lambda l: [t for t in l if number(t) != row])),
    ("a shard was renamed", lambda d, row: (d / "part-00000.jsonl").rename(d / "part-00009.jsonl")),
    ("a shard was added", lambda d, row: (d / "part-00009.jsonl").write_text(lk.rows([f"{9000 + i} " + "x" * 200 for i in range(160)]))),
)


def number(line):
    return int(json.loads(line)["text"].split()[0])


def longer(line, row):
    return lk.rows([json.loads(line)["text"] + "x" * 300]) if number(line) == row else line


def edited(box):
    """The dataset changes between a checkpoint and its resumption."""
    texts = made_up(box, "d", 640, 4)
    recipe = {"lanes": 4, "shuffle": None, "flush": 8, "pack": {"algorithm": "first_fit", "length": LENGTH, "bins": 8}}
    before = theirs(box, take=60, save=str(box.path / "saved"), **recipe)
    came = collections.Counter(i for s in before["batches"] for r in s for i in r["ids"][:r["n"] - r["padding"]])
    # Six documents of the first shard: the last three that came before the checkpoint, the first three that come after it.
    whole = theirs(box, **recipe)
    order = list(dict.fromkeys(i for s in whole["batches"] for r in s for i in r["ids"][:r["n"] - r["padding"]] if i < 160))
    cut_at = sum(1 for i in order if came[i])
    near = order[cut_at - 3:cut_at + 3]
    told, said = [], []
    config = box.config(ours(box, lanes=4, sequence=LENGTH, pipeline=[{"split": {"max_tokens": LENGTH}}, {"pack": {"algorithm": "first_fit", "pool": 8}}]))
    daemon = box.daemon(config)
    trainer = box.trainer(daemon)
    trainer.get("next 8")
    state = trainer.get("state")[0]["state"]
    daemon.stop()
    shutil.copytree(box.path / "d", box.path / "kept")
    for what, edit in EDITS:
        tries = []
        for row in near if edit is EDITS[0][1] else near[-1:]:
            shutil.rmtree(box.path / "d")
            shutil.copytree(box.path / "kept", box.path / "d")
            edit(box.path / "d", row)
            answer = theirs(box, restore=str(box.path / "saved"), **recipe)
            total = came + collections.Counter(i for s in answer["batches"] for r in s for i in r["ids"][:r["n"] - r["padding"]])
            untouched = [i for i in range(640) if i != row]
            tries.append((sum(total[i] < len(texts[i]) for i in untouched), sum(total[i] > len(texts[i]) for i in untouched), answer))
        lost, twice, answer = max(tries, key=lambda t: t[:2])
        told.append(f"{what}: " + (f"\"{answer['error'][:70]}\"" if answer["error"] else
                                   (f"in {sum(a + b > 0 for a, b, _ in tries)} of {len(tries)} tries, at most " if len(tries) > 1 else "") +
                                   f"{lost} other documents lost, {twice} twice{warned(answer['warnings'])}"))
        said.append(f"{what}: {refusal(box, config, state)}")
    return "640 rows edited under a checkpoint after 60 sequences", told, said


def refusal(box, config, state):
    """What a daemon says that is started on other data than was indexed; and a trainer's state after indexing it again."""
    daemon = box.daemon(config, index=False, ready=False)
    status = daemon.wait()
    line = next((text for text in daemon.log().splitlines() if "cannot_start" in text), "")
    shard = "naming the shard" if "part-0" in line else "not naming it"
    box.index(config)
    daemon = box.daemon(config, index=False)
    answer = box.trainer(daemon, state=state).connect()
    daemon.stop()
    return f"does not start ({status}, {shard}); indexed anew, the state is refused ({answer.split()[0]})"


def knob(box):
    """What only the run's speed should depend on."""
    made_up(box, "d", 4096, 8)
    runs = {k: sequences(theirs(box, flush=k)) for k in (1, 2, 8)}
    told = []
    for k in (1, 2):
        common = sum((collections.Counter(runs[k]) & collections.Counter(runs[8])).values())
        told.append(f"flush_every_k_chunks {k} and 8: {common} of {len(runs[8])} sequences in common; the first "
                    f"{sum(1 for _ in same_prefix(runs[k], runs[8]))} equal in order")
    daemon = box.serve(ours(box), "plain")
    expected = lk.run_world(box, daemon, 1, 60)
    daemon.stop()
    said = []
    for i, (what, runtime) in enumerate((("4 workers", {"workers": 4}), ("prefetch_steps 1 and 32", None), ("arena 1MiB", {"arena": "1MiB"}),
                                         ("no counts, snapshots every step", {"counts": {"size": 0}, "snapshots": {"dir": "snap", "every": 1}}))):
        equal = []
        for j, settings in enumerate([runtime] if runtime else [{"prefetch_steps": 1}, {"prefetch_steps": 32}]):
            daemon = box.serve(ours(box), f"knob{i}{j}", index=False, **settings)
            equal.append(sum(a == b for a, b in zip(lk.run_world(box, daemon, 1, 60), expected)))
            daemon.stop()
        said.append(f"{what}: {min(equal)} of 60 steps equal")
    return "a knob of the runtime changed", told, said


def same_prefix(a, b):
    for x, y in zip(a, b):
        if x != y:
            return
        yield x


def malformed(box):
    """One row of a hundred is cut off."""
    made_up(box, "d", 100, 1)
    path = box.path / "d/part-00000.jsonl"
    shuffle_rows(path, lambda l: [t if i != 50 else '{"text": "50 xx\n' for i, t in enumerate(l)])
    answer = theirs(box, lanes=1, shuffle=None, pack=None, flush=None)
    named = [word for word, there in (("the file", "part-0" in (answer["error"] or "")), ("the row", "50" in (answer["error"] or ""))) if there]
    told = [f"{answer['sequences']} of 50 rows before it delivered, then \"{(answer['error'] or 'no error')[:60]}\", naming "
            + (" and ".join(named) or "neither file nor row") + "; there is no other rule"]
    said = []
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=4, tail="pad",
                       pipeline=[{"split": {"max_tokens": 4}}, {"pack": {"algorithm": "concat"}}])
    for rule in ("error", "drop"):
        daemon = box.serve({**stream, "on_bad_row": rule}, rule)
        trainer = box.trainer(daemon)
        trainer.get("show parts")
        batches, end = lk.to_the_end(trainer)
        rows = {p[1] for b in batches for row in b["parts"] for p in row}
        came = f"{len({r for r in rows if r < 50})} of 50 rows before it and {len({r for r in rows if r > 50})} of 49 after it delivered"
        dropped = sum(daemon.status()["streams"][0]["cursors"][0]["dropped"].values())
        names = [w for w, there in (("shard", "part-00000.jsonl" in end), ("row", "row 50" in end), ("byte", "byte" in end)) if there]
        said.append(f"on_bad_row {rule}: {came}" +
                    (f", then an error naming {', '.join(names)}" if rule == "error" else f"; {dropped} dropped, counted and listed"))
        daemon.stop()
    return "one of 100 rows is cut off", told, said


def take_corpus(box, corpus, most):
    """The first documents of each dataset, `most` bytes of text each: {name: documents}."""
    counts = {}
    for name in ("docs", "man", "code"):
        texts, size = [], 0
        for path in sorted(pathlib.Path(corpus, name).iterdir()):
            if size >= most or path.suffix not in (".jsonl", ".gz", ".zst"):
                continue
            for line in lines_of(path):
                texts.append(json.loads(line)["text"])
                size += len(texts[-1].encode())
                if size >= most:
                    break
        box.dataset(name, texts, 4)
        counts[name] = len(texts)
    return counts


def lines_of(path):
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dcq", str(path)], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt") as f:
        return f.read().splitlines()


OF_A_MILLION = 1_000_000


def packed_here(box, weights, tokenizer, length):
    """[(packer, tokens lost, tokens of padding, identity)], and how many tokens there were."""
    lines, tokens_in = [], None
    for algorithm, pack in (("concat", {}), ("first_fit", {"pool": 64}), ("best_fit", {"pool": 64}), ("exact_fit", {"pool": 64})):
        stream = {"lanes": 4, "batch": 4, "sequence": length, "tail": "pad", "pad_id": 0,
                  "tokenizer": {"hf": str(pathlib.Path(tokenizer, "tokenizer.json").resolve()), "append": "eos"},
                  "datasets": {n: {"path": n, "weight": w, "epochs": 1, "then": "release"} for n, w in weights.items()},
                  "order": {"block_rows": 64},
                  "pipeline": [{"split": {"max_tokens": length}}, {"pack": {"algorithm": algorithm, **pack}}]}
        daemon = box.serve(stream, algorithm)
        lk.to_the_end(box.trainer(daemon, timeout=60000))
        totals = daemon.status()["streams"][0]["cursors"][0]
        tokens_in = totals["tokens_in"]
        lines.append((algorithm, totals["tokens_lost"] + totals["tokens_waiting"], totals["tokens_padded"], totals["identity"]))
        daemon.stop()
    return lines, tokens_in


def packers(box, corpus, tokenizer):
    """A finite corpus to its end: what is lost and what is padding."""
    length = 2048
    counts = take_corpus(box, corpus, 2_000_000)
    weights = {"docs": 5, "man": 3, "code": 2}
    asked = [(algorithm, flush) for algorithm in ("wrap", "first_fit", "best_fit", "best_fit_wrap")
             for flush in ((None, 1) if algorithm == "wrap" else (None,))]

    def packed(algorithm, flush):
        pack = {"algorithm": algorithm, "length": length, **({} if "wrap" in algorithm else {"bins": 64})}
        return zephon_ask.run(box.build, seconds=1800, datasets={n: [str(box.path / n), w] for n, w in weights.items()},
                              tokenizer=str(tokenizer), lanes=4, chunk=256, pack=pack, count=True, **({"flush": flush} if flush else {}))
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        answers = [pool.submit(packed, *a) for a in asked]
        lines, tokens_in = packed_here(box, weights, tokenizer, length)
        answers = [a.result() for a in answers]
    told = []
    for (algorithm, flush), answer in zip(asked, answers):
        if answer["error"]:
            raise lk.Failure(f"zephon: {answer['error']}")
        told.append(f"{algorithm}{', flush 1' if flush else ''}: {per_million(tokens_in - answer['tokens'], tokens_in)} dropped, "
                    f"{per_million(answer['padding'], tokens_in)} padded")
    said = [f"{name}: {per_million(lost, tokens_in)} dropped, {per_million(padded, tokens_in)} padded" + ("" if identity else " (IDENTITY BROKEN)")
            for name, lost, padded, identity in lines]
    return (f"tokens of a million, {sum(counts.values())} documents, {tokens_in} tokens, sequences of {length}, 4 lanes, to the end", told, said)


def per_million(n, of):
    return f"{n * OF_A_MILLION / of:,.0f}"


# The table -----------------------------------------------------------------------------------------

def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__.splitlines()[0])
    build, corpus, tokenizer = sys.argv[1:4]
    if zephon_ask.run(build, datasets={}) is None:
        print("skipped: no Python at hand has zephon and transformers")
        sys.exit(77)
    lk.SAY_OK = False
    print("| situation | zephon 0.2.0 | lanekeeperd |\n|---|---|---|", flush=True)
    for row in (world, resume, edited, knob, malformed, packers):
        if sys.argv[4:] and row.__name__ not in sys.argv[4:]:
            continue
        box, foreign = lk.Box(build, row.__name__), lk.foreign_files()
        try:
            what, told, said = row(box, corpus, tokenizer) if row is packers else row(box)
        finally:
            box.finish(foreign)
            shutil.rmtree(box.path, ignore_errors=True)
        print(f"| {what} | {'<br>'.join(told)} | {'<br>'.join(said)} |".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
