"""Three ways to feed the same model. Each module has

start(leg):  on the machine, before the ranks: what closes it again, or None
open(leg, rank): this rank's loader: `next()` gives int64 ids [rows of this rank, T], the rows in the order of the
    ranks being the global batch; `save()`, which all ranks call, the loader's part of a checkpoint as bytes (rank 0's
    is kept); `close()`.

A leg has: data (folder), world, first and last step, batch (sequences in a step), sequence, seed (of the data's order),
state (bytes that `save` gave, or None at the beginning), folder (of the run), build, settings.
"""
import importlib


def of(name):
    return importlib.import_module(f"loaders.{name}")
