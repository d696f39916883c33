"""What a PyTorch training script has that streams text: files are dealt to ranks and workers, each worker shuffles
and packs what it reads, and a run that goes on leaves out as many batches as it has had.

That is how Hugging Face's Trainer and many scripts resume: the state is a count of batches, for the sharding as it is
now. On as many ranks as before it gives exactly the batches that were to come. There is no rule for another number of
ranks in an ordinary loader; some load the states of the ranks that there were, which leaves the same files unread.
"""
import json
import random

import numpy
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from model import END
from prepare import SOURCES

WORKERS, SHUFFLE = 2, 256


class Packed(IterableDataset):
    """Sequences of one worker of one rank."""

    def __init__(self, leg, rank):
        self.leg, self.rank = leg, rank

    def documents(self, name, part, parts, draw):
        """Of this worker's files without end, through a shuffle buffer."""
        files = sorted((self.leg["data"] / "train" / name).glob("*.jsonl"))[part::parts]
        held = []
        while True:
            draw.shuffle(files)
            for file in files:
                with file.open(encoding="utf-8") as lines:
                    for line in lines:
                        held.append(json.loads(line)["text"])
                        if len(held) > SHUFFLE:
                            at = draw.randrange(len(held))
                            held[at], held[-1] = held[-1], held[at]
                            yield held.pop()

    def __iter__(self):
        worker = get_worker_info()
        part, parts = self.rank * WORKERS + worker.id, self.leg["world"] * WORKERS
        draw = random.Random(self.leg["seed"] * 1000 + part)
        sources = {name: self.documents(name, part, parts, draw) for name in SOURCES}
        given, left, length = dict.fromkeys(SOURCES, 0), [], self.leg["sequence"]
        while True:
            name = min(SOURCES, key=lambda one: given[one] / SOURCES[one])
            ids = [*next(sources[name]).encode(), END]
            given[name] += len(ids)
            left += ids
            while len(left) >= length:
                yield numpy.array(left[:length], dtype=numpy.int64)
                left = left[length:]


class Loader:
    def __init__(self, leg, rank):
        if leg["batch"] % leg["world"]:
            raise ValueError(f"{leg['batch']} sequences are not dealt evenly to {leg['world']} ranks")
        loader = DataLoader(Packed(leg, rank), batch_size=leg["batch"] // leg["world"], num_workers=WORKERS)
        self.batches = iter(loader)
        self.used = json.loads(leg["state"])["batches"] if leg["state"] else 0
        for _ in range(self.used):
            next(self.batches)

    def next(self):
        self.used += 1
        return next(self.batches)

    def save(self):
        return json.dumps({"batches": self.used}).encode()

    def close(self):
        self.batches = None


def start(leg):
    return None


def open(leg, rank):
    return Loader(leg, rank)
