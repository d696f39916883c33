"""Data that changes, moves, is malformed or kills its worker: named, counted, never served wrongly."""

import json
import os
import re
import shutil
import time

import lk


def flip_byte(path, find, by):
    """One byte of the file, of the same length."""
    data = path.read_bytes()
    assert data.count(find) == 1 and len(find) == len(by)
    stamp = path.stat()
    with open(path, "r+b") as f:    # in place: the same inode, and the same times
        f.seek(data.index(find))
        f.write(by)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))


def changed_while_running(box):
    """RC-015 a: one byte of a row that was not read yet, size and time as before."""
    texts = [f"row {i:04d} " + "x" * 200 for i in range(2000)]
    box.dataset("d", texts, 4)
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=209, order={"block_rows": 64, "blocks": "sequential", "shuffle_rows": False})
    daemon = box.serve(stream, workers=2, prefetch_steps=2)
    trainer = box.trainer(daemon)
    trainer.get("show tokens")
    trainer.get("next 20")
    flip_byte(box.path / "d/part-00002.jsonl", b"row 1234 ", b"row 1235 ")
    batches, failure = lk.to_the_end(trainer)
    served = [bytes(b["tokens"][0]).decode() for b in batches]
    lk.check(failure.startswith("DATA_LOSS") and "part-00002.jsonl" in failure and re.search(r"\brow|\bblock", failure),
             "a byte changed under a running stream is DATA_LOSS that names the shard", failure)
    numbers = [int(n) for n in re.findall(r"\b(?:row|rows|block) (\d+)", failure)]
    lk.check(any(abs(n - 234) <= 64 or n in (234 // 64, 1234 // 64) for n in numbers), "and the row, or its block", failure)
    lk.check(served == texts[20:20 + len(served)], "nothing wrong was served before", len(served))
    lk.check(len(served) > 900, "what lies before the changed row was served", len(served))


def refused_at_start(box):
    """RC-015 a: shards that changed since indexing are refused by name, before anything is served."""
    texts = lk.prose(1, 400)
    stream = box.plain({"d": {"path": "d"}}, sequence=64)

    def attempt(name, change, *patterns):
        folder = box.path / "d"
        shutil.rmtree(folder, ignore_errors=True)
        box.dataset("d", texts, 4)
        config = box.config(stream, name)
        box.index(config)
        change(folder)
        box.refused(config, f"a shard {name} after indexing is refused, naming it", *patterns)

    attempt("truncated", lambda d: os.truncate(d / "part-00001.jsonl", 100), "part-00001.jsonl")
    attempt("longer", lambda d: (d / "part-00002.jsonl").open("a").write('{"text":"more"}\n'), "part-00002.jsonl")
    attempt("emptied", lambda d: os.truncate(d / "part-00003.jsonl", 0), "part-00003.jsonl")
    attempt("removed", lambda d: (d / "part-00000.jsonl").unlink(), "part-00000.jsonl|3 shards")
    attempt("renamed", lambda d: (d / "part-00000.jsonl").rename(d / "part-00009.jsonl"), "part-00000.jsonl|part-00009.jsonl")
    attempt("added", lambda d: (d / "part-00009.jsonl").write_text('{"text":"a"}\n'), "part-00009.jsonl|5 shards")


def same_size_at_start(box):
    """RC-015 a: one byte changed, the size not: whoever meets the row is told, before it is served."""
    texts = [f"row {i:03d} " + "y" * 50 for i in range(300)]
    box.dataset("d", texts, 3)
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=58)
    config = box.config(stream)
    box.index(config)
    flip_byte(box.path / "d/part-00001.jsonl", b"row 150 ", b"row 151 ")
    daemon = box.daemon(config, index=False, ready=False)
    lk.wait_until(lambda: "ready" in daemon.log() or daemon.process.poll() is not None, 20, "a start")
    if daemon.process.poll() is None:
        trainer = box.trainer(daemon)
        trainer.get("show tokens")
        batches, failure = lk.to_the_end(trainer)
        lk.same([bytes(b["tokens"][0]).decode() for b in batches], texts[:150], "the rows before the changed one are served")
    else:
        failure = daemon.log()
    lk.check("part-00001.jsonl" in failure and "DATA_LOSS" in failure, "one changed byte is DATA_LOSS naming the shard", failure[-300:])
    done = box.tool("verify", "--config", config)
    lk.check(done.returncode == 1 and "part-00001.jsonl" in done.stdout + done.stderr, "lanekeeper verify finds it, too",
             (done.returncode, done.stdout[-300:], done.stderr[-300:]))


def moved(box):
    """RC-015 b, c: the same files elsewhere are the same stream; one source more is another."""
    stream = box.mixed(200)
    daemon = box.serve(stream, "here")
    expected = lk.run_world(box, daemon, 1, 15, show="none")
    trainer = box.trainer(daemon)
    digest = trainer.get("info")[0]
    state = trainer.get("state 7")[0]["state"]
    daemon.stop()
    for name in ("docs", "man", "code"):
        shutil.copytree(box.path / name, box.path / "elsewhere" / name)
        shutil.rmtree(box.path / name)
    elsewhere = {n: {**d, "path": f"elsewhere/{n}/*.jsonl"} for n, d in stream["datasets"].items()}
    shutil.rmtree(box.path / "index")
    there = box.serve({**stream, "datasets": elsewhere}, "there")
    lk.same(lk.run_world(box, there, 1, 15, show="none"), expected, "the same files in another folder: the same digests")
    resumed = box.trainer(there, state=state)
    lk.check(resumed.get("info")[0]["stream"] == digest["stream"] and resumed.get("next")[0]["step"] == 7,
             "and a state is accepted there")
    box.dataset("more", ["one more source"] * 50)
    more = box.serve({**stream, "datasets": {**elsewhere, "more": {"path": "more"}}}, "more")
    failure = box.trainer(more, state=state).connect()
    lk.check(failure.startswith("FAILED_PRECONDITION"), "a state is refused where there is one source more", failure)


def listing_order(box):
    """RC-019: neither the order of a listing nor the locale decides anything."""
    names = ["shard-2", "shard-10", "shard-1", "Shard-3", "shård-4", "shard-1.x"]
    got = []
    for run, order in enumerate((names, names[::-1])):
        for name in order:
            box.write(f"d{run}/{name}.jsonl", lk.rows([name]))
        stream = box.plain({"d": {"path": f"d{run}", "epochs": 1}}, sequence=4,
                           tokenizer={"bytes": True, "append": "eos"}, tail="pad")
        for locale in ("C", "en_US.UTF-8", "C.UTF-8"):
            daemon = box.serve(stream, f"c{run}{locale[:2]}{len(locale)}", how={"environment": {"LC_ALL": locale}})
            trainer = box.trainer(daemon)
            trainer.get("show tokens")
            tokens = [t for b in lk.to_the_end(trainer)[0] for t in b["tokens"][0]]
            got.append(bytes(t if t < 256 else 10 for t in tokens).decode().rstrip("\0").splitlines())
            got.append(trainer.get("info")[0]["stream"])
            daemon.stop()
    by_bytes = [n.removesuffix(".jsonl") for n in sorted((f"{n}.jsonl" for n in names), key=lambda n: n.encode())]
    lk.same(got[0], by_bytes, "shards come in byte-wise order of their names")
    lk.check(all(g == got[0] for g in got[::2]) and len(set(got[1::2])) == 1,
             "whatever order they were made in, and whatever the locale", got)


def malformed(box):
    """RC-027, RC-030, RC-035: rows that are no JSON, or lack their text: the rule decides, and names them."""
    lines = lk.rows([f"good {i:02d}" for i in range(30)]).splitlines()
    bad = {4: '{"text": "cut', 11: '{"text": 5}', 12: '{"other": "x"}', 20: '{"text":"\\ud83d"}', 25: '{"text":"a"}{"text":"b"}'}
    for i, text in bad.items():
        lines[i] = text
    box.write("d/a.jsonl", "\n".join(lines) + "\n")
    lines_at = [0]
    for line in lines:
        lines_at.append(lines_at[-1] + len(line) + 1)
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=7)
    daemon = box.serve(stream, "strict")
    trainer = box.trainer(daemon, timeout=20000)
    trainer.get("show tokens")
    batches, failure = lk.to_the_end(trainer)
    lk.check(failure.startswith(("DATA_LOSS", "INVALID_ARGUMENT", "FAILED_PRECONDITION")) and
             all(re.search(p, failure) for p in (r"a\.jsonl", r"\brow 4\b", r"\bbyte")),
             "on_bad_row error: the stream stops, naming shard, row and byte", failure)
    lk.check("unless the recipe says `on_bad_row: drop`" in failure, "and what would have it go on", failure)
    lk.same([bytes(b["tokens"][0]).decode() for b in batches], [f"good {i:02d}" for i in range(4)],
            "the rows before it are served, and nothing after it")
    lk.check(re.search(r"error stream: failed .*a\.jsonl: row 4 at byte", daemon.log()) is not None, "and the log says so", daemon.log()[-300:])
    lk.check(daemon.status()["healthy"], "a stream that has failed and says so is no stalled daemon", daemon.fetch("/healthz"))
    loose = box.serve({**stream, "on_bad_row": "drop"}, "loose", index=False)
    trainer = box.trainer(loose)
    trainer.get("show tokens")
    rest, end = lk.to_the_end(trainer)
    lk.same([bytes(b["tokens"][0]).decode() for b in rest], [f"good {i:02d}" for i in range(30) if i not in bad],
            "on_bad_row drop: the good rows are served")
    log = loose.log()
    for i in bad:
        lk.check(len(re.findall(rf"row_dropped.*a\.jsonl row {i}\b", log)) == 1, f"row {i} is listed once", log[-300:])
    totals = loose.status()["streams"][0]["cursors"][0]
    lk.check(totals["rows"] == 30 and totals["records"] == 25 and sum(totals["dropped"].values()) == 5,
             "and counted: 30 read, 25 kept, 5 dropped", totals["dropped"])


def many_malformed(box):
    """However many rows are broken, the log has the first of each rule and how many more there were; debug lists all."""
    broken = ['{"text": "cut', '{"other": "x"}'] * 1500
    box.write("d/a.jsonl", "".join(f"{row}\n" for row in broken) + lk.rows(["good"]))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=4, on_bad_row="drop")
    for name, level in (("told", {}), ("debug", {"log_level": "debug"})):
        daemon = box.serve(stream, name, index=not level, counts={"size": 0}, **level)
        trainer = box.trainer(daemon)
        trainer.get("show tokens")
        lk.same([bytes(b["tokens"][0]).decode() for b in lk.to_the_end(trainer)[0]], ["good"], f"{name}: the good row is served")
        dropped = daemon.status()["streams"][0]["cursors"][0]["dropped"]
        daemon.stop()
        log = daemon.log()
        told = [re.findall(rf"warn stream: row_dropped.*: {rule}\b", log) for rule in ("malformed_row", "missing_text")]
        lk.same([len(lines) for lines in told], [20, 20], f"{name}: the first 20 of each rule are warned of")
        more = re.findall(r"warn stream: rows_dropped text=\"s: dataset d: (.*)\"", log)
        lk.check(len(more) == 1 and "1480 malformed_row, 1480 missing_text" in more[0] and "lanekeeper status" in more[0],
                 f"{name}: one line says how many more", more)
        lk.same((dropped["malformed_row"], dropped["missing_text"]), (1500, 1500), f"{name}: which is what the status counts")
        listed = re.findall(r"row_dropped.*a\.jsonl row (\d+)\b", log)
        why = re.findall(r"row_malformed.*a\.jsonl row (\d+)\b", log)
        if level:
            lk.same([sorted(map(int, listed)), sorted(set(map(int, why)))], [list(range(3000))] * 2, "debug: all are listed")
        else:
            lk.check(len(log.splitlines()) < 100 and len(why) == 40, "3,000 broken rows make less than 100 lines", len(log.splitlines()))


