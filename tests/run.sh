#!/bin/bash
# run.sh [--build DIR] [--sanitized DIR] [--jobs N] [--only PATTERN] [--list] [--run COMMAND]: builds and runs every test
# that it finds, plainly and, those of C, again under ASan and UBSan. All are run, whatever fails.
#
# A test passes with exit status 0, is skipped with 77, and fails otherwise or after ten
# minutes. Output goes to DIR/test-logs/NAME.log; that of failed tests is shown. The last line is
# "N passed, N failed, N skipped", and the exit status 0 if none failed. A leak in any process that a test started
# fails it, whoever asked how that process ended. --run: builds nothing, and runs a command as the only test.
#
# Found: tests/unit/*/test_*.c, tests/e2e/*.sh, tests/*/test_*.py (argument: the build folder), the faults of
# tests/chaos in their short form, and the scripts of tests/tidy, tests/golden and tests/oracle as the table below says.
set -u
build=build asan=build-asan jobs=2 only=. only_list= only_run= limit=600 make=${MAKE:-make}
while [ $# -gt 0 ]; do
    case $1 in
    --build) build=$2; shift ;;
    --sanitized) asan=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --only) only=$2; shift ;;
    --list) only_list=1 ;;
    --run) only_run=$2; shift ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done
cd "$(dirname "$0")/.." || exit 2
logs=$build/test-logs
python=python3
[ ! -x "$build/venv/bin/python" ] || python=$PWD/$build/venv/bin/python
export LK_TOKENIZERS=$build/tokenizers CK_DEFAULT_TIMEOUT=60 CK_TIMEOUT_MULTIPLIER=3
[ -z "${CI:-}" ] || export LK_REQUIRE_TOKENIZERS=1
export ASAN_OPTIONS=abort_on_error=1:detect_leaks=1${LK_ASAN_MORE:+:$LK_ASAN_MORE} LSAN_OPTIONS=suppressions=$PWD/tests/lsan.supp:print_suppressions=0
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=all"

# One line a test: name, tab, command.
tests() {
    local t name dir compare text
    for t in tests/unit/*/test_*.c; do
        name=${t#tests/} name=${name%.c}
        printf '%s\t%s\n' "$name" "$build/tests/$name"
        printf '%s (sanitized)\t%s\n' "$name" "$asan/tests/$name"
    done
    for t in tests/tidy/*; do
        case $t in
        *.py) printf '%s\t%s\n' "${t#tests/}" "$python $t" "${t#tests/} --self-test" "$python $t --self-test" ;;
        *.sh) printf '%s\t%s\n' "${t#tests/}" "$t $build" "${t#tests/} --self-test" "$t --self-test" ;;
        esac
    done
    printf '%s\t%s\n' golden/order "$python tests/golden/order_golden.py --dump $build/tests/oracle/lane_dump"
    printf '%s\t%s\n' oracle/order "$python tests/oracle/compare_order.py --dump $build/tests/oracle/lane_dump --jobs 1"
    printf '%s\t%s\n' "oracle/order (sanitized)" \
        "$python tests/oracle/compare_order.py --dump $asan/tests/oracle/lane_dump --jobs 1 --cases 60 --seed 1000"
    printf '%s\t%s\n' oracle/json "$python tests/oracle/json_oracle.py $build/tests/oracle/fields_main"
    printf '%s\t%s\n' "oracle/json (sanitized)" "$python tests/oracle/json_oracle.py $asan/tests/oracle/fields_main"
    printf '%s\t%s\n' oracle/components \
        "needs tokenizers && $python tests/oracle/components_oracle.py --quick $build/tests/oracle/components_main"
    compare="needs tokenizers && needs tiktoken && $python tests/oracle/tokenizer_oracle.py --quick --encode"
    text="--text server tests/oracle"
    for name in $(sh tests/fetch_tokenizers.sh --names check); do
        [ -d "$build/tokenizers/$name" ] || continue
        printf '%s\t%s\n' "oracle/tokenizer $name" \
            "$compare $build/tests/oracle/encode_main --mb 3 $build/tokenizers/$name $text"
    done
    if [ -d "$build/tokenizers/gpt2" ]; then
        for name in '[a-l]' '[m-p]' '[q-z]'; do
            printf '%s\t%s\n' "oracle/tokenizer grafts $name (sanitized)" \
                "$python tests/oracle/graft.py $build/tokenizers $build/grafts '$name*' && $compare $asan/tests/oracle/encode_main $build/grafts/$name*/ $text"
        done
        printf '%s\t%s\n' "oracle/tokenizer patterns" \
            "$compare $build/tests/oracle/encode_main --patterns $build/tokenizers/gpt2"
    fi
    for name in cases small; do
        printf '%s\t%s\n' "oracle/tokenizer $name" "$compare $build/tests/oracle/encode_main --$name"
        printf '%s\t%s\n' "oracle/tokenizer $name (sanitized)" \
            "$compare $asan/tests/oracle/encode_main --$name --seed 2 --count 60"
    done
    # Without libFuzzer: the inputs that are kept, and those that fuzzing begins with.
    for t in tests/fuzz/fuzz_*.c; do
        name=$(basename "$t" .c) name=${name#fuzz_}
        for dir in "$build" "$asan"; do
            printf '%s\t%s\n' "fuzz/$name$([ "$dir" = "$build" ] || echo ' (sanitized)')" \
                "$python tests/fuzz/seeds.py $dir/fuzz-seeds $name && $dir/tests/fuzz/fuzz_$name tests/fuzz/corpus/$name $dir/fuzz-seeds/$name"
        done
    done
    for t in tests/e2e/*.sh; do
        case $t in
        */index_cli.sh | */config_cli.sh) printf '%s\t%s\n' "${t#tests/}" "$t $PWD/$build/lanekeeper" ;;
        *) printf '%s\t%s\n' "${t#tests/}" "$t $build" ;;
        esac
    done
    for t in tests/*/test_*.py; do
        [ -e "$t" ] || continue
        printf '%s\t%s\n' "${t#tests/}" "$python $t $build"
    done
    for t in tests/chaos/chaos_*.py; do
        name=$(basename "$t" .py) name=${name#chaos_}
        printf '%s\t%s\n' "chaos/$name" "$python tests/chaos/run.py $build --short --only '^$name\.'"
    done
    printf '%s\t%s\n' "sim/test_sim.py (sanitized)" "$python tests/sim/test_sim.py $asan 300"
    printf '%s\t%s\n' "leaks (sanitized)" "$python tests/proof/leaks.py $asan"
    # With real processes again; but not what measures memory or time, which sanitizers multiply.
    for t in tests/e2e/cli.sh tests/e2e/config_cli.sh tests/e2e/test_*.py; do
        case $t in
        */config_cli.sh) printf '%s (sanitized)\t%s\n' "${t#tests/}" "$t $PWD/$asan/lanekeeper" ;;
        *.sh) printf '%s (sanitized)\t%s\n' "${t#tests/}" "$t $asan" ;;
        */test_kill.py | */test_limits.py | */test_net.py | */test_zephon.py) ;;
        *) printf '%s (sanitized)\t%s\n' "${t#tests/}" "$python $t $asan" ;;
        esac
    done
}

