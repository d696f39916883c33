"""Disks that are full, and a small /dev/shm: file systems of their own, where the machine allows these."""

import os
import re
import signal
import subprocess

import chaos
import lk

STEPS = 24


def mounted(*mounts):
    """What to put before a command, so that it has these (folder, size) as file systems of its own."""
    script = " && ".join([f"mount -t tmpfs -o size={size} none '{folder}'" for folder, size in mounts] + ['exec "$0" "$@"'])
    for unshare in (["unshare", "-m"], ["unshare", "-rm"]):
        prefix = [*unshare, "sh", "-c", script]
        if subprocess.run([*prefix, "true"], capture_output=True).returncode == 0:
            return prefix
    raise chaos.Skip("this machine allows no mount namespaces")


def recorded(run):
    box = run.box()
    stream = box.mixed(60, sequence=64)
    reference = box.serve(stream, "reference", snapshots={"dir": "none", "every": 0}, counts={"size": 0})
    box.digests = [d for d, _ in lk.run_world(box, reference, 1, STEPS, show="none")]
    reference.stop()
    return box, stream


@chaos.group("The same digests; what cannot be kept is logged and counted; the daemon is healthy, and ends with 0.", case="RC-120")
def full(run):
    """Snapshots, counts, and both on a disk that fills up at once, soon or late"""
    like, stream = recorded(run)
    kinds = [(what, size) for what in ("snapshots", "counts", "both") for size in (4, 8, 16, 32, 64)]
    for what, size in run.pick(kinds, short=2):
        run.strike(f"{what} in {size} KiB", fill, like, stream, what, size)


def fill(fault, like, stream, what, size):
    box = fault.box(like)
    (box.path / "full").mkdir()
    prefix = mounted((box.path / "full", f"{size}k"))
    where = {"snapshots": {"dir": "full/snap" if what != "counts" else "snap", "every": 1},
             "counts": {"dir": "full/counts" if what != "snapshots" else "counts", "memory": "1MiB"}}
    daemon = box.serve(stream, index=False, how={"prefix": prefix}, **where)
    got = [d for d, _ in lk.run_world(box, daemon, 2, STEPS, show="none")]
    lk.same(got, like.digests, f"{fault.key}: the same digests")
    if size <= 8 and what != "counts":
        lk.wait_until(lambda: daemon.status()["snapshots"]["failed"] > 0, lk.ANSWER_S, "a snapshot that cannot be written")
        lk.check("not_written" in daemon.log(), f"{fault.key}: it is counted and logged", daemon.log()[-300:])
    status = daemon.status()
    lk.check(status["healthy"], f"{fault.key}: it is healthy", status)
    lk.same(daemon.stop()[0], 0, f"{fault.key}: SIGTERM ends it with 0")


@chaos.group("The daemon serves and ends as if it had a log; so does it when the log's reader has gone.", case="RC-120")
def full_log(run):
    """The log on a full disk, to /dev/full, to a pipe that nobody reads or whose reader has gone"""
    like, stream = recorded(run)
    for what in ["pipe that is full", *run.pick(["full disk", "/dev/full", "closed", "pipe without a reader"], short=1)]:
        run.strike(what, lose_log, like, stream)


