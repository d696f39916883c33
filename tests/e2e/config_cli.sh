#!/bin/sh
# config_cli.sh LANEKEEPER: `lanekeeper config` answers, and exits 0, 1 or 2 as it says it does.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 LANEKEEPER" >&2; exit 2; }
lk=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# expect STATUS PATTERN ARGUMENTS…: that exit status, and a line like the pattern on either output.
expect() {
    status=$1 pattern=$2
    shift 2
    got=0
    "$lk" config "$@" >"$dir/out" 2>&1 || got=$?
    if [ "$got" -ne "$status" ] || ! grep -q -- "$pattern" "$dir/out"; then
        echo "FAIL: lanekeeper config $*: exit status $got, expected $status and a line with $pattern:" >&2
        cat "$dir/out" >&2
        exit 1
    fi
}

mkdir "$dir/docs"
printf '{"text":"one"}\n{"text":"two"}\n' >"$dir/docs/a.jsonl"
recipe='streams: {s: {lanes: 2, batch: 2, sequence: 8, tokenizer: {bytes: true, append: eos},
  datasets: {docs: {path: docs, weight: 0.9}}, pipeline: [pack: {algorithm: concat}]}}'
printf '%s\n' "$recipe" >"$dir/good.yaml"
printf '%s\n' "$recipe" | sed 's/sequence/sequenz/' >"$dir/misspelt.yaml"
printf '%s\n' "$recipe" | sed 's/path: docs/path: nowhere/' >"$dir/nowhere.yaml"

expect 0 '^| `lanes` |' reference
expect 2 'reference takes no more' reference more
expect 2 'arguments are missing: lanekeeper config check FILE'
expect 2 'expected check or reference, found "frobnicate"' frobnicate
expect 2 'check: expected one FILE' check
expect 2 'unknown option --yaml' check "$dir/good.yaml" --yaml
expect 0 '^usage:' --help
expect 1 'did you mean "sequence"' check "$dir/misspelt.yaml"
expect 1 'expected a configuration file, found a folder' check "$dir"
expect 1 'No such file' check "$dir/absent.yaml"
expect 1 'dataset docs: .*nowhere' check "$dir/nowhere.yaml"
expect 1 'order digest  unknown' check "$dir/nowhere.yaml"
expect 1 "no such index; make it: .lanekeeper index $dir/good.yaml.\$" check "$dir/good.yaml"
expect 1 'share 1.000000000' check "$dir/good.yaml"
expect 1 '"ok":false,"problems":\[".*sequenz' check --json "$dir/misspelt.yaml"
expect 1 '"order_digest":null' check --json "$dir/good.yaml"

for path in gpt2 docs; do
    printf '%s\n' "$recipe" | sed "s/bytes: true/hf: $path/" >"$dir/hub.yaml"
    expect 1 "stream s, tokenizer: .*/$path.*(hf: is the path of a tokenizer.json; nothing is downloaded)\$" check "$dir/hub.yaml"
done

"$lk" index "$dir/good.yaml" >/dev/null
expect 0 "^$dir/good.yaml: no problem found\$" check "$dir/good.yaml"
echo '{"text":"three"}' >>"$dir/docs/a.jsonl"
expect 1 "changed in size a.jsonl; .*index them anew.*: .lanekeeper index $dir/good.yaml.\$" check "$dir/good.yaml"
"$lk" index "$dir/good.yaml" >/dev/null
printf x | dd of="$dir/index/docs.lkindex" bs=1 seek=100 conv=notrunc 2>/dev/null
expect 1 "broken index: .*; make it anew: .lanekeeper index $dir/good.yaml.\$" check "$dir/good.yaml"
tail -1 "$dir/out" | grep -q 'broken index' || { echo "FAIL: the problem is not the last thing that is said" >&2; exit 1; }

# What it says of memory is what explain says, word for word and number for number.
"$lk" index "$dir/good.yaml" >/dev/null
says() { # PATTERN: what both say that is like it, once
    "$lk" config check "$dir/good.yaml" $2 | grep -oE "$1" >"$dir/check"
    "$lk" explain "$dir/good.yaml" $2 | grep -oE "$1" >"$dir/explain"
    if [ "$(wc -l <"$dir/check")" -ne "$3" ] || ! diff "$dir/check" "$dir/explain" >&2; then
        echo "FAIL: config check and explain differ in $1, or do not say it:" >&2
        cat "$dir/check" >&2
        exit 1
    fi
}
says '^  (a step  |buffers  |arena|training|state|cache|counts|processes|together) .*' '' 9
says '"memory(_of_all)?":\{[^}]*\}' --json 2

# An arena that cannot be there: refused before anything is made, by the check and by the daemon; a private daemon makes do
# with less. One that takes all that there is: a note of both.
there=$(grep -o '"there_bytes":[0-9]*' "$dir/check" | cut -d: -f2)
arena() { printf '%s\nruntime: {workers: 1, run_dir: %s, arena: %s}\n' "$recipe" "$dir/run-$1" "$2" >"$dir/$1.yaml"; }
starts() { # NAME PATTERN [--until-eof]: what the daemon says, which with that ends at once if it starts
    got=0
    : | timeout 60 "$(dirname "$lk")/lanekeeperd" $3 "$dir/$1.yaml" >"$dir/out" 2>&1 || got=$?
    grep -q "$2" "$dir/out" || { echo "FAIL: lanekeeperd $1.yaml, expected a line with $2:" >&2; cat "$dir/out" >&2; exit 1; }
}
if [ "$there" -lt 1000000000000 ]; then # more cannot be written down
    arena large "$((there + 4096))"
    arena all "$there"
    why="runtime.arena: .* is more than the memory there is: .* (.*/.*)"
    expect 1 "$dir/large.yaml: $why" check "$dir/large.yaml"
    expect 1 "\"ok\":false,\"problems\":\[\"$dir/large.yaml: $why" check --json "$dir/large.yaml"
    starts large "cannot_start code=RESOURCE_EXHAUSTED reason=\".*$why" ""
    [ "$got" -eq 1 ] && [ ! -e "$dir/run-large" ] || { echo "FAIL: exit status $got, or a folder was made" >&2; exit 1; }
    note="$dir/all.yaml: runtime: up to about .* may be taken (arena .*), and there are "
    expect 0 "^$note" check "$dir/all.yaml"
    starts all "warn config: note text=\"$note" --until-eof
    [ "$got" -eq 0 ] || { echo "FAIL: exit status $got with an arena of all there is" >&2; exit 1; }
    starts large "warn config: note text=\"$dir/large.yaml: $why; half of that is used" --until-eof
    [ "$got" -eq 0 ] || { echo "FAIL: exit status $got of a private daemon whose arena is too large" >&2; exit 1; }
fi

mkdir "$dir/packed"
for mb in 2 3 1; do { printf '{"text":"'; head -c "${mb}000000" /dev/zero | tr '\0' x; printf '"}\n{"text":"y"}\n'; } | gzip >"$dir/packed/$mb.jsonl.gz"; done
{ printf '%s\n' "$recipe" | sed 's/path: docs/path: packed/'; echo 'runtime: {index_dir: other, workers: 2, cache: 3MiB}'; } >"$dir/packed.yaml"
"$lk" index "$dir/packed.yaml" >/dev/null
expect 1 'shard 3.jsonl.gz: .*: set runtime.cache to at least 6MiB' check "$dir/packed.yaml"
sed -i 's/cache: 3MiB/cache: 6MiB/' "$dir/packed.yaml"
expect 0 'no problem found' check "$dir/packed.yaml"
echo "config_cli: ok"
