"""The nth call of a kind failing, in each program, for every n that a run makes.

A run is: a daemon over three small data sets, with snapshots and counts, two trainers (one by shared memory, one by
messages) for STEPS steps, SIGTERM; then, undisturbed, another daemon over what the first one left. Or a tool's run.
What may come of a fault, by what it is:

    EINTR, EAGAIN, a short count    nothing: the run is as if undisturbed, in every program and place
    any other, before "ready"       the daemon ends with status 1 and one line that says why; or nothing
    any other, in a running daemon  nothing that a trainer sees, but time: what was not written is written later, a connection
                                    or a worker that was lost is replaced
    any other, in a worker          likewise; but a shard that must not be read (EACCES) stops the stream, which names it
    any other, in a trainer         the call fails with a code and a text, and the same trainer started again gets the
                                    same; or nothing
    any other, in a tool            exit status 1 with a line that says why, and nothing half-made; or nothing

Never a crash, a wrong digest, a wait without end, or a file or process left behind.

The long form strikes with each n: thousands, and a run takes a second. So a run has several of those that it survives, far
from each other (of a daemon: after `ready`), and one look afterwards is for several that are over at once. What did
not come about in such a company is tried again in another, then alone; where not all was as it should, each is struck
with alone.
"""

import re
import subprocess

import chaos
import lk
from shim import FOR_GOOD, SHORT, Shim

STEPS = 10
TOGETHER = 12    # faults of a run
PATIENCE_S = 40    # for what takes a second, also on a machine that has other things to do
PASSING = {"EINTR", "EAGAIN", SHORT}

FILE = ("EIO", "EINTR", SHORT)
FULL = ("ENOSPC", "EIO", "EDQUOT", "EINTR", SHORT)
DESCRIPTORS = ("EMFILE", "ENFILE", "ENOMEM")
STREAM = ("ECONNRESET", "EAGAIN", "EINTR", SHORT)

# What the kernel may say to each kind. A kind that a run makes and that stands nowhere is a failure of this table.
ERRORS = {
    "open": ("EMFILE", "EACCES", "EIO", "EINTR", "ENFILE", "ENOSPC"), "openat": ("EMFILE", "EACCES", "EIO", "EINTR"),
    "mkostemp": ("ENOSPC", "EACCES", "EMFILE"),
    "read": FILE, "pread": FILE, "readv": FILE, "write": FULL, "pwrite": FULL, "writev": FULL,
    "read.ipc": ("EAGAIN", "EINTR"), "write.ipc": ("EAGAIN", "EINTR"), "readv.ipc": STREAM, "writev.ipc": (*STREAM, "EPIPE"),
    "send": (*STREAM, "EPIPE", "ENOBUFS"), "sendmsg": (*STREAM, "EPIPE", "ENOBUFS"), "recv": STREAM, "recvmsg": STREAM,
    "fsync": ("EIO", "ENOSPC", "EINTR"), "fdatasync": ("EIO", "ENOSPC", "EINTR"),
    "ftruncate": ("ENOSPC", "EIO", "ENOMEM"), "fallocate": ("ENOSPC", "EOPNOTSUPP", "EINTR", "ENOMEM"),
    "rename": ("ENOSPC", "EIO", "EACCES"), "linkat": ("ENOSPC", "EIO", "EACCES", "EPERM", "EMLINK"),
    "unlink": ("EACCES", "EIO"), "mkdir": ("ENOSPC", "EACCES", "EROFS"), "rmdir": ("EACCES", "EBUSY"),
    "opendir": ("EMFILE", "EACCES", "EIO", "ENOMEM"), "readdir": ("EIO",),
    "stat": ("EIO", "EACCES", "ENOMEM"), "lstat": ("EIO", "EACCES"), "fstat": ("EIO", "ENOMEM"), "fstatat": ("EIO", "EACCES"),
    "realpath": ("EIO", "EACCES"), "readlink": ("EACCES", "ENOENT"), "chmod": ("EPERM", "EROFS"), "flock": ("ENOLCK", "EINTR"),
    "mmap": ("ENOMEM",), "madvise": ("ENOMEM", "EINVAL"), "memfd_create": DESCRIPTORS, "fcntl": ("EPERM", "EINVAL"),
    "fcntl64": ("EPERM", "EINVAL"),
    "socket": (*DESCRIPTORS, "ENOBUFS"), "socketpair": DESCRIPTORS, "bind": ("EADDRINUSE", "EACCES", "ENOMEM"),
    "listen": ("EADDRINUSE",), "connect": ("ECONNREFUSED", "ETIMEDOUT", "EINTR.connect", "ENOMEM"),
    "accept": ("EMFILE", "ENFILE", "ECONNABORTED", "EINTR", "ENOMEM"), "accept4": ("EMFILE", "ENFILE", "ECONNABORTED", "EINTR", "ENOMEM"),
    "epoll_create1": DESCRIPTORS, "epoll_ctl": ("ENOMEM", "ENOSPC"), "epoll_wait": ("EINTR",), "poll": ("EINTR", "ENOMEM"),
    "eventfd": DESCRIPTORS, "signalfd": DESCRIPTORS, "timerfd_create": DESCRIPTORS, "timerfd_settime": ("EINVAL",),
    "posix_spawn": ("EAGAIN.fork", "ENOMEM"), "pthread_create": ("EAGAIN.fork",), "waitpid": ("EINTR",),
    "pidfd_open": ("EMFILE", "ENOMEM", "ENOSYS"), "setrlimit": ("EPERM",),
    "getrandom": (),    # so few bytes always come, and at once
}

