"""What a training step is fed with: the same wherever it is made, and made once for those that share it."""

import json
import os
import pathlib
import random
import subprocess
import sys

import lk

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "chaos"))
import wire  # noqa: E402

I32, I64 = 104, 8
NONE, SHIFTED, SAME = range(3)
MASKED, KEPT = range(2)
PIECE, DOCUMENT, ROW = 1, 2, 3
FLAT, ROWS = 1, 2

DEFAULTS = {"dtype": I64, "labels": SHIFTED, "borders": MASKED, "positions": PIECE, "cu_seqlens": FLAT,
            "loss_mask": 1, "document_ids": 1, "ignore_index": -100}


def command(options, quiet=False):
    return " ".join(["training", *(f"{k}={v}" for k, v in options.items()), *(["quiet=1"] if quiet else [])])


# The reference: token by token ---------------------------------------------------------------------

def pieces(batch, row):
    """(begin, end, first token's place in its document, number or -1 for padding)"""
    at, found = 0, []
    for number, (_, _, _, first, tokens) in enumerate(batch["parts"][row]):
        found.append((at, at + tokens, first, number))
        at += tokens
    assert at == batch["used"][row]
    end = len(batch["tokens"][row])
    return found + ([(at, end, 0, -1)] if at < end else [])


def row_expected(batch, row, o):
    tokens, made = batch["tokens"][row], {"labels": [], "positions": [], "document_ids": [], "loss_mask": []}
    owner = [piece for piece in pieces(batch, row) for _ in range(piece[0], piece[1])]
    for i in range(len(tokens)):
        begin, _, first, number = owner[i]
        t = i if o["labels"] == SAME else i + 1  # the token that is to be predicted
        counts = 0 < t < len(tokens) and owner[t][3] >= 0 and (o["borders"] == KEPT or owner[t][0] < t)
        made["labels"].append(tokens[t] if counts else o["ignore_index"])
        made["loss_mask"].append(int(counts))
        made["positions"].append({PIECE: i - begin, DOCUMENT: i - begin + first, ROW: i}.get(o["positions"]))
        made["document_ids"].append(number)
    return made


def expected(batch, o):
    made = [row_expected(batch, row, o) for row in range(batch["rows"])]
    length = len(batch["tokens"][0])
    want = {name: sum((row[name] for row in made), []) for name in made[0]}
    want["num_valid_tokens"] = sum(want["loss_mask"])
    want["input_ids"] = sum(batch["tokens"], [])
    for name, option in (("labels", "labels"), ("positions", "positions"), ("document_ids", "document_ids"),
                         ("loss_mask", "loss_mask")):
        if not o[option]:
            del want[name]
    each = [pieces(batch, row) for row in range(batch["rows"])]
    longest = [max(end - begin for begin, end, *_ in row) for row in each]
    want["max_seqlen"] = max(longest) if o["cu_seqlens"] else 0
    if o["cu_seqlens"] == FLAT:
        want["cu_seqlens"] = [r * length + p[0] for r, row in enumerate(each) for p in row]
        want["cu_seqlens"].append(len(each) * length)
    if o["cu_seqlens"] == ROWS:
        most = max(map(len, each)) + 1
        want["cu_seqlens"] = sum(([p[0] for p in row] + [length] * (most - len(row)) for row in each), [])
        want["max_seqlens"] = longest
    return want


PLACES = ("shared", "inode", "offset", "ids_inode", "ids_offset", "n_cu_seqlens", "rows", "sequence")


def values(made):
    return {name: value for name, value in made.items() if name not in PLACES}


def compare(batch, made, o, fact):
    got, want = values(made), expected(batch, o)
    wrong = sorted(name for name in got.keys() | want.keys() if got.get(name) != want.get(name))
    return not wrong or lk.check(False, fact, f"step {batch['step']} {o}: {wrong[0]}: got "
                                 f"{lk.short(got.get(wrong[0]))}, expected {lk.short(want.get(wrong[0]))}")


# Tests ---------------------------------------------------------------------------------------------

def padded(box):
    """Rows that end in padding; those of box.mixed are full, and begin with the rest of a document."""
    return box.mixed(pipeline=[{"filter": {"min_bytes": 8}}, {"split": {"max_tokens": 128}},
                               {"pack": {"algorithm": "first_fit", "pool": 16}}])


def some_options(draw):
    return {"dtype": draw.choice((I32, I64)), "labels": draw.choice((NONE, SHIFTED, SAME)),
            "borders": draw.choice((MASKED, KEPT)), "positions": draw.choice((0, PIECE, DOCUMENT, ROW)),
            "cu_seqlens": draw.choice((0, FLAT, ROWS)), "loss_mask": draw.choice((0, 1)),
            "document_ids": draw.choice((0, 1)), "ignore_index": draw.choice((-100, 0, 7, -1))}


