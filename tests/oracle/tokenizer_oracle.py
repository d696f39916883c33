#!/usr/bin/env python3
"""Compares our ids with those of the reference, Hugging Face's `tokenizers`.

    tokenizer_oracle.py [--quick] [--seed N] --encode ENCODE_MAIN DIRECTORY... [--text FILE...]
    tokenizer_oracle.py --encode ENCODE_MAIN DIRECTORY... --rows SHARD...

With --rows, only the documents of these JSONL shards (.gz and .zst too) are compared, whole.

Every DIRECTORY holds a tokenizer (tokenizer.json, or GPT-2's pair). The documents: the TEXT files,
whole and by line; every code point alone, doubled, between letters and between spaces; random mixes
weighted to the borders of character classes; long runs. Exit status 1 at the first difference.
Small tokenizers with random vocabularies, merges and added tokens are made and compared too.
"""
import argparse
import gzip
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata

try:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
except ImportError:
    print("tokenizer_oracle: skipped: the Python package `tokenizers` is not installed")
    sys.exit(0)

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BORDERS = (
    list(" \t\n\r\x0b\x0c\x85\u00a0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff\0")
    + list("'’sStTdDmMrReEvVlL\u017f\u212a\u0130")
    + list("azAZ019_-.,;:!?<>|[]{}()\"#/\\")
    + list("äéßñçøÅ\u0301\u0308\u0327\u0345\u0334\u05b4\u0e48")
    + list("αβωДжщ中文字日本語한국어각가\u1100\u1161\u11a8\u0915\u094d\u0937\u0bc6\u0bbe\u0bca")
    + list("٠١٢½²Ⅷ①〇\U0001d7d8\U00010400\U0001f469\u200d\U0001f467\ufe0f\U0001f1e6\u20dd")
    + list("ÅÅḍ̇ẛ̣ǅʰªº\u0958\u2126\uac00\ud7a3\u1e9b\ufb1d\U0001d15e\U0002f800")
)
WORDS = ["'s", "'LL", "'ve", "'re ", " the", "The", " of\n", "\r\n", "\n\n", "  ", "   \n  ", "don't",
         "I'M", "<|endoftext|>", "<|end_of_text|>", "<|im_start|>", "<|", "|>", "<think>", "</think>",
         "<tool_call>", "http://", "::", "1234567", " 12", "3.14", "\t\t", "--------", "____", "e\u0301"]


def gpt2_pair(directory):
    names = [("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")]
    for vocab, merges in names:
        if os.path.exists(os.path.join(directory, vocab)):
            bpe = models.BPE.from_file(os.path.join(directory, vocab), os.path.join(directory, merges))
            tokenizer = Tokenizer(bpe)
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
            tokenizer.add_special_tokens(["<|endoftext|>"])
            return tokenizer
    raise SystemExit(f"no tokenizer in {directory}")


