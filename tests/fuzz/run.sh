#!/bin/sh
# run.sh BUILD NAME SECONDS: fuzzes one target of a build with libFuzzer, from its seeds, from the corpus that
# is kept here and from what earlier runs found. What it finds is in BUILD/NAME, what went wrong in
# BUILD/wrong; the exit status is 1 then.
set -eu
[ $# -eq 3 ] || { echo "usage: $0 BUILD NAME SECONDS" >&2; exit 2; }
build=$1 name=$2 seconds=$3
here=$(dirname "$0")
mkdir -p "$build/found/$name" "$build/wrong" "$build/seeds/$name" "$here/corpus/$name"
log=$build/$name.log
case $name in tokenizer | config | index | rows) longest=16384 ;; *) longest=2048 ;; esac
if "$build/tests/fuzz/fuzz_$name" -max_total_time="$seconds" -max_len=$longest -timeout=90 -rss_limit_mb=4096 \
    -use_value_profile=1 -print_final_stats=1 -artifact_prefix="$build/wrong/$name-" \
    "$build/found/$name" "$here/corpus/$name" "$build/seeds/$name" >"$log" 2>&1; then
    echo "fuzz $name: $(sed -n 's/.*number_of_executed_units: *//p' "$log") inputs in $seconds s," \
        "$(find "$build/found/$name" -type f | wc -l) kept: nothing wrong"
else
    grep -v '^#' "$log" | head -n 80
    echo "fuzz $name: see $log and $build/wrong"
    exit 1
fi
