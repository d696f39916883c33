"""What is made from the tables: completions offer every command and option, manual pages describe them all.

The tables are seen through --help, which is made of them too; shells and formatters that are installed judge
what was made.
"""

import re
import shutil
import subprocess
import sys

import lk

PAGES = ("lanekeeper.1", "lanekeeperd.8", "lanekeeper-worker.8", "lanekeeper.yaml.5")
OPTION = re.compile(r"(?m)^  (--?[a-z0-9][a-z0-9-]*)(?: ([A-Z.]+))?(?: |$)")


def commands(box):
    """{command: [(option, what stands for its value)]}"""
    names = re.findall(r"(?m)^  ([a-z]+) +\S", box.tool("help").stdout)
    return {name: OPTION.findall(box.tool("help", name).stdout) for name in names}


def daemon_options(box):
    said = subprocess.run([str(box.daemon_path), "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?m)^(--[a-z-]+)", said)


def worker_options(box):
    said = subprocess.run([str(box.build / "lanekeeper-worker"), "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?m)^  (--[a-z-]+) ([A-Z]+) ", said)


def script(box, shell):
    done = box.tool("completion", shell)
    lk.check(done.returncode == 0 and done.stdout and not done.stderr, f"completion {shell}", done)
    return box.write(f"completion.{shell}", done.stdout)


def bash(box):
    path = script(box, "bash")
    lk.same(subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True).stderr, "", "bash reads it")
    lines, expected = [], []

    def ask(*words, program="lanekeeper"):
        quoted = " ".join("'" + w + "'" for w in (program, *words))
        lines.append(f"COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; COMPREPLY=(); _{program}; "
                     "printf '%s ' \"${COMPREPLY[@]}\"; echo")

    table = commands(box)
    ask("")
    expected.append(sorted([*table, "help", "--help", "--version"]))
    ask("help", "")
    expected.append(sorted(table))
    for name, options in table.items():
        ask(name, "-")
        expected.append(sorted([o for o, _ in options] + ["--help"]))
    files = sorted(p.name for p in box.path.iterdir())
    box.write("completed.yaml", "")
    for name, options in table.items():
        for option, value in options:
            if value:
                ask(name, option, "comple")
                expected.append(["completed.yaml", "completion.bash"] if value in ("FILE", "PATH", "INDEX", "CONFIG", "DIR") else [])
    ask("config", "")
    expected.append(["check", "reference"])
    ask("status", "--config", "=", "completed")
    expected.append(["completed.yaml"])
    ask("-", program="lanekeeperd")
    expected.append(sorted([*daemon_options(box), "--help", "--version"]))
    ask("--snapshots", "", program="lanekeeperd")
    expected.append(["off", "read", "write"])
    ask("completed", program="lanekeeperd")
    expected.append(["completed.yaml"])
    done = subprocess.run(["bash", "-c", f". {path}\n" + "\n".join(lines)], cwd=box.path, capture_output=True, text=True)
    got = [sorted(line.split()) for line in done.stdout.splitlines()]
    lk.check(done.stderr == "", "without a word", done.stderr)
    lk.check(len(table) > 10 and sum(map(len, table.values())) > 50 and files, "there are commands and options", table)
    lk.same(got, expected, f"{len(lines)} places are completed as the tables say")


def zsh(box):
    path = script(box, "zsh")
    text = path.read_text()
    for name, options in commands(box).items():
        part = re.search(rf"(?ms)^    {name}\)$(.*?);;", text)
        lk.check(part and f"'{name}:" in text, f"zsh: {name} is there")
        missing = [o for o, _ in options if not re.search(rf"'{o}=?\[", part.group(1))]
        lk.same(missing, [], f"zsh: and its options")
    lk.same([o for o in daemon_options(box) if not re.search(rf"'{o}=?\[", text)], [], "zsh: the daemon's options")
    if shutil.which("zsh") is None:
        print("# skipped: zsh is not installed")
        return
    lk.same(subprocess.run(["zsh", "-n", str(path)], capture_output=True, text=True).stderr, "", "zsh reads it")


def fish(box):
    path = script(box, "fish")
    text = path.read_text()
    table = commands(box)
    for name, options in table.items():
        seen = f"complete -c lanekeeper -n '__fish_seen_subcommand_from {name}'"
        flags = {o: ("-l " + o[2:] if o.startswith("--") else "-s " + o[1:]) for o, _ in options}
        lk.same([o for o, f in flags.items() if not re.search(rf"(?m)^{re.escape(seen)} {f} ", text)], [], f"fish: options of {name}")
    if shutil.which("fish") is None:
        print("# skipped: fish is not installed")
        return
    lk.same(subprocess.run(["fish", "-n", str(path)], capture_output=True, text=True).stderr, "", "fish reads it")

    def ask(line):
        done = subprocess.run(["fish", "-N", "-c", f"source {path}; complete -C '{line}'"], cwd=box.path, capture_output=True, text=True)
        return sorted(w.split("\t")[0] for w in done.stdout.splitlines())
    lk.same(ask("lanekeeper "), sorted([*table, "help"]), "fish: all commands")
    lk.same(ask("lanekeeper verify --"), sorted(o for o, _ in table["verify"]), "fish: all options of one")
    lk.same(ask("lanekeeperd --snapshots "), ["off", "read", "write"], "fish: words of the daemon's option")


def plain(path):
    """The page as text, without overstriking, on lines that are never broken."""
    done = subprocess.run(["groff", "-man", "-Tutf8", "-P-c", "-P-b", "-P-u", "-rLL=2000n", "-rHY=0", str(path)], capture_output=True, text=True)
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).replace("\u2010", "-").replace("\u2212", "-")


