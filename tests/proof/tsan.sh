#!/bin/bash
# tsan.sh BUILD [--short] [--only PATTERN]: runs, in a build with -fsanitize=thread, the tests of what has threads, and
# whole daemons with workers and trainers. --short: those that take a few seconds. Whichever process of a test reports
# a race fails it, also one whose exit status nobody looks at. The last line is "tsan: tests=N failed=N reports=N".
#
#   tsan.sh --self-test  a race must be found, in a process that somebody else started and does not ask about
set -u
cd "$(dirname "$0")/../.." || exit 2
export CK_DEFAULT_TIMEOUT=60 CK_TIMEOUT_MULTIPLIER=10

# Where addresses are drawn from 32 bits, as newer kernels do, the sanitizer's own memory is in their way.
fixed=
! setarch "$(uname -m)" -R true 2>/dev/null || fixed="setarch $(uname -m) -R"

# Within a second or two: rpc has the daemon's threads, host the writers of snapshots and counts, client those that wait.
short="rpc/test_handover rpc/test_pipe host/test_snapshots"
long="rpc/test_server rpc/test_sockets rpc/test_http host/test_counts host/test_loop host/test_pool_remote
    host/test_pool_local client/test_client client/test_waiting client/test_memory client/test_link client/test_training
    worker/test_task format/test_shard_cache"
e2e="test_same test_training test_counts test_snapshots test_hold test_health test_data"

run() { # name, command; in a folder of its own for what is reported
    local dir=$work/${1//\//_} status
    mkdir -p "$dir"
    TSAN_OPTIONS="log_path=$dir/report:exitcode=66:allocator_may_return_null=1:suppressions=$PWD/tests/proof/tsan.supp:${TSAN_OPTIONS:-}" \
        timeout 1200 $fixed "${@:2}" >"$dir/out" 2>&1
    status=$?
    n=$((n + 1))
    if [ $status -ne 0 ] || compgen -G "$dir/report*" >/dev/null; then
        bad=$((bad + 1))
        printf 'FAILED  %s (exit status %d)\n' "$1" $status
        grep -aE '^not ok|:[FE]:' "$dir/out" || tail -n 20 "$dir/out"
        head -n 60 "$dir"/report* 2>/dev/null
    else
        printf 'passed  %s\n' "$1"
    fi
}

summary() {
    echo "tsan: tests=$n failed=$bad reports=$(find "$work" -name 'report*' -size +0 | wc -l)"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
n=0 bad=0
if [ "${1:-}" = --self-test ]; then
    cat >"$work/program.c" <<'C'
#include <pthread.h>
static int shared;
static void *add(void *arg) { shared++; return arg; }
int main(void)
{
    pthread_t other;
    if (pthread_create(&other, 0, add, 0) != 0)
        return 1;
    shared++;
    return pthread_join(other, 0);
}
C
    ${CC:-gcc} -g -fsanitize=thread -pthread -o "$work/program" "$work/program.c" || exit 1
    run race sh -c "$work/program || true" >"$work/said"
    [ "$(summary)" = "tsan: tests=1 failed=1 reports=1" ] || { cat "$work/said"; echo "tsan.sh: a race was not found"; exit 1; }
    exit 0
fi
build=${1:?usage: tsan.sh BUILD [--short] [--only PATTERN]}
shift
only=.
while [ $# -gt 0 ]; do
    case $1 in
    --short) long='' e2e=test_same ;;
    --only) only=$2; shift ;;
    *) sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
for t in $short $long; do
    [[ $t =~ $only ]] && run "$t" "$build/tests/unit/$t"
done
for t in $e2e; do
    [[ e2e/$t =~ $only ]] && run "e2e/$t" python3 "tests/e2e/$t.py" "$build"
done
summary
[ $bad -eq 0 ]
