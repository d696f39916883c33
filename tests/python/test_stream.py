"""A Stream against real daemons: iterating, addressing, states, ends, restarts; and what it says when it fails."""

import support

import copy
import json
import logging
import pickle
import signal
import threading
import time

import numpy as np

import lanekeeper
from lanekeeper import Stream

import lk


def joined(box, where, world, steps, **options):
    """A run of so many ranks, in turn: [(digest, rows of tokens)], as lk.run_world gives it."""
    streams = [Stream(where.address, rank=r, world=world, **options) for r in range(world)]
    ranks = []
    for stream in streams:
        with stream:
            ranks.append([{"step": b.step, "first": b.first_row, "rows": b.rows, "global": b.global_rows,
                           "digest": bytes.fromhex(b.digest)[::-1].hex(), "tokens": b.tokens.tolist()}
                          for b in (next(stream) for _ in range(steps))])
    return lk.steps_of(ranks)


def same_as_c(box):
    """What Python sees is what the C trainer sees, for every way to get it."""
    daemon = box.serve(box.mixed())
    expected = lk.run_world(box, daemon, 1, 24)
    for world in (1, 3):
        for options in ({}, {"copy": True}, {"shared": False}, {"lookahead": 0}):
            lk.same(joined(box, daemon, world, 24, **options), expected, f"{world} ranks, {options or 'as it is'}: the C client's tokens and digests")
    c = box.trainer(daemon, rank=1, world=3)
    c.get("show all")
    lines = c.get("next 4")
    with Stream(daemon.address, rank=1, world=3) as stream:
        for line in lines:
            batch = next(stream)
            parts = [[[stream.info.datasets[p["dataset"]], *(int(p[k]) for k in ("row", "epoch", "first", "tokens"))]
                      for p in batch.parts[r["first_part"]:r["first_part"] + r["n_parts"]]] for r in batch.row_table]
            lk.same(parts, line["parts"], f"step {batch.step}: the pieces of its documents")
            lk.same(batch.used.tolist(), [sum(p[4] for p in row) for row in parts], "and the used tokens are theirs")
        info = stream.info
        lk.same((info.datasets, info.sequence, info.lanes, info.vocab), (("code", "docs", "man"), 128, 4, 257), "info says what the stream is")
        lk.same(stream.digests(0, 24), [bytes.fromhex(d)[::-1].hex() for d, _ in expected], "digests of whole steps")
        lk.same(stream.digest(7), stream.digests(7, 8)[0], "and of one")
        again = stream[2]
        lk.same((again.step, stream.step), (2, 4), "stream[step] does not move it")
        lk.check(np.array_equal(again.tokens[:, :3], [row[:3] for row in expected[2][1]][again.first_row:again.first_row + again.rows]), "and gives that step")
        ranks = [again.digest, *(Stream(daemon.address, rank=r, world=3)[2].digest for r in (0, 2))]
        lk.same(lanekeeper.add_digests(ranks), stream.digest(2), "the digests of all ranks' cuts add up to the step's")
        trace = [p for p in stream.trace(5) if p.sequence == 0]
        row = Stream(daemon.address)[5]
        lk.same([(p.dataset, p.row, p.epoch, p.first, p.tokens, p.at) for p in trace],
                [(info.datasets[p["dataset"]], int(p["row"]), int(p["epoch"]), int(p["first"]), int(p["tokens"]), at)
                 for p, at in zip(row.parts[:row.row_table[0]["n_parts"]], np.cumsum([0, *(int(p["tokens"]) for p in row.parts)]))],
                "trace names the documents of a row")
        lk.check(all(p.shard.startswith("part-") for p in trace), "and their shards", trace[:1])
        lk.same(len(stream.trace(5, first_row=3, rows=2)), sum(p.sequence in (3, 4) for p in stream.trace(5)), "and of some rows alone")
        lk.same(stream.status()["pid"], daemon.pid, "status is the daemon's")