def all_dropped(box):
    """A dataset of which no row is left is an error at every step, that says how many rows which rule dropped."""
    box.dataset("d", ["short"] * 5 + ["long enough, but without its field"] * 3, 1)
    shard = next((box.path / "d").iterdir())
    shard.write_text(shard.read_text().replace('"text": "long', '"texts": "long').replace('"text":"long', '"texts":"long'))
    for name, ends in (("repeats", {}), ("ends", {"epochs": 1})):
        stream = box.plain({"d": {"path": "d", **ends}}, on_bad_row="drop", pipeline=[{"filter": {"min_bytes": 8}}, {"pack": {"algorithm": "concat"}}])
        config = box.config(stream, name)
        box.index(config)
        for step in (0, 1000):
            trainer = box.trainer(box.daemon(config, index=False), step=step)
            failure = trainer.connect() or trainer.do("next")[1]
            lk.check(re.search(r"^FAILED_PRECONDITION.*dataset d yields no tokens.*\(3 by missing_text, 5 by filter_bytes\)", failure),
                     f"{name}, step {step}: no tokens, and by which rules", failure)
            box.daemons[-1].stop()


def faulty_folder(box):
    """A daemon that takes the worker with the faults that a test can switch on."""
    folder = box.path / "bin"
    folder.mkdir()
    shutil.copy2(box.daemon_path, folder / "lanekeeperd")
    (folder / "lanekeeper-worker").symlink_to(box.build / "tests" / "lanekeeper-worker-faults")
    return folder / "lanekeeperd"