def refusals(trainer):
    for bad in ("dtype=8 labels=3", "dtype=4", f"dtype={I32} ignore_index={2 ** 31}", "loss_mask=2"):
        lk.same(trainer.do(f"training {bad}")[1].split()[0], "INVALID_ARGUMENT", f"{bad} is refused")


def the_same_everywhere(box):
    """Random options, each asked for twice in a row: made here, then found where the daemon made it."""
    draw = random.Random(6)
    good, goes_on, ends_early, second, by_wire, bare = True, 0, 0, 0, 0, 0
    for name, stream in (("full", box.mixed()), ("padded", padded(box))):
        daemon = box.serve(stream, name)
        ways = [box.trainer(daemon, rank=1, world=3, lookahead=0, sharing=way) for way in ("always", "never")]
        for t in ways:
            t.get("show all")
            t.get("hold 1")
        for _ in range(40):
            o = some_options(draw)
            for nth in range(2):
                batches = [t.get("next")[0] for t in ways]
                made = [t.get(command(o))[0] for t in ways]
                for batch, m in zip(batches, made):
                    good = compare(batch, m, o, "as the reference says") and good
                goes_on += sum(bool(row and row[0][3] > 0) for row in batches[0]["parts"])
                ends_early += sum(n < 128 for n in batches[0]["used"])
                second += nth * made[0]["shared"]
                by_wire += made[1]["shared"]
            bare += o["dtype"] == I32 and not any(o[k] for k in ("labels", "positions", "loss_mask",
                                                                 "document_ids"))
        refusals(ways[0])
    lk.check(good, "80 combinations of options, by memory and by wire: all arrays as the reference says")
    lk.check(goes_on > 50 and ends_early > 50, "with pieces that go on, and with padding", (goes_on, ends_early))
    lk.same(second, 80 - bare, "asked for again, they are the daemon's, but for 32-bit ids alone")
    lk.same(by_wire, 0, "never by wire")


def stream_of(daemon):
    return daemon.status()["streams"][0]


def tell(trainer, step, options=DEFAULTS):
    """Takes steps until it is at @step, so that what was asked for before anybody knew is through."""
    for _ in range(step):
        trainer.get("next")
        trainer.get(command(options, quiet=True))


def made_once(box):
    """Four processes of two data-parallel ranks: tensor-parallel pairs look at one memory."""
    steps = 30
    daemon = box.serve(box.mixed())
    team = [box.trainer(daemon, rank=r, world=2, lookahead=2, sharing="always") for r in (0, 0, 1, 1)]
    for t in team:
        t.get("hold 1")
        t.get("next 3")
    lk.same(stream_of(daemon)["training_rows"], 0, "nobody has said what is wanted: nothing is made")
    lk.same({t.get(command({}, quiet=True))[0]["shared"] for t in team}, {0}, "the first are their own")
    for t in team:
        tell(t, 3)
    places, ids = [], []
    for _ in range(steps):
        for t in team:
            t.get("next")
        got = [t.get(command({}, quiet=True))[0] for t in team]
        places.append([(g["shared"], g["inode"], g["offset"]) for g in got])
        ids.append([(g["ids_inode"], g["ids_offset"]) for g in got])
    lk.check(all(g[0] == 1 and g[1] > 0 for row in places for g in row), "all arrays are the daemon's", places[0])
    lk.check(all(a == b and c == d and a != c for a, b, c, d in places),
             "the two of a rank look at the same bytes of the same file, other ranks at others", places[0])
    lk.check(all(a == b and c == d for a, b, c, d in ids), "64-bit ids, too", ids[0])
    after = stream_of(daemon)
    rows = after["training_rows"]
    # Six steps before them were taken; two more may have been made ahead.
    lk.check(8 * steps <= rows <= 8 * (6 + steps + 2), "each row was made once for both", rows)
    lk.check(after["batches_training"] >= 4 * steps, "each batch came with its arrays", after["batches_training"])
    lk.check(after["training_areas_used"] < after["training_areas"] < steps, "areas go round",
             (after["training_areas_used"], after["training_areas"]))
    for t in team:
        t.get("next")
    narrow = [t.get(command({"dtype": I32}, quiet=True))[0] for t in team]
    lk.check(all(n["shared"] == 0 and n["ids_inode"] > 0 for n in narrow) and
             narrow[0]["ids_offset"] == narrow[1]["ids_offset"] != narrow[2]["ids_offset"],
             "32-bit ids are the batch's shared tokens, also where the other arrays are our own", narrow)


