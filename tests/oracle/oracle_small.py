"""Tokenizers made for the comparison: of random small vocabularies, and those that cases name with
their ids."""
import json

ADDED = ["ab", "a", "<a>", "<a>b", "[M]", " b", "é", "e\u0301", "\u00e9c", "_a_", "  ", "c\n"]
LETTERS = ["Ġ", "a", "b", "c", "_", "-", "Ċ", "<", ">", "Ã", "©", "Ì", "ģ", "e"]
PLAIN = ["\u2581", "a", "b", "c", "_", "-", "<", ">", "é", "e", "\u0301", " ", "\n"]
PIECES = ["a", "b", "c", "_", "-", " ", "  ", "\n", "<", ">", "<a>", "<a>b", "[M]", "ab", "é", "e\u0301", "e",
          "\u00e9c", "_a_", "z", "\u00a0", "\u0301", "\u2581", "<0x61>", "\u4e2d", "1"]

A = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
B = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
C = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
# One after the other each cuts what the one before has left whole.
EXPRESSIONS = [
    [A + "*" + B + "+" + C + "|" + A + "+" + B + "*" + C
     + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    [A + "*" + B + "+|" + A + "+" + B + "*"
     + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    [r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    [r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    [r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
     r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^""" "\r\n" r"""\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
     r"""| ?[\p{P}\p{S}]+[""" "\r\n" r"""]*|\s*[\r\n]+|\s+(?!\S)|\s+"""],
    [" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"],
]
MODEL = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
         "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}


def level(use_regex=False, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def splits(expressions):
    return [{"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}
            for expression in expressions]


def words(rng, letters, longest=9):
    """A vocabulary and its merges; some merges tie, some words no merge makes."""
    vocab = {s: i for i, s in enumerate(letters)}
    merges = []
    for _ in range(rng.randrange(0, 25)):
        left, right = rng.choice(list(vocab)), rng.choice(list(vocab))
        if len(left + right) < longest:
            vocab.setdefault(left + right, len(vocab))
            merges.append([left, right])
    for _ in range(rng.randrange(0, 4)):
        vocab.setdefault("".join(rng.choice(letters[:9]) for _ in range(rng.randrange(2, 5))), len(vocab))
    if merges and all(" " not in part for merge in merges for part in merge) and rng.random() < 0.5:
        merges = [" ".join(merge) for merge in merges]
    return vocab, merges


def added_tokens(rng, vocab):
    added, next_id = [], len(vocab)
    for content in rng.sample(ADDED, rng.randrange(0, 6)):
        if content == "e\u0301" and any(a["content"] == "\u00e9" for a in added) or \
                content == "\u00e9" and any(a["content"] == "e\u0301" for a in added):
            continue  # equal in NFC: the reference takes either, by chance
        token_id = vocab.get(content)
        if token_id is None:
            token_id, next_id = next_id, next_id + 1
        flags = {k: rng.random() < 0.4 for k in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        added.append({"id": token_id, "content": content, **flags})
    return added


def file_of(vocab, merges, **parts):
    model = {**MODEL, **{k: parts.pop(k) for k in list(parts) if k in MODEL}, "vocab": vocab, "merges": merges}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, **parts, "model": model}


def of_bytes(rng):
    """A byte-level one, with everything that is allowed to vary."""
    vocab, merges = words(rng, LETTERS)
    kind = rng.random()
    if kind < 0.4:
        cut = level(rng.random() < 0.5, rng.random() < 0.3)
    elif kind < 0.8:
        cut = {"type": "Sequence", "pretokenizers": splits(rng.choice(EXPRESSIONS)) + [level()]}
    elif kind < 0.9:
        cut = {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": rng.random() < 0.5}, level(True)]}
    else:
        cut = {"type": "Sequence", "pretokenizers": [
            {"type": "Punctuation", "behavior": "Contiguous"}, level(True),
            {"type": "Digits", "individual_digits": False}] + splits(["[0-9][0-9][0-9]"])}
    return file_of(vocab, merges, added_tokens=added_tokens(rng, vocab),
                   normalizer=rng.choice([None, {"type": "NFC"}]), pre_tokenizer=cut, decoder=level(True, True),
                   ignore_merges=rng.random() < 0.3)


def of_pieces(rng):
    """One over characters, as SentencePiece makes them: with or without byte tokens and an unknown token."""
    letters = PLAIN[:rng.randrange(4, len(PLAIN) + 1)]
    if rng.random() < 0.15:
        letters = letters[1:]  # the mark has no token: it is its bytes, or unknown
    unknown = rng.random() < 0.7
    letters = (["<unk>"] if unknown else []) + letters
    vocab, merges = words(rng, letters)
    merges = [m for m in merges if "<unk>" not in "".join(m)]
    fallback = rng.random() < 0.6
    if fallback:
        for byte in range(256) if rng.random() < 0.7 else rng.sample(range(256), 200):
            vocab.setdefault(f"<0x{byte:02X}>", len(vocab))
    prepend, replace = {"type": "Prepend", "prepend": "\u2581"}, \
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    normalizer, cut = None, None
    kind = rng.random()
    if kind < 0.35:
        normalizer = {"type": "Sequence", "normalizers": [prepend, replace]}
    elif kind < 0.6:
        normalizer = replace
        cut = rng.choice([None, {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious",
                                 "invert": False}])
    else:
        cut = {"type": "Metaspace", "replacement": "\u2581", "split": rng.random() < 0.5,
               "prepend_scheme": rng.choice(["first", "always", "never"])}
    return file_of(vocab, merges, added_tokens=added_tokens(rng, vocab), normalizer=normalizer, pre_tokenizer=cut,
                   unk_token="<unk>" if unknown else None, fuse_unk=rng.random() < 0.5, byte_fallback=fallback,
                   ignore_merges=rng.random() < 0.3)


def with_expressions(source, expressions):
    """The tokenizer.json @source with other expressions: its merges show where pieces end."""
    return {**source, "pre_tokenizer": {"type": "Sequence", "pretokenizers": splits(expressions) + [level()]}}


# What cases say, word for word --------------------------------------------------------------------


def plain(vocab, merges, **parts):
    """A file over bytes, whose letters are ASCII but for the space."""
    return file_of({k.replace(" ", "Ġ"): v for k, v in vocab.items()},
                   [[part.replace(" ", "Ġ") for part in m] for m in merges], pre_tokenizer=level(), **parts)


def token(content, token_id, **flags):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True, **flags}


def cases():
    """(number and what it is, file, {text: ids}, does the reference agree?)"""
    abc = {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "bc": 5}
    for dropout in (1.0, 0.1):
        yield f"RC-023 dropout {dropout}", plain({"a": 0, "b": 1, "c": 2, "ab": 3}, [["a", "b"]], dropout=dropout), \
            {"ab": [3]}, False
    for ignore, ids in ((True, [4]), (False, [0, 5])):
        yield f"RC-054 ignore_merges {ignore}", plain(abc, [["b", "c"]], ignore_merges=ignore), \
            {"abc": ids, "abcb": [0, 5, 1]}, True
    for merges, ids in (([["b", "c"], ["a", "b"]], [0, 5]), ([["a", "b"], ["b", "c"]], [3, 2]),
                        ([["a", "b"], ["b", "c"], ["ab", "c"]], [4])):
        yield f"RC-055 merges {merges}", plain(abc, merges), {"abc": ids}, True
    runs = [[0], [1], [1, 0], [2], [2, 0], [2, 1], [2, 1, 0]]
    yield "RC-055 ties", plain({"a": 0, "aa": 1, "aaaa": 2}, [["a", "a"], ["aa", "aa"]]), \
        {"a" * (i + 1): ids for i, ids in enumerate(runs)}, True
    yield "RC-057 pairs with spaces", plain({" ": 0, "  ": 1, "    ": 2}, [[" ", " "], ["  ", "  "]]), \
        {" " * 7: [2, 1, 0]}, True
    for flags, ids in (({"lstrip": True}, [1, 2, 0, 0, 1]), ({"rstrip": True}, [1, 0, 0, 2, 1]),
                       ({}, [1, 0, 0, 2, 0, 0, 1])):
        yield f"RC-061 {flags}", plain({" ": 0, "a": 1}, [], added_tokens=[token("[M]", 2, **flags)]), \
            {"a  [M]  a": ids}, True
    yield "RC-062 single_word", plain({" ": 0, "a": 1, "b": 2, "_": 3, "-": 4}, [],
                                      added_tokens=[token("ab", 5, single_word=True)]), \
        {"ab": [5], "aab": [1, 1, 2], "ab ab": [5, 0, 5], "ab_": [1, 2, 3], "ab-ab": [5, 4, 5]}, True
    yield "RC-062 overlapping", plain({"<": 0, "a": 1, ">": 2, "b": 3}, [],
                                      added_tokens=[token("<a>", 4), token("<a>b", 5)]), \
        {"<a>b": [5], "<a>a": [4, 1], "<<a>": [0, 4]}, True
    yield "RC-064 no unknown token", file_of({"a": 0}, []), {"aza": [0, 0]}, True
    for fuse, ids in ((False, [0, 1, 1, 0]), (True, [0, 1, 0])):
        yield f"RC-064 fuse_unk {fuse}", file_of({"a": 0, "<unk>": 1}, [], unk_token="<unk>", fuse_unk=fuse), \
            {"azza": ids}, True
    yield "RC-064 byte_fallback", file_of({"<unk>": 0, "<0xC3>": 1, "<0xA9>": 2, "e": 3}, [], unk_token="<unk>",
                                          byte_fallback=True), \
        {"\u00e9": [1, 2], "e\u0301": [3, 0], "\u00e9e": [1, 2, 3]}, True
    # As the case has it, over characters; the letter of two bytes over bytes is in test_tokenizer.c.
    yield "RC-065 NFC", file_of({"\u00e9": 0, "e": 1, "\u0301": 2}, [], normalizer={"type": "NFC"}), \
        {"\u00e9": [0], "e\u0301": [0]}, True
    yield "RC-067 truncation", plain({"a": 0, "b": 1}, [], truncation={
        "direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}), \
        {"ababab": [0, 1, 0, 1, 0, 1]}, False
    yield "RC-067 padding", plain({"a": 0, "b": 1}, [], padding={
        "strategy": {"Fixed": 6}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 7, "pad_type_id": 0,
        "pad_token": "[PAD]"}), {"ab": [0, 1]}, False
    # Falcon's own vocabulary is not to be had; where it cuts two spaces is its components' doing.
    yield "RC-053 two spaces before a word", file_of(
        {"H": 0, "Ġ": 1, "W": 2, "ĠW": 3, "ĠĠ": 4, "HĠ": 5, "1": 6, "11": 7, "111": 8, "Ġ1": 9, "!": 10, "Ġ!": 11},
        [["Ġ", "Ġ"], ["Ġ", "W"], ["H", "Ġ"], ["1", "1"], ["11", "1"], ["Ġ", "1"], ["Ġ", "!"]],
        pre_tokenizer={"type": "Sequence", "pretokenizers": [
            {"type": "Punctuation", "behavior": "Contiguous"}, level(True),
            {"type": "Digits", "individual_digits": False}] + splits(["[0-9][0-9][0-9]"])}), \
        {"H  W": [0, 1, 3], "H W": [0, 3], "H  W 1111": [0, 1, 3, 1, 8, 6], "H !": [0, 1, 10]}, True


def text_of(file):
    return json.dumps(file, ensure_ascii=False)
