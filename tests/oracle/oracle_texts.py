"""Documents on which tokenizers are compared: where character classes meet, where tokens nearly stand, long
runs, and ordinary text, whole and damaged. Everything follows from a seed."""
import gzip
import io
import json
import pathlib
import random
import subprocess
import unicodedata

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
BORDERS = (
    list(" \t\n\r\x0b\x0c\x85\u00a0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000\u180e\u200b\ufeff\0\x1f\x7f\x80")
    + list("'’sStTdDmMrReEvVlL\u017f\u212a\u0130")
    + list("azAZ019_-.,;:!?<>|[]{}()\"#/\\")
    + list("äéßñçøÅ\u0301\u0308\u0327\u0345\u0334\u05b4\u0e48\u0378\u0888\ue000\U000e0001\U0003ffff")
    + list("αβωДжщ中文字日本語한국어각가\u1100\u1161\u11a8\u0915\u094d\u0937\u0bc6\u0bbe\u0bca\u4e00\u9fa5\u9fa6\u3041\u30ff")
    + list("٠١٢½²Ⅷ①〇\U0001d7d8\U00010400\U0001f469\u200d\U0001f467\ufe0f\U0001f1e6\u20dd\u2581\ufffd\uffff")
    + list("ÅÅḍ̇ẛ̣ǅʰªº\u0958\u2126\uac00\ud7a3\u1e9b\ufb1d\U0001d15e\U0002f800\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c")
)
WORDS = ["'s", "'LL", "'ve", "'re ", " the", "The", " of\n", "\r\n", "\n\n", "  ", "   \n  ", "don't",
         "I'M", "<|endoftext|>", "<|end_of_text|>", "<|im_start|>", "<|", "|>", "<think>", "</think>",
         "<tool_call>", "http://", "::", "1234567", " 12", "3.14", "\t\t", "--------", "____", "e\u0301",
         "<0x0A>", "<0xC3>", "<0xFF>", "<0x", "\u2581", "\u2581\u2581", " \u2581", "\u2581the", "<unk>", "<s>", "</s> ", "<pad>",
         "(?i:", "\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\ufe0f", "。", "日本語の", " Việt", "ﬁ", "İ"]
SHAPES = ["a{0}b", " {0} ", "A{0}1", "'{0}", "1{0}{0}1", " {0}a", "{0}", "{0}{0}", "{0}\n{0}", "!{0}e\u0301"]
RUNS = ["a", " ", "\n", "\r\n", "-", "^", "0", "\t", "é", "中", "\u0301", "e\u0301\u0327", " \n", "ab ",
        "\u3000", "'s", "'", "AbC", "\U0001f469\u200d", "가", "\u1100\u1161\u11a8", "한", "=-", "\u2581", "<0x0A>", "1 ",
        "\ufffd", "\x00"]


def interesting(rng):
    """Where the general category changes, the commonest scripts, and a sample of the rest."""
    kind = [unicodedata.category(chr(c)) for c in range(0x110000)]
    edges = {c + d for c in range(1, 0x110000) if kind[c] != kind[c - 1] for d in (-1, 0)}
    chosen = edges | set(range(0x600)) | set(range(0x2000, 0x2100)) | set(rng.sample(POINTS, 1000))
    return sorted(c for c in chosen if not 0xD800 <= c < 0xE000)


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


def near_miss(rng, token):
    """Something like the token, but for a little."""
    at = rng.randrange(len(token) + 1)
    return rng.choice([token[:at], token[at:], token[:at] + "\u200b" + token[at:], token[:at] + token, token.upper(),
                       token[:at] + token[at + 1:], token[:at] + " " + token[at:], token + token[:at]])


def random_text(rng, added):
    parts = []
    for _ in range(rng.randrange(1, 40)):
        kind = rng.random()
        if kind < 0.6:
            parts.append(rng.choice(BORDERS) * (rng.choice([1, 1, 1, 2, 3, 9])))
        elif kind < 0.8:
            parts.append(rng.choice(WORDS))
        elif kind < 0.92 and added:
            token = rng.choice(added)
            parts.append(token if rng.random() < 0.5 else near_miss(rng, token))
        else:
            parts.append(chr(rng.choice(POINTS)))
    return "".join(parts)


def around_tokens(rng, added, most):
    for token in rng.sample(added, min(most, len(added))):
        for w in ("", " ", "a", "\n", "\u2581", "_", "\u0301"):
            yield w + token + w
        yield token + token
        yield near_miss(rng, token)


def runs(most, longest):
    """Of @longest bytes those of one letter, of spaces and of line ends; of @most the others."""
    for s in RUNS:
        n = longest if s in ("a", " ", "\n") else most
        yield s * (n // len(s.encode()))
        yield "x" + s * 1000 + "y"
    rng = random.Random(7)
    yield "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(most))
    yield "".join(rng.choice("ab") for _ in range(most))


def damaged(rng, text):
    """@text with things put in, taken out, doubled and turned to capitals."""
    parts, at = [], 0
    while at < len(text):
        n = rng.randrange(1, 400)
        part = text[at:at + n]
        kind = rng.random()
        if kind < 0.4:
            parts.append(part + rng.choice(BORDERS))
        elif kind < 0.6:
            parts.append(part + rng.choice(WORDS))
        elif kind < 0.7:
            parts.append(part.upper() if rng.random() < 0.5 else part.title())
        elif kind < 0.8:
            parts.append(part.replace(" ", rng.choice(["  ", "", "\n", "\t", "\u00a0"])))
        elif kind < 0.85:
            parts.append("".join(part.split()))
        elif kind < 0.9:
            parts.append(unicodedata.normalize("NFD", part))
        elif kind < 0.95:
            parts.append(part.translate({ord(c): rng.choice(POINTS) for c in rng.sample("etaoinshrdlu", 2)}))
        at += n
    return "".join(parts)


def open_shard(path):
    path = str(path)
    if path.endswith(".gz"):
        return gzip.open(path, "rt", encoding="utf-8")
    if path.endswith(".zst"):
        zstd = subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE)
        return io.TextIOWrapper(zstd.stdout, encoding="utf-8")
    return open(path, encoding="utf-8")


def rows(paths):
    """The documents of JSONL shards; of other files their text, in parts."""
    for path in paths:
        if ".jsonl" in pathlib.Path(path).name:
            with open_shard(path) as shard:
                for line in shard:
                    row = json.loads(line)
                    yield row["text"] if "text" in row else row["body"]["content"]
        else:
            data = pathlib.Path(path).read_bytes().decode("utf-8", "ignore")
            for at in range(0, len(data), 1 << 16):
                yield data[at:at + (1 << 16)]


def files_under(paths):
    """Files, and for a folder those of text in it, in an order of their own."""
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            yield from sorted(p for p in path.rglob("*") if p.is_file() and not p.is_symlink()
                              and p.suffix in (".jsonl", ".gz", ".zst", ".c", ".h", ".md", ".py", ".sh", ".txt"))
        else:
            yield path
