#!/usr/bin/env python3
"""bench_ranks.py ADDRESS STEPS RANK WORLD: a rank of a trainer that does nothing but read every token. See ranks.py."""
import sys

import lanekeeper


def main():
    address, steps, rank, world = sys.argv[1], *map(int, sys.argv[2:])
    stream = lanekeeper.Stream(address, rank=rank, world=world, shared=True, timeout=600)
    seen = int(next(stream).tokens.sum())
    print("first", flush=True)
    sys.stdin.readline()
    tokens = 0
    for _ in range(steps - 1):
        batch = next(stream).tokens
        seen += int(batch.sum())
        tokens += batch.size
    if seen == 0:
        sys.exit("all tokens are 0")
    print("last", tokens, flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
