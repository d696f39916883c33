#!/bin/sh
# analyze.sh BUILD [JOBS]: clang's static analyzer and clang-tidy's bugprone and cert checks over all of server,
# client and proto, as .clang-tidy says. BUILD is where the generated headers are. Prints what is found, and last
# "analyze: files=N findings=N"; exit status 1 if there is any, or a file could not be read.
#
#   analyze.sh --self-test  a double free, a null pointer and a forgotten result must be found
set -u

tidy() { # arguments of the compiler follow --
    ${CLANG_TIDY:-clang-tidy} --quiet "$@" -std=gnu17 -D_GNU_SOURCE -DLK_VERSION='"0"' -fvisibility=hidden 2>&1 |
        grep -Ev '^[0-9]+ warnings? (generated|treated as errors?)|^[0-9]+ warnings? and|^$'
}

if [ "${1:-}" = --one ]; then # build, folder of what is said, source
    out=$3/$(echo "$4" | tr -c 'a-zA-Z0-9\n' _)
    tidy "$4" -- -Iserver -I. -I"$2" >"$out"
    exit 0
fi
if [ "${1:-}" = --self-test ]; then
    command -v "${CLANG_TIDY:-clang-tidy}" >/dev/null || { echo "skipped: clang-tidy is not installed"; exit 77; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    cp "$(dirname "$0")/../../.clang-tidy" "$work"
    cat >"$work/a.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
int twice(int n);
int twice(int n)
{
    char *p = malloc(8);
    free(p);
    if (n > 3)
        free(p);
    fclose(stdin);
    int *q = n < 0 ? NULL : &n;
    return *q;
}
C
    tidy "$work/a.c" -- >"$work/said"
    for check in clang-analyzer-unix.Malloc clang-analyzer-core.NullDereference cert-err33-c; do
        grep -q "error: .*\[$check" "$work/said" || { echo "analyze.sh: $check was not found:"; cat "$work/said"; exit 1; }
    done
    exit 0
fi

build=${1:?usage: analyze.sh BUILD [JOBS]}
said=$(mktemp -d)
trap 'rm -rf "$said"' EXIT
files=$(find server client proto -name '*.c' | sort)
printf '%s\n' "$files" | xargs -P "${2:-2}" -I{} "$0" --one "$build" "$said" {}
cat "$said"/* 2>/dev/null
findings=$(cat "$said"/* 2>/dev/null | grep -Ec '(error|warning): ')
echo "analyze: files=$(printf '%s\n' "$files" | wc -l) findings=$findings"
[ "$findings" -eq 0 ]
