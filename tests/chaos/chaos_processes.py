"""Every process killed, stopped, terminated or out of memory, at random moments and at the worst ones."""

import contextlib
import os
import random
import resource
import signal
import subprocess
import threading
import time

import chaos
import lk
import ranks
from shim import STOP, Shim

STREAM_ROWS = 300
STEPS = 150
WORLD = 3

chaos.elsewhere("The daemon, its workers, or both are killed again and again under four ranks",
                "The digests of an undisturbed run; every restart serves within 5 s.", "e2e/test_kill.py daemons", "RC-111")
chaos.elsewhere("SIGTERM at any moment, twice, and with stopped workers",
                "Exit status 0 within 5 s, no worker left; who waits is told.", "e2e/test_kill.py terminate", "RC-125")
chaos.elsewhere("SIGQUIT", "It ends at once, and the next daemon starts in its place.", "e2e/test_kill.py quit_at_once", "RC-125")
chaos.elsewhere("The terminal that started the daemon is closed", "It goes on, and does not spin.", "e2e/test_kill.py terminal", "RC-125")
chaos.elsewhere("Sixteen daemons are started at once, and killed together", "All serve the same; none leaves anything.",
                "e2e/test_kill.py sixteen", "RC-122")
chaos.elsewhere("A second daemon on the sockets of a living one", "Refused by name; the first is not disturbed.",
                "e2e/test_kill.py same_place_twice", "RC-110")
chaos.elsewhere("All workers stand still", "Unhealthy with the cause while somebody waits; afterwards the same digests.",
                "e2e/test_health.py stalled", "RC-139")
chaos.elsewhere("One of two workers stands still for ever", "Its tasks are done by the other.", "e2e/test_health.py one_stopped", "RC-139")
chaos.elsewhere("kill -9 of daemon and trainer while a snapshot a step is written",
                "No half file ever has a snapshot's name; the same digests.", "e2e/test_snapshots.py killed_while_saving", "RC-017")


