"""What the end-to-end tests share: data sets, configurations, real daemons, trainers and leftovers.

A test is a function that takes a Box: a folder of its own, whose processes carry its name in their
environment, so that whatever outlives the test is found whoever its parent has become. `main(tests)`
runs the functions named on the command line, or all of them, and prints a line a fact.
"""

import contextlib
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

LONG = os.environ.get("LK_LONG") == "1"
SAY_OK = True    # a line a fact that holds; those that fail are always told
ANSWER_S = 90    # for anything that should take far less: the machine is shared
MARK = "LK_E2E_BOX"


class Failure(Exception):
    pass


# Facts ---------------------------------------------------------------------------------------------

_failed = []


def ok(fact):
    if SAY_OK:
        print(f"ok - {fact}", flush=True)


def not_ok(fact, why):
    _failed.append(fact)
    print(f"not ok - {fact}: {why}", flush=True)


def check(condition, fact, why="it does not hold"):
    if condition:
        ok(fact)
    else:
        not_ok(fact, why() if callable(why) else why)
    return bool(condition)


def short(value, most=300):
    text = repr(value)
    return text if len(text) <= most else text[:most] + "…"


def same(got, expected, fact):
    """A fact that two values are equal; where lists differ, at which place."""
    if got == expected:
        return check(True, fact)
    why = f"got {short(got)}, expected {short(expected)}"
    if isinstance(got, (list, tuple)) and isinstance(expected, (list, tuple)):
        at = next((i for i, (a, b) in enumerate(zip(got, expected)) if a != b),
                  min(len(got), len(expected)))
        why = (f"from place {at} of {len(got)} and {len(expected)}: got {short(got[at:at + 6])}, "
               f"expected {short(expected[at:at + 6])}")
    return check(False, fact, why)


def wait_until(condition, seconds, what):
    """Polls; the last value of the condition, or a Failure naming what did not come."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.01)


def quickly(attempt, seconds, fact, tries=5):
    """A fact that attempt() takes less than so long, at its best of a few times, as the machine has other things to do.
    It may return the seconds that count."""
    took = []
    while not took or took[-1] >= seconds and len(took) < tries:
        begin = time.monotonic()
        measured = attempt()
        took.append(measured if isinstance(measured, float) else time.monotonic() - begin)
    return check(took[-1] < seconds, fact, lambda: f"it took {', '.join(f'{t:.2f}' for t in took)} s")


# Processes -----------------------------------------------------------------------------------------

def stopped(pid):
    """Whether a process stands still: not on its way to that, but there."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] == "T"
    except OSError:
        return False


def processes_of(mark):
    """{pid: command line} of live processes whose environment has the mark."""
    found = {}
    needle = f"{MARK}={mark}\0".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as f:
                if needle not in f.read() + b"\0":
                    continue
            with open(f"/proc/{entry}/stat") as f:
                if f.read().rsplit(")", 1)[1].split()[0] in "ZX":
                    continue
            with open(f"/proc/{entry}/cmdline", "rb") as f:
                found[int(entry)] = f.read().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
    return found


def foreign_files():
    """What could be left behind outside of a test's folder (which has a TMPDIR of its own)."""
    return {str(p) for p in pathlib.Path("/dev/shm").glob("*") if re.match(r"(sem\.)?(lanekeeper|lk)", p.name)}


class Trainer:
    """tests/e2e/trainer.c, led by commands; answers are read when they are needed."""

    def __init__(self, box, address, prefix=(), **options):
        arguments = [f"{key}={value}" for key, value in options.items()]
        self.process = subprocess.Popen([*prefix, str(box.trainer_path), address, *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=box.environment())
        self.buffer = b""
        self.name = " ".join([address.rsplit("/", 1)[-1], *arguments])
        self.connected = None
        box.trainers.append(self)

    @property
    def pid(self):
        return self.process.pid

    def _line(self, until):
        fd = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise Failure(f"trainer {self.name}: no answer in time")
            piece = os.read(fd, 1 << 20)
            if not piece:
                raise Failure(f"trainer {self.name}: ended with {self.process.wait()}")
            self.buffer += piece
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode()

    def skip(self, seconds):
        """Throws away what has come, or the first that comes; false: nothing did in time."""
        self.buffer = b""
        fd = self.process.stdout.fileno()
        return bool(select.select([fd], [], [], seconds)[0]) and bool(os.read(fd, 1 << 20))

    def wait_for_a_line(self, seconds=ANSWER_S):
        """Until something has come, which is left for whoever reads it."""
        if not self.buffer and not select.select([self.process.stdout], [], [], seconds)[0]:
            raise Failure(f"trainer {self.name}: no answer in time")

    def answer(self, seconds=ANSWER_S):
        """(objects, "" or the failure's text) of the next command (or of the connecting)."""
        until = time.monotonic() + seconds
        objects = []
        while True:
            line = self._line(until)
            if line == "ok":
                return objects, ""
            if line.startswith("fail "):
                return objects, line[5:]
            if line:
                objects.append(json.loads(line))

    def send(self, command):
        if self.connected is None:
            self.connect()
        self.process.stdin.write((command + "\n").encode())
        self.process.stdin.flush()

    def connect(self, seconds=ANSWER_S):
        """The failure's text, or "" when connected."""
        if self.connected is None:
            self.connected = False
            failure = self.answer(seconds)[1]
            self.connected = failure == ""
            self.connect_failure = failure
        return self.connect_failure

    def do(self, command, seconds=ANSWER_S):
        if self.connect():
            raise Failure(f"trainer {self.name}: {self.connect_failure}")
        self.send(command)
        return self.answer(seconds)

    def get(self, command, seconds=ANSWER_S):
        objects, failure = self.do(command, seconds)
        if failure:
            raise Failure(f"trainer {self.name}: {command[:60]}: {failure}")
        return objects

    def close(self, seconds=ANSWER_S):
        """Ends it in its ordinary way; its exit status."""
        self.process.stdin.close()
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"trainer {self.name}: hangs while closing") from None
        finally:
            self.process.stdout.close()
        return status

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)