def resume_counts_what_was_used(box):
    """RC-006: whatever is fetched ahead, the step after the last that was used is next."""
    box.dataset("d", [chr(65 + i) for i in range(40)])
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=4))
    for lookahead in (0, 1, 4, 8):
        seen = []
        streams = [Stream(daemon.address, rank=r, world=2, lookahead=lookahead) for r in range(2)]
        for _ in range(3):
            seen += [id for stream in streams for id in next(stream).tokens.ravel().tolist()]
        time.sleep(0.02)    # what is asked for ahead arrives
        state = json.loads(json.dumps(streams[1].state_dict()))
        streams = [Stream(daemon.address, rank=r, world=2, lookahead=lookahead, state=state) for r in range(2)]
        lk.same([s.step for s in streams], [3, 3], f"look-ahead {lookahead}: the first resumed step is 3")
        seen += [id for stream in streams for batch in stream for id in batch.tokens.ravel().tolist()]
        lk.same(sorted(seen), [65 + i for i in range(40)], f"look-ahead {lookahead}: each id once")


def other_numbers_of_ranks(box):
    """RC-007: 4, 3, 6 and 1 ranks in turn are as one."""
    box.dataset("d", [chr(256 + i) for i in range(240)])    # two bytes each
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=12, sequence=2))
    expected = [(d, t) for d, t in lk.run_world(box, daemon, 1, 20)]
    got, state = [], None
    for world in (4, 3, 6, 1):
        streams = [Stream(daemon.address, rank=r, world=world, state=state) for r in range(world)]
        ranks = [[{"step": b.step, "first": b.first_row, "rows": b.rows, "global": b.global_rows, "tokens": b.tokens.tolist(),
                   "digest": bytes.fromhex(b.digest)[::-1].hex()} for b in (next(s) for _ in range(5))] for s in streams]
        states = [s.state_dict() for s in streams]
        lk.check(all(s == states[0] for s in states), f"{world} ranks have the same state")
        state = states[-1]
        got += lk.steps_of(ranks)
    lk.same(got, expected, "after 20 steps all is as with one rank")
    lk.same(len({tuple(row) for _, rows in got for row in rows}), 240, "and each document came once")
    support.raises(lanekeeper.InvalidArgument, lambda: next(Stream(daemon.address, rank=0, world=13)),
                   "more ranks than sequences are refused with both numbers", "13", "12")


def replicas(box):
    """RC-010: tensor-parallel peers are one data-parallel rank, and count once."""
    box.dataset("d", lk.prose(4, 400))
    daemon = box.serve(box.plain({"d": {"path": "d"}}, batch=4, sequence=16))
    places = [lanekeeper.parallel.from_sizes(tp=2, rank=r, world=8) for r in range(8)]
    streams = [Stream(daemon.address, rank=p.rank, world=p.world) for p in places]
    twins = True
    for _ in range(25):
        batches = [next(s) for s in streams]
        twins &= all(np.array_equal(batches[r].tokens, batches[r ^ 1].tokens) for r in range(8))
        twins &= all(b.tokens.ctypes.data % 4096 == t.tokens.ctypes.data % 4096 for b, t in zip(batches[::2], batches[1::2]))
    lk.check(twins, "peers get the same bytes, from the same place of the same memory")
    lk.same({s.sequences_seen for s in streams}, {100}, "100 unique sequences after 25 steps")
    lk.same(streams[5].tokens_seen, 1600, "and their tokens")
    state = streams[3].state_dict()
    resumed = [Stream(daemon.address, rank=r, world=4, state=state) for r in range(4)]
    lk.same([(next(s).first_row, s.sequences_seen) for s in resumed], [(r, 104) for r in range(4)], "without replicas it goes on at sequence 100")


def scheduled_batches(box):
    """tokens_seen follows a batch schedule."""
    box.dataset("d", lk.prose(4, 300))
    daemon = box.serve(box.plain({"d": {"path": "d"}}, batch=[{"from": 0, "size": 2}, {"from": 5, "size": 4}, {"from": 8, "size": 6}], sequence=16))
    with Stream(daemon.address) as stream:
        counted, said = 0, []
        for batch in stream:
            counted += batch.global_rows
            said.append((stream.sequences_seen, counted, stream.tokens_seen, counted * 16))
            if batch.step == 12:
                break
        lk.check(all(a == b and c == d for a, b, c, d in said), "what is said is what was counted", said)
        stream.skip(-13)
        lk.same((stream.step, stream.tokens_seen), (0, 0), "skipped back to the beginning")
        stream.skip(10)
        lk.same((next(stream).step, stream.sequences_seen), (10, 10 + 12 + 18), "and onwards")


