"""What a rank's script uses: `rank.note` what it was given, `rank.say` what the test is to know.

Run with a statement that imports a framework, it is the process that ranks are forked of: see `ranks.Nursery`. It
reads an order a line, and answers with the ranks' statuses when all have ended.
"""

import atexit
import json
import os
import signal
import sys
import time
import traceback

import numpy as np

GRACE_S = 30    # for the others to end by themselves when one has failed

_noted = {}


def note(batch, names=("input_ids", "labels", "position_ids")):
    """Keeps copies of these arrays of a step: of NumPy, torch or JAX."""
    for name in names:
        _noted.setdefault(name, []).append(np.array(batch[name]))


def say(value):
    print("say " + json.dumps(value), flush=True)


def _be(order, r):
    """A rank's whole life."""
    os.environ.update({**order["environment"], "RANK": str(r), "LOCAL_RANK": str(r)})
    for stream, name in ((0, os.devnull), (1, order["outs"][r] + ".out"), (2, order["outs"][r] + ".err")):
        os.dup2(os.open(name, os.O_RDWR | os.O_CREAT, 0o644), stream)
    sys.argv = ["rank", *order["arguments"]]
    status = 1
    try:
        exec(compile(order["code"], "<rank>", "exec"), {"__name__": "__main__", "rank": sys.modules["rank"]})
        if _noted:
            np.savez(order["outs"][r] + ".npz", **{f"{name}:{i}": a for name, arrays in _noted.items() for i, a in enumerate(arrays)})
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(children, seconds):
    """Statuses of all; those that are late, or outlive another's failure for long, are killed."""
    statuses, end = {}, time.monotonic() + seconds
    while len(statuses) < len(children):
        for pid in children:
            if pid not in statuses:
                ended, status = os.waitpid(pid, os.WNOHANG)
                if ended:
                    statuses[pid] = os.waitstatus_to_exitcode(status)
                    if statuses[pid] != 0:
                        end = min(end, time.monotonic() + GRACE_S)
                elif time.monotonic() > end:
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    return [statuses[pid] for pid in children]


def _serve(imports):
    exec(imports, {})
    for line in sys.stdin:
        order = json.loads(line)
        children = []
        for r in range(len(order["outs"])):
            pid = os.fork()
            if pid == 0:
                _be(order, r)
            children.append(pid)
        print(json.dumps(_wait(children, order["seconds"])), flush=True)


if __name__ == "__main__":
    sys.modules["rank"] = sys.modules["__main__"]
    _serve(sys.argv[1])
