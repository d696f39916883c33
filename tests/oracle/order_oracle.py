"""The order of data, once more: slow, naive, and written from server/core/ORDER.md alone.

It shares no code and no data structure with the C implementation: lists are searched from end to end,
stages are generators, numbers are Python's. What it computes is compared with what lanes do by
compare_order.py. XXH3 comes from the xxhash package or, without it, from the system's libxxhash.
"""

import ctypes
import ctypes.util
import struct
from fractions import Fraction

M64 = (1 << 64) - 1
M128 = (1 << 128) - 1


# XXH3

def _load_xxh3():
    try:
        import xxhash
        return (lambda data, seed: xxhash.xxh3_64_intdigest(data, seed=seed),
                lambda data: xxhash.xxh3_128_intdigest(data))
    except ImportError:
        pass

    class Hash128(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

    lib = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
    lib.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    lib.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    lib.XXH3_128bits.restype = Hash128
    lib.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]

    def hash128(data):
        h = lib.XXH3_128bits(data, len(data))
        return h.high << 64 | h.low

    return lambda data, seed: lib.XXH3_64bits_withSeed(data, len(data), seed), hash128


xxh3_64, xxh3_128 = _load_xxh3()


# Keys

def mix64(x):
    x = ((x ^ (x >> 30)) * 0xbf58476d1ce4e5b9) & M64
    x = ((x ^ (x >> 27)) * 0x94d049bb133111eb) & M64
    return x ^ (x >> 31)


def key(p, i):
    return mix64((p + 0x9e3779b97f4a7c15 * (i + 1)) & M64)


def below(x, n):
    return (x * n) >> 64


class Keys:
    def __init__(self, seed):
        self.stream = key(seed, 0)

    def dataset(self, name):
        return xxh3_64(name.encode(), key(self.stream, 0))

    def epoch(self, name, epoch):
        return key(self.dataset(name), epoch)

    def stage(self, index, lane):
        return key(key(key(self.stream, 1), index), lane)


# Permutation

def permutation(n, k):
    """The list of the images of 0…n-1."""
    h = 1
    while 4 ** h < n:
        h += 1
    m = 2 ** h - 1
    rounds = [key(k, r) for r in range(6)]
    images = []
    for x in range(n):
        while True:
            left, right = x >> h, x & m
            for r in rounds:
                left, right = right, left ^ (mix64((r + right) & M64) & m)
            x = left << h | right
            if x < n:
                break
        images.append(x)
    return images


# Blocks and lanes

class Refused(Exception):
    pass


class Failed(Exception):
    """The lane cannot go on."""


class Dataset:
    """recipe: name, weight, epochs, then, group; shards: list of lists of (tokens, bytes, drop)."""

    def __init__(self, case, index):
        d = case["datasets"][index]
        self.index, self.name, self.weight = index, d["name"], d["weight"]
        self.epochs, self.then, self.group = d["epochs"], d["then"], d["group"]
        self.rows = [row for shard in d["shards"] for row in shard]
        self.keys = Keys(case["seed"])
        self.lanes = case["lanes"]
        self.permute_blocks, self.permute_rows = case["permute_blocks"], case["permute_rows"]
        if len(self.rows) < self.lanes:
            raise Refused(d["name"])
        largest = max(len(shard) for shard in d["shards"])
        size = case["block_rows"] or largest
        size = max(1, min(size, largest))
        blocks = self.cut(d["shards"], size)
        while size > 1 and len(blocks) < 32 * self.lanes:
            size //= 2
            blocks = self.cut(d["shards"], size)
        self.blocks = blocks

    @staticmethod
    def cut(shards, size):
        blocks, first = [], 0
        for shard in shards:
            for at in range(0, len(shard), size):
                blocks.append((first + at, min(size, len(shard) - at)))
            first += len(shard)
        return blocks

    def lane_rows(self, lane):
        """(row, epoch) in the order the lane draws them; for ever, or for all passes."""
        epoch = 0
        while self.then == "repeat" or epoch < self.epochs:
            k = self.keys.epoch(self.name, epoch)
            count = len(self.blocks)
            order = permutation(count, key(k, 0)) if self.permute_blocks else list(range(count))
            for place in range(lane, count, self.lanes):
                b = order[place]
                first, n = self.blocks[b]
                inside = list(range(n))
                if self.permute_rows and n > 1:
                    inside = permutation(n, key(k, 1 + b))
                for r in range(n):
                    yield first + inside[r], epoch
            epoch += 1


# Mixing. A span is the tuple (dataset, row, epoch, first token, tokens); an item a list of spans.

