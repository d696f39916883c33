"""Files of ours that are torn, flipped, of another version, or written by two at once."""

import ctypes
import json
import re
import shutil
import signal
import time

import chaos
import lk

xxh3 = ctypes.CDLL("libxxhash.so.0").XXH3_64bits
xxh3.restype, xxh3.argtypes = ctypes.c_uint64, [ctypes.c_char_p, ctypes.c_size_t]

STEPS = 12


def hash64(data):
    return xxh3(bytes(data), len(data)).to_bytes(8, "little")


def flips(size, step=1):
    """A bit of every byte: another one in each."""
    return [(at, (at * 5 + 3) % 8) for at in range(0, size, step)]


def flipped(data, at, bit):
    data = bytearray(data)
    data[at] ^= 1 << bit
    return bytes(data)


def damages(data, head):
    """(name, bytes): cut at every byte; each bit of the head and one of each byte after it flipped."""
    cuts = [(f"cut to {n} bytes", data[:n]) for n in range(len(data))]
    bits = [(f"bit {b} of byte {i} flipped", flipped(data, i, b)) for i in range(head) for b in range(8)]
    bits += [(f"bit {b} of byte {i} flipped", flipped(data, i, b)) for i, b in flips(len(data)) if i >= head]
    return [*cuts, *bits, ("a byte longer", data + b"\0")]


# Snapshots ------------------------------------------------------------------------------------------

def small(box, **runtime):
    """A stream of little state, whose files are small, and its digests."""
    box.dataset("d", lk.prose(1, 120, 80), 2)
    stream = {"seed": 3, "lanes": 2, "batch": 4, "sequence": 64, "tokenizer": {"bytes": True, "append": "eos"},
              "datasets": {"d": {"path": "d"}}, "order": {"block_rows": 8},
              "pipeline": [{"shuffle": {"buffer": 4}}, {"pack": {"algorithm": "concat"}}]}
    config = box.config(stream, **{"prefetch_steps": 1, "snapshots": {"dir": "snap", "every": 4, "keep": 50}, **runtime})
    box.index(config)
    return config


def recorded(box, config, steps=STEPS):
    daemon = box.daemon(config, index=False)
    digests = [d for d, _ in lk.run_world(box, daemon, 1, steps, show="none")]
    daemon.stop()
    return digests


def restarted(box, config, digests, at, writes=False):
    """A new daemon asked for step `at`: (whether its digests are right, its log, its numbers)."""
    daemon = box.daemon(config, index=False, arguments=() if writes else ("--snapshots", "read"))
    got = [b["digest"] for b in box.trainer(daemon, step=at).get(f"next {len(digests) - at}")]
    numbers, log = daemon.status()["snapshots"], daemon.log()
    (daemon.stop if writes else daemon.kill)()
    return got == digests[at:], log, numbers


@chaos.group("The file is named in the log as unusable, an older one is used, and the digests are the same.", case="RC-017")
def snapshot_torn(run):
    """The newest snapshot of a lane cut at every byte, a bit of every byte flipped, each bit of its head"""
    box = run.box()
    config = small(box)
    digests = recorded(box, config)
    path = max((box.path / "snap").glob("*-00000-*.lks"), key=lambda p: p.name if int(p.stem[-20:]) <= 16 else "")
    data = path.read_bytes()
    for name, torn in run.pick(damages(data, 64), short=10):
        run.strike(name, tear_snapshot, box, config, digests, path, data, torn)


def tear_snapshot(fault, box, config, digests, path, data, torn):
    path.write_bytes(torn)
    try:
        right, log, numbers = restarted(box, config, digests, 9)
    finally:
        path.write_bytes(data)
    lk.check(right, f"{fault.key}: the same digests")
    lk.check(numbers["damaged"] == 1 and numbers["read"] == 2 and re.search(rf"unusable.*{re.escape(path.name)}", log),
             f"{fault.key}: it is named, and an older one is used", lambda: (numbers, log[-300:]))


