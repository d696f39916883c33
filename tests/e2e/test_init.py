"""`lanekeeper init`: the file that it writes works as it is, whatever the folder holds."""

import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import lk


def zst(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def init(box, folder, name="lanekeeper.yaml", status=0, *more):
    """(the file's path, what was said)"""
    done = box.tool("init", folder, "-o", box.path / name, *more)
    lk.same(done.returncode, status, f"init of {folder.name}: exit status {status}") or print(done)
    return box.path / name, done


def works(box, config, steps=2, serves=True):
    """index, check, and, as it takes longer, explain, serve: the shares that it has, by name."""
    box.index(config)
    check = box.tool("config", "check", config, "--json")
    lk.check(check.returncode == 0, f"{config.name}: config check finds it good", check)
    explain = box.tool("explain", config) if serves else check
    lk.check(explain.returncode == 0, f"{config.name}: explain, too", explain)
    if serves:
        served = box.tool("digest", f"0..{steps}", "--offline", "--config", config)
        lk.check(served.returncode == 0 and len(served.stdout.splitlines()) == steps + 1, f"{config.name}: and it serves", served)
    return {d["name"]: d for d in json.loads(check.stdout)["streams"][0]["datasets"]}


def field(config, name):
    return re.search(rf"(?m)^ +{re.escape(name)}: {{path: (.*), text: (.*), weight: ([0-9.]+)}}$", config.read_text()).groups()


def formats(box):
    """Every format, nested fields, weights by bytes, a tokenizer, and trainers over what comes of it."""
    data = box.path / "data"
    docs, code, man = lk.prose(1, 300, 400), lk.prose(2, 200, 900), lk.prose(3, 100, 200)
    box.write("data/docs/a.jsonl", lk.rows(docs[:200]))
    box.write("data/docs/deeper/b.jsonl", lk.rows(docs[200:]))
    box.write("data/man/m-0.jsonl.gz", gzip.compress(lk.rows(man).encode()))
    rows = "".join(json.dumps({"id": "x" * 40, "body": {"content": t, "a.b": "y", "n": 7}, "tags": ["z" * 999]}) + "\n" for t in code)
    packed = shutil.which("zstd") is not None
    box.write("data/code/c.jsonl" + (".zst" if packed else ""), zst(rows.encode()) if packed else rows)
    box.write("data/README", "no shard")
    box.write("data/empty-folder/notes.txt", "none")
    box.write("data/table.csv", "a,b")
    config, done = init(box, data)
    said = done.stderr.splitlines()
    lk.check(len(said) == 2 and re.search(r"left out: .*/empty-folder: no shard found .*1 other file, one is notes\.txt$", said[0]) and
             re.search(r"left out: .*/table\.csv: expected a name like", said[1]), "what is passed over is named, but for a README", said)
    lk.same(field(config, "code")[1], "body.content", "the longest string is the text, however deep it lies")
    lk.same(field(config, "docs")[:2], ("data/docs", "text"), "paths start from the file's folder")
    lk.check("no tokenizer was found" in done.stdout, "it says that there is no tokenizer")
    shares = works(box, config)
    size = {"docs": sum(map(len, docs)), "code": sum(map(len, code)), "man": sum(map(len, man))}
    lk.same(sorted(shares), sorted(size), "datasets are the subfolders that have shards")
    for name, dataset in shares.items():
        share = size[name] / sum(size.values())
        lk.check(abs(float(dataset["share"]) - share) < 1e-6, f"the share of {name} is that of its text", (dataset, share))
    again = config.read_text()
    refused = box.tool("init", data, "-o", config)
    lk.check(refused.returncode == 1 and "is not overwritten" in refused.stderr and config.read_text() == again,
             "a file that is there is not touched", refused)
    daemon = box.daemon(config, index=False)
    got = box.trainer(f"ipc://{box.path}/run/lanekeeper.sock").get("next 3")
    lk.check([b["global"] for b in got] == [32] * 3, "a trainer gets batches of a daemon on it", got)
    daemon.stop()


def tokenizers(box):
    """What lies near is found, tried, and used; what is broken is named."""
    source = pathlib.Path(os.environ.get("LK_TOKENIZERS", box.build / "tokenizers"))
    box.dataset("data/docs", lk.prose(1, 100))
    (box.path / "data/tokenizer").mkdir()
    box.write("data/tokenizer/tokenizer.json", '{"version": "1.0", "model": {"type": "None"}}')
    config, done = init(box, box.path / "data", "broken.yaml")
    lk.check("a tokenizer cannot be used: " in done.stderr and "tokenizer/tokenizer.json" in done.stderr, "a broken tokenizer is named", done)
    lk.check("# cannot be used: " in config.read_text() and "bytes: true" in config.read_text(), "in the file as well")
    works(box, config)
    if not (source / "gpt2/tokenizer.json").exists():
        print("# skipped: no tokenizers were fetched")
        return
    for f in ("tokenizer.json", "tokenizer_config.json"):
        if (source / "gpt2" / f).exists():
            shutil.copy(source / "gpt2" / f, box.path / "data/tokenizer" / f)
    config, done = init(box, box.path / "data", "gpt2.yaml")
    lk.check("      hf: data/tokenizer/tokenizer.json" in config.read_text() and "append: eos" in config.read_text(), "a good one is used", done)
    works(box, config)


def broken(box):
    """Bad rows and bad shards: named with file and row, the rest goes on."""
    good = lk.rows(lk.prose(1, 60))
    box.write("data/cut/a.jsonl", good)
    box.write("data/cut/b.jsonl", good + '{"text": "never ends\n' + good)
    box.write("data/lacks/a.jsonl", good + '{"title": "no text"}\n{"text": 5}\n' + good)
    box.write("data/array/a.jsonl", "[1, 2]\n" + good)
    box.write("data/latin/a.jsonl", good.encode() + b'{"text": "caf\xe9"}\n')
    box.write("data/mark/a.jsonl", b"\xef\xbb\xbf" + good.replace("\n", "\r\n\r\n").encode().rstrip())
    config, done = init(box, box.path / "data")
    lk.check(re.search(r"cut/b\.jsonl: row 60 at byte 5932: byte 20: the text ends inside the string", done.stderr), "a malformed row is named, with what was expected", done.stderr)
    lk.check(re.search(r'dataset lacks: 2 of 122 sampled rows have no text "text" and will be dropped, the first is .*lacks/a\.jsonl: row 60;', done.stderr), "a row without its text, too", done.stderr)
    lk.check(re.search(r"array/a\.jsonl: row 0 at byte 0: expected an object", done.stderr), "a row that is no object", done.stderr)
    lk.check(re.search(r"latin/a\.jsonl: row 60 at byte \d+: ", done.stderr), "a row that is no UTF-8", done.stderr)
    lk.check("mark" not in done.stderr, "a byte-order mark and blank lines are no trouble", done.stderr)
    lk.check("on_bad_row: drop" in config.read_text(), "and they are to be dropped")
    works(box, config)
    box.write("worse/cut/a.jsonl.gz", gzip.compress(good.encode())[:-20])
    box.write("worse/wide/a.jsonl", good.encode("utf-16"))
    box.write("worse/empty/a.jsonl", "\n\n")
    box.write("worse/numbers/a.jsonl", '{"n": 1}\n' * 9)
    box.write("worse/twice/a.jsonl", good)
    box.write("worse/twice/a.jsonl.gz", gzip.compress(good.encode()))
    nothing = box.tool("init", box.path / "worse", "-o", box.path / "worse.yaml")
    lk.check(nothing.returncode == 1 and "no dataset can be used" in nothing.stderr and not (box.path / "worse.yaml").exists(),
             "where nothing can be used nothing is written", nothing)
    box.write("worse/good/a.jsonl", good)
    config, done = init(box, box.path / "worse", "worse.yaml", status=1)
    for name, why in (("cut", r"cut/a\.jsonl\.gz.*byte"), ("wide", "UTF-16"), ("empty", "expected rows, found none"),
                      ("numbers", "expected a field that is a text"), ("twice", "a.jsonl")):
        lk.check(re.search(rf"dataset {name} is left out: .*{why}", done.stderr), f"{name}: left out, and why", done.stderr)
        lk.check(f"# left out: {name}: " in config.read_text(), f"{name}: in the file as well")
    lk.same(list(works(box, config)), ["good"], "the others go on")


def layouts(box):
    """Files side by side, one folder in another, names of any kind, few rows."""
    texts = lk.prose(5, 40)
    for name in ("web-00000-of-00002", "web-00001-of-00002", "books_1", "books_2", "wiki"):
        box.write(f"flat/{name}.jsonl", lk.rows(texts))
    config, _ = init(box, box.path / "flat", "flat.yaml")
    lk.same({n: d["rows"] for n, d in works(box, config).items()}, {"web": 80, "books": 80, "wiki": 40}, "files are grouped by how their names begin")
    for name in ("0001", "0002", "x-1"):
        box.write(f"one/in/another/{name}.jsonl", lk.rows(texts))
    config, _ = init(box, box.path / "one", "one.yaml")
    lk.same({n: d["rows"] for n, d in works(box, config).items()}, {"another": 120}, "or are one dataset")
    odd = ["with space", "with:colon #and", 'quote"d', "it's", "straße", "line\nend", "- dash", "true", "[x]", "a.b", "a b", "a-b", "{", "1e3"]
    for name in odd:
        box.write(f"odd/{name}/part-0.jsonl", lk.rows(texts))
    box.write("odd/loose.jsonl", lk.rows(texts))
    config, done = init(box, box.path / "odd", "odd.yaml")
    lk.same(sorted(d["rows"] for d in works(box, config).values()), [40] * (len(odd) + 1), "folders of any name")
    box.write("few/a/a.jsonl", lk.rows(texts))
    box.write("few/b/b.jsonl", lk.rows(texts[:3]))
    config, _ = init(box, box.path / "few", "few.yaml")
    lk.check(re.search(r"(?m)^    lanes: 2 ", config.read_text()), "as many lanes as the smallest dataset has rows for")
    works(box, config)
    for i in range(300):    # more sources than a byte can number
        box.write(f"sources/s{i}/a.jsonl", lk.rows(texts[:9]))
    config, _ = init(box, box.path / "sources", "sources.yaml")
    lk.same(len(works(box, config, serves=False)), 300, "300 subfolders are 300 datasets")
    (box.path / "here").mkdir()
    box.write("here/data/a.jsonl", lk.rows(texts))
    done = subprocess.run([str(box.tool_path), "init", "data/"], cwd=box.path / "here", env=box.environment(), capture_output=True, text=True)
    lk.check(done.returncode == 0 and (box.path / "here/lanekeeper.yaml").exists(), "lanekeeper.yaml in the current folder by default", done)
    lk.same(field(box.path / "here/lanekeeper.yaml", "data")[0], "data", "with a path from there")
    works(box, box.path / "here/lanekeeper.yaml")
    long = box.path / ("long" * 20) / ("deep" * 10)
    long.mkdir(parents=True)
    shutil.copytree(box.path / "here/data", long / "data")
    config, _ = init(box, long / "data", f"{long}/lanekeeper.yaml")
    lk.check(re.search(r"(?m)^  run_dir: /tmp/lanekeeper-[0-9a-f]{8} ", config.read_text()), "where a socket's path would be too long, sockets lie elsewhere")
    works(box, config)
    box.write("here/lines/c4.00000.json.gz", gzip.compress(lk.rows(texts).encode()))
    for folder, why in (("nowhere", "No such file"), ("here/lines", "such as c4.00000.json.gz; if that is JSON Lines, link it"), ("flat/wiki.jsonl", "expected a folder"), ("here/none", "found none"), ("here/other", "such as x.parquet")):
        (box.path / "here/none").mkdir(exist_ok=True)
        box.write("here/other/x.parquet", "PAR1")
        done = box.tool("init", box.path / folder, "-o", box.path / "never.yaml")
        lk.check(done.returncode == 1 and why in done.stderr and not (box.path / "never.yaml").exists(), f"{folder}: refused", done)
    done = box.tool("init", box.path / "flat", "-o", box.path / "no/such/folder/x.yaml")
    lk.check(done.returncode == 1 and "cannot write into" in done.stderr, "a folder that is not there: refused", done)


def fields(box):
    """Rows with several texts: which is taken, which are not served, and how to take another."""
    n = range(120)
    turns = [[{"role": "user", "content": f"What is {i}?"}, {"role": "assistant", "content": f"It is {i}, dear. " * 5}] for i in n]
    box.write("data/sft/a.jsonl", "".join(json.dumps(
        {"id": "x" * 40, "instruction": f"Say the number {i} in words.", "input": "" if i % 3 else "Please be short", "output": f"It is {i}. " * 20}) + "\n" for i in n))
    box.write("data/talk/a.jsonl", "".join(json.dumps({"id": f"talk-{i}", "messages": turns[i]}) + "\n" for i in n))
    box.write("data/both/a.jsonl", "".join(json.dumps({"prompt": f"A question, {i}?", "messages": turns[i]}) + "\n" for i in n))
    box.write("data/web/a.jsonl", "".join(json.dumps({"text": t, "url": f"https://a.example/{t[:30]}".replace(" ", "+"), "title": "A title", "tags": ["of two words"], "numbers": [1] * 500}) + "\n" for t in (t * 4 for t in lk.prose(7, 120, 900))))
    config, done = init(box, box.path / "data", status=1)
    said = "a row has one text, so these are not served: "
    lk.same(sorted(line.split(": ", 1)[1] for line in done.stderr.splitlines()), [
        'dataset both: a row has one text, "prompt", so these are not served: the list "messages" (%d bytes a row); --text FIELD takes another; to serve several, write them into one field first'
        % (sum(len(t["content"]) for turn in turns for t in turn) // 120),
        'dataset sft: a row has one text, "output", so these are not served: "instruction" (%d bytes a row); --text FIELD takes another; to serve several, write them into one field first'
        % (sum(len(f"Say the number {i} in words.") for i in n) // 120),
        f'dataset talk is left out: {box.path}/data/talk: expected a field that is a text in at least half of the rows, found a list with texts, "messages": write what is to be served of it into one field first',
    ], "other texts are named, where they are worth it: not addresses, titles, numbers or few words")
    text = config.read_text()
    lk.check(text.count("      #   " + said) == 2 and '#   ' + said + '"instruction" (' in text, "in the file as well", text)
    lk.same(sorted(works(box, config)), ["both", "sft", "web"], "an id beside a conversation is no text")
    config, done = init(box, box.path / "data", "other.yaml", 1, "--text", "instruction")
    lk.same([field(config, name)[1] for name in ("sft", "web", "both")], ["instruction", "text", "prompt"], "--text takes another, where there is one")
    lk.check('"instruction": as --text says, ' in config.read_text() and re.search(
        r'dataset web: fewer than half of the sampled rows have a text "instruction": the longest string, "text", is taken', done.stderr), "and says where not", done)
    lk.same(field(config, "sft")[2], "%.6f" % (sum(len(f"Say the number {i} in words.") for i in n) / 1e6), "weights are of that text")
    works(box, config)
    never = box.tool("init", box.path / "data", "-o", box.path / "never.yaml", "--text", "no.such")
    lk.check(never.returncode == 1 and 'no dataset has a text "no.such"' in never.stderr and not (box.path / "never.yaml").exists(), "a field that is nowhere: refused", never)
    config, _ = init(box, box.path / "data", "id.yaml", 0, "--text", "id")
    lk.same(field(config, "talk")[1], "id", "what is asked for is taken, whatever it is")


def large(box):
    """What is only sampled: estimates are near, and memory is enough for compressed shards."""
    texts = ["Lorem ipsum dolor sit amet, consectetur %d. " % i * 20 for i in range(3000)]
    for s in range(3):
        box.write(f"data/gz/part-{s}.jsonl.gz", gzip.compress(lk.rows(texts).encode(), 1))
        box.write(f"data/plain/part-{s}.jsonl", lk.rows(texts))
    config, done = init(box, box.path / "data")
    for name in ("gz", "plain"):
        rows = int(re.search(rf"dataset {name}: about ([\d,]+) rows", done.stdout).group(1).replace(",", ""))
        lk.check(8000 < rows < 10200, f"{name}: about 9,000 rows", rows)
    works(box, config)


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    lk.main([formats, tokenizers, broken, layouts, fields, large])
