#!/usr/bin/env python3
"""bench_corpus.py OUT [--packages DIR] [--megabytes N]: the data of the benchmark.

Three datasets of four JSONL shards under OUT (docs: the kernel's documentation; man: manual pages as
roff; code: Python), each of at most N megabytes of text (40 by default), made like the demo's of
packages that Debian ships, which are downloaded and unpacked, not installed. What is there is kept.
"""
import argparse
import json
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "demo"))
import corpus as demo  # noqa: E402

SHARDS = 4
# Package, or one that depends on it and the pattern of its name; as in the demo.
PACKAGES = {
    "linux-doc": ("linux-doc", r"linux-doc-[\d.]+"),
    "freebsd-manpages": ("freebsd-manpages", None),
    "libssl-doc": ("libssl-doc", None),
    "erlang-manpages": ("erlang-manpages", None),
    "python3-sympy": ("python3-sympy", None),
    "python3-twisted": ("python3-twisted", None),
    "python3-django": ("python3-django", None),
    "python3-pandas": ("python3-pandas", None),
    "python3-networkx": ("python3-networkx", None),
}
PARTS = {
    "docs": [("linux-doc", r"(?!.*/html/).*/Documentation/.*")],
    "man": [(name, r"usr/share/man/man\d/.*\.gz")
            for name in ("manpages", "manpages-dev", "freebsd-manpages", "erlang-manpages", "libssl-doc")],
    "code": [(name, r".*\.py") for name in ("python", "python3-sympy", "python3-twisted", "python3-django",
                                             "python3-pandas", "python3-networkx")],
}


def texts(parts, packages, limit):
    total = 0
    for name, pattern in parts:
        for path, text in demo.documents(demo.unpack(packages, name), pattern):
            if text.strip():
                total += len(text.encode())
                yield path, text
            if total >= limit:
                return


def make(out, packages, limit):
    for dataset, parts in PARTS.items():
        documents = list(texts(parts, packages, limit))
        folder = out / dataset
        folder.mkdir(parents=True)
        for i in range(SHARDS):
            with open(folder / f"{dataset}-{i:02}.jsonl", "w", encoding="utf-8") as shard:
                for name, text in documents[i::SHARDS]:
                    shard.write(json.dumps({"name": name, "text": text}, ensure_ascii=False) + "\n")
        size = sum(len(text.encode()) for _, text in documents)
        print(f"{dataset:5} {len(documents):6} documents  {size / 1e6:6.1f} MB of text", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__,
                                        formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("out", type=pathlib.Path)
    arguments.add_argument("--packages", type=pathlib.Path)
    arguments.add_argument("--megabytes", type=float, default=40)
    arguments = arguments.parse_args()
    out = arguments.out
    if out.exists():
        return
    demo.PACKAGES.update(PACKAGES)
    building = out.with_name(out.name + ".part")
    shutil.rmtree(building, ignore_errors=True)
    make(building, (arguments.packages or out.parent / "packages").resolve(), arguments.megabytes * 1e6)
    building.rename(out)


if __name__ == "__main__":
    main()
