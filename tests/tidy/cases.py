"""Which case is where: holds the table of tests/CASES.md against the tests.

    cases.py [ROOT]       exit status 1 where they differ
    cases.py --self-test  on a small made-up tree with one fault of every kind

A case is a failure that users of other loaders had; RC-NNN is its number. A row of the table names files below
tests/, each in backquotes and followed by the tests in it: the file must have the number, and define the tests. Or
it says "does not apply yet" and why. A number that a test has and the table has not is a fault, too.
"""

import pathlib
import re
import sys
import tempfile

NUMBER = re.compile(r"RC[-_](\d{3})", re.I)
ROW = re.compile(r"^\| RC-(\d{3}) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$")
NOT_YET = "does not apply yet: "
DEFINED = {".py": r"^def {}\(", ".c": r"^START_TEST\({}\)"}


def tests_of(root):
    """{path below tests/: text} of everything that can be a test."""
    found = {}
    for path in sorted((root / "tests").rglob("*")):
        name = path.relative_to(root / "tests")
        if path.suffix in (".py", ".c", ".h", ".sh") and "corpus" not in name.parts and str(name) != "tidy/cases.py":
            found[str(name)] = path.read_text(errors="replace")
    return found


def wrong_places(number, where, files):
    """What is wrong with the last column of a row: [text]."""
    wrong = []
    places = re.findall(r"`([^`]+)`([^;]*)", where)
    if not places:
        return [f"RC-{number}: names no file, and does not say \"{NOT_YET}why\""]
    for name, tests in places:
        text = files.get(name)
        if text is None:
            wrong.append(f"RC-{number}: there is no tests/{name}")
            continue
        if number not in NUMBER.findall(text):
            wrong.append(f"RC-{number}: tests/{name} does not have the number")
        for test in filter(None, re.split(r"[,\s]+", tests)):
            pattern = DEFINED.get(pathlib.PurePath(name).suffix, r"^{}\b").format(re.escape(test))
            if not re.search(pattern, text, re.M):
                wrong.append(f"RC-{number}: tests/{name} has no test {test}")
    return wrong


def faults(root):
    """([text], rows of the table, rows that do not apply yet)"""
    files = tests_of(root)
    wrong, seen, waiting = [], set(), 0
    for line in (root / "tests" / "CASES.md").read_text().splitlines():
        if not line.startswith("| RC"):
            continue
        row = ROW.match(line)
        if not row:
            wrong.append(f"no row of four columns: {line[:60]}")
            continue
        number, where = row[1], row[4].strip()
        if number in seen:
            wrong.append(f"RC-{number}: has two rows")
        seen.add(number)
        if where.startswith(NOT_YET) and len(where) > len(NOT_YET) + 10:
            waiting += 1
        else:
            wrong += wrong_places(number, where, files)
    for name, text in files.items():
        wrong += [f"RC-{n}: tests/{name} has the number, the table has not" for n in sorted(set(NUMBER.findall(text)) - seen)]
    return wrong, len(seen), waiting


def self_test():
    rows = {
        "| RC-001 | a | b | `e2e/test_a.py` one, two; `unit/x/test_b.c` rc_001_three |": None,
        "| RC-002 | a | b | does not apply yet: there are no images |": None,
        "| RC-003 | a | b | `e2e/test_a.py` |": "RC-003: tests/e2e/test_a.py does not have the number",
        "| RC-004 | a | b | `e2e/test_c.py` |": "RC-004: there is no tests/e2e/test_c.py",
        "| RC-005 | a | b | `e2e/test_a.py` gone |": "RC-005: tests/e2e/test_a.py has no test gone",
        "| RC-006 | a | b | does not apply yet: no |": 'RC-006: names no file, and does not say "does not apply yet: why"',
        "| RC-007 | a | b |": "no row of four columns: | RC-007 | a | b |",
        "| RC-002 | a | b | does not apply yet: there are still no images |": "RC-002: has two rows",
        None: "RC-008: tests/unit/x/test_b.c has the number, the table has not",
    }
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "tests/e2e").mkdir(parents=True)
        (root / "tests/unit/x").mkdir(parents=True)
        (root / "tests/e2e/test_a.py").write_text('def one(box):\n    """RC-001, RC-005"""\n\n\ndef two(box):\n    pass\n')
        (root / "tests/unit/x/test_b.c").write_text("START_TEST(rc_001_three)\n/* rc_008 */\n")
        (root / "tests/CASES.md").write_text("# Cases\n\n" + "\n".join(filter(None, rows)) + "\n")
        found = faults(root)[0]
    expected = [why for why in rows.values() if why]
    if sorted(found) != sorted(expected):
        sys.exit("\n".join(["self-test: found", *sorted(found), "expected", *sorted(expected)]))
    print(f"ok - {len(expected)} faults of as many kinds are found, and nothing else")


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    wrong, rows, waiting = faults(root)
    for text in wrong:
        print(f"tests/CASES.md: {text}")
    print(f"{rows} cases: {rows - waiting} have tests, {waiting} do not apply yet; {len(wrong)} faults")
    sys.exit(1 if wrong or rows == 0 else 0)


if __name__ == "__main__":
    main()
