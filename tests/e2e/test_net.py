"""Addresses, and what strangers send to the sockets."""

import collections
import os
import random
import re
import resource
import selectors
import socket
import struct
import threading
import time

import lk


def small(box):
    box.dataset("d", lk.prose(1, 200))
    return box.plain({"d": {"path": "d"}}, sequence=64, batch=4)


def addresses(box):
    """RC-110: ports in use, port 0, IPv6, paths that are too long, stale sockets."""
    stream = small(box)
    daemon = box.serve(stream, "zero", listen=["tcp://127.0.0.1:0", f"ipc://{box.path}/zero/s"])
    address = daemon.addresses()[0]
    lk.check(re.fullmatch(r"tcp://127\.0\.0\.1:[1-9]\d+", address) is not None, "port 0: the log has the real port", address)
    lk.check(not box.trainer(address).do("next 2")[1], "and it serves there")
    lk.check(not box.trainer(daemon.addresses()[1]).do("next 2")[1], "and at its second address")
    lk.quickly(lambda: box.refused(box.config(stream, "taken", listen=address), "a port in use is refused, naming the address",
                                   re.escape(address), "in use"), 1.5, "within a second or so")
    box.refused(box.config(stream, "http", http=daemon.http), "the same for HTTP", re.escape(daemon.http), "in use")
    lk.check(not box.trainer(daemon).do("next 2")[1], "the first goes on")
    try:
        with socket.socket(socket.AF_INET6) as s:
            s.bind(("::1", 0))
        six = box.serve(stream, "six", index=False, listen="tcp://[::1]:0", http="[::1]:0")
        lk.check(not box.trainer(six).do("next 2")[1], "[::1] serves", six.address)
        lk.check(six.fetch("/healthz")[0] == 200, "and so does its HTTP", six.http)
    except OSError:
        print("# no IPv6 here")
    for host in ("localhost", "0.0.0.0"):
        named = box.serve(stream, f"host-{host}", index=False, listen=f"tcp://{host}:0", http=None)
        port = re.fullmatch(rf"tcp://{re.escape(host)}:([1-9]\d+)", named.address)
        lk.check(port is not None, f"{host}:0: the log has the real port", named.addresses())
        reached = box.trainer(f"tcp://127.0.0.1:{port.group(1)}").do("next 2")[1]
        lk.check(not reached, f"{host} serves, reached as 127.0.0.1", reached)
        if host == "localhost":
            reached = box.trainer(named).do("next 2")[1]
            lk.check(not reached, "and by its name", reached)
        named.stop()
    long_name = "x" * 120
    box.refused(box.config(stream, "long", listen=f"ipc://{box.path}/{long_name}"), "a socket path that is too long is refused",
                r"\b10[78]\b")
    box.refused(box.config(stream, "longdir", run_dir=long_name), "in the folder of sockets, too", r"\b10[78]\b")
    for bad in ("tcp://127.0.0.1:70000", "tcp://127.0.0.1:-1", "tcp://127.0.0.1:", "tcp://127.0.0.1", "", "udp://127.0.0.1:5",
                "tcp://no.such.host.invalid:5000", "tcp://192.0.2.1:0", "tcp://::1:0"):
        box.refused(box.config(stream, "bad", listen=bad), f"the address {bad!r} is refused", "listen|address|192.0.2.1|host")
    daemon.kill()
    again = box.daemon(daemon.config_path, index=False)
    lk.check(not box.trainer(again.addresses()[1]).do("next")[1], "a dead daemon's socket files are replaced")
    (box.path / "file").write_text("precious")
    box.refused(box.config(stream, "onfile", listen=f"ipc://{box.path}/file"), "a file that is no socket is not replaced", "file")
    lk.check((box.path / "file").read_text() == "precious", "but kept")


