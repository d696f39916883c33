"""Lanekeeper: one daemon on the machine, a `lanekeeper.Stream` in each rank, its `state_dict()` in the checkpoint.

The daemon is ended with the ranks and started with them, as if the whole machine had gone.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

import torch

from prepare import SOURCES

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "client" / "python"))

PATIENCE = 120    # seconds until a daemon is ready, on a machine with much else to do


def config(leg):
    """The recipe. Written for every run anew: where data and sockets lie is no part of the order."""
    folder, weights = leg["folder"], SOURCES
    stream = {
        "seed": leg["seed"], "lanes": leg["settings"]["lanes"], "batch": leg["batch"], "sequence": leg["sequence"],
        "tokenizer": {"bytes": True, "append": "eos"},
        "datasets": {name: {"path": str(leg["data"] / "train" / name), "weight": weights[name]} for name in weights},
        "order": {"block_rows": 16},
        "pipeline": [{"shuffle": {"buffer": 256}}, {"pack": {"algorithm": "concat"}}, {"shuffle": {"buffer": 64}}]}
    runtime = {"listen": address(leg), "run_dir": str(folder / "run"), "workers": 1, "arena": 67108864,
               "index_dir": str(leg["data"] / "index"), "snapshots": {"dir": str(folder / "snapshots"), "every": 10}}
    # JSON is YAML, but that sizes stand there without quotes.
    text = json.dumps({"streams": {"s": stream}, "runtime": runtime}, indent=1)
    path = folder / "lanekeeper.yaml"
    path.write_text(text.replace("67108864", "64MiB") + "\n")
    return path


def address(leg):
    return f"ipc://{leg['folder']}/s"


class Daemon:
    def __init__(self, leg):
        path = config(leg)
        subprocess.run([leg["build"] / "lanekeeper", "index", path], check=True, stdout=subprocess.DEVNULL)
        log = leg["folder"] / "lanekeeperd.log"
        with log.open("wb") as out:
            self.process = subprocess.Popen([leg["build"] / "lanekeeperd", path], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out)
        end = time.monotonic() + PATIENCE
        while " daemon: ready" not in log.read_text():
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise RuntimeError(f"lanekeeperd is not ready: {log.read_text()[-500:]}")
            time.sleep(0.005)

    def close(self):
        self.process.terminate()
        self.process.wait(60)


class Loader:
    def __init__(self, leg, rank):
        os.environ["LANEKEEPER_DIR"] = str(leg["build"])
        import lanekeeper
        state = json.loads(leg["state"]) if leg["state"] else None
        self.stream = lanekeeper.Stream(address(leg), rank=rank, world=leg["world"], state=state, timeout=600)

    def next(self):
        batch = next(self.stream)
        return torch.from_numpy(batch.tokens_as("int64"))

    def save(self):
        return json.dumps(self.stream.state_dict()).encode()

    def close(self):
        self.stream.close()


def start(leg):
    return Daemon(leg)


def open(leg, rank):
    return Loader(leg, rank)
