"""Hostile sizes and depths in files: a row too deep, a row too long, a bomb, a tokenizer of brackets, a text
too hard for its expression.

Each is read or refused by name, with little stack and little memory, and what lies after it is served.
"""

import json
import os
import re
import signal
import subprocess
import zlib

import lk

MEGA = 1000 * 1000
SMALL_STACK = ("prlimit", "--stack=262144:262144")    # threads' stacks are of this size, too
ROW_MAX = 1 << 30


def measured(box, *arguments, prefix=(), seconds=lk.ANSWER_S):
    """Runs the tool: (exit status, negative after a signal; what it printed; peak resident kB)."""
    said = box.path / "said"
    with open(said, "wb") as f:
        process = subprocess.Popen([*prefix, str(box.tool_path), *map(str, arguments)], stdin=subprocess.DEVNULL,
                                   stdout=f, stderr=f, env=box.environment())
    ended = None

    def look():
        nonlocal ended
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            ended = usage.ru_maxrss
        return pid
    try:
        lk.wait_until(look, seconds, f"the end of lanekeeper {' '.join(map(str, arguments))}")
    finally:
        if ended is None:
            process.kill()
            process.wait()
    return process.returncode, said.read_text(errors="replace"), ended


def peak_of(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def bounded(box, peak, most_mb, fact):
    """Nothing under sanitizers, whose own memory counts, too."""
    if not box.sanitized:
        lk.check(peak < most_mb * MEGA // 1024, f"{fact}: less than {most_mb} MB resident", f"{peak} kB")


def write_pieces(box, name, *pieces):
    """(bytes, times) one after the other: this process stays small, as its size is inherited."""
    path = box.write(name, b"")
    with open(path, "wb") as f:
        for piece, times in pieces:
            for _ in range(times):
                f.write(piece)
    return path


def deep_rows(box):
    """RC-034: rows nested far too deep, with 256 KiB of stack for everything that reads them."""
    n, m = 100_000, 500_000
    deep = ['{"x":' + "[" * n + "]" * n + ',"text":"ok"}', "[" * n + "]" * n, "[" * n, '{"text":' + "[" * n,
            '{"a":' * m, '{"a":' * m + "1" + "}" * m, '{"text":"ok","x":' + '[{"a":' * n]
    lines, good = [], []
    for i, row in enumerate(deep):
        good.append(f"good {i}")
        lines += [lk.rows(good[-1:]).strip(), row]
    good.append("good z")
    box.write("d/a.jsonl", "\n".join(lines) + "\n" + lk.rows(good[-1:]))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=6)
    status, said, _ = measured(box, "index", box.config(stream, "strict"), prefix=SMALL_STACK)
    lk.check(status == 0 and f"{len(lines) + 1} rows" in said, "rows nested 100,000 and 500,000 deep are indexed", (status, said[-300:]))
    strict = box.serve(stream, "strict", index=False, how={"prefix": SMALL_STACK})
    trainer = box.trainer(strict)
    trainer.get("show tokens")
    batches, failure = lk.to_the_end(trainer)
    lk.check(len(batches) == 1 and all(re.search(p, failure) for p in (r"a\.jsonl", r"\brow 1\b", "nesting")),
             "on_bad_row error: the stream stops at the first, naming shard, row and nesting", (len(batches), failure))
    strict.stop()
    loose = box.serve({**stream, "on_bad_row": "drop"}, "loose", index=False, how={"prefix": SMALL_STACK})
    trainer = box.trainer(loose)
    trainer.get("show tokens")
    batches, end = lk.to_the_end(trainer)
    lk.check(end.startswith("OUT_OF_RANGE"), "on_bad_row drop: the stream ends where its data does", end)
    lk.same([bytes(b["tokens"][0]).decode() for b in batches], good, "and the row after each is served")
    log = loose.log()
    for i in range(len(deep)):
        lk.check(len(re.findall(rf"row_malformed.*a\.jsonl row {2 * i + 1}\b.*nesting", log)) == 1 and
                 len(re.findall(rf"row_dropped.*a\.jsonl row {2 * i + 1}\b", log)) == 1,
                 f"row {2 * i + 1} is listed once, as nested too deep", log[-600:])
    lk.check("worker_died" not in strict.log() + log, "no worker crashes", log[-600:])


def long_rows(box):
    """RC-029: rows of 300 MB, JSON or not."""
    run = b"a" * MEGA
    write_pieces(box, "long/a.jsonl", (b'{"text":"', 1), (run, 300), (b'"}\n{"text":"after"}\n', 1))
    status, said, peak = measured(box, "index", box.path / "long", "-o", box.path / "long.index")
    lk.check(status == 0 and re.search(r"\b2 rows\b", said) is not None, "a row of 300 MB and the one after it are indexed", (status, said[-300:]))
    bounded(box, peak, 200, "a row of 300 MB")
    write_pieces(box, "one/a.jsonl", (run, 300))
    status, said, peak = measured(box, "index", box.path / "one", "-o", box.path / "one.index")
    lk.check(status == 0 and re.search(r"\b1 rows?\b", said) is not None, "300 MB without an end of line are one row", (status, said[-300:]))
    bounded(box, peak, 200, "300 MB without an end of line")


def long_rows_served(box):
    """RC-029: what is too long for one message is refused by name or filtered; what follows is served."""
    run = b"a" * MEGA
    write_pieces(box, "d/a.jsonl", (b'{"text":"before"}\n{"text":"', 1), (run, 300), (b'"}\n{"text":"after 1"}\n{"x":"', 1),
                 (run, 300), (b'","text":"short"}\n{"text":"after 2"}\n', 1), (run, 300), (b'\n{"text":"after 3"}\n', 1))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=1, on_bad_row="drop")
    daemon = box.serve(stream, "whole")
    trainer = box.trainer(daemon, timeout=60000)
    trainer.get("show tokens")
    batches, failure = lk.to_the_end(trainer)
    lk.check(all(re.search(p, failure) for p in ("FAILED_PRECONDITION", r"a\.jsonl", r"\brow 1\b", "more than 268435456 bytes of tokens")),
             "a text of 300 M tokens is refused, naming shard, row and limit", failure)
    lk.same(bytes(b["tokens"][0][0] for b in batches), b"before", "what lies before it is served")
    lk.check("worker_died" not in daemon.log(), "and no worker dies of it", daemon.log()[-600:])
    daemon.stop()
    short = [{"filter": {"max_bytes": MEGA}}, {"pack": {"algorithm": "concat"}}]
    daemon = box.serve({**stream, "pipeline": short}, "short", index=False)
    trainer = box.trainer(daemon, timeout=60000)
    trainer.get("show tokens")
    batches, end = lk.to_the_end(trainer)
    lk.same((bytes(b["tokens"][0][0] for b in batches), end[:12]), (b"beforeafter 1shortafter 2after 3", "OUT_OF_RANGE"),
            "with a filter of lengths all others are, also the short text of a row of 300 MB")
    lk.check(len(re.findall(r"row_malformed.*row 5 at byte 0|row_malformed.*row 5: byte 0", daemon.log())) == 1,
             "300 MB that are no JSON are a malformed row", daemon.log()[-600:])
    bounded(box, max(map(peak_of, [daemon.pid, *daemon.workers()])), 500, "a row of 300 MB at a time")