def crashing_row(box):
    """A row that kills whatever worker reads it is found by bisection."""
    texts = [f"row {i:04d}" for i in range(1000)]
    texts[613] = "row POISON"
    box.dataset("d", texts, 2)
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=8, batch=4, order={"block_rows": 64})
    binary = faulty_folder(box)
    how = {"binary": binary, "environment": {"LK_FAULT_CRASH_TEXT": "POISON"}}
    daemon = box.serve(stream, "strict", how=how, workers=2)
    begin = time.monotonic()
    failure = lk.to_the_end(box.trainer(daemon, timeout=60000))[1]
    lk.check(re.search(r"part-00001\.jsonl", failure) is not None and re.search(r"\brow 113\b", failure) is not None,
             "on_crash error: the stream stops, naming the row", failure)
    lk.check(time.monotonic() - begin < 20, "in bounded time", f"{time.monotonic() - begin:.1f} s")
    daemon.stop()
    loose = box.serve({**stream, "on_crash": "drop", "tail": "pad"}, "loose", index=False, how=how, workers=2)
    trainer = box.trainer(loose, timeout=60000)
    trainer.get("show parts")
    batches, end = lk.to_the_end(trainer)
    seen = sorted(p[1] for b in batches for row in b["parts"] for p in row if p[3] == 0)
    lk.same(seen, [i for i in range(1000) if i != 613], "on_crash drop: every other row is served")
    lk.check(re.search(r"row_dropped.*part-00001\.jsonl row 113\b", loose.log()) is not None, "the dropped row is listed", loose.log()[-400:])
    status = loose.status()
    lk.check(status["workers"]["deaths"] >= 3 and sum(status["streams"][0]["cursors"][0]["dropped"].values()) == 1,
             "deaths and drop are counted", status["workers"])
    lk.wait_until(lambda: len(loose.workers()) == 2, 15, "two workers again")
    lk.ok("the workers were replaced")