@chaos.group("Named in the log with both versions, not used and left alone; the digests are the same.")
def snapshot_version(run):
    """Snapshots of a later version, with right checksums"""
    box = run.box()
    config = small(box)
    digests = recorded(box, config)
    for version in run.pick([2, 3, 255, 1 << 31], short=1):
        run.strike(f"version {version}", other_snapshots, box, digests, b"LKS1" + version.to_bytes(4, "little"),
                   f"version {version}, expected 1", False)


@chaos.group("Named in the log and not used; the digests are the same; made anew when their steps come again.", case="RC-017")
def snapshot_renewed(run):
    """Snapshots, all of them, that are rubbish, of another magic, or damaged in their contents"""
    box = run.box()
    config = small(box)
    digests = recorded(box, config)
    for magic in run.pick([b"LKS2", b"LKN1", b"\0\0\0\0"], short=1):
        run.strike(f"magic {magic.decode()!r}", other_snapshots, box, digests, magic + (1).to_bytes(4, "little"), "damaged", True)
    run.strike("the last byte", other_snapshots, box, digests, None, "checksum", True)


def other_snapshots(fault, like, digests, begin, says, anew):
    box = fault.box(like)
    config = small(box)
    paths = sorted((box.path / "snap").glob("*.lks"))
    for path in paths:
        data = bytearray(path.read_bytes())
        if begin is None:
            data[-1] ^= 0x10
        else:
            data[:8] = begin
            data[48:56] = hash64(data[:48])
        path.write_bytes(data)
    before = {p: p.read_bytes() for p in paths}
    right, log, numbers = restarted(box, config, digests, 9, writes=True)
    lk.check(right and numbers["read"] == 0 and numbers["damaged"] >= 2, f"{fault.key}: the same digests, without them", numbers)
    lk.check(log.count(says) >= 2 and all(p.name[:38] in log for p in paths[:1]), f"{fault.key}: the log says why", lambda: log[-400:])
    changed = [p for p in paths if p.exists() and p.read_bytes() != before[p]]
    if anew:
        done = box.tool("verify", box.path / "snap")
        lk.check(done.returncode == 0 and len(changed) >= 2, f"{fault.key}: none is left, and those of the steps that came are whole",
                 (len(changed), done.stdout[-300:]))
    else:
        lk.same(changed, [], f"{fault.key}: they are left alone")


# The index ------------------------------------------------------------------------------------------

@chaos.group("The daemon does not start, and names the file; made again it is the same, to the byte.", case="RC-042")
def index_torn(run):
    """The index cut at every byte, a bit of every byte flipped"""
    box = run.box()
    config = small(box, snapshots={"dir": "snap", "every": 0})
    path = box.path / "index" / "d.lkindex"
    data = path.read_bytes()
    for name, torn in run.pick(damages(data, 64), short=12):
        run.strike(name, tear_index, box, config, path, data, torn)


def tear_index(fault, box, config, path, data, torn):
    path.write_bytes(torn)
    try:
        box.refused(config, f"{fault.key}: refused, naming it", re.escape(path.name))
    finally:
        path.write_bytes(data)


@chaos.group("Refused at start with both versions and what to do; `lanekeeper index` makes it anew, and the digests are the same.")
def index_version(run):
    """An index of another version"""
    box = run.box()
    config = small(box)
    digests = recorded(box, config)
    for version in run.pick([0, 2, 3, 99], short=1):
        run.strike(f"version {version}", other_index, box, config, digests, version)


def other_index(fault, box, config, digests, version):
    path = box.path / "index" / "d.lkindex"
    data = bytearray(path.read_bytes())
    ours = int.from_bytes(data[8:12], "little")
    if version == ours:
        raise chaos.Missed
    data[8:12] = version.to_bytes(4, "little")
    path.write_bytes(data)
    box.refused(config, f"{fault.key}: refused", rf"version.*\b{ours}\b.*\b{version}\b.*lanekeeper index")
    box.index(config)
    right, _, _ = restarted(box, config, digests, 5)
    lk.check(right, f"{fault.key}: made anew, the digests are the same")


# Counts ---------------------------------------------------------------------------------------------

