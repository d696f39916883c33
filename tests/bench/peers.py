"""Peers on the same machine in the same run. Where they cannot be installed they are left out, with a word."""
import json
import os
import signal
import statistics
import subprocess
import sys

import pathlib

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = ["zephon", "tokenizers", "transformers", "numpy", "pyarrow"]
PATIENCE = 600  # seconds for one run


def installed(build):
    """The interpreter of an environment with the peers, or None."""
    python = build / "venv-bench" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", build / "venv-bench"], check=True)
    if subprocess.run([python, "-c", "import zephon, transformers, pyarrow"], stderr=subprocess.DEVNULL).returncode == 0:
        return python
    done = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"bench.py: no peers, pip could not install them: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return python


def run(command):
    """What a peer says, as JSON, or None; nothing of it is left behind."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               start_new_session=True)
    try:
        out, _ = process.communicate(timeout=PATIENCE)
        return json.loads(out) if process.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError):
        return None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def zephon(bench, runs, quick):
    """A function from a number of lanes to zephon's best of its formats: the medians of `runs` runs."""
    python = None if quick else installed(bench.build)
    if python is None:
        return lambda lanes: None
    parquet = bench.dir / "parquet"
    if not parquet.exists():
        subprocess.run([python, HERE / "to_parquet.py", bench.data, parquet], check=True)

    def measure(lanes, name, data):
        found = [run([python, HERE / "peer_zephon.py", data, bench.gpt2, "--lanes", str(lanes), "--steps", "400"])
                 for _ in range(runs)]
        found = [one for one in found if one is not None]
        if not found:
            print(f"bench.py: zephon, {lanes} lanes, {name}: no result", file=sys.stderr)
            return None
        result = {key: statistics.median(one[key] for one in found) for key in found[0]}
        for key, unit in (("tokens_per_s", "tokens/s"), ("tokens_per_cpu_s", "tokens/CPU-s"), ("first_s", "s"),
                          ("rss_bytes", "bytes"), ("pss_bytes", "bytes")):
            bench.put(f"zephon.{key}.{name}_lanes_{lanes}", result[key], unit, settings=f"{len(found)} runs of 400 steps")
        return {**result, "format": name}

    def best(lanes):
        found = [measure(lanes, "jsonl", bench.data), measure(lanes, "parquet", parquet)]
        found = [one for one in found if one is not None]
        if not found:
            return None
        return {"tokens_per_s": max(one["tokens_per_s"] for one in found),
                "tokens_per_cpu_s": max(one["tokens_per_cpu_s"] for one in found),
                "format": max(found, key=lambda one: one["tokens_per_cpu_s"])["format"]}
    return best