class Daemon:
    def __init__(self, box, config_path, binary=None, prefix=(), environment=None, arguments=()):
        self.box = box
        self.log_path = box.path / f"daemon-{len(box.daemons)}.log"
        self.config_path = config_path
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                [*prefix, str(binary or box.daemon_path), *arguments, str(config_path)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=box.environment(environment))
        self.started = time.monotonic()
        box.daemons.append(self)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def ready(self, seconds=ANSWER_S):
        def look():
            if " daemon: ready" in self.log():
                return True
            if self.process.poll() is not None:
                raise Failure(f"the daemon ended with {self.process.returncode}: {self.log()[-600:]}")
            return False
        wait_until(look, seconds, "daemon ready")
        return self

    def addresses(self):
        return re.findall(r"daemon: listening address=(\S+)(?! protocol)\n", self.log())

    @property
    def address(self):
        return self.addresses()[0]

    @property
    def http(self):
        return re.search(r"daemon: listening address=(\S+) protocol=http", self.log()).group(1)

    def fetch(self, path, seconds=10):
        """(status, body) over HTTP."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=seconds) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def status(self):
        return json.loads(self.fetch("/api/status")[1])

    def workers(self):
        found = []
        for pid, command in processes_of(self.box.path).items():
            try:
                with open(f"/proc/{pid}/stat") as f:
                    parent = int(f.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == self.pid and "lanekeeper-worker" in command:
                found.append(pid)
        return sorted(found)

    def wait(self, seconds=ANSWER_S):
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"the daemon has not ended in {seconds} s") from None

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def stop(self, seconds=ANSWER_S):
        """SIGTERM; (exit status, seconds that it took)."""
        begin = time.monotonic()
        self.process.terminate()
        return self.wait(seconds), time.monotonic() - begin


# A folder for one test ------------------------------------------------------------------------------

def rows(texts, field="text"):
    return "".join(json.dumps({field: text}) + "\n" for text in texts)


def prose(seed, count, longest=400):
    """Texts of unlike lengths, the same in every Python: only getrandbits is used."""
    draw = random.Random(seed)
    letters = "etaoin shrdlu cmfwyp vbgkjq xz\n"
    texts = []
    for _ in range(count):
        n = 1 + longest // (1 + draw.getrandbits(4)) - draw.getrandbits(2)
        texts.append("".join(letters[draw.getrandbits(8) % len(letters)] for _ in range(max(1, n))))
    return texts


class Box:
    def __init__(self, build, name):
        self.build = pathlib.Path(build).resolve()
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"lk-e2e-{name[:24]}-"))
        self.daemon_path = self.build / "lanekeeperd"
        self.tool_path = self.build / "lanekeeper"
        self.trainer_path = self.build / "tests" / "e2e" / "trainer"
        self.daemons, self.trainers = [], []
        # Sanitizers keep what was freed for a while: memory is then no measure.
        self.sanitized = b"__asan_init" in self.daemon_path.read_bytes()
        (self.path / "tmp").mkdir()

    def environment(self, more=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("LANEKEEPER")}
        environment.update({MARK: str(self.path), "TMPDIR": str(self.path / "tmp")}, **(more or {}))
        return environment

    # Data

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def dataset(self, name, texts, shards=1):
        """Texts dealt to shards in runs, so that row i of the data set is texts[i]."""
        for s in range(shards):
            part = texts[s * len(texts) // shards:(s + 1) * len(texts) // shards]
            self.write(f"{name}/part-{s:05d}.jsonl", rows(part))
        return self.path / name

    # Configurations. `mixed` is the recipe of the tests that compare digests: every stage has state.

    def mixed(self, count=600, **keys):
        for i, name in enumerate(("docs", "man", "code")):
            if not (self.path / name).exists():
                self.dataset(name, prose(i + 1, count, 300 + 150 * i), 3)
        stream = {
            "seed": 3, "lanes": 4, "batch": 8, "sequence": 128,
            "tokenizer": {"bytes": True, "append": "eos"},
            "datasets": {"docs": {"path": "docs", "weight": 5}, "man": {"path": "man", "weight": 3},
                         "code": {"path": "code", "weight": 2}},
            "order": {"block_rows": 16},
            "pipeline": [{"filter": {"min_bytes": 8}}, {"split": {"max_tokens": 256}},
                         {"shuffle": {"buffer": 32}}, {"pack": {"algorithm": "exact_fit", "pool": 32}},
                         {"shuffle": {"buffer": 8}}]}
        stream.update(keys)
        return stream

    def plain(self, datasets, **keys):
        """In order as the rows lie, one lane, one document a sequence of one token."""
        stream = {"lanes": 1, "batch": 1, "sequence": 1, "tokenizer": {"bytes": True},
                  "datasets": datasets,
                  "order": {"block_rows": "shard", "blocks": "sequential", "shuffle_rows": False},
                  "pipeline": [{"pack": {"algorithm": "concat"}}]}
        stream.update(keys)
        return stream

    def config(self, stream, name="config", streams=None, **runtime):
        settings = {"listen": f"ipc://{self.path}/{name}/s", "run_dir": f"{name}/run", "workers": 1,
                    "http": "127.0.0.1:0", "arena": "16MiB", "state": "64MiB", "cache": "16MiB",
                    "snapshots": {"dir": "snapshots", "every": 0}}
        settings.update(runtime)
        settings = {key: value for key, value in settings.items() if value is not None}
        (self.path / name).mkdir(exist_ok=True)
        # JSON is YAML, but that sizes and durations stand there without quotes.
        text = json.dumps({"streams": streams or {"s": stream}, "runtime": settings}, indent=1)
        text = re.sub(r'"(\d+(?:[kKMG]i?B|ms|s|min|h))"', r"\1", text)
        return self.write(f"{name}.yaml", text + "\n")

    def index(self, config, expect=0):
        done = subprocess.run([str(self.tool_path), "index", str(config)], env=self.environment(),
                              capture_output=True, text=True, timeout=ANSWER_S)
        if done.returncode != expect:
            raise Failure(f"lanekeeper index ended with {done.returncode}: {done.stderr[-500:]}")
        return done

    def tool(self, *arguments, seconds=ANSWER_S):
        return subprocess.run([str(self.tool_path), *map(str, arguments)], env=self.environment(),
                              capture_output=True, text=True, timeout=seconds)

    # Processes

    def daemon(self, config, index=True, ready=True, **how):
        if index:
            self.index(config)
        daemon = Daemon(self, config, **how)
        return daemon.ready() if ready else daemon

    def serve(self, stream, name="config", index=True, how=None, **runtime):
        return self.daemon(self.config(stream, name, **runtime), index, **(how or {}))

    def trainer(self, where, prefix=(), **options):
        return Trainer(self, where if isinstance(where, str) else where.address, prefix, **options)

    def world(self, where, world, **options):
        return [self.trainer(where, rank=r, world=world, **options) for r in range(world)]

    def refused(self, config, fact, *patterns, seconds=10, index=False, **how):
        """The daemon does not start: exit status 1, one line that has each of the patterns."""
        daemon = self.daemon(config, index, ready=False, **how)
        try:
            status = daemon.wait(seconds)
        except Failure as e:
            daemon.kill()
            return check(False, fact, str(e))
        lines = [l for l in daemon.log().splitlines() if " daemon: cannot_start" in l]
        missing = [p for p in patterns if not any(re.search(p, l) for l in lines)]
        return check(status == 1 and len(lines) == 1 and not missing, fact,
                     f"exit status {status}, without {missing}: {daemon.log()[-400:]}")

    # The end

    def left_processes(self, seconds=5):
        end = time.monotonic() + seconds
        while (left := processes_of(self.path)) and time.monotonic() < end:
            time.sleep(0.02)
        return left

    def finish(self, foreign):
        """Stops what runs; what is left then is a fact that fails."""
        for trainer in self.trainers:
            if trainer.process.poll() is None:
                trainer.kill()
            trainer.process.wait()
            for pipe in (trainer.process.stdin, trainer.process.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    daemon.process.send_signal(signal.SIGCONT)
                    daemon.process.terminate()
                try:
                    daemon.process.wait(20)
                except subprocess.TimeoutExpired:
                    daemon.kill()
                    not_ok("the daemon ends after SIGTERM", f"not within 20 s: {daemon.log()[-300:]}")
        left = self.left_processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if left:
            not_ok("no process is left", short(left))
        new = foreign_files() - foreign
        if new or list((self.path / "tmp").iterdir()):
            not_ok("no file is left", short([*new, *(self.path / "tmp").iterdir()]))
        crashed = [d for d in self.daemons if (d.process.returncode or 0) < 0
                   and d.process.returncode not in (-signal.SIGKILL, -signal.SIGQUIT)]    # sent by tests
        for daemon in crashed:
            not_ok("no daemon crashes", f"signal {-daemon.process.returncode}: {daemon.log()[-500:]}")


def lines_of(trainers, command, seconds=ANSWER_S):
    """The same command to every rank at once; each one's objects."""
    for trainer in trainers:
        if trainer.connect():
            raise Failure(f"trainer {trainer.name}: {trainer.connect_failure}")
    for trainer in trainers:
        trainer.send(command)
    answers = [trainer.answer(seconds) for trainer in trainers]
    for trainer, (_, failure) in zip(trainers, answers):
        if failure:
            raise Failure(f"trainer {trainer.name}: {command[:60]}: {failure}")
    return [objects for objects, _ in answers]


