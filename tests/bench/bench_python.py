#!/usr/bin/env python3
"""bench_python.py ADDRESS: what a ready batch of a running daemon costs in Python; bench_get.c is the same in C.

As there, ways take turns of some calls in a row, and letting go of a batch is part of its call.

Prints one line a way, its name and p50 and p99 in microseconds: `get`, stream[step]; `ahead`, next(stream) with two
steps asked for ahead; each with the NumPy array of its tokens. `training`, batch.training() where the daemon has
made the arrays; `training_here`, where they are made in this process; `training_torch`, with the tensors, if there is torch.
"""
import gc
import statistics
import sys
import time

import lanekeeper

ROUNDS, CALLS, STEPS = 20, 200, 4


class Ways:
    def __init__(self, address):
        self.near, self.ahead, self.feeding = (lanekeeper.Stream(address, lookahead=n, shared=True) for n in (0, 2, 2))
        self.far = lanekeeper.Stream(address, shared=False)[0]
        for _ in range(8):    # the daemon learns which arrays are wanted
            self.feeding.seek(0)
            for _ in range(STEPS):
                next(self.feeding).training()

    def get(self, call):
        begin = time.perf_counter()
        batch = self.near[call % STEPS]
        tokens = batch.tokens
        del batch, tokens
        return time.perf_counter() - begin

    def next(self, call):
        if call % STEPS == 0:
            self.ahead.seek(0)
        begin = time.perf_counter()
        batch = next(self.ahead)
        tokens = batch.tokens
        del batch, tokens
        return time.perf_counter() - begin

    def fed(self, call, then=lambda made: made):
        if call % STEPS == 0:
            self.feeding.seek(0)
        batch = next(self.feeding)
        begin = time.perf_counter()
        made = batch.training()
        arrays = then(made)
        seconds = time.perf_counter() - begin
        if not made.shared:
            sys.exit(f"bench_python.py: step {batch.step}: the daemon did not make the arrays")
        del arrays
        return seconds

    def tensors(self, call):
        return self.fed(call, lambda made: made.torch())

    def here(self, call):
        begin = time.perf_counter()
        made = self.far.training()
        seconds = time.perf_counter() - begin
        del made
        return seconds


def main():
    ways = Ways(sys.argv[1])
    kinds = {"get": ways.get, "ahead": ways.next, "training": ways.fed, "training_here": ways.here}
    try:
        import torch    # noqa: F401
        kinds["training_torch"] = ways.tensors
    except ImportError:
        pass
    times = {name: [] for name in kinds}
    gc.disable()
    for turn in range(-1, ROUNDS):    # the first warms up
        for name, way in kinds.items():
            for call in range(CALLS):
                microseconds = way(call) * 1e6
                if turn >= 0:
                    times[name].append(microseconds)
    for name, values in times.items():
        values.sort()
        print(f"{name} p50 {statistics.median(values):.1f} p99 {values[len(values) * 99 // 100]:.1f}")


if __name__ == "__main__":
    main()