def too_few(box):
    """RC-091: fewer samples than a batch is an error at start of serving, not a repeat."""
    box.dataset("two", ["a", "b"])
    daemon = box.serve(box.plain({"two": {"path": "two", "epochs": 1}}, batch=8))
    errors = []
    for rank in range(8):
        with Stream(daemon.address, rank=rank, world=8) as stream:
            errors.append(support.raises(lanekeeper.FailedPrecondition, lambda: next(stream), f"rank {rank}: 2 samples for a batch of 8 are refused", "smaller than one global batch"))
    lk.same(len({str(e) for e in errors}), 1, "all ranks say the same")


def same_end(box):
    """RC-092: 25 samples, batches of 5, 2 ranks: both have as many steps."""
    box.dataset("d", [chr(65 + i) for i in range(25)])
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=5))
    runs = [[b.step for b in Stream(daemon.address, rank=r, world=2)] for r in range(2)]
    lk.same(runs, [list(range(5))] * 2, "both ranks end after 5 steps")
    with Stream(daemon.address, rank=1, world=2, step=5) as stream:
        lk.same(next(stream, None), None, "a stream that begins at the end has none")
        lk.same(next(stream, None), None, "and again none")
        support.raises(IndexError, lambda: stream[5], "stream[5] is an IndexError that says how many there are", "OUT_OF_RANGE", "5")
        support.raises(IndexError, lambda: stream[-1], "steps are not counted from the end", "-1")
        support.raises(TypeError, lambda: stream[1:2], "slices are refused with a way out", "range")
        lk.same(stream[4].step, 4, "the last one is there")


def restarts(box):
    """RC-111: a daemon that is killed and comes back costs time; one of another stream is one clear error."""
    config = box.config(box.mixed())
    daemon = box.daemon(config)
    expected = [d for d, _ in lk.run_world(box, daemon, 1, 30, show="none")]
    streams = [Stream(daemon.address, rank=r, world=2, timeout=30) for r in range(2)]
    held, got = [], []
    for leg in range(3):
        for _ in range(10):
            batches = [next(s) for s in streams]
            held.append((batches[0].tokens, batches[0].tokens.copy()))
            got.append(lk.add_digests(bytes.fromhex(b.digest)[::-1].hex() for b in batches))
        if leg < 2:
            daemon.kill()
            daemon = box.daemon(config, index=False, ready=leg == 0)
    lk.same(got, expected, "killed twice under two ranks: no gap, no repeat, no error")
    lk.same(streams[0].info.connections, 3, "the reconnects are counted")
    lk.check(all(np.array_equal(a, b) for a, b in held), "batches of daemons that are gone are as they were")
    daemon.kill()
    other = box.config(box.mixed(seed=4), "config")    # the same address
    daemon = box.daemon(other)
    for stream in streams:
        begin = time.monotonic()
        error = support.raises(lanekeeper.FailedPrecondition, lambda: stream[100], "another stream at the address is one clear error", "digest")
        lk.check(time.monotonic() - begin < 10 and bool(error and error.hint), "in time, and with a hint", error)
    daemon.kill()
    with Stream.__new__(Stream) as closed:
        closed.__init__(box.serve(box.mixed(), "third").address)
    support.raises(lanekeeper.FailedPrecondition, lambda: next(closed), "a closed stream says so", "closed")


