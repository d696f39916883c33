"""`lanekeeper tokenize` and `detokenize`: every kind of tokenizer, every form, there and back; and what a
configuration's tokenizer does, held against what the daemon serves."""

import base64
import gzip
import json
import os
import pathlib
import random
import re
import struct
import subprocess

import lk

END = "<|endoftext|>"
HOSTILE = [
    "", " ", "a", "  a", "Hello  World", "It's 12345 o'clock\r\n\r\n  \tx\n", "\0\x01\x1b[2J\x7f", "\ufeffmark", "é e\u0301 \ufffd",
    "水も\u3000火 \u2581\u2581a \u2581", "\U0001f469\u200d\U0001f469\u200d\U0001f467\U0001f3fd \U0010ffff", "\u0085\u2028\u00a0 x", "<0x41> <0xE9> \\u0041",
    END, f"a{END}b {END}{END}", "<|endoftext", "[M]  a  [M]", "x" * 3000, " " * 2000 + "y", "\n" * 500, "ab" * 700 + "1" * 50,
]


def texts_of(seed):
    draw = random.Random(seed)
    letters = "aaab  \n'\u00e9\u0301\u2581\u6c340123<|>[M]\U0001f469\u200d\t\0"
    return HOSTILE + ["".join(draw.choice(letters) for _ in range(draw.randint(1, 400))) for _ in range(40)]


# What tokenizers may not give back: marks that become spaces, and what a normaliser changes.
MARKS = re.compile("[\u2581\u0301\u3000\u00a0\u2028\u0085\ufeff]")


# Tokenizers ----------------------------------------------------------------------------------------

