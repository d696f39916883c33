"""What a rank's script uses: `note` what it was given, `say` what the test is to know."""

import atexit
import json
import os

import numpy as np

_noted = {}


def note(batch, names=("input_ids", "labels", "position_ids")):
    """Keeps copies of these arrays of a step: of NumPy, torch or JAX."""
    for name in names:
        _noted.setdefault(name, []).append(np.array(batch[name]))


def say(value):
    print("say " + json.dumps(value), flush=True)


@atexit.register
def _save():
    if _noted:
        np.savez(os.environ["LK_RANK_OUT"], **{f"{name}:{i}": a for name, arrays in _noted.items() for i, a in enumerate(arrays)})
