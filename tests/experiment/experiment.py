#!/usr/bin/env python3
"""experiment.py BUILD [--setting quick|default|long] [--steps N] [--seeds N] [--minutes M]: what becomes of a model
when its training is stopped and goes on with another number of processes, by what feeds it.

Every run is a model trained for so many steps in legs, each on a number of processes of its own, all of which end
after it. What was run is kept in BUILD/experiment/SETTING/results, one file a run, and not run again; --minutes ends
between two runs when so much time has passed, and the next call goes on. BUILD/experiment/SETTING/report.md and the
plots beside it are made of what there is. See README.md beside this file.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import platform
import shutil
import signal
import sys
import time
import traceback

os.environ["OPENBLAS_NUM_THREADS"] = "1"    # before what loads it; processes are what there are many of

import numpy
import torch

import loaders
import prepare
import report
import train

#: How many processes, leg by leg; a run's steps are divided among its legs evenly.
CONFIGURATIONS = {"one": [1], "legs": [1, 2, 4, 8, 3], "back": [8, 3, 1, 4, 2], "odd": [5, 7, 9, 2, 6]}
COMMON = {"batch": 24, "sequence": 64, "width": 64, "layers": 2, "heads": 2, "lanes": 8, "rate": 3e-3,
          "exam_rows": 256, "questions": 256, "data_seed": 1}
SETTINGS = {
    "quick": {**COMMON, "steps": 40, "seeds": 2, "configurations": ["one", "legs"],
              "exam_rows": 256, "questions": 96},
    "default": {**COMMON, "steps": 150, "seeds": 3, "configurations": ["one", "legs", "back"]},
    "long": {**COMMON, "steps": 2000, "seeds": 5, "configurations": ["one", "legs", "back"], "sequence": 256,
             "width": 256, "layers": 4, "heads": 4, "exam_rows": 1024, "questions": 1024},
}
PATIENCE = 1800    # seconds of one leg


def plan(settings, with_zephon):
    """[(loader, configuration, init seed, reduction)]: what is compared first comes first."""
    names = ("ordinary", *(["zephon"] if with_zephon else []), "lanekeeper")
    found = []
    for seed in range(1, settings["seeds"] + 1):
        for configuration in settings["configurations"]:
            found += [(loader, configuration, seed, "plain") for loader in names]
        found += [(loader, "odd", seed, "plain") for loader in names if loader != "ordinary"]
        if seed == 1:
            found += [("lanekeeper", name, seed, "fixed") for name in (*settings["configurations"], "odd")]
    return found


def child(leg, rank):
    """The life of a rank: its end takes all threads with it, whatever a loader left behind."""
    status = 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        train.rank_main(leg, rank)
        status = 0
    except BaseException:    # noqa: BLE001 - said, and the leg fails
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(status)


def run_leg(leg):
    """Ranks as processes of their own, forked of this one, which has imported PyTorch; [what each saw]."""
    for left in [leg["folder"] / "gloo", *leg["folder"].glob("rank-*.json")]:
        left.unlink(missing_ok=True)
    shutil.rmtree(leg["folder"] / "aggregate", ignore_errors=True)
    begun = time.monotonic()
    machine = loaders.of(leg["loader"]).start(leg)
    started = time.monotonic() - begun
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=child, args=(leg, r)) for r in range(leg["world"])]
    try:
        for rank in ranks:
            rank.start()
        end = time.monotonic() + PATIENCE
        while any(rank.exitcode is None for rank in ranks):
            if time.monotonic() > end or any(rank.exitcode for rank in ranks):
                for rank in ranks:
                    rank.kill()
                    rank.join()
            time.sleep(0.02)
        if any(rank.exitcode for rank in ranks):
            raise RuntimeError(f"a rank of {leg['world']} failed, steps {leg['first']} to {leg['last']}")
    finally:
        for rank in ranks:
            if rank.pid is not None and rank.exitcode is None:
                rank.kill()
        if machine is not None:
            machine.close()
    seen = [json.loads((leg["folder"] / f"rank-{r}.json").read_text()) for r in range(leg["world"])]
    for one in seen:
        one["first_batch_s"] += started
    return seen


def run(place, settings, loader, name, seed, reduction):
    """One model, from its first step to its last, as a result that is kept."""
    worlds = CONFIGURATIONS[name]
    folder = place["work"] / f"run-{os.getpid()}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    result = {"loader": loader, "configuration": name, "worlds": worlds, "seed": seed, "reduction": reduction,
              "settings": settings, "losses": [], "rows": [], "resume_s": [], "checkpoint_bytes": [], "snapshot_bytes": 0}
    begun, state = time.monotonic(), None
    for i, world in enumerate(worlds):
        leg = {"loader": loader, "world": world, "first": settings["steps"] * i // len(worlds),
               "last": settings["steps"] * (i + 1) // len(worlds), "batch": settings["batch"],
               "sequence": settings["sequence"], "seed": settings["data_seed"], "init_seed": seed, "state": state,
               "checkpoint": folder / "model" if i else None, "reduction": reduction, "folder": folder,
               "data": place["data"], "build": place["build"], "settings": settings}
        seen = run_leg(leg)
        result["losses"] += seen[0]["losses"]
        result["rows"] += [[row for one in step for row in one] for step in zip(*(one["rows"] for one in seen))]
        result["resume_s"].append(max(one["first_batch_s"] for one in seen))
        if i + 1 < len(worlds):
            result["checkpoint_bytes"].append(seen[0]["checkpoint_bytes"])
            (folder / "model.new").rename(folder / "model")
            state = (folder / "state").read_bytes()
    result.update({"marks": seen[0]["marks"], "weights": seen[0]["weights"], "seconds": time.monotonic() - begun})
    result["snapshot_bytes"] = sum(f.stat().st_size for f in (folder / "snapshots").rglob("*") if f.is_file())
    return result


def zephon_version():
    try:
        import zephon
        return zephon.__version__
    except Exception as e:    # noqa: BLE001 - it is left out, and said
        print(f"experiment: no Zephon, which is left out: {e}", flush=True)
        return None


def versions(with_zephon):
    return {"python": platform.python_version(), "torch": torch.__version__, "numpy": numpy.__version__,
            "zephon": with_zephon, "cores": os.cpu_count()}


def wanted():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--setting", choices=SETTINGS, default=os.environ.get("EXPERIMENT") or "default")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--minutes", type=float)
    arguments = parser.parse_args()
    settings = dict(SETTINGS[arguments.setting])
    settings.update({key: value for key in ("steps", "seeds") if (value := getattr(arguments, key)) is not None})
    return arguments, settings


def main():
    arguments, settings = wanted()
    build = arguments.build.resolve()
    work = build / "experiment" / arguments.setting
    results = work / "results"
    results.mkdir(parents=True, exist_ok=True)
    place = {"work": work, "build": build, "data": prepare.prepare(build / "demo" / "data", work.parent / "data")}
    found_versions = versions(zephon_version())
    torch.set_num_threads(1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))    # so that what was started is ended
    jobs = plan(settings, found_versions["zephon"])
    one_run = {key: value for key, value in settings.items() if key not in ("seeds", "configurations")}
    begun, failures = time.monotonic(), 0
    for i, job in enumerate(jobs):
        path = results / ("-".join(map(str, job)) + ".json")
        if path.exists() and json.loads(path.read_text())["settings"] == one_run:
            continue
        if arguments.minutes and time.monotonic() - begun > 60 * arguments.minutes:
            print(f"experiment: {arguments.minutes} minutes have passed; the next call goes on", flush=True)
            break
        try:
            result = run(place, one_run, *job)
        except RuntimeError as e:
            failures += 1
            print(f"experiment: {' '.join(map(str, job))}: {e}", flush=True)
            continue
        finally:
            shutil.rmtree(work / f"run-{os.getpid()}", ignore_errors=True)
        result["versions"] = found_versions
        path.write_text(json.dumps(result))
        print(f"[{i + 1}/{len(jobs)}] {job[0]:10} {job[1]:5} seed {job[2]} {job[3]}: loss {result['marks']['loss']:.5f}, "
              f"choice {result['marks']['choice']:.1f} %, {result['seconds']:.0f} s", flush=True)
    print(f"experiment: {(time.monotonic() - begun) / 60:.1f} minutes", flush=True)
    good = report.report(work, one_run, settings)
    sys.exit(0 if good and not failures else 1)


if __name__ == "__main__":
    main()