@chaos.group("Named in the log, not used and left alone; rows are measured again, the digests are the same.")
def counts_version(run):
    """Counts of a later version, with right checksums"""
    box = run.box()
    config = small(box, snapshots={"dir": "snap", "every": 0})
    digests = recorded(box, config, 40)
    for version in run.pick([2, 3, 255], short=1):
        run.strike(f"version {version}", other_counts, box, digests, version)


def other_counts(fault, like, digests, version):
    box = fault.box(like)
    config = small(box, snapshots={"dir": "snap", "every": 0})
    paths = sorted((box.path / "counts").glob("*.lkc"))
    if len(paths) != 2:
        raise lk.Failure(f"{len(paths)} files of counts")
    for path in paths:
        data = bytearray(path.read_bytes())
        data[4:8] = version.to_bytes(4, "little")
        data[88:96] = hash64(data[:88])
        path.write_bytes(data)
    before = [p.read_bytes() for p in paths]
    daemon = box.daemon(config, index=False)
    got = [b["digest"] for b in box.trainer(daemon, step=35).get("next 5")]
    counts = daemon.status()["counts"]
    daemon.stop()
    log = daemon.log()
    lk.same(got, digests[35:], f"{fault.key}: the same digests")
    lk.check(counts["rows_used"] == 0 and all(p.name in log for p in paths) and f"version {version}, expected 1" in log,
             f"{fault.key}: each is named, none used", lambda: (counts, log[-400:]))
    lk.same([p.read_bytes() for p in paths], before, f"{fault.key}: they are left alone")


# A trainer's state ----------------------------------------------------------------------------------

@chaos.group("The trainer is refused with a code and a text before it gets a batch.", case="RC-017")
def state_torn(run):
    """A trainer's checkpoint cut at every byte, every bit flipped, of another version, of another stream"""
    box = run.box()
    daemon = box.daemon(small(box), index=False)
    trainer = box.trainer(daemon)
    trainer.get("next 5")
    state = bytes.fromhex(trainer.get("state")[0]["state"])
    other = bytearray(state)
    other[16] ^= 1
    version = bytearray(b"LKC2" + state[4:])
    kinds = [(f"cut to {n} bytes", state[:n]) for n in range(1, len(state))]
    kinds += [(f"bit {b} of byte {i} flipped", flipped(state, i, b)) for i in range(len(state)) for b in range(8)]
    kinds += [("a byte longer", state + b"\0"), ("another version, rightly summed", bytes(version[:32]) + hash64(version[:32])),
              ("of another stream", bytes(other[:32]) + hash64(other[:32]))]
    for name, torn in run.pick(kinds, short=30):
        run.strike(name, torn_state, box, daemon, torn)
    run.strike("whole", whole_state, box, daemon, state)


def torn_state(fault, box, daemon, torn):
    trainer = box.trainer(daemon, state=torn.hex())
    failure = trainer.connect(10)
    lk.check(re.match(r"(INVALID_ARGUMENT|DATA_LOSS|FAILED_PRECONDITION) .{10}", failure), f"{fault.key}: refused", failure)
    trainer.close()


def whole_state(fault, box, daemon, state):
    trainer = box.trainer(daemon, state=state.hex())
    lk.same(trainer.get("next")[0]["step"], 5, "undamaged, it is accepted")


# The tokenizer --------------------------------------------------------------------------------------

def byte_tokenizer():
    spelled = [chr(b) if 33 <= b < 127 or 161 <= b < 173 or 174 <= b else None for b in range(256)]
    odd = iter(range(256, 400))
    vocabulary = {c if c is not None else chr(next(odd)): b for b, c in enumerate(spelled)}
    merges = ["e t", "a o", "i n", "et a"]
    for merge in merges:
        vocabulary[merge.replace(" ", "")] = len(vocabulary)
    return json.dumps({"model": {"type": "BPE", "vocab": vocabulary, "merges": merges},
                       "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
                       "decoder": {"type": "ByteLevel"}, "added_tokens": []})