def states(box):
    """RC-135: the state is a small dict; it survives JSON and pickle, another rank, a new process, and is never ignored."""
    daemon = box.serve(box.mixed())
    reference = Stream(daemon.address)
    digests = [next(reference).digest for _ in range(12)]
    streams = [Stream(daemon.address, rank=r, world=4, lookahead=r) for r in range(4)]
    for _ in range(5):
        for stream in streams:
            next(stream)
    made = [s.state_dict() for s in streams]
    lk.check(all(m == made[0] for m in made) and all(isinstance(v, (int, str)) for v in made[0].values()) and len(json.dumps(made[0])) < 4096,
             "numbers and strings, below 4 KB, the same on every rank", made[0])
    lk.same(made[0]["step"], 5, "it says the next step")
    for name, state in (("JSON", json.loads(json.dumps(made[3]))), ("pickle", pickle.loads(pickle.dumps(made[3]))), ("copy", copy.deepcopy(made[1]))):
        with Stream(daemon.address) as before:
            before.load_state_dict(state)
            lk.same(next(iter(before)).digest, digests[5], f"through {name}: loaded before iterating")
    with Stream(daemon.address) as later:
        for _ in range(8):
            next(later)
        later.load_state_dict(made[2])
        lk.same((next(later).digest, later.step), (digests[5], 6), "loaded after iterating began")
        iterator = iter(later)
        later.load_state_dict(made[2])
        lk.same(next(iterator).digest, digests[5], "also by an iterator that was there before")
        for change, kind, words in (({"state": made[0]["state"][:-2] + "00"}, lanekeeper.DataLoss, "damaged"),
                                    ({"state": "xyz"}, lanekeeper.DataLoss, "damaged"), ({"step": 9}, lanekeeper.DataLoss, "by hand"),
                                    ({"version": 7}, lanekeeper.InvalidArgument, "version 7")):
            support.raises(kind, lambda: later.load_state_dict({**made[0], **change}), f"a state with {change} is refused", words)
        support.raises(lanekeeper.InvalidArgument, lambda: later.load_state_dict({}), "an empty state is refused", "step=")
        lk.same(next(later).digest, digests[6], "and the stream is where it was")
    child = support.python(box, """
        import json, sys, lanekeeper
        stream = lanekeeper.Stream(sys.argv[1], state=json.load(sys.stdin))
        print(next(stream).digest)""", daemon.address)
    child.stdin.write(json.dumps(made[3]))
    lk.same(support.said(child), (0, digests[5] + "\n", ""), "in a new process, at once")
    other = box.serve(box.mixed(seed=9), "other")
    digest = Stream(other.address).info.stream_digest
    for call in (lambda: Stream(other.address, state=made[0]), lambda: Stream(other.address).load_state_dict(made[0])):
        support.raises(lanekeeper.FailedPrecondition, call, "another stream's state is refused, with both digests", digest, made[0]["stream_digest"])


def several(box):
    """Streams of one process, of threads, and of exceptions do not disturb each other."""
    daemon = box.daemon(box.config(None, streams={"a": box.mixed(), "b": box.mixed(seed=8)}))
    a, b = Stream(daemon.address, "a"), Stream(daemon.address, stream="b")
    lk.check([next(a).digest for _ in range(4)] != [next(b).digest for _ in range(4)], "two streams of one daemon")
    support.raises(lanekeeper.InvalidArgument, lambda: Stream(daemon.address), "with two streams a name is needed", "a", "b")
    support.raises(lanekeeper.NotFound, lambda: Stream(daemon.address, "c"), "a stream that is not there is named with those that are", "\"c\"", "a, b")
    steps, failed = [], []

    def take():
        try:
            for _ in range(50):
                steps.append(next(a).step)
        except Exception as error:    # noqa: BLE001
            failed.append(error)
    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    lk.check(not failed and sorted(steps) == list(range(4, 204)), "four threads on one stream: each step once", failed or len(steps))
    try:
        for batch in b:
            if batch.step == 6:
                raise KeyError("the trainer's own")
    except KeyError:
        pass
    lk.same((b.step, next(b).step), (7, 7), "after an exception in the loop the next step is next")


