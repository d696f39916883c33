"""Shards that change while they are served, and between runs."""

import os

import chaos
import lk

TEXTS = [f"row {i:04d} " + "x" * 200 for i in range(1200)]
ROWS_A_SHARD = 300


def served(box):
    """A daemon in order of the rows, with a trainer that took twenty of them."""
    box.dataset("d", TEXTS, 4)
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=209, order={"block_rows": 50, "blocks": "sequential", "shuffle_rows": False})
    daemon = box.serve(stream, workers=2, prefetch_steps=2)
    trainer = box.trainer(daemon)
    trainer.get("show tokens")
    trainer.get("next 20")
    return daemon, trainer


def keep_time(path, edit):
    stamp = path.stat()
    edit(path)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def flip(path):
    data = path.read_bytes()
    with open(path, "r+b") as f:    # in place, of the same length
        f.seek(data.index(b"row 0750 "))
        f.write(b"row 0751 ")


def replace(path):
    """Another file of the same size under the name; the old one lives on where it is open."""
    new = path.with_suffix(".new")
    new.write_bytes(path.read_bytes().replace(b"xxxx\"", b"yyyy\""))
    new.rename(path)


def swap_rows(path):
    lines = path.read_bytes().splitlines(keepends=True)
    with open(path, "r+b") as f:
        f.write(b"".join([lines[1], lines[0], *lines[2:]]))


EDITS = {
    "a byte edited": flip,
    "two rows exchanged": swap_rows,
    "replaced by another of its size": replace,
    "truncated to half": lambda p: os.truncate(p, p.stat().st_size // 2),
    "truncated to nothing": lambda p: os.truncate(p, 0),
    "truncated by a byte": lambda p: os.truncate(p, p.stat().st_size - 1),
    "truncated and written anew, a row less": lambda p: p.write_bytes(b"".join(p.read_bytes().splitlines(keepends=True)[1:])),
    "appended to": lambda p: p.open("ab").write(b'{"text":"more"}\n'),
    "removed": lambda p: p.unlink(),
    "a folder now": lambda p: (p.unlink(), p.mkdir()),
    "filled with zeros": lambda p: p.write_bytes(bytes(p.stat().st_size)),
}


@chaos.group("No changed row is served: what comes is what was indexed, and where a changed byte would be next the stream stops "
             "with DATA_LOSS or FAILED_PRECONDITION naming the shard; what lay before it is served.", case="RC-015")
def changed_while_served(run):
    """A shard is edited, replaced, cut, appended to or removed while it is served, its time kept or not"""
    kinds = [(name, kept) for name in EDITS for kept in (True, False)]
    for name, kept in run.pick(kinds, short=5):
        run.strike(f"{name}, time {'kept' if kept else 'new'}", change_served, EDITS[name], kept)


def change_served(fault, edit, kept):
    box = fault.box()
    daemon, trainer = served(box)
    path = box.path / "d" / "part-00002.jsonl"
    if kept and edit is not EDITS["removed"]:
        keep_time(path, edit)
    else:
        edit(path)
    batches, failure = lk.to_the_end(trainer)
    texts = [bytes(b["tokens"][0]).decode() for b in batches]
    lk.same(texts, TEXTS[20:20 + len(texts)], f"{fault.key}: what is served is what was indexed")
    # Workers may hold the file, as it was, open: then nothing of it is lost.
    whole = len(texts) == len(TEXTS) - 20 and failure.startswith("OUT_OF_RANGE")
    lk.check(whole or failure.startswith(("DATA_LOSS", "FAILED_PRECONDITION")) and "part-00002.jsonl" in failure,
             f"{fault.key}: then the shard is named", (len(texts), failure))
    lk.check(len(texts) > 400, f"{fault.key}: what lies before it is served", len(texts))
    lk.check(daemon.process.poll() is None, f"{fault.key}: the daemon lives")


chaos.elsewhere("A byte of a row that was not read yet, of a running stream",
                "DATA_LOSS naming shard and row; all before it is served.", "e2e/test_data.py changed_while_running", case="RC-015")
chaos.elsewhere("Shards truncated, longer, emptied, removed, renamed, added after indexing",
                "The daemon does not start, and names the shard.", "e2e/test_data.py refused_at_start", case="RC-015")
chaos.elsewhere("A byte changed between indexing and the start, size and time kept",
                "DATA_LOSS naming the shard; `lanekeeper verify` finds it, too.", "e2e/test_data.py same_size_at_start", case="RC-015")
