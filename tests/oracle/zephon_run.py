"""Runs one of zephon's pipelines, as a request on standard input says, and prints what came out as JSON.

Request, all keys but `datasets` optional:
  datasets    {name: [folder, weight]}
  chunk, seed, policy                 of its work source (64, 1, "redistribute")
  tokenizer   a folder with tokenizer.json; without one a document's tokens are all its number: that
              which its text begins with, as many as the text has characters
  shuffle     size of the buffer of records, before packing
  pack        {"algorithm", "length", "bins"}: `bins` for those that need it
  microbatch  sequences of a batch (1); `drop_last`
  lanes, world, rank, flush           canonical_replicas, dp_degree, dp_group_id, flush_every_k_chunks
  take        so many batches, then a checkpoint is written to `save`, if given
  restore     a checkpoint to go on from
  count       true: the sums alone
Answer: {"batches": [[{"id", "ids", "padding"}, …], …], "tokens", "padding", "sequences", "error", "warnings"}
Exit status 77: the package is not installed.
"""

import json
import os
import pickle
import sys
import tempfile
import warnings

os.environ.update(TOKENIZERS_PARALLELISM="false", HF_HUB_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")
try:
    import numpy
    import transformers    # noqa: F401 - its tokenize() loads it when it runs
    from zephon.io.dataset import Dataset
    from zephon.pipeline import Pipeline
    from zephon.work.static_mixture import StaticMixtureWorkSource
except ImportError as e:
    print(f"skipped: {e}", file=sys.stderr)
    sys.exit(77)


def numbered(payload):
    text = payload["text"]
    return {"input_ids": numpy.full(len(text), int(text.split()[0]), numpy.int64)}


def pipeline(asked):
    total = sum(weight for _, weight in asked["datasets"].values())
    source = StaticMixtureWorkSource(
        [Dataset.from_path(name, folder) for name, (folder, _) in asked["datasets"].items()],
        mixture={name: weight / total for name, (_, weight) in asked["datasets"].items()},
        chunk_size=asked.get("chunk", 64), seed=asked.get("seed", 1),
        exhausted_policy=asked.get("policy", "redistribute"))
    made = Pipeline(source)
    if "tokenizer" in asked:
        made = made.tokenize(tokenizer_id=asked["tokenizer"], field="text", add_attention_mask=False, special_tokens="eos")
    else:
        made = made.decode_text().map_transform(numbered)
    if "shuffle" in asked:
        made = made.shuffle(buffer_size=asked["shuffle"], seed=1)
    if "pack" in asked:
        pack = dict(asked["pack"])
        length, bins = pack.pop("length"), pack.pop("bins", None)
        padded = {} if pack["algorithm"] == "wrap" else {"pad_token_id": 0}
        made = made.pack_flat(length, num_bins=bins, **padded, **pack)
    made = made.batch(microbatch_size=asked.get("microbatch", 1), drop_last=asked.get("drop_last", False))
    made = made.options(runner="inline", canonical_replicas=asked.get("lanes", 1), world_size=asked.get("world", 1),
                        global_rank=asked.get("rank", 0))
    if asked.get("world", 1) > 1:    # it will not begin without; nothing is saved by several ranks here
        made = made.options(aggregate_dir=tempfile.gettempdir())
    if "flush" in asked:
        made = made.options(flush_every_k_chunks=asked["flush"])
    return made


def plain(value):
    return value.tolist() if hasattr(value, "tolist") else value


def told(record, counted):
    packed = record.meta.tags.get("_packing_metadata") or {}
    padding = int(packed.get("padding_length", 0))
    ids = record.payload["input_ids"]
    return {"n": len(ids), "padding": padding} if counted else {
        "id": [plain(i) for i in record.meta.sample_id] if isinstance(record.meta.sample_id, tuple) else None,
        "ids": plain(ids), "n": len(ids), "padding": padding}


def run(asked, answer):
    made = pipeline(asked)
    if "restore" in asked:
        with open(asked["restore"], "rb") as f:
            made.restore(pickle.load(f))
    if asked.get("take") == 0:
        return
    for batch in made:
        records = [told(r, asked.get("count")) for r in batch.records]
        answer["sequences"] += len(records)
        answer["padding"] += sum(r["padding"] for r in records)
        answer["tokens"] += sum(r["n"] - r["padding"] for r in records)
        if not asked.get("count"):
            answer["batches"].append(records)
        answer["taken"] += 1
        if answer["taken"] == asked.get("take"):
            break
    if "save" in asked:
        with open(asked["save"], "wb") as f:
            pickle.dump(made.checkpoint(), f)


def main():
    asked = json.load(sys.stdin)
    answer = {"batches": [], "tokens": 0, "padding": 0, "sequences": 0, "taken": 0, "error": None}
    out = os.dup(1)
    os.dup2(2, 1)    # what the libraries print is no answer
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            run(asked, answer)
        except Exception as e:    # noqa: BLE001 - what it says is what is asked for
            answer["error"] = f"{type(e).__name__}: {e}"
    answer["warnings"] = [f"{w.category.__name__}: {w.message}" for w in seen if "zephon" in str(w.filename) or "anoni" in str(w.message)]
    with os.fdopen(out, "w") as f:
        json.dump(answer, f)
    os._exit(0)    # its threads do not end by themselves


if __name__ == "__main__":
    main()