# nng that is refused what it starts with aborts or waits for itself without end. The daemon tries beforehand whether it
# would be (rpc/room.h; `limits.memory`); between the two there is no mending.
NNG = {
    "fcntl.nng": (),    # it does not look whether a socket became one that does not block
    "pthread_create.nng": (), "epoll_create1.nng": (), "eventfd.nng": (), "epoll_ctl.nng": (),
}


def name_of(what):
    """The errno: "EAGAIN.fork" is EAGAIN where it does not mean: try again soon."""
    return what.split(".")[0]


def template(run):
    """What every fault's folder begins with: data, indexed, and the digests of an undisturbed run."""
    box = run.box()
    for i, name in enumerate(("docs", "man", "code")):
        box.dataset(name, lk.prose(i + 1, 40, 200), 2)
    config = configured(box)
    box.index(config)
    shim = Shim(box, "lanekeeperd")
    daemon = box.daemon(config, index=False, environment=shim.environment())
    box.digests = [d for d, _ in lk.run_world(box, daemon, 2, STEPS, show="none")]
    daemon.stop()
    for name in ("snap", "counts"):
        lk.shutil.rmtree(box.path / name, ignore_errors=True)
    for path in box.path.glob("shim-*"):
        path.unlink()
    return box


def configured(box):
    return box.config(box.mixed(sequence=64), workers=1, prefetch_steps=2, snapshots={"dir": "snap", "every": 2, "keep": 3})


def faults_of(run, counts, short):
    """(kind, n, what): all of them, or a sample that has every kind; the many of chatty kinds by turns of what."""
    every = []
    for kind, calls in sorted(counts.items()):
        errors = NNG.get(kind, ERRORS.get(kind.removesuffix(".nng")))
        if errors is None:
            raise lk.Failure(f"no line of the table says what {kind} may fail with")
        for n in range(1, calls + 1):
            if not errors:
                break
            some = errors if calls <= 40 or run.only_fault else [errors[(n + run.seed) % len(errors)]]
            every += [(kind, n, what) for what in some]
    if run.long or run.only_fault is not None:
        return every
    by_kind = {}
    for fault in every:
        by_kind.setdefault(fault[0], []).append(fault)
    kinds = sorted(by_kind)
    run.random.shuffle(kinds)
    return [run.random.choice(by_kind[kinds[i % len(kinds)]]) for i in range(short)]