def who_asks_differently(box):
    """The arrays of a step are of one kind at a time: who wants others makes them, and gets them right."""
    daemon = box.serve(box.mixed())
    options = [dict(DEFAULTS), dict(DEFAULTS, labels=SAME, dtype=I32)]
    pair = [box.trainer(daemon, rank=0, world=2, lookahead=0, sharing="always") for _ in options]
    good, shared = True, []
    for t, o in zip(pair, options):
        t.get("show all")
        t.get("hold 1")
        t.get("next")
        t.get(command(o, quiet=True))
    for _ in range(12):
        batches = [t.get("next")[0] for t in pair]
        for t, o, batch in zip(pair, options, batches):
            made = t.get(command(o))[0]
            good = compare(batch, made, o, "as the reference says") and good
            shared.append(made["shared"])
    lk.check(good, "two processes of a rank with unlike options both get what they want")
    lk.same(shared, [1, 0] * 12, "the first is served from shared memory, the second makes its own")


def lives_on(box):
    """Until it is given back itself: after the release, the close, and other steps in the daemon."""
    daemon = box.serve(box.mixed(), prefetch_steps=1)
    keeper, other = (box.trainer(daemon, lookahead=0, sharing="always") for _ in range(2))
    for t in (keeper, other):
        t.get("hold 1")
        tell(t, 1)
    keeper.get("next")
    lk.same(keeper.get(command({}))[0]["shared"], 1, "arrays of the daemon")
    keeper.get("release")
    tell(other, 40)
    lk.same(keeper.get("check")[0], {"held": 0, "changed": 0}, "they stay when the batch is released")
    other.get("release")
    lk.check(stream_of(daemon)["slots_leased"] >= 1, "and keep its lease")
    keeper.get("close")
    tell(other, 10)
    lk.same(keeper.get("check")[0], {"held": 0, "changed": 0}, "and when the handle is closed")
    lk.same(keeper.close(), 0, "the process ends well")
    lk.same(other.close(), 0, "the other, too")
    lk.wait_until(lambda: stream_of(daemon)["slots_leased"] == 0, 10, "all leases given back")


def worlds_and_restarts(box):
    """The same rows give the same arrays for every world size, and by another daemon."""
    stream = box.mixed()
    config = box.config(stream)
    daemon = box.daemon(config)
    good, rows = True, {}
    for world in (1, 2, 3, 8):
        team = box.world(daemon, world, lookahead=1, sharing="always")
        for t in team:
            t.get("hold 1")
            t.get("show all")
        for step in range(8):
            labels = []
            for t in team:
                batch = t.get("next")[0]
                made = t.get(command(DEFAULTS))[0]
                good = compare(batch, made, DEFAULTS, "as the reference says") and good
                labels += made["labels"]
            good = good and rows.setdefault(step, labels) == labels
        for t in team:
            t.close()
    lk.check(good, "1, 2, 3 and 8 ranks: the same labels, and as the reference says")
    survivor = box.trainer(daemon, lookahead=2, sharing="always", timeout=30000)
    survivor.get("hold 1")
    survivor.get("show all")
    for _ in range(4):
        survivor.get("next")
        held = survivor.get(command(DEFAULTS))[0]
    lk.same(held["shared"], 1, "before the restart arrays are the daemon's")
    daemon.kill()
    lk.same(survivor.get("check")[0]["changed"], 0, "they stay when the daemon is killed")
    daemon = box.daemon(config, index=False)
    shared = []
    for step in range(4, 8):
        batch = survivor.get("next", 60)[0]
        made = survivor.get(command(DEFAULTS))[0]
        good = compare(batch, made, DEFAULTS, "as the reference says") and made["labels"] == rows[step] and good
        shared.append(made["shared"])
    lk.check(good, "after the restart: the same labels")
    lk.same(shared[-1], 1, "and from the new daemon's memory")


# Requests by hand ----------------------------------------------------------------------------------

WANTED, WIDE, SHIFTED_FLAG, SAME_FLAG, KEEP, MASK = 1, 2, 4, 8, 16, 128


def zigzag(n):
    return n << 1 if n >= 0 else (-n << 1) - 1


