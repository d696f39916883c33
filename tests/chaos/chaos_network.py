"""The network between trainers, daemon and remote workers, through a proxy of our own; and daemons that are
replaced by others under their trainers."""

import contextlib
import os
import pathlib
import re
import socket
import struct
import threading
import time

import chaos
import lk
import ranks
import wire
from chaos_processes import Remote

SOURCES = pathlib.Path(__file__).resolve().parents[2]
STREAM_ROWS = 300
STEPS = 120
WORKER_STEPS = 40    # tasks are small, and each of them crosses the network twice

chaos.elsewhere("Ports in use, port 0, IPv6, over-long paths, stale and foreign files",
                "Served, or refused at start by name.", "e2e/test_net.py addresses", "RC-110")
chaos.elsewhere("One TCP port again and again, with connections in TIME_WAIT", "Each daemon serves at once.",
                "e2e/test_net.py restarts", "RC-110")
chaos.elsewhere("The daemon comes back with another stream", "Every rank gets one error with both digests, and no batch of it.",
                "e2e/test_kill.py other_data", "RC-111")
chaos.elsewhere("Every rank reconnects after each of many restarts", "Within seconds, not after its time-out.",
                "e2e/test_kill.py reconnect", "RC-111")
chaos.elsewhere("Remote workers are killed; one has another secret", "The same digests; the stranger is refused.",
                "e2e/test_limits.py remote_workers", "RC-125")

BYTES = ("cut", "stall", "dribble")
MESSAGES = ("delay", "reorder", "duplicate")
SILENT = ("half-open", "one-way")    # no end of the connection ever comes: it has to be missed


# Through the proxy ---------------------------------------------------------------------------------

@chaos.group(promise="Every rank has every step, the same to the byte; what cannot get through is asked for again on a new connection.",
             case="RC-108")
def trainers_wire(run):
    """TCP between trainers and daemon is cut at any byte, stalled, dribbled, delayed, half-open; messages overtake each other and come twice"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), 2, STEPS)
    for kind in run.pick((*BYTES, *MESSAGES), short=2):
        run.strike(kind, trainers_through, expected, model, kind)
    for kind in run.pick(SILENT, short=1):
        run.strike(kind, trainers_silent, expected, model, kind)
    for i in run.rounds(short=0, long=3):
        run.strike(f"a mixture {i}", trainers_through, expected, model, None)


def served_by_tcp(box, **runtime):
    listen = [f"tcp://127.0.0.1:{lk.free_port()}", f"ipc://{box.path}/config/s"]
    config = box.config(box.mixed(STREAM_ROWS), listen=listen, http=None, workers=2, **runtime)
    return box.daemon(config, index=False), listen[0]


def trainers_through(fault, expected, model, kind):
    box = fault.box(model)
    daemon, address = served_by_tcp(box)
    kinds = [kind] * 5 + ["pass"] if kind is not None else [fault.random.choice(BYTES + MESSAGES) for _ in range(20)] + ["pass"]
    with contextlib.closing(wire.Proxy(address, fault.random.random(), kinds)) as proxy:
        all_ranks = ranks.Ranks(box, proxy.address, 2, STEPS)
        all_ranks.check(expected, f"through a network with {kind or kinds}")
        struck = dict(proxy.happened)
    lk.check(kind in (None, "dribble", "delay") or struck.get(kind, 0) > 0, f"{kind}: it did happen", struck)
    check_end(daemon)


def trainers_silent(fault, expected, model, kind):
    """The peer is gone and nobody says so. Calls end at their time-out; the connection is given up, and replaced."""
    box = fault.box(model)
    daemon, address = served_by_tcp(box)
    with contextlib.closing(wire.Proxy(address, fault.random.random(), [kind, "pass"])) as proxy:
        trainer = box.trainer(proxy.address, rank=1, world=2, timeout=2000 if not fault.long else 60000, sharing="never")
        got, begin, failures = [], time.monotonic(), []
        while trainer.connect():    # cut off in its greeting: as a user would, once more
            failures.append(trainer.connect_failure)
            trainer = box.trainer(proxy.address, rank=1, world=2, timeout=2000, sharing="never")
        while len(got) < STEPS and time.monotonic() - begin < 60:
            batches, failure = trainer.do(f"next {STEPS - len(got)}")
            got += batches
            failures += [failure] if failure else []
        struck = dict(proxy.happened)
    lk.same([(b["step"], b["first"], b["digest"], b["hash"]) for b in got], expected[1], f"{kind}: all steps came in the end")
    lk.check(all(f.startswith(("DEADLINE_EXCEEDED", "UNAVAILABLE")) for f in failures), "and what failed says that time was up", failures[:3])
    lk.check(struck.get(kind, 0) > 0, f"{kind}: it did happen", struck)
    check_end(daemon)


def check_end(daemon):
    code, took = daemon.stop()
    lk.check(code == 0 and took < 6, "the daemon ends in order", f"{code} in {took:.1f} s: {daemon.log()[-300:]}")


@chaos.group(promise="The same digests: what a worker was given and does not bring back is done again.", case="RC-108")
def workers_wire(run):
    """TCP between daemon and a remote worker, the only one, is cut at any byte, stalled, dribbled, delayed; messages come twice"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), 1, WORKER_STEPS)
    for kind in run.pick(("cut", "stall", "dribble", "delay", "reorder", "duplicate"), short=2):
        run.strike(kind, worker_through, expected, model, kind)
    if run.long:    # a task is given to another after half a minute
        for kind in SILENT:
            run.strike(kind, worker_through, expected, model, kind)


