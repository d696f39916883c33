#!/usr/bin/env python3
"""test_mutants.py BUILD: each mutant of mutants/list.txt still applies, some are caught, and one that changes nothing
is not. All of them: make mutants.
"""

import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOME = ("tie-to-the-last", "fetched-from-the-start", "checksum-of-file")

HARMLESS = """name harmless
area mix
file server/core/source.c
- s->share[i].charged = 0;
+ s->share[i].charged = 1 - 1;
what nothing
"""

STALE = HARMLESS.replace("- s->share[i].charged = 0;", "- s->share[i].charged = 2;")


def mutants(*options):
    done = subprocess.run([sys.executable, HERE / "mutants/mutants.py", sys.argv[1], "--jobs", "1", *options],
                          stdout=subprocess.PIPE, text=True)
    print(done.stdout, end="")
    return done.returncode, done.stdout


def main():
    failed = False

    def expect(what, good):
        nonlocal failed
        failed |= not good
        print(f"{'passed' if good else 'FAILED'}: {what}")

    code, _ = mutants("--applies")
    expect("each mutant applies", code == 0)
    code, out = mutants("--seeds", "500", *SOME)
    expect("those that break something are caught", code == 0 and f"caught={len(SOME)} of={len(SOME)}" in out)
    with tempfile.TemporaryDirectory() as folder:
        own = pathlib.Path(folder) / "list.txt"
        own.write_text(HARMLESS)
        code, out = mutants("--seeds", "50", "--list", str(own))
        expect("one that breaks nothing is not", code == 1 and "caught=0 of=1" in out and "ESCAPED harmless" in out)
        own.write_text(STALE)
        code, out = mutants("--applies", "--list", str(own))
        expect("an old line that is gone is named", code == 1 and "0 times, expected once" in out)
    sys.exit(failed)


main()
