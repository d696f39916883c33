"""Law 4: snapshots only save time. Damaged in any way they cost some, and change nothing."""

import os
import random
import re
import shutil
import subprocess
import time

import lk

EVERY = 10
STEPS = 60


def served(box):
    """A run that left snapshots: (stream, config, digests, folder of the snapshots)."""
    stream = box.mixed()
    config = box.config(stream, snapshots={"dir": "snap", "every": EVERY, "keep": 4})
    daemon = box.daemon(config)
    digests = [d for d, _ in lk.run_world(box, daemon, 2, STEPS, show="none")]
    settle(box.path / "snap")
    daemon.stop()
    return stream, config, digests, box.path / "snap"


def settle(folder):
    """Until the lanes, which run on after the last step asked for, have all come equally far and stay there."""
    seen = []

    def still():
        lanes = [positions(p) for p in by_lane(folder).values()]
        seen.append(lanes)
        return len(lanes) == 4 and len({p[-1] for p in lanes}) == 1 and seen[-40:] == [lanes] * 40

    lk.wait_until(still, 30, "snapshots of all lanes")


def by_lane(folder):
    lanes = {}
    for path in sorted(folder.glob("*.lks")):
        lanes.setdefault(path.name.split("-")[1], []).append(path)
    return lanes


def positions(paths):
    return [int(p.stem.rsplit("-", 1)[1]) for p in paths]


def restart(box, config, digests, at, steps=5):
    """A new daemon asked for step `at`: its log, whether the digests are right, and its snapshot numbers."""
    daemon = box.daemon(config, index=False)
    got = box.trainer(daemon, step=at).get(f"next {steps}")
    status = daemon.status()
    daemon.stop()
    right = [b["digest"] for b in got] == digests[at:at + steps]
    return daemon.log(), right, status["snapshots"], status["streams"][0]["cursors"][0]


