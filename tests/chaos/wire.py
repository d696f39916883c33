"""What the chaos tests say and hear on sockets themselves: nng's frames, our envelope, and a proxy in between.

Written from proto/envelope.h, proto/lanekeeper.proto and proto/handover.h alone; nothing of client/ is used.
"""

import array
import contextlib
import os
import random
import select
import socket
import struct
import threading
import time

import lk

REQUESTER, REPLIER = b"\0SP\0\0\x30\0\0", b"\0SP\0\0\x31\0\0"
HELLO, GET_BATCH, CHECKPOINT, STATUS, TRACE, DIGEST = 1, 2, 4, 5, 6, 7
WORKER_HELLO, WORKER_TASK = 64, 65
OK, INVALID_ARGUMENT, UNIMPLEMENTED = 0, 3, 12


# Protobuf ------------------------------------------------------------------------------------------

class Fixed(int):
    """A number that travels as a fixed64."""


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def fields(**by_number):
    """fields(f2=7, f5=b"…"): a message of those fields."""
    out = b""
    for name, value in by_number.items():
        number = int(name[1:])
        if isinstance(value, Fixed):
            out += varint(number << 3 | 1) + struct.pack("<Q", value)
        elif isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


# Frames --------------------------------------------------------------------------------------------

def frame(body, ipc, length=None):
    return (b"\1" if ipc else b"") + struct.pack(">Q", len(body) if length is None else length) + body


def envelope(method, header=b"", payload=b"", call=1, deadline=0, status=0):
    return struct.pack("<4sHHQIIQ", b"LKP1", method, status, call, deadline, len(header), len(payload)) + header + payload


def request(method, header=b"", call=1, deadline=0, payload=b""):
    """A whole message but for its length: the requester's word, then the envelope."""
    return struct.pack(">I", 0x80000000 | call) + envelope(method, header, payload, call, deadline)


def dial(address, seconds=10):
    """A connected socket; tries again while nobody listens."""
    def attempt():
        try:
            if address.startswith("ipc://"):
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(5)
                s.connect(address[6:])
            else:
                host, port = address[6:].rsplit(":", 1)
                s = socket.create_connection((host.strip("[]"), int(port)), 5)
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return s
        except OSError:
            s.close() if address.startswith("ipc://") else None
            return None
    return lk.wait_until(attempt, seconds, f"a connection to {address}")


class Peer:
    """A requester by hand, which may do what no client does."""

    def __init__(self, address):
        self.ipc = address.startswith("ipc://")
        self.socket = dial(address)
        self.socket.sendall(REQUESTER)
        self.buffer = b""
        self.calls = 0
        self.socket.settimeout(lk.ANSWER_S)
        if self._take(8) != REPLIER:
            raise lk.Failure(f"{address}: no replier answers")

    def _take(self, n):
        while len(self.buffer) < n:
            piece = self.socket.recv(1 << 20)
            if not piece:
                raise lk.Failure("the connection was closed")
            self.buffer += piece
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def send(self, method, header=b"", deadline=0, payload=b""):
        """The call's number."""
        self.calls += 1
        self.socket.sendall(frame(request(method, header, self.calls, deadline, payload), self.ipc))
        return self.calls

    def receive(self, seconds=lk.ANSWER_S):
        """(call, status, header, payload) of the next answer."""
        self.socket.settimeout(seconds)
        if self.ipc and self._take(1) != b"\1":
            raise lk.Failure("an answer begins with another byte than 1")
        body = self._take(struct.unpack(">Q", self._take(8))[0])
        magic, _, status, call, _, header, payload = struct.unpack("<4sHHQIIQ", body[4:36])
        if magic != b"LKP1" or 36 + header + payload != len(body):
            raise lk.Failure("an answer's lengths do not add up")
        return call, status, body[36:36 + header], body[36 + header:]

    def ask(self, method, header=b"", deadline=0):
        self.send(method, header, deadline)
        return self.receive()[1:]

    def close(self):
        self.socket.close()