class Source:
    def __init__(self, case, lane):
        self.mixture = case["mixture"]
        self.datasets = [Dataset(case, i) for i in range(len(case["datasets"]))]
        self.rows = [d.lane_rows(lane) for d in self.datasets]
        self.part = list(range(len(self.datasets)))
        self.charge = [0] * len(self.datasets)
        self.next = {}  # dataset: what draw gave, not yet used
        self.tokens_in = 0
        self.drawn = 0
        self.dropped = 0

    def draw(self, i):
        """The next row of dataset i that has a record: (span, cost), or None at its end."""
        dataset, barren = self.datasets[i], 0
        for row, epoch in self.rows[i]:
            tokens, text_bytes, drop = dataset.rows[row]
            if not drop:
                cost = {"tokens": tokens, "bytes": max(text_bytes, 1), "samples": 1}[self.mixture]
                return (i, row, epoch, 0, tokens), cost
            self.drawn += 1
            self.dropped += 1
            barren += 1
            if dataset.then == "repeat" and barren >= len(dataset.rows):
                raise Failed(dataset.name)
        return None

    def pick(self):
        weight = [d.weight for d in self.datasets]
        weights, charges = sum(weight[i] for i in self.part), sum(self.charge[i] for i in self.part)
        may = [i for i in self.part if self.charge[i] * weights <= weight[i] * charges]
        cost = {i: self.next[i][1] if self.next[i] is not None else 0 for i in may}
        return min(may, key=lambda i: (Fraction(self.charge[i] + cost[i], weight[i]), i))

    def items(self):
        while self.part:
            for i in self.part:
                if i not in self.next:
                    self.next[i] = self.draw(i)
            i = self.pick()
            got = self.next[i]
            if got is not None:
                del self.next[i]
                self.drawn += 1
                self.tokens_in += got[0][4]
                self.charge[i] += got[1]
                yield [got[0]]
            elif self.datasets[i].then == "stop":
                return
            else:
                self.part.remove(i)
                self.charge = [0] * len(self.charge)


# Sequencers

def head(span, n):
    return span[:4] + (n,)


def rest(span, n):
    return span[:3] + (span[3] + n, span[4] - n)


def split(items, most):
    for (span,) in items:
        while span[4] > most:
            yield [head(span, most)]
            span = rest(span, most)
        yield [span]


def shuffle(items, buffer, stage_key):
    held, count, items = [], 0, iter(items)
    while True:
        taken = 0
        while taken < 2 and len(held) < buffer:
            item = next(items, None)
            if item is None:
                break
            held.append(item)
            taken += 1
        if not held:
            return
        i = below(key(stage_key, count), len(held))
        item = held[i]
        held[i] = held[-1]
        held.pop()
        count += 1
        yield item


class Pack:
    def __init__(self, case, stage):
        self.T, self.pool, self.groups = case["sequence"], stage["pool"], stage["groups"]
        self.group_of = [d["group"] for d in case["datasets"]]
        self.pad = case["tail"] == "pad"
        self.lost = 0

    def concat(self, items):
        opened = [[] for _ in range(self.groups)]
        for (span,) in items:
            group = self.group_of[span[0]]
            while span[4]:
                n = min(span[4], self.T - tokens_of(opened[group]))
                opened[group].append(head(span, n))
                span = rest(span, n)
                if tokens_of(opened[group]) == self.T:
                    yield opened[group]
                    opened[group] = []
        yield from self.tail(opened)

    def tail(self, sequences):
        for sequence in sequences:
            if sequence and self.pad:
                yield sequence
            elif sequence:
                self.lost += tokens_of(sequence)

    def fit(self, items, best):
        clock = self.pool
        bins = [[{"number": p, "spans": [], "since": p} for p in range(self.pool)]
                for _ in range(self.groups)]

        def room(b):
            return self.T - tokens_of(b["spans"])

        def least_room(choice):
            return min(choice, key=lambda b: (room(b), b["since"]))

        for (span,) in items:
            if span[4] > self.T:
                raise Failed("a record longer than the sequence")
            mine = bins[self.group_of[span[0]]]
            while True:
                fitting = [b for b in mine if room(b) >= span[4]]
                if fitting:
                    break
                full = least_room(mine)
                clock += 1
                sequence, full["spans"], full["since"] = full["spans"], [], clock
                yield sequence
            b = least_room(fitting) if best else fitting[0]
            clock += 1
            b["spans"].append(span)
            b["since"] = clock
            if room(b) == 0:
                sequence, b["spans"] = b["spans"], []
                yield sequence
        for group in bins:
            for b in group:
                if b["spans"]:
                    yield b["spans"]

    def exact_search(self, pool, missing):
        """Indices in the pool of what is added next, or None when nothing fits."""
        def oldest(length, but=()):
            return next((i for i, s in enumerate(pool) if s[4] == length and i not in but), None)

        def choose(lengths):
            chosen = []
            for length in lengths:
                i = oldest(length, chosen)
                if i is None:
                    return None
                chosen.append(i)
            return chosen

        single = choose([missing])
        if single:
            return single
        lengths = sorted({s[4] for s in pool if s[4] < missing}, reverse=True)
        for a in lengths:
            if a >= missing - a >= 1 and missing - a in lengths:
                pair = choose([a, missing - a])
                if pair:
                    return pair
        for a in lengths:
            for b in lengths:
                c = missing - a - b
                if a >= b >= c >= 1 and c in lengths:
                    triple = choose([a, b, c])
                    if triple:
                        return triple
        return choose([lengths[0]]) if lengths else None

    def exact_sequence(self, pool):
        sequence = [pool.pop(0)]
        while pool and tokens_of(sequence) < self.T:
            missing = self.T - tokens_of(sequence)
            chosen = self.exact_search(pool, missing)
            if chosen is None:
                sequence.append(head(pool[0], missing))
                pool[0] = rest(pool[0], missing)
            else:
                sequence += [pool[i] for i in chosen]
                for i in sorted(chosen, reverse=True):
                    del pool[i]
        return sequence

    def exact(self, items):
        pools = [[] for _ in range(self.groups)]
        counts = [0] * self.groups
        for (span,) in items:
            group = self.group_of[span[0]]
            while span[4] >= self.T:
                yield [head(span, self.T)]
                span = rest(span, self.T)
            if span[4]:
                pools[group].append(span)
                counts[group] += span[4]
            while tokens_of(pools[group]) >= self.T and (
                    len(pools[group]) >= self.pool or counts[group] >= 2 * self.T):
                counts[group] = 0
                yield self.exact_sequence(pools[group])
        for pool in pools:
            while tokens_of(pool) >= self.T:
                yield self.exact_sequence(pool)
            if pool:
                yield from self.tail([self.exact_sequence(pool)])