def damage(box):
    """RC-017: every size class, flipped bytes, strangers: the older one is used, and named."""
    _, config, digests, folder = served(box)
    lanes = by_lane(folder)
    last = positions(lanes["00000"])[-1]
    lk.check(last >= 2 * STEPS, "snapshots reach the last step", last)
    lk.same([positions(p)[-4:] for p in lanes.values()], [[last - 60, last - 40, last - 20, last]] * 4,
            "the newest four snapshots of each lane are kept")
    shutil.copytree(folder, box.path / "good")
    at = STEPS - 7    # the newest usable snapshot is that of step 50, the one before of step 40
    log, right, numbers, _ = restart(box, config, digests, at)
    lk.check(right and numbers["read"] == 4 and numbers["damaged"] == 0 and "unusable" not in log,
             "whole snapshots are used: one a lane", (right, numbers))
    draw = random.Random(3)

    def edit(change):
        def apply(path):
            data = path.read_bytes()
            path.write_bytes(change(bytearray(data)))
        return apply

    def flip(data):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        return data

    def head_flip(data):
        data[draw.randrange(64)] ^= 1 << draw.randrange(8)
        return data

    def last_flip(data):
        data[-1] ^= 0x80
        return data

    kinds = [("of 0 bytes", lambda p: p.write_bytes(b"")), ("of 1 byte", edit(lambda d: d[:1])),
             ("of half its bytes", edit(lambda d: d[:len(d) // 2])), ("without its last byte", edit(lambda d: d[:-1])),
             ("with a byte more", edit(lambda d: d + b"\0")), ("of 63 bytes", edit(lambda d: d[:63])),
             ("with the last bit flipped", edit(last_flip)),
             ("that is another lane's", lambda p: shutil.copyfile(by_lane(folder)["00003" if "-00000-" in p.name else "00000"][-1], p)),
             ("that is an older one renamed", lambda p: shutil.copyfile(p.parent / sorted(q.name for q in p.parent.glob(p.name[:39] + "*"))[0], p)),
             ("that is a folder", lambda p: (p.unlink(), p.mkdir()))]
    kinds += [(f"with a flipped bit ({i})", edit(flip)) for i in range(40 if lk.LONG else 4)]
    kinds += [(f"with a flipped bit in its header ({i})", edit(head_flip)) for i in range(40 if lk.LONG else 3)]
    newest = lk_newest(lanes, 50 * 2)
    for kind, apply in kinds:
        shutil.rmtree(folder)
        shutil.copytree(box.path / "good", folder)
        for path in newest:
            apply(folder / path.name)
        log, right, numbers, _ = restart(box, config, digests, at)
        lk.check(right, f"snapshots {kind}: the same digests")
        lk.check(all(re.search(rf"unusable.*{re.escape(p.name)}.*older", log) for p in newest) and numbers["damaged"] == 4
                 and numbers["read"] == 4, f"snapshots {kind}: each is named in the log, and an older one used",
                 lambda log=log, numbers=numbers: (numbers, [l for l in log.splitlines() if "snapshots" in l][:2]))
    shutil.rmtree(folder)
    shutil.copytree(box.path / "good", folder)
    for path in list(folder.glob("*.lks")):
        path.write_bytes(b"LKS1" + os.urandom(200))
    log, right, numbers, _ = restart(box, config, digests, at)
    before = sum(p <= 2 * at for paths in lanes.values() for p in positions(paths))
    lk.check(right and numbers["damaged"] == before, "all of them rubbish: made anew from the start, each named",
             (right, numbers, before))
    shutil.rmtree(folder)
    folder.mkdir()
    for path in newest:
        shutil.copyfile(box.path / "good" / path.name, folder / (path.name + ".tmp"))
        shutil.copyfile(box.path / "good" / path.name, folder / ("." + path.name + ".tmp"))
    log, right, numbers, _ = restart(box, config, digests, at)
    lk.check(right and numbers["read"] == 0, "only .tmp files left: they are no snapshots", (right, numbers))
    shutil.rmtree(folder)
    log, right, numbers, _ = restart(box, config, digests, at)
    lk.check(right and numbers["read"] == 0, "the folder deleted: the same digests", (right, numbers))


def lk_newest(lanes, position):
    """The files at that lane position."""
    return [p for paths in lanes.values() for p in paths if int(p.stem.rsplit("-", 1)[1]) == position]


def killed_while_saving(box):
    """RC-017: kill -9 while snapshots are written at every step."""
    stream = box.mixed()
    reference = box.serve(stream, "reference")
    digests = [d for d, _ in lk.run_world(box, reference, 1, 400, show="none")]
    reference.stop()
    config = box.config(stream, snapshots={"dir": "snap", "every": 1, "keep": 6})
    draw = random.Random(2)
    at, wrong, restored = 0, [], 0
    for i in range(200 if lk.LONG else 12):
        daemon = box.daemon(config, index=False)
        trainer = box.trainer(daemon, step=at, timeout=60000)
        trainer.connect()
        trainer.send("next 200")
        trainer.wait_for_a_line()
        time.sleep(draw.random() * 0.15)
        daemon.kill()
        trainer.kill()
        batches = []
        for line in trainer.process.stdout.read().decode().splitlines():
            if line.startswith("{") and line.endswith("}"):
                batches.append(lk.json.loads(line))
        batches = [lk.json.loads(l) for l in trainer.buffer.decode().splitlines() if l.startswith("{")] + batches
        wrong += [b["step"] for b in batches if b["digest"] != digests[b["step"]]]
        restored += "damaged" in daemon.log() or "unusable" in daemon.log()
        at = (at + len(batches)) % 180
    lk.same(wrong, [], "kill -9 while saving, again and again: every batch has the right digest")
    lk.check(restored == 0, "and no half-written file ever has a snapshot's name", restored)
    done = box.tool("verify", box.path / "snap")
    lk.check(done.returncode == 0, "lanekeeper verify finds the snapshots whole", done.stdout[-300:] + done.stderr[-300:])
    left = [p.name for p in (box.path / "snap").iterdir() if not p.name.endswith(".lks")]
    lk.check(len(left) <= 200, "temporary files left by kills are few", left[:5])


def same_bytes(box):
    """Snapshots are a function of the order alone: other servers write the same bytes."""
    stream = box.mixed()
    folders = []
    for i, (workers, prefetch, arena) in enumerate(((1, 1, "16MiB"), (4, 16, "2MiB"))):
        daemon = box.serve(stream, f"d{i}", workers=workers, prefetch_steps=prefetch, arena=arena,
                           snapshots={"dir": f"snap{i}", "every": 10, "keep": 100})
        lk.run_world(box, daemon, 1 + 3 * i, 45, show="none")
        daemon.stop()
        folders.append({p.name: p.read_bytes() for p in (box.path / f"snap{i}").glob("*.lks")
                        if int(p.stem.rsplit("-", 1)[1]) <= 80})
    lk.check(len(folders[0]) == 16, "one snapshot a lane every ten steps", len(folders[0]))
    lk.same(sorted(folders[0].items()), sorted(folders[1].items()), "two servers with other workers and budgets write identical files")


def shared_folder(box):
    """RC-116: two daemons write into one folder at once."""
    stream = box.mixed()
    reference = box.serve(stream, "reference")
    expected = lk.run_world(box, reference, 1, 80, show="none")
    reference.stop()
    daemons = [box.serve(stream, f"d{i}", index=False, snapshots={"dir": "snap", "every": 2, "keep": 5}) for i in range(2)]
    pairs = [box.trainer(d) for d in daemons]
    got = [lk.steps_of([b]) for b in lk.lines_of(pairs, "next 80")]
    lk.check(all(g == expected for g in got), "two daemons on one snapshot folder serve the same digests")
    failed = [d.status()["snapshots"] for d in daemons]
    lk.check(all(f["failed"] == 0 and f["damaged"] == 0 for f in failed), "neither disturbs the other", failed)
    settle(box.path / "snap")
    for d in daemons:
        d.stop()
    done = box.tool("verify", box.path / "snap")
    lk.check(done.returncode == 0, "every file is whole", done.stdout[-300:])
    kept = [positions(p) for p in by_lane(box.path / "snap").values()]
    last = kept[0][-1]
    lk.check(last >= 160 and all(k[-5:] == list(range(last - 16, last + 1, 4)) and len(k) < 20 for k in kept),
             "the newest five are kept of each lane, and ever fewer of the older ones", kept[0])


def unwritable(box):
    """RC-120: a folder that cannot be written costs the snapshots, not the data."""
    stream = box.mixed(200)
    reference = box.serve(stream, "reference")
    expected = lk.run_world(box, reference, 1, 30, show="none")
    full = box.path / "full"
    full.mkdir()
    # A tiny file system of its own, where that is allowed: it fills up at once.
    script = f'mount -t tmpfs -o size=16k none {full} && exec "$0" "$@"'
    prefix = ["unshare", "-m", "sh", "-c", script]
    if subprocess.run([*prefix, "true"], capture_output=True).returncode != 0:
        print("# no mount namespaces here: a full disk is not tried")
        return
    daemon = box.serve(stream, "config", index=False, how={"prefix": prefix}, snapshots={"dir": "full", "every": 1})
    got = lk.run_world(box, daemon, 2, 30, show="none")
    lk.same(got, expected, "a full disk under the snapshots changes nothing")
    lk.wait_until(lambda: daemon.status()["snapshots"]["failed"] > 0, lk.ANSWER_S, "a snapshot that cannot be written")
    lk.check("not_written" in daemon.log() and daemon.status()["healthy"], "the failures are counted and logged", daemon.log()[-300:])


if __name__ == "__main__":
    lk.main([damage, killed_while_saving, same_bytes, shared_folder, unwritable])
