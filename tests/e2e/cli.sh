#!/bin/bash
# cli.sh [BUILD]: the command line tool as a person and as a program use it, on a tiny corpus of its
# own. Offline commands must leave nothing behind: no process, socket, folder or snapshot.
set -eu
build=$(realpath "${1:-build}")
lk=$build/lanekeeper
for program in lanekeeper lanekeeperd lanekeeper-worker; do
    [ -x "$build/$program" ] || { echo "cli.sh: $build/$program is missing" >&2; exit 2; }
done
dir=$(mktemp -d)
daemon=
finish() {
    [ -z "$daemon" ] || kill -9 "$daemon" 2>/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT
unset LANEKEEPER_ADDRESS
mkdir "$dir/tmp"
cd "$dir"

passed=0 failed=0
ok() { # ok FACT COMMAND…: the fact holds when the command succeeds
    local fact=$1
    shift
    if "$@" >"$dir/why" 2>&1; then
        passed=$((passed + 1))
        echo "ok $((passed + failed)) - $fact"
    else
        failed=$((failed + 1))
        echo "not ok $((passed + failed)) - $fact"
        sed 's/^/# /' "$dir/why"
        sed 's/^/# stdout: /' "$dir/out" | head -20
        sed 's/^/# stderr: /' "$dir/err" | head -20
    fi
}

# run STATUS ARGUMENTS…: that exit status; leaves what was said in out and err.
run() {
    local expected=$1 status=0
    shift
    TMPDIR=$dir/tmp "$lk" "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -eq "$expected" ] || { echo "exit status $status, expected $expected"; return 1; }
}
says() { # says STATUS PATTERN ARGUMENTS…: the same, and a line like the pattern
    local status=$1 pattern=$2
    shift 2
    run "$status" "$@" && grep -h -e "$pattern" out err
}
then_holds() { # then_holds SCRIPT COMMAND…: the command succeeds, and then the script does
    local script=$1
    shift
    "$@" && bash -c "$script"
}
json() { # json ARGUMENTS…: exit status 0 and one JSON document, without a floating-point number
    run 0 "$@" && python3 - out <<'EOF'
import json, sys
def refuse(text):
    raise ValueError("not an integer: " + text)
json.load(open(sys.argv[1]), parse_float=refuse)
EOF
}
json_error() { # json_error STATUS CODE ARGUMENTS…: a failure that a program can read
    local status=$1 code=$2
    shift 2
    run "$status" "$@" && python3 -c 'import json, sys
assert json.load(open("out"))["error"]["code"] == sys.argv[1]' "$code"
}

# ---- a corpus: rows of unlike lengths, some that a filter drops, one with an escape sequence ----

mkdir -p data/docs data/man
python3 - <<'EOF'
import json, random
r = random.Random(7)
words = "ash birch cedar elm fir hazel larch maple oak pine rowan yew été 水".split()
for name, shards, rows in (("docs", 3, 60), ("man", 2, 50)):
    for s in range(shards):
        with open(f"data/{name}/{s}.jsonl", "w") as f:
            for i in range(rows):
                text = f"{name} {s} {i} " + " ".join(r.choice(words) for _ in range(r.randint(2, 60)))
                if name == "docs" and i % 7 == 3:
                    text = "short"
                if name == "docs" and s == 0 and i == 5:
                    text = "a \x1b[2J\x07 of a terminal and enough of it"
                f.write(json.dumps({"text": text}) + "\n")
EOF
recipe() { # recipe SEED
    cat <<EOF
streams:
  mixed:
    seed: $1
    lanes: 4
    batch: 8
    sequence: 64
    tokenizer: {bytes: true, append: eos}
    datasets:
      docs: {path: data/docs, weight: 3}
      man: {path: data/man, weight: 1}
    pipeline:
      - filter: {min_bytes: 10}
      - shuffle: {buffer: 8}
      - pack: {algorithm: exact_fit, pool: 8}
  once:
    lanes: 2
    batch: 4
    sequence: 64
    epochs: 1
    tokenizer: {bytes: true}
    datasets:
      docs: {path: data/docs}
    pipeline:
      - pack: {algorithm: concat}
runtime:
  run_dir: run
  workers: 1
  arena: 32MiB
  snapshots: {every: 4}
EOF
}
recipe 1 >lk.yaml
recipe 2 >other.yaml
mixed="--config lk.yaml --stream mixed"
offline="$mixed --offline"
: >out
: >err

# ---- usage ----

ok "no command is a usage error" says 2 '^usage: lanekeeper COMMAND'
ok "an unknown command is one, and the nearest is offered" says 2 'did you mean "digest"' dijest
ok "an unknown option is one, and the nearest is offered" says 2 'did you mean "--world"' digest 0..2 --wordl 2
ok "an option without its value is one" says 2 'expected W after it' digest 0..2 --world
ok "a number out of range is one" says 2 'from 1 to 256' digest 0..2 --world 0
ok "a number with a sign is one" says 2 'an integer' digest 0..2 --world +2
ok "a flag with a value is one" says 2 'takes no value' status --json=yes
ok "steps that run backwards are one" says 2 'FROM < TO' digest 5..2
ok "a missing argument is one" says 2 'arguments are missing' peek
ok "an argument too many is one" says 2 'unexpected argument "3"' peek 1 3
ok "a configuration that is no option's value is told how to be" says 2 'did you mean --config lk.yaml' peek 1 lk.yaml
ok "--offline without a configuration is one" says 2 'needs --config' digest 0..2 --offline
ok "--offline with --connect is one" says 2 'not with --connect' digest 0..1 $offline --connect ipc:///x
ok "no daemon at all is one" says 2 'no daemon is known' digest 0..2
ok "one of several streams has to be named" says 2 'mixed, once' digest 0..2 --config lk.yaml
ok "an unknown stream is a problem, naming those that there are" \
    says 1 'it has mixed, once' digest 0..2 --config lk.yaml --stream nix
ok "help names the exit statuses" says 0 '3 no daemon could be reached' help
for command in index config measure explain status peek trace digest tokenize detokenize verify; do
    ok "help knows $command" says 0 "^usage: lanekeeper $command" help "$command"
    ok "help lists $command" says 0 "^  $command " help
done
ok "--version says which" says 0 '^lanekeeper [0-9]' --version
ok "a daemon that is not there has exit status 3" says 3 'no connection' status --connect ipc://$dir/none.sock
ok "and so for a program" json_error 3 UNAVAILABLE digest 0..1 --connect ipc://$dir/none.sock --json
ok "the environment names the daemon" \
    env LANEKEEPER_ADDRESS=ipc://$dir/none.sock bash -c '! "$0" status 2>err && grep none.sock err' "$lk"
ok "a configuration that cannot be read is a problem" says 1 'absent.yaml' digest 0..1 --config absent.yaml --offline
ok "a stream without its index is a problem that says how to mend it" says 1 'lanekeeper index' explain $mixed

# ---- without a daemon ----

ok "index makes the indexes of a configuration" run 0 index lk.yaml
ok "explain says rows and blocks" says 0 ' 180 rows in 3 shards' explain $mixed
ok "explain calls an estimate one" says 0 'estimated from' explain $mixed
ok "explain knows that a stream has no end" says 0 'the stream has none' explain $mixed
ok "explain estimates the end of one that has" says 0 'estimated: after about [0-9,]* steps' explain lk.yaml --stream once
ok "explain says what may be dropped" says 0 'less than 10 bytes' explain $mixed
ok "explain says what ends a document" says 0 'tokenise: token 256 (eos) after each document; ' explain $mixed
ok "or that nothing does" says 0 'no token after a document says that it ends' explain lk.yaml --stream once
ok "explain without a sample estimates nothing" says 0 'no estimate' explain $mixed --sample 0
ok "explain answers a program" json explain $mixed --json
ok "a full disk is no success" bash -c '! "$@" >/dev/full' - "$lk" explain $mixed

# ---- by a private daemon ----

ok "digest works offline" says 0 '^run  0..12 ' digest 0..12 $offline
cp out digests
ok "and says the same again" then_holds 'cmp digests out' run 0 digest 0..12 $offline
ok "a part of the steps has the digests of the whole" \
    bash -c 'cmp <(sed -n 5,8p digests) <("$@" | head -4)' - env TMPDIR=$dir/tmp "$lk" digest 4..8 $offline
for world in 1 2 3 7 8; do
    ok "the cuts of $world ranks add up" says 0 ": 0 steps differ" digest 0..6 $offline --world $world
    ok "and half of them came through shared memory" \
        grep "^$((12 * world)) cuts of $world ranks fetched, $((6 * world)) of them" out
done
ok "more ranks than sequences are refused" says 1 'world size of 1 to 8' digest 0..1 $offline --world 9
ok "digest answers a program" json digest 0..4 $offline --world 2 --json
once='--config lk.yaml --stream once --offline'
ok "a step beyond the end is a problem that says where the end is" says 1 'ends after [0-9]* steps' digest 0..4000 $once
end=$(sed -n 's/.*ends after \([0-9]*\) steps.*/\1/p' err)
ok "and the steps that there are have been printed" bash -c '
    [ $1 -gt 3 ] && [ "$(grep -c "^step " out)" = $1 ] && grep "^step $(($1 - 1)) " out && grep "^run  0\.\.$1 " out' - $end
cp out once
ok "as they are without those that there are not" then_holds 'cmp once out' run 0 digest 0..$end $once
ok "also where every rank's cut is fetched" says 1 '^[0-9]* cuts of 2 ranks .* 0 steps differ' digest $((end - 2))..$((end + 2)) $once --world 2
ok "for a program, too" then_holds "python3 -c 'import json
d = json.load(open(\"out\"))
assert d[\"stream_ends\"] and (d[\"from\"], d[\"to\"], len(d[\"steps\"])) == ($end - 1, $end, 1), d'" run 1 digest $((end - 1))..4000 $once --json
ok "nothing but steps beyond the end is nothing" then_holds '[ ! -s out ] && grep "ends after" err' run 1 digest $end..$((end + 1)) $once
ok "and an error for a program" json_error 1 OUT_OF_RANGE digest $end..$((end + 1)) $once --json
ok "verify works the steps out that there are" says 1 "^$end checked, 0 bad" verify --steps 0..4000 $once
ok "and says where the end is" grep "ends after $end steps" err
ok "nothing but steps beyond the end is nothing there, too" says 1 "ends after $end steps" verify --steps $end..4000 $once

# The oracle: a token of a byte tokenizer is a byte of the row's text, and 256 ends it.
cat >oracle.py <<'EOF'
import json, sys
peek, trace = (json.load(open(f)) for f in sys.argv[1:3])
rows = {}
for name, shards in (("docs", 3), ("man", 2)):
    first = 0
    for s in range(shards):
        for i, line in enumerate(open(f"data/{name}/{s}.jsonl")):
            rows[name, f"{s}.jsonl", i] = (first + i, list(json.loads(line)["text"].encode()) + [256])
        first += i + 1
pieces = []
for row in peek["rows"]:
    at = 0
    for p in row["pieces"]:
        number, ids = rows[p["dataset"], p["shard"], p["row_in_shard"]]
        assert p["row"] == number and p["at"] == at and len(p["ids"]) == p["tokens"]
        assert p["ids"] == ids[p["first"]:p["first"] + p["tokens"]], p
        assert p["text"].encode()[:4] == bytes(i for i in p["ids"] if i < 256)[:4] or p["first"] > 0
        pieces.append((row["row"], at, p["tokens"], p["dataset"], p["shard"], p["row_in_shard"], p["first"]))
        at += p["tokens"]
    assert at == row["used"] <= 64
assert len(peek["rows"]) == 8 and len(pieces) >= 8
assert pieces == [(p["sequence"], p["at"], p["tokens"], p["dataset"], p["shard"], p["row_in_shard"],
                   p["first"]) for p in trace["pieces"]]
EOF
ok "peek answers a program" json peek 3 $offline --rows 8 --json
cp out peek.json
ok "trace answers a program" json trace 3 $offline --json
cp out trace.json
ok "every piece has the very bytes of the row that it names" python3 oracle.py peek.json trace.json
ok "peek shows where each piece is from" says 0 '^--- [a-z]*, shard [0-9].jsonl, row [0-9]*' peek 3 $offline
ok "peek shows the text" says 0 '\(docs\|man\) [0-9] [0-9]* [a-z]' peek 3 $offline --rows 8
ok "trace of one sequence is that sequence's" then_holds '! grep -v "^sequence 2 " out' run 0 trace 3 $offline --row 2

ok "verify works steps out twice, apart from each other" says 0 '^6 checked, 0 bad' verify $offline --steps 1..7
ok "verify --steps needs a configuration" says 2 'needs --config' verify --steps 0..1 --connect ipc:///x

read -r dataset shard row < <(python3 -c 'import json
p = json.load(open("trace.json"))["pieces"][3]
print(p["dataset"], p["shard"], p["row_in_shard"])')
ok "the inverse of a trace finds the step" says 0 '^step 3, sequence' trace --find $dataset $shard $row --within 0..6 $offline
ok "and says which lane draws the row" grep '^pass 0: lane [0-3] draws it' out
ok "and what was searched" grep 'in steps 0..6$' out
ok "it answers a program" json trace --find $dataset $shard $row --within 0..6 $offline --json
ok "a row that is dropped is not found, and the rule is named" \
    says 1 'never used: filter_bytes' trace --find docs 0.jsonl 3 --within 0..6 $offline
ok "a search ends where the stream ends" \
    says 0 'where the stream ends' trace --find docs 0.jsonl 3 --config lk.yaml --stream once --offline
ok "a shard that is not there is a problem" says 1 'no shard' trace --find docs 9.jsonl 3 $offline
ok "a row that is not there is a problem" says 1 'rows 0 to 59' trace --find docs 0.jsonl 60 $offline
found=$(TMPDIR=$dir/tmp "$lk" trace --find docs 0.jsonl 5 --within 0..100 $offline | sed -n 's/^step \([0-9]*\), sequence \([0-9]*\) .*/\1 --row \2/p' | head -1)
ok "control characters of a row do not reach the terminal" says 0 '\\x1b\[2J\\x07' peek $found $offline
ok "not one" bash -c '! grep -q "$(printf "\033")" out'

# ---- nothing left behind ----

remains() { # processes of ours by their environment, and anything in the folder for temporary files
    grep -lzxF "TMPDIR=$dir/tmp" /proc/[0-9]*/environ 2>/dev/null || true
    ls -A "$dir/tmp"
}
nothing_remains() { # at once, or within 20 s of the death of the command
    local tries
    for tries in $(seq 400); do
        [ -n "$(remains)" ] || return 0
        read -rt 0.05 <> <(:) || true
    done
    remains
    return 1
}
ok "offline commands leave no process, socket or folder" test -z "$(remains)"
ok "and no snapshots" test ! -e snapshots
ok "and not the run folder of the configuration" test ! -e run
for signal in HUP TERM KILL; do # a background job of a shell ignores SIGINT
    rm out
    TMPDIR=$dir/tmp "$lk" digest 0..1000000 $offline >out 2>err &
    command=$!
    until [ -s out ] || ! kill -0 $command 2>/dev/null; do read -rt 0.02 <> <(:) || true; done
    ok "a private daemon runs before SIG$signal" test -S tmp/lanekeeper-*/lanekeeper.sock
    kill -$signal $command
    wait $command 2>/dev/null || true
    ok "after SIG$signal nothing remains" nothing_remains
done
for delay in 0.001 0.003 0.006 0.01 0.02 0.04; do
    TMPDIR=$dir/tmp timeout -s TERM $delay "$lk" digest 0..1000000 $offline >out 2>err || true
done
ok "however early the end comes" nothing_remains
mv data/docs/2.jsonl gone
ok "a private daemon that cannot start says why" says 1 '2.jsonl' digest 0..1 $offline
ok "and for a program" json_error 1 FAILED_PRECONDITION digest 0..1 $offline --json
ok "and leaves nothing" nothing_remains
mv gone data/docs/2.jsonl

# ---- with a daemon ----

start() {
    "$build/lanekeeperd" "$1" 2>daemon.log &
    daemon=$!
    until grep -q 'ready' daemon.log || ! kill -0 $daemon; do read -rt 0.02 <> <(:) || true; done
}
stop() {
    kill $daemon
    wait $daemon
    daemon=
}
start lk.yaml
address=ipc://$dir/run/lanekeeper.sock
ok "status knows that nothing has been asked for" says 0 'nothing has been asked for' status --config lk.yaml
ok "a daemon gives the digests that a private one gave" then_holds 'cmp digests out' run 0 digest 0..12 $mixed
ok "the cuts of 5 ranks add up there, too" says 0 ': 0 steps differ' digest 0..6 $mixed --world 5
ok "status shows lanes" says 0 '^    lane 3  *at sequence ' status --config lk.yaml --interval 50
ok "and what each rule dropped" grep 'dropped rows: filter_bytes [1-9]' out
ok "and speed" grep 'tokens/s' out
ok "and all streams" bash -c '[ $(grep -c "^stream " out) -eq 2 ]'
ok "or the one asked for" then_holds '[ $(grep -c "^stream " out) -eq 1 ]' run 0 status $mixed --interval 50
ok "status takes a configuration, or an address, as top does" says 0 '^daemon ' status lk.yaml --interval 20
ok "the latter" says 0 '^daemon ' status $address --interval 20
if setpriv --reuid 65534 --clear-groups "$lk" --version >/dev/null 2>&1; then
    ok "another user is told that sockets are not for them" bash -c \
        'setpriv --reuid 65534 --clear-groups "$0" status "$1" 2>&1 | grep "for its own user"' "$lk" $address
fi
ok "status answers a program" then_holds 'python3 -m json.tool out' run 0 status --config lk.yaml --json
ok "status goes on when told to" says 0 '^daemon ' status --config lk.yaml --watch --count 3 --interval 20
ok "as often as told" bash -c '[ $(grep -c "^daemon " out) -eq 3 ]'
ok "peek without a configuration shows ids" says 0 '^[0-9 ]* [0-9]*$' peek 3 --connect $address --stream mixed
ok "served steps are those that are worked out again" says 0 '^8 checked, 0 bad' verify $mixed --steps 2..10
ok "verify answers a program" json verify $mixed --steps 0..2 --json
ok "another stream is refused, naming both" says 1 'two streams' verify --config other.yaml --stream mixed --steps 0..2
for command in "digest 0..1" "peek 0" "trace 0"; do
    ok "$command of a daemon that serves another stream by now says so" says 0 'other.yaml describes .* now' $command --config other.yaml --stream mixed
    ok "of one that serves it nothing is said" then_holds '[ ! -s err ]' run 0 $command $mixed
done
ok "a search in it is refused" says 1 'two streams' trace --find docs 0.jsonl 6 --config other.yaml --stream mixed --within 0..2
stop
ok "a worker says what it lacks" bash -c '! "$0/lanekeeper-worker" --connect tcp://a:1 2>err && grep "secret is missing: --token-file" err' "$build"
ok "and what an address is" bash -c 'echo s >token; ! "$0/lanekeeper-worker" --connect a:1 --token-file token 2>err && grep "expected tcp://host:port" err' "$build"
ok "a daemon that has ended is not reached, and how to do is told" says 3 '`lanekeeperd lk.yaml` starts one; --offline does without' status --config lk.yaml

# ---- files ----

ok "the daemon wrote snapshots" bash -c 'ls snapshots/*.lks'
ok "verify finds indexes and snapshots good" says 0 ' 0 bad$' verify index snapshots
ok "every snapshot was looked at" bash -c '[ $(grep -c "^good .*\.lks: snapshot" out) -eq $(ls snapshots/*.lks | wc -l) ]'
ok "verify reads the data again" says 0 '^good  docs: dataset and index: 3 shards, 180 rows' verify $mixed
snapshot=$(ls snapshots/*.lks | head -1)
cp "$snapshot" whole
head -c -1 whole >"$snapshot"
ok "a torn snapshot is bad" says 1 "^BAD   $snapshot" verify snapshots
python3 - whole "$snapshot" <<'EOF'
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[len(b) - 3] ^= 4
open(sys.argv[2], "wb").write(b)
EOF
ok "one with a flipped bit is bad" says 1 "^BAD   $snapshot" verify "$snapshot"
ok "and it is for a program" bash -c '"$0" verify "$1" --json | python3 -c "import json, sys; r = json.load(sys.stdin); assert r[\"bad\"] == 1"' "$lk" "$snapshot"
ok "offline steps with a bad snapshot are the same" then_holds 'cmp digests out' run 0 digest 0..12 $offline
head -c -8 index/docs.lkindex >short.lkindex
ok "a torn index is bad" says 1 '^BAD   short.lkindex' verify short.lkindex
ok "other files are none" says 1 'expected a snapshot' verify lk.yaml
ok "nor is a folder of others" says 1 '^BAD   data/docs: .*found none' verify data/docs
mkdir nothing
ok "an empty one is well" says 0 '^0 checked, 0 bad' verify nothing
sed -i 's/cedar/ceder/' data/man/1.jsonl
ok "data that changed are bad" says 1 '^BAD   man: .*1.jsonl' verify $mixed
ok "at the end nothing remains" nothing_remains

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