def lose_log(fault, like, stream):
    box = fault.box(like)
    config = box.config(stream, snapshots={"dir": "snap", "every": 1}, log_level="debug")
    (box.path / "full").mkdir()
    begin, end = os.pipe()
    prefix = mounted((box.path / "full", "4k")) if fault.key == "full disk" else []
    to = {"full disk": f"'{box.path}/full/log'", "/dev/full": "/dev/full", "closed": "&-"}.get(fault.key, f"&{end}")
    if fault.key == "pipe without a reader":
        os.close(begin)
    elif fault.key == "pipe that is full":
        os.set_blocking(end, False)
        try:
            while True:
                os.write(end, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(end, True)
    # The log is lost, so that the address is not read from it, but known.
    process = subprocess.Popen([*prefix, "sh", "-c", f'exec "$0" "$@" 2>{to}', str(box.daemon_path), str(config)], env=box.environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[end])
    try:
        socket = box.path / "config" / "s"
        lk.wait_until(socket.exists, 10, "its socket")
        ranks = box.world(f"ipc://{socket}", 2)
        batches = lk.lines_of(ranks, f"next {STEPS}", 20)
        lk.same([d for d, _ in lk.steps_of(batches)], like.digests, f"{fault.key}: the same digests")
        if fault.key == "pipe that is full":
            os.set_blocking(begin, False)
            os.read(begin, 1 << 20)
            for _ in range(3):    # each death is a line of the log
                worker = next(p for p, command in lk.processes_of(box.path).items() if "lanekeeper-worker" in command)
                os.kill(worker, signal.SIGKILL)
                lk.wait_until(lambda w=worker: any("lanekeeper-worker" in c and p != w for p, c in lk.processes_of(box.path).items()), 10,
                              "another worker")
            text = os.read(begin, 1 << 20).decode(errors="replace")
            lk.check(re.search(r"log: lines_lost lines=\d+", text), f"{fault.key}: when it is read again, it says how much is missing", text[:300])
        process.terminate()
        lk.same(process.wait(10), 0, f"{fault.key}: SIGTERM ends it with 0")
    finally:
        process.kill()
        process.wait()
        os.close(end)
        if fault.key != "pipe without a reader":
            os.close(begin)


@chaos.group("Exit status 1 and a line that names the file and the lack of room; nothing half-made; with room it is made, to the byte.", case="RC-120")
def full_tool(run):
    """`lanekeeper index` and `measure` writing to a disk without room"""
    like, stream = recorded(run)
    for tool, size in run.pick([(t, s) for t in ("index", "measure") for s in (4, 8)], short=2):
        run.strike(f"{tool} in {size} KiB", fill_tool, like, stream, tool, size)


def fill_tool(fault, like, stream, tool, size):
    box = fault.box(like)
    folder = box.path / ("index" if tool == "index" else "counts")
    lk.shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    config = box.config(stream)
    prefix = mounted((folder, f"{size}k"))
    script = f'"$0" "$@"; status=$?; ls -a "{folder}" | sort; exit $status'
    done = subprocess.run([*prefix, "sh", "-c", script, str(box.tool_path), tool, str(config)], env=box.environment(), capture_output=True,
                          text=True, timeout=30)
    names = re.findall(r"(?m)^\.?[\w-]+\.(?:lkindex|lkc|tmp)$", done.stdout)
    lk.check(done.returncode == 1 and re.search(r"No space left|could not be written", done.stderr), f"{fault.key}: it says so",
             (done.returncode, done.stderr[-300:]))
    lk.check(not [n for n in names if n.endswith(".tmp")], f"{fault.key}: nothing half-made is left", names)
    again = box.tool(tool, config)
    lk.check(again.returncode == 0, f"{fault.key}: with room it is made", again.stderr[-300:])
    if tool == "index":
        lk.same({p.name: p.read_bytes() for p in folder.iterdir()}, {p.name: p.read_bytes() for p in (like.path / "index").iterdir()},
                f"{fault.key}: to the byte")


@chaos.group("Nothing is noticed: batches lie in memory that has no name, and that /dev/shm does not bound.", case="RC-124")
def small_shm(run):
    """/dev/shm of 64 KiB, of none, read-only; batches of megabytes are shared through memory"""
    box = run.box()
    stream = box.mixed(200, batch=64, sequence=4096)
    reference = box.serve(stream, "reference")
    box.digests = [d for d, _ in lk.run_world(box, reference, 1, 4, show="none")]
    reference.stop()
    for size in run.pick(["64k", "4k", "64k,ro"], short=1):
        run.strike(f"/dev/shm of {size}", shrink_shm, box, stream, size)


def shrink_shm(fault, like, stream, size):
    box = fault.box(like)
    prefix = mounted(("/dev/shm", size))
    daemon = box.serve(stream, index=False, how={"prefix": prefix})
    ranks = [box.trainer(daemon, prefix=prefix, rank=r, world=2, sharing="always") for r in range(2)]
    batches = lk.lines_of(ranks, "next 4")
    lk.check(all(b["shared"] == 1 for rank in batches for b in rank), f"{fault.key}: batches come in shared memory")
    lk.same([d for d, _ in lk.steps_of(batches)], like.digests, f"{fault.key}: the same digests")


chaos.elsewhere("Snapshots on a full disk of 16 KiB", "The same digests; the failures are counted and logged.", "e2e/test_snapshots.py unwritable", case="RC-120")
chaos.elsewhere("Counts on a full disk, in a place that can be no folder, in a folder of 1 KiB",
                "The same digests; it is logged and counted; the folder stays within its size.", "e2e/test_counts.py full", case="RC-117")