def tokens_of(spans):
    return sum(s[4] for s in spans)


class Lane:
    """All sequences of one lane: up to `limit` of them; `end` says why no more: limit, end, error."""

    def __init__(self, case, number):
        self.source = Source(case, number)
        self.pack = None
        items = self.source.items()
        for index, stage in enumerate(case["stages"]):
            items = self.stage(case, number, index, stage, items)
        self.sequences, self.end = [], "limit"
        try:
            while len(self.sequences) < case["limit"]:
                item = next(items, None)
                if item is None:
                    self.end = "end"
                    break
                self.sequences.append(item)
        except Failed:
            self.end = "error"

    def stage(self, case, number, index, stage, items):
        if stage["kind"] == "split":
            return split(items, stage["max_tokens"])
        if stage["kind"] == "shuffle":
            return shuffle(items, stage["buffer"], Keys(case["seed"]).stage(index, number))
        self.pack = Pack(case, stage)
        if stage["algorithm"] == "concat":
            return self.pack.concat(items)
        if stage["algorithm"] == "exact_fit":
            return self.pack.exact(items)
        return self.pack.fit(items, stage["algorithm"] == "best_fit")


# Steps and cuts

def step_size(case, step):
    return [size for start, size in case["batch"] if start <= step][-1]


def steps(case, lanes):
    """The rows of every global batch before the limit: sequences, None where a row is all padding."""
    if any(all(drop for _, _, drop in dataset.rows) for dataset in lanes[0].source.datasets):
        return
    step = position = 0
    while position < case["limit"]:
        share = step_size(case, step) // case["lanes"]
        rows = []
        for lane in lanes:
            have = lane.sequences[position:position + share]
            rows += have + [None] * (share - len(have))
        whole = None not in rows
        failed = any(lane.end == "error" for lane in lanes)
        if not whole and not (case["tail"] == "pad" and any(rows) and not failed):
            return
        yield step, rows
        step, position = step + 1, position + share


def cut(size, rank, world):
    first = rank * size // world
    return first, (rank + 1) * size // world - first


# Digests

def le128(digest):
    return struct.pack("<QQ", digest & M64, digest >> 64)


def token_ids(case, spans):
    """Made-up ids, the same in lane_dump.c: a hash of (dataset, row, index) modulo the vocabulary."""
    ids = [mix64(key(key(dataset, row), first + i)) % case["vocab"]
           for dataset, row, _, first, tokens in spans for i in range(tokens)]
    return ids + [case["pad_id"]] * (case["sequence"] - len(ids))


def sequence_digest(case, spans):
    spans = spans or []
    ids = struct.pack(f"<{case['sequence']}I", *token_ids(case, spans))
    lengths = struct.pack(f"<{len(spans) + 1}I", len(spans), *(s[4] for s in spans))
    return xxh3_128(le128(xxh3_128(ids)) + lengths)


def placed_digests(case, step, rows):
    return [xxh3_128(le128(sequence_digest(case, spans)) + struct.pack("<QI", step, j))
            for j, spans in enumerate(rows)]


def total(digests):
    return sum(digests) & M128
