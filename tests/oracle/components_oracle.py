#!/usr/bin/env python3
"""Compares every normalizer and pre_tokenizer with the reference's own.

    components_oracle.py [--quick] [--seed N] [--only TEXT] PROGRAM

PROGRAM is components_main. Each component, and sequences of them, is given every code point (--quick: those
where the kind changes, and a sample) alone and between others, and random mixes of what its borders
consist of. What must be refused is checked to be refused, at the JSON path where it stands.
"""
import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def spelling():
    """GPT-2's characters for bytes, and back."""
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in kept]
    return {**{b: chr(b) for b in kept}, **{b: chr(0x100 + i) for i, b in enumerate(others)}}


BYTE_OF = {c: b for b, c in spelling().items()}


def tokenizer_json(normalizer, pre_tokenizer):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": True, "vocab": {"a": 0}, "merges": []}}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def level(regex=False):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


def sequence(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def digits(individual):
    return {"type": "Digits", "individual_digits": individual}


def punctuation(behavior):
    return {"type": "Punctuation", "behavior": behavior}


def replace(old, new):
    return {"type": "Replace", "pattern": {"String": old}, "content": new}


METASPACE = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "never", "split": True}
BEHAVIORS = ["Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]

TAIL = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+%s|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER
         + "*%s")
SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
FAMILIES = [
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL,
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
    r"|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL,
    CASED % (SUFFIX, SUFFIX) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL,
    CASED % ("", "") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*" + TAIL,
]
DEEPSEEK = [
    r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
# Known ones with a group around them, so that no scanner of their own takes them.
EXPRESSIONS = ["(?:" + f + ")" for f in FAMILIES] + ["(?:" + d + ")" for d in DEEPSEEK] + [
    BLOOM, "(?:" + BLOOM + ")", "[0-9][0-9][0-9]", r"\s+", r"\S+",
    r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}&&[^\p{Han}]]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*" + TAIL,
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}&&[^\p{Han}]]+|.", r"\p{Hiragana}+|\p{Katakana}+|\p{Hangul}+|\p{Latin}+",
    r"\p{Greek}|\p{Cyrillic}+|\p{Arabic}+|\p{Hebrew}|\p{Thai}+|\p{Devanagari}+",
    r"\w+|[^\w\s]+", r"\W+", r"[\w]+", r"[^\w]+", r"[\W_]+", r"\D+", r"[\D]", r"[^\s\d]+", r"\P{L}+", r"\p{^L}+",
    r"[\P{L}a-f]+", r"[^\P{L}a-f]+", r"[[a-z][^x]&&[^aeiou]]+", r"[^a-z&&[^aeiou]]+", r"[a-z&&b-y&&c-x]+",
    r"a+?b|a|b+", r"(?:ab|a)(?:bc|c)?", r"(a|ab)(c|bcd)(d*)", r"(?:a|b)*?c|[ab]", r"a{2}|a{3,}|b{1,2}?|c{,2}c",
    r"(?:ab){1,2}|(?:ab)+c", r"a*+b|a", r"a?+ab|a|b", r"[ab]++c|.", r".", r".+", r".+?$", r"\s+$|\s", r"a\z|b$|.",
    r"(?=a)\p{L}+|(?!a)\p{L}", r"\S+(?=\s)|\S", r"a(?=b(?!c))|.", r"(?i:[a-fks]+)|.", r"(?i:k's|x)+|[^k]",
    "(?i:['\u2019](?:s|d|m|t|ll|ve|re))|.", r"[-a]+|[b-]+|[\]\[\-]", r"\x41+|\x{1F600}+|\u0301+|\t|\-|\ ",
    r"[\x00-\x1f]+|[\u3000-\u30ff]+", r"]+|}+", "\u00e9+|\u4e2d", r"(?:(?:a|b|c)+(?: |\n)?)+|[^abc]",
    r"\p{Lu}\p{Ll}+|\p{Uppercase_Letter}+|\p{letter}", r"[\p{Sm}\p{Sc}\p{Sk}]+|\p{So}|\p{Pd}|\p{Ps}|\p{Pe}|\p{Pi}|\p{Pf}",
    r"\p{Mn}+|\p{Mc}|\p{Me}|\p{Nd}+|\p{Nl}|\p{No}|\p{Zs}+|\p{Zl}|\p{Zp}|\p{Pc}|\p{Po}", r"[\t-\r]+|[ -~]+|\v|\f|\a|\e",
    r"(?:\r\n|[\r\n])|[^\r\n]+", r"\s*x|\s", r"(?:\s*[ab])*c|.",
]
NORMALIZERS = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")] + [
    {"type": "Strip", "strip_left": left, "strip_right": right} for left in (True, False) for right in (True, False)
] + [
    {"type": "Prepend", "prepend": "\u2581"}, {"type": "Prepend", "prepend": "ab"}, replace(" ", "\u2581"),
    replace("aa", "a"), replace("\u0301", ""), replace(".", "e\u0301"), {"type": "Sequence", "normalizers": []},
    {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"},
                                         {"type": "Strip", "strip_left": True, "strip_right": True}]},
    {"type": "Sequence", "normalizers": [replace("\u00e9", "e\u0301"), {"type": "NFC"}, replace(" ", "  "),
                                         {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}]},
    {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": " "}, replace(" ", "\u2581"),
                                         {"type": "NFKC"}]},
]
PRE_TOKENIZERS = (
    [split(e) for e in FAMILIES + EXPRESSIONS]
    + [split(r"\s+|a|'s", b, i) for b in BEHAVIORS for i in (False, True)]
    + [split(r"a|b", b, i) for b in BEHAVIORS for i in (False, True)]
    + [split(" ", b, i, "String") for b in BEHAVIORS for i in (False, True)]
    + [split("ab", b, False, "String") for b in BEHAVIORS] + [split("(a.", "Isolated", False, "String")]
    + [split(FAMILIES[2], "Removed", True), split("(?:" + FAMILIES[0] + ")", "Removed", True)]
    + [digits(True), digits(False)] + [punctuation(b) for b in BEHAVIORS]
    + [METASPACE, {**METASPACE, "split": False}]
    + [sequence(METASPACE, digits(True)), sequence(METASPACE, split("\u2581", "MergedWithPrevious", False, "String"))]
    + [level(), level(True), sequence(digits(True), level(True)), sequence(digits(False), level()),
       sequence(*map(split, DEEPSEEK), level()), sequence(split(BLOOM), level()),
       sequence(punctuation("Contiguous"), level(True), digits(False), split("[0-9][0-9][0-9]")),
       sequence(level(True), digits(True)), sequence(level(True), digits(False)), sequence(level(), punctuation("Isolated")),
       sequence(level(), punctuation("MergedWithNext")), sequence(level(), split(r"\w+|[^\w\s]+")),
       sequence(level(), split("\u0120", "MergedWithNext", False, "String")),
       sequence(level(), split(" ", "Isolated", False, "String")),
       sequence(level(), split("\u0120?\\p{L}+|[\u00a0-\u0143]+$|.")), sequence(level(), split(r"\s+|\p{L}+$|.+\z")),
       sequence(sequence(digits(False), split(r"\p{L}+")), punctuation("Contiguous"), level(True))])