# Once aborted instead of saying what was lacking.
ABORTED = [("epoll_create1", 1, "ENOMEM"), ("eventfd", 3, "ENOMEM"), ("pthread_create", 1, "EAGAIN.fork"), ("pthread_create", 2, "EAGAIN.fork"),
           ("epoll_ctl", 3, "ENOSPC")]


def key_of(kind, n, what):
    return f"{kind} {n}: {what}"


def strike_each(run, counts, short, do, *arguments, always=(), together=None, early=()):
    """`together` does several in one run; `early` are counts up to which a fault may end the program."""
    known = [fault for fault in always if counts.get(fault[0], 0) >= fault[1]]
    faults = list(dict.fromkeys([*known, *faults_of(run, counts, short)]))
    if together is None or not run.long or run.only_fault is not None:
        for kind, n, what in faults:
            run.strike(key_of(kind, n, what), do, *arguments, kind, n, what)
        return
    run.expected = len(faults)
    early = dict(early)
    for soon in (True, False):
        waiting = [fault for fault in faults if (fault[1] <= early.get(fault[0], 0) and fault[2] not in PASSING) == soon]
        strike_in_company(run, waiting, do, together, arguments, soon)


def strike_in_company(run, waiting, do, together, arguments, soon):
    tries = {}
    while waiting:
        apart = -(-len(waiting) // TOGETHER)
        company, waiting = waiting[::apart], [fault for i, fault in enumerate(waiting) if i % apart]
        came = run.strike_together({key_of(*fault): fault for fault in company}, together, *arguments, soon)
        for fault in company:
            if came is not None and key_of(*fault) in came:
                continue
            tries[fault] = tries.get(fault, 0) + 1
            if came is None or tries[fault] > 1:
                run.strike(key_of(*fault), do, *arguments, *fault)
            else:
                waiting.append(fault)


# Daemons, workers, trainers -------------------------------------------------------------------------

def trainers_of(box, daemon, prefix=()):
    return [box.trainer(daemon, prefix=prefix, rank=r, world=2, sharing=("auto", "never")[r], timeout=PATIENCE_S * 750) for r in range(2)]


def consumed(box, daemon, prefix=()):
    """(batches, "" or the failure's text) of each rank."""
    ranks = trainers_of(box, daemon, prefix)
    answers = []
    for rank in ranks:
        failure = rank.connect(PATIENCE_S)
        if failure:
            answers.append(([], failure))
        else:
            rank.send(f"next {STEPS}")
            answers.append(None)
    answers = [a or r.answer(PATIENCE_S) for a, r in zip(answers, ranks)]
    for rank in ranks:
        status = rank.close(PATIENCE_S)
        lk.check(status == (0 if rank.connected else status if status > 0 else 0), "a trainer does not crash", status)
    return answers


def right(box, answers, begin=0):
    """Every batch that came is what it must be; true: all of them came."""
    digests = {}
    for batches, _ in answers:
        for b in batches:
            digests.setdefault(b["step"], []).append(b)
    for step, cuts in digests.items():
        if len(cuts) == 2:
            lk.same(lk.steps_of([cuts])[0][0], box.digests[step], f"the digest of step {step}")
    return all(not failure and len(batches) == STEPS for batches, failure in answers)


def afterwards(fault, box, like, config):
    """Another daemon, undisturbed, over what is left: the same; and no temporary file."""
    daemon = box.daemon(config, index=False)
    box.digests = like.digests
    answers = consumed(box, daemon)
    lk.check(right(box, answers), f"{fault.key}: a run after it is the same", [f for _, f in answers])
    lk.check(daemon.stop(PATIENCE_S)[0] == 0, f"{fault.key}: the next daemon ends with 0", daemon.process.returncode)


def daemon_struck(fault, box, config, program, faults):
    """A run of a daemon with these faults, (kind, n, what, times); those that came about, and those that cannot."""
    shim = Shim(box, program, faults=[(kind, n, name_of(what), times) for kind, n, what, times in faults])
    whats = {what for _, _, what, _ in faults}
    daemon = box.daemon(config, index=False, ready=False, environment=shim.environment())
    lk.wait_until(lambda: " daemon: ready" in daemon.log() or daemon.process.poll() is not None, PATIENCE_S, "ready, or an end")
    if daemon.process.poll() is not None:
        lines = [l for l in daemon.log().splitlines() if " daemon: cannot_start" in l]
        lk.check(program == "lanekeeperd" and whats - PASSING and daemon.process.returncode == 1 and len(lines) == 1,
                 f"{fault.key}: it starts, or says why not", lambda: (daemon.process.returncode, daemon.log()[-600:]))
    else:
        answers = consumed(box, daemon)
        whole = right(box, answers)
        named = program == "lanekeeper-worker" and "EACCES" in whats and all("Permission denied" in f and ".jsonl" in f for _, f in answers if f)
        lk.check(whole or named, f"{fault.key}: every step comes", lambda: ([f for _, f in answers], daemon.log()[-600:]))
        lk.check(daemon.stop(PATIENCE_S)[0] == 0, f"{fault.key}: SIGTERM ends it with 0",
                 lambda: (daemon.process.returncode, daemon.log()[-600:]))
    return tuple([fault for fault in faults if (fault[0], fault[1], name_of(fault[2]), fault[3]) in some] for some in shim.struck_each())


def in_daemon(fault, like, program, kind, n, what, times=1):
    box = fault.box(like)
    box.digests = like.digests
    config = configured(box)
    if not daemon_struck(fault, box, config, program, [(kind, n, what, times)])[0]:
        raise chaos.Missed
    afterwards(fault, box, like, config)


def together_in_daemon(fault, like, program, soon, faults):
    """In one run; those that may end it, each in a run of its own, over what the one before left."""
    box = fault.box(like)
    box.digests = like.digests
    config = configured(box)
    faults = [(kind, n, what, 1) for kind, n, what in faults]
    came, never = [], []
    for some in ([[one] for one in faults] if soon else [faults]):
        struck, passed_over = daemon_struck(fault, box, config, program, some)
        came += [one[:3] for one in struck]
        never += [one[:3] for one in passed_over]
    if came:
        afterwards(fault, box, like, config)
    return came, never


def counted(run, like, program, prefix=False):
    """{kind: calls} of an undisturbed run, and of its part before `ready`."""
    box = chaos.Fault(run, "counting").box(like)
    run.shared.append(box)
    config = configured(box)
    box.digests = like.digests
    shim = Shim(box, program)
    daemon = box.daemon(config, index=False, environment=None if prefix else shim.environment())
    early = shim.calls()
    if not right(box, consumed(box, daemon, shim.prefix() if prefix else ())):
        raise lk.Failure("the undisturbed run fails")
    daemon.stop()
    return shim.calls(), early


@chaos.group("Before `ready` the daemon ends with status 1 and one line that says why; running, it serves the same digests, "
             "and the next daemon does, over what this one left. EINTR, EAGAIN and short counts are never noticed.", case="RC-120")
def daemon(run):
    """The nth system call of the daemon fails: all kinds, each n, every error that the kernel may give"""
    like = template(run)
    counts, early = counted(run, like, "lanekeeperd")
    strike_each(run, counts, 9, in_daemon, like, "lanekeeperd", always=ABORTED, together=together_in_daemon, early=early)


@chaos.group("The same digests: an error is tried again, a worker that ends is replaced; no row is lost to a fault that passes.")
def worker(run):
    """The nth system call of the workers fails"""
    like = template(run)
    counts, _ = counted(run, like, "lanekeeper-worker")
    strike_each(run, counts, 5, in_daemon, like, "lanekeeper-worker", together=together_in_daemon)


@chaos.group("The call fails with a code and a text, or nothing is noticed; what came before is right, and the trainer started again "
             "gets the same.")
def trainer(run):
    """The nth system call of a trainer, in the client library, fails"""
    like = template(run)
    counts, _ = counted(run, like, "trainer", prefix=True)
    strike_each(run, counts, 6, in_trainer, like, "trainer", together=together_in_trainers)


def trainers_struck(fault, box, daemon, program, kind, n, what, times):
    """Two trainers with that fault; whether it came about."""
    shim = Shim(box, program, kind, n, name_of(what), times)
    answers = consumed(box, daemon, shim.prefix())
    whole = right(box, answers)
    if what in PASSING:
        lk.check(whole, f"{fault.key}: it is not noticed", [f for _, f in answers])
    for _, failure in answers:
        lk.check(not failure or re.match(r"[A-Z_]+ .{5}", failure), f"{fault.key}: a failure has a code and a text", failure)
    return shim.struck() > 0


def trainers_again(fault, box, daemon):
    again = consumed(box, daemon)
    lk.check(right(box, again), f"{fault.key}: trainers that are started again get all of it", [f for _, f in again])
    lk.check(daemon.stop(PATIENCE_S)[0] == 0, f"{fault.key}: the daemon ends with 0", daemon.process.returncode)


def in_trainer(fault, like, program, kind, n, what, times=1):
    box = fault.box(like)
    box.digests = like.digests
    daemon = box.daemon(configured(box), index=False)
    if not trainers_struck(fault, box, daemon, program, kind, n, what, times):
        raise chaos.Missed
    trainers_again(fault, box, daemon)


def together_in_trainers(fault, like, program, soon, faults):
    """One after the other at one daemon."""
    box = fault.box(like)
    box.digests = like.digests
    daemon = box.daemon(configured(box), index=False)
    came = [one for one in faults if trainers_struck(fault, box, daemon, program, *one, 1)]
    trainers_again(fault, box, daemon)
    return came, [one for one in faults if one not in came]    # all were tried alone


# More than once -------------------------------------------------------------------------------------

TRANSFERS = ("read", "pread", "write", "sendmsg", "send", "recv", "recvmsg", "readv")
LASTING = [(program, kind, n, SHORT, FOR_GOOD) for program in ("lanekeeperd", "lanekeeper-worker", "trainer") for kind in TRANSFERS for n in (1, 2)]
LASTING += [(program, kind, 1, "EINTR", 100) for program in ("lanekeeperd", "lanekeeper-worker", "trainer")
            for kind in ("open", "pread", "fsync", "sendmsg", "send", "recv", "recvmsg", "epoll_wait", "poll", "accept4", "waitpid")]
LASTING += [(program, kind, 1, "EAGAIN", 100) for program in ("lanekeeperd", "lanekeeper-worker", "trainer")
            for kind in ("sendmsg", "recv", "recvmsg")]
# What the daemon can do without, for ever.
LASTING += [("lanekeeperd", kind, n, what, FOR_GOOD) for kind, n, what in (
    ("write", 1, "ENOSPC"), ("write", 9, "EIO"), ("fsync", 1, "EIO"), ("linkat", 1, "EPERM"), ("rename", 3, "EACCES"), ("unlink", 1, "EIO"),
    ("readdir", 20, "EIO"), ("madvise", 1, "ENOMEM"))]
# What it cannot do without, for a while.
LASTING += [("lanekeeperd", kind, n, what, times) for kind, n, what, times in (
    ("posix_spawn", 1, "EAGAIN.fork", 3), ("posix_spawn", 1, "ENOMEM", 3), ("pidfd_open", 1, "EMFILE", 3), ("socketpair", 1, "EMFILE", 3),
    ("accept4", 1, "EMFILE", 2), ("accept4", 2, "ENOMEM", 2), ("accept4", 1, "ECONNABORTED", 20), ("epoll_ctl", 1, "ENOSPC", 5))]
LASTING += [("lanekeeper-worker", kind, n, what, times) for kind, n, what, times in (
    ("pread", 1, "EIO", 20), ("pread", 30, "EIO", 60), ("open", 1, "EMFILE", 10), ("open", 3, "EIO", 10), ("mmap", 1, "ENOMEM", 3),
    ("fstat", 4, "EIO", 10), ("recv", 1, "ECONNRESET", 3), ("sendmsg", 5, "EPIPE", 3))]


@chaos.group("Short counts, EINTR and EAGAIN are never noticed, however many. What the daemon can do without (snapshots, counts) it does "
             "without. What it needs it waits for, and goes on when the fault is over: the same digests.")
def lasting(run):
    """System calls that fail again and again, for a while or for good; every transfer cut short"""
    like = template(run)
    made = {program: counted(run, like, program, program == "trainer")[0] for program in ("lanekeeperd", "lanekeeper-worker", "trainer")}
    faults = [fault for fault in LASTING if made[fault[0]].get(fault[1], 0) >= fault[2]]
    for program, kind, n, what, times in run.pick(faults, short=5):
        key = f"{program}, {kind} {n}: {what} {'always' if times == FOR_GOOD else times}"
        run.strike(key, in_trainer if program == "trainer" else in_daemon, like, program, kind, n, what, times)


# Tools ----------------------------------------------------------------------------------------------

def output_of(done, box):
    """Without places and times."""
    return re.sub(r"\d+\.\d+ s\b|\"seconds\":[0-9.]+", "T", done.stdout.replace(str(box.path), "BOX"))


def tool_run(box, shim, arguments):
    return subprocess.run([*(shim.prefix() if shim else ()), str(box.tool_path), *map(str, arguments)], env=box.environment(),
                          capture_output=True, text=True, timeout=30)


def files_of(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir())} if folder.exists() else {}


