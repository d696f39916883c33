#!/usr/bin/env python3
"""Compares our ids with those of the reference: Hugging Face's `tokenizers`, and `tiktoken` for rank files.

    tokenizer_oracle.py --encode ENCODE_MAIN [--quick] [--mb N] DIRECTORY... [--text PATH...]
    tokenizer_oracle.py --encode ENCODE_MAIN --small | --cases      tokenizers made for it
    tokenizer_oracle.py --encode ENCODE_MAIN --patterns DIRECTORY   known expressions over its vocabulary
    tokenizer_oracle.py --encode ENCODE_MAIN --rows DIRECTORY... --text SHARD...

Every DIRECTORY holds a tokenizer (tokenizer.json, GPT-2's pair, or <its name>.tiktoken). The documents: every
code point alone, doubled, between letters and between spaces; random mixes weighted to the borders of
character classes; added tokens, what surrounds them and what nearly is one, all of this with special tokens
as tokens, as text and counted; long runs; the documents of PATH (files or folders, .jsonl(.gz|.zst) by row), and
these damaged at random until at least N megabytes are compared. --quick takes a sample of each.
With --rows only the documents of the shards are compared, whole.

With --state DIR, what was compared is kept there, and a run that was ended goes on where it was; another
encode_main, tokenizer or generator begins again. Exit status 1 when anything differs or is refused.
"""
import argparse
import hashlib
import itertools
import json
import os
import pathlib
import random
import sys
import tempfile
import time

import oracle_small as small
import oracle_texts as texts
from oracle_references import Ours, Refused, Tiktoken, reference

CHUNK = 1 << 19  # characters: the reference keeps a hundred bytes and more for each id
MODES = {False: "split", True: "text"}
ENDLESS = ("corpus, damaged", "random mix, more")


class Differs(Exception):
    pass


def first_difference(mine, theirs):
    return next((i for i, (a, b) in enumerate(zip(mine, theirs)) if a != b), min(len(mine), len(theirs)))