def hostile_options(box):
    """Whatever a request says is wanted, it is refused by name or served."""
    daemon = box.serve(box.mixed())
    peer = wire.Peer(daemon.address)

    def ask(flags, ignore=0):
        # Nobody's client number: such a request is answered inline, whatever it wants beside.
        get = wire.fields(f2=0, f3=0, f4=1, f6=wire.Fixed(12345), f7=flags, f8=zigzag(ignore) & (1 << 64) - 1)
        return peer.ask(wire.GET_BATCH, get, 10000)

    bad = [(WIDE, 0), (0x201, 0), (0x80000001, 0), (0xffffffff, 0), (WANTED | SHIFTED_FLAG | SAME_FLAG, -100),
           (WANTED | WIDE, -100), (WANTED | KEEP, 0), (WANTED | SHIFTED_FLAG, 1 << 40),
           (WANTED | SAME_FLAG, -1 << 63), (WANTED | MASK, 1)]
    for flags, ignore in bad:
        status, header, _ = ask(flags, ignore)
        lk.check(status == wire.INVALID_ARGUMENT and f"{flags:#x}".encode() in header,
                 f"flags {flags:#x} with {ignore} are refused by name", (status, header[:200]))
    good = [(0, 0), (0, -7), (WANTED, 0), (WANTED | MASK | KEEP, 0), (WANTED | WIDE | SHIFTED_FLAG, -1 << 63),
            (WANTED | SAME_FLAG, (1 << 31) - 1)]
    lk.same([ask(*wish)[0] for wish in good], [wire.OK] * len(good), "good ones are served")
    draw = random.Random(12)
    answers = {ask(draw.getrandbits(draw.choice((4, 9, 12, 32))), draw.choice((0, -100, 1 << 62)))[0]
               for _ in range(300)}
    lk.same(answers, {wire.OK, wire.INVALID_ARGUMENT}, "300 at random: served or refused, nothing else")
    peer.close()
    lk.same(stream_of(daemon)["training_rows"], 0, "nothing was made for what went inline")
    lk.check(box.trainer(daemon).get("next")[0]["rows"] == 8, "and the daemon serves on")


# Zephon --------------------------------------------------------------------------------------------

def zephon(build, asked):
    """What zephon makes of it; None: it is not installed for any of the interpreters at hand."""
    script = pathlib.Path(__file__).parent.parent / "oracle" / "zephon_training.py"
    for python in (os.environ.get("LK_ZEPHON_PYTHON"), sys.executable, build / "venv" / "bin" / "python"):
        if python is None or not os.path.exists(python):
            continue
        done = subprocess.run([str(python), str(script)], input=json.dumps(asked), capture_output=True,
                              text=True, timeout=120)
        if done.returncode == 0:
            return json.loads(done.stdout)
        if done.returncode != 77:
            raise lk.Failure(f"zephon_training.py ended with {done.returncode}: {done.stderr[-500:]}")
    return None


def grid(flat, batch, columns=None):
    length = len(batch["tokens"][0])
    return [flat[r * length:(r + 1) * length][:columns] for r in range(batch["rows"])]


def as_zephon(box):
    for name, stream in (("full", box.mixed()), ("padded", padded(box))):
        t = box.trainer(box.serve(stream, name), lookahead=0)
        t.get("show all")
        t.get("hold 1")
        batch = t.get("next 3")[-1]
        length = len(batch["tokens"][0])
        theirs = zephon(box.build, {"sequence": length, "pad_id": 0, "ignore_index": -100, "rows": [
            [batch["tokens"][r][b:e] for b, e, _, number in pieces(batch, r) if number >= 0]
            for r in range(batch["rows"])]})
        if theirs is None:
            print("# skipped: zephon is not installed")
            return
        ours = t.get(command(dict(DEFAULTS, borders=KEPT)))[0]
        rows = t.get(command(dict(DEFAULTS, cu_seqlens=ROWS)))[0]
        per_row = [rows["cu_seqlens"][r * rows["n_cu_seqlens"]:(r + 1) * rows["n_cu_seqlens"]]
                   for r in range(batch["rows"])]
        plain, labelled, used = theirs["plain"], theirs["labelled"], batch["used"]
        lk.same([row[:n] for row, n in zip(grid(ours["input_ids"], batch), used)],
                [row[:n] for row, n in zip(plain["input_ids"], used)], f"{name}: input_ids, up to the padding")
        lk.same(grid(ours["positions"], batch), plain["positions"], f"{name}: positions, those of padding too")
        lk.same((ours["cu_seqlens"], ours["max_seqlen"]), (plain["cu_flat"], plain["max_flat"]),
                f"{name}: flat cu_seqlens and max_seqlen")
        lk.same((per_row, rows["max_seqlens"]), (plain["cu_rows"], plain["max_rows"]),
                f"{name}: cu_seqlens and max_seqlen of rows")
        # Zephon shortens rows by one when it shifts; our last label is ignored instead.
        lk.same(grid(ours["labels"], batch, length - 1), labelled["labels"], f"{name}: labels")
        lk.same(grid(ours["loss_mask"], batch, length - 1), labelled["loss_mask"], f"{name}: loss mask")
        lk.same(ours["num_valid_tokens"], labelled["num_valid_tokens"], f"{name}: valid tokens")


if __name__ == "__main__":
    lk.main([the_same_everywhere, made_once, who_asks_differently, lives_on, worlds_and_restarts,
             hostile_options, as_zephon])
