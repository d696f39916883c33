"""Zephon 0.2.0 as its guide has it: a Pipeline in each rank, lanes of which every rank owns an equal share, one
checkpoint that the ranks make together (`aggregate_dir`) and each of them restores.

As many lanes as sequences in a step, one sequence a microbatch: then every number of ranks that divides the step is
one that Zephon promises the same global batches for. Bytes are tokens, by `map_transform`: what its `tokenize` needs
(transformers) takes longer to import than a leg has time.
"""
import os
import pickle

import numpy
import torch

from model import END
from prepare import SOURCES


def encode(payload):
    return {"input_ids": numpy.array([*payload["text"].encode(), END], dtype=numpy.int64)}


def pipeline(leg, rank):
    from zephon.io.dataset import Dataset
    from zephon.pipeline import Pipeline
    from zephon.work.static_mixture import StaticMixtureWorkSource
    total = sum(SOURCES.values())
    shares = {name: weight / total for name, weight in SOURCES.items()}
    source = StaticMixtureWorkSource([Dataset.from_path(name, str(leg["data"] / "train" / name)) for name in SOURCES],
                                     mixture=shares, chunk_size=64, seed=leg["seed"], exhausted_policy="repeat")
    made = Pipeline(source).map_transform(encode)
    made = made.ensure_mixture(max_buffer_size=256, weight_by="input_ids")
    made = made.pack_flat(leg["sequence"], algorithm="wrap", tokens_field="input_ids")
    made = made.shuffle(buffer_size=64, seed=leg["seed"]).batch(microbatch_size=1)
    return made.options(runner="threads", max_workers=1, canonical_replicas=leg["batch"], world_size=leg["world"],
                        global_rank=rank, mapping_strategy="contiguous", flush_every_k_chunks=8,
                        shutdown_mode="hard", auto_validation="off",
                        aggregate_dir=str(leg["folder"] / "aggregate"), aggregate_timeout_s=600.0)


class Loader:
    def __init__(self, leg, rank):
        os.environ["HF_HUB_OFFLINE"] = "1"
        self.pipeline = pipeline(leg, rank)
        if leg["state"]:
            self.pipeline.restore(pickle.loads(leg["state"]))
        self.batches = iter(self.pipeline)
        # As many as it owns lanes: where they are not dealt evenly, the first ranks have one more.
        self.rows = leg["batch"] // leg["world"] + (rank < leg["batch"] % leg["world"])

    def next(self):
        rows = [next(self.batches).to_training(tokens_field="input_ids") for _ in range(self.rows)]
        return torch.cat([torch.as_tensor(row["input_ids"]).reshape(1, -1) for row in rows])

    def save(self):
        return pickle.dumps(self.pipeline.checkpoint())

    def close(self):
        pass    # the rank's process ends: threads of a pipeline do not


def start(leg):
    return None


def open(leg, rank):
    return Loader(leg, rank)