def tokenized(box):
    box.write("tokenizer.json", byte_tokenizer())
    box.dataset("d", lk.prose(1, 120, 80), 2)
    config = box.config({"seed": 3, "lanes": 2, "batch": 4, "sequence": 32, "tokenizer": {"hf": "tokenizer.json"},
                         "datasets": {"d": {"path": "d"}}, "order": {"block_rows": 8}, "pipeline": [{"pack": {"algorithm": "concat"}}]},
                        prefetch_steps=1)
    box.index(config)
    return config


@chaos.group("The daemon does not start and names the file, or what it serves is another stream, whose digest is another: a checkpoint of "
             "the former is refused. Never other tokens under the same digest.", case="RC-058")
def tokenizer_torn(run):
    """tokenizer.json cut or flipped at any byte between two starts"""
    box = run.box()
    config = tokenized(box)
    daemon = box.daemon(config, index=False)
    trainer = box.trainer(daemon)
    digests = [b["digest"] for b in trainer.get("next 6")]
    stream, state = trainer.get("info")[0]["stream"], trainer.get("state 3")[0]["state"]
    daemon.stop()
    data = (box.path / "tokenizer.json").read_bytes()
    kinds = [(f"bit {b} of byte {i} flipped", flipped(data, i, b)) for i, b in flips(len(data), 3)]
    kinds += [(f"cut to {n} bytes", data[:n]) for n in range(0, len(data), 17)]
    for name, torn in run.pick(kinds, short=10):
        run.strike(name, tear_tokenizer, box, config, data, torn, stream, state, digests)


def tear_tokenizer(fault, box, config, data, torn, stream, state, digests):
    path = box.path / "tokenizer.json"
    path.write_bytes(torn)
    try:
        daemon = box.daemon(config, index=False, ready=False)
        lk.wait_until(lambda: " daemon: ready" in daemon.log() or daemon.process.poll() is not None, 10, "ready, or an end")
        if daemon.process.poll() is not None:
            lk.check(daemon.process.returncode == 1 and "cannot_start" in daemon.log() and "tokenizer.json" in daemon.log(),
                     f"{fault.key}: refused, naming it", (daemon.process.returncode, daemon.log()[-300:]))
            return
        trainer = box.trainer(daemon)
        if trainer.get("info")[0]["stream"] == stream:
            lk.same([b["digest"] for b in trainer.get("next 6")], digests, f"{fault.key}: the same stream has the same digests")
        else:
            failure = box.trainer(daemon, state=state).connect()
            lk.check(failure.startswith("FAILED_PRECONDITION"), f"{fault.key}: another stream refuses the state", failure)
        daemon.kill()
    finally:
        path.write_bytes(data)


@chaos.group("What is served is of the tokenizer that the stream began with: a worker that would read another is refused, and the stream "
             "waits or stops naming the file; with the old file back it goes on.")
def tokenizer_replaced(run):
    """tokenizer.json replaced, emptied or removed under a running daemon, whose workers are then killed"""
    for name in run.pick(["replaced", "emptied", "removed"], short=1):
        run.strike(name, replace_tokenizer)


def replace_tokenizer(fault):
    box = fault.box()
    config = tokenized(box)
    reference = box.daemon(config, index=False)
    digests = [b["digest"] for b in box.trainer(reference).get("next 40")]
    reference.stop()
    shutil.rmtree(box.path / "counts", ignore_errors=True)
    path = box.path / "tokenizer.json"
    data = path.read_bytes()
    daemon = box.daemon(config, index=False)
    trainer = box.trainer(daemon, timeout=2000)
    got = trainer.get("next 10")
    {"replaced": lambda: path.write_bytes(data.replace(b'"e t", ', b"")), "emptied": lambda: path.write_bytes(b""),
     "removed": path.unlink}[fault.key]()
    for pid in daemon.workers():
        lk.os.kill(pid, signal.SIGKILL)
    more, failure = trainer.do("next 30")
    got += more
    lk.same([b["digest"] for b in got], digests[:len(got)], f"{fault.key}: nothing of another tokenizer is served")
    lk.check(len(got) == 40 or re.search(r"tokenizer", failure) or "tokenizer" in daemon.log(), f"{fault.key}: what is wrong is named",
             lambda: (failure, daemon.log()[-400:]))
    path.write_bytes(data)
    daemon.kill()
    again = box.daemon(config, index=False)
    lk.same([b["digest"] for b in box.trainer(again).get("next 40")], digests, f"{fault.key}: with the file back a new daemon serves the same")