def worker_through(fault, expected, model, kind):
    box = fault.box(model)
    token = box.write("token", "a secret of some length\n")
    os.chmod(token, 0o600)
    at = f"tcp://127.0.0.1:{lk.free_port()}"
    config = box.config(box.mixed(STREAM_ROWS), workers=0 if kind not in SILENT else 1, workers_listen=at, worker_token_file=str(token),
                        snapshots={"dir": "snap", "every": 0})
    daemon = box.daemon(config, index=False)
    with contextlib.closing(wire.Proxy(at, fault.random.random(), [kind] * 4 + ["pass"])) as proxy:
        remote = Remote(box, proxy.address, token)
        all_ranks = ranks.Ranks(box, daemon.address, 1, WORKER_STEPS, timeout=300000)
        all_ranks.check(expected, f"a worker through a network with {kind}")
        struck = dict(proxy.happened)
        deaths = daemon.status()["workers"]["deaths"]
        code, _ = daemon.stop()
        remote.end()
    lk.check(code == 0, "the daemon ends in order", daemon.log()[-300:])
    lk.check(kind != "cut" or deaths > 0, "a worker was lost at times", struck)


# Another daemon in its place -----------------------------------------------------------------------

@chaos.group(promise="None of the trainers notices anything but time: the same digests.", case="RC-111")
def replaced(run):
    """The daemon is restarted under 16 clients with other workers, arena, look-ahead and addresses"""
    model = run.box()
    stream = model.mixed(STREAM_ROWS, batch=16)
    expected = ranks.undisturbed(model, stream, 16, STEPS)
    run.strike("again and again", under_sixteen, expected, model, stream)


def under_sixteen(fault, expected, model, stream):
    box, draw = fault.box(model), fault.random
    tcp, ipc = f"tcp://127.0.0.1:{lk.free_port()}", f"ipc://{box.path}/place/s"
    (box.path / "place").mkdir()

    def start(i):
        listen = [[tcp, ipc], [ipc, tcp.replace("127.0.0.1", "0.0.0.0")], [tcp], [ipc]][i % 4]
        config = box.config(stream, f"d{i}", listen=listen, http=None, workers=draw.randrange(1, 4), prefetch_steps=draw.choice((1, 3, 20)),
                            arena=draw.choice(("1MiB", "4MiB", "64MiB")), run_dir=draw.choice(("place/run", f"d{i}/run")),
                            snapshots={"dir": "snap", "every": draw.choice((0, 2, 9))})
        return box.daemon(config, index=False)
    daemon = start(0)
    all_ranks = SixteenRanks(box, (tcp, ipc), STEPS)
    i = 0
    for _ in range(40 if fault.long else 5):
        # By what they got, not by time: on no machine are they through before three restarts.
        more = all_ranks.taken() + 16 * draw.randrange(2, 20)
        with contextlib.suppress(lk.Failure):    # half of them may have no daemon at present, and the others all steps
            lk.wait_until(lambda m=more: all_ranks.over() or all_ranks.taken() >= m, 5, "some steps")
        time.sleep(draw.random() * 0.02)
        if all_ranks.over():
            break
        if draw.random() < 0.5:
            daemon.kill()
        else:
            daemon.stop()
        i += 1
        daemon = start(i)
    if i % 4 > 1 and not all_ranks.over():    # it left half of them out
        daemon.stop()
        daemon = start(i + 4 - i % 4)
    all_ranks.check(expected, f"{i} restarts under sixteen clients")
    lk.check(i >= 3, "it was restarted while they ran", i)
    check_end(daemon)


