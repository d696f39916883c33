#!/bin/sh
# index_cli.sh LANEKEEPER: `lanekeeper index` makes and verifies indexes, and exits 0, 1 or 2 as it
# says it does.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 LANEKEEPER" >&2; exit 2; }
case $1 in /*) lk=$1 ;; *) lk=$PWD/$1 ;; esac
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

fail() {
    echo "FAIL: $*" >&2
    cat out err >&2
    exit 1
}

# expect STATUS PATTERN ARGUMENTS…: that exit status, and a line like the pattern on either output.
expect() {
    status=$1 pattern=$2
    shift 2
    got=0
    "$lk" index "$@" >out 2>err || got=$?
    [ "$got" -eq "$status" ] || fail "lanekeeper index $*: exit status $got, expected $status"
    grep -q -- "$pattern" out err || fail "lanekeeper index $*: no line with $pattern"
}

same() {
    cmp -s "$1" "$2" || fail "$1 and $2 differ"
}

mkdir -p docs/sub man
printf '{"text":"one"}\n{"text":"two"}\n' >docs/a.jsonl
printf '\357\273\277{"text":"three"}\r\n\r\n{"text":"four"}' >docs/sub/b.jsonl
{ printf '{"text":"five"}\n' | gzip; printf '{"text":"six"}\n' | gzip; } >docs/c.jsonl.gz
: >docs/empty.jsonl
echo note >docs/README
printf '{"text":"seven"}\n' >man/a.jsonl
printf '{"text":"eight"}\n' >man/b.jsonl

expect 2 'arguments are missing: lanekeeper index PATH'
expect 2 'expected -o INDEX' docs
expect 2 '-o: expected INDEX after it' docs -o
expect 2 'an integer from 1 to 256, found "0"' docs -o x --threads 0
expect 2 'an integer from 1 to 256, found "1x"' docs -o x --threads 1x
expect 2 'unknown option --frobnicate' docs -o x --frobnicate
expect 0 '^usage:' --help

# The same bytes whatever the threads, the place of the data, and how the same files are named.
expect 0 '^made/docs: 4 shards, 6 rows' docs -o made/docs --threads 1
grep -q 'ignored docs/README' err || fail "nothing is said of what was ignored"
expect 0 '4 shards' docs/ -o four --threads 4
same made/docs four
cp -R docs elsewhere
expect 0 '4 shards' elsewhere -o five
same made/docs five
expect 0 '2 shards' man -o six
expect 0 '2 shards' 'man/*.jsonl' -o seven
expect 0 '2 shards' man/b.jsonl man/a.jsonl -o eight
same six seven
same six eight
(umask 077; expect 0 'shards' man -o nine)
[ "$(find . -name '*lanekeeper-*' | wc -l)" -eq 0 ] || fail "a temporary file was left"

expect 0 '"ok":true,"shards":4,"rows":6,' docs -o x --json
"$lk" index docs -o x --json 2>/dev/null | grep -q '^{"datasets":\[{.*}\],"ok":true}$' ||
    fail "the output is more than one object"

# Descriptors: far more shards than a process may open.
mkdir many
i=0
while [ $i -lt 300 ]; do
    printf '{"text":"x"}\n' >many/$i.jsonl
    i=$((i + 1))
done
(ulimit -n 32; "$lk" index many -o many.index --threads 4 >out 2>err) || fail "300 shards, 32 descriptors"

# What changed since is found and named.
expect 0 'verified, 4 shards' docs -o made/docs --verify
printf '{"text":"one"}\n{"text":"twO"}\n' >docs/a.jsonl
expect 1 'docs/a.jsonl changed since it was indexed: row 1 is the first' docs -o made/docs --verify
expect 1 '"ok":false,"code":"DATA_LOSS","error":".*a.jsonl' docs -o made/docs --verify --json
echo '{"text":"more"}' >>docs/a.jsonl
expect 1 'changed in size a.jsonl' docs -o made/docs --verify
expect 1 'no such index' docs -o nowhere --verify
printf junk >broken
expect 1 'broken index' docs -o broken --verify

# What cannot be indexed leaves the old index as it was, and no part of a new one.
printf '{"text":"five"}\n' | gzip | head -c 20 >docs/c.jsonl.gz
expect 1 'docs/c.jsonl.gz: byte 20: the file ends inside' docs -o made/docs
same made/docs four
expect 1 'docs/c.jsonl.gz' docs -o fresh
[ ! -e fresh ] || fail "a failed run left an index"
cp docs/a.jsonl docs/a.jsonl.gz
expect 1 'the same shard twice' docs -o fresh
expect 1 'no such file\|No such file' absent -o fresh
expect 1 'several paths must be files of one directory' man elsewhere -o fresh
[ ! -w /dev/full ] || ! "$lk" index man -o x >/dev/full 2>/dev/null || fail "a full disk looks well"

# All datasets of a configuration, each once.
cat >c.yaml <<'END'
streams:
  s: {lanes: 1, batch: 1, sequence: 8, tokenizer: {bytes: true, append: eos},
      datasets: {m: {path: man}, e: {path: elsewhere}}, pipeline: [pack: {algorithm: concat}]}
  t: {lanes: 1, batch: 1, sequence: 8, tokenizer: {bytes: true, append: eos},
      datasets: {m: {path: man}}, pipeline: [pack: {algorithm: concat}]}
END
expect 0 'm.lkindex: 2 shards' c.yaml
[ "$(wc -l <out)" -eq 2 ] || fail "two datasets, not two lines"
same "$(find . -name m.lkindex)" six
expect 0 'verified, 4 shards' c.yaml --verify
rm man/b.jsonl
expect 1 'removed b.jsonl' c.yaml --verify
grep -q 'verified, 4 shards' out || fail "one bad dataset kept another from being looked at"
expect 1 'six.yaml: cannot open it' six.yaml
echo "index_cli: ok"
