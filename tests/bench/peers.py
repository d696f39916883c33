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
TOKENISERS = ["gigatoken==0.10.0", "quicktok-v1==0.4.0", "tiktoken", "tokenizers", "numpy"]
PATIENCE = 600  # seconds for one run


def environment(folder, modules, packages, python=sys.executable, *options):
    """The interpreter of an environment that has @modules, made and filled if need be; or None."""
    inner = folder / "bin" / "python"
    if not inner.exists():
        subprocess.run([python, "-m", "venv", *options, folder], check=True)
    if subprocess.run([inner, "-c", "import " + modules], stderr=subprocess.DEVNULL).returncode == 0:
        return inner
    done = subprocess.run([inner, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(f"bench.py: no {packages[0]}, pip could not install it: {done.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    return inner


def installed(build):
    """The interpreter of an environment with zephon, or None."""
    return environment(build / "venv-bench", "zephon, transformers, pyarrow", PACKAGES)


def tokenisers(build):
    """The interpreter of an environment with other tokenizers, or None."""
    return environment(build / "venv-tokenisers", "gigatoken, quicktok, tiktoken, tokenizers, numpy", TOKENISERS)


def torch(bench, runs, quick):
    """What peer_torch.py gives, medians of @runs, or None. Over Debian's python3-torch: from elsewhere it is
    gigabytes."""
    python = pathlib.Path("/usr/bin/python3")
    if quick or not python.exists():
        return None
    if subprocess.run([python, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
        print("bench.py: no torch: python3-torch is not installed", file=sys.stderr)
        return None
    inner = environment(bench.build / "venv-torch", "tokenizers", ["tokenizers"], python, "--system-site-packages")
    found = [inner and run([inner, HERE / "peer_torch.py", bench.data, bench.gpt2 / "tokenizer.json"])
             for _ in range(runs)]
    found = [one for one in found if one]
    if not found:
        print("bench.py: torch: no result", file=sys.stderr)
        return None
    result = {key: statistics.median(one[key] for one in found) for key in ("tokens_per_s", "tokens_per_cpu_s", "first_s")}
    words = f"torch {found[0]['torch']}, IterableDataset, 2 workers, prefetch 32, encode_batch_fast; {len(found)} runs"
    for key, unit in (("tokens_per_s", "tokens/s"), ("tokens_per_cpu_s", "tokens/CPU-s"), ("first_s", "s")):
        bench.put(f"torch.{key}", result[key], unit, settings=words)
    return result


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


def parquet(bench, python):
    """The corpus as Parquet files, made if need be."""
    folder = bench.dir / "parquet"
    if not folder.exists():
        subprocess.run([python, HERE / "to_parquet.py", bench.data, folder], check=True)
    return folder


def zephon(bench, runs, quick):
    """A function from a number of lanes to zephon's best of its formats: the medians of `runs` runs."""
    python = None if quick else installed(bench.build)
    if python is None:
        return lambda lanes: None

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
        found = [measure(lanes, "jsonl", bench.data), measure(lanes, "parquet", parquet(bench, python))]
        found = [one for one in found if one is not None]
        if not found:
            return None
        return {"tokens_per_s": max(one["tokens_per_s"] for one in found),
                "tokens_per_cpu_s": max(one["tokens_per_cpu_s"] for one in found),
                "format": max(found, key=lambda one: one["tokens_per_cpu_s"])["format"]}
    return best