class SixteenRanks(ranks.Ranks):
    """Every other one by TCP."""

    def __init__(self, box, places, steps):
        self.steps = steps
        self.rank = [ranks.Rank(box, places[r % 2], r, 16, steps, 12, timeout=90000) for r in range(16)]


class Impostor:
    """Something else that listens where the daemon did; `talk(socket)` is what it says to each caller."""

    def __init__(self, address, talk):
        if address.startswith("ipc://"):
            path = address[6:]
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(path)
            self.listener.listen(16)
        else:
            self.listener = socket.create_server(("127.0.0.1", int(address.rsplit(":", 1)[1])), backlog=16)
        self.ipc, self.talk, self.taken = address.startswith("ipc://"), talk, []
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                caller, _ = self.listener.accept()
            except OSError:
                return
            self.taken.append(caller)
            threading.Thread(target=self._serve, args=(caller,), daemon=True).start()

    def _serve(self, caller):
        with contextlib.suppress(OSError, struct.error, lk.Failure):
            caller.settimeout(20)
            self.talk(self, caller)

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for caller in self.taken:
            with contextlib.suppress(OSError):
                caller.shutdown(socket.SHUT_RDWR)
            caller.close()
        self.thread.join(5)


def answering(answer):
    """A replier whose answer to every request is answer(method, call): (status, header)."""
    def talk(impostor, caller):
        def take(n):
            data = b""
            while len(data) < n:
                piece = caller.recv(n - len(data))
                if not piece:
                    raise lk.Failure("gone")
                data += piece
            return data
        caller.sendall(wire.REPLIER)
        take(8)
        while True:
            if impostor.ipc:
                take(1)
            body = take(struct.unpack(">Q", take(8))[0])
            method, call = struct.unpack_from("<H", body, 8)[0], struct.unpack_from("<Q", body, 12)[0]
            status, header = answer(method, call)
            caller.sendall(wire.frame(body[:4] + wire.envelope(method, header, b"", call, 0, status), impostor.ipc))
    return talk


def hello_of_version(version):
    return lambda method, call: (wire.OK, wire.fields(f1=version, f2="9.9", f4="another host"))