# Two daemons ----------------------------------------------------------------------------------------

@chaos.group("Both serve the right digests, whichever is killed; every file in both folders is whole.", case="RC-116")
def two_daemons(run):
    """Two daemons with one folder of snapshots and one of counts, each killed and started again at random moments"""
    box = run.box()
    stream = box.mixed(120, sequence=64)
    reference = box.serve(stream, "reference", snapshots={"dir": "none", "every": 0}, counts={"size": 0})
    digests = [d for d, _ in lk.run_world(box, reference, 1, 120, show="none")]
    reference.stop()
    for i in run.rounds(short=1, long=10):
        run.strike(f"round {i}", two_at_once, box, stream, digests)


def two_at_once(fault, like, stream, digests):
    box = fault.box(like)
    kinds = {"snapshots": {"dir": "snap", "every": 2, "keep": 4}, "counts": {"dir": "counts", "memory": "1MiB"}}
    configs = [box.config(stream, f"d{i}", **kinds) for i in range(2)]
    daemons = [box.daemon(c, index=False) for c in configs]
    trainers = [box.trainer(d, timeout=60000) for d in daemons]
    begins = [fault.random.randrange(60) for _ in trainers]
    for trainer, begin in zip(trainers, begins):
        trainer.get(f"seek {begin}")
        trainer.send("next 60 5")
    for _ in range(6):
        time.sleep(0.01 + fault.random.random() * 0.12)
        i = fault.random.randrange(2)
        if fault.random.randrange(2):
            daemons[i].kill()
        else:
            daemons[i].process.terminate()
            time.sleep(fault.random.random() * 0.03)
            daemons[i].kill()
        daemons[i] = box.daemon(configs[i], index=False)
    for trainer, begin in zip(trainers, begins):
        got, failure = trainer.answer()
        lk.check(not failure, f"{fault.key}: the trainer notices time alone", failure)
        lk.same([b["digest"] for b in got], digests[begin:begin + len(got)], f"{fault.key}: the right digests")
    for daemon in daemons:
        daemon.stop()
    for folder in ("snap", "counts"):
        done = box.tool("verify", box.path / folder)
        lk.check(done.returncode == 0, f"{fault.key}: the files in {folder} are whole", done.stdout[-300:] + done.stderr[-200:])


chaos.elsewhere("Snapshots of all lanes emptied, cut, flipped, exchanged, folders in their place, rubbish, removed",
                "Each is named in the log; an older one is used, or the start; the digests are the same.", "e2e/test_snapshots.py damage", case="RC-017")
chaos.elsewhere("kill -9 again and again while snapshots are written", "No file is ever half-written under its name; the digests are the same.",
                "e2e/test_snapshots.py killed_while_saving", case="RC-017")
chaos.elsewhere("Two daemons write into one folder of snapshots", "Neither disturbs the other; every file is whole.",
                "e2e/test_snapshots.py shared_folder", case="RC-116")
chaos.elsewhere("A counts file cut at every byte, a bit of every byte flipped, another shard's, rubbish, a folder in its place",
                "Named in the log, not used, made anew; the digests are the same.", "e2e/test_counts.py damage")
chaos.elsewhere("Counts of other data under the same names", "They are not used.", "e2e/test_counts.py stale")
chaos.elsewhere("Two daemons at one folder of counts, which is removed meanwhile", "The digests are the same; every file is whole.",
                "e2e/test_counts.py shared", case="RC-116")
chaos.elsewhere("kill -9 again and again while counts are written", "No file is ever half-written under its name; the digests are the same.",
                "e2e/test_counts.py killed")
chaos.elsewhere("A count that is wrong though its checksums are right", "DATA_LOSS naming the row; then it is measured and served as it should be.",
                "e2e/test_counts.py wrong")
chaos.elsewhere("Snapshots made of a wrong count", "They are removed; then the stream is what it should be.", "e2e/test_counts.py wrong_and_saved")
