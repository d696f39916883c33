#!/bin/bash
# valgrind.sh BUILD [SEEDS]: memcheck on the unit tests of base, seq, core, op, format, store and host, and on SEEDS
# (default 40) of the simulator: an invalid access, a value that nobody wrote, or a leak fails the test. BUILD is an
# ordinary build. The last line is "valgrind: programs=N failed=N".
#
#   valgrind.sh --self-test  an uninitialised read and a leak must be found, also in a child that Check forks
set -u
cd "$(dirname "$0")/../.." || exit 2
export CK_DEFAULT_TIMEOUT=60 CK_TIMEOUT_MULTIPLIER=20

# Left out: what starts workers or other programs (they are not under memcheck), and what compares all ways of the
# processor's vectors, of which valgrind knows those up to AVX2 only (the others are told apart by CPUID, and so not
# taken).
skipped="host/test_pool host/test_pool_deaths host/test_pool_local host/test_pool_remote"

check() { # command; for children, too
    valgrind --quiet --error-exitcode=99 --exit-on-first-error=no --leak-check=full --show-leak-kinds=definite \
        --errors-for-leak-kinds=definite --trace-children=no --child-silent-after-fork=no --num-callers=25 \
        --suppressions=tests/proof/valgrind.supp "$@" 2>&1
}

run() { # name, command
    local out
    n=$((n + 1))
    # A child's exit status tells Check, which says "Early exit"; what memcheck says begins with ==.
    if out=$(check "${@:2}") && ! grep -q '^==' <<<"$out"; then
        printf 'passed  %s\n' "$1"
    else
        bad=$((bad + 1))
        printf 'FAILED  %s\n%s\n' "$1" "$(tail -n 60 <<<"$out")"
    fi
}

n=0 bad=0
if [ "${1:-}" = --self-test ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cat >"$work/a.c" <<'C'
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    if (fork() != 0)
        return wait(NULL) < 0;
    int *p = malloc(40);
    if (argc > 1 && argv[1][0] == 'r')
        exit(p[3] == 7 ? 0 : (free(p), 0));
    if (argc == 1)
        free(p);
    p = NULL;
    exit(0);
}
C
    ${CC:-gcc} -g -O0 -o "$work/a" "$work/a.c" || exit 1
    run clean "$work/a" >"$work/said"
    run read "$work/a" read >>"$work/said"
    run leak "$work/a" leak >>"$work/said"
    [ "$(grep -cE '^passed  clean|^FAILED  (read|leak)' "$work/said")" -eq 3 ] || { cat "$work/said"; exit 1; }
    exit 0
fi
build=${1:?usage: valgrind.sh BUILD [SEEDS]}
for layer in base seq core op format store host; do
    for t in tests/unit/"$layer"/test_*.c; do
        t=${t#tests/unit/} t=${t%.c}
        case " $skipped " in *" $t "*) ;; *) run "$t" "$build/tests/unit/$t" ;; esac
    done
done
run "sim" "$build/tests/sim/sim" --seeds "0..${2:-40}" --jobs 1
echo "valgrind: programs=$n failed=$bad"
[ $bad -eq 0 ]