REFUSED = [  # pre_tokenizer, part of the message
    (split(r"\ba"), "$.pre_tokenizer.pattern.Regex"), (split("^a"), "^"), (split(r"(?<=a)b"), "group"),
    (split(r"(a)\1"), "escape"), (split(r"(?>a)"), "group"), (split(r"a{1,2}+"), "interval"), (split(r"a{2}?"), "interval"),
    (split(r"(?i:\p{L})"), "(?i:"), (split(r"(?i:ss)"), "(?i:"), (split(r"(?i:f(?:l|x))"), "(?i:"), (split("(?i:\u00e9)"), "(?i:"),
    (split(r"a*"), "empty"), (split(r"(?:a|)"), "empty"), (split(r"(?:a*)*b"), "empty"), (split(r"(?:ab)?+c"), "possessive"),
    (split(r"[[:alpha:]]"), "POSIX"), (split(r"\p{Emoji}"), "property"), (split(r"(?=a+)b"), "ahead"), (split(r"a**"), "quantifier"),
    (split(r"(?i)a"), "group"), (split(r"[]a]"), "class"), (split(r"a{,}"), "brace"), (split(r"\xe9"), "escape"), (split(r"\h"), "escape"),
    (split(r"\s+", "Removed"), "Removed"), (split(r"\p{L}+", "Removed", True), "lost"), (split("", kind="String"), "empty"),
    (split("a", "Removed", True, "String"), "lost"), (split("(a"), "group"), (split("a)"), ")"), (split("[a"), "class"),
    (punctuation("Removed"), "Removed"), ({"type": "Whitespace"}, "white space"), ({"type": "BertPreTokenizer"}, "white space"),
    ({"type": "UnicodeScripts"}, "UnicodeScripts"), (sequence(level(), level()), "pretokenizers[1]"),
    (sequence(digits(True), METASPACE), "Metaspace"),
    (sequence(digits(True), {**level(), "add_prefix_space": True}), "add_prefix_space"),
]
REFUSED_NORMALIZERS = [
    ({"type": "BertNormalizer"}, "$.normalizer: a normalizer of type"), ({"type": "Nmt"}, "Nmt"), ({"type": "ByteLevel"}, "ByteLevel"),
    ({"type": "Precompiled", "precompiled_charsmap": ""}, "Precompiled"), (replace("", "x"), "empty"), (replace("a", "x" * 300), "300"),
    ({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}, "pattern.Regex"),
    ({"type": "Sequence", "normalizers": [{"type": "NFC"}] * 17}, "normalizers[16]"),
]