def bomb(box):
    """RC-132: 10 MB of gzip that are one line of 10 GB. It is refused where it passes the limit."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    # After a full flush nothing refers to what was before: the piece may be repeated.
    piece = deflate.compress(b"a" * (10 * MEGA)) + deflate.flush(zlib.Z_FULL_FLUSH)
    path = write_pieces(box, "bomb/a.jsonl.gz", (b"\x1f\x8b\x08\0\0\0\0\0\0\x03", 1), (piece, 1000))
    lk.check(path.stat().st_size < 11 * MEGA, "the bomb is small", path.stat().st_size)
    out = box.path / "bomb.index"
    status, said, peak = measured(box, "index", box.path / "bomb", "-o", out)
    lk.check(status == 1 and "a.jsonl.gz" in said and "line 1" in said and str(ROW_MAX) in said,
             "a line of 10 GB is refused, naming shard, line and limit", (status, said[-300:]))
    lk.check(not out.exists() and not list(box.path.glob("bomb.index*")), "and leaves no index")
    bounded(box, peak, 200, "a bomb")


def tokenizer_of_brackets(box):
    """RC-058: what the loader is given is no tokenizer, but 200 MB of it."""
    box.dataset("d", ["a text"])
    stream = box.plain({"d": {"path": "d"}}, tokenizer={"hf": "tokenizer.json"})
    config = box.config(stream)
    box.index(box.config({**stream, "tokenizer": {"bytes": True}}, "bytes"))
    status, said, _ = measured(box, "config", "check", box.path / "bytes.yaml")
    lk.check(status == 0, "with another tokenizer the configuration is right", (status, said[-300:]))
    sequence = b'{"type":"Sequence","pretokenizers":['
    for begin, opening, reason in ((b"", b"[", r"\$: expected an object"), (b'{"version":', b"[", r"\$\.version: .*nesting"),
                                   (b'{"pre_tokenizer":', sequence, r"\$\.pre_tokenizer.*: .*nesting")):
        write_pieces(box, "tokenizer.json", (begin, 1), (opening * (MEGA // len(opening)), 200))
        for prefix in ((), SMALL_STACK):
            what = f"200 MB of {(begin + opening).decode()}{' with little stack' if prefix else ''}"
            status, said, peak = measured(box, "config", "check", config, prefix=prefix)
            lk.check(status == 1 and re.search(r"tokenizer\.json: " + reason, said) is not None and len(said) < 2000,
                     f"{what} are refused as a tokenizer, saying why", (status, said[:300]))
            bounded(box, peak, 700, what)
    os.truncate(box.path / "tokenizer.json", 1 << 40)
    status, said, peak = measured(box, "config", "check", config)
    lk.check(status == 1 and "tokenizer.json" in said and str(1 << 40) in said, "a file of 1 TiB is refused by its size", (status, said[:300]))
    bounded(box, peak, 100, "a tokenizer of 1 TiB")


def hard_text(box):
    """Cutting one text would take longer than anyone lives: the process that tries ends, and the row is found."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    vocabulary = {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": "(?:a+)+b|a"}, "behavior": "Isolated", "invert": False}
    box.write("tokenizer.json", json.dumps({
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}, "decoder": {"type": "ByteLevel"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]}}))
    texts = [f"row {i}" for i in range(50)]
    texts[31] = "a" * 5000
    box.dataset("d", texts)
    hard = box.write("hard.txt", texts[31])
    status, said, _ = measured(box, "tokenize", "--tokenizer", box.path / "tokenizer.json", hard)
    lk.check(status == -signal.SIGABRT and "(?:a+)+b|a" in said and "too many steps" in said,
             "tokenize ends, saying which expression takes too many steps", (status, said[-300:]))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, tokenizer={"hf": "tokenizer.json"}, sequence=8, tail="pad", on_crash="drop")
    daemon = box.serve(stream)
    trainer = box.trainer(daemon, timeout=60000)
    trainer.get("show parts")
    batches, end = lk.to_the_end(trainer)
    seen = sorted({p[1] for b in batches for row in b["parts"] for p in row})
    lk.same(seen, [i for i in range(50) if i != 31], f"the daemon serves every other row ({end})")
    lk.check(re.search(r"row_dropped.*part-00000\.jsonl row 31\b", daemon.log()) is not None, "and names the one", daemon.log()[-600:])


if __name__ == "__main__":
    lk.main([deep_rows, long_rows, long_rows_served, bomb, tokenizer_of_brackets, hard_text])
