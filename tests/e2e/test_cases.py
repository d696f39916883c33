"""Cases from other loaders' issue threads whose kind shows here in another place than there (tests/CASES.md)."""

import collections
import hashlib
import os
import random
import re
import subprocess
import time

import lk


def documents(box, daemon, **options):
    """{(dataset, row): place}, in the order in which a finite stream of one document a sequence gives them."""
    trainer = box.trainer(daemon, **options)
    trainer.get("show parts")
    batches, _ = lk.to_the_end(trainer)
    trainer.close()
    return [(row[0][0], row[0][1]) for b in batches for row in b["parts"] if row]


def draws(box):
    """RC-021: what is drawn at random depends on seed, dataset, epoch and place; not on who draws it, nor is it drawn twice."""
    for name in ("a", "b"):    # the same contents under two names
        box.dataset(name, ["x"] * 1024)
    stream = box.plain({n: {"path": n, "epochs": 2} for n in ("a", "b")}, mixture="samples", lanes=2, batch=2,
                       order={"block_rows": 16})
    expected = None
    for workers in (1, 2, 8):
        daemon = box.serve(stream, f"w{workers}", index=expected is None, workers=workers)
        got = documents(box, daemon)
        daemon.stop()
        expected = expected or got
        lk.same(got, expected, f"{workers} workers: the same draws")
    rows = {n: [row for name, row in expected if name == n] for n in ("a", "b")}
    lk.check(all(sorted(r) == sorted([*range(1024)] * 2) for r in rows.values()), "every row comes twice in two epochs")
    inside = collections.defaultdict(list)    # (dataset, block): the order of its rows, once an epoch
    for lane in (expected[::2], expected[1::2]):
        for name, row in lane:
            inside[name, row // 16].append(row % 16)
    orders = [tuple(o[i:i + 16]) for o in inside.values() for i in (0, 16)]
    lk.check(len(orders) == 256 and all(sorted(o) == list(range(16)) for o in orders), "a block's rows come together")
    lk.check(len(set(orders)) == 256, "no two of 256 blocks, whatever dataset, lane or epoch, have one order", len(set(orders)))


def empty_shards(box):
    """RC-043, RC-048: shards without a row among others; nothing but such."""
    gzipped = bytes.fromhex("1f8b0800000000000003") + bytes.fromhex("0300") + bytes(8)    # of no byte
    shards = {"a.jsonl": b"", "b.jsonl": lk.rows(["1", "2"]).encode(), "c.jsonl": b"\n \r\n\n", "d.jsonl.gz": gzipped,
              "e.jsonl": lk.rows(["3", "4", "5"]).encode(), "f.jsonl": b""}
    for name, data in shards.items():
        box.write(f"d/{name}", data)
        if b"1" not in data and b"3" not in data:
            box.write(f"none/{name}", data)
    stream = box.plain({"d": {"path": "d", "epochs": 1}})
    trainer = box.trainer(box.serve(stream))
    trainer.get("show tokens")
    lk.same("".join(chr(b["tokens"][0][0]) for b in lk.to_the_end(trainer)[0]), "12345",
            "shards of 0, 2, 0, 0, 3 and 0 rows: five documents, in order")
    (box.path / "folder").mkdir()
    for path, why in (("none", "row"), ("folder", "no .*jsonl|shard|nothing")):
        config = box.config(box.plain({"d": {"path": path}}), path + "-config")
        done = box.tool("index", config)
        lk.check(done.returncode == 1 and path in done.stderr, f"a dataset of nothing ({path}) has no index: an error that names it",
                 (done.returncode, done.stderr[-300:]))
        box.refused(config, f"nor is it served ({path})", r"\bd\b")


def names(box):
    """RC-046: dots in the names of files and folders."""
    good = ["22.05.jsonl", "train.v1/0001.jsonl", "x.wav.data.jsonl", "0 (clean version).a.jsonl", "v.2/w.3/é.jsonl"]
    passed = [".hidden.jsonl", "._x.jsonl", ".git/x.jsonl", "noext", "jsonl", "y.jsonl.bak", "z.json"]
    for name in good:
        box.write(f"d/{name}", lk.rows([name]))
    for name in passed:
        box.write(f"d/{name}", lk.rows(["never"]))
    config = box.config(box.plain({"d": {"path": "d", "epochs": 1}}, sequence=8, tokenizer={"bytes": True, "append": "eos"}, tail="pad"))
    said = box.index(config)
    trainer = box.trainer(box.daemon(config, index=False))
    trainer.get("show tokens")
    tokens = [t for b in lk.to_the_end(trainer)[0] for t in b["tokens"][0]]
    texts = bytes(10 if t == 256 else t for t in tokens).rstrip(b"\0").decode().splitlines()
    lk.same(texts, sorted(good, key=lambda n: n.encode()), "every *.jsonl comes once, whatever dots its name has")
    told = said.stdout + said.stderr
    lk.check("ignored" in told or all(n.split("/")[0] in told for n in passed), "what was passed over is said", told[-400:])


def proportions(box):
    """RC-083: what proportions are in effect is said: in the status, and by explain before anything is started."""
    for name in ("a", "b"):
        box.dataset(name, ["x"] * 1000)
    for weights, shares in (((0.9, 0.9), (0.5, 0.5)), ((0.9, 0.1), (0.9, 0.1)), ((0.1, 0.1), (0.5, 0.5)), ((3, 5), (0.375, 0.625))):
        config = box.config(box.plain({n: {"path": n, "weight": w} for n, w in zip("ab", weights)}), f"w{weights[0]}{weights[1]}".replace(".", "-"))
        box.index(config)
        told = box.tool("explain", config).stdout
        lk.same([float(p) / 100 for p in re.findall(r"expected share ([0-9.]+) %", told)], [round(s, 4) for s in shares],
                f"explain: weights {weights} are shares {shares}")
        daemon = box.daemon(config, index=False)
        lk.same([d["share"] for d in daemon.status()["streams"][0]["datasets"]], list(shares), "so says the status")
        lk.same([float(s) for s in re.findall(r"stream: dataset stream=\S+ dataset=\S+ share=(\S+) rows=1000", daemon.log())],
                list(shares), "and the log, at the start")
        daemon.stop()


def built_by_many(box):
    """RC-113: eight processes index one dataset at once, some are killed; eight daemons begin at once on what there is."""
    stream = box.mixed(400)
    config = box.config(stream)
    box.index(config)
    folder = box.path / "index"
    whole = {p.name: p.read_bytes() for p in folder.iterdir()}
    draw = random.Random(113)
    for round_ in range(3):
        for path in folder.iterdir():
            path.unlink()
        builders = [subprocess.Popen([str(box.tool_path), "index", str(config)], env=box.environment(),
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for _ in range(8)]
        time.sleep(draw.random() * 0.03)
        builders[0].kill()
        statuses = [b.wait(lk.ANSWER_S) for b in builders]
        lk.check(statuses[1:] == [0] * 7, f"round {round_}: seven builders end well, whoever was killed", statuses)
        made = {p.name: p.read_bytes() for p in folder.iterdir()}
        lk.check({n: made.get(n) for n in whole} == whole, f"round {round_}: the index is the one of a single builder, to the byte")
        stray = {n for n in made if n not in whole}
        lk.check(len(stray) <= 3 and not any(n.endswith(tuple(w.rsplit(".", 1)[1] for w in whole)) for n in stray),
                 "what the killed one left behind has no index's name", stray)
    expected = [d for d, _ in lk.run_world(box, box.daemon(config, index=False), 1, 16, show="none")]
    several = [box.config(stream, f"at{i}", snapshots={"dir": "shared", "every": 3}) for i in range(8)]
    daemons = [box.daemon(c, index=False, ready=False) for c in several]
    got = [[d for d, _ in lk.run_world(box, d.ready(), 2, 16, show="none")] for d in daemons]
    lk.check(all(g == expected for g in got), "eight daemons at once, one index, one folder of snapshots and counts: the same digests")
    for d in daemons:
        d.stop()
    read_only(box, stream, expected)


def read_only(box, stream, expected):
    """Every folder that could be written to cannot: it serves, and keeps nothing."""
    config = box.config(stream, "readonly", snapshots={"dir": "kept-s", "every": 3}, counts={"dir": "kept-c"})
    how = {}
    if os.geteuid() == 0:    # whom modes do not stop
        how = {"prefix": ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]}
        probe = subprocess.run([*how["prefix"], "sh", "-c", f"echo > {box.path}/probe"], capture_output=True)
        how = how if probe.returncode == 0 else {}
    for name in ("kept-s", "kept-c"):
        (box.path / name).mkdir()
        (box.path / name).chmod(0o555)
    probe = subprocess.run([*how.get("prefix", ()), "sh", "-c", f"echo > {box.path}/kept-s/probe"], capture_output=True)
    daemon = box.daemon(config, index=False, **how)
    lk.same([d for d, _ in lk.run_world(box, daemon, 2, 16, show="none")], expected, "folders that cannot be written to: the same digests")
    if probe.returncode != 0:
        lk.wait_until(lambda: daemon.status()["snapshots"]["failed"] > 0, lk.ANSWER_S, "a snapshot that cannot be kept")
        lk.same(list((box.path / "kept-s").iterdir()), [], "what could not be kept is counted")
    for name in ("kept-s", "kept-c"):
        (box.path / name).chmod(0o755)


def only_copy(box):
    """RC-118: whatever is thrown away to stay within a size, never a file that the daemon did not make."""
    stream = box.mixed(400)
    for name in ("docs", "man", "code"):    # names that the daemon's own files could have, among the data
        box.write(f"{name}/notes.txt", "mine")
        box.write(f"{name}/0123456789abcdef.lkc", "mine")
        box.write(f"{name}/step-000000000003.lks", "mine")
    (box.path / "link").symlink_to(box.path / "man")
    config = box.config(stream)
    box.index(config)

    def files():
        return {str(p.relative_to(box.path)): hashlib.sha256(p.read_bytes()).hexdigest()
                for n in ("docs", "man", "code") for p in (box.path / n).rglob("*") if p.is_file()}
    before = files()
    expected = None
    for i, (snapshots, counts) in enumerate((("docs", "docs"), ("link", "code"), (".", "."))):
        config = box.config(stream, f"among{i}", snapshots={"dir": snapshots, "every": 2, "keep": 1},
                            counts={"dir": counts, "size": "1KiB"})
        daemon = box.daemon(config, index=False)
        got = [d for d, _ in lk.run_world(box, daemon, 2, 40, show="none")]
        expected = expected or got
        lk.same(got, expected, f"snapshots in {snapshots}, counts in {counts}, next to no room: the same digests")
        daemon.stop()
        after = files()
        lost = {n for n, h in before.items() if after.get(n) != h}
        lk.check(not lost, f"snapshots in {snapshots}, counts in {counts}: every file of the data is as it was", lost)


if __name__ == "__main__":
    lk.main([draws, empty_shards, names, proportions, built_by_many, only_copy])
