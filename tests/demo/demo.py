#!/usr/bin/env python3
"""demo.py BUILD: serves the stream of conf/demo.yaml and consumes its first 200 steps again and again:
by other numbers of ranks and workers, over other ways, through kills and losses. Every run must give
the same digest. Exit status 0 if all did and no process is left, else 1.

Needs the programs and tests/demo/consume in BUILD, the corpus in BUILD/demo/data (corpus.py) and GPT-2's
vocabulary in BUILD/tokenizers. Configurations, logs and the decoded sequence are left in BUILD/demo.
"""
import hashlib
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

STEPS = 200
TIMEOUT = 180  # seconds that one part of a run may take, on a slow machine too
MARK = "LANEKEEPER_DEMO"  # in the environment of all that is started, to find what is left over
HERE = pathlib.Path(__file__).resolve().parent
CONFIG = HERE.parent.parent / "conf" / "demo.yaml"
COLUMNS = "{:<57} {:>7} {:>7}  {:<13} {:>7} {:>8}  {}"


class Failure(Exception):
    pass


def until(what, condition, seconds=TIMEOUT):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"after {seconds} s: {what}")
        time.sleep(0.01)


class Place:
    """The folders of the demo, and the processes that it started."""

    def __init__(self, build):
        self.build = pathlib.Path(build).resolve()
        self.work = self.build / "demo"
        self.log = self.work / "log"
        self.snapshots = self.work / "snapshots"
        self.mark = f"{os.getpid()}-{secrets.token_hex(4)}"
        self.temporary = self.work / "tmp"
        for folder in (self.log, self.temporary):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        self.environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary)}

    def config(self, name, **runtime):
        """conf/demo.yaml with other paths and other runtime keys; the recipe is untouched."""
        text = CONFIG.read_text().replace("../build/", f"{self.build}/")
        for key, value in runtime.items():
            line = f"  {key}: {value}"
            text, n = re.subn(rf"(?m)^  {key}:.*$", lambda _, line=line: line, text)
            text += "" if n else line + "\n"
        path = self.work / f"{name}.yaml"
        path.write_text(text)
        return path

    def start(self, *command, log=None, **more):
        output = open(self.log / log, "ab") if log else subprocess.PIPE
        try:
            return subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, stdout=output,
                                    stderr=output, env=self.environment, start_new_session=True, **more)
        finally:
            if log:
                output.close()

    def tool(self, *arguments):
        done = subprocess.run([str(self.build / "lanekeeper"), *map(str, arguments)], text=True,
                              capture_output=True, env=self.environment, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise Failure(f"lanekeeper {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def processes(self, program=""):
        """Numbers of all live processes with our mark, whoever their parent has become."""
        found = []
        mark = f"{MARK}={self.mark}".encode()
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if (mark in (entry / "environ").read_bytes().split(b"\0")
                        and program in os.path.basename(os.readlink(entry / "exe"))):
                    found.append(int(entry.name))
            except OSError:  # gone, or not ours
                pass
        return found

    def kill(self, program):
        killed = self.processes(program)
        for pid in killed:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return len(killed)

    def none_left(self, program=""):
        until(f"processes are left over: {self.processes(program)}", lambda: not self.processes(program), 10)


class Daemon:
    """A running lanekeeperd; started anew on every entry, stopped politely on leaving."""

    def __init__(self, place, config, name, remote_workers=0):
        self.place, self.config, self.name = place, config, name
        self.remote_workers = remote_workers
        self.process = None

    def start(self):
        log = self.place.log / f"{self.name}.log"
        begin = log.stat().st_size if log.exists() else 0

        def ready():
            if self.process.poll() is not None:
                raise Failure(f"lanekeeperd ended with status {self.process.returncode}: see {log}")
            return b" daemon: ready" in log.read_bytes()[begin:]

        self.process = self.place.start(self.place.build / "lanekeeperd", self.config, log=log.name)
        until(f"lanekeeperd is not ready: see {log}", ready)
        said = log.read_bytes()[begin:].decode()
        self.ipc = re.search(r"address=(ipc://\S+)", said)[1]
        self.tcp = re.search(r"address=(tcp://\S+)", said)[1]

    def start_remote_workers(self, port, token):
        for i in range(self.remote_workers):
            self.place.start(self.place.build / "lanekeeper-worker", "--connect", f"tcp://127.0.0.1:{port}",
                             "--token-file", token, "--reconnect", 5, log=f"{self.name}-worker{i}.log")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(30) != 0:
            raise Failure(f"{self.name}: lanekeeperd ended with status {self.process.returncode}")

    def kill(self):
        """kill -9; its workers must go by themselves."""
        self.process.kill()
        self.process.wait()
        self.place.none_left("lanekeeper-worker")

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            if kind is None:
                self.stop()
            else:
                self.process.kill()
                self.process.wait()


class Ranks:
    """W trainer processes that consume steps at the same time."""

    def __init__(self, place, address, world, first=0, steps=STEPS, shared="always", states=None):
        self.lock = threading.Condition()
        self.got = [[] for _ in range(world)]  # of each rank, the lines of its steps
        self.process, self.reader = [], []
        self.wanted = steps
        for rank in range(world):
            where = ["--state", states] if states else ["--from", first]
            process = place.start(place.build / "tests/demo/consume", "--connect", address, "--rank", rank,
                                  "--world", world, *where, "--steps", steps, "--shared", shared, text=True)
            self.process.append(process)
            self.reader.append(threading.Thread(target=self.read, args=(rank, process), daemon=True))
            self.reader[-1].start()

    def read(self, rank, process):
        for line in process.stdout:
            step, row, rows, digest, value, state = line.split()
            with self.lock:
                self.got[rank].append((int(step), int(row), int(rows), int(digest, 16), int(value, 16), state))
                self.lock.notify_all()
        with self.lock:
            self.lock.notify_all()

    def wait_for(self, n):
        """Until every rank has consumed n steps."""
        def reached():
            if any(p.poll() not in (None, 0) for p in self.process):
                raise Failure(self.trouble())
            return min(map(len, self.got)) >= n
        with self.lock:
            end = time.monotonic() + TIMEOUT
            while not reached():
                if time.monotonic() > end:
                    raise Failure(f"after {TIMEOUT} s a rank has consumed {min(map(len, self.got))} steps")
                self.lock.wait(0.2)
            return min(map(len, self.got)) < self.wanted  # False: too late to disturb anything

    def trouble(self):
        return "; ".join(p.stderr.read().strip() for p in self.process if p.poll() not in (None, 0))

    def join(self):
        end = time.monotonic() + TIMEOUT
        for process, reader in zip(self.process, self.reader):
            try:
                process.wait(max(1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill()
                raise Failure(f"after {TIMEOUT} s ranks had consumed {[len(g) for g in self.got]} steps") from None
            reader.join()
        if any(p.returncode for p in self.process):
            raise Failure(self.trouble())
        return self.steps()

    def kill(self):
        for process, reader in zip(self.process, self.reader):
            process.kill()
            process.wait()
            reader.join()

    def steps(self):
        """{step: (rows, digest, digest of values)} of the steps that all ranks have, put together."""
        whole = {}
        for cuts in zip(*self.got):
            row = digest = value = 0
            for step, first_row, rows, part, part_value, _ in cuts:
                if step != cuts[0][0] or first_row != row:
                    raise Failure(f"step {step}: a cut begins at row {first_row}, expected {row}")
                row += rows
                digest += part
                value += part_value
            whole[cuts[0][0]] = (row, digest % 2**128, value % 2**128)
        return whole

    def last_state(self):
        """(the step after the last one that all ranks have, what a checkpoint there holds)."""
        done = min(map(len, self.got))
        states = {lines[done - 1][5] for lines in self.got}
        if len(states) != 1:
            raise Failure(f"the ranks' checkpoints of one step differ: {states}")
        return self.got[0][done - 1][0] + 1, states.pop()


class Table:
    """The runs so far, printed as they come; the first is what the others must equal."""

    def __init__(self, place, sequence):
        self.place, self.sequence = place, sequence
        self.reference, self.bad, self.tokens = None, 0, 0
        print("\n" + COLUMNS.format("what was done", "ranks", "workers", "batches by", "seconds", "tokens/s",
                                    f"digest of {STEPS} steps"))

    def add(self, what, ranks, workers, way, seconds, steps):
        verdict = ""
        if sorted(steps) != list(range(STEPS)):
            verdict = "  STEPS ARE MISSING"
        self.reference = self.reference or steps
        wrong = [s for s in range(STEPS) if steps.get(s) != self.reference[s]]
        if wrong:
            verdict += f"  DIFFERS from step {wrong[0]} on, in {len(wrong)} steps"
        self.bad += verdict != ""
        chain = hashlib.sha256()
        for step in sorted(steps):
            rows, digest, value = steps[step]
            chain.update(f"{step} {rows} {digest:032x} {value:032x}\n".encode())
        rate = sum(rows for rows, _, _ in steps.values()) * self.sequence / seconds
        print(COLUMNS.format(what, ranks, workers, way, f"{seconds:.2f}", f"{rate / 1e6:.2f} M",
                             chain.hexdigest()[:32] + verdict), flush=True)

    def fail(self, what, why):
        self.bad += 1
        print(f"{what}: FAILED: {why}", flush=True)


# What is done. Every function leaves no process, and begins without snapshots. ----------------------

def plain(place, table, what, world, name, shared="always", workers=2, **runtime):
    with Daemon(place, place.config(name, workers=workers, **runtime), name) as daemon:
        begin = time.monotonic()
        address = daemon.tcp if shared == "never" else daemon.ipc
        steps = Ranks(place, address, world, shared=shared).join()
        seconds = time.monotonic() - begin
    way = "TCP" if shared == "never" else "shared memory"
    table.add(what, world, workers, way, seconds, steps)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def remote_workers(place, table):
    token, port = place.work / "worker.token", free_port()
    token.unlink(missing_ok=True)
    with open(os.open(token, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w", encoding="ascii") as f:
        f.write(secrets.token_hex(32) + "\n")
    config = place.config("remote", workers=0, workers_listen=f"tcp://127.0.0.1:{port}", worker_token_file=token)
    with Daemon(place, config, "remote", remote_workers=2) as daemon:
        begin = time.monotonic()
        daemon.start_remote_workers(port, token)
        steps = Ranks(place, daemon.tcp, 4, shared="never").join()
        seconds = time.monotonic() - begin
    table.add("two workers that joined over TCP, none of its own", 4, "0 + 2", "TCP", seconds, steps)


def two_jobs(place, table):
    with Daemon(place, place.config("jobs"), "jobs") as daemon:
        begin = time.monotonic()
        jobs = [Ranks(place, daemon.ipc, 3), Ranks(place, daemon.tcp, 5, shared="never")]
        steps = [job.join() for job in jobs]
        seconds = time.monotonic() - begin
    table.add("two jobs of one daemon at the same time: the first", 3, 2, "shared memory", seconds, steps[0])
    table.add("                                         the second", 5, 2, "TCP", seconds, steps[1])


def workers_killed(place, table):
    with Daemon(place, place.config("workers-killed"), "workers-killed") as daemon:
        begin = time.monotonic()
        ranks = Ranks(place, daemon.ipc, 2)
        killed = 0
        for step in (20, 50, 80, 110):
            if not ranks.wait_for(step):
                raise Failure("all was consumed before a worker could be killed")
            killed += place.kill("lanekeeper-worker")
        steps = ranks.join()
        seconds = time.monotonic() - begin
    if killed < 4:
        raise Failure(f"{killed} workers were found to kill")
    table.add(f"kill -9 of all workers, {killed} in all", 2, 2, "shared memory", seconds, steps)


def daemon_killed(place, table):
    with Daemon(place, place.config("daemon-killed"), "daemon-killed") as daemon:
        begin = time.monotonic()
        ranks = Ranks(place, daemon.ipc, 4)
        for step in (30, 90):
            if not ranks.wait_for(step):
                raise Failure("all was consumed before the daemon could be killed")
            daemon.kill()
            daemon.start()
        steps = ranks.join()
        seconds = time.monotonic() - begin
    table.add("kill -9 of the daemon, twice; the trainers wait and go on", 4, 2, "shared memory", seconds, steps)


def all_killed(place, table, what="kill -9 of everything, twice; resumed from checkpoints", wipe=False):
    """Trainers, daemon and workers die; other numbers of ranks go on, first from a saved state, then
    from a bare step number."""
    daemon = Daemon(place, place.config("all-killed"), "all-killed")
    begin = time.monotonic()
    steps, at, state = {}, 0, None
    for world, length in ((4, 70), (3, 60), (5, None)):
        with daemon:
            left = STEPS - at
            if state:
                ranks = Ranks(place, daemon.ipc, world, steps=left, states=state)
            else:
                ranks = Ranks(place, daemon.ipc, world, first=at, steps=left)
            if length is None:
                steps.update(ranks.join())
                break
            if not ranks.wait_for(length):
                raise Failure("all was consumed before anything could be killed")
            daemon.kill()
            ranks.kill()
        place.none_left()
        done = at
        at, state = ranks.last_state()
        steps.update({s: v for s, v in ranks.steps().items() if s < at})
        if len(bytes.fromhex(state)) > 64:
            raise Failure(f"a checkpoint of {len(state) // 2} bytes")
        if done > 0:
            state = None  # nothing but the number
        if not list(place.snapshots.iterdir()):
            raise Failure("no snapshot was written")
        if wipe:
            shutil.rmtree(place.snapshots)
    table.add(what, "4, 3, 5", 2, "shared memory", time.monotonic() - begin, steps)


def show_sequence(place):
    """One sequence as a person reads it, and the daemon's own digests against the trainers'."""
    config = place.config("show")
    with Daemon(place, config, "show"):
        step = json.loads(place.tool("peek", 60, "--rows", 32, "--json", "--config", config))
        row = max(step["rows"], key=lambda row: (min(4, len(row["pieces"])), -row["row"]))["row"]
        text = place.tool("peek", 60, "--row", row, "--config", config)
        digests = json.loads(place.tool("digest", f"0..{STEPS}", "--json", "--config", config))
        if len(place.processes("lanekeeper-worker")) != 2:
            raise Failure("the workers of a running daemon were not found: leftovers would not be either")
    (place.work / "sequence.txt").write_text(text)
    lines = text.splitlines()
    print("One sequence of step 60:\n")
    for line in lines if len(lines) <= 60 else lines[:58]:
        print(f"  | {line[:118]}")
    if len(lines) > 60:
        print(f"  | … {len(lines) - 58} lines more in {os.path.relpath(place.work / 'sequence.txt')}")
    return digests


def scenes(place, table):
    yield "reference", lambda: plain(place, table, "from nothing, one rank", 1, "one")
    for world in (2, 3, 4, 8, 7):
        what = f"cut for {world} ranks"
        yield what, lambda world=world, what=what: plain(place, table, what, world, "ranks")
    yield "1 worker", lambda: plain(place, table, "one worker", 2, "worker1", workers=1)
    yield "4 workers", lambda: plain(place, table, "four workers", 3, "worker4", workers=4)
    yield "TCP", lambda: plain(place, table, "nothing shared", 4, "tcp", shared="never")
    yield "remote workers", lambda: remote_workers(place, table)
    yield "two jobs", lambda: two_jobs(place, table)
    yield "small arena", lambda: plain(place, table, "an arena of 4 MiB, far less than the buffers hold", 2, "arena",
                                       arena="4MiB", prefetch_steps=2)
    yield "workers killed", lambda: workers_killed(place, table)
    yield "daemon killed", lambda: daemon_killed(place, table)
    yield "all killed", lambda: all_killed(place, table)
    yield "snapshots deleted", lambda: all_killed(place, table, "the same, and each time all snapshots are deleted",
                                                  wipe=True)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: demo.py BUILD")
    place = Place(sys.argv[1])
    begin = time.monotonic()
    config = place.config("show")
    print(place.tool("index", config).rstrip())
    sequence = int(re.search(r"(?m)^    sequence: (\d+)", CONFIG.read_text())[1])
    try:
        digests = show_sequence(place)
        table = Table(place, sequence)
        for name, scene in scenes(place, table):
            shutil.rmtree(place.snapshots, ignore_errors=True)
            try:
                scene()
                place.none_left()
            except (Failure, subprocess.SubprocessError, OSError) as e:
                table.fail(name, e)
                place.kill("")
        claimed = [d["digest"] for d in digests["steps"]]
        given = [f"{table.reference[s][1]:032x}" for s in range(STEPS)] if table.reference else []
        if claimed != given:
            table.fail("lanekeeper digest", "its digests are not those of what the trainers received")
        leftover = list(place.temporary.iterdir())
        if leftover:
            table.fail("cleaning up", f"files are left over: {leftover}")
        verdict = "ALL EQUAL; no process is left" if table.bad == 0 else f"{table.bad} FAILED"
        print(f"\n{verdict}; {time.monotonic() - begin:.0f} s")
        sys.exit(0 if table.bad == 0 else 1)
    except Failure as e:
        sys.exit(f"demo: {e}")
    finally:
        place.kill("")


if __name__ == "__main__":
    main()
