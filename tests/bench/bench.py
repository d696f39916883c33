#!/usr/bin/env python3
"""bench.py BUILD: measures everything that README.md here lists, prints a table, writes BUILD/bench.json.

BENCH=quick in the environment takes a minute: one run instead of three, less data, no peer.
Whatever cannot be measured is left out with a word on stderr; a measurement that fails ends the run.
"""
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

import counts
import peers
from python_client import python_client
from ranks import ranks
from served import Consumer, Daemon, cpu_seconds, memory_bytes, recipe
from shares import STEPS, shares
from tokenise import Tokenising

HERE = pathlib.Path(__file__).resolve().parent
QUICK = os.environ.get("BENCH") == "quick"
RUNS = 1 if QUICK else 3
DEEP = 500 if QUICK else 5000  # the later of the two steps that are restored
LANES = (1, 8, 64)


class Bench:
    def __init__(self, build):
        self.build = build
        self.dir = build / "bench"
        self.data = self.dir / "data"
        self.demo = build / "demo" / "data"
        self.gpt2 = build / "tokenizers" / "gpt2"
        self.figures = {}

    def put(self, name, value, unit, against=None, settings="", ratio=None):
        if ratio is None and against:
            ratio = value / against
        self.figures[name] = {"value": value, "unit": unit, "against": against,
                              "ratio": ratio, "settings": settings}
        ratio_text = "" if ratio is None else f"  {ratio:10.3f}"
        print(f"{name:38} {value:16,.4g} {unit:12}{ratio_text}  {settings}", flush=True)

    def daemon(self, every=100, **settings):
        return Daemon(self.build, recipe(self.data, self.gpt2 / "tokenizer.json", **settings),
                      self.dir / "index", every=every)

    def demo_daemon(self, **settings):
        """On the demo's corpus, whose code has its text in another field."""
        text = recipe(self.demo, self.gpt2 / "tokenizer.json", code_field="body.content", **settings)
        return Daemon(self.build, text, self.dir / "demo-index", every=0)

    def tool(self, name, *arguments):
        done = subprocess.run([self.build / "tests/bench" / name, *map(str, arguments)],
                              stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            sys.exit(f"bench.py: {name} failed")
        return done.stdout


# Preparation -------------------------------------------------------------------------------------


def prepare_corpus(bench):
    bench.dir.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, HERE / "bench_corpus.py", bench.data,
                    "--packages", bench.dir / "packages"], check=True)
    for shard in bench.data.glob("*/*.jsonl"):  # into the page cache
        shard.read_bytes()


def prepare(bench):
    prepare_corpus(bench)
    subprocess.run([sys.executable, HERE.parent / "demo" / "corpus.py", bench.demo], check=True)
    for make in (bench.daemon, bench.demo_daemon):
        with make() as daemon:
            subprocess.run([bench.build / "lanekeeper", "index", daemon.config, "--json"], check=True,
                           stdout=subprocess.DEVNULL)


# End to end --------------------------------------------------------------------------------------


def run_once(bench, steps, **settings):
    """(tokens/s, tokens per CPU-second) from the first batch to the last; CPU of daemon, workers and trainer."""
    with bench.daemon(every=0, **settings) as daemon:
        daemon.start()
        consumer = Consumer(daemon, 0, steps)
        first = consumer.first()
        before = consumer.cpu_seconds()
        end, _, tokens, _, _ = consumer.last()
        spent = cpu_seconds(daemon.process.pid) - before
        spent += consumer.close()
        return tokens * 1e9 / (end - first), tokens / spent