PIECES = (list(" \n\t\r'\u2019.,!?0123\u00b2\u00bd\u0663abcxyzefklstEFKLSTR\u2581-_/\\(){}[]&|~^`$<=>+\u00e9\u00c9\u0301\u0327"
               "\u017f\u212aK\u00df\u4e2d\u6587\u3072\u30ab\ud55c\u1100\u1161\u11a8\u200b\u200d\u3000\x85\xa0\u2163\u2167\u2026"
               "\u3002\u060c\u0964\u06d4\U0001f600\U00010400\u0130\u03a3\ufb01\u01c5\u02b0\u0915\u093f\u0e01\x00\x1c\x7f\ufffd\u180e")
          + ["'s", "'LL", "  ", "\r\n", "\n\n", "123", "ab", "aab", "abc", "e\u0301", "\u0958", "\U0001f469\u200d", " a", "\u2581\u2581"])
SHAPES = ["a{0}b", " {0} ", "1{0}{0}1", "'{0}", "{0}", "a {0}a", "e{0}\u0301"]


def interesting(rng):
    kind = [unicodedata.category(chr(c)) for c in range(0x110000)]
    edges = {c + d for c in range(1, 0x110000) if kind[c] != kind[c - 1] for d in (-1, 0)}
    chosen = edges | set(range(0x250)) | set(range(0x2000, 0x2100)) | set(rng.sample(POINTS, 300))
    return sorted(c for c in chosen if not 0xD800 <= c < 0xE000)


def texts(rng, quick):
    points = interesting(rng) if quick else POINTS
    shapes = rng.sample(SHAPES, 2) if quick else SHAPES
    for shape in shapes:
        for at in range(0, len(points), 64):
            yield ",\n".join(shape.format(chr(c)) for c in points[at:at + 64])
    for _ in range(200 if quick else 20000):
        few = rng.sample(PIECES, 4) if rng.random() < 0.5 else PIECES
        yield "".join(rng.choice(few) for _ in range(rng.randrange(1, 40)))
    for piece in PIECES:
        yield piece
        yield piece * (30 if quick else 300)
        yield piece * 30 + "a" + piece * 30


class Ours:
    def __init__(self, program, normalizer, pre_tokenizer):
        self.program, self.file = program, tokenizer_json(normalizer, pre_tokenizer)

    def run(self, documents):
        with tempfile.TemporaryDirectory() as directory:
            with open(os.path.join(directory, "tokenizer.json"), "w", encoding="utf-8") as f:
                json.dump(self.file, f)
            sent = b"".join(struct.pack("<I", len(d)) + d for d in documents)
            return subprocess.run([self.program, directory], input=sent, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, check=False)

    def results(self, documents):
        done = self.run(documents)
        if done.returncode != 0:
            raise SystemExit(f"{json.dumps(self.file)}: status {done.returncode}: {done.stderr.decode()}")
        out, at = done.stdout, 0

        def block():
            nonlocal at
            n, = struct.unpack_from("<I", out, at)
            at += 4 + n
            return out[at - n:at]
        for _ in documents:
            normal, section = block(), block()
            n, = struct.unpack_from("<I", out, at)
            lengths = struct.unpack_from(f"<{n}I", out, at + 4)
            at += 4 + 4 * n
            pieces, start = [], 0
            for length in lengths:
                pieces.append(section[start:start + length])
                start += length
            if start != len(section):
                raise SystemExit("pieces that are not the text")
            yield normal, pieces


def pieces_of(reference, text):
    """None where the reference's engine gives up, by a panic."""
    try:
        return [p for p, _ in reference.pre_tokenizer.pre_tokenize_str(text)]
    except BaseException as e:  # PanicException is no Exception
        if type(e).__name__ != "PanicException":
            raise
        return None


def spelled(pre_tokenizer):
    return "ByteLevel" in json.dumps(pre_tokenizer)


