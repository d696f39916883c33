"""Holds tests/FAULTS.md against the faults that tests/chaos has.

    faults.py             exit status 1 where the table is another one
    faults.py --write     makes it anew: after a change of tests/chaos
    faults.py --self-test what differs is found, and what --write makes does not
"""

import pathlib
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent
HEAD = """# Faults, and what is promised of each

Made by `python3 tests/tidy/faults.py --write` of what stands beside the tests themselves; `make check` holds it against them.
`make chaos` runs all of them (`CHAOS=PATTERN` for some, `SEED=N` for other moments), `make check` a short form of each. Where the
digests are said to be the same, they are those of an undisturbed run, for every rank and step. Paths are below `tests/`.

Last is what the last long form came to and took (`tests/chaos/run.py build --note` keeps it): how many faults were survived, on
two cores that had ten times as much to do; of a test that stands elsewhere, its time.

"""


def listed():
    done = subprocess.run([sys.executable, str(TESTS / "chaos/run.py"), "--list"], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def difference(path, table):
    """The first line that differs, or None."""
    wanted = (HEAD + table).splitlines()
    got = path.read_text().splitlines() if path.exists() else []
    for i in range(max(len(wanted), len(got))):
        a, b = (lines[i] if i < len(lines) else "nothing" for lines in (got, wanted))
        if a != b:
            return f"line {i + 1}: {a[:100]}\n  expected {b[:100]}"
    return None


def self_test():
    table = "| fault | promise |\n|---|---|\n| a | b |\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "FAULTS.md"
        found = [difference(path, table)]
        for text in (HEAD + table, HEAD + table.replace("b", "c"), HEAD + table + "| d | e |\n", HEAD):
            path.write_text(text)
            found.append(difference(path, table))
    if [f is None for f in found] != [False, True, False, False, False]:
        sys.exit(f"self-test: {found}")
    print("ok - a table that is missing, other, longer or shorter is found, the right one is not")


def main():
    path = TESTS / "FAULTS.md"
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    table = listed()
    if table.count("\n") < 10:
        sys.exit("tests/chaos lists next to nothing")
    if sys.argv[1:] == ["--write"]:
        path.write_text(HEAD + table)
    why = difference(path, table)
    if why:
        sys.exit(f"tests/FAULTS.md is not what tests/chaos lists: {why}\n  python3 tests/tidy/faults.py --write")
    print(f"{table.count(chr(10)) - 2} faults, as listed")


if __name__ == "__main__":
    main()