def add_digests(digests):
    """Those of the ranks' cuts to that of the step: a sum modulo 2^128 of little-endian numbers."""
    total = sum(int.from_bytes(bytes.fromhex(d), "little") for d in digests) % (1 << 128)
    return total.to_bytes(16, "little").hex()


def steps_of(ranks):
    """Batches of all ranks, joined: [(digest, tokens)] in step order. Cuts must meet exactly."""
    whole = {}
    for batches in ranks:
        for batch in batches:
            whole.setdefault(batch["step"], []).append(batch)
    joined = []
    for step in sorted(whole):
        cuts = sorted(whole[step], key=lambda b: (b["first"], b["rows"]))
        at = 0
        for cut in cuts:
            if cut["first"] != at:
                raise Failure(f"step {step}: a cut begins at row {cut['first']}, expected {at}")
            at += cut["rows"]
        if at != cuts[0]["global"]:
            raise Failure(f"step {step}: {at} rows of {cuts[0]['global']}")
        joined.append((add_digests(c["digest"] for c in cuts),
                       [row for c in cuts for row in c.get("tokens", [])]))
    return joined


def run_world(box, where, world, steps, show="tokens", **options):
    """A whole run of so many ranks: [(digest, tokens)]."""
    trainers = box.world(where, world, **options)
    lines_of(trainers, f"show {show}")
    joined = steps_of(lines_of(trainers, f"next {steps}"))
    for trainer in trainers:
        if trainer.close() != 0:
            raise Failure(f"trainer {trainer.name}: exit status {trainer.process.returncode}")
    return joined


