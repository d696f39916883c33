"""The stage `tokenise` of bench.py: the tokenizer alone, one thread, beside its peers on the same documents."""
import hashlib
import json
import statistics
import sys

import peers

MODELS = ("gpt2", "llama3", "qwen3", "gptoss", "deepseek_v3", "llama2", "gemma3")
QUICKTOK = ("llama3", "qwen3", "gptoss", "cl100k_base", "o200k_base")
RANKS = ("r50k_base", "cl100k_base", "o200k_base")
SAMPLE = 8  # Hugging Face's gets every eighth document


class Tokenising:
    def __init__(self, bench, runs, quick):
        self.bench, self.runs, self.quick = bench, runs, quick
        self.shards = sorted(bench.data.glob("*/*.jsonl"))
        self.sample = bench.dir / "sample.jsonl"
        with self.sample.open("w", encoding="utf-8") as out:
            lines = (line for shard in self.shards for line in shard.open(encoding="utf-8"))
            out.writelines(line for number, line in enumerate(lines) if number % SAMPLE == 0)
        if quick:
            self.shards = [self.sample]
        self.python = None if quick else peers.tokenisers(bench.build)

    def folder(self, model):
        return self.bench.build / "tokenizers" / model

    def ours(self, model, shards, ids=False):
        """What bench_tokenise says; @ids: with the SHA-256 of all ids, as the peers give it."""
        path = self.bench.dir / "ids"
        said = json.loads(self.bench.tool("bench_tokenise", "--json", "--passes", 1,
                                          *(["--ids", path] if ids else []), self.folder(model), *shards))
        if ids:
            with path.open("rb") as file:
                said["ids"] = hashlib.file_digest(file, "sha256").hexdigest()
            path.unlink()
        return said

    def peer(self, name, model, shards, *more):
        """What peer_tokenise.py says, or None, with a word."""
        if self.python is None:
            return None
        said = peers.run([self.python, peers.HERE / "peer_tokenise.py", name, self.folder(model), *shards,
                          *map(str, more)])
        if said is None:
            print(f"bench.py: {name}, {model}: no result", file=sys.stderr)
        return said

    def compared(self, name, model, shards, ours, said, must):
        """Words on whether a peer's ids are ours; those of the references must be."""
        if said["ids"] == ours["ids"]:
            return f"{name}: the same ids"
        if must:
            raise RuntimeError(f"{model}: the ids of {name} differ from ours")
        differ = self.peer(name, model, shards, "--against", self.bench.build / "tests/oracle/encode_main")
        if differ is None:
            return f"{name}: other ids"
        return f"{name}: other ids in {differ['differ']} of {differ['documents']} documents"

    def one(self, model):
        """A tokenizer.json against gigatoken, in turns; then once the others."""
        bench, ours, theirs = self.bench, [], []
        for run in range(self.runs):
            ours.append(self.ours(model, self.shards, run == 0))
            theirs.append(self.peer("gigatoken", model, self.shards, "--passes", 1))
        theirs = [said for said in theirs if said is not None]
        words = f"{ours[0]['bytes'] / 1e6:.0f} MB, {ours[0]['tokens']} ids, one thread, median of {self.runs}"
        if theirs:
            words += "; " + self.compared("gigatoken", model, self.shards, ours[0], theirs[0], False)
        for kind in ("cold", "warm"):
            value = statistics.median(said[f"{kind}_mb_s"] for said in ours)
            other = statistics.median(said[f"{kind}_mb_s"] for said in theirs) if theirs else None
            bench.put(f"tokenise.{model}.{kind}", value, "MB/s", other, words)
        size = (self.folder(model) / "tokenizer.json").stat().st_size / 1e6
        bench.put(f"tokenise.{model}.load_ms", statistics.median(said["load_ms"] for said in ours), "ms",
                  150 if size < 12 else None, f"{size:.1f} MB of tokenizer.json")
        if self.quick:
            return
        sample = self.ours(model, [self.sample], True)
        self.other("hf", model, [self.sample], sample, True)
        if model in QUICKTOK:
            self.other("quicktok", model, self.shards, ours[0], False)

    def other(self, name, model, shards, ours, must):
        said = self.peer(name, model, shards, "--passes", 0)
        if said is not None:
            words = self.compared(name, model, shards, ours, said, must)
            self.bench.put(f"tokenise.{model}.{name}", said["cold_mb_s"], "MB/s",
                           settings=f"{said['bytes'] / 1e6:.0f} MB, cold, one run; {words}")

    def ranks(self, scheme):
        ours = self.ours(scheme, self.shards, True)
        for kind in ("cold", "warm"):
            self.bench.put(f"tokenise.{scheme}.{kind}", ours[f"{kind}_mb_s"], "MB/s",
                           settings=f"{ours['bytes'] / 1e6:.0f} MB, {ours['tokens']} ids, one run")
        if self.quick:
            return
        self.other("tiktoken", scheme, self.shards, ours, True)
        if scheme in QUICKTOK:
            self.other("quicktok", scheme, self.shards, ours, False)

    def slowest(self):
        """The slowest document and runs of a megabyte, of all models."""
        found = {model: json.loads(self.bench.tool("bench_runs", self.folder(model), *self.shards))
                 for model in MODELS}
        model = min(found, key=lambda one: found[one]["worst_document"])
        worst = found[model]
        self.bench.put("tokenise.worst_document", worst["worst_document"] / 1e6, "MB/s", 5,
                       f"{model}, document {worst['worst_number']} of {worst['worst_bytes']} bytes, cold; the slowest "
                       f"of at least 4 kB and of {len(MODELS)} tokenizers")
        for kind in worst["runs"]:
            model = min(found, key=lambda one: found[one]["runs"][kind])
            self.bench.put(f"tokenise.runs.{kind}", found[model]["runs"][kind] / 1e6, "MB/s", 5,
                           f"1 MB, cold, {model}, the slowest of {len(MODELS)}")

    def all(self):
        for model in MODELS:
            self.one(model)
        for scheme in RANKS:
            self.ranks(scheme)
        self.slowest()
