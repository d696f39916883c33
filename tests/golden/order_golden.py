"""Golden digests of the order: a few small recipes whose step digests are committed in order.txt.

    order_golden.py --dump build/tests/oracle/lane_dump           compare; exit status 1 when one differs
    order_golden.py --dump build/tests/oracle/lane_dump --write   write order.txt anew

They change with order_version (core/plan.h) and never else: rewriting them without raising it means
that a trainer that resumes would be given other data than before. Nothing is written unless the
lanes and the oracle agree. Rows are made with integers alone, the same in every Python.
"""

import argparse
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))

import compare_order    # noqa: E402
import order_oracle as oracle    # noqa: E402

PLAN_H = HERE.parent.parent / "server" / "core" / "plan.h"
GOLDEN = HERE / "order.txt"


def rows(seed, count, longest, dropped=0):
    """Lengths that fall off like 1/x up to `longest`, one row in `dropped` dropped."""
    made = []
    for i in range(count):
        a, b = oracle.key(seed, 2 * i), oracle.key(seed, 2 * i + 1)
        tokens = max(1, longest // (1 + oracle.below(a, 16)) - oracle.below(b, 3))
        made.append((0, tokens, 1) if dropped and a % dropped == 0 else (tokens, 3 * tokens, 0))
    return made


def dataset(name, weight, shards, epochs=0, then="repeat", group=0):
    return {"name": name, "weight": weight, "epochs": epochs, "then": then, "group": group,
            "shards": shards}


def stages(algorithm, split=0, shuffle=0, pool=0, groups=1, shuffle_after=0):
    made = []
    if split:
        made.append({"kind": "split", "max_tokens": split})
    if shuffle:
        made.append({"kind": "shuffle", "buffer": shuffle})
    made.append({"kind": "pack", "algorithm": algorithm, "pool": pool, "groups": groups})
    if shuffle_after:
        made.append({"kind": "shuffle", "buffer": shuffle_after})
    return made


def recipe(datasets, made_stages, **keys):
    case = {"seed": 1, "lanes": 1, "sequence": 64, "mixture": "tokens", "block_rows": 16,
            "permute_blocks": True, "permute_rows": True, "tail": "drop", "pad_id": 0,
            "vocab": 50257, "schedule": 1, "saves": 100, "batch": [(0, 4)], "worlds": [],
            "steps": 6}
    case.update(keys, datasets=datasets, stages=made_stages)
    case["limit"] = sum(oracle.step_size(case, s) for s in range(case["steps"])) // case["lanes"]
    return case


DOCS = [rows(1, 90, 300, 9), [], rows(2, 70, 100)]
MAN = [rows(3, 120, 60)]
CODE = [rows(4, 64, 500, 5), rows(5, 1, 7000), rows(6, 64, 30)]

RECIPES = {
    "concat-in-order": recipe([dataset("docs", 1, DOCS, 1, "stop")], stages("concat"),
                              permute_blocks=False, permute_rows=False, steps=99),
    "concat-padded-tail": recipe([dataset("docs", 1, DOCS, 1, "stop"), dataset("man", 2, MAN)],
                                 stages("concat"), tail="pad", pad_id=7, lanes=2, steps=99),
    "exact-8-lanes": recipe([dataset("docs", 5, DOCS), dataset("man", 3, MAN, 2, "release"),
                             dataset("code", 2, CODE)],
                            stages("exact_fit", split=256, shuffle=16, pool=32),
                            lanes=8, batch=[(0, 16), (3, 32)]),
    "exact-by-dataset": recipe([dataset("docs", 1, DOCS, group=0), dataset("code", 1, CODE, group=1)],
                               stages("exact_fit", pool=8, groups=2, shuffle_after=4), seed=2),
    "exact-to-the-end": recipe([dataset("docs", 1, DOCS, 1, "release"),
                                dataset("code", 1, CODE, 1, "release")],
                               stages("exact_fit", pool=8), lanes=3, batch=[(0, 6)], tail="pad", steps=99),
    "first-fit-bytes": recipe([dataset("docs", 1, DOCS), dataset("code", 7, CODE)],
                              stages("first_fit", split=64, shuffle=8, pool=6), mixture="bytes"),
    "best-fit-samples": recipe([dataset("docs", 2, DOCS, 1, "release"), dataset("man", 1, MAN)],
                               stages("best_fit", split=64, pool=6), mixture="samples",
                               block_rows=0, permute_rows=False, seed=(1 << 64) - 1),
}


def order_version():
    return int(re.search(r"define LK_ORDER_VERSION (\d+)", PLAN_H.read_text()).group(1))


def digests(name, dump):
    """The lines of one recipe; None when lanes and oracle disagree."""
    case = RECIPES[name]
    got = subprocess.run([dump], input=compare_order.text_of(case), capture_output=True, text=True,
                         timeout=60)
    if got.returncode != 0:
        print(f"{name}: {dump} exited with {got.returncode}: {got.stderr.strip()}")
        return None
    if got.stdout.splitlines() != list(compare_order.expected(case)):
        print(f"{name}: the lanes and the oracle differ")
        return None
    steps = [line.split() for line in got.stdout.splitlines() if line.startswith("step ")]
    return [f"{name} {step} {size} {digest}" for _, step, size, digest in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dump", required=True, help="the lane_dump program")
    parser.add_argument("--write", action="store_true", help="write order.txt anew")
    args = parser.parse_args()
    lines = [f"order_version {order_version()}"]
    for name in RECIPES:
        got = digests(name, args.dump)
        if not got:
            print(f"{name}: no digests")
            return 1
        lines += got
    if args.write:
        GOLDEN.write_text("\n".join(lines) + "\n")
        print(f"golden: wrote {len(lines) - 1} step digests of {len(RECIPES)} recipes")
        return 0
    want = GOLDEN.read_text().splitlines()
    changed = sorted(set(lines) ^ set(want))
    for line in changed:
        print(f"golden: {'computed' if line in lines else 'committed'}: {line}")
    print(f"golden: {len(want) - 1} step digests of {len(RECIPES)} recipes, {len(changed)} lines differ")
    return 1 if lines != want else 0


if __name__ == "__main__":
    sys.exit(main())
