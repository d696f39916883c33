"""The daemon under measurement: its configuration, its life, and what its processes cost."""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TICK = os.sysconf("SC_CLK_TCK")
PACK = {
    "concat": "pack: {algorithm: concat}",
    "first_fit": "pack: {algorithm: first_fit, pool: 1024}",
    "best_fit": "pack: {algorithm: best_fit, pool: 1024}",
    "exact_fit": "pack: {algorithm: exact_fit, pool: 1024}",
}


def tree(pid):
    """A process and its descendants."""
    found = [pid]
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            for child in pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                found += tree(int(child))
    except OSError:
        pass
    return found


def cpu_seconds(pid):
    """User and system time of a process, its descendants, and those that it has waited for."""
    ticks = 0
    for one in tree(pid):
        try:
            stat = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(n) for n in stat[11:15])
    return ticks / TICK


def memory_bytes(pid):
    """Resident and proportional set size of a process and its descendants, shared pages once in the second."""
    rss = pss = 0
    for one in tree(pid):
        try:
            lines = pathlib.Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            if line.startswith("Rss:"):
                rss += int(line.split()[1]) * 1024
            elif line.startswith("Pss:"):
                pss += int(line.split()[1]) * 1024
    return rss, pss


def recipe(data, tokenizer, lanes=8, batch=8, pipeline="same", shuffle=1024, pack="exact_fit", code_field="text"):
    """`same`: what the peer can do too: concat, then a shuffle of sequences. `whole`: documents are
    shuffled, then packed as asked."""
    if pipeline == "same":
        stages = [PACK["concat"], "shuffle: {buffer: 1000}"]
    else:
        longest = 2048 if pack in ("first_fit", "best_fit") else 8192
        stages = [f"split: {{max_tokens: {longest}}}", f"shuffle: {{buffer: {shuffle}}}", PACK[pack]]
    datasets = "".join(f"      {name}: {{path: \"{data}/{name}\", text: {field}, weight: {weight}}}\n"
                       for name, field, weight in (("docs", "text", 5), ("man", "text", 3), ("code", code_field, 2)))
    return (f"streams:\n  bench:\n    seed: 1\n    lanes: {lanes}\n    batch: {batch}\n    sequence: 2048\n"
            f"    tokenizer: {{hf: \"{tokenizer}\", append: \"<|endoftext|>\"}}\n    datasets:\n{datasets}"
            f"    mixture: tokens\n    order: {{block_rows: 256, shuffle_rows: true}}\n    pipeline:\n"
            + "".join(f"      - {stage}\n" for stage in stages))


class Daemon:
    """One lanekeeperd on a folder of its own; the index and the snapshots outlive its processes."""

    def __init__(self, build, recipe_text, index, every=100, counts=None, arena="256MiB"):
        self.build = build
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lk-bench-"))
        self.snapshots = self.dir / "snapshots"
        self.config = self.dir / "bench.yaml"
        self.process = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.config.write_text(
            f"{recipe_text}runtime:\n  run_dir: {self.dir}/run\n"
            f"  listen: [\"ipc://{self.dir}/run/lk.sock\", \"tcp://127.0.0.1:{self.port}\"]\n"
            f"  workers: 2\n  arena: {arena}\n  prefetch_steps: 8\n  index_dir: {index}\n"
            f"  log_level: warn\n  snapshots: {{dir: {self.snapshots}, every: {every}, keep: 8}}\n"
            + (f"  counts: {counts}\n" if counts else ""))
        (self.dir / "run").mkdir()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    @property
    def tcp(self):
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def address(self):
        return f"ipc://{self.dir}/run/lk.sock"

    def start(self):
        """The moment of the start, in CLOCK_MONOTONIC nanoseconds."""
        now = time.monotonic_ns()
        with open(self.dir / "log", "ab") as log:
            self.process = subprocess.Popen([self.build / "lanekeeperd", self.config], stdout=log, stderr=log)
        return now

    def kill(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def status(self):
        out = subprocess.run([self.build / "lanekeeper", "status", "--json", "--connect", self.address],
                             check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout
        return json.loads(out)

    def log(self):
        return (self.dir / "log").read_text()


class Consumer:
    """A trainer that takes steps first … last-1 and looks at every token."""

    def __init__(self, daemon, first, last):
        self.daemon = daemon
        self.process = subprocess.Popen([daemon.build / "tests/bench/bench_consume", daemon.address,
                                         str(first), str(last)], stdout=subprocess.PIPE, text=True)

    def line(self, word):
        words = self.process.stdout.readline().split()
        if not words or words[0] != word:
            self.process.wait()
            raise RuntimeError("the consumer failed; the daemon's log:\n" + self.daemon.log()[-2000:])
        return words[1:]

    def first(self):
        return int(self.line("first")[0])

    def last(self):
        """(end in ns, steps, tokens after the first step, seconds waited, sum of all tokens)."""
        end, steps, tokens, waited, total = self.line("last")
        return int(end), int(steps), int(tokens), int(waited) / 1e9, total

    def cpu_seconds(self):
        """Of daemon, workers and trainer so far."""
        return cpu_seconds(self.daemon.process.pid) + cpu_seconds(self.process.pid)

    def running(self):
        return self.process.poll() is None

    def close(self):
        """Waits for its end; its own CPU seconds."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        before = usage.ru_utime + usage.ru_stime
        self.process.wait()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime - before
