"""Trainers, and strangers on their sockets, that do what they should not: they can be refused, and no more.

What a peer may not do is measured: make the daemon grow (memory, descriptors, threads), keep others waiting (the
time that a good trainer beside it waits for each step), or read and write what is not its own.
"""

import contextlib
import fcntl
import mmap
import os
import random
import re
import resource
import select
import socket
import struct
import time

import chaos
import lk
import ranks
import wire

STREAM_ROWS = 300
STEPS = 60
WAIT_S = 5    # for one step, on a machine that does much else; it takes milliseconds
HOG_S = 3
BUILT_MS = 20000

chaos.elsewhere("Three of four ranks never release a batch", "The fourth goes on; leases stay bounded, and end with their trainers.",
                "e2e/test_hold.py never_released", "RC-134")
chaos.elsewhere("Two hundred batches are held across the daemon's death", "They keep their bytes.", "e2e/test_hold.py held_for_ever", "RC-134")
chaos.elsewhere("A trainer is stopped in its midst", "Nobody else notices; woken, it goes on.", "e2e/test_hold.py stopped_trainer", "RC-125")
chaos.elsewhere("Known kinds of garbage are sent to every socket", "Refused and counted; good clients are served.", "e2e/test_net.py garbage", "RC-108")
chaos.elsewhere("Ranks, worlds, steps and streams that make no sense", "Refused, saying why.", "e2e/test_net.py arguments")
chaos.elsewhere("64 clients come and go at once", "All are served, and forgotten.", "e2e/test_net.py crowd")


class Target:
    """A daemon with every socket that it can have; what it had before, and what it may not have grown by after."""

    def __init__(self, box, stream, expected=None, how=None, **runtime):
        # Peers may be many more than the descriptors of an ordinary process.
        resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
        self.box, self.expected = box, expected
        settings = {"listen": [f"ipc://{box.path}/config/s", "tcp://127.0.0.1:0"], "workers": 1, "workers_listen": "tcp://127.0.0.1:0",
                    "worker_token_file": str(box.write("token", "a secret of some length\n"))}
        self.daemon = box.daemon(box.config(stream, **{**settings, **runtime}), index=False, **(how or {}))
        self.ipc, self.tcp = self.daemon.addresses()[:2]
        self.workers = self.daemon.status()["workers"]["listen"]
        self.memory = f"ipc://{box.path}/config/run/memory.sock"
        # Everything that it ever takes for good trainers, before anything is measured.
        box.trainer(self.ipc).get("digest 0 60")
        for where in (self.ipc, self.tcp):
            box.trainer(where, sharing="auto").get("next 20")
        for trainer in list(box.trainers):
            if trainer.process.poll() is None:
                trainer.close()
        self.settled = wire.has(self.daemon.pid)

    def good(self, fact, most_s=WAIT_S, where=None, **options):
        return ranks.good_trainer(self.box, where or self.ipc, self.expected, fact, most_s, **options)

    def grown(self):
        return [b - a for a, b in zip(self.settled, wire.has(self.daemon.pid))]

    def check_size(self, most, fact, most_mb):
        """@most: what it had beyond the beginning at the worst moment, by a wire.Watch."""
        if not self.box.sanitized:
            lk.check(most[0] < most_mb << 10, f"{fact}: memory grows by less than {most_mb} MB at the worst moment", f"{most[0]} kB")
        lk.check(most[2] <= 2, f"{fact}: no threads for strangers", most[2])

    def check_after(self, fact):
        def small():
            _, descriptors, threads = self.grown()
            return descriptors <= 4 and threads <= 2
        with contextlib.suppress(lk.Failure):
            lk.wait_until(small, 15, "descriptors closed")
        lk.check(small(), f"{fact}: afterwards descriptors and threads are as before", self.grown())
        lk.check(self.daemon.process.poll() is None, f"{fact}: the daemon lives", self.daemon.log()[-400:])
        deaths = self.daemon.status()["workers"]["deaths"]
        lk.check(deaths == 0, f"{fact}: its worker was not disturbed", deaths)


