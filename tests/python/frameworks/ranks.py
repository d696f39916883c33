"""What the tests of the adapters share: ranks that are processes of their own, over the real frameworks.

Import it first: `import ranks`. `leg` runs a script as so many ranks and gives what they noted; `expected` is the
same by Stream and NumPy alone, in one process. A rank's script finds `rank.py` beside this file.
"""

import importlib.metadata
import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

import support    # noqa: E402

support.os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(pathlib.Path(sys.prefix) / "torchinductor"))    # not in a box

import numpy as np    # noqa: E402

import lanekeeper    # noqa: E402
import lk    # noqa: E402


def needs(*distributions):
    """Ends the test with a word unless all of these are installed; says which versions it is run with."""
    found = []
    for name in distributions:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            print(f"skipped: {name} is not installed here (`make check-python` tries to)")
            sys.exit(77)
    print(f"# with {', '.join(found)}, Python {sys.version.split()[0]}", flush=True)


class Nursery:
    """A process that has imported the framework, of which ranks are forked: importing costs more than all the rest.
    `imports` must start no threads and open no devices."""

    def __init__(self, imports):
        self.folder = tempfile.TemporaryDirectory(prefix="lk-nursery-")    # what is imported may make some of its own
        environment = {k: v for k, v in support.os.environ.items() if k != lk.MARK}
        environment.update({"TMPDIR": self.folder.name, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "",
                            "HF_HUB_OFFLINE": "1", "ACCELERATE_USE_CPU": "true", "JAX_PLATFORMS": "cpu",
                            "PYTHONPATH": support.os.pathsep.join([str(HERE), str(support.PACKAGE)])})
        environment.pop("PYTHONDONTWRITEBYTECODE", None)    # what is not compiled yet is so once
        self.process = subprocess.Popen([sys.executable, str(HERE / "rank.py"), imports], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, order):
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise lk.Failure("the process that ranks are forked of has ended")
        return json.loads(answer)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()


_nursery = []


def leg(box, code, world, *arguments, fails=False, seconds=600, environment=None):
    """Runs @code as @world ranks; [(what `say` said, {name: [array of a step, …]})] by rank. A rank that ends with
    an error, or not in time, is a Failure; with @fails, the ranks' standard errors are given instead."""
    leg.count = getattr(leg, "count", 0) + 1
    outs = [str(box.path / f"leg-{leg.count}-{r}") for r in range(world)]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(lk.free_port()), "WORLD_SIZE": str(world),
                 "LOCAL_WORLD_SIZE": str(world), "TMPDIR": str(box.path / "tmp"),
                 "LANEKEEPER_DIR": support.os.environ["LANEKEEPER_DIR"], **(environment or {})}
    statuses = _nursery[0].ask({"code": support.textwrap.dedent(code), "arguments": list(map(str, arguments)),
                                "outs": outs, "environment": variables, "seconds": seconds})
    results = []
    for r, status in enumerate(statuses):
        said, error = pathlib.Path(outs[r] + ".out").read_text(), pathlib.Path(outs[r] + ".err").read_text()
        if fails:
            results.append(error if status != 0 else "")
            continue
        if status != 0:
            raise lk.Failure(f"rank {r} of {world} ended with {status}: {error[-1500:]}")
        words = [json.loads(line[4:]) for line in said.splitlines() if line.startswith("say ")]
        results.append((words, _noted(pathlib.Path(outs[r] + ".npz"))))
    return results


def _noted(path):
    noted = {}
    if path.exists():
        with np.load(path) as arrays:
            for key in sorted(arrays.files, key=lambda k: int(k.split(":")[1])):
                noted.setdefault(key.split(":")[0], []).append(arrays[key])
    return noted


def gathered(results, name, rows=True):
    """The array @name of each step over all ranks, in their order; along the rows."""
    ranks = [noted.get(name, []) for _, noted in results]
    if len({len(r) for r in ranks}) != 1:
        raise lk.Failure(f"ranks noted {[len(r) for r in ranks]} steps of {name}")
    return [np.concatenate(parts) for parts in zip(*ranks)]


def expected(address, begin, end, **training):
    """{name: [array of each step]}, whole global batches."""
    with lanekeeper.Stream(address, rank=0, world=1) as stream:
        steps = [dict(stream[s].copy().training(**training)) for s in range(begin, end)]
    return {name: [np.array(step[name]) for step in steps] for name in steps[0]}


def equal(results, wanted, names, fact):
    """A fact that what the ranks noted is, concatenated, what Stream gives."""
    wrong = []
    for name in names:
        got = gathered(results, name)
        if len(got) != len(wanted[name]):
            wrong.append(f"{name}: {len(got)} steps, not {len(wanted[name])}")
        wrong += [f"{name} of step {i} of the leg" for i, (g, w) in enumerate(zip(got, wanted[name])) if not np.array_equal(g, w)]
    return lk.check(not wrong and wanted[names[0]], fact, wrong[:6])


def states(results):
    """What the ranks said last, which is to be the same of all of them."""
    last = [words[-1] for words, _ in results]
    lk.check(all(state == last[0] for state in last), f"all {len(last)} ranks have the same state", lk.short(last))
    return last[0]


def have(module):
    return importlib.util.find_spec(module) is not None


def main(tests, imports):
    """Runs the tests; @imports is what ranks have imported when they begin."""
    _nursery.append(Nursery(imports))
    try:
        support.main(tests)
    finally:
        _nursery[0].end()
