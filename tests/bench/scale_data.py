"""The data of scale.py: very many short rows, very many shards, very many datasets.

Made of the text of one shard, whose rows each have room for a number; a shard is that text with its own number in every
row, beginning at a row of its own. So all rows of all shards differ, as they must: counts are kept by content. What a
folder holds is in its name; a folder that is there is whole, and is kept.
"""
import random
import shutil
import sys

ROOM = b"@@@@@"  # for the number of a shard
WORDS = ("the data loader keeps order when a run is started again with other ranks and no token lost in between").split()
BLOCK = 4096     # of a file system: the least that a file takes
SPARE = 2 << 30  # bytes that a disk must have free beside what is made


def template(rows, seed):
    draw = random.Random(seed)
    lines = []
    for row in range(rows):
        words = " ".join(WORDS[draw.getrandbits(10) % len(WORDS)] for _ in range(2 + draw.getrandbits(3) % 7))
        lines.append(b'{"text": "%s.%x %s"}\n' % (ROOM, row, words.encode()))
    return b"".join(lines)


def shard_text(text, number):
    """@text as the shard of this number: not in the order of its neighbours, either."""
    begin = text.find(b"\n", number * 7919 % len(text)) + 1
    return (text[begin:] + text[:begin]).replace(ROOM, b"%05d" % number)


class Data:
    """Shards of short rows under @folder: in one directory, or each in its own as a dataset."""

    def __init__(self, folder, kind, shards, rows, apart=False):
        self.path = folder / f"{kind}-{shards}x{rows}"
        self.shards, self.rows_each, self.apart = shards, rows, apart
        self.rows = shards * rows

    def disk_bytes(self):
        """About what it takes, and what its index and its counts will take while they are there."""
        made = 0 if self.path.exists() else self.shards * (self.rows_each * 48 + BLOCK)
        return made + self.shards * (self.rows_each * 12 + 2 * BLOCK)

    def names(self):
        return [f"set{i:03}" for i in range(self.shards)]

    def make(self):
        if self.path.exists():
            return
        part = self.path.with_name(self.path.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        text = template(self.rows_each, self.rows_each)
        for number in range(self.shards):
            shard = part / f"set{number:03}" / "part.jsonl" if self.apart else part / f"part-{number:05}.jsonl"
            if self.apart:
                shard.parent.mkdir()
            shard.write_bytes(shard_text(text, number))
        part.rename(self.path)

    def read(self):
        """Into the page cache, as far as memory reaches."""
        for shard in self.path.glob("**/*.jsonl"):
            with open(shard, "rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass


def check_disk(folder, needed):
    free = shutil.disk_usage(folder).free
    if free < needed + SPARE:
        sys.exit(f"scale.py: {folder} has {free / 1e9:.1f} GB free; {needed / 1e9:.1f} GB are needed for the data, its "
                 f"indexes and its counts, and {SPARE / 1e9:.1f} GB to spare. SCALE=quick needs a tenth of it")