def model_of(run, **keys):
    model = run.box()
    stream = model.mixed(STREAM_ROWS, **keys)
    return model, stream, ranks.undisturbed(model, stream, 1, STEPS)[0]


# Garbage -------------------------------------------------------------------------------------------

def sessions(draw):
    """A conversation as a trainer or a worker has it, as pieces."""
    hello = wire.fields(f1=1, f2="chaos")
    get = wire.fields(f2=draw.randrange(60), f3=0, f4=1)
    yield [wire.request(wire.HELLO, hello, 1), wire.request(wire.GET_BATCH, get, 2, 1000), wire.request(wire.STATUS, b"", 3)]
    yield [wire.request(wire.HELLO, hello, 1), wire.request(wire.DIGEST, wire.fields(f2=0, f3=5), 2, 1000),
           wire.request(wire.TRACE, wire.fields(f2=3, f3=0, f4=2), 3, 1000), wire.request(wire.CHECKPOINT, wire.fields(f2=9), 4)]
    yield [wire.request(wire.WORKER_HELLO, wire.fields(f1=2, f2="no such token at all", f3=9, f4="chaos"), 1),
           wire.request(wire.WORKER_TASK, wire.fields(f1=1, f2=1, f7=5, f10=3), 2, payload=bytes(48))]