def join_memory(path, client):
    """The hand-over of batch memory: (socket, [(descriptor, bytes)])."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect(path)
    s.sendall(struct.pack("<4sIQ", b"LKH1", 0, client))
    descriptors = array.array("i")
    data, control, _, _ = s.recvmsg(8 + 8 * 64, socket.CMSG_LEN(64 * descriptors.itemsize))
    for level, kind, body in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(body[:len(body) // 4 * 4])
    sizes = struct.unpack(f"<{len(descriptors)}Q", data[8:8 + 8 * len(descriptors)])
    return s, list(zip(descriptors, sizes))


# What a process has --------------------------------------------------------------------------------

def has(pid):
    """(resident kB, descriptors, threads)."""
    with open(f"/proc/{pid}/status") as f:
        lines = dict(line.split(":", 1) for line in f)
    return int(lines["VmRSS"].split()[0]), len(os.listdir(f"/proc/{pid}/fd")), int(lines["Threads"])


class Watch:
    """Looks at a process until it is told to stop: the most that it had."""

    def __init__(self, pid):
        self.before, self.most = has(pid), [0, 0, 0]
        self._end = threading.Event()

        def look():
            while not self._end.wait(0.02):
                with contextlib.suppress(OSError, KeyError):
                    self.most = [max(a, b) for a, b in zip(self.most, has(pid))]
        self._thread = threading.Thread(target=look)
        self._thread.start()

    def stop(self):
        self._end.set()
        self._thread.join()
        return [b - a for a, b in zip(self.before, self.most)]


# A proxy -------------------------------------------------------------------------------------------

class Link:
    """One connection through the proxy, with what befalls it."""

    def __init__(self, proxy, inner, outer, draw, kind):
        self.proxy, self.kind, self.draw, self.gone = proxy, kind, draw, False
        self.sockets = (inner, outer)
        self.budget = int(10 ** (draw.random() * 4.6)) if kind in ("cut", "half-open", "one-way") else None
        self.lock = threading.Lock()
        for a, b, up in ((inner, outer, True), (outer, inner, False)):
            thread = threading.Thread(target=self._pump, args=(a, b, up), daemon=True)
            proxy.threads.append(thread)
            thread.start()

    def close(self):
        self.gone = True
        for s in self.sockets:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()

    def _spend(self, n):
        """How much of n bytes still goes over."""
        if self.budget is None:
            return n
        with self.lock:
            part = min(n, self.budget)
            self.budget -= part
            return part

    def _pump(self, source, sink, up):
        try:
            if self.kind in ("reorder", "duplicate", "delay"):
                self._messages(source, sink, up)
            else:
                self._bytes(source, sink, up)
        except (OSError, ValueError):    # it was closed, perhaps between two calls
            pass
        if not self.gone:
            self.close()

    def _bytes(self, source, sink, up):
        draw = random.Random(self.draw.random())
        while piece := source.recv(draw.choice((1 << 16, 4096, 100))):
            if self.kind == "stall" and draw.random() < 0.02:
                self.proxy.count("stall")
                time.sleep(draw.random() * 0.5)
            if self.kind == "dribble":    # for a while, or a large message would take all day
                for i in range(min(len(piece), 300)):
                    sink.sendall(piece[i:i + 1])
                piece = piece[300:]
            whole, part = len(piece), self._spend(len(piece))
            if self.kind == "one-way" and up:
                part = whole
            sink.sendall(piece[:part])
            if part == whole:
                continue
            self.proxy.count(self.kind)
            if self.kind == "cut":
                return
            self._swallow(source)
            return

    def _swallow(self, source):
        """Half open: whatever still comes is lost, and nobody is told."""
        while source.recv(1 << 16):
            pass
        while not self.gone and not self.proxy.over.wait(0.05):
            pass

    def _whole(self, source, n):
        data = b""
        while len(data) < n:
            piece = source.recv(n - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return data

    def _messages(self, source, sink, up):
        """Whole messages (SP over TCP): duplicated requests, answers and requests that overtake each other."""
        draw = random.Random(self.draw.random())
        sink.sendall(self._whole(source, 8))
        held = []
        while True:
            wait = 0.02 if held else None
            if select.select([source], [], [], wait)[0]:
                head = self._whole(source, 8)
                message = head + self._whole(source, struct.unpack(">Q", head)[0])
            else:
                message = None
            if message is not None and self.kind == "duplicate" and up and draw.random() < 0.5:
                self.proxy.count("duplicate")
                sink.sendall(message)
            if message is not None and self.kind == "delay":
                time.sleep(draw.random() * 0.02)
            if message is not None and self.kind == "reorder" and len(held) < 4 and draw.random() < 0.6:
                held.append(message)
                continue
            if message is not None:
                sink.sendall(message)
            if held:
                self.proxy.count("reorder")
                draw.shuffle(held)
                sink.sendall(b"".join(held))
                held = []


class Proxy:
    """Listens on a port of its own and connects each caller to `target`; each connection meets a fate."""

    def __init__(self, target, seed, kinds):
        self.target, self.draw, self.kinds = target, random.Random(seed), list(kinds)
        self.over, self.threads, self.links, self.happened = threading.Event(), [], [], {}
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        self.arrivals = 0
        accepting = threading.Thread(target=self._accept, daemon=True)
        self.threads.append(accepting)
        accepting.start()

    def count(self, what):
        with self.lock:
            self.happened[what] = self.happened.get(what, 0) + 1

    def _accept(self):
        while not self.over.is_set():
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return
            host, port = self.target[6:].rsplit(":", 1)
            try:
                outer = socket.create_connection((host, int(port)), 5)
                outer.settimeout(None)
            except OSError:
                inner.close()
                continue
            for s in (inner, outer):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            kind = self.kinds[self.arrivals % len(self.kinds)]
            self.arrivals += 1
            self.links.append(Link(self, inner, outer, self.draw, kind))

    def mend(self):
        """From now on connections are left alone."""
        self.kinds = ["pass"]

    def close(self):
        self.over.set()
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for link in self.links:
            link.close()
        for thread in self.threads:
            thread.join(5)