def slow_row(box):
    """A worker that is merely slow changes nothing."""
    stream = box.mixed(100)
    text = (box.path / "docs" / "part-00000.jsonl").read_text().splitlines()[5][10:40]
    reference = box.serve(stream, "reference")
    expected = lk.run_world(box, reference, 1, 20, show="none")
    reference.stop()
    slow = {"LK_FAULT_SLOW_TEXT": text, "LK_FAULT_SLOW_ONCE": str(box.path / "once"), "LK_FAULT_SLOW_MS": "500"}
    how = {"binary": faulty_folder(box), "environment": slow}
    daemon = box.serve(stream, "slow", index=False, how=how, workers=2)
    got = lk.run_world(box, daemon, 2, 20, show="none")
    lk.same(got, expected, "a slow worker costs time and nothing else")
    lk.check((box.path / "once").exists(), "and one was slow")


def open_files(daemon, n, limit, bound):
    """A whole epoch of n shards by a daemon that may have so many files open."""
    trainer = daemon.box.trainer(daemon)
    trainer.get("show tokens")
    most, numbers = 0, []
    for _ in range(10):
        batches, failure = trainer.do(f"next {n // 100}")
        numbers += [int(bytes(t)) for b in batches for t in b["tokens"]]
        for pid in [daemon.pid, *daemon.workers()]:
            most = max(most, len(os.listdir(f"/proc/{pid}/fd")))
        if failure:
            break
    trainer.close()
    lk.check(sorted(numbers) == list(range(10 * n)) and numbers != sorted(numbers),
             f"{n} shards, every row at random, {limit} files: a whole epoch", (len(numbers), failure))
    lk.check(most < bound, f"fewer than {bound} were open at any time looked at", most)