def to_the_end(trainer, most=100000):
    """Every batch until the stream ends, and the text of the end."""
    return trainer.do(f"next {most}")


_claims = []    # of free_port, until this process ends


def free_port():
    """One that stays free: the kernel gives none of these to whoever asks for any, and other tests leave it alone."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        low, high = map(int, f.read().split())
    ports = [*range(10000, low), *range(high + 1, 1 << 16)] or range(10000, 1 << 16)
    for _ in range(1000):
        port = random.SystemRandom().choice(ports)
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0lk-e2e-port-{port}")    # a name like a port: of this network, and gone with this process
            with socket.socket() as s:
                s.bind(("", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise Failure("no port is free")


def main(tests):
    if len(sys.argv) < 2:
        sys.exit(f"usage: {sys.argv[0]} BUILD_DIR [TEST…]")
    table = {test.__name__: test for test in tests}
    for name in sys.argv[2:] or table:
        foreign = foreign_files()
        box = Box(sys.argv[1], name)
        begin, before = time.monotonic(), len(_failed)
        try:
            table[name](box)
        except Exception as e:    # noqa: BLE001 - a test that breaks has failed, the others go on
            where = traceback.extract_tb(e.__traceback__)
            here = os.path.basename(sys.argv[0])
            line = next((f.lineno for f in reversed(where) if f.filename.endswith(here)), 0)
            not_ok(name, f"line {line}: {type(e).__name__}: {e}")
        box.finish(foreign)
        if len(_failed) > before and os.environ.get("LK_KEEP") == "1":
            print(f"# kept {box.path}", flush=True)
        else:
            shutil.rmtree(box.path, ignore_errors=True)
        print(f"# {name}: {time.monotonic() - begin:.1f} s", flush=True)
    sys.exit(1 if _failed else 0)
