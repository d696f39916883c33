#!/usr/bin/env python3
"""seeds.py OUT [TARGET]: inputs to begin fuzzing from, OUT/<target>/*: small tokenizers of every kind, rows of JSON,
texts at the borders of character classes. They follow from a seed and are never committed."""
import json
import pathlib
import random
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
                         ("encode", encodings), ("normal", normals), ("regex", expressions)):
        if only and name not in only:
            continue
        (out / name).mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(inputs(random.Random(name))):
            (out / name / f"{number:03}").write_bytes(data)


if __name__ == "__main__":
    main()
