"""The Python zephon and this daemon on the same three datasets: in an epoch both give every document exactly once,
and the same ids of it. Skipped where zephon is not installed."""

import collections
import json
import os
import pathlib
import sys

import lk

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import zephon_ask  # noqa: E402
from test_data import byte_tokenizer  # noqa: E402

WEIGHTS = {"code": 2, "docs": 5, "man": 3}
END = "<|endoftext|>"
HOSTILE = ["", " ", "  two  spaces ", "It's 12345 o'clock\r\n\r\n\tx\n", "\0\x01\x7f", "é e\u0301 \ufffd \u2028 \u0085", "水も\u3000火",
           "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3fd", "x" * 3000, " " * 500 + "y", "\n" * 200, "ab" * 400]


def three_datasets(box):
    """Prose, code and hostile texts, of unlike numbers and lengths, two or three shards each: {name: texts}."""
    here = pathlib.Path(__file__).resolve().parent.parent.parent
    code = [block for path in sorted((here / "tests/e2e").glob("test_[a-e]*.py"))
            for block in path.read_text().split("\n\n") if block][:160]
    texts = {"docs": lk.prose(1, 301, 900), "man": HOSTILE + lk.prose(2, 90, 300) + HOSTILE[::-1], "code": code}
    for name, shards in (("docs", 3), ("man", 2), ("code", 3)):
        box.dataset(name, texts[name], shards)
    return texts


def tokenizer(box):
    """GPT-2's where it was fetched, else a token for each byte: as a folder, as transformers wants it."""
    folder = pathlib.Path(os.environ.get("LK_TOKENIZERS", box.build / "tokenizers")) / "gpt2"
    if (folder / "tokenizer.json").exists():
        text = (folder / "tokenizer.json").read_text()
    else:
        whole = json.loads(byte_tokenizer(0, [END]))
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        model = {"dropout": None, "unk_token": None, "fuse_unk": False, "byte_fallback": False, **whole["model"]}
        text = json.dumps({"version": "1.0", "truncation": None, "padding": None, **whole, "normalizer": None,
                           "post_processor": None, "decoder": level, "model": model})
    box.write("tokenizer/tokenizer.json", text)
    box.write("tokenizer/tokenizer_config.json", json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END}))
    print(f"# {'GPT-2' if len(text) > 1 << 20 else 'bytes'}", flush=True)
    return box.path / "tokenizer"


def row_of(texts, shards, dataset, shard, row):
    """The row's number in its dataset, where shards have equal runs of it."""
    return shard * len(texts[dataset]) // shards + row


def theirs(box, texts, folder, lanes):
    """{(dataset, row): [ids, once for each time that it came]}."""
    answer = zephon_ask.run(box.build, datasets={n: [str(box.path / n), w] for n, w in WEIGHTS.items()},
                        tokenizer=str(folder), lanes=lanes, microbatch=8, chunk=32)
    if answer["error"]:
        raise lk.Failure(f"zephon: {answer['error']}")
    seen = collections.defaultdict(list)
    names = list(WEIGHTS)
    for batch in answer["batches"]:
        for record in batch:
            dataset, shard, row = record["id"]
            name = names[dataset]
            shards = len(list((box.path / name).glob("*.jsonl")))
            seen[name, row_of(texts, shards, name, shard, row)].append(record["ids"])
    return seen


def ours(box, folder, lanes, algorithm):
    """The same of this daemon: pieces put together."""
    stream = {"seed": 1, "lanes": lanes, "batch": 2 * lanes, "sequence": 256, "tail": "pad", "pad_id": 0,
              "tokenizer": {"hf": str(folder / "tokenizer.json"), "append": "eos"},
              "datasets": {n: {"path": n, "weight": w, "epochs": 1, "then": "release"} for n, w in WEIGHTS.items()},
              "order": {"block_rows": 16},
              "pipeline": [{"split": {"max_tokens": 256}}, {"shuffle": {"buffer": 50}},
                           {"pack": {"algorithm": algorithm, **({} if algorithm == "concat" else {"pool": 32})}}]}
    trainer = box.trainer(box.serve(stream, f"{algorithm}-{lanes}"))
    trainer.get("show all")
    batches, end = lk.to_the_end(trainer)
    if not end.startswith("OUT_OF_RANGE"):
        raise lk.Failure(end)
    pieces = collections.defaultdict(dict)
    twice = []
    for batch in batches:
        for tokens, parts in zip(batch["tokens"], batch["parts"]):
            at = 0
            for name, row, epoch, first, n in parts:
                if first in pieces[name, row] or epoch != 0:
                    twice.append((name, row, epoch, first))
                pieces[name, row][first] = tokens[at:at + n]
                at += n
    lk.check(not twice, f"{algorithm}, {lanes} lanes: no piece comes twice", twice[:5])
    whole = {}
    for key, found in pieces.items():
        ids = []
        for first in sorted(found):
            if first == len(ids):    # a gap shows as too few ids
                ids += found[first]
        whole[key] = [ids]
    return whole


def an_epoch(box):
    texts = three_datasets(box)
    folder = tokenizer(box)
    expected = theirs(box, texts, folder, 4)
    every = {(name, row) for name, rows in texts.items() for row in range(len(rows))}
    lk.check(set(expected) == every and all(len(v) == 1 for v in expected.values()),
             f"zephon gives each of {len(every)} documents exactly once", len(expected))
    for algorithm, lanes in (("concat", 4), ("best_fit", 4), ("exact_fit", 3)):
        got = ours(box, folder, lanes, algorithm)
        lk.check(set(got) == every, f"{algorithm}, {lanes} lanes: so do we", (len(got), sorted(every - set(got))[:5]))
        unlike = sorted(key for key in every if got.get(key) != expected.get(key))
        lk.check(not unlike, f"{algorithm}, {lanes} lanes: and every document has the ids that zephon gives it",
                 lambda: [(k, texts[k[0]][k[1]][:40], got.get(k), expected.get(k)) for k in unlike[:2]])


if __name__ == "__main__":
    if len(sys.argv) > 1 and zephon_ask.run(sys.argv[1], datasets={}) is None:
        print("skipped: no Python at hand has zephon and transformers")
        sys.exit(77)
    lk.main([an_epoch])