def files_limit(box):
    """RC-095: 5,000 shards where 256 files may be open, or 64."""
    n = 5000 if not os.environ.get("LK_SHORT") else 500
    (box.path / "d").mkdir()
    for i in range(n):
        (box.path / "d" / f"s{i:05d}.jsonl").write_text("".join(f'{{"text":"{10 * i + k:05d}"}}\n' for k in range(10)))
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, sequence=5, batch=100, order={"block_rows": 1})
    config = box.config(stream, workers=2)
    box.index(config)
    few = box.daemon(config, index=False, prefix=["prlimit", "--nofile=64:64"])
    open_files(few, n, 64, 64)
    for i in range(20):
        ranks = box.world(few, 4, sharing="always" if i % 2 else "never")
        bad = [f for f in (t.connect() or t.do("next")[1] for t in ranks) if f]
        for t in ranks:
            t.kill() if i % 4 > 1 else t.close()
        if bad:
            break
    lk.check(not bad, "and four clients at a time that come and go are served", bad[:1])
    few.kill()    # stopped, it would write counts of 5,000 shards as long as it may
    daemon = box.daemon(config, index=False, prefix=["prlimit", "--nofile=256:256"])
    open_files(daemon, n, 256, 128)
    for i in range(200):
        if i % 20 == 0:
            crowd = [box.trainer(daemon, step=i, rank=r, world=20, sharing="always" if r % 2 else "never") for r in range(20)]
            bad = [f for f in (t.connect() or t.do("next")[1] for t in crowd) if f]
            for t in crowd:
                t.kill() if i % 40 else t.close()
            if bad:
                break
    lk.check(not bad, "200 clients come and go, half of them killed", bad[:1])
    lk.wait_until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) < 128, 10, "descriptors of gone clients closed")
    lk.ok("and leave no descriptor behind")
    daemon.kill()
    box.refused(box.config(stream, "low", workers=2), "20 files are too few: refused at start with the number needed",
                r"\b20\b", "at least 52", prefix=["prlimit", "--nofile=20:20"])
    box.refused(box.config(stream, "many", workers=9), "so are 64 where the workers need more",
                r"\b64\b", "at least 66", prefix=["prlimit", "--nofile=64:64"])


def byte_tokenizer(fillers, added):
    """A tokenizer.json: a token for each byte, then so many that no text gives, then the added ones."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelled = {b: chr(b) for b in printable}
    spelled.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in spelled)})
    vocabulary = {c: b for b, c in spelled.items()}
    vocabulary.update({f"filler{i}": 256 + i for i in range(fillers)})
    return json.dumps({
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "added_tokens": [{"id": len(vocabulary) + i, "content": c, "special": True, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False} for i, c in enumerate(added)]})


def large_ids(box):
    """RC-086: ids that 16 bits do not hold come back as they are, or not at all."""
    ids = [65535, 65536, 70000]
    box.write("tokenizer.json", byte_tokenizer(65535 - 256, [f"<a{i}>" for i in range(65535, 70001)]))
    box.dataset("d", ["".join(f"<a{i}>" for i in ids) + "z", "<a65535>abc"])
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, sequence=4, tokenizer={"hf": "tokenizer.json"}))
    for sharing, shared in (("never", 0), ("always", 1)):
        how = "in shared memory" if shared else "inline"
        trainer = box.trainer(daemon, sharing=sharing)
        trainer.get("show tokens")
        trainer.get("hold 1")
        batch = trainer.get("next")[0]
        lk.check(batch["shared"] == shared, f"a batch comes {how}", batch)
        lk.same(batch["tokens"], [[*ids, ord("z")]], f"{how}: 65535, 65536 and 70000 are served as they are")
        for dtype in ("u32", "i64"):
            lk.same(trainer.get(f"copy {dtype}")[0]["tokens"], [*ids, ord("z")], f"{how}: and copied so as {dtype}")
        made, failure = trainer.do("copy u16")
        lk.check(failure.startswith("OUT_OF_RANGE") and made == [], f"{how}: a copy as u16 is refused", (made, failure))
        lk.same(trainer.get("next")[0]["tokens"], [[65535, *b"abc"]], f"{how}: the next batch")
        lk.same(trainer.get("copy u16")[0]["tokens"], [65535, *b"abc"], f"{how}: 65535 itself fits a u16")


def linked_tokenizer(box):
    """A tokenizer as model caches keep it: links into a folder of blobs, its configuration beside the link."""
    box.write("cache/blobs/0123", byte_tokenizer(0, ("<one>", "<two>")))
    box.write("cache/model/tokenizer_config.json", json.dumps({"eos_token": "<two>"}))
    (box.path / "cache/model/tokenizer.json").symlink_to("../blobs/0123")
    box.dataset("d", ["ab", "c"])
    stream = box.plain({"d": {"path": "d", "epochs": 1}}, tokenizer={"hf": "cache/model/tokenizer.json", "append": "eos"})
    trainer = box.trainer(box.serve(stream))
    trainer.get("show tokens")
    batches, end = lk.to_the_end(trainer)
    lk.same([b["tokens"][0][0] for b in batches], [97, 98, 257, 99, 257], "its end token comes from beside the link")


if __name__ == "__main__":
    lk.main([linked_tokenizer, large_ids, changed_while_running, refused_at_start, same_size_at_start, moved, listing_order, malformed, many_malformed,
             all_dropped, crashing_row, slow_row, files_limit])
