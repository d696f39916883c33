#!/usr/bin/env python3
"""seeds.py OUT [TARGET]: inputs to begin fuzzing from, OUT/<target>/*: small tokenizers of every kind, rows of JSON,
texts at the borders of character classes. They follow from a seed and are never committed."""
import gzip
import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))
import oracle_small as small  # noqa: E402
import oracle_texts as texts  # noqa: E402

EXPRESSIONS = 8  # that fuzz_pretok knows
CONFIG = {"eos_token": {"content": "</s>", "lstrip": False}, "bos_token": "<s>", "add_bos_token": True}
RANKS = "\n".join(f"{word} {rank}" for rank, word in enumerate(
    ["IQ==", "Ig==", "YQ==", "Yg==", "YWI=", "IGE=", "w6k=", "Cg==", "ICA=", "YWJh"])) + "\n"


def json_documents(rng):
    def value(depth):
        kind = rng.randrange(9 if depth < 4 else 6)
        if kind < 3:
            return rng.choice(["", "a", texts.random_text(rng, [])[:40], "\u0000\ud83d\ude00"[:1], "\\\"/"])
        if kind < 6:
            return rng.choice([0, -1, 1.5e300, True, False, None, 12345678901234567890])
        if kind < 7:
            return [value(depth + 1) for _ in range(rng.randrange(4))]
        return {rng.choice(["a", "b", "text", "a.b", ""]): value(depth + 1) for _ in range(rng.randrange(4))}
    for _ in range(60):
        row = json.dumps(value(0), ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
        yield row.encode()
    yield b'\xef\xbb\xbf{"a": {"b": "\\ud83d\\ude00\\u0000"}, "a": [[[[]]], -0.0e+1]}'
    yield b"[" * 600
    yield b'{"a":' * 300


def tokenizers(rng):
    for number in range(60):
        made = small.of_pieces(rng) if number % 2 else small.of_bytes(rng)
        made["model"]["vocab"] = dict(list(made["model"]["vocab"].items())[:300])
        yield bytes([number % 3 * 4]) + json.dumps(made, ensure_ascii=False).encode()
    for _, made, _, _ in small.cases():
        yield b"\0" + json.dumps(made).encode()
        yield b"\0" + json.dumps(made).encode() + b"\xff" + json.dumps(CONFIG).encode()
    vocab = {c: i for i, c in enumerate(["a", "b", "\u0120", "ab", "\u0120ab", "<|endoftext|>"])}
    yield b"\x01" + json.dumps(vocab).encode() + b"\xff#version: 0.2\na b\n\u0120 ab\n".replace(b"\\u0120", "Ġ".encode())
    for scheme in range(5):
        yield bytes([scheme * 16 + 2]) + RANKS.encode()


def cut_texts(rng):
    for which in range(EXPRESSIONS):
        for _ in range(12):
            text = texts.random_text(rng, [])[:60]
            yield bytes([which, rng.choice([0, 0, 240, 255])]) + text.encode()


def encodings(rng):
    for _ in range(80):
        merges = rng.randrange(20)
        yield bytes([rng.randrange(64), 255 if rng.random() < 0.5 else rng.randrange(256), merges]
                    + [rng.randrange(20) for _ in range(2 * merges)]
                    + [rng.randrange(40) for _ in range(rng.randrange(1, 60))])


def normals(rng):
    marks = "eAo\u0301\u0308\u0327\u0345\u0334\u0323\u1100\u1161\u11a8\uac00\ud55c\u0958\u2126\u1e9b\ufb1d\U0001d15e\ufb01\u3392 \u2581"
    for _ in range(60):
        steps = rng.randrange(4)
        yield bytes([steps] + [rng.randrange(256) for _ in range(2 * steps + 2)]) + "".join(rng.choice(marks) for _ in range(rng.randrange(1, 40))).encode()


def configurations(rng):
    root = pathlib.Path(__file__).resolve().parents[2]
    yield from (path.read_bytes() for path in sorted((root / "conf").glob("*.yaml")))
    stages = ["filter: {min_bytes: 64, max_bytes: 2MiB}", "filter: {field: lang, equals: en}", "split: {max_tokens: 64}",
              "shuffle: {buffer: 16}"]
    packs = ["{algorithm: exact_fit, pool: 32}", "{algorithm: best_fit, pool: 8, within: all}", "{algorithm: first_fit, pool: 4}",
             "{algorithm: concat}"]
    for _ in range(40):
        order = rng.choice(["", "    order: {block_rows: 256, shuffle_rows: true}\n", "    order: {block_rows: shard, blocks: sequential}\n"])
        pipeline = "".join(f"      - {stage}\n" for stage in rng.sample(stages, rng.randrange(4)))
        yield ("streams:\n  s:\n    seed: %d\n    lanes: %d\n    batch: %s\n    sequence: %d\n    tokenizer: %s\n"
               "    datasets:\n      a: {path: data/a/, text: text, weight: 5, epochs: 2, then: %s}\n      b: {path: /b, weight: 0.5}\n"
               "    mixture: %s\n%s    pipeline:\n%s      - pack: %s\n    tail: %s\n"
               "runtime:\n  workers: 2\n  arena: 512MiB\n  listen: [ipc://run/s, \"tcp://[::1]:0\"]\n  snapshots: {dir: d, every: 100, keep: 8}\n"
               % (rng.randrange(9), rng.choice([1, 8, 64]), rng.choice(["64", "[{from: 0, size: 64}, {from: 9, size: 128}]"]), rng.choice([16, 2048]),
                  rng.choice(["{bytes: true}", "{hf: t.json, append: eos}", "{tiktoken: {path: t.tiktoken, scheme: cl100k_base}}"]),
                  rng.choice(["stop", "release", "repeat"]), rng.choice(["tokens", "bytes", "samples"]), order, pipeline,
                  rng.choice(packs), rng.choice(["drop", "pad"]))).encode()


def lanes(rng):
    for number in range(120):
        body = bytes([rng.randrange(40)])
        for _ in range(6):
            changes = rng.choice([0, 0, 1, 1, 2, 5])
            body += bytes([changes]) + b"".join(bytes([rng.randrange(64), rng.choice([0, 0, 255]), rng.choice([0, 1, 127, 128, 255, rng.randrange(256)])])
                                                for _ in range(changes))
        yield bytes([rng.randrange(128), rng.randrange(32), rng.randrange(128), 2]) + body


def counts_files(rng):
    for _ in range(40):
        rows = rng.randrange(1, 90)
        yield bytes([2, rng.randrange(256), rng.randrange(256), rows]) + bytes(rng.randrange(256) for _ in range(9 * rows))


def indexes(rng):
    """As server/format/index_layout.h says, but for the hashes, which the target makes."""
    for number in range(30):
        rows, table, lengths, granules, names = 0, b"", [], [], b""
        for shard in range(rng.randrange(1, 4)):
            count = rng.choice([0, 1, 2, 3, 70, 130]) if shard else 1 + number % 3 * 65
            stride, gap = rng.choice([(64, 1), (64, 1), (1, 0)])
            at, first = rng.choice([0, 3]), len(granules)
            for row in range(count):
                if row % stride == 0:
                    granules.append(at)
                lengths.append(rng.randrange(1, 50))
                at += lengths[-1] + (gap if stride > 1 else rng.randrange(1, 4))
            name = b"%c/%d.jsonl" % (97 + shard, number)
            names += name + b"\0"
            codec = rng.randrange(3)
            table += struct.pack("<IIIIQQQQQ16xQ", len(name), codec, stride, gap, at if codec == 0 else 9, at, rows, count, first, 0)
            rows += count
        body = b"".join(struct.pack("<I", n) for n in lengths) + bytes(4 * rows) + b"".join(struct.pack("<Q", n) for n in granules)
        body += names + bytes(-len(names) % 8) + bytes(16)
        yield b"\1LKINDEX\n" + struct.pack("<IIQIIQQQ16x", 1, 64, 0, shard + 1, 0, rows, len(granules), len(names)) + table + body


def shards(rng):
    texts_of = [b"", b"{}", b'{"text": "a"}\n{"text": "b"}\r\n\n  \n{"text": "c"}', b"\xef\xbb\xbf{}\n{}", b"\xff\xfea\0", b"\r\n\r\r\na\r", b"x\n" * 70]
    texts_of += [b"\n".join(json.dumps({"text": texts.random_text(rng, [])[:40]}).encode() for _ in range(5))]
    for text in texts_of:
        yield bytes([0, rng.randrange(256)]) + text
        packed = gzip.compress(text, mtime=0)
        yield bytes([1, rng.randrange(256)]) + packed + gzip.compress(text[:5], 1, mtime=0)
        for frame in list(zstd_frames(text))[:2]:
            yield bytes([2, 255]) + frame + bytes.fromhex("502a4d1803000000") + b"xyz" + frame
    yield bytes([1, 255]) + gzip.compress(b"\n" * 300000, mtime=0)  # small, and large when decoded
    yield from (bytes([2, 255]) + frame for frame in list(zstd_frames(b"a" * 300000))[:1])


def zstd_frames(text):
    """Of the tool, where there is one; a raw and a run-length frame by hand."""
    if shutil.which("zstd"):
        yield subprocess.run(["zstd", "-q", "-3"], input=text, capture_output=True, check=True).stdout
    head = bytes.fromhex("28b52ffd00")  # no single segment, no content size
    yield head + b"\x00" + (len(text[:99]) << 3 | 1).to_bytes(3, "little") + text[:99]
    yield head + b"\x50" + (min(len(text), 4000) << 3 | 3).to_bytes(3, "little") + b"z"


def conversations(rng):
    """With a client: right answers, with a change here and there."""
    for number in range(100):
        handover = bytes([0]) if rng.random() < 0.6 else bytes([rng.randrange(256)] + [rng.randrange(8) for _ in range(6)])
        calls = bytes(rng.randrange(8) for _ in range(12))
        answers = b""
        for _ in range(10):
            kind = rng.choice([0, 0, 0, 0, 0, 1, 2, 3, 7, 5])
            answers += bytes([kind + 8 * rng.randrange(4 if kind in (2, 3) else 1)])
            answers += bytes([rng.choice([0, 0, 0, 1])]) + bytes(rng.randrange(256) for _ in range(rng.randrange(4)))
        yield bytes([0, rng.randrange(12) + rng.choice([0, 0, 128])]) + handover + calls + answers
    for tag in (b"", b"\1"):
        message = struct.pack(">I", 0x80000001) + b"LKP1" + struct.pack("<HHQIIQ", 2, 0, 1, 0, 2, 3) + b"ab" + b"xyz"
        frame = tag + struct.pack(">Q", len(message)) + message
        for cut in (0, 7, 15):
            yield bytes([3 + 4 * len(tag) + 8 * cut]) + b"\0SP\0\0\x31\0\0" + 3 * frame + frame[:cut]
        yield bytes([3 + 4 * len(tag)]) + b"\0SP\0\0\x31\0\0" + tag + struct.pack(">Q", 1 << 60) + message


def peers(rng):
    """Of a daemon: each method, leases taken and given back, some that hang up."""
    for number in range(12):
        data = b""
        if number % 3 == 0:
            data += bytes([14, 0, number])  # a client of the hand-over, whose batches are shared
        for _ in range(5):
            what = rng.choice([0, 1, 3, 4, 5, 6, 6, 6, 13, 13, 11, 15])
            data += bytes([what + 16 * rng.randrange(2), 2 + 32 * (number % 3 == 0)] + [rng.randrange(8) for _ in range(3)])
        yield data
    yield bytes([7, 2, 4, 8, 4, 16, 0, 0, 1, 5, 200]) + b"odd"
    yield bytes([9, 5]) + b"\1" + bytes([0, 0, 0, 1]) + bytes([9, 8]) + b"\xff" * 8


def workers(rng):
    """A worker's daemon, and a pool's worker: right, with a change here and there."""
    def some(n):
        return bytes(rng.choice([0, 0, 0, rng.randrange(256)]) for _ in range(n))
    for number in range(24):
        how = [0, 0, 1 << number % 8][number % 3]
        data = bytes([0, 0, 0, how]) + some(4)
        for _ in range(3):
            data += bytes([rng.choice([0, 0, 1, 7]), 32 * rng.randrange(5) + rng.choice([0, 0, 1, 16])]) + some(5)
        yield data
        data = bytes([1, 1, 0, 0, 1])
        for _ in range(4):
            data += bytes([2, rng.choice([0, 1, 16, 64, 128, 8, 32])]) + some(6) + bytes([1, 5])
        yield data
    yield bytes([1, 0, 0, 0, 1, 6, 40]) + b"LKP1" + bytes(36)


def remotes(rng):
    """Peers of a pool by TCP: workers that do what they should but for a change here and there, and strangers."""
    for number in range(14):
        data = b""
        for peer in rng.sample(range(4), 1 + number % 3):
            data += bytes([16 * peer, rng.choice([0, 0, 0, 128, 64, 16, 4, 32])])
            data += bytes([2 + 16 * peer, 0]) * rng.choice([1, 2, 3])
            data += bytes([12, rng.randrange(5)])
            for _ in range(rng.randrange(5)):
                change = bytes(rng.choice([0, 0, 0, 128, 64, 32]) for _ in range(5))
                data += rng.choice([
                    bytes([4 + 16 * peer, rng.choice([0, 0, 0, 1 << number % 8, 255, 254])]) + change,
                    bytes([2 + 16 * peer, rng.choice([0, 64, 128]), 3]), bytes([12, rng.randrange(5)]), bytes([13, rng.randrange(256)]),
                    bytes([14, rng.choice([1, 3, 20, 130])]), bytes([11 + 16 * peer, rng.choice([0, 64, 128])]), bytes([15]),
                    bytes([8 + 16 * peer, rng.randrange(256)]), bytes([0 + 16 * peer, 0])])
        yield data
    yield bytes([250, 9, 9, 0, 20]) + b"GET / HTTP/1.1\r\nHost:"


def links(rng):
    """A remote worker's daemon: right answers, with a change here and there, and connections that end."""
    def some(n):
        return bytes(rng.choice([0, 0, 0, rng.randrange(256)]) for _ in range(n))
    for number in range(20):
        data = bytes([0, 0, [0, 0, 1 << number % 8][number % 3]]) + some(2)
        for _ in range(6):
            kind = rng.choice([0, 0, 0, 0, 1, 4, 5, 6, 7, 230, 245])
            data += bytes([kind | 16 * rng.randrange(2)]) + bytes([32 * rng.randrange(5) + rng.choice([0, 0, 1, 16])]) + some(5)
        yield data
    yield bytes([0, 0, 0, 5, 9, 245, 0, 0, 0, 230, 120, 5, 8])


def snapshots(rng):
    for number in range(12):
        yield bytes([1, number, rng.randrange(256), rng.choice([0, 0, 255])]) + bytes(rng.randrange(4) for _ in range(rng.randrange(200)))
        state = bytes(9 * number)  # of no compression at all: a raw block
        frame = bytes.fromhex("28b52ffd0000") + (len(state) << 3 | 1).to_bytes(3, "little") + state
        yield bytes([2]) + b"LKS1" + struct.pack("<I16xIIQII16x", 1, number, 0, number, len(state), 0) + frame
    yield bytes([3]) + b"LKC1" + bytes(36)


def requests(rng):
    lines = ["Host: a", "Content-Length: 5", "Transfer-Encoding: chunked", "Connection: close", "Expect: 100-continue", "X: " + "y" * 900, ": ", "Upgrade: websocket"]
    for _ in range(10):
        line = rng.choice(["GET / HTTP/1.1", "POST /metrics HTTP/1.1", "GET /%00/../x?y#z HTTP/1.0", "HEAD * HTTP/1.1", "GET"])
        text = "\r\n".join([line] + rng.sample(lines, rng.randrange(5))) + "\r\n\r\n" + rng.choice(["", "5\r\nhello\r\n", "GET / HTTP/1.1\r\n\r\n"])
        yield bytes([rng.randrange(256)]) + text.encode()


def expressions(rng):
    known = {one for several in small.EXPRESSIONS for one in several}
    for pattern in sorted(known) + [
            "[0-9][0-9][0-9]", r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"\s+$", "(?:a|ab)(?:c|bcd)*?d{2,3}", r"[^\S\n]+\z",
            "[a-z&&[^aeiou]]++(?=b)|.", "((a*)b)+", "[\\p{Han}\\p{Hiragana}]+", "(?i:k|ſ)+", "x{0,5}?y", "(a|aa)+$"]:
        for _ in range(3):
            yield bytes([rng.randrange(4)]) + pattern.encode() + b"\xff" + texts.random_text(rng, [])[:80].encode()


def main():
    out = pathlib.Path(sys.argv[1])
    only = sys.argv[2:]
    for name, inputs in (("json", json_documents), ("tokenizer", tokenizers), ("pretok", cut_texts),
                         ("encode", encodings), ("normal", normals), ("regex", expressions),
                         ("config", configurations), ("lane", lanes), ("counts", counts_files), ("rows", shards), ("index", indexes),
                         ("client", conversations), ("daemon", peers), ("worker", workers), ("remote", remotes), ("link", links),
                         ("snapshot", snapshots), ("http", requests)):
        if only and name not in only:
            continue
        (out / name).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(inputs(random.Random(name))):
            (out / name / f"{number:03}").write_bytes(data)


if __name__ == "__main__":
    main()
