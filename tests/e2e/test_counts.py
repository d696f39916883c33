"""Counts only save time: whatever becomes of the cache, the digests are the same."""

import fcntl
import json
import os
import pathlib
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

import lk

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "chaos"))
from shim import STOP, Shim  # noqa: E402

STEPS = 60
AT = 50    # where seeking goes


def reference(box, stream, steps=STEPS):
    """The digests without any cache."""
    daemon = box.serve(stream, "reference", counts={"size": 0})
    digests = [d for d, _ in lk.run_world(box, daemon, 1, steps, show="none")]
    daemon.stop()
    return digests


def filled(box, **keys):
    """A run that left counts behind: (stream, config, digests, folder)."""
    stream = box.mixed(**keys)
    config = box.config(stream)
    daemon = box.daemon(config)
    digests = [d for d, _ in lk.run_world(box, daemon, 2, STEPS, show="none")]
    daemon.stop()
    return stream, config, digests, box.path / "counts"


def seek(box, config, at=AT, steps=5, **how):
    """A new daemon asked for step `at`, without snapshots: (digests, its numbers, rows measured, log)."""
    daemon = box.daemon(config, index=False, **how)
    got = [b["digest"] for b in box.trainer(daemon, step=at).get(f"next {steps}")]
    status = daemon.status()
    daemon.stop()
    return got, status["counts"], status["workers"]["rows"], daemon.log()


def present(box):
    """Counts are used, by every order of the same data; by no other way of measuring."""
    stream, config, digests, folder = filled(box)
    lk.same(digests, reference(box, stream), "a run that fills the cache has the digests of one without it")
    lk.check(len(list(folder.glob("*.lkc"))) == 9, "one file a shard", list(folder.iterdir()))
    got, counts, rows, _ = seek(box, config)
    lk.same(got, digests[AT:AT + 5], "seeking with counts known: the same digests")
    lk.check(counts["rows_used"] > 200 and rows < counts["rows_used"], "and the rows before are not measured", (counts, rows))
    files = {p.name: p.stat().st_mtime_ns for p in folder.iterdir()}
    said = json.loads(box.tool("digest", f"{AT}..{STEPS}", "--offline", "--config", config, "--json").stdout)
    lk.same([bytes.fromhex(s["digest"])[::-1].hex() for s in said["steps"]], digests[AT:], "a private daemon over known counts: the same digests")
    lk.check({p.name: p.stat().st_mtime_ns for p in folder.iterdir()} == files, "and it leaves the folder as it was")
    for name, keys in (("seed", {"seed": 99}), ("lanes", {"lanes": 8}), ("mixture", {"mixture": "bytes"}),
                       ("weights", {"datasets": {n: {"path": n, "weight": w} for n, w in (("docs", 1), ("man", 7), ("code", 4))}}),
                       ("block", {"order": {"block_rows": 1}}),
                       ("sequence", {"sequence": 256}), ("end", {"epochs": 3, "tail": "pad"})):
        other = box.mixed(**keys)
        right = reference(box, other)
        other_config = box.config(other, name)
        got, counts, rows, _ = seek(box, other_config)
        lk.same(got, right[AT:AT + 5], f"another {name} over the same data: the right digests")
        lk.check(counts["rows_used"] > 200, f"another {name} finds the counts", (counts, rows))
    known = {p.name for p in folder.iterdir()}
    for name, keys in (("append", {"tokenizer": {"bytes": True}}), ("filter", {"pipeline": [{"filter": {"min_bytes": 90}}, *stream["pipeline"][1:]]}),
                       ("rule for bad rows", {"on_bad_row": "drop"})):
        other = box.mixed(**keys)
        right = reference(box, other)
        got, counts, rows, _ = seek(box, box.config(other, name.split()[0]))
        lk.same(got, right[AT:AT + 5], f"another {name}: the right digests")
        new = {p.name for p in folder.iterdir()} - known
        known |= new
        lk.check(len(new) == 9 and len({n.split("-")[0] for n in new}) == 1, f"another {name} does not use these counts, but has its own", new)
    daemon = box.daemon(config, index=False)
    box.trainer(daemon, step=AT).get("next 2")
    metrics = daemon.fetch("/metrics")[1]
    metrics = metrics.decode() if isinstance(metrics, bytes) else metrics
    used = re.search(r"(?m)^lanekeeper_counts_rows_used_total (\d+)", metrics)
    lk.check(used and int(used[1]) > 200, "/metrics tells of it", metrics[-300:])
    daemon.stop()