def reference(directory):
    path = os.path.join(directory, "tokenizer.json")
    tokenizer = Tokenizer.from_file(path) if os.path.exists(path) else gpt2_pair(directory)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def ours(encode, directory, documents, mode):
    sent = b"".join(struct.pack("<I", len(d)) + d for d in documents)
    done = subprocess.run([encode, directory] + mode, input=sent, stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{encode} {directory}: exit status {done.returncode}")
    out, at = done.stdout, 0
    for _ in documents:
        n, = struct.unpack_from("<I", out, at)
        yield list(struct.unpack_from(f"<{n}I", out, at + 4))
        at += 4 + 4 * n
    if at != len(out):
        raise SystemExit("trailing output")


class Comparison:
    def __init__(self, encode, directory, name):
        self.encode, self.directory, self.name = encode, directory, name
        self.tokenizer = reference(directory)
        self.documents = self.tokens = self.bytes = 0

    def reference_ids(self, texts, careful):
        """@careful: leaves out the texts at which the reference panics (added tokens that begin
        with spaces which the token before them has swallowed)."""
        if not careful:
            return texts, self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        kept, theirs = [], []
        for text in texts:
            try:
                theirs.append(self.tokenizer.encode(text, add_special_tokens=False))
                kept.append(text)
            except BaseException as e:  # PanicException is no Exception
                if type(e).__name__ != "PanicException":
                    raise
        return kept, theirs

    def compare(self, what, texts, text_mode=False, careful=False):
        """In batches: the reference keeps a hundred bytes and more for each id."""
        batch, size = [], 0
        for text in texts:
            batch.append(text)
            size += len(text) + 16
            if size > 1 << 20:
                self.compare_batch(what, batch, text_mode, careful)
                batch, size = [], 0
        self.compare_batch(what, batch, text_mode, careful)

    def compare_batch(self, what, texts, text_mode, careful):
        self.tokenizer.encode_special_tokens = text_mode
        texts, theirs = self.reference_ids(texts, careful)
        raw = [t.encode() for t in texts]
        for text, mine, their in zip(texts, ours(self.encode, self.directory, raw,
                                                 ["text"] if text_mode else []), theirs):
            if mine != their.ids:
                at = next((i for i, (a, b) in enumerate(zip(mine, their.ids)) if a != b),
                          min(len(mine), len(their.ids)))
                print(f"{self.name}: {what}{' (as text)' if text_mode else ''}: ids differ at {at} of "
                      f"{len(their.ids)}\n  text      {text[:200]!r}\n"
                      f"  reference {their.ids[max(0, at - 3):at + 12]}\n"
                      f"  ours      {mine[max(0, at - 3):at + 12]}")
                raise SystemExit(1)
            self.tokens += len(mine)
        self.documents += len(texts)
        self.bytes += sum(map(len, raw))


def interesting(rng):
    """Where the general category changes, the commonest scripts, and a sample of the rest."""
    kind = [unicodedata.category(chr(c)) for c in range(0x110000)]
    edges = {c + d for c in range(1, 0x110000) if kind[c] != kind[c - 1] for d in (-1, 0)}
    chosen = edges | set(range(0x600)) | set(range(0x2000, 0x2100)) | set(rng.sample(POINTS, 1000))
    return sorted(c for c in chosen if not 0xD800 <= c < 0xE000)


SHAPES = ["a{0}b", " {0} ", "A{0}1", "'{0}", "1{0}{0}1", " {0}a", "{0}", "{0}{0}", "{0}\n{0}", "!{0}e\u0301"]


def code_points(quick, rng):
    points = interesting(rng)
    for shape in SHAPES[:6] if quick else SHAPES:
        for c in points:
            yield shape.format(chr(c))
    if quick:
        return
    for shape in SHAPES:  # all of them, many in one document: a document costs more than its text
        for at in range(0, len(POINTS), 512):
            yield ",\n".join(shape.format(chr(c)) for c in POINTS[at:at + 512])


def random_text(rng, added):
    parts = []
    for _ in range(rng.randrange(1, 40)):
        kind = rng.random()
        if kind < 0.6:
            parts.append(rng.choice(BORDERS) * (rng.choice([1, 1, 1, 2, 3, 9])))
        elif kind < 0.85:
            parts.append(rng.choice(WORDS))
        elif kind < 0.92 and added:
            parts.append(rng.choice(added))
        else:
            parts.append(chr(rng.choice(POINTS)))
    return "".join(parts)


def runs(quick):
    n = 20000 if quick else 200000
    for s in ["a", " ", "\n", "\r\n", "-", "^", "0", "\t", "é", "中", "\u0301", "e\u0301\u0327", " \n", "ab ",
              "\u3000", "'s", "'", "AbC", "\U0001f469\u200d", "가", "\u1100\u1161\u11a8", "한", "=-"]:
        yield s * (n // len(s))
        yield "x" + s * 1000 + "y"
    rng = random.Random(7)
    yield "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(n))
    yield "".join(rng.choice("ab") for _ in range(n))


def files(paths, limit):
    for path in paths:
        with open(path, "rb") as f:
            data = f.read(limit).decode("utf-8", "ignore")
        yield from data.splitlines(keepends=True)
        for at in range(0, len(data), 65536):
            yield data[at:at + 65536]


def open_shard(path):
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    if path.endswith(".zst"):
        zstd = subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE)
        return io.TextIOWrapper(zstd.stdout, encoding="utf-8")
    return open(path, encoding="utf-8")


def rows(paths):
    for path in paths:
        with open_shard(path) as shard:
            for line in shard:
                row = json.loads(line)
                yield row["text"] if "text" in row else row["body"]["content"]


def check_rows(args, directory):
    c = Comparison(args.encode, directory, os.path.basename(os.path.normpath(directory)))
    c.compare("rows", rows(args.rows))
    print(f"{c.name}: {c.documents} documents, {c.bytes} bytes, {c.tokens} ids: equal", flush=True)


def check(args, directory):
    name = os.path.basename(os.path.normpath(directory))
    rng = random.Random(args.seed)
    c = Comparison(args.encode, directory, name)
    added = [t.content for t in c.tokenizer.get_added_tokens_decoder().values()]
    c.compare("code points", code_points(args.quick, rng))
    for text_mode in (False, True):
        c.compare(f"random mix, seed {args.seed}",
                  (random_text(rng, added) for _ in range(1500 if args.quick else 200000)), text_mode)
        c.compare("added tokens", [w + a + w for a in added for w in ("", " ", "a", "\n")], text_mode)
    c.compare("runs", runs(args.quick))
    c.compare("files", files(args.text, 1 << 19 if args.quick else 1 << 30))
    print(f"{name}: {c.documents} documents, {c.bytes} bytes, {c.tokens} ids: equal")


def small_tokenizer(rng):
    """A random tokenizer.json over a few letters, with everything that is allowed to vary."""
    letters = ["Ġ", "a", "b", "c", "_", "-", "Ċ", "<", ">", "Ã", "©", "Ì", "ģ", "e"]
    vocab = {s: i for i, s in enumerate(letters)}
    merges = []
    for _ in range(rng.randrange(0, 25)):
        left, right = rng.choice(list(vocab)), rng.choice(list(vocab))
        if len(left + right) < 9:
            vocab.setdefault(left + right, len(vocab))
            merges.append([left, right])
    for _ in range(rng.randrange(0, 4)):  # tokens that no merge makes
        vocab.setdefault("".join(rng.choice(letters[:9]) for _ in range(rng.randrange(2, 5))), len(vocab))
    added, next_id = [], len(vocab)
    for content in rng.sample(["ab", "a", "<a>", "<a>b", "[M]", " b", "é", "e\u0301", "\u00e9c", "_a_", "  ", "c\n"],
                              rng.randrange(0, 6)):
        if content == "e\u0301" and any(a["content"] == "\u00e9" for a in added) or \
                content == "\u00e9" and any(a["content"] == "e\u0301" for a in added):
            continue  # equal in NFC: the reference takes either, by chance
        token_id = vocab.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
        flags = {k: rng.random() < 0.4 for k in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        added.append({"id": token_id, "content": content, **flags})
    pattern = rng.choice([None] + PATTERNS)
    level = {"type": "ByteLevel", "add_prefix_space": pattern is None and rng.random() < 0.3,
             "trim_offsets": True, "use_regex": pattern is None and rng.random() < 0.5}
    if pattern is not None:
        level = {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, level]}
    if merges and rng.random() < 0.5:
        merges = [" ".join(m) for m in merges]
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": rng.choice([None, {"type": "NFC"}]), "pre_tokenizer": level,
            "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True,
                                                "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": rng.random() < 0.3, "vocab": vocab, "merges": merges}}


A = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
B = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
C = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERNS = [
    A + "*" + B + "+" + C + "|" + A + "+" + B + "*" + C
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    A + "*" + B + "+|" + A + "+" + B + "*"
    + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
]


def check_small(args):
    rng = random.Random(args.seed)
    stderr = os.dup(2)
    with open(os.devnull, "w", encoding="utf-8") as null:
        os.dup2(null.fileno(), 2)  # the reference's panics
    pieces = ["a", "b", "c", "_", "-", " ", "  ", "\n", "<", ">", "<a>", "<a>b", "[M]", "ab", "é", "e\u0301", "e",
              "\u00e9c", "_a_", "z", "\u00a0", "\u0301"]
    documents = 0
    for number in range(60 if args.quick else 3000):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(small_tokenizer(rng), f)
            c = Comparison(args.encode, directory, f"small tokenizer {number}, seed {args.seed}")
            texts = ["".join(rng.choice(pieces) for _ in range(rng.randrange(0, 60))) for _ in range(100)]
            try:
                c.compare("random", texts, False, True)
                c.compare("random", texts, True, True)
            except SystemExit:
                with open(os.path.join(directory, "tokenizer.json"), encoding="utf-8") as f:
                    print(f.read())
                raise
            documents += c.documents
    os.dup2(stderr, 2)
    print(f"small tokenizers: {number + 1}, {documents} documents: equal")


def with_pattern(directory, pattern):
    """The tokenizer.json of @directory with another expression: its merges show where pieces end."""
    with open(os.path.join(directory, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    tokenizer["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]}
    return tokenizer


def check_patterns(args):
    """Every known expression, also those whose vocabulary is not at hand, on every pair of borders."""
    source = next((d for d in args.directories if os.path.exists(os.path.join(d, "tokenizer.json"))), None)
    if source is None:
        return
    rng = random.Random(args.seed)
    borders = sorted(set(BORDERS))
    for pattern in PATTERNS:
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(with_pattern(source, pattern), f)
            c = Comparison(args.encode, directory, pattern)
            if not args.quick:
                c.compare("pairs", (a + b for a in borders for b in borders))
            c.compare("pairs between letters", ("at" + a + b + "The " for a in borders for b in borders))
            c.compare("random mix", (random_text(rng, []) for _ in range(300 if args.quick else 50000)))
            if not args.quick:
                c.compare("code points", code_points(False, rng))
    print(f"{len(PATTERNS)} expressions on pairs of {len(borders)} border characters: equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encode", required=True, help="the program encode_main")
    parser.add_argument("--quick", action="store_true", help="under a minute for all tokenizers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", nargs="*", default=[], help="text files to compare on")
    parser.add_argument("--rows", nargs="*", default=[], help="JSONL shards: compare these alone")
    parser.add_argument("directories", nargs="+", metavar="DIRECTORY")
    args = parser.parse_args()
    for directory in args.directories:
        if not os.path.isdir(directory):
            print(f"tokenizer_oracle: skipped: there is no {directory}")
    args.directories = [d for d in args.directories if os.path.isdir(d)]
    if args.rows:
        for directory in args.directories:
            check_rows(args, directory)
        return
    check_small(args)
    check_patterns(args)
    for directory in args.directories:
        check(args, directory)


main()
