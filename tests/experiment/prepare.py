"""The experiment's data, made of the demo's corpus: short documents, some of them held out.

The demo's documents are long (manuals, modules): cut at empty lines into documents of about 300 to 1,500 bytes, so
that the few thousand sequences of a run mix many of them. OUT/train/{docs,man,code}/part-NN.jsonl lie in the
source's order: files differ from each other, as files do. Every HELD_OUTth document of a source is in
OUT/held.json instead. The same corpus gives the same bytes.
"""
import gzip
import json
import pathlib
import shutil
import subprocess

SOURCES = {"docs": 5, "man": 3, "code": 2}    # and their shares of the tokens
SHARDS, HELD_OUT = 16, 40
LEAST, MOST = 300, 1500                       # bytes of a document
SOURCE_BYTES = 4_000_000                      # of text taken of each source


def lines_of(path):
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    if path.suffix == ".zst":
        text = subprocess.run(["zstd", "-dcq", path], stdout=subprocess.PIPE, check=True).stdout.decode()
        return text.splitlines(keepends=True)
    return open(path, encoding="utf-8")


def texts_of(folder):
    for path in sorted(folder.iterdir()):
        for line in lines_of(path):
            row = json.loads(line)
            yield row["text"] if "text" in row else row["body"]["content"]


def cut(text):
    """Runs of paragraphs, each of LEAST to MOST bytes where the text's paragraphs allow it."""
    found, held = [], b""
    for paragraph in text.encode().split(b"\n\n"):
        if held and len(held) + len(paragraph) > MOST:
            found.append(held)
            held = b""
        held += paragraph[:MOST] + b"\n\n"
        if len(held) >= LEAST:
            found.append(held)
            held = b""
    return [part.decode(errors="ignore") for part in found]


def documents(folder):
    """About SOURCE_BYTES of short documents, taken from all of a source evenly."""
    whole = [part for text in texts_of(folder) for part in cut(text)]
    total = sum(len(part) for part in whole)
    keep = min(1.0, SOURCE_BYTES / total)
    return [part for i, part in enumerate(whole) if int((i + 1) * keep) > int(i * keep)]


def prepare(corpus, out):
    """Makes OUT of the demo's corpus unless it is there; gives OUT."""
    out = pathlib.Path(out)
    if (out / "held.json").exists():
        return out
    part = out.with_name(out.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    held = {}
    for name in SOURCES:
        found = documents(pathlib.Path(corpus) / name)
        held[name] = found[::HELD_OUT]
        train = [text for i, text in enumerate(found) if i % HELD_OUT]
        folder = part / "train" / name
        folder.mkdir(parents=True)
        for s in range(SHARDS):
            rows = train[s * len(train) // SHARDS:(s + 1) * len(train) // SHARDS]
            (folder / f"part-{s:02}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in rows))
    (part / "held.json").write_text(json.dumps(held))
    part.rename(out)
    return out
