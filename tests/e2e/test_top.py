"""`lanekeeper top`: on a terminal, without one, and with a daemon that comes and goes."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import lk

CSI = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]")
ENTER, LEAVE = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """The tool on a pseudo-terminal of its own; what it draws is a list of lines, as a terminal has them."""

    def __init__(self, box, *arguments, rows=40, columns=100, **environment):
        self.tool, self.all, self.ended = str(box.tool_path), "", None
        self.master, slave = pty.openpty()
        self.slave = slave
        self.resize(rows, columns)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [self.tool, "top", *map(str, arguments)], stdin=slave, stdout=slave, stderr=subprocess.PIPE,
            env=box.environment({"TERM": "xterm-256color", **environment}), start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        while select.select([self.master], [], [], seconds)[0]:
            self.all += os.read(self.master, 65536).decode(errors="replace")
            seconds = 0

    def screens(self):
        """The lines of each whole drawing."""
        self.read()
        return [[CSI.sub("", line) for line in re.split("\r+\n", frame)] for frame in self.all.split("\x1b[H") if frame.endswith("\x1b[J")]

    def screen(self):
        """The lines of the last whole drawing."""
        return (self.screens() or [[""]])[-1]

    def shows(self, pattern, fact, seconds=lk.ANSWER_S):
        try:
            lk.wait_until(lambda: re.search(pattern, "\n".join(self.screen())), seconds, pattern)
        except lk.Failure:
            return lk.check(False, fact, lambda: f"no {pattern} in {self.screen()}")
        return lk.check(True, fact)

    def showed(self, pattern, fact, begin):
        """Of what is there for a moment only: any drawing after the first @begin."""
        lk.wait_until(lambda: any(re.search(pattern, "\n".join(s)) for s in self.screens()[begin:]), lk.ANSWER_S, pattern)
        lk.ok(fact)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def kill(self, number=signal.SIGKILL):
        self.process.send_signal(number)

    def wait_closed(self, fact, status=0):
        """It ends so, and the terminal is as it was."""
        # What it writes has to be read for it to end.
        lk.wait_until(lambda: self.read(0.02) or self.process.poll() is not None, lk.ANSWER_S, "top ends")
        self.read()
        lk.same(self.process.returncode, status, f"{fact}: exit status {status}")
        lk.check(self.all.endswith(LEAVE) and "\x1b[?25h" in self.all.split("\x1b[H")[-1],
                 f"{fact}: the screen is given back", repr(self.all[-80:]))
        lk.check(termios.tcgetattr(self.slave) == self.before, f"{fact}: the terminal is as it was")
        lk.same(self.process.stderr.read().decode(), "", f"{fact}: without a word")
        self.process.stderr.close()
        os.close(self.master)
        os.close(self.slave)


def two_streams(box, **keys):
    return box.config(None, streams={"pretrain": box.mixed(), "other": box.mixed(lanes=8, seed=5)}, **keys)


def keys(box):
    """What it shows, and every key."""
    daemon = box.daemon(two_streams(box))
    trainer = box.trainer(daemon, stream="pretrain")
    trainer.get("next 30")
    t = Terminal(box, daemon.address, "--interval", "100")
    t.shows(r"lanekeeper .*pid %d" % daemon.pid, "the daemon is named with its process")
    t.shows(r">1 pretrain(.|\n)* 2 other(.|\n)*LANE +SEQUENCE", "streams, and the lanes of the first")
    lk.check(ENTER in t.all, "on the alternate screen")
    lk.check(re.search(r"\x1b\[3[0-9]m", t.all), "in colours")
    lk.same(len(t.screen()), 40, "as many lines as the screen has")
    drawn = len(t.screens())
    trainer.get("next 40")
    t.showed(r"FROM(.|\n)*?\n  \d+ +[\d,]+ +[\d,]+ +\d+ +[\d,.]*[1-9][\d,.k]* +[\d,.]+[kM]? ", "steps and tokens a second while it trains", drawn)
    t.press("2")
    t.shows(r">2 other(.|\n)*nothing has been asked", "a digit chooses the stream")
    t.press("\x1b[D")
    t.shows(r">1 pretrain", "and so do the arrows")
    t.press("\x1b[B\x1b[B")
    t.shows(r"… 2 of 4 lanes above", "which move the lanes, too")
    t.press(" ")
    t.shows(r"PAUSED", "space halts it")
    trainer.get("next 5")
    asked = re.search(r"FROM.*\n +\d+ +([\d,]+)", "\n".join(t.screen())).group(1)
    time.sleep(0.5)
    lk.same(re.search(r"FROM.*\n +\d+ +([\d,]+)", "\n".join(t.screen())).group(1), asked, "then nothing changes")
    t.press(" ")
    t.shows(r"FROM.*\n +\d+ +(?!%s )[\d,]+" % asked, "until it is pressed again")
    t.press("q")
    t.wait_closed("q")


def sizes(box):
    """Any size, and another one meanwhile."""
    daemon = box.daemon(two_streams(box))
    box.trainer(daemon, stream="pretrain").get("next 3")
    t = Terminal(box, daemon.address, "--interval", "100", rows=24, columns=40, NO_COLOR="1")
    t.shows(r"q quit", "24 × 40 has the keys")
    lk.check(len(t.screen()) == 24 and max(map(len, t.screen())) <= 40, "and no more than 24 × 40", t.screen)
    lk.check(not re.search(r"\x1b\[[0-9;]*3[0-9]m", t.all), "NO_COLOR: no colours")
    for rows, columns in ((50, 120), (1, 20), (3, 300)):
        t.resize(rows, columns)
        wanted = min(rows, 50)
        lk.wait_until(lambda: len(t.screen()) == wanted and "q quit" in t.screen()[-1], lk.ANSWER_S, "a new size")
        lk.check(max(map(len, t.screen())) <= columns, f"after a change to {rows} × {columns}")
    t.press("\x03")
    t.wait_closed("^C")


def signals(box):
    """However it ends, and after a stop."""
    daemon = box.daemon(two_streams(box))
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        t = Terminal(box, daemon.address)
        t.shows(r"q quit", "it runs")
        t.kill(number)
        t.wait_closed(number.name)
    t = Terminal(box, daemon.address, "--interval", "100")
    t.shows(r"q quit", "it runs")
    t.press("\x1a")
    stopped = lk.wait_until(lambda: t.read(0.02) or os.waitpid(t.process.pid, os.WNOHANG | os.WUNTRACED)[0],
                            lk.ANSWER_S, "a stop")
    lk.check(stopped == t.process.pid, "^Z stops it")
    lk.check(t.all.endswith(LEAVE) and termios.tcgetattr(t.slave) == t.before, "with the terminal as it was")
    t.all = ""
    t.kill(signal.SIGCONT)
    t.shows(r"q quit", "and it goes on")
    lk.check(ENTER in t.all, "on its screen")
    t.press("q")
    t.wait_closed("q after a stop")


def away(box):
    """A daemon that is not there yet, goes, hangs and comes back."""
    config = two_streams(box)
    box.index(config)
    t = Terminal(box, config, "--interval", "100")
    t.shows(r"AWAY(.|\n)*trying again", "no daemon yet: it says so")
    daemon = box.daemon(config, index=False)
    t.shows(r"pid %d(.|\n)*health +ok" % daemon.pid, "and finds it when it comes")
    daemon.kill()
    t.shows(r"AWAY(.|\n)*What it said last", "gone: it says so, over what was last known")
    daemon = box.daemon(config, index=False)
    t.shows(r"pid %d\nhealth" % daemon.pid, "and back: it goes on")
    os.kill(daemon.pid, signal.SIGSTOP)
    t.shows(r"AWAY", "a daemon that hangs is away, too")
    os.kill(daemon.pid, signal.SIGCONT)
    t.shows(r"pid %d\nhealth" % daemon.pid, "until it answers")
    t.press("q")
    t.wait_closed("q")


def text(box):
    """Where there is no terminal, or a dumb one."""
    config = two_streams(box)
    daemon = box.daemon(config)
    once = box.tool("top", daemon.address, "--interval", "50")
    lk.check(once.returncode == 0 and once.stdout.count("lanekeeper ") == 1 and "\x1b" not in once.stdout,
             "to a pipe: one look, as text", once)
    lk.check("stream     pretrain" in once.stdout and "stream     other" in once.stdout, "with every stream in full")
    lk.check("q quit" not in once.stdout, "and no keys")
    one = box.tool("top", config, "--stream", "other", "--once", "--interval", "50").stdout
    lk.check("stream     other" in one and "stream     pretrain" not in one, "or the one that is named")
    for option, value in (("--config", config), ("--connect", daemon.address)):
        same = box.tool("top", option, value, "--once", "--interval", "50")
        lk.check(same.returncode == 0 and "stream     other" in same.stdout, f"{option} is the same", same)
    many = box.tool("top", config, "--batch", "-n", "3", "--interval", "50")
    lk.check(many.returncode == 0 and many.stdout.count("lanekeeper ") == 3, "--batch -n 3: three of them", many)
    t = Terminal(box, daemon.address, "--interval", "50", columns=40, TERM="dumb")
    lk.wait_until(lambda: t.read(0.02) or t.process.poll() is not None, lk.ANSWER_S, "dumb")
    lk.check("\x1b" not in t.all and max(map(len, t.all.split("\r\n"))) <= 40 and "arena" in t.all,
             "on a dumb terminal of 40 columns: as text that fits", t.all)
    t.process.stderr.close()
    known = box.tool("top", daemon.address, "--once", "--interval", "50", "--stream", "x")
    lk.check(known.returncode == 0, "an unknown stream of an address is no failure", known)
    lk.check(box.tool("top", config, "--stream", "x").returncode == 1, "of a configuration it is")
    closed = subprocess.run([str(box.tool_path), "top", daemon.address, "--batch", "-n", "1", "--interval", "50"],
                            stdout=open("/dev/full", "w"), stderr=subprocess.PIPE, env=box.environment(), check=False)
    lk.same(closed.returncode, 1, "a full disk is a problem")
    daemon.stop()
    gone = box.tool("top", daemon.address, "--once")
    lk.check(gone.returncode == 3 and gone.stdout == "" and "lanekeeper top:" in gone.stderr, "once, without a daemon: exit status 3", gone)
    gone = box.tool("top", daemon.address, "--batch", "-n", "2", "--interval", "50")
    lk.check(gone.returncode == 3 and gone.stdout.count("AWAY") == 2, "in batch it says so each time", gone)
    nowhere = box.tool("top")
    lk.check(nowhere.returncode == 2 and "no daemon is known" in nowhere.stderr, "without an address: wrong arguments", nowhere)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    lk.main([keys, sizes, signals, away, text])
