#!/usr/bin/env python3
"""scale.py BUILD [PART…]: whether what holds for a small corpus holds for a large one; README.md here, "At scale".

Parts: rows shards lanes datasets blocks; all by default. Data is made once under BUILD/scale and kept (5 GB; SCALE=quick
in the environment: a tenth of the rows and shards). Prints a table, writes BUILD/scale.json. A measurement that fails, a
row whose count is not known after it was measured, or an answer that is late ends the run with a non-zero status.
"""
import collections
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from bench import Bench, prepare_corpus
from scale_data import Data, check_disk
from served import TICK, Consumer, Daemon, cpu_seconds, tree

QUICK = os.environ.get("SCALE") == "quick"
PATIENCE = 1200  # seconds, for one trainer or one command
STEPS = 600
LANES = (8, 64, 256, 1024)


class Scale(Bench):
    def __init__(self, build):
        super().__init__(build)
        self.pair = build / "tokenizers" / "gpt2-pair"
        tenth = 10 if QUICK else 1
        self.home = build / "scale"
        self.work = self.home / "work"  # indexes and counts, of one run
        self.rows = Data(self.home, "rows", 1000, 100000 // tenth)
        self.shards = Data(self.home, "shards", 50000 // tenth, 20)
        self.sets = Data(self.home, "datasets", 300, 2000, apart=True)

    def __enter__(self):
        self.clear()
        self.work.mkdir(parents=True)
        return self

    def __exit__(self, *_):
        self.clear()

    def clear(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def recipe(self, datasets, lanes=8, batch=64, sequence=2048, block_rows=256):
        """Of @datasets: {name: (folder, weight)}."""
        lines = "".join(f"      {name}: {{path: \"{path}\", text: text, weight: {weight}}}\n"
                        for name, (path, weight) in datasets.items())
        return (f"streams:\n  scale:\n    seed: 1\n    lanes: {lanes}\n    batch: {batch}\n    sequence: {sequence}\n"
                f"    tokenizer:\n      pair: {{vocab: \"{self.pair}/encoder.json\", merges: \"{self.pair}/vocab.bpe\"}}\n"
                f"      append: \"<|endoftext|>\"\n"
                f"    datasets:\n{lines}    order: {{block_rows: {block_rows}}}\n    pipeline:\n"
                "      - shuffle: {buffer: 1024}\n      - pack: {algorithm: exact_fit, pool: 1024}\n")

    def serve(self, kind, datasets, arena="256MiB", **shape):
        """A daemon, and the place of its counts; indexes are shared by all daemons of a kind."""
        counts = self.work / f"counts-{kind}"
        shutil.rmtree(counts, ignore_errors=True)
        daemon = Daemon(self.build, self.recipe(datasets, **shape), self.work / f"index-{kind}",
                        counts=f"{{dir: \"{counts}\"}}", arena=arena)
        daemon.counts = counts
        return daemon

    def corpus(self):
        return {name: (self.data / name, weight) for name, weight in (("docs", 5), ("man", 3), ("code", 2))}


# Commands and trainers, each with a deadline -------------------------------------------------------


def resident(pid):
    """{VmHWM, RssAnon, RssFile, RssShmem: bytes} of a process; {} when it is gone."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.split(":") for line in lines if line.startswith(("VmHWM", "Rss")))
    return {key: int(value.split()[0]) * 1024 for key, value in pairs}


class Command:
    """A run of `lanekeeper … --json`: .said, .seconds, .peak (all that is resident), .peak_anon."""

    def __init__(self, scale, *arguments):
        began = time.monotonic()
        self.peak = self.peak_anon = 0
        process = subprocess.Popen([scale.build / "lanekeeper", *map(str, arguments), "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = self.watch(process, began + PATIENCE)
        finally:
            process.kill()
            process.wait()
        self.seconds = time.monotonic() - began
        if process.returncode != 0:
            raise RuntimeError(f"lanekeeper {arguments[0]} ended with {process.returncode}: {err[-2000:]}{out[-2000:]}")
        self.said = json.loads(out)

    def watch(self, process, until):
        while True:
            now = resident(process.pid)
            self.peak = max(self.peak, now.get("VmHWM", 0))
            self.peak_anon = max(self.peak_anon, now.get("RssAnon", 0))
            try:
                return process.communicate(timeout=0.01)
            except subprocess.TimeoutExpired:
                if time.monotonic() > until:
                    raise RuntimeError(f"not done within {PATIENCE} s: {process.args}") from None


@contextlib.contextmanager
def trainer(daemon, first, last):
    """A consumer of steps first … last-1. When it is late, or the daemon has ended, it is killed, which whoever waits for
    its lines sees."""
    consumer, over = Consumer(daemon, first, last), threading.Event()

    def watch(until=time.monotonic() + PATIENCE):
        while not over.wait(0.2):
            if daemon.process.poll() is not None or time.monotonic() > until:
                consumer.process.kill()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield consumer
        consumer.close()
    finally:
        over.set()
        watcher.join()
        consumer.process.kill()
        consumer.process.wait()


Run = collections.namedtuple("Run", "first rate words")


def own_seconds(pid):
    """User and system time of a process alone."""
    stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / TICK


def run(daemon, steps):
    """Starts the daemon: seconds to its first batch, tokens/s of the steps after it, and in words what they cost. Workers
    make more tokens than are served while the lanes' buffers fill."""
    started = daemon.start()
    pid = daemon.process.pid
    with trainer(daemon, 0, steps) as consumer:
        first = consumer.first()
        before, own = consumer.cpu_seconds(), own_seconds(pid)
        end, _, tokens, _, _ = consumer.last()
        own = own_seconds(pid) - own
        spent = cpu_seconds(pid) + own_seconds(consumer.process.pid) - before
    wall = (end - first) / 1e9
    total = totals(daemon)
    made = daemon.status()["workers"]["tokens"] / total["tokens_out"]
    return Run((first - started) / 1e9, tokens / wall,
               f"{tokens / spent / 1e6:.2f} M per CPU-second, daemon busy {100 * own / wall:.0f} % of the time; {made:.2f} "
               f"tokens made for each of those served, {total['tokens_waiting'] / 1e6:.0f} M wait in the lanes' buffers; the "
               f"daemon's own memory {resident(pid)['RssAnon'] / 1e6:.0f} MB")


def totals(daemon):
    """The counters of its only cursor."""
    found = daemon.status()["streams"][0]["cursors"][0]
    if not found["identity"]:
        raise RuntimeError("tokens in differ from tokens out")
    return found


def measure_all(scale, daemon, rows):
    """`lanekeeper measure`, and that it says of every row, when it is called again, that it was known: the first run."""
    first = Command(scale, "measure", daemon.config, "--jobs", 2)
    again = Command(scale, "measure", daemon.config, "--jobs", 2)
    known = sum(d["rows_known_before"] for d in again.said["datasets"])
    if first.said["measured"] != rows or known != rows or again.said["measured"] != 0:
        raise RuntimeError(f"of {rows} rows {first.said['measured']} were measured, and {known} known afterwards")
    first.again_seconds = again.seconds
    first.counts_bytes = sum(path.stat().st_size for path in daemon.counts.iterdir())
    return first


# The parts ----------------------------------------------------------------------------------------


def put_index(scale, name, data, daemon):
    done = Command(scale, "index", daemon.config)
    size = sum(path.stat().st_size for path in (scale.work / f"index-{name}").iterdir())
    words = f"{data.rows:,} rows in {data.shards:,} shards"
    scale.put(f"{name}.index_s", done.seconds, "s", settings=f"{words}: lanekeeper index, all processors")
    scale.put(f"{name}.index_bytes_per_row", size / data.rows, "bytes", settings=f"{words}: the index's file")
    scale.put(f"{name}.index_peak_bytes", done.peak, "bytes",
              settings=f"{words}: peak of lanekeeper index, all that is resident; anonymous {done.peak_anon / 1e6:.0f} MB")


def put_measure(scale, name, data, daemon):
    done = measure_all(scale, daemon, data.rows)
    words = f"{data.rows:,} rows in {data.shards:,} shards, lanekeeper measure, 2 workers"
    scale.put(f"{name}.measure_rows_per_s", data.rows / done.seconds, "rows/s",
              settings=f"{words}: {done.seconds:.1f} s; peak of the tool {done.peak / 1e6:.0f} MB, anonymous "
                       f"{done.peak_anon / 1e6:.0f} MB; again, when all are known: {done.again_seconds:.1f} s")
    scale.put(f"{name}.counts_bytes_per_row", done.counts_bytes / data.rows, "bytes", settings=f"{words}; files whole")
    scale.put(f"{name}.known_ratio", 1.0, "ratio", settings=f"{words}; all rows are known afterwards, or the run fails")


def put_serving(scale, daemon):
    """The steps of the short rows; rows that one token takes."""
    done = run(daemon, STEPS)
    memory, total = resident(daemon.process.pid), totals(daemon)
    workers = [resident(pid).get("RssAnon", 0) for pid in tree(daemon.process.pid)[1:]]
    rows_per_token = total["rows"] / total["tokens_in"]
    words = f"{scale.rows.rows:,} short rows, 8 lanes, 64 x 2048, {STEPS} steps"
    scale.put("rows.first_batch_s", done.first, "s", settings="from the start of the daemon's process")
    scale.put("rows.tokens_per_s", done.rate, "tokens/s", settings=f"{words}; {done.words}")
    scale.put("rows.rows_per_s", done.rate * rows_per_token, "rows/s",
              settings=f"{words}; {1 / rows_per_token:.1f} tokens a row")
    scale.put("rows.anon_bytes", memory["RssAnon"], "bytes",
              settings=f"{words}; the daemon's own memory after them, with the tokens in its arena; ready batches "
                       f"{memory['RssShmem'] / 1e6:.0f} MB, workers {' and '.join(f'{w / 1e6:.0f}' for w in workers)} MB")
    scale.put("rows.file_bytes", memory["RssFile"], "bytes",
              settings=f"{words}; pages of files that it has mapped, the index: they are given back when memory is short")
    return rows_per_token


def wait_idle(daemon):
    """Until the workers have nothing to do: what they measured ahead."""
    until = time.monotonic() + PATIENCE
    while daemon.status()["workers"]["running"] > 0:
        if time.monotonic() > until:
            raise RuntimeError("the workers do not come to rest:\n" + daemon.log()[-2000:])
        time.sleep(0.05)


def put_seek(scale, daemon, rows_per_token):
    """To a step at four fifths of the first pass, from a daemon that runs."""
    step = int(0.8 * scale.rows.rows / (rows_per_token * 64 * 2048))
    daemon.start()
    with trainer(daemon, 0, 1) as near:  # workers are there, and have loaded the tokenizer
        near.first()
        near.last()
    wait_idle(daemon)
    before = daemon.status()["counts"]["rows_used"]
    began = time.monotonic_ns()
    with trainer(daemon, step, step + 1) as far:
        seconds = (far.first() - began) / 1e9
        far.last()
    passed = daemon.status()["counts"]["rows_used"] - before
    if passed < scale.rows.rows // 2:
        raise RuntimeError(f"of {scale.rows.rows} rows the counts of {passed} were used:\n" + daemon.log()[-2000:])
    memory = resident(daemon.process.pid)
    words = f"first batch of step {step:,}, 8 lanes, 64 x 2048, no snapshots, all counts known"
    scale.put("rows.seek_s", seconds, "s", settings=words)
    scale.put("rows.seek_rows_per_s", passed / seconds, "rows/s",
              settings=f"{words}; {passed:,} rows passed; the daemon's own memory then {memory['RssAnon'] / 1e6:.0f} MB")


def rows(scale):
    """Very many short rows."""
    with scale.serve("rows", {"rows": (scale.rows.path, 1)}) as daemon:
        put_index(scale, "rows", scale.rows, daemon)
        rows_per_token = put_serving(scale, daemon)
        daemon.kill()
        shutil.rmtree(daemon.counts)  # what the daemon has counted
        put_measure(scale, "rows", scale.rows, daemon)
        shutil.rmtree(daemon.snapshots, ignore_errors=True)
        put_seek(scale, daemon, rows_per_token)


def shards(scale):
    with scale.serve("shards", {"shards": (scale.shards.path, 1)}) as daemon:
        put_index(scale, "shards", scale.shards, daemon)
        done = run(daemon, 50)
        words = f"{scale.shards.shards:,} shards of {scale.shards.rows_each} rows, 8 lanes, 64 x 2048"
        scale.put("shards.first_batch_s", done.first, "s", settings=f"{words}; from the start of the daemon's process")
        scale.put("shards.tokens_per_s", done.rate, "tokens/s", settings=f"{words}, 50 steps; {done.words}")
        daemon.kill()
        shutil.rmtree(daemon.counts)
        put_measure(scale, "shards", scale.shards, daemon)


def lanes(scale):
    for n in LANES:
        with scale.serve("corpus", scale.corpus(), lanes=n, batch=2048, sequence=8192, arena="2GiB") as daemon:
            Command(scale, "index", daemon.config)
            done = run(daemon, 11)
        words = f"the benchmark's corpus, {n} lanes, 2,048 x 8,192 tokens"
        scale.put(f"lanes.first_batch_s.lanes_{n}", done.first, "s",
                  settings=f"{words}; from the start of the daemon's process")
        scale.put(f"lanes.tokens_per_s.lanes_{n}", done.rate, "tokens/s",
                  settings=f"{words}, the next 10 steps; {done.words}")


def datasets(scale):
    data = scale.sets
    weights = [1 + i * 7919 % 1000 for i in range(data.shards)]
    mixed = {name: (data.path / name, weight) for name, weight in zip(data.names(), weights)}
    with scale.serve("datasets", mixed, lanes=64) as daemon:
        index = Command(scale, "index", daemon.config)
        done = run(daemon, 200)
    words = f"{data.shards} datasets of {data.rows_each:,} short rows, weights from 1 to 1,000, 64 lanes, 64 x 2048"
    scale.put("datasets.index_s", index.seconds, "s", settings=words)
    scale.put("datasets.first_batch_s", done.first, "s", settings=f"{words}; from the start of the daemon's process")
    scale.put("datasets.tokens_per_s", done.rate, "tokens/s", settings=f"{words}, 200 steps; {done.words}")


def blocks(scale):
    """Rows read one by one, everywhere, against 256 neighbours at a time; in turns, the default first."""
    for kind, of, steps in (("corpus", scale.corpus(), 600), ("rows", {"rows": (scale.rows.path, 1)}, 300)):
        rates = {}
        for block_rows in (256, 1):
            with scale.serve(kind, of, block_rows=block_rows) as daemon:
                if not (scale.work / f"index-{kind}").exists():
                    Command(scale, "index", daemon.config)
                done = run(daemon, steps)
            rates[block_rows] = done.rate
            scale.put(f"blocks.tokens_per_s.{kind}_{block_rows}", done.rate, "tokens/s", rates[256],
                      f"{kind}, block_rows {block_rows}, 8 lanes, 64 x 2048, {steps} steps, first batch {done.first:.2f} s; "
                      f"{done.words}")


# What is needed -----------------------------------------------------------------------------------


def prepare(scale, parts):
    """The data of @parts, or an exit where it has no place."""
    data = [one for one, of in ((scale.rows, {"rows", "blocks"}), (scale.shards, {"shards"}), (scale.sets, {"datasets"}))
            if of & parts]
    scale.home.mkdir(parents=True, exist_ok=True)
    check_disk(scale.home, sum(one.disk_bytes() for one in data))
    for one in data:
        began = time.monotonic()
        one.make()
        one.read()
        print(f"{one.path}: {one.rows:,} rows in {one.shards:,} shards, {time.monotonic() - began:.0f} s", flush=True)
    if {"lanes", "blocks"} & parts:
        prepare_corpus(scale)


def main():
    parts = {"rows": rows, "shards": shards, "lanes": lanes, "datasets": datasets, "blocks": blocks}
    only = sys.argv[2:]
    if len(sys.argv) < 2 or not set(only) <= set(parts):
        sys.exit(f"usage: scale.py BUILD [PART…]; parts: {' '.join(parts)}")
    build = pathlib.Path(sys.argv[1]).resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # daemons end as with Ctrl-C
    with Scale(build) as scale:
        prepare(scale, set(only or parts))
        for name, part in parts.items():
            if not only or name in only:
                try:
                    part(scale)
                except RuntimeError as error:
                    sys.exit(f"scale.py: {name}: {error}")
    out = build / "scale.json"
    old = json.loads(out.read_text()) if only and out.exists() else {}
    out.write_text(json.dumps({**old, **scale.figures}, indent=1) + "\n")
    print(f"written: {out}")


if __name__ == "__main__":
    main()