def restarts(box):
    """RC-110: the same TCP port again and again, with connections in TIME_WAIT."""
    stream = small(box)
    config = box.config(stream, listen=f"tcp://127.0.0.1:{lk.free_port()}", http=f"127.0.0.1:{lk.free_port()}")
    box.index(config)
    bad = []
    for i in range(200 if lk.LONG else 10):
        daemon = box.daemon(config, index=False)
        trainer = box.trainer(daemon)
        failure = trainer.do("next")[1]
        daemon.fetch("/healthz")
        bad += [failure] if failure else []
        if i % 2:
            daemon.kill()
            trainer.kill()
        else:
            bad += [] if daemon.stop()[0] == 0 else [daemon.log()[-300:]]
            trainer.kill()
    lk.same(bad, [], "restarts on one port with connections in TIME_WAIT all serve")


SP_REQ = b"\0SP\0\0\x30\0\0"    # what a requester says first


def strangers(draw, ipc):
    """What might arrive: (name, bytes)."""
    def frame(body, n=None):
        head = struct.pack(">Q", len(body) if n is None else n)
        return (b"\1" if ipc else b"") + head + body
    noise = bytes(draw.getrandbits(8) for _ in range(5000))
    yield "nothing", b""
    yield "random bytes", noise
    yield "zeros", bytes(4096)
    yield "HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise[:500]
    yield "half a greeting", SP_REQ[:5]
    yield "another protocol's greeting", b"\0SP\0\0\x10\0\0" + noise[:100]
    yield "a length of 4 GB", SP_REQ + frame(b"abc", 1 << 32)
    yield "a length of 2^63", SP_REQ + frame(b"abc", (1 << 63) + 5)
    yield "a length of 2^64 - 1", SP_REQ + frame(b"abc", (1 << 64) - 1)
    yield "an empty message", SP_REQ + frame(b"")
    yield "a message without an id", SP_REQ + frame(b"\0\0")
    for n in (4, 8, 20, 64, 300, 4000):
        yield f"an envelope of {n} random bytes", SP_REQ + frame(b"\x80\0\0\1" + noise[:n])
    yield "a frame that is cut off", SP_REQ + frame(noise[:100], 1000)
    yield "a thousand small frames", SP_REQ + b"".join(frame(b"\x80\0\0\1" + bytes([i % 256])) for i in range(1000))


def connect(address):
    if address.startswith("ipc://"):
        s = socket.socket(socket.AF_UNIX)
        s.connect(address[6:])
    else:
        host, port = address[6:].rsplit(":", 1)
        s = socket.create_connection((host, int(port)))
    s.settimeout(2)
    return s


def connect_soon(address):
    """As a trainer would: a listener that a stranger has broken is revived within seconds."""
    def attempt():
        try:
            return connect(address)
        except OSError:
            return None
    return lk.wait_until(attempt, 5, f"a connection to {address}")


def send_to(address, data):
    """Sends, and waits a little for answers: a socket closed at once would take its bytes with it."""
    with connect_soon(address) as s:
        s.settimeout(0.03)
        try:
            s.sendall(data)
            while s.recv(4096):
                pass
        except OSError:
            pass


