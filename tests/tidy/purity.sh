#!/bin/sh
# The pure part calls nothing of the outside world: links base, seq and core to one object and holds
# what that still needs against a list.
#
#   purity.sh BUILD        exit status 1 when it needs anything else
#   purity.sh --self-test  an object that asks for the time must be found out
set -eu

# Memory, strings and formatting; stopping the process (lk_check_failed); XXH3; which vectors the processor
# has, which changes no result. What compilers and sanitizers add on their own account follows.
allowed='
memcpy memmove memset memcmp memchr strlen strcmp strncmp strchr strnlen
malloc calloc realloc free
vsnprintf snprintf __vsnprintf_chk __snprintf_chk
abort fprintf stderr
XXH.*
__cpu_model __cpu_features2
bcmp __stack_chk_fail __memcpy_chk __memmove_chk __memset_chk __fprintf_chk _GLOBAL_OFFSET_TABLE_
__asan_.* __ubsan_.* __sanitizer_.* __gcov_.*
'

check() { # objects and archives
    dir=$(mktemp -d)
    ${LD:-ld} -r -o "$dir/pure.o" --whole-archive "$@"
    pattern=$(printf '%s' "$allowed" | tr -s ' \n' '||' | sed 's/^|//; s/|$//')
    ${NM:-nm} -u "$dir/pure.o" | awk '{print $NF}' | grep -Evx "$pattern" >"$dir/foreign" || true
    count=$(${NM:-nm} "$dir/pure.o" | grep -c ' T ' || true)
    status=0
    if [ "$count" -eq 0 ]; then
        echo "purity: $* define nothing"
        status=1
    fi
    while read -r symbol; do
        user=$(${NM:-nm} -A -u "$@" | grep -w "$symbol" | sed 's/: *U.*//' | tr '\n' ' ')
        echo "purity: $symbol is not on the list; used by $user"
        status=1
    done <"$dir/foreign"
    rm -rf "$dir"
    return $status
}

if [ "${1:-}" = --self-test ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    printf '#include <time.h>\nlong now(void); long now(void) { return time(NULL); }\n' >"$work/a.c"
    printf 'int one(void); int one(void) { return 1; }\n' >"$work/b.c"
    ${CC:-cc} -c -o "$work/a.o" "$work/a.c"
    ${CC:-cc} -c -o "$work/b.o" "$work/b.c"
    if check "$work/a.o" >"$work/said" || ! grep -q 'purity: time ' "$work/said"; then
        echo "purity.sh: a call of time() was not found out"
        exit 1
    fi
    check "$work/b.o"
    exit 0
fi

build=${1:-build}
check "$build/lib/base.a" "$build/lib/seq.a" "$build/lib/core.a"
echo "purity: base, seq and core call nothing of the outside world"