def waits(box):
    """Waiting lets other threads run, ends in time with a reason, and goes on when asked again."""
    daemon = box.serve(box.mixed())
    stream = Stream(daemon.address, timeout=1.0, lookahead=0)
    first = next(stream)
    daemon.process.send_signal(signal.SIGSTOP)
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
            time.sleep(0.001)
    thread = threading.Thread(target=count)
    thread.start()
    begin = time.monotonic()
    error = support.raises(TimeoutError, lambda: next(stream), "a stopped daemon: DeadlineExceeded", "DEADLINE_EXCEEDED", "step 1", "timeout=")
    took = time.monotonic() - begin
    stop.set()
    thread.join()
    lk.check(0.9 < took < 3, "after the time-out", f"{took:.2f} s")
    # One that waits with the interpreter's lock lets others run ten times a second, at most, to see a signal.
    lk.check(counted[0] > 40, "another thread ran meanwhile", counted[0])
    lk.same(error and error.code, lanekeeper.Code.DEADLINE_EXCEEDED, "with gRPC's code")
    daemon.process.send_signal(signal.SIGCONT)
    lk.same((first.step, next(stream).step), (0, 1), "asked again, the same step comes")
    lk.check(isinstance(pickle.loads(pickle.dumps(error)), lanekeeper.DeadlineExceeded), "errors can be pickled")
    begin = time.monotonic()
    support.raises(ConnectionError, lambda: Stream("ipc:///nonexistent/lk.sock", timeout=0.3), "no daemon: Unavailable, with the address", "UNAVAILABLE", "nonexistent", "lanekeeperd")
    lk.check(time.monotonic() - begin < 2, "in time")
    said, lanekeeper.stream._TELL_S = [], 0.2
    listening = logging.Handler()
    listening.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("lanekeeper").addHandler(listening)
    support.raises(ConnectionError, lambda: Stream("ipc:///nonexistent/lk.sock", timeout=0.8), "no daemon, for longer", "UNAVAILABLE")
    lk.same(sum("no lanekeeperd answers at ipc:///nonexistent/lk.sock yet" in s for s in said), 1, "that it waits is told once, naming the address")
    logging.getLogger("lanekeeper").removeHandler(listening)


def refused(box):
    """What cannot be, is an error that says so."""
    daemon = box.serve(box.mixed())
    stream = Stream(daemon.address)
    batch = next(stream)
    for thing, name in ((stream, "Stream"), (batch, "Batch"), (batch.training(), "training")):
        support.raises(TypeError, lambda: pickle.dumps(thing), f"pickling: {name} is refused with a reason", "pickled")
        support.raises(TypeError, lambda: copy.copy(thing), f"copying: {name} likewise", "pickled")
    for options, words in (({"rank": 2, "world": 2}, "rank 2 of world 2"), ({"rank": 1}, "world"), ({"lookahead": 65}, "64"), ({"timeout": 0}, "timeout"),
                           ({"timeout": -1}, "timeout"), ({"step": -1}, "step=-1"), ({"shared": 3}, "shared")):
        support.raises(ValueError, lambda: Stream(daemon.address, **options), f"{options} is refused", words)
    support.raises(lanekeeper.InvalidArgument, lambda: Stream("http://x"), "an address of another kind is refused", "ipc://", "tcp://")
    support.raises(lanekeeper.InvalidArgument, Stream, "no address is refused", "LANEKEEPER_ADDRESS")
    support.raises(lanekeeper.NotFound, lambda: Stream("no/such.yaml"), "a file that is not there is named", "no/such.yaml")
    support.raises(lanekeeper.NotFound, lambda: Stream(str(box.path)), "a folder is told to be one, and what makes a configuration", "found a folder", "lanekeeper init")
    support.raises(lanekeeper.NotFound, lambda: Stream("127.0.0.1:7"), "an address without its scheme is told to need one", "tcp://host:port")
    support.raises(ValueError, lambda: list(batch.micro_batches(9)), "more micro-batches than rows are refused", "8")
    support.raises(ValueError, lambda: stream.digests(0, 20000), "too many digests are refused", "10,000")


if __name__ == "__main__":
    support.main([same_as_c, resume_counts_what_was_used, other_numbers_of_ranks, replicas, scheduled_batches, too_few, same_end,
                  restarts, states, several, waits, refused])
