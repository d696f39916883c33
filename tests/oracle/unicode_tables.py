#!/usr/bin/env python3
"""Writes server/op/text/unicode_data.c from the behaviour of the reference tokenizer library.

    build/venv/bin/python tests/oracle/unicode_tables.py server/op/text/unicode_data.c

A tokenizer's ids depend on which code points its regex engine calls a letter, a number or a space,
on what its added-token matcher calls a word, and on the Unicode version of its normaliser: three
engines with three Unicode versions. No published table describes them, so every code point is asked.
"""
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CLASSES = [  # in the order of enum lk_class
    ("UPPER", r"[\p{Lu}\p{Lt}]"),
    ("LOWER", r"\p{Ll}"),
    ("LETTER", r"[\p{Lm}\p{Lo}]"),
    ("MARK", r"\p{M}"),
    ("NUMBER", r"\p{N}"),
    ("SPACE", r"\s"),
]
WORD = 8


def members(pattern):
    """Code points that the reference's regex engine matches."""
    split = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    found = set()
    for at in range(0, len(POINTS), 4096):
        text = "".join(map(chr, POINTS[at:at + 4096]))
        for piece, _ in split.pre_tokenize_str(text):
            found.update(map(ord, piece))
    return found


def word_characters():
    """\\w of the added-token matcher: a single_word token does not match beside one."""
    tokenizer = Tokenizer(models.BPE({"a": 0}, []))
    tokenizer.add_tokens([AddedToken("ab", single_word=True, normalized=False)])
    encodings = tokenizer.encode_batch([chr(c) + "ab" for c in POINTS], add_special_tokens=False)
    return {c for c, e in zip(POINTS, encodings) if 1 not in e.ids}


def strip_characters():
    """\\s of the added-token matcher: what rstrip swallows."""
    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    tokenizer.add_tokens([AddedToken("[M]", rstrip=True, normalized=False)])
    encodings = tokenizer.encode_batch(["[M]" + chr(c) for c in POINTS], add_special_tokens=False)
    return {c for c, e in zip(POINTS, encodings) if e.offsets[0][1] == 4}


def class_ranges():
    kind = [0] * 0x110000
    for index, (_, pattern) in enumerate(CLASSES):
        for c in members(pattern):
            assert kind[c] == 0, hex(c)
            kind[c] = index + 1
    assert {c for c in POINTS if kind[c] in (1, 2, 3)} == members(r"\p{L}")
    assert {c for c in POINTS if kind[c] == 6} == strip_characters()
    for c in word_characters():
        kind[c] |= WORD
    ranges, at = [], 0
    while at < 0x110000:
        end = at
        while end + 1 < 0x110000 and kind[end + 1] == kind[at]:
            end += 1
        if kind[at]:
            ranges.append((at, end, kind[at]))
        at = end + 1
    return ranges


def combining_classes(nfd):
    """(first, last, class) by the order in which the reference sorts marks."""
    def swapped(a, b):
        return nfd(a + b) == b + a and a != b

    low, high = "\u0334", "\u0345"  # classes 1 and 240, as old as Unicode itself
    marks = [chr(c) for c in POINTS if swapped(high, chr(c)) or swapped(chr(c), low)]
    known = {}  # one code point of each class; those newer than the reference are no marks to it
    for s in marks:
        known.setdefault(unicodedata.combining(s), s)
    order = sorted(known)

    found = []
    for s in marks:
        if nfd(s) != s:
            continue
        same = [k for k in order if not swapped(known[k], s) and not swapped(s, known[k])]
        assert len(same) == 1, (hex(ord(s)), same)
        found.append((ord(s), same[0]))
    ranges = []
    for c, k in found:
        if ranges and ranges[-1][1] == c - 1 and ranges[-1][2] == k:
            ranges[-1][1] = c
        else:
            ranges.append([c, c, k])
    return ranges


def normal_forms():
    nfd = normalizers.NFD().normalize_str
    nfc = normalizers.NFC().normalize_str
    decompositions, compositions = [], []
    for c in POINTS:
        s = chr(c)
        d = nfd(s)
        if d == s or 0xAC00 <= c < 0xAC00 + 11172:
            continue
        decompositions.append((c, [ord(x) for x in d]))
        if nfc(s) == s:
            head = nfc(d[:-1])
            assert len(head) == 1 and nfc(head + d[-1]) == s, hex(c)
            compositions.append((ord(head), ord(d[-1]), c))
    return decompositions, sorted(compositions), combining_classes(nfd)


def rows(items, width=100):
    line = ""
    for item in items:
        if len(line) + len(item) + 1 > width:
            yield line
            line = ""
        line += item + ","
    if line:
        yield line


def table(out, declaration, items):
    out.append(declaration + " = {")
    out.extend(rows(items))
    out.append("};\n")


def main():
    import tokenizers
    decompositions, compositions, combining = normal_forms()
    pool, spans = [], []
    for c, points in decompositions:
        spans.append((c, len(pool), len(points)))
        pool.extend(points)
    out = ["/*",
           " * Generated by tests/oracle/unicode_tables.py from the behaviour of the reference tokenizer",
           f" * library, version {tokenizers.__version__}; see there for why. Do not edit.",
           " */", '#include "op/text/unicode.h"\n']
    out.append("/* first, last, class (with LK_CLASS_WORD); what is not listed is LK_CLASS_OTHER */")
    ranges = class_ranges()
    table(out, "const struct lk_class_range lk_class_ranges[]",
          [f"{{{a:#x},{b:#x},{k}}}" for a, b, k in ranges])
    out.append(f"const size_t lk_class_ranges_n = {len(ranges)};\n")
    table(out, "const struct lk_class_range lk_ccc_ranges[]",
          [f"{{{a:#x},{b:#x},{k}}}" for a, b, k in combining])
    out.append(f"const size_t lk_ccc_ranges_n = {len(combining)};\n")
    out.append("/* full canonical decompositions: code point, first index in the pool, length */")
    table(out, "const struct lk_decomposition lk_decompositions[]",
          [f"{{{c:#x},{a},{n}}}" for c, a, n in spans])
    out.append(f"const size_t lk_decompositions_n = {len(spans)};\n")
    table(out, "const uint32_t lk_decomposition_pool[]", [f"{c:#x}" for c in pool])
    out.append("/* left, right, composed; sorted by left, then right */")
    table(out, "const struct lk_composition lk_compositions[]",
          [f"{{{a:#x},{b:#x},{c:#x}}}" for a, b, c in compositions])
    out.append(f"const size_t lk_compositions_n = {len(compositions)};")
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


main()