class Remote:
    """A worker as on another machine."""

    def __init__(self, box, address, token):
        self.box, self.address, self.token = box, address, token
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [str(self.box.build / "lanekeeper-worker"), "--connect", self.address, "--token-file", str(self.token),
             "--reconnect", "20"], env=self.box.environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def end(self):
        signal_to(self.process.pid, signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Scene:
    """A daemon with two local workers and one remote worker, all of which may be struck."""

    def __init__(self, box, stream, name="config", local=2, **runtime):
        self.box = box
        token = box.write("token", "a secret of some length\n")
        os.chmod(token, 0o600)
        remote_at = f"tcp://127.0.0.1:{lk.free_port()}"
        self.config = box.config(stream, name, workers=local, http=None, workers_listen=remote_at, worker_token_file=str(token), **runtime)
        box.index(self.config)
        self.daemon = box.daemon(self.config, index=False)
        self.remote = Remote(box, remote_at, token)

    def restart(self):
        """After the daemon's end, whatever it was."""
        self.box.daemons.remove(self.daemon)    # how it ended was ours to choose
        self.daemon = self.box.daemon(self.config, index=False)

    def end(self):
        code, _ = self.daemon.stop()
        self.remote.end()
        lk.check(code == 0, "afterwards the daemon ends in order", f"{code}: {self.daemon.log()[-300:]}")


def signal_to(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def memory_gone(pid):
    """It gets no more memory, whatever it asks for: it gives up, or the kernel would have chosen it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        resource.prlimit(pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))


# At random moments ---------------------------------------------------------------------------------

BLOWS = ("killed", "terminated", "stopped and continued", "out of memory")


def strike_process(pid, blow, draw, gasp_s=0.1):
    """True: it is on its way to its end; false: it goes on."""
    if blow == "killed":
        signal_to(pid, signal.SIGKILL)
    elif blow == "terminated":
        signal_to(pid, signal.SIGTERM)
        signal_to(pid, signal.SIGCONT)    # it may have been stopped before
    elif blow == "out of memory":
        memory_gone(pid)
        signal_to(pid, signal.SIGCONT)
        time.sleep(gasp_s)
        signal_to(pid, signal.SIGKILL)    # as the kernel does who finds nothing else to take
    else:
        signal_to(pid, signal.SIGSTOP)
        time.sleep(draw.random() * 0.5)
        signal_to(pid, signal.SIGCONT)
        return False
    return True


def blow_at(scene, all_ranks, victim, blow, draw):
    if victim == "the daemon":
        if strike_process(scene.daemon.pid, blow, draw):
            scene.daemon.wait()
            scene.restart()
    elif victim == "a local worker":
        workers = scene.daemon.workers()
        if workers:
            strike_process(draw.choice(workers), blow, draw)
    elif victim == "the remote worker":
        if scene.remote.process.poll() is None and strike_process(scene.remote.process.pid, blow, draw):
            with contextlib.suppress(subprocess.TimeoutExpired):
                scene.remote.process.wait(10)
        if scene.remote.process.poll() is not None:
            scene.remote.start()
    else:
        rank = draw.choice(all_ranks.rank)
        if not rank.over() and rank.trainer is not None:
            strike_process(rank.trainer.pid, blow, draw)


def one_kind(fault, expected, model, victim, blow):
    box, draw = fault.box(model), fault.random
    scene = Scene(box, box.mixed(STREAM_ROWS), snapshots={"dir": "snap", "every": draw.choice((0, 3, 20))})
    pause = 8 if victim == "the daemon" else 4
    all_ranks = ranks.Ranks(box, scene.daemon.address, WORLD, STEPS, pause)
    strikes = 0
    for _ in range(30 if fault.long else 3):
        time.sleep(draw.random() * 0.3)
        if all_ranks.over():
            break
        blow_at(scene, all_ranks, victim, blow, draw)
        strikes += 1
    all_ranks.check(expected, f"{victim} {blow} {strikes} times")
    lk.check(strikes > 0, "it was struck while the ranks ran", strikes)
    scene.end()


@chaos.group(promise="Every rank has every step with the digests and bytes of an undisturbed run; what died is replaced; nothing is left behind.",
             case="RC-125")
def blows(run):
    """Daemon, local worker, remote worker or trainer is killed, terminated, stopped, or out of memory, at random moments"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), WORLD, STEPS)
    kinds = [(v, b) for v in ("the daemon", "a local worker", "the remote worker", "a trainer") for b in BLOWS]
    for victim, blow in run.pick(kinds, short=3):
        run.strike(f"{victim} {blow}", one_kind, expected, model, victim, blow)
    for i in run.rounds(short=1, long=4):
        run.strike(f"anything {i}", everything, expected, model)


def everything(fault, expected, model):
    """All kinds in one run, one after the other and faster than what they break is mended."""
    box, draw = fault.box(model), fault.random
    scene = Scene(box, box.mixed(STREAM_ROWS), snapshots={"dir": "snap", "every": 5})
    all_ranks = ranks.Ranks(box, scene.daemon.address, WORLD, STEPS, 4)
    struck = []
    for _ in range(60 if fault.long else 12):
        time.sleep(draw.random() * 0.15)
        if all_ranks.over():
            break
        victim = draw.choice(("the daemon", "a local worker", "a local worker", "the remote worker", "a trainer"))
        blow = draw.choice(BLOWS)
        struck.append(f"{victim} {blow}")
        blow_at(scene, all_ranks, victim, blow, draw)
    all_ranks.check(expected, f"{len(struck)} blows: {', '.join(struck)}")
    scene.end()


# Stopped for long ----------------------------------------------------------------------------------

@chaos.group(promise="Who waits is told when its own time is up; woken, everything goes on with the same digests, the same trainers too.",
             case="RC-139")
def sleepers(run):
    """A process is stopped for longer than everybody's patience: the daemon beyond the trainers' time-out, workers beyond a task's"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), 1, STEPS)[0]
    run.strike("the daemon, past the trainers' time-out", daemon_sleeps, expected, model)
    if run.long:
        for victim in ("a local worker", "the remote worker"):
            for seconds in (35, 140):    # a task's time is 30 s, and its worker is given up after four times that
                run.strike(f"{victim} for {seconds} s", worker_sleeps, expected, model, victim, seconds)


def daemon_sleeps(fault, expected, model):
    box = fault.box(model)
    daemon = box.serve(box.mixed(STREAM_ROWS), index=False)
    trainer = box.trainer(daemon, timeout=700, lookahead=2)
    got = trainer.get("next 5")
    signal_to(daemon.pid, signal.SIGSTOP)
    told = []
    for _ in range(3):
        begin = time.monotonic()
        batches, failure = trainer.do("next 10")    # some may have been fetched ahead
        got += batches
        told.append((failure.split(" ")[0], round(time.monotonic() - begin, 1)))
    signal_to(daemon.pid, signal.SIGCONT)
    lk.check(all(code in ("DEADLINE_EXCEEDED", "UNAVAILABLE") and took < 3 for code, took in told), "each call is told in time", told)
    while len(got) < 60:
        batches, failure = trainer.do(f"next {60 - len(got)}")
        got += batches
        if failure and not failure.startswith("DEADLINE"):    # of a machine that is busy
            raise lk.Failure(failure)
    lk.same([(b["step"], b["first"], b["digest"], b["hash"]) for b in got], expected[:60], "woken, the same steps in the same order")


def worker_sleeps(fault, expected, model, victim, seconds):
    box, draw = fault.box(model), fault.random
    scene = Scene(box, box.mixed(STREAM_ROWS), local=1, prefetch_steps=1)
    all_ranks = ranks.Ranks(box, scene.daemon.address, 1, STEPS, 2, timeout=300000)
    time.sleep(draw.random() * 0.2)
    pid = scene.remote.process.pid if victim == "the remote worker" else scene.daemon.workers()[0]
    signal_to(pid, signal.SIGSTOP)
    wake = threading.Timer(seconds, signal_to, (pid, signal.SIGCONT))
    wake.start()
    all_ranks.check([expected], f"{victim} stands still for {seconds} s")
    wake.cancel()
    signal_to(pid, signal.SIGCONT)
    scene.end()


# At the worst moments ------------------------------------------------------------------------------

@chaos.group(promise="The batch that is held keeps its bytes, the leases of the dead are free again, and the steps are the same.", case="RC-134")
def holders(run):
    """Trainers are killed, stopped or terminated while they hold batches in shared memory; then the daemon is killed under them"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), 2, STEPS)
    for i in run.rounds(short=2, long=12):
        run.strike(f"round {i}", holding, expected, model)


def holding(fault, expected, model):
    box, draw = fault.box(model), fault.random
    config = box.config(box.mixed(STREAM_ROWS), prefetch_steps=2, snapshots={"dir": "snap", "every": 7})
    daemon = box.daemon(config, index=False)
    holder, other = box.world(daemon, 2, sharing="always", timeout=60000)
    victims = [box.trainer(daemon, rank=draw.randrange(2), world=2, sharing="always", step=draw.randrange(60)) for _ in range(2)]
    n = draw.randrange(1, 20)
    for trainer in (holder, *victims):
        trainer.get(f"hold {draw.randrange(1, 30)}")
        trainer.get(f"next {n}")
    got = [[], other.get(f"next {n}")]
    for trainer in victims:
        trainer.send("next 1000")
    time.sleep(draw.random() * 0.1)
    for trainer in victims:
        trainer.kill(draw.choice((signal.SIGKILL, signal.SIGTERM)))
        trainer.process.wait()
    holder.kill(signal.SIGSTOP)
    got[1] += other.get("next 30")
    if draw.random() < 0.5:
        daemon.kill()
        daemon = box.daemon(config, index=False)
        got[1] += other.get("next 5")
    holder.kill(signal.SIGCONT)
    got[0] = holder.get("next 30")
    lk.same(holder.get("check")[0]["changed"], 0, "what is held keeps its bytes")
    taken = [(b["step"], b["first"], b["digest"], b["hash"]) for b in got[0]]
    lk.same(taken, expected[0][n:n + 30], "the one that slept gets the same steps")
    taken = [(b["step"], b["first"], b["digest"], b["hash"]) for b in got[1]]
    lk.same(taken, expected[1][:len(taken)], "so does the other")
    holder.get("release")
    for trainer in (holder, other):
        lk.check(trainer.close() == 0, "trainers end in order", trainer.process.returncode)
    lk.wait_until(lambda: daemon.status()["streams"][0]["slots_leased"] == 0, 10, "no lease left")


@chaos.group(promise="The next start uses whole snapshots only, and serves the same digests.", case="RC-017")
def writers(run):
    """The daemon is stopped before it gives a snapshot's temporary file its name, and killed then or soon after"""
    model = run.box()
    expected = ranks.undisturbed(model, model.mixed(STREAM_ROWS), 1, STEPS)[0]
    run.strike("again and again", while_writing, expected, model)


def temporary(folder):
    try:
        with os.scandir(folder) as entries:
            return any(not e.name.endswith(".lks") for e in entries)
    except FileNotFoundError:
        return False


def while_writing(fault, expected, model):
    box, draw = fault.box(model), fault.random
    config = box.config(box.mixed(STREAM_ROWS), http=None, snapshots={"dir": "snap", "every": 1, "keep": 4})
    folder, at, caught, wrong = box.path / "snap", 0, 0, []
    rounds = 60 if fault.long else 5
    for _ in range(rounds):
        for left in folder.glob("*") if folder.exists() else ():
            if not left.name.endswith(".lks"):
                left.unlink()
        shim = Shim(box, "lanekeeperd", "rename", 1 + draw.randrange(120), STOP)
        daemon = box.daemon(config, index=False, environment=shim.environment())
        trainer = box.trainer(daemon, step=at, timeout=60000)
        trainer.connect()
        trainer.send("next 40")
        lk.wait_until(lambda d=daemon: lk.stopped(d.pid), lk.ANSWER_S, "a file that is about to get its name")
        caught += temporary(folder)
        if draw.random() < 0.5:
            signal_to(daemon.pid, signal.SIGCONT)
            time.sleep(draw.random() * 0.01)
        daemon.kill()
        trainer.kill()
        lines = trainer.buffer + trainer.process.stdout.read()
        taken = [lk.json.loads(line) for line in lines.decode().splitlines() if line.startswith("{") and line.endswith("}")]
        wrong += [b["step"] for b in taken if (b["step"], b["first"], b["digest"], b["hash"]) != expected[b["step"]]]
        wrong += ["damaged"] if "damaged" in daemon.log() else []
        at = (at + len(taken)) % (STEPS - 45)
    lk.same(wrong, [], "every batch is right, and no snapshot damaged")
    lk.check(caught > 0, "some were killed with a half-written file", f"{caught} of {rounds}")
    done = box.tool("verify", folder)
    lk.check(done.returncode == 0, "lanekeeper verify finds the snapshots whole", done.stdout[-300:] + done.stderr[-300:])
    daemon = box.daemon(config, index=False)
    trainer = box.trainer(daemon, step=100)
    got = [(b["step"], b["first"], b["digest"], b["hash"]) for b in trainer.get("next 20")]
    lk.same(got, expected[100:120], "the last start serves the same")


# Tools ---------------------------------------------------------------------------------------------

@chaos.group(promise="There is no index, the old one, or the whole new one; made again it is the same to the byte, and serves the same digests.",
             case="RC-017")
def indexers(run):
    """`lanekeeper index` is killed, terminated, stopped or out of memory while it measures a dataset and writes"""
    model = run.box()
    model.dataset("big", lk.prose(run.random.getrandbits(30), 6000, 3000), 8)
    model.tool("index", model.path / "big", "-o", model.path / "whole.index")
    whole = (model.path / "whole.index").read_bytes()
    shim = Shim(model, "lanekeeper")
    again = model.path / "again.index"
    subprocess.run([model.tool_path, "index", model.path / "big", "-o", again], env=model.environment(shim.environment()), check=True,
                   capture_output=True, timeout=lk.ANSWER_S)
    lk.same(again.read_bytes() == whole, True, "an index is the same every time")
    for blow in run.pick(BLOWS, short=2):
        run.strike(blow, index_struck, model, whole, shim.calls(), blow)


def index_struck(fault, model, whole, calls, blow):
    """Each blow falls in a system call, whatever the machine's speed: there the tool waits for it."""
    box, draw = fault.box(model), fault.random
    out = box.path / "out" / "d.index"
    out.parent.mkdir()
    odd, struck, died = [], 0, 0
    for i in range(60 if fault.long else 8):
        if i % 2:
            out.write_bytes(b"an old one")
        elif out.exists():
            out.unlink()
        kind = draw.choice(sorted(calls))
        shim = Shim(box, "lanekeeper", kind, 1 + draw.randrange(calls[kind]), STOP)
        tool = subprocess.Popen([str(box.tool_path), "index", str(box.path / "big"), "-o", str(out)], env=box.environment(shim.environment()),
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        lk.wait_until(lambda t=tool: lk.stopped(t.pid) or t.poll() is not None, lk.ANSWER_S, "a stop, or the end")
        struck += tool.poll() is None
        strike_process(tool.pid, blow, draw, draw.random() * 0.05)
        died += tool.wait() != 0
        now = out.read_bytes() if out.exists() else None
        allowed = [whole, b"an old one"] if i % 2 else [whole, None]
        odd += [] if now in allowed else [(i, None if now is None else len(now))]
    lk.same(odd, [], "nothing half made ever stands under the index's name")
    lk.check(struck > 0 and (died > 0) == (blow != "stopped and continued"), "they were struck in time", (struck, died))
    done = box.tool("index", box.path / "big", "-o", out)
    lk.check(done.returncode == 0 and out.read_bytes() == whole, "the next one makes it as ever", done.stderr[-300:])
