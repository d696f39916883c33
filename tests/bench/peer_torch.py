"""peer_torch.py DATA TOKENIZER --steps N: the benchmark's recipe as a careful PyTorch user would write it.

An IterableDataset per worker over its share of the shards, mixture 5:3:2 by tokens, `encode_batch_fast` of 64
documents at a time, ids joined and cut into sequences of 2,048, a shuffle of 1,000 sequences over all workers,
batches of 8; 2 workers, 32 batches each ahead. Prints one JSON object; clock and processor time (of
this process and its workers) run from the first batch to the last.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
SEQUENCE, BATCH, AT_ONCE, WORKERS, AHEAD, SHUFFLE = 2048, 8, 64, 2, 32, 1000
SHARES = {"docs": 0.5, "man": 0.3, "code": 0.2}


def batches_of_documents(shards):
    while True:
        batch = []
        for shard in shards:
            with open(shard, encoding="utf-8") as lines:
                for line in lines:
                    batch.append(json.loads(line)["text"])
                    if len(batch) == AT_ONCE:
                        yield batch
                        batch = []


def sequences(data, tokenizer_file, worker, seed=1):
    """Arrays of SEQUENCE ids without an end."""
    import numpy
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    end = tokenizer.token_to_id("<|endoftext|>")
    sources = {name: batches_of_documents(sorted((data / name).glob("*.jsonl"))[worker::WORKERS]) for name in SHARES}
    given = dict.fromkeys(SHARES, 0)
    rng, pool, left = random.Random(seed + worker), [], numpy.empty(0, dtype=numpy.int64)
    while True:
        name = min(SHARES, key=lambda one: given[one] / SHARES[one])
        ids = [left]
        for encoding in tokenizer.encode_batch_fast(next(sources[name]), add_special_tokens=False):
            ids.append(numpy.array(encoding.ids + [end], dtype=numpy.int64))
        joined = numpy.concatenate(ids)
        given[name] += len(joined) - len(left)
        whole = len(joined) // SEQUENCE * SEQUENCE
        left = joined[whole:]
        for sequence in joined[:whole].reshape(-1, SEQUENCE):
            if len(pool) < SHUFFLE // WORKERS:
                pool.append(sequence)
                continue
            at = rng.randrange(len(pool))
            pool[at], sequence = sequence, pool[at]
            yield sequence


def main():
    import torch
    from served import cpu_seconds
    from torch.utils.data import DataLoader, IterableDataset, get_worker_info
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=1200)
    arguments = parser.parse_args()

    class Sequences(IterableDataset):
        def __iter__(self):
            for one in sequences(arguments.data, arguments.tokenizer, get_worker_info().id):
                yield torch.from_numpy(one)

    torch.set_num_threads(1)
    start = time.monotonic()
    loader = iter(DataLoader(Sequences(), batch_size=BATCH, num_workers=WORKERS, prefetch_factor=AHEAD))
    seen = int(next(loader).sum())
    first, cpu = time.monotonic(), cpu_seconds(os.getpid())
    for _ in range(arguments.steps - 1):
        seen += int(next(loader).sum())
    last, spent = time.monotonic(), cpu_seconds(os.getpid()) - cpu
    tokens = (arguments.steps - 1) * BATCH * SEQUENCE
    print(json.dumps({"first_s": first - start, "tokens_per_s": tokens / (last - first),
                      "tokens_per_cpu_s": tokens / spent, "tokens": tokens, "torch": torch.__version__}), flush=True)
    os._exit(0 if seen > 0 else 1)


if __name__ == "__main__":
    main()