def end_to_end(bench, peer, torch):
    for lanes in (8, 1):
        suffix = "" if lanes == 8 else ".lanes_1"
        runs = [run_once(bench, 500 if QUICK else 3000, lanes=lanes) for _ in range(RUNS)]
        rates = [statistics.median(column) for column in zip(*runs)]
        best = peer(lanes)
        words = f"{lanes} lanes, batches of 8 x 2048, concat then shuffle 1000, 2 workers, all processes"
        for name, rate, unit in zip(("tokens_per_s", "tokens_per_cpu_s"), rates, ("tokens/s", "tokens/CPU-s")):
            bench.put(f"e2e.{name}{suffix}", rate, unit, best and best[name],
                      words + (f"; against zephon from {best['format']}" if best else ""))
            if torch and lanes == 8:
                bench.put(f"e2e.{name}.against_torch", rate, unit, torch[name], words)
    runs = [run_once(bench, 500 if QUICK else 3000, pipeline="whole") for _ in range(RUNS)]
    rates = [statistics.median(column) for column in zip(*runs)]
    words = "8 lanes, batches of 8 x 2048, split 8192, shuffle 1024, exact_fit 1024, 2 workers"
    bench.put("e2e.exact_fit_tokens_per_s", rates[0], "tokens/s", settings=words)
    bench.put("e2e.exact_fit_tokens_per_cpu_s", rates[1], "tokens/CPU-s", settings=words)


# First batches -----------------------------------------------------------------------------------


def first_batch(daemon, step):
    """Seconds from the start of the daemon's process to the first batch in a trainer's hands."""
    started = daemon.start()
    consumer = Consumer(daemon, step, step + 1)
    seconds = (consumer.first() - started) / 1e9
    consumer.last()
    consumer.close()
    daemon.kill()
    return seconds


def cold(bench):
    for lanes in LANES:
        with bench.daemon(lanes=lanes, batch=max(8, lanes), pipeline="whole", every=0) as daemon:
            seconds = statistics.median(first_batch(daemon, 0) for _ in range(RUNS))
        name = "cold.first_batch_s" + ("" if lanes == 64 else f".lanes_{lanes}")
        bench.put(name, seconds, "s", 2.0 if lanes == 64 else None,
                  f"{lanes} lanes, batch {max(8, lanes)}, shuffle 1024, exact_fit 1024; from process start")


def consume(bench, daemon, first, last):
    consumer = Consumer(daemon, first, last)
    consumer.first()
    consumer.last()
    consumer.close()


def restored(bench, lanes, batch):
    """{step: seconds} of one number of lanes; at the later step also what the snapshots weigh."""
    seconds, kept = {}, {}
    with bench.daemon(lanes=lanes, batch=batch, pipeline="whole") as daemon:
        for first, last in ((0, 100), (100, DEEP)):
            daemon.start()
            consume(bench, daemon, first, last + 2)
            settle(daemon, lanes)
            daemon.kill()
            kept[last] = bench.dir / f"snapshots-{lanes}-{last}"
            shutil.rmtree(kept[last], ignore_errors=True)
            shutil.copytree(daemon.snapshots, kept[last])
        for step in (100, DEEP, DEEP + 50):
            times = []
            for _ in range(RUNS):
                shutil.rmtree(daemon.snapshots)
                shutil.copytree(kept[min(step, DEEP)], daemon.snapshots)
                times.append(first_batch(daemon, step))
            seconds[step] = statistics.median(times)
        newest = {}
        for path in sorted(kept[DEEP].iterdir(), key=lambda path: path.stat().st_mtime_ns):
            newest[lane_of(path)] = path.stat().st_size
        bench.put(f"snapshot.bytes.lanes_{lanes}_batch_{batch}", sum(newest.values()), "bytes",
                  settings=f"all {lanes} lanes at step {DEEP}, shuffle 1024, exact_fit 1024")
    for folder in kept.values():
        shutil.rmtree(folder)
    return seconds


def lane_of(path):
    return re.sub(r"[^-]*$", "", path.name) or path.name


def settle(daemon, lanes):
    """Waits until no snapshot was written for a while: the daemon is killed next."""
    written, still = -1, 0
    while still < 3:
        time.sleep(0.2)
        now = daemon.status()["snapshots"]["written"]
        written, still = now, still + 1 if now == written else 0
    if written == 0:
        raise RuntimeError("no snapshot was written:\n" + daemon.log()[-2000:])


