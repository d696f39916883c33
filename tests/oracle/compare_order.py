"""Compares the lanes with the oracle on random recipes and hostile data.

    compare_order.py --dump build/tests/oracle/lane_dump [--cases 300] [--seed 1] [--jobs 2]
    compare_order.py --dump … --case SEED      one case again, with its first difference

Every case has a seed of its own, which a failure prints. Exit status 1 when anything differs.
"""

import argparse
import json
import multiprocessing
import random
import subprocess
import sys

import order_oracle as oracle

MIXTURES = ["tokens", "bytes", "samples"]
THENS = ["repeat", "stop", "release"]
KINDS = ["split", "shuffle", "pack"]
ALGORITHMS = ["concat", "first_fit", "best_fit", "exact_fit"]
TAILS = ["drop", "pad"]


# Cases

def random_row(rng, shape, sequence):
    if shape == "dropped" or (shape != "equal" and rng.random() < 0.15):
        return (0, rng.randrange(50), rng.randrange(1, 16))
    if shape == "equal":
        return (max(1, sequence // 3), 7, 0)
    if shape == "giant":
        return (rng.randrange(1, 4), rng.randrange(9), 0)
    if shape == "long":
        return (rng.randrange(1, 5 * sequence), rng.randrange(200), 0)
    return (max(1, int(sequence * rng.lognormvariate(-1, 1))), rng.randrange(1, 200), 0)


def random_shards(rng, lanes, sequence):
    shape = rng.choice(["any", "any", "any", "equal", "giant", "long", "dropped", "least"])
    least = lanes if rng.random() < 0.9 else max(1, lanes - 1)
    total = least if shape == "least" else least + rng.randrange(60 if lanes < 16 else 150)
    if shape == "any" and lanes <= 8 and rng.random() < 0.4:
        total = rng.randrange(64 * lanes, 200 * lanes)      # so many that blocks keep several rows
    rows = [random_row(rng, shape, sequence) for _ in range(total)]
    if shape == "giant":
        rows[rng.randrange(total)] = (rng.randrange(20, 60) * sequence + rng.randrange(sequence), 999, 0)
    cuts = sorted(rng.randrange(total + 1) for _ in range(rng.randrange(5)))
    if rng.random() < 0.3:
        cuts = sorted(cuts + cuts)      # empty shards
    edges = [0] + cuts + [total]
    return [rows[a:b] for a, b in zip(edges, edges[1:])]


def random_dataset(rng, index, case, groups):
    then = rng.choice(THENS)
    return {
        "name": rng.choice(["docs", "a", "x.y_z-1", "n" * rng.randrange(1, 60)]) + str(index),
        "weight": rng.choice([1, 1, 2, 3, 5, rng.randrange(1, 1000), 999999937]),
        "epochs": rng.randrange(1, 4) if then != "repeat" else rng.randrange(3),
        "then": then,
        "group": rng.randrange(groups),
        "shards": random_shards(rng, case["lanes"], case["sequence"]),
    }


def random_stages(rng, case, groups):
    algorithm = rng.choice(ALGORITHMS)
    sequence, stages = case["sequence"], []
    shuffle = lambda: {"kind": "shuffle", "buffer": rng.choice([2, 3, 7, 50])}
    if rng.random() < 0.3:
        stages.append(shuffle())
    if rng.random() < 0.6 or (algorithm.endswith("t_fit") and algorithm != "exact_fit"
                              and rng.random() < 0.9):
        most = rng.randrange(1, sequence + 1) if rng.random() < 0.5 else sequence
        stages.append({"kind": "split", "max_tokens": most})
    if rng.random() < 0.5:
        stages.append(shuffle())
    stages.append({"kind": "pack", "algorithm": algorithm, "groups": groups,
                   "pool": rng.choice([1, 2, 3, 8, 64])})
    if rng.random() < 0.3:
        stages.append(shuffle())
    return stages


def random_case(seed):
    rng = random.Random(seed)
    lanes = rng.choice([1, 1, 2, 3, 4, 7, 8, rng.randrange(1, 65)])
    case = {
        "seed": rng.choice([0, 1, rng.getrandbits(64), (1 << 64) - 1]),
        "lanes": lanes,
        "sequence": rng.choice([1, 2, 3, 8, 16, 31, 64, 65, 130]),
        "mixture": rng.choice(MIXTURES),
        "block_rows": rng.choice([0, 1, 2, 5, 16, 1000]),
        "permute_blocks": rng.random() < 0.7,
        "permute_rows": rng.random() < 0.7,
        "tail": rng.choice(TAILS),
        "pad_id": rng.randrange(100),
        "vocab": rng.choice([2, 256, 50257]),
        "schedule": rng.getrandbits(63),
        "saves": rng.choice([0, 0, 30, 300, 1000]),
    }
    groups = rng.choice([1, 1, 2, 3])
    case["datasets"] = [random_dataset(rng, i, case, groups) for i in range(rng.randrange(1, 7))]
    case["stages"] = random_stages(rng, case, groups)

    most = max(1, rng.choice([3, 20, 400]) // lanes)      # sequences of each lane
    start, batch, limit = 0, [], 0
    while limit < most and len(batch) < 8:
        share, run = rng.randrange(1, 4), rng.randrange(1, 5)
        batch.append((start, share * lanes))
        start, limit = start + run, limit + share * run
    case["batch"], case["limit"] = batch, limit
    largest = max(size for _, size in batch)
    case["worlds"] = sorted({1, 2, 7, largest} | {rng.randrange(1, largest + 1) for _ in range(2)})
    return case


def text_of(case):
    """The case as lane_dump reads it."""
    words = [case["seed"], case["lanes"], case["sequence"], MIXTURES.index(case["mixture"]),
             case["block_rows"], int(case["permute_blocks"]), int(case["permute_rows"]),
             TAILS.index(case["tail"]), case["pad_id"], case["vocab"], case["limit"],
             case["schedule"], case["saves"], len(case["batch"])]
    words += [n for pair in case["batch"] for n in pair]
    words += [len(case["worlds"]), *case["worlds"], len(case["stages"])]
    for stage in case["stages"]:
        words += [KINDS.index(stage["kind"]), stage.get("max_tokens", 0), stage.get("buffer", 0),
                  ALGORITHMS.index(stage.get("algorithm", "concat")), stage.get("pool", 0),
                  stage.get("groups", 1)]
    words.append(len(case["datasets"]))
    for d in case["datasets"]:
        words += [d["name"], d["weight"], d["epochs"], THENS.index(d["then"]), d["group"],
                  len(d["shards"]), *(len(shard) for shard in d["shards"])]
        words += [n for shard in d["shards"] for row in shard for n in row]
    return " ".join(map(str, words)) + "\n"


# What must come out

def expected(case):
    """The lines lane_dump must print."""
    try:
        lanes = [oracle.Lane(case, lane) for lane in range(case["lanes"])]
    except oracle.Refused:
        yield "refused FAILED_PRECONDITION"
        return
    for number, lane in enumerate(lanes):
        out = sum(oracle.tokens_of(s) for s in lane.sequences)
        yield (f"lane {number} {lane.end} rows {lane.source.drawn} dropped {lane.source.dropped} "
               f"in {lane.source.tokens_in} out {out} lost {lane.pack.lost}")
        for spans in lane.sequences:
            yield " ".join(["s"] + [":".join(map(str, span)) for span in spans])
    for step, rows in oracle.steps(case, lanes):
        placed = oracle.placed_digests(case, step, rows)
        yield f"step {step} {len(rows)} {oracle.total(placed):032x}"
        for world in case["worlds"]:
            for rank in range(world if world <= len(rows) else 0):
                first, n = oracle.cut(len(rows), rank, world)
                digest = oracle.total(placed[first:first + n])
                yield f"cut {rank}/{world} {first}+{n} {digest:032x}"


def compare(dump, seed):
    """None, or how the lanes differ from the oracle."""
    case = random_case(seed)
    try:
        got = subprocess.run([dump], input=text_of(case), capture_output=True, text=True, timeout=60)
    except subprocess.TimeoutExpired:
        return f"{dump} does not end", 0, ""
    if got.returncode != 0:
        return f"{dump} exited with {got.returncode}: {got.stderr.strip()[-2000:]}", 0, ""
    lines, want = got.stdout.splitlines(), list(expected(case))
    for i in range(max(len(lines), len(want))):
        a = lines[i] if i < len(lines) else "(nothing)"
        b = want[i] if i < len(want) else "(nothing)"
        if a != b:
            return f"line {i + 1}\n  lanes:  {a[:300]}\n  oracle: {b[:300]}", 0, ""
    ends = {line.split()[2] for line in want if line.startswith("lane ")} or {"refused"}
    return None, sum(line.startswith("s") for line in want), " ".join(sorted(ends))


def work(task):
    return task[1], compare(*task)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dump", required=True, help="the lane_dump program")
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--case", type=int, help="run this one case and print its recipe")
    args = parser.parse_args()
    if args.case is not None:
        case = random_case(args.case)
        print(json.dumps({k: v for k, v in case.items() if k != "datasets"}, indent=1))
        difference = compare(args.dump, args.case)[0]
        print(difference or "equal")
        return 1 if difference else 0

    failed = sequences = 0
    ends = {}
    tasks = [(args.dump, args.seed * 1_000_000 + i) for i in range(args.cases)]
    with multiprocessing.Pool(args.jobs) as pool:
        for seed, (difference, n, how) in pool.imap_unordered(work, tasks, chunksize=4):
            sequences += n
            ends[how] = ends.get(how, 0) + (difference is None)
            if difference:
                failed += 1
                print(f"case {seed}: {difference}", file=sys.stderr)
    how = ", ".join(f"{n} {name}" for name, n in sorted(ends.items()) if name)
    print(f"order: {args.cases} recipes, {sequences} sequences and steps, {failed} differ ({how})")
    return 1 if failed or not sequences else 0


if __name__ == "__main__":
    sys.exit(main())