def manual(box):
    table = commands(box)
    pages = {}
    for page in PAGES:
        done = box.tool("man", page)
        lk.check(done.returncode == 0 and not done.stderr, f"man {page}", done)
        lk.check(all(ord(c) < 127 for c in done.stdout) and "\n\n" not in done.stdout, f"{page}: plain ASCII, no empty lines")
        pages[page] = box.write(page, done.stdout)
    raw = {page: path.read_text().replace("\\-", "-") for page, path in pages.items()}
    sections = dict(re.findall(r"(?ms)^\.SS ([a-z]+)\n(.*?)(?=^\.S[SH] )", raw["lanekeeper.1"]))
    lk.same(sorted(sections), sorted(table), "a section a command")
    for name, options in table.items():
        lk.same([o for o, _ in options if f".TP\n\\fB{o}\\fR" not in sections[name]], [], f"with all options of {name}")
    lk.same([o for o in daemon_options(box) if f".TP\n\\fB{o}\\fR" not in raw["lanekeeperd.8"]], [], "the daemon's options")
    options = worker_options(box)
    lk.check(len(options) == 5 and all(f".TP\n\\fB{o}\\fR \\fI{value}\\fR\n" in raw["lanekeeper-worker.8"] for o, value in options), "the worker's options", options)
    lk.check(all("lanekeeper-worker (8)" in raw[page] for page in ("lanekeeper.1", "lanekeeperd.8")), "which the others name")
    reference = box.tool("config", "reference").stdout
    for section in re.split(r"(?m)^## ", reference)[1:]:
        head = section.splitlines()[0]
        part = re.search(rf"(?ms)^\.SS {re.escape(head)}\n(.*?)(?=^\.S[SH] )", raw["lanekeeper.yaml.5"])
        keys = re.findall(r"(?m)^\| `([^`]+)` \|", section)
        lk.check(part and keys and all(f".TP\n\\fB{k}\\fR" in part.group(1) for k in keys), f"lanekeeper.yaml.5: the keys of {head}", keys)
    lk.check(box.tool("man", "lanekeeper.2").returncode == 2, "no other page")
    if shutil.which("groff"):
        for page, path in pages.items():
            done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", str(path)], capture_output=True, text=True)
            lk.same((done.returncode, done.stderr), (0, ""), f"groff finds {page} good")
        text = plain(pages["lanekeeper.yaml.5"])
        lk.check("Not the number of ranks, which is free" in text and "\\" not in re.sub(r"\\\.|\\ ", "", text), "and it reads as text")
    if shutil.which("mandoc"):
        for page, path in pages.items():
            done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", str(path)], capture_output=True, text=True)
            left = [line for line in done.stdout.splitlines() if "missing date" not in line]
            lk.same(left, [], f"mandoc finds {page} good")
    if not shutil.which("groff") and not shutil.which("mandoc"):
        print("# skipped: neither groff nor mandoc is installed")


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    lk.main([bash, zsh, fish, manual])