IMPOSTORS = {
    # what it is: (what it says, the codes that a trainer may be told)
    "a newer protocol": (answering(hello_of_version(2)), ("UNIMPLEMENTED",)),
    "a protocol of four billion": (answering(hello_of_version(2**32 - 1)), ("UNIMPLEMENTED",)),
    "no such method": (answering(lambda method, call: (12, wire.fields(f1="this service has no such method"))), ("UNIMPLEMENTED",)),
    "an answer that is no hello": (answering(lambda method, call: (0, b"\xff\xff\xff\xff\xff")), ("DATA_LOSS", "UNIMPLEMENTED")),
    "another SP protocol": (lambda impostor, caller: caller.sendall(b"\0SP\0\0\x20\0\0") or caller.recv(1), ("UNAVAILABLE",)),
    "HTTP": (lambda impostor, caller: caller.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") or caller.recv(1), ("UNAVAILABLE",)),
    "a length of 2^60": (lambda impostor, caller: caller.sendall(wire.REPLIER + wire.frame(b"", impostor.ipc, 1 << 60)) or caller.recv(1),
                         ("UNAVAILABLE", "DEADLINE_EXCEEDED")),
    "silence": (lambda impostor, caller: caller.recv(8) and time.sleep(5), ("UNAVAILABLE", "DEADLINE_EXCEEDED")),
}


@chaos.group(promise="Refused by name (UNIMPLEMENTED for another protocol) within the time-out, nothing of it is used; when the right one is back, the same handle goes on.",
             case="RC-111")
def impostors(run):
    """Under a trainer its daemon is replaced by one of another protocol version, or by something else altogether"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), 1, 60)[0]
    for name in run.pick(IMPOSTORS, short=2):
        for place in run.pick(("tcp", "ipc"), short=1):
            run.strike(f"{name} by {place}", upgraded, expected, model, place, *IMPOSTORS[name])


def upgraded(fault, expected, model, place, talk, codes):
    box = fault.box(model)
    daemon, tcp = served_by_tcp(box)
    address = tcp if place == "tcp" else daemon.addresses()[1]
    trainer = box.trainer(address, timeout=3000, lookahead=0, sharing="never")
    got = trainer.get("next 10")
    daemon.kill()
    with contextlib.closing(Impostor(address, talk)):
        begin = time.monotonic()
        batches, failure = trainer.do("next 1")
        took = time.monotonic() - begin
        fresh = box.trainer(address, timeout=1500).connect()
    lk.check(not batches and failure.startswith(codes), f"a trainer that had another is told {' or '.join(codes)}", (batches, failure))
    lk.check(fresh.startswith(codes), "so is a new one", fresh)
    lk.check("UNIMPLEMENTED" not in codes or "protocol" in failure or "method" in failure or "UNIMPLEMENTED" not in failure,
             "and the text says what of it is another", failure)
    lk.check(took < 8, "in time", f"{took:.1f} s")
    box.daemons.remove(daemon)
    box.daemon(daemon.config_path, index=False)
    while len(got) < 60:
        batches, failure = trainer.do(f"next {60 - len(got)}")
        got += batches
        if failure and time.monotonic() - begin > 60:
            raise lk.Failure(f"with the right daemon again: {failure}")
    lk.same([(b["step"], b["first"], b["digest"], b["hash"]) for b in got], expected, "with the right one again, the same steps")


@chaos.group(promise="Refused by name; the worker's tasks go to others.")
def worker_versions(run):
    """A worker of another protocol version, or with a token that is almost right, says hello"""
    model = run.box()
    token = model.write("token", "a secret of some length\n")
    daemon = model.serve(model.mixed(STREAM_ROWS), workers_listen="tcp://127.0.0.1:0", worker_token_file=str(token))
    at = daemon.status()["workers"]["listen"]
    right = "a secret of some length"
    now = int(re.search(r"LK_WORK_PROTOCOL (\d+)", (SOURCES / "proto/work.h").read_text())[1])
    for name, protocol, said, code in (("an older protocol", now - 1, right, 9), ("a newer one", now + 1, right, 9), ("no protocol", 0, right, 9),
                                       ("a token less a letter", now, right[:-1], 16), ("a token and a letter", now, right + "x", 16),
                                       ("no token", now, "", 16), ("a token of 1 MB", now, "x" * (1 << 20), None),
                                       ("the right ones", now, right, 0)):
        run.strike(name, worker_hello, daemon, at, protocol, said, code)


def worker_hello(fault, daemon, at, protocol, token, code):
    before = daemon.status()["workers"]["remote"]
    peer = wire.Peer(at)
    try:
        peer.send(wire.WORKER_HELLO, wire.fields(f1=protocol, f2=token, f3=1, f4="nowhere"))
        status = peer.receive(10)[1]
    except (OSError, lk.Failure):
        status = None    # the connection was closed, perhaps before all was sent: also a refusal
    lk.check(status == code or (code is None and status in (None, 3)), "it is answered as it should", (status, code))
    lk.check(daemon.status()["workers"]["remote"] - before == (code == 0), "and is a worker only if it may be")
    peer.close()
    lk.wait_until(lambda: daemon.status()["workers"]["remote"] == 0, 10, "it is forgotten")
