"""What the counts cache saves and costs: seeking over known counts against measuring, bytes a row."""
import json
import os
import shutil
import statistics
import subprocess
import time

from served import Consumer, Daemon, cpu_seconds, recipe

STEP = 5000 if os.environ.get("BENCH") == "quick" else 20000


def seek(daemon):
    """Until a trainer has the first batch of a step that is far away, from a daemon that is warm: seconds, CPU-seconds
    of daemon and workers, rows whose counts were known."""
    daemon.start()
    near = Consumer(daemon, 0, 1)  # workers are there, and have loaded the tokenizer
    near.first()
    near.last()
    near.close()
    while daemon.status()["workers"]["running"] > 0:  # what it had measured ahead
        time.sleep(0.05)
    spent = cpu_seconds(daemon.process.pid)
    began = time.monotonic_ns()
    far = Consumer(daemon, STEP, STEP + 1)
    seconds = (far.first() - began) / 1e9
    spent = cpu_seconds(daemon.process.pid) - spent
    far.last()
    far.close()
    used = daemon.status()["counts"]["rows_used"]
    daemon.kill()
    return seconds, spent, used


def counts(bench, runs):
    folder = bench.dir / "counts"
    shutil.rmtree(folder, ignore_errors=True)
    text = recipe(bench.data, bench.gpt2 / "tokenizer.json")
    with Daemon(bench.build, text, bench.dir / "index", every=0, counts="{size: 0}") as without, \
         Daemon(bench.build, text, bench.dir / "index", every=0, counts=f"{{dir: {folder}}}") as known:
        said = json.loads(subprocess.run([bench.build / "lanekeeper", "measure", known.config, "--json"], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)
        rows = sum(d["rows"] for d in said["datasets"])
        size = sum(path.stat().st_size for path in folder.iterdir())
        bench.put("counts.bytes_per_row", size / rows, "bytes", 3.0, f"{rows} rows of docs, man and code; files whole")
        runs_of = {"measured": [], "counts": []}
        for _ in range(runs):
            runs_of["measured"].append(seek(without))
            runs_of["counts"].append(seek(known))
            if runs_of["counts"][-1][2] == 0:
                raise RuntimeError("no counts were used:\n" + known.log()[-2000:])
    words = f"first batch of step {STEP}, 8 lanes, batch 8, no snapshots, from a running daemon"
    middle = {way: [statistics.median(column) for column in zip(*of)] for way, of in runs_of.items()}
    bench.put("seek.counts_s", middle["counts"][0], "s", settings=words + ", counts known")
    bench.put("seek.measured_s", middle["measured"][0], "s", settings=words + ", measuring what comes before")
    bench.put("seek.counts_ratio", middle["measured"][0] / middle["counts"][0], "ratio", 20.0,
              "seek.measured_s over seek.counts_s")
    bench.put("seek.counts_cpu_ratio", middle["measured"][1] / middle["counts"][1], "ratio", 20.0,
              "the same in CPU-seconds of daemon and workers, which neighbours hardly disturb")