def spoil(data, draw):
    """Bytes flipped, cut out, doubled, inserted; lengths made large."""
    data = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5, 30))):
        at, kind = draw.randrange(len(data)) if data else 0, draw.randrange(6)
        if kind == 0 and data:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            del data[at:at + draw.randrange(1, 40)]
        elif kind == 2:
            data[at:at] = data[at:at + draw.randrange(1, 100)]
        elif kind == 3:
            data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 20)))
        elif kind == 4:
            data[at:at + 4] = draw.choice((b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\0\0\0\x80"))
        else:
            del data[at:]
    return bytes(data)


def throw(address, data):
    """Sends it, hears a little of what is said, and hangs up in one way or another."""
    with contextlib.suppress(OSError), wire.dial(address) as s:
        s.settimeout(0.01)
        s.sendall(data)
        s.recv(4096)
        if len(data) % 3 == 0:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@chaos.group(promise="Refused, or answered; the daemon lives, its worker too, and a good trainer gets its steps in time.", case="RC-132")
def garbage(run):
    """Conversations spoiled at random are sent to the sockets of trainers, workers, and the hand-over of memory"""
    model, stream, expected = model_of(run)
    for place in ("ipc", "tcp", "workers", "memory"):
        run.strike(place, spoiled, model, stream, expected, place)


def spoiled(fault, model, stream, expected, place):
    box, draw = fault.box(model), fault.random
    target = Target(box, stream, expected)
    address = getattr(target, place)
    watch = wire.Watch(target.daemon.pid)
    with target.good(place):
        for _ in range(3000 if fault.long else 60):
            pieces = draw.choice(list(sessions(draw)))
            if place == "memory":
                data = struct.pack("<4sIQ", b"LKH1", 0, draw.getrandbits(64)) + b"".join(
                    struct.pack("<IIQ", 1, 0, draw.getrandbits(16)) for _ in range(draw.randrange(5)))
            else:
                data = wire.REQUESTER + b"".join(wire.frame(p if draw.random() < 0.5 else spoil(p, draw), place == "ipc") for p in pieces)
            throw(address, data if draw.random() < 0.2 else spoil(data, draw))
    target.check_size(watch.stop(), place, 60)
    target.check_after(place)


# Crowds --------------------------------------------------------------------------------------------

@chaos.group(promise="They take places, not the service: bounded memory, no threads, all is given back, a good trainer gets its steps in time.")
def crowds(run):
    """A thousand connections: that say nothing, half a greeting, half a frame, the beginning of a large message; that ask and go"""
    model, stream, expected = model_of(run)
    kinds = [(p, w) for p in ("ipc", "tcp", "workers", "memory") for w in CROWDS]
    for place, what in run.pick(kinds, short=4):
        run.strike(f"{what} on {place}", crowd, model, stream, expected, place, what)


CROWDS = {
    "silent": lambda ipc, memory: b"",
    "half a greeting": lambda ipc, memory: b"LKH" if memory else wire.REQUESTER[:5],
    "a greeting": lambda ipc, memory: struct.pack("<4sIQ", b"LKH1", 0, random.getrandbits(63) + 1) if memory else wire.REQUESTER,
    "half a frame": lambda ipc, memory: b"LKH1" + bytes(7) if memory else wire.REQUESTER + wire.frame(wire.request(wire.STATUS), ipc)[:30],
    "a request": lambda ipc, memory: b"LKH1" + bytes(12) if memory else wire.REQUESTER + wire.frame(wire.request(wire.STATUS), ipc),
}


def crowd(fault, model, stream, expected, place, what):
    box, draw = fault.box(model), fault.random
    target = Target(box, stream, expected)
    address = getattr(target, place)
    watch, sockets = wire.Watch(target.daemon.pid), []
    with target.good(what), contextlib.ExitStack() as all_closed:
        for i in range(min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)):
            s = wire.dial(address)
            all_closed.callback(s.close)
            with contextlib.suppress(OSError):    # it may be closed at once
                s.sendall(CROWDS[what](place == "ipc", place == "memory"))
            sockets.append(s)
            if draw.random() < 0.3:
                sockets.pop(draw.randrange(len(sockets))).close()
        # In the crowd's presence another comes.
        late = box.trainer(target.tcp, timeout=BUILT_MS)
        lk.check(not late.do("next 3")[1], "a new trainer is served beside them")
        late.close()
    target.check_size(watch.stop(), what, 80)
    target.check_after(what)


@chaos.group(promise="The silent ones go first: a trainer that is there is served, one that comes too, and snapshots are written.")
def descriptors(run):
    """Three times as many connections as the daemon may have descriptors, on all of its sockets, for seconds"""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1024:
        raise chaos.Skip("this machine allows no 1,024 descriptors")
    model, stream, expected = model_of(run)
    run.strike("256 descriptors", few_descriptors, model, stream, expected)


def newest(snapshots):
    """The position of the newest snapshot: old ones are thinned out."""
    return max(int(path.stem.rpartition("-")[2]) for path in snapshots.glob("*.lks"))


def few_descriptors(fault, model, stream, expected):
    box, draw = fault.box(model), fault.random
    config = {"how": {"prefix": ("prlimit", "--nofile=256:256")}, "snapshots": {"dir": "snap", "every": 2}}
    target = Target(box, stream, expected, **config)
    snapshots = box.path / "snap"
    with target.good("few descriptors", where=target.tcp), contextlib.ExitStack() as all_closed:
        lk.wait_until(lambda: list(snapshots.glob("*.lks")), lk.ANSWER_S, "a snapshot")
        began = newest(snapshots)
        for _ in range(3):
            for _ in range(270):    # all of them below 1,024, or select() could not wait for a trainer
                place = draw.choice(("ipc", "tcp", "workers", "memory"))
                with contextlib.suppress(OSError, lk.Failure):
                    s = wire.dial(getattr(target, place), 0.05)
                    all_closed.callback(s.close)
                    s.sendall(CROWDS[draw.choice(list(CROWDS))](place == "ipc", place == "memory"))
            late = box.trainer(draw.choice((target.ipc, target.tcp)), timeout=BUILT_MS, step=draw.randrange(400))
            failure = late.do("next 3")[1]
            lk.check(not failure, "a new trainer is served beside them", failure)
            late.close()
    told = target.daemon.status()["snapshots"]
    lk.check(newest(snapshots) >= began > 0 and told["failed"] == 0, "snapshots are there, none older than before", (began, told))
    lk.check("cannot_write" not in target.daemon.log() and "Too many open files" not in target.daemon.log(), "no file wanted for a descriptor",
             target.daemon.log()[-400:])
    target.check_after("few descriptors")


# Requests ------------------------------------------------------------------------------------------

@chaos.group(promise="Each is answered within its deadline: with what was asked, or a refusal; a good trainer gets its steps in time.")
def requests(run):
    """Steps far apart, worlds and ranks absurd, spans of digests and traces without end, sent by hand"""
    model, stream, expected = model_of(run)
    for i in run.rounds(short=1, long=3):
        run.strike(f"round {i}", absurd, model, stream, expected)


def absurd_request(draw):
    number = lambda: draw.choice((0, 1, 2, 7, 63, 2**16, 2**31 - 1, 2**31, 2**32 - 1, draw.getrandbits(32)))    # noqa: E731
    step = lambda: draw.choice((0, 5, 59, 100, 10**4, 10**6, 2**40, 2**46 - 1, 2**46, 2**63, 2**64 - 1))    # noqa: E731
    kind = draw.randrange(5)
    if kind <= 1:
        return wire.GET_BATCH, wire.fields(f2=step(), f3=number(), f4=number(), f5=draw.choice((b"", b"x", bytes(16), bytes(1000))),
                                           f6=wire.Fixed(draw.getrandbits(64)))
    if kind == 2:
        return wire.GET_BATCH, wire.fields(f2=step(), f3=0, f4=1)
    if kind == 3:
        return wire.DIGEST, wire.fields(f2=step(), f3=step())
    return wire.TRACE, wire.fields(f2=step(), f3=number(), f4=number())


def absurd(fault, model, stream, expected):
    box, draw = fault.box(model), fault.random
    target = Target(box, stream, expected)
    digests = {step: bytes.fromhex(digest) for step, _, digest, _ in expected}
    watch = wire.Watch(target.daemon.pid)
    late, wrong, refused = 0, [], 0
    with target.good("absurd requests"):
        for where in (target.ipc, target.tcp):
            peer = wire.Peer(where)
            for _ in range(100 if fault.long else 25):
                asked, begin, deadline = {}, time.monotonic(), 150
                for _ in range(draw.randrange(1, 6)):
                    method, header = absurd_request(draw)
                    asked[peer.send(method, header, deadline)] = (method, header)
                while asked:
                    call, status, header, payload = peer.receive(30)
                    method, sent = asked.pop(call)
                    refused += status != 0
                    if status == 0 and method == wire.GET_BATCH and sent.endswith(wire.fields(f3=0, f4=1)):
                        step = struct.unpack_from("<Q", payload, 16)[0]
                        wrong += [] if step not in digests or digests[step] in header else [step]
                late += time.monotonic() - begin > 3
            peer.close()
    lk.check(late == 0, "all are answered by their deadline", f"{late} were not")
    lk.check(refused > 25, "what makes no sense is refused", refused)
    lk.same(wrong, [], "what is answered is right")
    target.check_size(watch.stop(), "absurd requests", 80)
    target.check_after("absurd requests")


@chaos.group(promise="A trainer that is being served keeps its place, and gets its steps in time; when the askers are gone, so are their requests.")
def hogs(run):
    """Peers ask for steps a million apart, with the longest deadline, and wait; more of them than there are cursors and waiting places"""
    model, stream, expected = model_of(run)
    run.strike("far steps", hogging, model, stream, expected, 40, 2)
    if run.long:
        run.strike("every waiting place", hogging, model, stream, expected, 200, 24)


def hogging(fault, model, stream, expected, asks, n_peers):
    box, draw = fault.box(model), fault.random
    target = Target(box, stream, expected)
    watch = wire.Watch(target.daemon.pid)
    with target.good("far steps", HOG_S), contextlib.ExitStack() as all_closed:
        time.sleep(0.3)    # it is being served
        for _ in range(n_peers):
            peer = wire.Peer(draw.choice((target.ipc, target.tcp)))
            all_closed.callback(peer.close)
            for i in range(asks):
                method = draw.choice((wire.GET_BATCH, wire.TRACE, wire.DIGEST))
                step = 10**6 * (1 + draw.randrange(1000))
                rest = {wire.GET_BATCH: {"f3": 0, "f4": 1}, wire.TRACE: {"f3": 0, "f4": 1}, wire.DIGEST: {"f3": step + 10000}}[method]
                peer.send(method, wire.fields(f2=step, **rest))
        time.sleep(HOG_S + 1)
    target.check_size(watch.stop(), "far steps", 150)
    lk.wait_until(lambda: not target.daemon.status()["waiting"], 10, "their requests are forgotten")
    target.check_after("far steps")


# Slow readers --------------------------------------------------------------------------------------

@chaos.group(promise="What is kept for those who do not read is bounded, for all of them together; others get their steps in time.")
def slow_readers(run):
    """Peers ask for inline batches again and again, and do not read the answers"""
    model, stream, expected = model_of(run, batch=64, sequence=2048)    # half a megabyte a step
    for place in run.pick(("ipc", "tcp"), short=1):
        run.strike(place, unread, model, stream, expected, place)


def unread(fault, model, stream, expected, place):
    box = fault.box(model)
    target = Target(box, stream, expected[:8])
    get = wire.fields(f2=3, f3=0, f4=1)
    watch = wire.Watch(target.daemon.pid)
    with target.good(f"unread on {place}"), contextlib.ExitStack() as all_closed:
        peers = [wire.Peer(getattr(target, place)) for _ in range(36)]
        for p in peers:
            all_closed.callback(p.close)
            p.socket.setblocking(False)
        left = {p: b"" for p in peers}
        for i in range(120 if fault.long else 50):
            for p in peers:
                data = left[p] + wire.frame(wire.request(wire.GET_BATCH, get, i + 1, 5000), place == "ipc")
                try:
                    left[p] = data[p.socket.send(data):]
                except BlockingIOError:
                    left[p] = data
                except OSError:    # it was given up: also a bound
                    left[p] = b""
        time.sleep(1.0 if fault.long else 0.5)
    target.check_size(watch.stop(), f"36 readers of 25 MB each and more on {place} that do not read", 700)
    target.check_after(f"unread on {place}")


# Large messages ------------------------------------------------------------------------------------

@chaos.group(promise="What strangers have begun to send is bounded, for all of them together; others get their steps in time.", case="RC-132")
def half_sent(run):
    """Many peers each send the greater part of a message as large as is allowed, and then nothing more"""
    model, stream, expected = model_of(run)
    for place in ("ipc", "tcp", "workers"):
        run.strike(place, half_messages, model, stream, expected, place)


def half_messages(fault, model, stream, expected, place):
    box = fault.box(model)
    target = Target(box, stream, expected)
    ipc = place == "ipc"
    watch = wire.Watch(target.daemon.pid)
    piece = bytes(1 << 20)
    with target.good(f"half messages on {place}"), contextlib.ExitStack() as all_closed:
        for _ in range(32):
            p = wire.Peer(getattr(target, place))
            all_closed.callback(p.close)
            p.socket.settimeout(0.2)
            with contextlib.suppress(OSError):    # refused at some point
                p.socket.sendall(wire.frame(b"", ipc, (64 << 20) - 1000))
                for _ in range(24):
                    p.socket.sendall(piece)
    target.check_size(watch.stop(), f"768 MB of half messages on {place}", 200)
    target.check_after(f"half messages on {place}")


# Memory that is not theirs -------------------------------------------------------------------------

@chaos.group(promise="Batch memory can be read, and nothing else: not written, resized, or sealed; no other memory is handed over; nobody else's lease can be ended.",
             case="RC-134")
def vandals(run):
    """A peer joins the hand-over, and tries to write, resize, and map what it got, and to end the leases of others"""
    model, stream, expected = model_of(run)
    run.strike("all of it", vandalise, model, stream, expected)


def tries(fact, attempt):
    try:
        attempt()
    except OSError:
        return lk.ok(fact)
    return lk.not_ok(fact, "it succeeded")


def vandalise(fault, model, stream, expected):
    box, draw = fault.box(model), fault.random
    target = Target(box, stream, expected)
    holder = box.trainer(target.ipc, sharing="always", lookahead=0)
    holder.get("hold 100")
    holder.get("next 3")
    leased = target.daemon.status()["streams"][0]["slots_leased"]
    lk.check(leased > 0, "a good trainer holds leases", leased)
    vandal, regions = wire.join_memory(target.memory[6:], draw.getrandbits(64) | 1)
    lk.check(len(regions) == 1, "one stream: one descriptor", len(regions))
    for fd, size in regions:
        lk.check(os.fstat(fd).st_size == size, "of the size that is said", (os.fstat(fd).st_size, size))
        lk.check("lanekeeper-batches" in os.readlink(f"/proc/self/fd/{fd}"), "it is batch memory", os.readlink(f"/proc/self/fd/{fd}"))
        tries("it cannot be written", lambda: os.pwrite(fd, b"x", 0))
        tries("or mapped to be written", lambda: mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
        tries("or made smaller", lambda: os.ftruncate(fd, 4096))
        tries("or larger", lambda: os.ftruncate(fd, size + 4096))
        tries("or punched", lambda: os.posix_fallocate(fd, size, 4096))
        tries("or sealed further", lambda: fcntl.fcntl(fd, 1033, 0x0008))

        def reopened():
            again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
            try:
                os.pwrite(again, b"x", 0)
            finally:
                os.close(again)
        tries("or opened anew and written", reopened)
    for lease in [*range(200), *(draw.getrandbits(64) for _ in range(200))]:
        vandal.sendall(struct.pack("<IIQ", 1, 0, lease))
    time.sleep(0.2)
    now = target.daemon.status()["streams"][0]["slots_leased"]
    lk.same(now, leased, "the leases of others stay, whatever number is given back")
    holder.get("next 20")
    lk.same(holder.get("check")[0]["changed"], 0, "and their batches keep their bytes")
    other, _ = wire.join_memory(target.memory[6:], 77)
    second = socket.socket(socket.AF_UNIX)
    second.settimeout(5)
    second.connect(target.memory[6:])
    second.sendall(struct.pack("<4sIQ", b"LKH1", 0, 77))
    with contextlib.suppress(ConnectionResetError):
        lk.same(second.recv(100), b"", "a client's number that is in use joins nobody")
    for s in (vandal, other, second):
        s.close()
    for fd, _ in regions:
        os.close(fd)
    holder.close()
    target.check_after("vandals")


# Before the daemon ---------------------------------------------------------------------------------

@chaos.group(promise="They are served as soon as it is there; without it, told UNAVAILABLE at their time-out.", case="RC-111")
def early(run):
    """Clients connect before the daemon exists, by socket file and by port"""
    model, stream, expected = model_of(run)
    run.strike("sixteen of them", earlier, model, stream, expected)


def earlier(fault, model, stream, expected):
    box, draw = fault.box(model), fault.random
    tcp = f"tcp://127.0.0.1:{lk.free_port()}"
    config = box.config(stream, listen=[f"ipc://{box.path}/config/s", tcp], http=None)
    hopeless = box.trainer(f"ipc://{box.path}/config/s", timeout=400)
    failure = hopeless.connect()
    lk.check(failure.startswith("UNAVAILABLE"), "told at its time-out", failure)
    trainers = [box.trainer(draw.choice((tcp, f"ipc://{box.path}/config/s")), timeout=BUILT_MS, step=i) for i in range(16)]
    time.sleep(0.3 + draw.random())
    daemon = box.daemon(config, index=False, ready=False)
    begin = time.monotonic()
    got = [t.get("next 3") for t in trainers]
    took = time.monotonic() - begin
    digests = [digest for _, _, digest, _ in expected]
    lk.same([[b["digest"] for b in g] for g in got], [digests[i:i + 3] for i in range(16)], "each gets its steps")
    lk.check(took < 10, "soon after the daemon is there", f"{took:.1f} s")
    for t in trainers:
        t.close()
    lk.check(daemon.stop()[0] == 0, "and it ends in order")