TOOLS = {
    "index": (["index", "--threads", "1"], "index"),
    "measure": (["measure", "--json", "--jobs", "1"], "counts"),
    "verify": (["verify", "--config"], None),
    "digest": (["digest", "0..6", "--offline", "--config"], None),
}


def in_tool(fault, like, tool, expected, kind, n, what):
    box = fault.box(like)
    arguments, folder = TOOLS[tool]
    if folder:
        lk.shutil.rmtree(box.path / folder, ignore_errors=True)
    config = configured(box)
    shim = Shim(box, "lanekeeper", kind, n, name_of(what))
    done = tool_run(box, shim, [*arguments, config])
    if shim.struck() == 0:
        raise chaos.Missed
    if what in PASSING or done.returncode == 0:
        lk.same((done.returncode, output_of(done, box)), (0, expected[0]), f"{fault.key}: it does as if undisturbed")
    else:
        lk.check(done.returncode == 1 and done.stderr.strip() + done.stdout.strip(), f"{fault.key}: exit status 1, and why",
                 (done.returncode, done.stderr[-400:], done.stdout[-200:]))
    if folder:
        made = files_of(box.path / folder)
        odd = [name for name in made if made[name] != expected[1].get(name)]
        lk.check(not odd and (done.returncode != 0 or set(made) == set(expected[1]) or tool == "measure"),
                 f"{fault.key}: what it made is whole, or is not there", (odd, len(made)))
        again = tool_run(box, None, [*arguments, config])
        lk.check(again.returncode == 0 and files_of(box.path / folder) == expected[1], f"{fault.key}: run again it makes the rest",
                 (again.returncode, again.stderr[-300:]))


@chaos.group("Exit status 1 and a line that says why, or the same output; no file is half-made, and run again it makes all of them, to the "
             "byte.", case="RC-120")
def tools(run):
    """The nth system call of `lanekeeper index`, `measure`, `verify` and `digest --offline` fails"""
    like = template(run)
    for tool, (arguments, folder) in TOOLS.items():
        box = chaos.Fault(run, "counting").box(like)
        run.shared.append(box)
        if folder:
            lk.shutil.rmtree(box.path / folder, ignore_errors=True)
        shim = Shim(box, "lanekeeper")
        done = tool_run(box, shim, [*arguments, configured(box)])
        if done.returncode != 0:
            raise lk.Failure(f"{tool}: {done.stderr}")
        expected = (output_of(done, box), files_of(box.path / folder) if folder else None)
        faults = list(dict.fromkeys(faults_of(run, shim.calls(), 4)))
        run.expected += len(faults)
        for kind, n, what in faults:
            run.strike(f"{tool}, {kind} {n}: {what}", in_tool, like, tool, expected, kind, n, what)