class Comparison:
    """One tokenizer; its encoders run until close. @directory: where it lies."""

    def __init__(self, encode, directory, name):
        self.encode, self.directory, self.name = encode, directory, name
        self.reference = reference(directory)
        self.ours = {}
        self.documents = self.tokens = self.bytes = self.left_out = 0

    def encoder(self, mode):
        if mode not in self.ours:
            self.ours[mode] = Ours(self.encode, self.directory, mode)
        return self.ours[mode]

    def close(self):
        for ours in self.ours.values():
            ours.close()
        self.ours = {}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()

    def specials(self, ids):
        """How many special tokens the reference found, or None where the ids do not tell."""
        if not self.reference.doubtful_ids.isdisjoint(ids):
            return None
        return sum(i in self.reference.special_ids for i in ids)

    def differs(self, text, as_text):
        theirs, = self.reference.ids([text], as_text)
        return theirs is not None and self.encoder(MODES[as_text]).ids([text])[0] != theirs

    def smaller(self, text, as_text):
        """A short part of a text at which ids differ, too."""
        step = max(1, len(text) // 2)
        tries = 0
        while step >= 1 and tries < 2000:
            shorter = next((cut for at in range(0, len(text), step)
                            for cut in [text[:at] + text[at + step:]]
                            if cut and (tries := tries + 1) < 2000 and self.differs(cut, as_text)), None)
            if shorter is None:
                step //= 2
            else:
                text = shorter
                step = min(step, max(1, len(text) // 2))
        return text

    def explain(self, what, text, as_text):
        small_text = self.smaller(text, as_text)
        theirs, = self.reference.ids([small_text], as_text)
        mine = self.encoder(MODES[as_text]).ids([small_text])[0]
        at = max(0, first_difference(mine, theirs) - 3)
        return (f"{self.name}: {what}{' (as text)' if as_text else ''}: ids differ\n  text      {small_text[:400]!r}\n"
                f"  reference {theirs[at:at + 15]} from {at}\n  ours      {mine[at:at + 15]}")

    def batch(self, what, batch, as_text=False, counts=False):
        """One batch. @counts: that of special tokens is compared, too."""
        theirs = self.reference.ids(batch, as_text)
        known = [i for i, ids in enumerate(theirs) if ids is not None]
        self.left_out += len(batch) - len(known)
        batch, theirs = [batch[i] for i in known], [theirs[i] for i in known]
        for text, mine, their in zip(batch, self.encoder(MODES[as_text]).ids(batch), theirs):
            if mine != their:
                raise Differs(self.explain(what, text, as_text))
            self.tokens += len(mine)
        if counts and not as_text:
            for text, (mine, count), their in zip(batch, self.encoder("error").ids(batch), theirs):
                if mine != their:
                    raise Differs(f"{self.name}: {what}: {text[:400]!r}: other ids when special tokens are an error")
                if count != (want := self.specials(their)) and want is not None:
                    raise Differs(f"{self.name}: {what}: {text[:400]!r}: {count} special tokens counted, not {want}")
        self.documents += len(batch)
        self.bytes += sum(len(text.encode()) for text in batch)

    def all(self, what, documents, **how):
        for batch in batches(documents):
            self.batch(what, batch, **how)

    def said(self):
        out = f", {self.left_out} at which the reference panics left out" if self.left_out else ""
        return f"{self.name}: {self.documents} documents, {self.bytes} bytes, {self.tokens} ids: equal{out}"


def batches(documents):
    batch, size = [], 0
    for text in documents:
        batch.append(text)
        size += len(text) + 16
        if size > CHUNK:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# One tokenizer -----------------------------------------------------------------------------------


def plan(args, comparison):
    """(what, how, documents) of one tokenizer, in an order that depends on the arguments alone. All of it is
    compared, and of what has no end as much as makes up the megabytes."""
    rng = random.Random(args.seed)
    added = comparison.reference.added
    quick = args.quick
    longest = getattr(comparison.reference, "LONGEST", 1_000_000)
    yield "code points", {}, texts.code_points(quick, rng)
    for as_text in (False, True):
        how = {"as_text": as_text, "counts": True}
        mixes = random.Random(args.seed + as_text)
        yield f"random mix, seed {args.seed}", how, \
            (texts.random_text(mixes, added) for _ in range(1500 if quick else 100000))
        yield "added tokens", how, texts.around_tokens(mixes, added, 100 if quick else 10000)
    if quick:
        yield "runs", {}, texts.runs(20000, 20000)
    else:
        yield "runs", {}, texts.runs(min(longest, 200000), longest)
    paths = list(texts.files_under(args.text))
    yield "corpus", {}, texts.rows(paths)
    damage = random.Random(args.seed + 2)
    if paths:
        again = itertools.chain.from_iterable(texts.rows(paths) for _ in itertools.count())
        yield ENDLESS[0], {}, (texts.damaged(damage, text) for text in again)
    yield ENDLESS[1], {}, (texts.random_text(damage, added) for _ in itertools.count())


class Progress:
    """What was compared so far, in a file that a later run finds; and a line for whoever waits."""

    def __init__(self, args, comparison):
        self.comparison, self.done, self.shown = comparison, 0, time.monotonic()
        self.path = self.key = None
        self.loud = not args.quick
        if args.state:
            self.path = pathlib.Path(args.state, comparison.name + ".json")
            self.key = self.digest(args, comparison.directory)
            if self.path.exists():
                old = json.loads(self.path.read_text())
                if old["key"] == self.key:
                    self.done = old["batches"]
                    for name in ("documents", "tokens", "bytes", "left_out"):
                        setattr(comparison, name, old[name])

    @staticmethod
    def digest(args, directory):
        digest = hashlib.sha256(f"{args.seed} {args.quick}".encode())
        sources = [pathlib.Path(__file__).with_name(name) for name in
                   ("tokenizer_oracle.py", "oracle_texts.py", "oracle_references.py")]
        files = sorted(p for p in pathlib.Path(directory).iterdir() if p.is_file())
        for path in [pathlib.Path(args.encode), *files, *sources]:
            digest.update(path.read_bytes())
        for path in texts.files_under(args.text):
            digest.update(f"{path} {path.stat().st_size}".encode())
        return digest.hexdigest()

    def step(self, number, what):
        c = self.comparison
        self.done = number + 1
        if self.path:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps({"key": self.key, "batches": self.done, "documents": c.documents,
                                       "tokens": c.tokens, "bytes": c.bytes, "left_out": c.left_out}))
            new.rename(self.path)
        if self.loud and time.monotonic() - self.shown > 30:
            self.shown = time.monotonic()
            print(f"{c.name}: {c.bytes / 1e6:.0f} MB, {what}", file=sys.stderr, flush=True)


def compare(args, directory):
    name = os.path.basename(os.path.normpath(directory))
    with Comparison(args.encode, directory, name) as c:
        progress, number = Progress(args, c), 0
        for what, how, documents in plan(args, c):
            for batch in batches(documents):
                if what in ENDLESS and number >= progress.done and c.bytes >= args.mb * 1e6:
                    break
                if number >= progress.done:
                    c.batch(what, batch, **how)
                    progress.step(number, what)
                number += 1
        print(c.said(), flush=True)
    if not args.quick and not isinstance(c.reference, Tiktoken):
        linear(args, directory, name)


def linear(args, directory, name):
    """Four times the text takes four times as long, and not sixteen times."""
    rng = random.Random(args.seed)
    letters = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(1 << 20))
    for label, text in (("a", "a" * (1 << 20)), ("spaces", " " * (1 << 20)), ("line ends", "\n" * (1 << 20)),
                        ("random letters", letters), ("ideographs", "中" * (1 << 20)), ("words", "ab " * 350000)):
        seconds = {}
        ours = Ours(args.encode, directory, "split")
        ours.ids(["x"])
        for n in (len(text) // 4, len(text)):
            seconds[n] = 1e9
            for _ in range(3):
                start = time.perf_counter()
                ours.ids([text[:n]])
                seconds[n] = min(seconds[n], time.perf_counter() - start)
        ours.close()
        few, all_of_it = seconds.values()
        if all_of_it > 10 * few + 0.05:
            raise Differs(f"{name}: a run of {label}: {few:.3f} s for a quarter, {all_of_it:.3f} s for all of it")


def compare_rows(args, directory):
    with Comparison(args.encode, directory, os.path.basename(os.path.normpath(directory))) as c:
        c.all("rows", texts.rows(texts.files_under(args.text)))
        print(c.said(), flush=True)


# Tokenizers made for it --------------------------------------------------------------------------


def made(args, file, name):
    """A Comparison on a tokenizer.json that lies there only for as long."""
    directory = tempfile.TemporaryDirectory()
    pathlib.Path(directory.name, "tokenizer.json").write_text(small.text_of(file), encoding="utf-8")
    comparison = Comparison(args.encode, directory.name, name)
    comparison.keep = directory
    return comparison


def quiet(work):
    """With the reference's words on its panics kept from stderr."""
    stderr = os.dup(2)
    with open(os.devnull, "w", encoding="utf-8") as null:
        os.dup2(null.fileno(), 2)
    try:
        work()
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)


def refusals(reasons):
    """Fails if there are any; one of each kind is shown."""
    if reasons:
        raise Refused(f"{len(reasons)} files, such as\n  " + "\n  ".join(sorted(set(reasons))[:12]))


def check_small(args):
    rng = random.Random(args.seed)
    counts = {"documents": 0, "left_out": 0}
    refused = []

    def one(number):
        file = small.of_pieces(rng) if number % 2 else small.of_bytes(rng)
        documents = ["".join(rng.choice(small.PIECES) for _ in range(rng.randrange(0, 60))) for _ in range(100)]
        try:
            with made(args, file, f"small tokenizer {number}, seed {args.seed}") as c:
                c.all("random", documents, counts=True)
                c.all("random", documents, as_text=True)
                counts["documents"] += c.documents
                counts["left_out"] += c.left_out
        except Refused as e:
            refused.append(str(e))
        except Exception:
            print(small.text_of(file))
            raise

    total = args.count or (150 if args.quick else 6000)
    quiet(lambda: [one(number) for number in range(total)])
    if counts["left_out"] * 2 > counts["documents"]:
        raise Differs(f"the reference panicked at {counts['left_out']} documents, compared only {counts['documents']}")
    print(f"small tokenizers: {total - len(refused)}, {counts['documents']} documents: equal")
    refusals(refused)


def check_cases(args):
    checks, wrong = 0, []
    for name, file, wanted, agrees in small.cases():
        try:
            with made(args, file, name) as c:
                for text, ids in wanted.items():
                    if agrees and (theirs := c.reference.ids([text], False)[0]) != ids:
                        wrong.append(f"{name}: {text!r}: the reference says {theirs}, not {ids}")
                    mine, = c.encoder("split").ids([text])
                    if mine != ids:
                        wrong.append(f"{name}: {text!r}: {mine}, not {ids}")
                    checks += 1
        except Refused as e:
            wrong.append(f"{name}: refused: {e}")
    print(f"cases: {checks} texts compared")
    if wrong:
        raise Differs("\n".join(wrong))


def check_patterns(args, directory):
    """Every known expression, also those whose vocabulary is not at hand, on every pair of borders."""
    source = json.loads(pathlib.Path(directory, "tokenizer.json").read_text(encoding="utf-8"))
    rng = random.Random(args.seed)
    borders = sorted(set(texts.BORDERS))
    refused = []
    for expressions in small.EXPRESSIONS:
        try:
            with made(args, small.with_expressions(source, expressions), " then ".join(expressions)) as c:
                compare_borders(args, c, borders, rng)
        except Refused as e:
            refused.append(str(e))
    print(f"{len(small.EXPRESSIONS)} expressions on pairs of {len(borders)} border characters: "
          f"{'equal' if not refused else 'some are refused'}")
    refusals(refused)


def compare_borders(args, comparison, borders, rng):
    if not args.quick:
        comparison.all("pairs", (a + b for a in borders for b in borders))
    comparison.all("pairs between letters", ("at" + a + b + "The " for a in borders for b in borders))
    comparison.all("random mix", (texts.random_text(rng, []) for _ in range(300 if args.quick else 50000)))
    if not args.quick:
        comparison.all("code points", texts.code_points(False, rng))


def attempt(what, work):
    """True if it went well; else says what was wrong."""
    try:
        work()
        return True
    except Refused as e:
        print(f"{what}: refused: {e}", flush=True)
    except Differs as e:
        print(e, flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encode", required=True, help="the program encode_main")
    parser.add_argument("--quick", action="store_true", help="a sample of everything, in seconds")
    parser.add_argument("--mb", type=float, default=0, help="at least so many megabytes of a tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=0, help="small tokenizers to make")
    parser.add_argument("--state", help="folder to keep progress in")
    parser.add_argument("--text", nargs="*", default=[], help="files and folders with text")
    for part in ("rows", "small", "cases", "patterns"):
        parser.add_argument("--" + part, action="store_true")
    parser.add_argument("directories", nargs="*", metavar="DIRECTORY")
    args = parser.parse_args()
    well = []
    if args.small:
        well.append(attempt("small tokenizers", lambda: check_small(args)))
    if args.cases:
        well.append(attempt("cases", lambda: check_cases(args)))
    work = compare_rows if args.rows else check_patterns if args.patterns else compare
    for directory in args.directories:
        well.append(attempt(directory, lambda d=directory: work(args, d)))
    if not well:
        parser.error("nothing to compare")
    return 0 if all(well) else 1


if __name__ == "__main__":
    sys.exit(main())
