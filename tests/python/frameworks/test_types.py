"""mypy --strict over the package and its adapters, with the types that the real frameworks have. The first run takes a
minute or two; what it found out stays in the build folder."""

import ranks

ranks.needs("mypy", "torch", "torchdata", "accelerate", "transformers", "lightning", "megatron-core", "torchtitan", "jax")

import subprocess
import sys

import lk
import support


def strict(box):
    """The settings are pyproject.toml's."""
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", "--cache-dir",
                           support.os.environ["LANEKEEPER_DIR"] + "/mypy-cache"], cwd=support.PACKAGE, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lk.check(done.returncode == 0 and "no issues found" in done.stdout, "mypy --strict finds nothing", done.stdout[-3000:])
    files = len(list((support.PACKAGE / "lanekeeper").rglob("*.py")))
    lk.check(f"in {files} source files" in done.stdout, f"in all {files} files", done.stdout[-200:])


if __name__ == "__main__":
    support.main([strict])
