#!/usr/bin/env python3
"""Writes server/op/text/unicode_data.c from the behaviour of the reference tokenizer library.

    build/venv/bin/python tests/oracle/unicode_tables.py server/op/text/unicode_data.c

A tokenizer's ids depend on which code points its regex engine calls a letter, a number or a space,
on what its added-token matcher calls a word, on the punctuation and the digits of its pre-tokenizers,
and on the Unicode version of its normaliser: engines with Unicode versions of their own. No published
table describes them, so every code point is asked.
"""
import sys
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co"
              .split())  # in the order of enum lk_category
WORD, NUMERIC, PUNCTUATION = 32, 64, 128
SCRIPTS = ["Arabic", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana",
           "Latin", "Thai"]


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


def isolated(pre_tokenizer):
    """Code points that a pre-tokenizer which isolates single characters cuts out."""
    found = set()
    for at in range(0, len(POINTS), 4096):
        text = "".join("\x01" + chr(c) for c in POINTS[at:at + 4096])
        pieces = [p for p, _ in pre_tokenizer.pre_tokenize_str(text)]
        found.update(ord(p) for p in pieces if len(p) == 1 and p != "\x01")
    return found


def ranges_of(points):
    found = []
    for c in sorted(points):
        if found and found[-1][1] == c - 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def categories():
    """Of every code point: its general category, and what is no consequence of it."""
    kind, known = [0] * 0x110000, {}
    for index, name in enumerate(CATEGORIES):
        known[name] = members(r"\p{%s}" % name)
        for c in known[name]:
            kind[c] = index
    assert sum(map(len, known.values())) == len(POINTS)
    for c in POINTS:
        assert c in known[CATEGORIES[kind[c]]], hex(c)

    def union(*names):
        return set().union(*(known[n] for n in known if n.startswith(names)))
    for name in ("L", "M", "N", "P", "S", "Z", "C"):
        assert members(r"\p{%s}" % name) == union(name)
    spaces = union("Z") | {0x9, 0xA, 0xB, 0xC, 0xD, 0x85}  # as in unicode.c
    assert members(r"\s") == members(r"[\s]") == spaces == strip_characters() == set(POINTS) - members(r"\S")
    strip = normalizers.Strip().normalize_str
    assert spaces == {c for c in POINTS if strip(chr(c)) == ""}
    assert members(r"\d") == members(r"[\d]") == known["Nd"] == set(POINTS) - members(r"\D")
    for flag, points in ((WORD, word_characters()),
                         (NUMERIC, isolated(pre_tokenizers.Digits(individual_digits=True))),
                         (PUNCTUATION, isolated(pre_tokenizers.Punctuation()))):
        for c in points:
            kind[c] |= flag
    ranges, at = [], 0
    while at < 0x110000:
        end = at
        while end + 1 < 0x110000 and kind[end + 1] == kind[at]:
            end += 1
        if kind[at]:
            ranges.append((at, end, kind[at]))
        at = end + 1
    words = members(r"[\w]")
    assert words == members(r"[^\W]") == set(POINTS) - members(r"[^\w]")
    assert members(r"\w") - words == {c for c in known["No"] if c < 256}  # as in regex_parse.c
    assert members(r"\w") == set(POINTS) - members(r"\W")
    plain = union("L", "M", "Nd", "Nl", "Pc")
    assert plain <= words
    return ranges, [("word", words - plain)] + [(s, members(r"\p{%s}" % s)) for s in SCRIPTS]


def lower_case():
    """(first, last, step, distance) of the lower case letters; all but one are one code point."""
    lower = normalizers.Lowercase().normalize_str
    found = []
    for c in POINTS:
        s = lower(chr(c))
        if s == chr(c):
            continue
        if len(s) > 1:
            assert (c, s) == (0x130, "i\u0307")  # as in forms.c
            continue
        last, distance = found[-1] if found else None, ord(s) - c
        if last and last[3] == distance and c - last[1] in (1, 2) and \
                (last[0] == last[1] or last[2] == c - last[1]):
            last[1], last[2] = c, c - last[1]
        else:
            found.append([c, c, 1, distance])
    return found


def accents():
    strip = normalizers.StripAccents().normalize_str
    return ranges_of(c for c in POINTS if strip(chr(c)) == "")


def compatibility():
    """The full decompositions of NFKD where they are not those of NFD."""
    nfd, nfkd = normalizers.NFD().normalize_str, normalizers.NFKD().normalize_str
    return [(c, [ord(x) for x in nfkd(chr(c))]) for c in POINTS if nfkd(chr(c)) != nfd(chr(c))]


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


def decomposition_tables(out, name, decompositions, comment):
    pool, spans = [], []
    for c, points in decompositions:
        spans.append((c, len(pool), len(points)))
        pool.extend(points)
    out.append(f"/* {comment}: code point, first index in the pool, length */")
    table(out, f"static const struct lk_decomposition {name}s[]",
          [f"{{{c:#x},{a},{n}}}" for c, a, n in spans])
    table(out, f"static const uint32_t {name}_pool[]", [f"{c:#x}" for c in pool])
    out.append(f"const struct lk_decompositions lk_{name} = {{{name}s, {len(spans)}, {name}_pool}};\n")


def ranges_table(out, name, ranges, declaration="static const struct lk_range"):
    table(out, f"{declaration} {name}[]", ["{" + ",".join([f"{r[0]:#x}", f"{r[1]:#x}", *map(str, r[2:])]) + "}"
                                           for r in ranges])


def main():
    import tokenizers
    decompositions, compositions, combining = normal_forms()
    out = ["/*",
           " * Generated by tests/oracle/unicode_tables.py from the behaviour of the reference tokenizer",
           f" * library, version {tokenizers.__version__}; see there for why. Do not edit.",
           " */", '#include "op/text/unicode_data.h"\n']
    out.append("/* first, last, category and flags; what is not listed is LK_CATEGORY_CN without flags */")
    kinds, properties = categories()
    ranges_table(out, "lk_category_ranges", kinds, "const struct lk_class_range")
    out.append(f"const size_t lk_category_ranges_n = {len(kinds)};\n")
    for name, points in properties:
        ranges_table(out, name.lower(), ranges_of(points))
    table(out, "const struct lk_property lk_properties[]",
          [f'{{"{name}",{name.lower()},{len(ranges_of(points))}}}' for name, points in properties])
    out.append(f"const size_t lk_properties_n = {len(properties)};\n")
    ranges_table(out, "lk_ccc_ranges", combining, "const struct lk_class_range")
    out.append(f"const size_t lk_ccc_ranges_n = {len(combining)};\n")
    decomposition_tables(out, "canonical", decompositions, "full canonical decompositions")
    decomposition_tables(out, "compatible", compatibility(), "full decompositions of NFKD that differ from these")
    out.append("/* left, right, composed; sorted by left, then right */")
    table(out, "const struct lk_composition lk_compositions[]",
          [f"{{{a:#x},{b:#x},{c:#x}}}" for a, b, c in compositions])
    out.append(f"const size_t lk_compositions_n = {len(compositions)};\n")
    out.append("/* upper case: first, last, step, distance to the lower case */")
    lower = lower_case()
    ranges_table(out, "lk_case_ranges", lower, "const struct lk_case_range")
    out.append(f"const size_t lk_case_ranges_n = {len(lower)};\n")
    marks = accents()
    ranges_table(out, "lk_accent_ranges", marks, "const struct lk_range")
    out.append(f"const size_t lk_accent_ranges_n = {len(marks)};")
    with open(sys.argv[1], "w", encoding="utf-8") as f:
        f.write("\n".join(out) + "\n")


main()
