"""Times zephon's to_training for what bench_training.c makes: 8 rows of 2,048 tokens in six pieces each.

Prints one JSON object: p50_us and p99_us of 500 calls, and zephon's version.
"""

import importlib.metadata
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import zephon_training  # noqa: E402

ROWS, SEQUENCE, USED, PIECES, ROUNDS = 8, 2048, 2000, 6, 500


def main():
    import numpy
    from zephon.types import SampleBatch
    lengths = [USED // PIECES + (USED % PIECES if p == 0 else 0) for p in range(PIECES)]
    documents = [[(i * 7919) % 50257 for i in range(n)] for n in lengths]
    batch = SampleBatch(records=[zephon_training.packed(r, documents, SEQUENCE, 0) for r in range(ROWS)])
    took = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        batch.to_training(return_labels=True, return_loss_mask=True, return_num_valid_tokens=True,
                          return_cu_seqlens=True, flatten=True, dtype=numpy.int64)
        took.append((time.perf_counter() - start) * 1e6)
    took.sort()
    json.dump({"p50_us": took[ROUNDS // 2], "p99_us": took[ROUNDS * 99 // 100],
               "version": importlib.metadata.version("zephon")}, sys.stdout)


if __name__ == "__main__":
    main()