def damage(box):
    """Torn, flipped, strange: each is named in the log, ignored, and made anew."""
    _, config, digests, folder = filled(box)
    good = box.path / "good"
    shutil.copytree(folder, good)
    draw = random.Random(5)
    files = sorted(p.name for p in good.iterdir())
    smallest = min(files, key=lambda n: (good / n).stat().st_size)
    size = (good / smallest).stat().st_size

    def cut(n):
        return lambda p: p.write_bytes(p.read_bytes()[:n])

    def flip(i, bit):
        def apply(p):
            data = bytearray(p.read_bytes())
            data[i] ^= 1 << bit
            p.write_bytes(data)
        return apply

    def stranger(p):
        shutil.copyfile(good / files[(files.index(p.name) + 1) % len(files)], p)

    kinds = [(f"cut to {n} bytes", cut(n)) for n in (range(size) if lk.LONG else (0, 1, 95, 96, 97, size // 2, size - 1))]
    kinds += [("with a byte more", lambda p: p.write_bytes(p.read_bytes() + b"\0")), ("that is another shard's", stranger)]
    places = range(size) if lk.LONG else sorted(draw.sample(range(size), 8))
    kinds += [(f"with bit {i % 8} of byte {i} flipped", flip(i, i % 8)) for i in places]
    for kind, apply in kinds:
        shutil.rmtree(folder)
        shutil.copytree(good, folder)
        apply(folder / smallest)
        got, counts, _, log = seek(box, config)
        lk.check(got == digests[AT:AT + 5], f"a file {kind}: the same digests", lambda got=got: got)
        lk.check(counts["damaged"] >= 1 and smallest in log and "unusable" in log and counts["rows_used"] > 100,
                 f"a file {kind}: named, and the others are used", lambda counts=counts, log=log: (counts, log[-300:]))
    daemon = box.daemon(config, index=False)
    lk.run_world(box, daemon, 1, STEPS, show="none")
    daemon.stop()
    done = box.tool("verify", folder)
    lk.check(done.returncode == 0 and len(list(folder.glob("*.lkc"))) == 9, "the damaged ones were made anew",
             done.stdout[-300:] + done.stderr[-300:])
    for name in files:
        (folder / name).write_bytes(os.urandom(300))
    done = box.tool("verify", folder)
    lk.check(done.returncode == 1 and done.stdout.count("BAD") == 9, "lanekeeper verify finds damaged ones", done.stdout[-300:])
    got, counts, _, _ = seek(box, config)
    lk.check(got == digests[AT:AT + 5] and counts["damaged"] == 9 and counts["rows_used"] == 0, "all of them rubbish: measured again", counts)
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / files[0]).mkdir()
    got, counts, _, _ = seek(box, config)
    lk.check(got == digests[AT:AT + 5], "a folder where a file should be: the same digests", counts)


def stale(box):
    """Other data under the same names is other data."""
    stream, config, _, folder = filled(box)
    before = {p.name for p in folder.iterdir()}
    box.write("docs/part-00001.jsonl", lk.rows(lk.prose(77, 200, 350)))
    box.index(config)
    right = reference(box, stream)
    got, counts, rows, _ = seek(box, config)
    lk.same(got, right[AT:AT + 5], "a shard with other rows: the digests of the new data")
    lk.check(counts["rows_used"] > 100 and counts["rows_wrong"] == 0, "the counts of the other shards are used", counts)
    lk.check(len({p.name for p in folder.iterdir()} - before) == 1, "and the new one gets a file of its own")


def shared(box):
    """RC-116: two daemons at one folder, which goes away and comes back meanwhile."""
    stream = box.mixed()
    right = reference(box, stream, 120)
    daemons = [box.serve(stream, f"d{i}", index=False) for i in range(2)]
    trainers = [box.trainer(d, step=s) for d, s in zip(daemons, (0, 30))]
    for trainer in trainers:
        trainer.connect()
        trainer.send("next 60")
    time.sleep(0.3)
    got = [[b["digest"] for b in t.answer()[0]] for t in trainers]
    lk.check(got == [right[:60], right[30:90]], "two daemons that share a folder serve the right digests")
    shutil.rmtree(box.path / "counts", ignore_errors=True)
    got = [[b["digest"] for b in t.get("next 20")] for t in trainers]
    lk.check(got == [right[60:80], right[90:110]], "the folder is removed while they run: nothing changes")
    (box.path / "counts").mkdir(exist_ok=True)
    more = [box.trainer(d, step=110).get("next 5") for d in daemons]
    lk.check(all([b["digest"] for b in m] == right[110:115] for m in more), "and comes back: nothing changes")
    lk.check(all(d.status()["healthy"] for d in daemons), "both are healthy")
    for d in daemons:
        d.stop()
    for i in range(2):
        daemon = box.daemon(box.path / f"d{i}.yaml", index=False)
        lk.run_world(box, daemon, 1, 40, show="none")
        daemon.stop()
    done = box.tool("verify", box.path / "counts")
    lk.check(done.returncode == 0, "every file is whole", done.stdout[-300:] + done.stderr[-300:])


def killed(box):
    """kill -9, again and again, while files are written."""
    stream = box.mixed()
    right = reference(box, stream, 120)
    config = box.config(stream, counts={"dir": "counts", "memory": "1MiB"})
    draw = random.Random(8)
    wrong_steps = []
    for _ in range(60 if lk.LONG else 8):
        daemon = box.daemon(config, index=False)
        got = box.trainer(daemon, step=draw.randrange(100), timeout=60000).get("next 10")
        wrong_steps += [b["step"] for b in got if b["digest"] != right[b["step"]]]
        daemon.process.terminate()    # it writes now
        time.sleep(draw.random() * 0.05)
        daemon.kill()
    lk.same(wrong_steps, [], "kill -9 while counts are written: every batch has the right digest")
    done = box.tool("verify", box.path / "counts")
    lk.check(done.returncode == 0, "and no half-written file has a name", done.stdout[-300:] + done.stderr[-300:])


def planted(box, part, change):
    """Changes the tokens that a row is counted to have, and all checksums with them; false: there is no such count."""
    index = box.path / "index" / f"{part['dataset']}.lkindex"
    for path in sorted((box.path / "counts").glob("*.lkc")):
        def plant(tokens, path=path):
            done = subprocess.run([box.build / "tests/e2e/plant_count", path, index, str(part["row_in_shard"]), str(tokens)],
                                  capture_output=True, text=True)
            return done.stdout.split() if done.returncode == 0 else None
        was = plant(1)
        if was:
            right_one = was[0] == part["shard"]
            plant(int(was[1]) + (change if right_one else 0))
            if right_one:
                return True
    return False


def wrong(box):
    """A count that is wrong, though its checksums are right, is found when the row's tokens are made."""
    box.dataset("docs", lk.prose(4, 900, 300), 3)
    stream = {"seed": 5, "lanes": 2, "batch": 4, "sequence": 64, "tokenizer": {"bytes": True, "append": "eos"},
              "datasets": {"docs": {"path": "docs"}}, "order": {"block_rows": 16}, "pipeline": [{"pack": {"algorithm": "concat"}}]}
    config = box.config(stream)
    daemon = box.daemon(config)
    digests = [d for d, _ in lk.run_world(box, daemon, 1, 120, show="none")]
    trace = json.loads(box.tool("trace", "80", "--config", config, "--json").stdout)
    daemon.stop()
    part = next(p for p in trace["pieces"] if p["first"] == 0)
    for change, fact in ((-1, "a token too few"), (1, "a token too many"), (40, "forty too many")):
        if not lk.check(planted(box, part, change), f"a count of {fact} is planted"):
            continue
        named = [f"dataset docs, shard {part['shard']}, row {part['row_in_shard']}:", "DATA_LOSS"]
        daemon = box.daemon(config, index=False)
        trainer = box.trainer(daemon, step=78)
        got, failure = trainer.do("next 1")
        time.sleep(0.5)    # it is found ahead of time, when nobody waits: and still somebody is told
        if not failure:
            more, failure = trainer.do("next 30")
            got += more
        good = [b["digest"] for b in got]
        lk.check(good == digests[78:78 + len(good)] and len(good) <= 2, f"{fact}: what is served before is right", len(good))
        lk.check(all(n in str(failure) for n in named), f"{fact}: DATA_LOSS names dataset, shard and row", failure)
        again = box.trainer(daemon, step=75).get("next 10")
        lk.same([b["digest"] for b in again], digests[75:85], f"{fact}: then it is measured, and served as it should be")
        daemon.stop()
        lk.check("counts: wrong" in daemon.log() or "count that was kept is wrong" in daemon.log(), f"{fact}: the log tells", daemon.log()[-300:])
        got, counts, _, _ = seek(box, config, 75)
        lk.check(got == digests[75:80] and counts["rows_used"] > 50, f"{fact}: the file has been put right", counts)


def wrong_and_saved(box):
    """What was made of a wrong count does not outlive it in snapshots."""
    box.dataset("docs", lk.prose(4, 900, 300), 3)
    stream = {"seed": 5, "lanes": 2, "batch": 4, "sequence": 64, "tokenizer": {"bytes": True, "append": "eos"},
              "datasets": {"docs": {"path": "docs"}}, "order": {"block_rows": 16},
              "pipeline": [{"shuffle": {"buffer": 300}}, {"pack": {"algorithm": "concat"}}]}
    config = box.config(stream, snapshots={"dir": "snap", "every": 5, "keep": 50})
    right = reference(box, stream, 400)
    daemon = box.daemon(box.config(stream, "fill"), index=False)
    lk.run_world(box, daemon, 1, 60, show="none")
    # A row that is handed out long after it was drawn: snapshots are written while it waits.
    pieces = json.loads(box.tool("trace", "50", "--config", box.path / "fill.yaml", "--json").stdout)["pieces"]
    daemon.stop()
    part = next(p for p in pieces if p["first"] == 0)
    lk.check(planted(box, part, -1), "a count of a token too few is planted")
    daemon = box.daemon(config, index=False)
    # Who looks ahead has asked for more when it fails, and what comes of that is written, and right.
    _, failure = box.trainer(daemon, step=46, lookahead=0).do("next 60")
    lk.check("DATA_LOSS" in str(failure) and f"row {part['row_in_shard']}:" in str(failure), "the row is found and named", failure)
    lk.wait_until(lambda: not list((box.path / "snap").glob("*.lks")), 10, "snapshots removed")
    daemon.stop()
    lk.check(not list((box.path / "snap").glob("*.lks")), "and no snapshot is left")
    daemon = box.daemon(config, index=False)
    got = [b["digest"] for b in box.trainer(daemon, step=46).get("next 60")]
    lk.same(got, right[46:106], "then the stream is what it should be")
    daemon.stop()
    lk.check(list((box.path / "snap").glob("*.lks")), "and snapshots are written again")


def wrong_elsewhere(box):
    """A snapshot made of a wrong count is not trusted any more once anybody measures that row."""
    for shard in range(3):    # of rows so large that few are measured ahead, and nothing is found too soon
        texts = lk.prose(4, 900, 300)[300 * shard:300 * (shard + 1)]
        box.write(f"docs/part-{shard}.jsonl", "".join(json.dumps({"text": t, "other": "x" * 8000}) + "\n" for t in texts))
    stream = {"seed": 5, "lanes": 2, "batch": 4, "sequence": 64, "tokenizer": {"bytes": True, "append": "eos"},
              "datasets": {"docs": {"path": "docs"}}, "order": {"block_rows": 16},
              "pipeline": [{"shuffle": {"buffer": 300}}, {"pack": {"algorithm": "concat"}}]}
    saved = {"snapshots": {"dir": "snap", "every": 5, "keep": 50}, "prefetch_steps": 2}
    right = reference(box, stream, 120)
    daemon = box.daemon(box.config(stream, "fill"), index=False)
    lk.run_world(box, daemon, 1, 90, show="none")
    pieces = json.loads(box.tool("trace", "80", "--config", box.path / "fill.yaml", "--json").stdout)["pieces"]
    daemon.stop()
    part = next((p for p in pieces if p["first"] == 0), pieces[1])
    lk.check(planted(box, part, -1), "a count of a token too few is planted")
    daemon = box.daemon(box.config(stream, **saved), index=False)
    box.trainer(daemon, step=46, lookahead=0).get("next 15")
    lk.wait_until(lambda: len(list((box.path / "snap").glob("*.lks"))) >= 2, 10, "snapshots written")
    daemon.kill()
    both = box.config(None, "both", streams={"s": stream, "other": {**stream, "seed": 6}}, **saved)
    daemon = box.daemon(both, index=False)
    trainer = box.trainer(daemon, stream="s", step=58, lookahead=0)
    trainer.get("next 1")
    # The row is measured in the window of another stream, which never heard of its count.
    other = box.trainer(daemon, stream="other", step=0)
    lk.wait_until(lambda: other.get("next 50") and ("stream: failed stream=s" in daemon.log() or daemon.status()["counts"]["rows_wrong"] > 0),
                  60, "the contradiction found")
    _, failure = trainer.do("next 40")
    lk.check("DATA_LOSS" in str(failure) and "count that was kept is wrong" in str(failure), "the run that began at such a snapshot is told", failure)
    got = [b["digest"] for b in box.trainer(daemon, stream="s", step=70).get("next 30")]
    lk.same(got, right[70:100], "and another gets what it should be")


def full(box):
    """RC-117, RC-120: no room, or no folder: it costs the counts, not the data."""
    stream = box.mixed()
    right = reference(box, stream)
    place = box.path / "full"
    place.mkdir()
    script = f'mount -t tmpfs -o size=8k none {place} && exec "$0" "$@"'
    prefix = ["unshare", "-m", "sh", "-c", script]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        print("# no mount namespaces here: a full disk is not tried")
    else:
        daemon = box.serve(stream, "config", index=False, how={"prefix": prefix}, counts={"dir": "full"})
        got = [d for d, _ in lk.run_world(box, daemon, 2, STEPS, show="none")]
        lk.wait_until(lambda: daemon.status()["counts"]["failed"] > 0, 30, "a file that cannot be written")
        lk.same(got, right, "a full disk under the counts changes nothing")
        lk.check("not_written" in daemon.log() and daemon.status()["healthy"], "it is logged and counted")
        daemon.stop()
    box.write("file", "this is no folder")
    daemon = box.serve(stream, "none", index=False, counts={"dir": "file/counts"})
    got = [d for d, _ in lk.run_world(box, daemon, 1, STEPS, show="none")]
    lk.check(got == right and "none_kept" in daemon.log(), "no folder can be made: it is logged, and nothing changes")
    daemon.stop()
    small = box.config(stream, "small", counts={"dir": "small-counts", "size": "1KiB"})
    daemon = box.daemon(small, index=False)
    got = [d for d, _ in lk.run_world(box, daemon, 1, STEPS, show="none")]
    daemon.stop()
    left = sum(p.stat().st_size for p in (box.path / "small-counts").iterdir())
    lk.check(got == right and left <= 1024, "the folder stays within its size", left)


def measured(box, config, *arguments):
    done = box.tool("measure", config, "--json", *arguments)
    if done.returncode != 0:
        raise lk.Failure(f"lanekeeper measure ended with {done.returncode}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def measure(box):
    """`lanekeeper measure` fills the cache, and what it says of the data is so."""
    stream = box.mixed()
    stream["pipeline"][0] = {"filter": {"min_bytes": 40}}
    config = box.config(stream, streams={"s": stream, "again": {**stream, "seed": 8}, "other": {**stream, "tokenizer": {"bytes": True}}})
    box.index(config)
    said = measured(box, config, "--stream", "s", "--jobs", "2")
    lk.check(said["measured"] == 1800 and [d["dataset"] for d in said["datasets"]] == ["code", "docs", "man"], "every row is measured once", said["measured"])
    for seed, name in enumerate(("docs", "man", "code")):
        texts = lk.prose(seed + 1, 600, 300 + 150 * seed)
        kept = [len(t.encode()) for t in texts if len(t.encode()) >= 40]
        one = next(d for d in said["datasets"] if d["dataset"] == name)
        lengths = {}
        for n in kept:
            power = 1 << (n + 1).bit_length() - 1
            lengths[power] = lengths.get(power, 0) + 1
        lk.same([one["rows"], one["kept"], one["text_bytes"], one["tokens"], one["longest"], one["dropped"]["filter_bytes"],
                 {r["from"]: r["rows"] for r in one["lengths"]}],
                [600, len(kept), sum(kept), sum(kept) + len(kept), max(kept) + 1, 600 - len(kept), lengths],
                f"rows, text, tokens, lengths and drops of {name} are what they are")
    again = measured(box, config, "--stream", "again")
    lk.check(again["measured"] == 0 and again["datasets"][0]["rows_known_before"] == 600
             and [{**d, "rows_known_before": 0, "stream": "s"} for d in again["datasets"]] == said["datasets"],
             "another seed has nothing left to measure, and is told the same", again["measured"])
    everything = measured(box, config)
    lk.check(everything["measured"] == 1800 and len(everything["datasets"]) == 6, "of all streams, each way of measuring once", everything["measured"])
    lk.check(measured(box, config, "--again", "--dataset", "docs")["wrong"] == 0, "measured again, nothing is contradicted")
    text = box.tool("measure", config, "--stream", "s").stdout
    lk.check("dataset docs, as stream s measures it" in text and "filter_bytes" in text and "of tokens" in text, "people are told, too", text[:300])
    one = box.config(stream, "one")
    digests = reference(box, stream)
    got, counts, rows, _ = seek(box, one)
    lk.check(got == digests[AT:AT + 5] and counts["rows_used"] > 200 and counts["rows_kept"] == 0, "a daemon finds all of it", counts)


def measure_stopped(box):
    """kill -9 costs some seconds of work, and no more; so does a row that cannot be measured."""
    stream = box.mixed(3000)
    config = box.config(stream)
    box.index(config)
    for n in (1, 2, 4, 3):    # files, the last of which has no name yet
        shim = Shim(box, "lanekeeper", "rename", n, STOP)
        running = subprocess.Popen([str(box.tool_path), "measure", str(config), "--jobs", "1"], env=box.environment(shim.environment()),
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lk.wait_until(lambda r=running: lk.stopped(r.pid) or r.poll() is not None, lk.ANSWER_S, "a stop, or the end")
        lk.check(running.poll() is None, f"it is stopped before its {n}th file has its name", running.poll())
        running.kill()
        running.wait()
    done = box.tool("verify", box.path / "counts")
    lk.check(done.returncode == 0, "what kill -9 leaves is whole", lambda: done.stdout[-300:])
    said = measured(box, config)
    known = [d["rows_known_before"] for d in said["datasets"]]
    lk.check(all(d["kept"] + sum(d["dropped"].values()) == 3000 for d in said["datasets"]) and sum(known) > 0,
             "the next one goes on, and tells of all rows", known)
    bad = [json.dumps({"text": t}) for t in lk.prose(9, 2000, 300)]
    bad[1234] = '{"text": '
    box.write("bad/part-0.jsonl", "\n".join(bad) + "\n")
    broken = box.config({**stream, "datasets": {"bad": {"path": "bad"}}}, "broken")
    box.index(broken)
    done = box.tool("measure", broken, "--jobs", "1")
    lk.check(done.returncode == 1 and "part-0.jsonl: row 1234" in done.stderr, "a row that cannot be measured is named", done.stderr[-300:])
    said = measured(box, box.config({**stream, "datasets": {"bad": {"path": "bad"}}, "on_bad_row": "drop"}, "loose"))
    lk.check(said["datasets"][0]["dropped"]["malformed_row"] == 1, "or dropped and counted, where the recipe says so")
    again = box.tool("measure", broken, "--jobs", "1")
    left = [box.tool("verify", p).stdout for p in (box.path / "counts").glob("*.lkc")]
    lk.check(again.returncode == 1 and any(re.search(r": (\d{3,}) of 2000 rows", t) for t in left), "what was measured before it is kept", left)


def faulty_tool(box):
    """The tool with a worker that has faults."""
    (box.path / "bin").mkdir()
    for name in ("lanekeeper", "lanekeeperd"):
        shutil.copy(box.build / name, box.path / "bin" / name)
    (box.path / "bin" / "lanekeeper-worker").symlink_to(box.build / "tests" / "lanekeeper-worker-faults")
    return box.path / "bin" / "lanekeeper"


def measure_interrupted(box):
    """Ctrl-C, at any time, keeps what was measured, and is what ends the command."""
    tool = faulty_tool(box)
    texts = lk.prose(12, 2000, 100)
    texts[1990] = "a row that is SLOW"
    box.dataset("slow", texts)
    stream = {**box.mixed(), "datasets": {"slow": {"path": "slow"}}}
    box.index(box.config(stream))

    def start(name, ms, *before, **how):
        config = box.config(stream, name, counts={"dir": f"{name}-counts"})
        asleep = box.path / f"{name}-asleep"
        running = subprocess.Popen([*before, tool, "measure", config, "--jobs", "1"], text=True, **how, env=box.environment(
            {"LK_FAULT_SLOW_TEXT": "SLOW", "LK_FAULT_SLOW_MS": str(ms), "LK_FAULT_SLOW_ONCE": str(asleep)}))
        return running, config, asleep

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    started = [start(number.name, 60000, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for number in numbers]
    started.append(start("nohup", 1000, "nohup", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for number, (running, _, asleep) in zip((*numbers, signal.SIGHUP), started):
        lk.wait_until(asleep.exists, lk.ANSWER_S, "the slow row, which is not in the first task")
        time.sleep(0.2)
        running.send_signal(number)
    lk.same(started.pop()[0].wait(lk.ANSWER_S), 0, "nohup: SIGHUP ends nothing")
    for number, (running, config, _) in zip(numbers, started):
        out, err = running.communicate(timeout=lk.ANSWER_S)
        lk.same((running.returncode, out), (-number, ""), f"{number.name} ends it")
        kept = re.search(rf"stopped by {number.name}; the counts of (\d+) rows are kept", err)
        said = measured(box, config)
        lk.check(kept and 1000 <= int(kept.group(1)) < 2000 and said["datasets"][0]["rows_known_before"] == int(kept.group(1)),
                 f"{number.name}: what was measured is kept, and the next one goes on from there", (err[-300:], said["datasets"][0]["rows_known_before"]))


def measure_crash(box):
    """A row that crashes its process is named; what else was measured is kept."""
    tool = faulty_tool(box)
    texts = lk.prose(12, 1000, 200)
    texts[613] = "a row that is POISON"
    stream = {**box.mixed(), "datasets": {"poison": {"path": "poison"}}}
    box.dataset("poison", texts)
    for rule, status in (("error", 1), ("drop", 0)):
        config = box.config({**stream, "on_crash": rule}, rule)
        box.index(config)
        done = subprocess.run([tool, "measure", config, "--json", "--jobs", "2"], capture_output=True,
                              text=True, env=box.environment({"LK_FAULT_CRASH_TEXT": "POISON"}), timeout=lk.ANSWER_S)
        lk.check(done.returncode == status, f"on_crash {rule}: exit status {status}", (done.returncode, done.stderr[-300:]))
        lk.check("row 613" in done.stderr, f"on_crash {rule}: the row is named", done.stderr[-500:])
        if status == 0:
            one = json.loads(done.stdout)["datasets"][0]
            lk.check(one["dropped"]["crashes_worker"] == 1 and one["rows"] == 1000, "and counted", one["dropped"])
            lk.same(box.tool("measure", config, "--dropped").stdout, "s: dataset poison shard part-00000.jsonl row 613: crashes_worker\n", "and listed")


def dropped_rows(name, numbers):
    """Rows of which the rules `malformed_row`, `missing_text`, `filter_bytes` and `filter_equals` drop some: (lines, {number: rule})."""
    lines, rules = [], {}
    for i in numbers:
        row = {"text": f"{name} {i:05d}, which is long enough", "lang": "en"}
        rule = {1: "malformed_row", 3: "missing_text", 4: "filter_bytes", 6: "filter_equals"}.get(i % 7)
        if rule == "missing_text":
            row["body"] = row.pop("text")
        elif rule == "filter_bytes":
            row["text"] = "short"
        elif rule == "filter_equals":
            row["lang"] = "de"
        lines.append(json.dumps(row)[:-9 if rule == "malformed_row" else None])
        if rule:
            rules[len(lines) - 1] = rule
    return lines, rules


def dropped_data(box, rows):
    """Two datasets of two shards, one of them compressed, and one that drops nothing: (stream, what is to be listed)."""
    listed = []
    for name in ("a", "b"):
        for number, shard in enumerate(("one.jsonl", "two.jsonl.zst")):
            lines, rules = dropped_rows(name, range(number * rows, number * rows + rows // (1 + number)))
            text = "\n".join([*lines[:40], "", *lines[40:]]).encode() + b"\n"    # a blank line is no row
            if number:
                text = subprocess.run(["zstd", "-q", "-c"], input=text, stdout=subprocess.PIPE, check=True).stdout
            box.write(f"{name}/{shard}", text)
            listed += [(name, shard, i, rules[i]) for i in sorted(rules)]
    box.write("kept/one.jsonl", "".join(json.dumps({"text": f"row {i:05d} of those kept", "lang": "en"}) + "\n" for i in range(300)))
    stream = box.plain({n: {"path": n, "epochs": 1} for n in ("b", "kept", "a")}, sequence=64, batch=8, on_bad_row="drop",
                       pipeline=[{"filter": {"min_bytes": 8}}, {"filter": {"field": "lang", "equals": "en"}}, {"pack": {"algorithm": "concat"}}])
    return stream, listed


def list_of(done):
    """What `measure --dropped --json` has printed."""
    if done.returncode != 0:
        raise lk.Failure(f"lanekeeper measure --dropped ended with {done.returncode}: {done.stderr[-500:]}")
    return [(r["dataset"], r["shard"], r["row_in_shard"], r["reason"]) for r in map(json.loads, done.stdout.splitlines())]


def dropped(box):
    """`lanekeeper measure --dropped` lists every dropped row, those and no others, whoever measured it."""
    stream, listed = dropped_data(box, 400)
    config = box.config(stream)
    daemon = box.daemon(config)
    lk.to_the_end(box.trainer(daemon))
    counted = daemon.status()["streams"][0]["cursors"][0]["dropped"]
    daemon.stop()
    sums = {rule: sum(r[3] == rule for r in listed) for rule in counted}
    lk.check(sums == counted and sorted(sums.values())[-4] > 100, "a daemon drops as many rows of each rule as there are", (counted, sums))
    lk.check(measured(box, config)["measured"] == 0, "and has counted all rows")
    said = box.tool("measure", config, "--dropped", "--json")
    lk.same(list_of(said), listed, "all of them are listed, and no other, in the order of datasets, shards and rows")
    last = json.loads(said.stdout.splitlines()[-1])
    lk.check(last["stream"] == "s" and last["row"] == 400 + last["row_in_shard"], "with the stream, and the number in the dataset", last)
    lk.same(list_of(box.tool("measure", config, "--dropped", "--json", "--again", "--jobs", "3")), listed, "measured again, the same")
    text = box.tool("measure", config, "--dropped").stdout
    lk.same(text.splitlines(), [f"s: dataset {d} shard {s} row {i}: {rule}" for d, s, i, rule in listed], "people are told in the words of the log")
    logged = re.findall(r'row_dropped text="(.*)"', daemon.log())
    lk.check(len(logged) == 80 and set(logged) <= set(text.splitlines()), "which has some of the lines", (len(logged), logged[:1]))
    lk.check("lanekeeper measure CONFIG --dropped" in re.search(r"rows_dropped text=.*", daemon.log()).group(), "and says where all are")
    lk.same(list_of(box.tool("measure", config, "--dropped", "--json", "--dataset", "b")), [r for r in listed if r[0] == "b"], "of one dataset its own")
    lk.same(box.tool("measure", config, "--dropped", "--dataset", "kept").stdout, "", "of one that drops nothing, nothing")
    for number, path in enumerate(sorted((box.path / "counts").glob("*.lkc"))):
        data = path.read_bytes()
        path.write_bytes((data[:-1], data[:120] + bytes([data[120] ^ 1]) + data[121:], b"")[number % 3])
    done = box.tool("measure", config, "--dropped", "--json", "--jobs", "3")
    lk.check(list_of(done) == listed and "measured again" in done.stderr, "of damaged counts the rows are measured again: the same", done.stderr[-300:])
    fresh = box.config({**stream, "on_bad_row": "drop"}, "fresh", counts={"dir": "fresh-counts", "size": "1KiB", "memory": "1MiB"})
    lk.same(list_of(box.tool("measure", fresh, "--dropped", "--json")), listed, "where counts find no room on disk, the same")
    strict = box.tool("measure", box.config({**stream, "on_bad_row": "error"}, "strict"), "--dropped")
    lk.check(strict.returncode == 1 and "one.jsonl: row" in strict.stderr, "a row that may not be dropped ends it, and is named", strict.stderr[-300:])
    off = box.tool("measure", box.config(stream, "off", counts={"size": 0}), "--dropped")
    lk.check(off.returncode == 1 and off.stdout == "" and "runtime.counts.size is 0" in off.stderr, "where no counts are kept it is refused", off.stderr[-300:])


def dropped_slowly(box):
    """The list is in order whoever is ready first; a reader who is slow is waited for, and one who is gone is an error."""
    tool = faulty_tool(box)
    stream, listed = dropped_data(box, 3000)
    shard = box.path / "a" / "one.jsonl"
    shard.write_text(shard.read_text().replace("a 00002, which is long", "a 00002, which is SLOW", 1))
    config = box.config(stream)
    box.index(config)
    asleep = box.path / "asleep"
    command = [tool, "measure", config, "--dropped", "--json", "--jobs", "3"]
    slow = box.environment({"LK_FAULT_SLOW_TEXT": "SLOW", "LK_FAULT_SLOW_MS": "1500", "LK_FAULT_SLOW_ONCE": str(asleep)})
    done = subprocess.run(command, capture_output=True, text=True, env=slow, timeout=lk.ANSWER_S)
    lk.check(asleep.exists() and list_of(done) == listed, "the first row is measured last: the same list", len(done.stdout.splitlines()))
    for name, where in (("full", open("/dev/full", "w")), ("closed", None)):    # noqa: SIM115
        if where is None:
            read, write = os.pipe()
            os.close(read)
            where = os.fdopen(write, "w")
        with where:
            done = subprocess.run(command[:-3], stdout=where, stderr=subprocess.PIPE, text=True, env=box.environment(), timeout=lk.ANSWER_S)
        lk.check(done.returncode == 1 and "cannot write to standard output" in done.stderr, f"{name}: a list that cannot be written is an error", done)
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=box.environment())
    waiting = struct.pack("i", 0)

    def full():
        return struct.unpack("i", fcntl.ioctl(running.stdout, termios.FIONREAD, waiting))[0] >= 60000

    lk.wait_until(full, lk.ANSWER_S, "a full pipe")
    time.sleep(0.2)
    lk.check(running.poll() is None, "a reader who does not read is waited for", running.poll())
    running.send_signal(signal.SIGINT)
    status = running.wait(lk.ANSWER_S)
    out, err = running.communicate(timeout=lk.ANSWER_S)
    lines = [json.loads(line) for line in out.splitlines()]
    lk.check(status == -signal.SIGINT and "stopped by SIGINT" in err and 500 < len(lines) < len(listed), "Ctrl-C ends it meanwhile",
             (status, err[-300:], len(lines)))
    lk.same([(r["dataset"], r["shard"], r["row_in_shard"]) for r in lines], [r[:3] for r in listed[:len(lines)]], "what it has written is whole lines")


def explained(box, config, *arguments):
    done = box.tool("explain", config, "--json", "--sample", "0", *arguments)
    if done.returncode != 0:
        raise lk.Failure(f"lanekeeper explain ended with {done.returncode}: {done.stderr[-500:]}")
    return json.loads(done.stdout)


def exact(box):
    """`lanekeeper explain` over known counts says what a run will be, and the run is that."""
    parts = {"docs": {"path": "docs", "weight": 5, "epochs": 2}, "man": {"path": "man", "weight": 3, "epochs": 1}}
    stop = {"docs": {"path": "docs", "weight": 5, "epochs": 1, "then": "stop"}, "man": {"path": "man", "weight": 3}}
    first_fit = [{"filter": {"min_bytes": 40}}, {"split": {"max_tokens": 128}}, {"pack": {"algorithm": "first_fit", "pool": 16}}]
    schedule = [{"from": 0, "size": 4}, {"from": 20, "size": 12}, {"from": 60, "size": 8}]
    for name, keys in (("drop", {"datasets": parts}), ("pad", {"datasets": parts, "tail": "pad"}), ("stop", {"datasets": stop}),
                       ("first_fit", {"datasets": parts, "tail": "pad", "pipeline": first_fit}),
                       ("schedule", {"datasets": parts, "batch": schedule, "lanes": 2})):
        config = box.config(box.mixed(**keys), name)
        box.index(config)
        before = explained(box, config)
        if name in ("drop", "first_fit"):    # the ways of measuring that are new
            lk.check(before["exact"] is None and before["rows_counted"] == 0, f"{name}: without counts nothing is called exact", before["exact"])
            text = box.tool("explain", config, "--sample", "16").stdout
            lk.check("lanekeeper measure" in text and "estimated" in text, f"{name}: how to come by them is said", text[-600:])
            measured(box, config)
        said = explained(box, config)["exact"]
        daemon = box.daemon(config, index=False)
        trainer = box.trainer(daemon)
        trainer.get("show parts")
        batches, end = lk.to_the_end(trainer)
        totals = daemon.status()["streams"][0]["cursors"][0]
        daemon.stop()
        tokens = {d["dataset"]: 0 for d in said["datasets"]}
        for batch in batches:
            for row in batch["parts"]:
                for part in row:
                    tokens[part[0]] += part[4]
        lk.same([said["ended"], said["steps"], said["sequences"], said["tokens"], {d["dataset"]: d["tokens"] for d in said["datasets"]}],
                [True, len(batches), sum(b["rows"] for b in batches), sum(tokens.values()), tokens], f"{name}: steps, sequences and tokens are exactly those")
        lk.check(f"after {said['steps']} steps" in str(end), f"{name}: the stream ends there", end)
        lk.check(said["padded"] == said["sequences"] * 128 - said["tokens"], f"{name}: so is the padding", said)
        lk.same(said["tokens"], totals["tokens_out"], f"{name}: the daemon counts the same")
        some = explained(box, config, "--steps", "7")["exact"]
        lk.check(some["steps"] == 7 and not some["ended"]
                 and some["tokens"] == sum(p[4] for b in batches[:7] for row in b["parts"] for p in row), f"{name}: and of some steps", some)
    endless = box.config(box.mixed(), "endless")
    box.index(endless)
    lk.check(explained(box, endless)["exact"] is None, "a stream without end is run for the steps that are asked for")
    measured(box, endless)
    said = explained(box, endless, "--steps", "500")["exact"]
    shares = {d["dataset"]: d["tokens"] / said["tokens"] for d in said["datasets"]}
    lk.check(said["steps"] == 500 and abs(shares["docs"] - 0.5) < 0.02 and abs(shares["code"] - 0.2) < 0.02, "its shares are near those of the recipe", shares)
    text = box.tool("explain", endless, "--steps", "500").stdout
    lk.check("the first 500 steps have 4,000 sequences" in text and "passes" in text, "people are told, too", text[-800:])
    for name, keys in (("barren", {"datasets": parts}), ("dry", {})):
        none = [{"filter": {"min_bytes": 100000}}, *box.mixed()["pipeline"][1:]]
        config = box.config(box.mixed(**keys, pipeline=none), name)
        measured(box, config)
        said = explained(box, config, "--steps", "50")
        lk.check(said["exact"] is None and "yields no tokens" in said["fails"], f"{name}: a stream that will fail is told before", said["fails"])
    for path in (box.path / "counts").glob("*.lkc"):
        path.write_bytes(path.read_bytes()[:-1])
    lk.check(explained(box, endless, "--steps", "500")["exact"] is None, "damaged counts are none")


if __name__ == "__main__":
    lk.main([present, damage, stale, shared, killed, wrong, wrong_and_saved, wrong_elsewhere, full, measure, measure_stopped, measure_interrupted,
             measure_crash, dropped, dropped_slowly, exact])
