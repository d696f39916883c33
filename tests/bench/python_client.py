"""What Python adds to the C client, both measured in turn against one daemon: bench_python.py and bench_get.c."""
import os
import pathlib
import re
import statistics
import subprocess
import sys

import peers

HERE = pathlib.Path(__file__).resolve().parent


def interpreter():
    """One that has NumPy; None: there is none."""
    for python in (sys.executable, "/usr/bin/python3"):
        if os.path.exists(python) and subprocess.run([python, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def python_client(bench, runs, quick):
    python = interpreter()
    if python is None:
        print("bench.py: python: no NumPy (Debian: python3-numpy)", file=sys.stderr)
        return
    environment = {**os.environ, "LANEKEEPER_DIR": str(bench.build), "PYTHONPATH": str(HERE.parents[1] / "client" / "python")}
    zephons = None if quick else peers.installed(bench.build)
    said, theirs = {"c": [], "python": []}, []
    with bench.daemon(every=0) as daemon:
        daemon.start()
        for _ in range(runs):
            said["c"].append(bench.tool("bench_get", daemon.address, daemon.tcp))
            said["python"].append(subprocess.run([python, HERE / "bench_python.py", daemon.address], env=environment,
                                                 stdout=subprocess.PIPE, text=True, check=True).stdout)
            found = zephons and peers.run([zephons, HERE / "peer_training.py"])
            theirs += [found] if found else []

    def median(who, way, what="p50"):
        found = [float(v) for run in said[who] for v in re.findall(rf"(?m)^{way} .*{what} ([\d.]+)", run)]
        return statistics.median(found) if found else None
    for way, c in (("get", "shm"), ("ahead", "shm_ahead")):
        bench.put(f"python.{way}_p50_us", median("python", way), "us", median("c", c),
                  "ready batch of 8 x 2048 tokens with its NumPy array; against the C client in turn with it")
        bench.put(f"python.{way}_overhead_us", median("python", way) - median("c", c), "us", 30, "of that, Python's own")
    zephon = statistics.median(one["p50_us"] for one in theirs) if theirs else None
    for way, words in (("training", "arrays that the daemon made"), ("training_here", "arrays made in this process"),
                       ("training_torch", "arrays that the daemon made, and torch tensors over them")):
        value = median("python", way)
        if value is not None:
            bench.put(f"python.{way}_us", value, "us", zephon, "8 x 2048 tokens, int64, everything; " + words +
                      (f"; against zephon {theirs[0]['version']}'s to_training" if zephon else ""))