def spelling():
    """GPT-2's characters for bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {b: chr(b) for b in printable}
    spelled.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in spelled)})
    return spelled


WORDS = [(b"a", b"b"), (b" ", b"a"), (b"ab", b"ab"), (b"\xc3", b"\xa9"), (b"\n", b"\n"), (b"x", b"x"), (b"xx", b"xx"), (b" ", b" ")]


def vocabulary():
    """(vocabulary, merges), both spelled."""
    spelled = spelling()
    names = {spelled[b]: b for b in range(256)}
    merges = []
    for left, right in WORDS:
        merges.append(["".join(spelled[b] for b in part) for part in (left, right)])
        names["".join(merges[-1])] = len(names)
    return names, merges


def added(id, content, **flags):
    return {"id": id, "content": content, "special": True, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, **flags}


def byte_level():
    names, merges = vocabulary()
    n = len(names)
    return json.dumps({
        "added_tokens": [added(n, END), added(n + 1, "[M]", special=False)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": names, "merges": [" ".join(m) for m in merges]}})


def pieces():
    """SentencePiece's kind: characters, bytes for what has none, a space before a text."""
    names = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{b:02X}>": 3 + b for b in range(256)}}
    for name in ("\u2581", "a", "b", "x", "\u6c34", "\u00e9", "\u2581a", "ab", "\u2581\u2581", "xx"):
        names[name] = len(names)
    prefix = [{"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]
    back = [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]
    return json.dumps({
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")], "normalizer": {"type": "Sequence", "normalizers": prefix},
        "decoder": {"type": "Sequence", "decoders": back},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": names,
                  "merges": ["\u2581 a", "a b", "\u2581 \u2581", "x x"]}})


def ranks():
    words = [bytes([b]) for b in range(256)] + [left + right for left, right in WORDS]
    return "".join(f"{base64.b64encode(w).decode()} {rank}\n" for rank, w in enumerate(words))


def make_all(box):
    """{name: (options of the tool, folder for encode_main)}: one of each kind."""
    names, merges = vocabulary()
    box.write("hf/tokenizer.json", byte_level())
    box.write("sp/tokenizer.json", pieces())
    box.write("pair/vocab.json", json.dumps(names))
    box.write("pair/merges.txt", "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in merges))
    box.write("r50k_base/r50k_base.tiktoken", ranks())
    return {"hf": (["--tokenizer", box.path / "hf/tokenizer.json"], box.path / "hf"),
            "folder": (["--tokenizer", box.path / "hf"], box.path / "hf"),
            "sp": (["--tokenizer", box.path / "sp"], box.path / "sp"),
            "pair": (["--tokenizer", box.path / "pair/vocab.json", "--merges", box.path / "pair/merges.txt"], box.path / "pair"),
            "pair in a folder": (["--tokenizer", box.path / "pair"], box.path / "pair"),
            "tiktoken": (["--tokenizer", box.path / "r50k_base/r50k_base.tiktoken", "--scheme", "r50k_base"], box.path / "r50k_base"),
            "bytes": (["--tokenizer", "bytes"], "bytes")}


def real_ones(box):
    folder = pathlib.Path(os.environ.get("LK_TOKENIZERS", box.build / "tokenizers"))
    found = [p for p in sorted(folder.glob("*")) if (p / "tokenizer.json").exists() or (p / "vocab.bpe").exists()]
    return {p.name: (["--tokenizer", p], p) for p in found}


def run(box, *arguments, given=b"", expect=0):
    done = subprocess.run([str(box.tool_path), *map(str, arguments)], env=box.environment(), input=given, capture_output=True, timeout=lk.ANSWER_S)
    if done.returncode != expect:
        raise lk.Failure(f"{arguments[0]} ended with {done.returncode}, expected {expect}: {done.stderr[-500:]!r}")
    return done


def ids_of(lines):
    return [[int(word) for word in line.split()] for line in lines.decode().split("\n")[:-1]]


def encode_main(box, folder, texts, mode="split"):
    """The ids by the program that is held against the reference libraries."""
    given = b"".join(struct.pack("<I", len(t.encode())) + t.encode() for t in texts)
    command = [box.build / "tests/oracle/encode_main", folder, mode]
    out = subprocess.run(command, input=given, capture_output=True, timeout=lk.ANSWER_S, check=True).stdout
    ids, at = [], 0
    while at < len(out):
        n, = struct.unpack_from("<I", out, at)
        ids.append(list(struct.unpack_from(f"<{n}I", out, at + 4)))
        at += 4 + 4 * n
    return ids


# There and back -------------------------------------------------------------------------------------

def every_form(box, name, options, texts, expected, exact, put=""):
    """One tokenizer: each form of ids is the expected one, and each way back gives the very bytes. @put: what it
    puts before a text, and takes off again where a document begins."""
    files = [box.write(f"texts/{i:03d}.txt", text) for i, text in enumerate(texts)]
    flat = [i for ids in expected for i in ids]
    whole, raw = "".join(exact).encode(), "".join(put + t if t else t for t in exact).removeprefix(put).encode()
    decimal = run(box, "tokenize", *options, *files).stdout
    lk.same(ids_of(decimal), expected, f"{name}: files have the ids of encode_main")
    lines = run(box, "tokenize", *options, "--json", *files).stdout
    lk.same([json.loads(line) for line in lines.splitlines()], expected, f"{name}: and so with --json")
    out = box.path / "ids.u32"
    run(box, "tokenize", *options, "--u32", "-o", out, *files)
    lk.same(list(struct.unpack(f"<{len(flat)}I", out.read_bytes())), flat, f"{name}: and with --u32")
    shown = run(box, "tokenize", *options, "--pieces", *files).stdout.decode()
    lk.same([int(line.split()[0]) for line in shown.splitlines() if line], flat, f"{name}: and with --pieces")
    for form, given, want in (("decimal", decimal, whole), ("json", lines, whole), ("--u32", out.read_bytes(), raw)):
        back = run(box, "detokenize", *options, *(["--u32"] if form == "--u32" else []), given=given).stdout
        at = next((i for i, (a, b) in enumerate(zip(back, want)) if a != b), min(len(back), len(want)))
        lk.check(back == want, f"{name}: and back from {form}: the very bytes", (at, back[at:at + 20], want[at:at + 20]))
    counts = json.loads(run(box, "tokenize", *options, "--count", "--json", *files).stdout)
    lk.same([counts["documents"], counts["bytes"], counts["tokens"]], [len(texts), sum(len(t.encode()) for t in texts), len(flat)],
            f"{name}: --count adds up")


def there_and_back(box):
    """Every kind of tokenizer on hostile texts."""
    texts = texts_of(1)
    for name, (options, folder) in make_all(box).items():
        expected = encode_main(box, folder, texts)
        # To SentencePiece's kind a mark is a space.
        exact = [t.replace("\u2581", " ") for t in texts] if name == "sp" else texts
        every_form(box, name, options, texts, expected, exact, " " if name == "sp" else "")


def real_vocabularies(box):
    """The same with files that people train with, as far as they were fetched."""
    texts = texts_of(2)
    for name, (options, folder) in real_ones(box).items():
        loaded = box.tool("tokenize", "--info", *options)
        if not lk.check(loaded.returncode == 0, f"{name}: is read", loaded.stderr):
            continue
        expected = encode_main(box, folder, texts)
        lk.same(ids_of(run(box, "tokenize", *options, "--jsonl", given=lk.rows(texts).encode()).stdout), expected, f"{name}: the ids of encode_main")
        ids = "".join(" ".join(map(str, e)) + "\n" for e in expected).encode()
        rows = [json.loads(line)["text"] for line in run(box, "detokenize", *options, "--jsonl", given=ids).stdout.splitlines()]
        exact = [i for i, text in enumerate(texts) if MARKS.search(text) is None]
        lk.same([rows[i] for i in exact], [texts[i] for i in exact], f"{name}: the texts come back")


def rows_of_shards(box):
    """--jsonl: plain, compressed, from a folder and from a pipe; fields by path; borders wherever they fall."""
    make_all(box)
    texts = texts_of(3) + ["long " * 60000, "after it"]
    options = ["--tokenizer", box.path / "hf"]
    expected = encode_main(box, box.path / "hf", texts)
    plain = lk.rows(texts).encode()
    box.write("d/a.jsonl", b"\xef\xbb\xbf\n \r\n" + plain.replace(b"\n", b"\r\n\n"))
    box.write("d/b.jsonl.gz", gzip.compress(plain))
    subprocess.run(["zstd", "-q", "-o", box.path / "d/c.jsonl.zst"], input=plain, check=True)
    for shard in ("a.jsonl", "b.jsonl.gz", "c.jsonl.zst"):
        lk.same(ids_of(run(box, "tokenize", *options, "--jsonl", box.path / "d" / shard).stdout), expected, f"{shard}: each row is a document")
    lk.same(ids_of(run(box, "tokenize", *options, "--jsonl", box.path / "d").stdout), 3 * expected, "a folder: its shards in order")
    lk.same(ids_of(run(box, "tokenize", *options, "--jsonl", box.path / "d/*.gz").stdout), expected, "a pattern: those that it matches")
    lk.same(ids_of(run(box, "tokenize", *options, "--jsonl", "-", given=plain).stdout), expected, "standard input")
    nested = "".join(json.dumps({"text": 1, "body": {"a.b": t}}) + "\n" for t in texts).encode()
    lk.same(ids_of(run(box, "tokenize", *options, "--field", r"body.a\.b", given=nested).stdout), expected, "a field by its path, which says --jsonl")
    ids = "".join(" ".join(map(str, e)) + "\n" for e in expected).encode()
    back = run(box, "detokenize", *options, "--jsonl", given=ids[:-1]).stdout
    lk.same([json.loads(line)["text"] for line in back.splitlines()], texts, "detokenize --jsonl: the same rows, the last line's end or not")


def around_and_between(box):
    """RC-059: special tokens in text by rule; tokens around documents; what is left out when decoding."""
    make_all(box)
    text, n = f"a{END}b", 256 + len(WORDS)
    options = ["--tokenizer", box.path / "hf"]
    one = lambda *more, expect=0: run(box, "tokenize", *options, *more, given=text.encode(), expect=expect)    # noqa: E731
    lk.same(ids_of(one().stdout), [[97, n, 98]], "split is the default")
    lk.same(ids_of(one("--special", "text").stdout), [list(text.encode())], "text: as any other text")
    failed = one("--special", "error", expect=1)
    lk.check(failed.stdout == b"" and re.search(rb"standard input: byte 1 of the text: a special token .*id 264, \"<\|endoftext\|>\"", failed.stderr)
             is not None, "error: names where, and which", failed.stderr)
    failed = run(box, "tokenize", *options, "--special", "error", "--jsonl", given=lk.rows(["fine", "x" + text]).encode(), expect=1)
    lk.check(re.search(rb"standard input: row 1 at byte 17: byte 2 of the text", failed.stderr) is not None and failed.stdout.count(b"\n") == 1,
             "of a row: names the row, after those before it", failed)
    lk.same(ids_of(one("--append", "eos", "--prepend", "[M]").stdout), [[n + 1, 97, n, 98, n]], "tokens are put around")
    lk.check(b"no such token: nix" in one("--append", "nix", expect=1).stderr, "one that is not there is named")
    counts = json.loads(one("--count", "--json", "--append", "eos").stdout)
    lk.check(counts["special_tokens_in_text"] == 1 and counts["tokens"] == 4, "counted are those in the text", counts)
    ids = f"{n} 97 {n} {n + 1} 98 {n}\n".encode()
    lk.same(run(box, "detokenize", *options, given=ids).stdout, f"{END}a{END}[M]b{END}".encode(), "decoded, they are their text")
    lk.same(run(box, "detokenize", *options, "--skip-special", given=ids).stdout, b"a[M]b", "or left out, but for those that are not special")


def real_special_tokens(box):
    """RC-059: the ids of the case, with the real vocabularies, in both modes and with --special error."""
    text = f"a{END}b"
    wanted = {"gpt2": ([64, 50256, 65], [64, 27, 91, 437, 1659, 5239, 91, 29, 65]),
              "cl100k": ([64, 100257, 65], [64, 27, 91, 8862, 728, 428, 91, 29, 65])}
    for name, (options, _) in real_ones(box).items():
        for mode, ids in zip(("split", "text"), wanted.get(name, ())):
            out = run(box, "tokenize", *options, "--special", mode, given=text.encode()).stdout
            lk.same(ids_of(out), [ids], f"{name}, {mode}: the ids of the case")
        if name in wanted:
            failed = run(box, "tokenize", *options, "--special", "error", given=text.encode(), expect=1)
            lk.check(f"byte 1 of the text: a special token where special_in_text is error: id {wanted[name][0][1]}".encode() in failed.stderr,
                     f"{name}, error: refused by name", failed.stderr)


def widths(box):
    """RC-086: a width that cannot hold the ids is refused before anything is written; so is a file of another one."""
    make_all(box)
    wide = json.loads(byte_level())
    first = len(wide["model"]["vocab"])
    wide["model"]["vocab"].update({f"filler{i}": first + i for i in range(65535 - first)})
    wide["added_tokens"] = [added(65535 + i, f"<a{65535 + i}>") for i in range(2)]
    box.write("wide/tokenizer.json", json.dumps(wide))
    wide["added_tokens"].pop()
    box.write("just/tokenizer.json", json.dumps(wide))
    text = b"<a65535>z"
    out = box.path / "ids"
    failed = run(box, "tokenize", "--tokenizer", box.path / "wide", "--u16", "-o", out, given=text, expect=1)
    lk.check(not out.exists() and b"65537 ids" in failed.stderr and b"--u32" in failed.stderr,
             "65,537 ids do not fit 16 bits: refused at once", failed.stderr)
    run(box, "tokenize", "--tokenizer", box.path / "just", "--u16", "-o", out, given=text)
    lk.same(struct.unpack("<2H", out.read_bytes()), (65535, ord("z")), "65,536 do")
    lk.same(run(box, "detokenize", "--tokenizer", box.path / "just", "--u16", out).stdout, text, "and come back")
    run(box, "tokenize", "--tokenizer", box.path / "wide", "--u32", "-o", out, given=b"<a65536><a65535>")
    lk.same(struct.unpack("<2I", out.read_bytes()), (65536, 65535), "65536 is itself in 32 bits")
    lk.same(run(box, "detokenize", "--tokenizer", box.path / "wide", "--u32", out).stdout, b"<a65536><a65535>", "and comes back")
    small = ["--tokenizer", box.path / "hf"]
    for form, data, patterns in (
            ("--u32", struct.pack("<4H", 97, 98, 99, 100), (rf"ids: byte 0: id {97 + (98 << 16)}: expected one below 266",)),
            ("--u16", struct.pack("<3I", 97, 1000, 98), (r"ids: byte 4: id 1000: expected one below 266",)),
            ("--u32", b"a\0\0\0bcd", (r"ids: 7 bytes: expected a multiple of 4",)),
            ("--u16", b"a\0b", (r"ids: 3 bytes: expected a multiple of 2",))):
        box.write("ids", data)
        failed = run(box, "detokenize", *small, form, out, expect=1).stderr.decode()
        lk.check(all(re.search(p, failed) for p in patterns), f"{form} of {len(data)} bytes of another width: named", failed)


def refused(box):
    """Errors name file, line, id and what was expected."""
    make_all(box)
    ids, texts = ["detokenize", "--tokenizer", box.path / "hf"], ["tokenize", "--tokenizer", box.path / "hf"]
    top = 256 + len(WORDS) + 2
    holes = ["detokenize", "--tokenizer", box.path / "r50k_base/r50k_base.tiktoken", "--scheme", "r50k_base"]
    box.write("bad.txt", b"abc\xff")
    box.write("bad.jsonl", '{"text": "a"}\n\n{"text": 7}\n')
    box.write("cut.jsonl", '{"text": "a"}\n{"text": "b')
    box.write("no.jsonl", '{"txt": "a"}\n')
    box.write("broken.jsonl.gz", gzip.compress(b'{"text": "a"}\n' * 1000)[:-9])
    problems = [
        (ids, f"1 2\n3 {top} 4\n", rf"standard input: line 2, number 2: id {top}: expected one below {top}, the size of the vocabulary"),
        (ids, "1 2\n3 99999999999999999999", r"line 2, number 2: id 4294967295: expected one below"),
        (ids, "1\n\n2 -3\n", r'line 3, number 2: expected a token id, found "-3"'),
        (ids, "1 0x41", r'line 1, number 2: expected a token id, found "0x41"'),
        (ids, "1 \x1b[2J" + "q" * 100, r'expected a token id, found "\\x1b'),
        (ids + [box.path / "none"], "", r"none: No such file"),
        (holes, "97 300 98", r"line 1, number 2: id 300: no token has it: it is a hole in the vocabulary"),
        (texts + [box.path / "bad.txt"], "", r"bad\.txt: byte 3: expected UTF-8, found the byte 0xff"),
        (texts + ["--jsonl", box.path / "bad.jsonl"], "", r'bad\.jsonl: row 1 at byte 15: byte 9: field "text": expected a string, found a number'),
        (texts + ["--jsonl", box.path / "cut.jsonl"], "", r"cut\.jsonl: row 1 at byte 14: byte 11"),
        (texts + ["--jsonl", box.path / "no.jsonl"], "", r'no\.jsonl: row 0 at byte 0: the row has no field "text"'),
        (texts + ["--jsonl", box.path / "broken.jsonl.gz"], "", r"broken\.jsonl\.gz: byte \d+"),
        (texts + [box.path / "d"], "", r"/d"),
        (["tokenize", "--tokenizer", box.path / "texts"], "", r"expected a tokenizer\.json in the folder"),
        (["tokenize", "--tokenizer", box.path / "hf/tokenizer.json", "--scheme", "nix"], "", r"nix"),
    ]
    (box.path / "texts").mkdir()
    (box.path / "d").mkdir()
    for command, given, pattern in problems:
        failed = run(box, *command, given=given.encode(), expect=1).stderr.decode()
        lk.check(re.search(pattern, failed) is not None and "\x1b" not in failed and failed.count("\n") == 1, f"refused: {pattern}", failed)
    for command, pattern in (
            (["tokenize"], "expected --tokenizer PATH or --config FILE"), (texts + ["--u16", "--u32"], "at most one of"),
            (texts + ["--json", "--pieces"], "at most one of"), (texts + ["--special", "nix"], "split, text or error"),
            (texts + ["--config", "c.yaml"], "only --stream goes with it"), (texts + ["--stream", "s"], "--stream needs --config"),
            (["tokenize", "--tokenizer", "x.tiktoken"], "needs --scheme NAME"), (["tokenize", "--tokenizer", "encoder.json"], "needs --merges FILE"), (texts + ["--info", "f"], "--info reads no text"),
            (["tokenize", "--tokenizer", "x.tiktoken", "--merges", "m"], "--merges belongs to"), (ids + ["--u16", "--u32"], "at most one of")):
        failed = run(box, *command, expect=2).stderr.decode()
        lk.check(pattern in failed, f"wrong arguments: {pattern}", failed)
    error = json.loads(run(box, *texts, "--json", box.path / "bad.txt", expect=1).stdout)["error"]
    lk.check(error["code"] == "INVALID_ARGUMENT" and "bad.txt" in error["text"], "a failure that a program can read", error)
    run(box, *texts, "-o", box.path / "out", given=b"abc\xff", expect=1)
    lk.check(not (box.path / "out").exists(), "a failure leaves no file")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([box.tool_path, *map(str, texts)], input=b"abc", stdout=full, stderr=subprocess.PIPE, env=box.environment())
    lk.check(done.returncode == 1 and b"standard output" in done.stderr, "a full disk is no success", done)
    run(box, *texts, "-o", "/dev/null", given=b"abc")
    lk.check(not pathlib.Path("/dev/null").is_file(), "a device stays one")


def told(box):
    """--info says what was loaded."""
    tokenizers = make_all(box)
    odd = json.loads(byte_level())
    odd["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
    odd["model"]["dropout"] = 0.5
    box.write("odd/tokenizer.json", json.dumps(odd))
    box.write("odd/tokenizer_config.json", json.dumps({"eos_token": "[M]"}))
    said = run(box, "tokenize", "--info", "--tokenizer", box.path / "odd").stdout.decode()
    lk.check(re.search(r"^note .*truncation", said, re.M) is not None and re.search(r"^note .*dropout", said, re.M) is not None,
             "RC-023, RC-067: dropout and truncation are off, and said so", said)
    lk.check(f'eos          {257 + len(WORDS)} "[M]"' in said, "the end token is that of tokenizer_config.json", said)
    box.dataset("d", ["ab ab ab ab"])
    log = box.serve(box.plain({"d": {"path": "d"}}, tokenizer={"hf": "odd/tokenizer.json"})).log()
    lk.check(re.search(r"info stream: tokenizer .*truncation", log) is not None and re.search(r"info stream: tokenizer .*dropout", log) is not None,
             "RC-023, RC-067: in the daemon's log, too", log[-500:])
    digests = set()
    for name, (options, _) in tokenizers.items():
        info = json.loads(run(box, "tokenize", "--info", "--json", *options).stdout)
        want = {"bytes": "bytes", "tiktoken": "tiktoken"}.get(name, "pair" if "pair" in name else "hf")
        lk.check(info["kind"] == want and info["vocabulary"] >= info["tokens"] > 256 and re.fullmatch("[0-9a-f]{32}", info["digest"]) is not None,
                 f"{name}: kind, vocabulary and digest", info)
        digests.add(info["digest"])
    lk.check(len(digests) == len(tokenizers) - 2, "another tokenizer, another digest; the same one by folder, the same", digests)
    info = json.loads(run(box, "tokenize", "--info", "--json", *tokenizers["tiktoken"][0]).stdout)
    lk.check(info["scheme"] == "r50k_base" and info["vocabulary"] == 50257 and info["tokens"] == 256 + len(WORDS) + 1 and info["eos"] == 50256,
             "tiktoken: the scheme's special token, and holes before it", info)


# With a daemon --------------------------------------------------------------------------------------

def served(box, stream, name="config"):
    """All tokens of a stream of one lane and one token a sequence, and how it ended."""
    daemon = box.serve(stream, name)
    trainer = box.trainer(daemon)
    trainer.get("show tokens")
    batches, end = lk.to_the_end(trainer)
    return daemon, [b["tokens"][0][0] for b in batches], end


def as_a_stream_does(box):
    """--config: the very tokens that the daemon serves, of each kind of tokenizer."""
    make_all(box)
    texts = [t for t in texts_of(4) if t]
    box.dataset("d", texts, 3)
    kinds = {"hf": {"hf": "hf/tokenizer.json", "append": "eos"}, "sp": {"hf": "sp/tokenizer.json", "prepend": "bos"},
             "pair": {"pair": {"vocab": "pair/vocab.json", "merges": "pair/merges.txt"}},
             "tiktoken": {"tiktoken": {"path": "r50k_base/r50k_base.tiktoken", "scheme": "r50k_base"}, "append": END},
             "bytes": {"bytes": True, "append": "eos", "special_in_text": "text"}}
    for name, tokenizer in kinds.items():
        stream = box.plain({"d": {"path": "d", "epochs": 1}}, tokenizer=tokenizer, batch=1, sequence=64, tail="pad")
        config = box.config(stream, name)
        ids = [i for document in ids_of(run(box, "tokenize", "--config", config, "--jsonl", box.path / "d").stdout) for i in document]
        daemon = box.daemon(config)
        trainer = box.trainer(daemon)
        trainer.get("show tokens")
        batches, _ = lk.to_the_end(trainer)
        lk.same([t for b in batches for t in b["tokens"][0]][:len(ids)], ids, f"{name}: what the daemon serves")
        daemon.stop()
    streams = {"s": box.plain({"d": {"path": "d"}, "e": {"path": "d", "text": "body"}}), "t": box.plain({"d": {"path": "d", "text": "body.text"}})}
    config = box.config(None, "several", streams=streams)
    lk.check(b"several streams" in run(box, "tokenize", "--config", config, expect=2).stderr, "of several streams one is named")
    lk.check(b"say --field" in run(box, "tokenize", "--config", config, "--stream", "s", "--jsonl", expect=2).stderr, "of several fields one is")
    given = json.dumps({"body": {"text": "ab"}}).encode()
    out = run(box, "tokenize", "--config", config, "--stream", "t", "--jsonl", given=given).stdout
    lk.same(ids_of(out), [[97, 98]], "the field is the datasets' own")


def special_token_is_an_error(box):
    """RC-059, special_in_text: error: such a row is malformed, and on_bad_row says what becomes of it."""
    texts = [f"good {i:02d}" for i in range(12)]
    texts[5], texts[9] = f"bad {END}", f"{END} {END}"
    box.dataset("d", texts, 2)
    tokenizer = {"bytes": True, "append": "eos", "special_in_text": "error"}
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=8, tokenizer=tokenizer)
    daemon, tokens, failure = served(box, {**stream, "sequence": 1}, "strict")
    want = [t for text in texts[:5] for t in [*text.encode(), 256]]
    lk.same(tokens, want, "on_bad_row error: the rows before it are served")
    patterns = (r"part-00000\.jsonl", r"\brow 5\b", r"byte 4 of the text", r"id 256", r"<\|endoftext\|>")
    lk.check(failure.startswith("FAILED_PRECONDITION") and all(re.search(p, failure) for p in patterns),
             "and the stream stops, naming shard, row, place and token", failure)
    daemon.stop()
    daemon, tokens, end = served(box, {**stream, "sequence": 1, "on_bad_row": "drop"}, "loose")
    lk.same(tokens, [t for i, text in enumerate(texts) if i not in (5, 9) for t in [*text.encode(), 256]], "on_bad_row drop: the others are served")
    for shard, row in (("part-00000", 5), ("part-00001", 3)):
        lk.check(len(re.findall(rf"row_dropped.*{shard}\.jsonl row {row}: special_token", daemon.log())) == 1, f"row {row} of {shard} is listed once",
                 daemon.log()[-400:])
    dropped = daemon.status()["streams"][0]["cursors"][0]["dropped"]
    lk.same({rule: n for rule, n in dropped.items() if n}, {"special_token": 2}, "and counted under a rule of its own")
    metrics = daemon.fetch("/metrics")[1]
    lk.check('lanekeeper_rows_dropped_total{stream="s",rule="special_token"} 2' in metrics, "in the metrics, too", metrics[:200])
    said = box.tool("explain", box.path / "loose.yaml", "--json")
    plan = json.loads(said.stdout)
    lk.check(plan["special_in_text"] == "error" and plan["datasets"][0]["estimate"]["dropped"]["special_token"] == 2,
             "explain sees it beforehand", said.stdout)
    digests = set()
    for rule in ("split", "text", "error"):
        box.config({**stream, "tokenizer": {**tokenizer, "special_in_text": rule}}, rule)
        digests.add(json.loads(box.tool("explain", box.path / f"{rule}.yaml", "--json").stdout)["order_digest"])
    lk.check(len(digests) == 3, "each rule is another stream", digests)


def ranks_of_two_schemes(box):
    """Two streams with the same ranks under two schemes do not share a tokenizer, and workers elsewhere load the same."""
    make_all(box)
    box.dataset("d", [f"a{END}", "ab"])
    path = "r50k_base/r50k_base.tiktoken"
    streams = {name: box.plain({"d": {"path": "d", "epochs": 1}}, tokenizer={"tiktoken": {"path": path, "scheme": scheme}})
               for name, scheme in (("r", "r50k_base"), ("c", "cl100k_base"))}
    config = box.config(None, streams=streams)
    daemon = box.daemon(config)
    for name, end in (("r", 50256), ("c", 100257)):
        trainer = box.trainer(daemon, stream=name)
        trainer.get("show tokens")
        batches, _ = lk.to_the_end(trainer)
        lk.same([b["tokens"][0][0] for b in batches], [97, end, 256], f"stream {name} has its scheme's end token")
    daemon.stop()
    box.refused(box.config(box.plain({"d": {"path": "d"}}, tokenizer={"tiktoken": {"path": path, "scheme": "nix"}}), "nix"),
                "a scheme that does not exist: refused at start", "nix", "cl100k_base")


if __name__ == "__main__":
    lk.main([there_and_back, real_vocabularies, rows_of_shards, around_and_between, real_special_tokens, widths, refused, told, as_a_stream_does,
             special_token_is_an_error, ranks_of_two_schemes])
