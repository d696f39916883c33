#!/usr/bin/env python3
"""graft.py TOKENIZERS OUT [PATTERN]: tokenizer.json files like those of models whose own cannot be fetched.

Each is the published file of its model but for the vocabulary, which is taken from a tokenizer in
TOKENIZERS (fetch_tokenizers.sh): how text is normalised, cut and looked up is the model's own, and merges
of any vocabulary show where. Written to OUT/<name>/tokenizer.json; those whose vocabulary is not there
are left out. PATTERN: those alone whose names match.
"""
import fnmatch
import json
import pathlib
import random
import sys

MODEL = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
         "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
NFC = {"type": "NFC"}
PREPEND = {"type": "Prepend", "prepend": "\u2581"}
REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
SPLIT_SPACES = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
BYTE_DECODER = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
METASPACE_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TEKKEN = (UPPER + "*" + LOWER + "+|" + UPPER + "+" + LOWER + "*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def level(use_regex=True, prefix=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


def cuts(*parts):
    return {"type": "Sequence", "pretokenizers": list(parts)}


def normal(*parts):
    return {"type": "Sequence", "normalizers": list(parts)}


def metaspace(scheme, split_words):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": split_words}


def special(*contents, **flags):
    return [{"content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True, **flags} for content in contents]


def spaces(most):
    """GPT-NeoX and many after it have runs of spaces as added tokens, longest first."""
    return special(*(" " * n for n in range(most, 1, -1)), special=False, normalized=True)


def base_added(base):
    return [{k: v for k, v in token.items() if k != "id"} for token in base["added_tokens"]]


class Graft:
    """One file: parts that differ from its base's; @added come after the base's own tokens, or replace them."""

    def __init__(self, name, base, added=(), keep=True, model=None, change=None, **parts):
        self.name, self.base, self.added, self.keep = name, base, list(added), keep
        self.model, self.change, self.parts = model or {}, change, parts

    def make(self, base):
        model = {**MODEL, **base["model"], **self.model}
        if self.change:
            self.change(model)
        file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                "pre_tokenizer": None, "post_processor": None, "decoder": BYTE_DECODER, **self.parts}
        added = {token["content"]: token for token in (base_added(base) if self.keep else []) + self.added}
        next_id = len(model["vocab"])
        for token in added.values():
            token_id = model["vocab"].get(token["content"])
            if token_id is None:
                token_id, next_id = next_id, next_id + 1
            file["added_tokens"].append({"id": token_id, **token})
        file["added_tokens"].sort(key=lambda token: token["id"])
        file["model"] = model
        return file


def without_bytes(model):
    """No byte tokens: what has no token is unknown."""
    model["vocab"] = {token: i for token, i in model["vocab"].items()
                      if not (len(token) == 6 and token.startswith("<0x"))}
    model["byte_fallback"] = False


def damaged_merges(model):
    """Ties, repeated merges, words that no merge makes, and merges in another order than they arose."""
    rng = random.Random(4)
    merges = [merge for merge in model["merges"] if rng.random() < 0.9]
    for _ in range(2000):
        i, j = rng.randrange(len(merges)), rng.randrange(len(merges))
        merges[i], merges[j] = merges[j], merges[i]
    merges += rng.sample(merges, 500)
    model["merges"] = merges


FALCON_TOKENS = special(*(f">>{word}<<" for word in (
    "TITLE", "ABSTRACT", "INTRODUCTION", "SUMMARY", "COMMENT", "ANSWER", "QUESTION", "DOMAIN", "PREFIX", "SUFFIX",
    "MIDDLE")))
STARCODER_TOKENS = special("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<repo_name>", "<file_sep>",
                           "<issue_start>", "<jupyter_code>", "<empty_output>")
CODER = cuts(split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"),
             split("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), {"type": "Digits", "individual_digits": True},
             level(False))

# Vocabularies of bytes.
BYTES = [
    Graft("gpt_neox", "gpt2", special("<|padding|>") + spaces(24), normalizer=NFC, pre_tokenizer=level()),
    Graft("olmo", "gpt2", special("|||IP_ADDRESS|||", "<|padding|>", "|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||",
                                  special=False, normalized=True) + spaces(24),
          normalizer=NFC, pre_tokenizer=level()),
    Graft("roberta", "gpt2", special("<mask>", lstrip=True), pre_tokenizer=level(prefix=True)),
    Graft("starcoder2", "gpt2", STARCODER_TOKENS,
          pre_tokenizer=cuts({"type": "Digits", "individual_digits": True}, level())),
    Graft("falcon", "gpt2", FALCON_TOKENS, pre_tokenizer=cuts(
        {"type": "Punctuation", "behavior": "Contiguous"}, level(), {"type": "Digits", "individual_digits": False},
        split("[0-9][0-9][0-9]"))),
    Graft("bloom", "gpt2", special("<unk>", "<s>", "</s>", "<pad>"), keep=False, pre_tokenizer=cuts(
        split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), level(False))),
    Graft("tekken", "gptoss", special("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"), keep=False,
          model={"ignore_merges": True}, pre_tokenizer=cuts(split(TEKKEN), level(False))),
    Graft("tekken_removed", "cl100k", keep=False, model={"ignore_merges": True},
          pre_tokenizer=cuts(split(TEKKEN, "Removed", True), level(False))),
    Graft("deepseek_coder", "gpt2", special("<\uff5cbegin\u2581of\u2581sentence\uff5c>"), normalizer=normal(),
          pre_tokenizer=CODER),
    Graft("ties", "gpt2", pre_tokenizer=level(), change=damaged_merges),
    Graft("ties_ignored", "gpt2", pre_tokenizer=level(), change=damaged_merges, model={"ignore_merges": True}),
    Graft("cl100k_merges", "cl100k", model={"ignore_merges": False},
          pre_tokenizer=cuts(split(CL100K, "Removed", True), level(False))),
    Graft("strip_nfc", "gpt2", normalizer=normal({"type": "Strip", "strip_left": True, "strip_right": True}, NFC),
          pre_tokenizer=level()),
]
# Vocabularies of characters, with or without tokens for bytes.
PIECES = [
    Graft("phi3", "llama2", special("</s>", rstrip=True, special=False)
          + special("<|endoftext|>") + special("<|assistant|>", "<|placeholder1|>", "<|system|>", "<|end|>", "<|user|>",
                                                rstrip=True), keep=True, normalizer=normal(PREPEND, REPLACE)),
    Graft("mistral", "llama2", special("[INST]", "[/INST]", "[TOOL_CALLS]"), pre_tokenizer=metaspace("first", False)),
    Graft("mistral_legacy", "llama2", normalizer=normal(PREPEND, REPLACE)),
    Graft("metaspace_always", "llama2", pre_tokenizer=metaspace("always", False)),
    Graft("metaspace_split", "llama2", pre_tokenizer=metaspace("always", True)),
    Graft("metaspace_never", "llama2", pre_tokenizer=metaspace("never", False)),
    Graft("gemma1", "gemma3", normalizer=REPLACE, pre_tokenizer=SPLIT_SPACES),
    Graft("gemma2", "gemma3", normalizer=REPLACE, pre_tokenizer=SPLIT_SPACES),
    Graft("gemma_small", "llama2", normalizer=REPLACE, pre_tokenizer=SPLIT_SPACES),
    Graft("unknown_fused", "llama2", normalizer=normal(PREPEND, REPLACE), change=without_bytes),
    Graft("unknown_single", "llama2", normalizer=normal(PREPEND, REPLACE), change=without_bytes,
          model={"fuse_unk": False}),
    Graft("unknown_dropped", "llama2", normalizer=normal(PREPEND, REPLACE), change=without_bytes,
          model={"unk_token": None}),
    Graft("pieces_nfc_strip", "llama2", normalizer=normal(
        NFC, {"type": "Strip", "strip_left": False, "strip_right": True}, PREPEND, REPLACE)),
    Graft("pieces_ignore_merges", "llama2", normalizer=normal(PREPEND, REPLACE), model={"ignore_merges": True}),
]


def main():
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    source, out = map(pathlib.Path, sys.argv[1:3])
    pattern = sys.argv[3] if len(sys.argv) == 4 else "*"
    bases = {}
    for graft in BYTES + PIECES:
        if not fnmatch.fnmatch(graft.name, pattern):
            continue
        path = source / graft.base / "tokenizer.json"
        to = out / graft.name / "tokenizer.json"
        if not path.exists():
            print(f"graft: {graft.name}: there is no {path}", file=sys.stderr)
            continue
        if graft.base not in bases:
            bases = {graft.base: json.loads(path.read_text(encoding="utf-8"))}  # one at a time: they are large
        if graft in PIECES:
            graft.parts.setdefault("decoder", METASPACE_DECODER)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(json.dumps(graft.make(bases[graft.base]), ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    main()