def garbage(box):
    """RC-108: whatever is sent to any of its sockets: a good client beside it, and after it, is served."""
    stream = small(box)
    daemon = box.serve(stream, listen=["tcp://127.0.0.1:0", f"ipc://{box.path}/config/s"],
                       workers_listen="tcp://127.0.0.1:0",
                       worker_token_file=str(box.write("token", "secret-secret-secret\n")), workers=1)
    tcp, ipc = daemon.addresses()[:2]
    workers = re.search(r'"listen":"([^"]*)"', daemon.fetch("/api/status")[1]).group(1)
    memory = f"ipc://{box.path}/config/run/memory.sock"
    http = f"tcp://{daemon.http}"
    expected = [b["digest"] for b in box.trainer(daemon).get("get " + " ".join(map(str, range(60))))]
    good = box.trainer(daemon, sharing="always", timeout=60000)
    good.connect()
    draw = random.Random(4)
    with open(f"/proc/{daemon.pid}/status") as f:
        before = next(int(l.split()[1]) for l in f if l.startswith("VmRSS"))
    for place, address in (("tcp", tcp), ("ipc", ipc), ("the memory socket", memory), ("HTTP", http), ("the workers' port", workers)):
        if not address:
            lk.not_ok(f"{place} has an address", daemon.fetch("/api/status")[1][-300:])
            continue
        for name, data in strangers(draw, address is ipc):
            for _ in range(20 if lk.LONG else 1):
                send_to(address, data)
            if daemon.process.poll() is not None:
                raise lk.Failure(f"{name} to {place} ended the daemon: {daemon.log()[-500:]}")

        fresh = box.trainer(ipc if place == "tcp" else tcp, timeout=20000)
        got = [b["digest"] for b in fresh.get("next 20")]
        lk.same(got, expected[:20], f"after garbage on {place} a new client is served")
        fresh.close()
        if place in ("tcp", "ipc"):
            refused = re.search(r"lanekeeper_requests_refused_total (\d+)", daemon.fetch("/metrics")[1]).group(1)
            lk.check(int(refused) > 0, f"what was a message on {place}, but no request, is counted as refused", refused)
    lk.same([b["digest"] for b in good.get("next 60")], expected, "and the one that was there all along")
    # Many that only connect: they take places, not the service.
    crowd = []
    for address in (tcp, ipc, memory):
        crowd += [connect_soon(address) for _ in range(100)]
    lk.check(not box.trainer(tcp, timeout=20000).do("next 3")[1], "300 silent connections keep nobody out")
    for s in crowd:
        s.close()
    lk.check(daemon.fetch("/healthz")[0] == 200, "it is healthy", daemon.fetch("/healthz"))
    lk.check(len(daemon.workers()) == 1 and daemon.status()["workers"]["deaths"] == 0, "its worker was not disturbed",
             daemon.status()["workers"])
    with open(f"/proc/{daemon.pid}/status") as f:
        after = next(int(l.split()[1]) for l in f if l.startswith("VmRSS"))
    lk.check(after - before < 100 << 10 or box.sanitized, "and no size was taken on trust: memory grew by less than 100 MB", f"{after - before} kB")
    code, took = daemon.stop()
    lk.check(code == 0 and took < 5, "SIGTERM ends it as ever", (code, took))


def arguments(box):
    """What a client asks that makes no sense is refused, and says why."""
    daemon = box.serve(small(box))
    for options, words in (({"rank": 4, "world": 4}, "rank"), ({"world": 0}, "world"), ({"stream": "nosuch"}, "nosuch"),
                           ({"lookahead": 65}, "lookahead")):
        trainer = box.trainer(daemon, timeout=5000, **options)
        failure = trainer.connect() or trainer.do("next")[1]
        lk.check(failure.startswith(("INVALID_ARGUMENT", "NOT_FOUND")) and words in failure, f"{options} is refused", failure)
    trainer = box.trainer(daemon)
    for command, code in ((f"get {2**53}", "INVALID_ARGUMENT"), (f"get {2**64 - 1}", "INVALID_ARGUMENT"),
                          ("digest 6 5", "INVALID_ARGUMENT"), ("digest 0 10001", "INVALID_ARGUMENT")):
        failure = trainer.do(command)[1]
        lk.check(failure.startswith(code), f"{command.split()[0]} {command.split()[1][:9]}…: {code}", failure)
    lk.check(not trainer.do("next 3")[1], "and the same client is served afterwards")
    short = box.trainer(daemon, timeout=1000)
    far = short.do(f"get {10**9}")[1]
    lk.check(far.startswith("DEADLINE_EXCEEDED") and "step 1000000000" in far, "a step that is far away: the answer says what it waited for", far)
    begin = time.monotonic()
    nobody = box.trainer(f"ipc://{box.path}/nobody", timeout=500).connect()
    lk.check(nobody.startswith("UNAVAILABLE") and time.monotonic() - begin < 3, "no daemon: UNAVAILABLE within the time-out", nobody)