def restore(bench):
    seconds = {lanes: restored(bench, lanes, max(8, lanes)) for lanes in LANES}
    wide = restored(bench, 1, 64)
    for lanes in LANES:
        for step in (100, DEEP, DEEP + 50):
            headline = lanes == 8 and step == DEEP
            name = "restore.first_batch_s" + ("" if headline else f".lanes_{lanes}_step_{step}")
            bench.put(name, seconds[lanes][step], "s", 1.0 if headline else None,
                      f"{lanes} lanes, batch {max(8, lanes)}, step {step}, snapshots every 100, after kill -9")
    steps = [seconds[lanes][DEEP] / seconds[lanes][100] for lanes in LANES]
    bench.put("restore.step_ratio", steps[1], "ratio", 1.3, f"8 lanes, step {DEEP} over step 100; "
              f"1 lane {steps[0]:.2f}, 64 lanes {steps[2]:.2f}")
    bench.put("restore.lanes_ratio", seconds[64][DEEP] / wide[DEEP], "ratio", 2.0,
              f"step {DEEP}, 64 lanes over 1 lane, both with batches of 64 ({wide[DEEP]:.2f} s with one)")
    bench.put("restore.lanes_ratio.batch_64_over_8", seconds[64][DEEP] / seconds[1][DEEP], "ratio", None,
              f"step {DEEP}, 64 lanes with batches of 64 over 1 lane with batches of 8: 8 times the data")


# Memory ------------------------------------------------------------------------------------------


def memory(bench):
    samples = []
    with bench.daemon(lanes=64, batch=64, pipeline="whole") as daemon:
        daemon.start()
        consumer = Consumer(daemon, 0, 300 if QUICK else 2000)
        consumer.first()
        while consumer.running():
            samples.append(memory_bytes(daemon.process.pid))
            time.sleep(0.5)
        consumer.last()
        consumer.close()
    words = "daemon and 2 workers, 64 lanes, batch 64, shuffle 1024, exact_fit 1024, arena 256 MiB; peak"
    rss, pss = ([pair[i] for pair in samples] for i in (0, 1))
    bench.put("memory.rss_bytes", max(rss), "bytes", 512e6, words + ", shared pages counted in each")
    bench.put("memory.pss_bytes", max(pss), "bytes", 512e6, words + ", shared pages counted once")
    half = len(pss) // 2
    growth = max(pss[half:]) / max(pss[:half]) if half else 1.0
    bench.put("memory.second_half_ratio", growth, "ratio", 1.05,
              f"peak of the second half of {len(pss)} samples over peak of the first")


# Packing -----------------------------------------------------------------------------------------


def packing(bench):
    for algorithm in ("exact_fit", "concat", "first_fit", "best_fit"):
        with bench.demo_daemon(pipeline="whole", pack=algorithm) as daemon:
            daemon.start()
            consume(bench, daemon, 0, 500 if QUICK else 6000)
            totals = daemon.status()["streams"][0]["cursors"][0]
        if not totals["identity"]:
            raise RuntimeError(f"{algorithm}: tokens in differ from tokens out")
        suffix = "" if algorithm == "exact_fit" else f".{algorithm}"
        made = totals["sequences"] * 2048
        words = f"{algorithm}, {totals['sequences']} sequences of the demo's corpus, 8 lanes, shuffle 1024"
        bench.put("pack.lost_per_million" + suffix, 1e6 * totals["tokens_lost"] / totals["tokens_in"],
                  "tokens", settings=words)
        bench.put("pack.padded_per_million" + suffix, 1e6 * totals["tokens_padded"] / made, "tokens",
                  settings=words)
        bench.put("pack.cuts_per_sequence" + suffix,
                  (totals["cuts"] - totals["forced_cuts"]) / totals["sequences"], "cuts",
                  0.06 if algorithm == "exact_fit" else None,
                  words + f"; forced {totals['forced_cuts'] / totals['sequences']:.3f}")


# Stages alone ------------------------------------------------------------------------------------


def median_of(pattern, texts):
    return statistics.median(float(found) for text in texts for found in re.findall(pattern, text))


