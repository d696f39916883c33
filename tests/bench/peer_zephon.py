"""peer_zephon.py DATA TOKENIZER --lanes N --steps N [--aggregate DIR --rank R WORLD]: the benchmark's recipe through Python's zephon.

Mixture 5:3:2 by tokens, GPT-2, 2,048 tokens a sequence, a shuffle of 1,000 sequences, batches of 8:
`tests/bench/served.py` has the same recipe for lanekeeperd. Prints one JSON object. The clock and the
processor time (of this process and all below it) run from the first batch to the last. With --rank, a
rank's share of the lanes, as zephon deals them, and the words of `ranks.py` instead.
"""
import argparse
import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
SEQUENCE, BATCH = 2048, 8


def pipeline(arguments):
    from zephon.io.dataset import Dataset
    from zephon.pipeline import Pipeline
    from zephon.work.static_mixture import StaticMixtureWorkSource
    shares = {"docs": 0.5, "man": 0.3, "code": 0.2}
    source = StaticMixtureWorkSource([Dataset.from_path(name, f"{arguments.data}/{name}") for name in shares],
                                     mixture=shares, chunk_size=512, seed=1, exhausted_policy="repeat")
    made = Pipeline(source).tokenize(tokenizer_id=str(arguments.tokenizer), field="text",
                                     add_attention_mask=False, special_tokens="eos", parallelism=2)
    made = made.ensure_mixture(max_buffer_size=1000).pack_flat(SEQUENCE, algorithm="wrap")
    made = made.shuffle(buffer_size=1000, seed=1).batch(microbatch_size=BATCH)
    rank, world = arguments.rank or (0, 1)
    return made.options(runner=arguments.runner, max_workers=2, canonical_replicas=arguments.lanes, world_size=world,
                        global_rank=rank, aggregate_dir=arguments.aggregate, flush_every_k_chunks=8)


def be_rank(batches, steps):
    print("first", flush=True)
    sys.stdin.readline()
    for _ in range(steps - 1):
        next(batches)
    print("last", (steps - 1) * BATCH * SEQUENCE, flush=True)
    sys.stdin.readline()


def end():
    from served import tree
    for pid in reversed(tree(os.getpid())[1:]):  # neither its processes nor its threads end by themselves
        os.kill(pid, signal.SIGKILL)
    os._exit(0)


def main():
    from served import cpu_seconds, memory_bytes
    arguments = argparse.ArgumentParser()
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("tokenizer", type=pathlib.Path)
    arguments.add_argument("--lanes", type=int, default=8)
    arguments.add_argument("--runner", choices=("process", "threads"), default="threads")
    arguments.add_argument("--steps", type=int, default=200)
    arguments.add_argument("--aggregate", help="a folder for what the ranks' checkpoints would need")
    arguments.add_argument("--rank", type=int, nargs=2)
    arguments = arguments.parse_args()
    start = time.monotonic()
    batches = iter(pipeline(arguments))
    next(batches)
    if arguments.rank:
        be_rank(batches, arguments.steps)
        end()
    first, cpu = time.monotonic(), cpu_seconds(os.getpid())
    for _ in range(arguments.steps - 1):
        next(batches)
    last = time.monotonic()
    tokens = (arguments.steps - 1) * BATCH * SEQUENCE
    rss, pss = memory_bytes(os.getpid())
    print(json.dumps({"first_s": first - start, "tokens_per_s": tokens / (last - first),
                      "tokens_per_cpu_s": tokens / (cpu_seconds(os.getpid()) - cpu),
                      "rss_bytes": rss, "pss_bytes": pss, "tokens": tokens}), flush=True)
    end()


if __name__ == "__main__":
    main()