def crowd(box):
    """64 clients come and go at once, several times."""
    small(box)
    daemon = box.serve(box.plain({"d": {"path": "d"}}, sequence=16, batch=64))
    slow = []
    for round_ in range(20 if lk.LONG else 3):
        ranks = box.world(daemon, 64, lookahead=1)
        got = lk.lines_of(ranks, "next 3")
        lk.steps_of(got)
        ends = []

        def close(trainer):
            try:
                ends.append(trainer.close(30))
            except lk.Failure as e:
                ends.append(str(e))
        threads = [threading.Thread(target=close, args=(r,)) for r in ranks]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        slow += [e for e in ends if e != 0]
    lk.same(slow, [], "64 clients at once start, get their cuts, and end, again and again")
    lk.wait_until(lambda: len(os.listdir(f"/proc/{daemon.pid}/fd")) < 40, 10, "descriptors closed")
    lk.check(daemon.status()["trainers_on_host"] == 0, "and the daemon has forgotten them", daemon.status()["trainers_on_host"])


def varint(n):
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])


def get_batch(step, rank, world, call):
    """A GetBatch as it goes over TCP: length, requester's word, envelope (proto/envelope.h), request."""
    header = b"\x10" + varint(step) + b"\x18" + varint(rank) + b"\x20" + varint(world)
    body = struct.pack(">I", 0x80000000 | call) + struct.pack("<4sHHQIIQ", b"LKP1", 2, 0, call, 60000, len(header), 0) + header
    return struct.pack(">Q", len(body)) + body


def many_ranks(box, ranks=1024, ahead=4, steps=6):
    """128 machines of 8 ranks that all dial one daemon, with a look-ahead, on default settings: nobody is refused, or has to dial again."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most < 4 * ranks:
        print(f"# {most} open files are too few for {ranks} connections: skipped")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    box.dataset("d", lk.prose(1, 300))
    daemon = box.serve(box.plain({"d": {"path": "d"}}, sequence=8, batch=ranks), listen="tcp://127.0.0.1:0", workers=1)
    sockets = [connect(daemon.address) for _ in range(ranks)]
    select = selectors.DefaultSelector()
    data, answers = {s: b"" for s in sockets}, collections.Counter()
    for rank, s in enumerate(sockets):
        s.sendall(SP_REQ + b"".join(get_batch(step, rank, ranks, step + 1) for step in range(ahead + 1)))
        select.register(s, selectors.EVENT_READ, rank)
    end = time.monotonic() + 120
    while answers.total() < ranks * steps and time.monotonic() < end:
        for key, _ in select.select(1):
            s, rank = key.fileobj, key.data
            piece = s.recv(1 << 16)
            if not piece:
                answers["closed"] += steps
                select.unregister(s)
            data[s] += piece
            at = 8    # behind the greeting
            while len(data[s]) >= at + 8 and len(data[s]) >= at + 8 + (n := struct.unpack_from(">Q", data[s], at)[0]):
                status, call = struct.unpack_from("<HQ", data[s], at + 8 + 4 + 6)
                answers[status] += 1
                if call + ahead < steps:
                    s.sendall(get_batch(call + ahead, rank, ranks, call + ahead + 1))
                at += 8 + n
            data[s] = data[s][:8] + data[s][at:]
    lk.same(dict(answers), {0: ranks * steps}, f"{ranks} ranks that look {ahead} steps ahead get {steps} steps each")
    displaced = re.search(r"lanekeeper_connections_displaced_total (\d+)", daemon.fetch("/metrics")[1]).group(1)
    lk.same(displaced, "0", "and none takes another's place")
    for s in sockets:
        s.close()


if __name__ == "__main__":
    lk.main([addresses, restarts, garbage, arguments, crowd, many_ranks])