def stages(bench):
    rows = [bench.tool("bench_rows", bench.data / "docs")]
    bench.put("read.bytes_per_cpu_s", 1e6 * median_of(r"([\d.]+) MB of rows per CPU-second", rows), "bytes/CPU-s",
              settings="read, check hashes, parse JSON, take the field; one core, page cache")
    found = [json.loads(bench.tool("bench_sequence", "--json"))["sequence.records_per_s"] for _ in range(RUNS)]
    bench.put("sequence.records_per_s", statistics.median(one["value"] for one in found), "records/s", 2e6,
              found[0]["settings"])
    runs = [bench.tool("bench_assemble") for _ in range(RUNS)]
    bench.put("assemble.bytes_per_s", median_of(r"assemble ([\d.e+]+)", runs), "bytes/s",
              median_of(r"memcpy ([\d.e+]+)", runs), "fragments of 700 ids checked and copied into rows of 2048 u32; "
              "against memcpy of the same fragments")


def training(bench):
    """In turns with the peer, where that is installed."""
    python = None if QUICK else peers.installed(bench.build)
    ours, theirs = [], []
    for _ in range(RUNS):
        ours.append(bench.tool("bench_training"))
        found = python and peers.run([python, HERE / "peer_training.py"])
        theirs += [found] if found else []
    peer = statistics.median(one["p50_us"] for one in theirs) if theirs else None
    what = "8 x 2048 tokens, 64 bits: ids, labels, positions, document ids, loss mask"
    bench.put("training.call_p50_us", median_of(r"own ([\d.]+)", ours), "us", peer,
              f"{what}, cu_seqlens; the library makes them" + (f"; against zephon {theirs[0]['version']}" if peer else ""))
    bench.put("training.rows_p50_us", median_of(r"rows ([\d.]+)", ours), "us", 60, f"{what}; as the daemon makes them")


def fetches(bench):
    runs = []
    with bench.daemon(every=0) as daemon:
        daemon.start()
        consume(bench, daemon, 0, 4)  # what is fetched then is ready
        for _ in range(RUNS):
            runs.append(bench.tool("bench_get", daemon.address, daemon.tcp))
    echo = {}
    for way in ("echo", "shm", "shm_ahead", "ipc", "tcp"):
        for what in ("p50", "p99"):
            values = [float(v) for run in runs for v in re.findall(rf"(?m)^{way} .*{what} ([\d.]+)", run)]
            value = statistics.median(values)
            if way == "echo":
                echo[what] = value
            bench.put(f"fetch.{way}_{what}_us", value, "us", None if way == "echo" else echo[what],
                      "64 bytes over ipc" if way == "echo" else "ready batch of 8 x 2048 tokens; against nng echo of 64 bytes over ipc")


def checkpoint(bench):
    with bench.daemon(every=0) as daemon:
        daemon.start()
        said = bench.tool("bench_consume", daemon.address, 0, 3, "--state")
    bench.put("checkpoint.bytes", int(re.search(r"(?m)^state (\d+)", said)[1]), "bytes", 64,
              "step number and stream digest")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    only = set(sys.argv[2:])
    bench = Bench(build)
    prepare(bench)
    parts = {"tokenise": lambda: Tokenising(bench, RUNS, QUICK).all(),
             "e2e": lambda: end_to_end(bench, peers.zephon(bench, RUNS, QUICK), peers.torch(bench, RUNS, QUICK)),
             "stages": lambda: stages(bench), "training": lambda: training(bench),
             "shares": lambda: shares(bench, lambda batch: run_once(bench, (500 if QUICK else STEPS) * 8 // batch,
                                                                    batch=batch)[1], RUNS),
             "fetch": lambda: fetches(bench), "cold": lambda: cold(bench), "restore": lambda: restore(bench),
             "memory": lambda: memory(bench), "pack": lambda: packing(bench),
             "counts": lambda: counts.counts(bench, RUNS), "checkpoint": lambda: checkpoint(bench),
             "python": lambda: python_client(bench, RUNS, QUICK), "ranks": lambda: ranks(bench, RUNS, QUICK)}
    for name, part in parts.items():
        if not only or name in only:
            part()
    out = build / "bench.json"
    old = json.loads(out.read_text()) if only and out.exists() else {}
    out.write_text(json.dumps({**old, **bench.figures}, indent=1) + "\n")
    print(f"written: {out}")


if __name__ == "__main__":
    main()
