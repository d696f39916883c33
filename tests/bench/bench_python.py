#!/usr/bin/env python3
"""bench_python.py ADDRESS: what a ready batch of a running daemon costs in Python; bench_get.c is the same in C.

Prints one line a way, its name and p50 and p99 in microseconds: `get`, stream[step]; `ahead`, next(stream) with two
steps asked for ahead; each with the NumPy array of its tokens. `training`, batch.training() where the daemon has
made the arrays; `training_here`, where they are made in this process; `training_torch`, with the tensors, if there is torch.
"""
import gc
import statistics
import sys
import time

import lanekeeper

ROUNDS, CALLS, STEPS = 20, 100, 4


def timed(times, call):
    begin = time.perf_counter()
    value = call()
    times.append((time.perf_counter() - begin) * 1e6)
    return value


def main():
    address = sys.argv[1]
    near, ahead, feeding = (lanekeeper.Stream(address, lookahead=n, shared=True) for n in (0, 2, 2))
    far = lanekeeper.Stream(address, shared=False)[0]
    try:
        import torch    # noqa: F401
        ways = ["get", "ahead", "training", "training_here", "training_torch"]
    except ImportError:
        ways = ["get", "ahead", "training", "training_here"]
    times = {way: [] for way in ways}
    for _ in range(8):    # the daemon learns which arrays are wanted
        feeding.seek(0)
        for _ in range(STEPS):
            next(feeding).training()
    gc.disable()
    for turn in range(-1, ROUNDS):    # the first warms up
        for call in range(CALLS):
            timed(times["get"], lambda: near[call % STEPS].tokens)
            if call % STEPS == 0:
                ahead.seek(0)
            timed(times["ahead"], lambda: next(ahead).tokens)
            if call % STEPS == 0:
                feeding.seek(0)
            batch = next(feeding)
            made = timed(times["training"], batch.training)
            if turn >= 0 and not made.shared:
                sys.exit(f"bench_python.py: step {batch.step}: the daemon did not make the arrays")
            timed(times["training_here"], far.training)
            if "training_torch" in times:
                timed(times["training_torch"], lambda: batch.training().torch())
            del batch, made
        if turn < 0:
            times = {way: [] for way in ways}
    for way, values in times.items():
        values.sort()
        print(f"{way} p50 {statistics.median(values):.1f} p99 {values[len(values) * 99 // 100]:.1f}")


if __name__ == "__main__":
    main()