needs() { # a Python module
    "$python" -c "import $1" 2>/dev/null || { echo "skipped: the Python package $1 is not installed"; exit 77; }
}
export -f needs
export python

run_one() { # name, command
    local log=$logs/${1//[^a-zA-Z0-9_.-]/_} begin=$EPOCHREALTIME status word report
    report=$(realpath -m "$log").report
    ASAN_OPTIONS=$ASAN_OPTIONS:log_path=$report timeout -k 10 "$limit" bash -c "$2" >"$log.log" 2>&1 </dev/null
    status=$?
    # What sanitizers say, of whichever process; its end alone may be nobody's business, as a worker's is.
    if cat "$report".* >>"$log.log" 2>/dev/null && grep -q 'LeakSanitizer: detected' "$report".*; then
        status=1
    fi
    case $status in 0) word=passed ;; 77) word=skipped ;; 124 | 137) word=TIMEOUT ;; *) word=FAILED ;; esac
    printf '%s\t%s\t%s\n' $word "$1" "$log.log" >"$log.status"
    awk -v s=$word -v n="$1" -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%-7s %6.1f s  %s\n", s, b - a, n }'
}

build_all() { # every program, so that one that does not compile fails its own test alone
    $make --no-print-directory -k -j"$jobs" BUILD="$build" tests || broken=1
    # At -O1 it compiles in two thirds of the time, and runs a tenth slower. Warnings are the plain build's to fail of.
    $make --no-print-directory -k -j"$jobs" BUILD="$asan" SAN="$sanitize" OPT=-O1 WERROR= tests || broken=1
}

show_failures() {
    local word name log
    while IFS=$'\t' read -r word name log; do
        printf '\n==== %s: %s (%s)\n' "$word" "$name" "$log"
        tail -n 60 "$log"
    done < <(cat "$logs"/*.status | grep -E '^(FAILED|TIMEOUT)')
}

# These take longest: they begin first, so that at the end no processor waits for one that began late.
longest="sim/test_sim.py
python/test_install.py
e2e/test_counts.py (sanitized)
e2e/test_data.py (sanitized)
e2e/test_exact.py (sanitized)
e2e/test_hostile.py (sanitized)
e2e/cli.sh (sanitized)
e2e/test_same.py (sanitized)
e2e/test_cases.py (sanitized)
chaos/calls
chaos/network
chaos/trainers
e2e/test_data.py
e2e/test_kill.py
e2e/test_snapshots.py (sanitized)
e2e/test_init.py (sanitized)
unit/host/test_pool_deaths (sanitized)
unit/client/test_link (sanitized)
unit/client/test_link"

longest_first() { # lines of tests()
    awk -F'\t' 'NR == FNR { place[$1] = NR; next } { print ($1 in place ? place[$1] : 1000) "\t" $0 }' \
        <(printf '%s\n' "$longest") - | sort -s -n -k1,1 | cut -f2-
}

count() {
    cat "$logs"/*.status 2>/dev/null | grep -cE "^($1)"
}

list=$(tests | grep -E -- "$only" | longest_first)
[ -z "$only_run" ] || list=$(printf 'run\t%s' "$only_run")
if [ -n "$only_list" ]; then
    printf '%s\n' "$list"
    exit 0
fi
rm -rf "$logs"
mkdir -p "$logs"
broken=0
[ -n "$only_run" ] || build_all
# One more than there are processors for: many a test mostly waits.
while IFS=$'\t' read -r name command; do
    while [ "$(jobs -rp | wc -l)" -gt "$jobs" ]; do wait -n; done
    run_one "$name" "$command" &
done <<<"$list"
wait
show_failures
[ $broken -eq 0 ] || echo "run.sh: not everything could be built: see above"
failed=$(($(count 'FAILED|TIMEOUT') + broken))
echo
echo "$(count passed) passed, $failed failed, $(count skipped) skipped" | tee "$logs/summary"
[ "$failed" -eq 0 ]
