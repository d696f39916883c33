"""`pip install ./client/python` into an environment of its own, and five lines of Python; the same from an sdist."""

import support

import json
import os
import pathlib
import subprocess
import sys
import tarfile
import venv

import lk

FIVE = """
import lanekeeper
with lanekeeper.Stream("lanekeeper.yaml") as stream:
    for batch in stream:
        step = batch.training()
        print(batch.step, step.labels.shape, step.num_valid_tokens, stream.daemon.pid > 0)
        if batch.step == 2: break
"""


def environment(box, build=True):
    """Without anything that would find what is built elsewhere; but with its objects, if need be."""
    clean = {k: v for k, v in box.environment().items() if k not in ("PYTHONPATH", "LANEKEEPER_DIR")}
    if build:
        clean["LANEKEEPER_BUILD"] = os.environ["LANEKEEPER_DIR"]
    return clean


def pip(box, python, *arguments, build=True):
    return subprocess.run([python, "-m", "pip", "--disable-pip-version-check", *arguments], env=environment(box, build),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=500)


def installed(box):
    home = box.path / "venv"
    venv.create(home, system_site_packages=True)    # NumPy is there
    if pip(box, home / "bin" / "python", "--version").returncode != 0:    # if so is pip, that saves half of the time
        venv.create(home, with_pip=True, system_site_packages=True)
    python = home / "bin" / "python"
    done = pip(box, python, "install", support.PACKAGE)
    if done.returncode != 0 and ("No matching distribution found for setuptools" in done.stdout or "connection" in done.stdout.lower()):
        print("skipped: pip cannot fetch setuptools:", done.stdout[-300:])
        sys.exit(77)
    if not lk.check(done.returncode == 0, "pip install ./client/python", done.stdout[-2000:]):
        return
    box.dataset("docs", lk.prose(2, 200), 2)
    box.write("lanekeeper.yaml", json.dumps({"streams": {"pretrain": {
        "sequence": 64, "batch": 8, "tokenizer": {"bytes": True, "append": "eos"},
        "datasets": {"docs": {"path": "docs"}}, "pipeline": [{"pack": {"algorithm": "concat"}}]}}}))
    five = subprocess.run([python, "-c", FIVE], cwd=box.path, env=environment(box), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    lines = five.stdout.splitlines()
    lk.check(five.returncode == 0 and [line.split(" ", 1)[0] for line in lines] == ["0", "1", "2"] and all("(8, 64)" in line and line.endswith("True") for line in lines),
             "five lines of Python give training batches", five.stdout + five.stderr[-1000:])
    where = subprocess.run([python, "-c", "import lanekeeper; print(lanekeeper._native.lib._name)"], cwd=box.path, env=environment(box),
                           stdout=subprocess.PIPE, text=True).stdout.strip()
    packed = pathlib.Path(where).parent
    lk.check(str(packed).startswith(str(home)), "the library is the one that was installed", where)
    lk.check((packed.parent / "py.typed").exists(), "with its types")
    for program in ("lanekeeper", "lanekeeperd", "lanekeeper-worker"):
        said = subprocess.run([home / "bin" / program, "--help"], env=environment(box), stdout=subprocess.PIPE, text=True)
        lk.check(said.returncode == 0 and "usage" in said.stdout.lower(), f"{program} is a command", said)
        needs = subprocess.run(["ldd", packed / program], stdout=subprocess.PIPE, text=True).stdout
        foreign = [line.split()[2] for line in needs.splitlines() if "=>" in line and str(packed) not in line]
        lk.check(all(pathlib.Path(f).name.split(".")[0] in ("libc", "libm", "libpthread", "libdl", "librt", "libgcc_s") for f in foreign),
                 f"{program} needs nothing of the system but the C library", foreign)
    tags = next(packed.parent.parent.glob("lanekeeper-*.dist-info")).joinpath("WHEEL").read_text()
    lk.check("Tag: py3-none-linux_" in tags and "Root-Is-Purelib: false" in tags, "the wheel is for any Python 3 on this platform", tags)
    sdist(box, python)


def sdist(box, python):
    """The sdist carries what it takes to build. What makes one is what pyproject.toml asks for."""
    done = pip(box, python, "install", "setuptools>=64", "wheel")
    if not lk.check(done.returncode == 0, "what builds the package is installed", done.stdout[-800:]):
        return
    code = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
    made = subprocess.run([python, "-c", code, box.path], cwd=support.PACKAGE, env=environment(box), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if lk.check(made.returncode == 0, "an sdist is made", made.stdout[-800:]):
        archive = box.path / made.stdout.split()[-1]
        inside = {name.split("/", 1)[1] for name in tarfile.open(archive).getnames() if "/" in name}
        wanted = {"_source/Makefile", "_source/server/main.c", "_source/client/c/lanekeeper.h", "_source/proto/lanekeeper.proto", "setup.py", "lanekeeper/py.typed"}
        lk.check(wanted <= inside, "it carries the C sources", wanted - inside)
        if lk.LONG:
            lk.check(pip(box, python, "install", "--force-reinstall", "--no-deps", archive, build=False).returncode == 0, "and installs from them")


if __name__ == "__main__":
    support.main([installed])
