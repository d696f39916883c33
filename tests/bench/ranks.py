"""Eight ranks on one machine: processor time of loading data, with one daemon and with a pipeline in every rank.

A rank is a process that prints "first" when it has a batch, and goes on when it reads a line; it prints "last TOKENS"
when it has taken its steps, and ends with the next line: `bench_ranks.py` over a daemon, `peer_zephon.py --rank`.
Processor time is counted from the moment that all have their first batch until all have their last.
"""
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

import peers
from python_client import interpreter
from served import cpu_seconds

HERE = pathlib.Path(__file__).resolve().parent
WORLD, ROWS, SEQUENCE = 8, 8, 2048
STEPS, PEER_STEPS = 400, 24


class Ranks:
    """The processes of all ranks; they, and what they started, end with the block."""

    def __init__(self, command, **options):
        self.processes = [subprocess.Popen([*map(str, command), str(rank), str(WORLD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                           text=True, start_new_session=True, **options) for rank in range(WORLD)]
        self.patience = threading.Timer(peers.PATIENCE, self.kill)

    def __enter__(self):
        self.patience.start()
        return self

    def __exit__(self, *_):
        self.patience.cancel()
        self.kill()
        for process in self.processes:
            process.wait()

    def kill(self):
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def wait(self, word):
        """What each says after it. RuntimeError: one has ended, or was late."""
        said = [process.stdout.readline().split() for process in self.processes]
        if any(words[:1] != [word] for words in said):
            raise RuntimeError(f"ranks said {said} instead of {word}")
        return [words[1:] for words in said]

    def go(self):
        for process in self.processes:
            process.stdin.write("\n")
            process.stdin.flush()


def per_token(ranks, others=()):
    """(CPU-seconds a token, tokens, CPU-seconds) of all ranks and the processes @others."""
    def spent():
        return sum(cpu_seconds(pid) for pid in (*others, *(process.pid for process in ranks.processes)))
    ranks.wait("first")
    before = spent()
    ranks.go()
    tokens = sum(int(words[0]) for words in ranks.wait("last"))
    seconds = spent() - before
    return seconds / tokens, tokens, seconds


def ours(bench, steps):
    python = interpreter()
    if python is None:
        print("bench.py: ranks: no NumPy (Debian: python3-numpy)", file=sys.stderr)
        return None
    environment = {**os.environ, "LANEKEEPER_DIR": str(bench.build), "PYTHONPATH": str(HERE.parents[1] / "client" / "python")}
    with bench.daemon(every=0, batch=WORLD * ROWS) as daemon:
        daemon.start()
        with Ranks([python, HERE / "bench_ranks.py", daemon.address, steps], env=environment) as ranks:
            return per_token(ranks, [daemon.process.pid])


def theirs(bench, quick):
    """Of zephon, from Parquet files, which take it less than JSONL; or None."""
    python = None if quick else peers.installed(bench.build)
    if python is None:
        return None
    data = peers.parquet(bench, python)
    try:
        with tempfile.TemporaryDirectory(prefix="lk-bench-") as folder, Ranks(
                [python, HERE / "peer_zephon.py", data, bench.gpt2, "--lanes", WORLD, "--steps", PEER_STEPS, "--aggregate", folder, "--rank"],
                stderr=subprocess.DEVNULL) as ranks:
            return per_token(ranks)
    except RuntimeError as error:
        print(f"bench.py: ranks: zephon: {error}", file=sys.stderr)
        return None


def ranks(bench, runs, quick):
    """The peer once, between two runs of ours: it takes minutes, and some hundred times as long."""
    own, peer = [], []
    for turn in range(runs):
        own.append(ours(bench, STEPS // 4 if quick else STEPS))
        if turn == 0:
            peer.append(theirs(bench, quick))
    own, peer = ([one for one in found if one] for found in (own, peer))
    for name, found in (("ranks8", own), ("ranks8.zephon", peer)):
        if found:
            value = statistics.median(one[0] for one in found)
            bench.put(f"{name}.cpu_ns_per_token", value * 1e9, "ns", settings=(
                f"{WORLD} ranks of {ROWS} x {SEQUENCE} tokens a step, all processes, user and system; {len(found)} runs of "
                f"{found[0][1] / 1e6:.1f} M tokens, {found[0][2]:.1f} CPU-s"))
    if own and peer:
        ratio = statistics.median(one[0] for one in peer) / statistics.median(one[0] for one in own)
        bench.put("ranks8.cpu_ratio", ratio, "ratio", 20, "CPU time a token of 8 zephon pipelines over that of one daemon and 8 ranks")