def differ(name, text, theirs, ours):
    """Tells where; false."""
    at = next((i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b), min(len(theirs), len(ours)))
    print(f"{name}: differs at {at}\n  text      {ascii(text)[:400]}\n  reference {theirs[max(0, at - 2):at + 4]}\n"
          f"  ours      {ours[max(0, at - 2):at + 4]}", flush=True)
    return False


def compare(args, normalizer, pre_tokenizer, rng):
    name = json.dumps(pre_tokenizer if pre_tokenizer is not None else normalizer, ensure_ascii=True)
    if args.only and args.only not in name:
        return True
    reference = Tokenizer.from_str(json.dumps(tokenizer_json(normalizer, pre_tokenizer)))
    documents = list(texts(rng, args.quick))
    ours = Ours(args.program, normalizer, pre_tokenizer).results([d.encode() for d in documents])
    byte_level = spelled(pre_tokenizer)
    for text, (normal, pieces) in zip(documents, ours):
        if normalizer is not None:
            theirs = reference.normalizer.normalize_str(text).encode()
            if theirs != normal:
                return differ(name, text, theirs, normal)
        if pre_tokenizer is not None:
            theirs = pieces_of(reference, text)
            if theirs is None:
                continue
            theirs = [bytes(BYTE_OF[c] for c in p) if byte_level else p.encode() for p in theirs]
            if theirs != pieces:
                return differ(name, text, theirs, pieces)
    return True


def check_refused(args):
    for part, message in REFUSED + REFUSED_NORMALIZERS:
        normal = (part, message) in REFUSED_NORMALIZERS
        done = Ours(args.program, part if normal else None, level() if normal else part).run([b"a"])
        if done.returncode != 3 or message not in done.stderr.decode():
            raise SystemExit(f"{json.dumps(part)}: status {done.returncode}, expected a refusal with {message!r}: "
                             f"{done.stderr.decode()}")


# On a run of one letter each attempt looks at all of it: quadratic time,
HARD = [r"\s*x|\s", r"a*+b|.", r"a*?b|a", r"(?:\s*[ab])*c|.", r"(?:a|b)*(?: x|y)|\S", r"(?:ab?|\s)+?x|[ab]", r"a+(?!a| )x|a\s*|x"]
# and here more than anyone has: both give up on some texts, if not on the same.
HARDER = [r"(?:a+)+b|a", r"(?:x+x+)+y|x", r"(?:a|aa)+$|b", r"a*?a*?a*?b|a", r"[ab]*?[bx]+ |a\s*|b", r"(?:a|b|ab)*(?: x|y)|\S"]
GAVE_UP = b"takes too many steps or too much memory"


def check_hard(args, rng):
    """Expressions that backtrack, on texts made to have them do it: equal where neither gives up, which for
    us is an end that says so."""
    for expression in HARD + HARDER:
        n = 120 if expression in HARDER else 2000
        documents = [c * n + tail for c in " abx" for tail in ("", "b", "x y")]
        documents += ["".join(rng.choice(few) for _ in range(n)) for few in ("a ", "ab", "a  x", "xxxy", "aab ")]
        part = split(expression, rng.choice(BEHAVIORS))
        if args.only and args.only not in json.dumps(part):
            continue
        reference = Tokenizer.from_str(json.dumps(tokenizer_json(None, part)))
        ours, gave_up = Ours(args.program, None, part), 0
        for text in documents:
            done = ours.run([text.encode()]) if expression in HARDER else None
            if done is not None and done.returncode == -signal.SIGABRT and GAVE_UP in done.stderr:
                gave_up += 1
                continue
            (_, pieces), = ours.results([text.encode()])
            theirs = pieces_of(reference, text)
            if theirs is not None and [p.encode() for p in theirs] != pieces:
                return differ(json.dumps(part), text, [p.encode() for p in theirs], pieces)
        if gave_up == len(documents):
            raise SystemExit(f"{expression}: no text at all is cut")
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="components whose JSON has this in it")
    parser.add_argument("program", help="components_main")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    check_refused(args)
    with open(os.devnull, "w", encoding="utf-8") as null:
        os.dup2(null.fileno(), 2)  # the reference's panics
    same = [check_hard(args, rng)]
    same += [compare(args, normalizer, None, rng) for normalizer in NORMALIZERS]
    same += [compare(args, None, pre_tokenizer, rng) for pre_tokenizer in PRE_TOKENIZERS]
    if not all(same):
        return 1
    print(f"components: {len(NORMALIZERS)} normalizers, {len(PRE_TOKENIZERS)} pre_tokenizers: equal; "
          f"{len(REFUSED) + len(REFUSED_NORMALIZERS)} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main())
