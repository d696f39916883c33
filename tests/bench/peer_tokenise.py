"""peer_tokenise.py PEER TOKENIZER SHARD...: the documents of JSONL shards through one peer, one thread.

PEER: gigatoken, hf (`tokenizers`), tiktoken or quicktok; TOKENIZER: a folder as fetch_tokenizers.sh makes
it. Prints one JSON object: load_ms, cold_mb_s (all documents, with a new tokenizer), warm_mb_s (all of them
again: the median of --passes), and the SHA-256 of all ids as little-endian u32. MB are 10^6 bytes of
UTF-8; time is the processor's, of all threads of this process. Special tokens in text become those tokens,
but with quicktok, to which that is text: it is several times slower else.

--against ENCODE_MAIN: prints instead in how many documents ids differ from ours, and the first of them.
"""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "oracle"))

QUICKTOK = {"llama3": "llama3", "llama3_1": "llama3", "qwen3": "qwen3", "gptoss": "o200k_harmony",
            "cl100k_base": "cl100k_base", "o200k_base": "o200k_base"}


def gigatoken(folder):
    import gigatoken as library
    ranks = folder / (folder.name + ".tiktoken")
    made = library.Tokenizer.from_tiktoken(str(ranks)) if ranks.exists() else \
        library.Tokenizer(str(folder / "tokenizer.json"))
    return lambda docs: made.encode_batch(docs, parallel=False), \
        lambda found: (found.layout.content.data, found.layout.offsets.data)


def hf(folder):
    import tokenizers
    made = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    made.no_truncation()
    made.no_padding()

    def encode(docs):
        found = []  # in parts: an encoding keeps much more than its ids
        for at in range(0, len(docs), 64):
            found += [e.ids for e in made.encode_batch_fast(docs[at:at + 64], add_special_tokens=False)]
        return found
    return encode, flat


def tiktoken(folder):
    from oracle_references import Tiktoken
    made = Tiktoken(folder).encoding
    return lambda docs: [made.encode(doc, allowed_special="all") for doc in docs], flat


def quicktok(folder):
    import quicktok as library
    made = library.get_encoding(QUICKTOK[folder.name])
    return lambda docs: made.encode_batch(docs, 1, False), lambda found: found


def flat(lists):
    import numpy
    offsets = numpy.zeros(len(lists) + 1, dtype=numpy.int64)
    numpy.cumsum([len(one) for one in lists], out=offsets[1:])
    return numpy.fromiter((i for one in lists for i in one), dtype="<u4", count=int(offsets[-1])), offsets


def documents(shards):
    return [json.loads(line)["text"] for shard in shards for line in open(shard, encoding="utf-8")]


def timed(encode, docs):
    start = time.process_time()
    found = encode(docs)
    return time.process_time() - start, found


def differing(arguments, docs, ids, offsets):
    from oracle_references import Ours
    ours, differ, first = Ours(arguments.against, arguments.tokenizer, "split"), 0, None
    for at in range(0, len(docs), 256):
        for i, mine in enumerate(ours.ids(docs[at:at + 256]), at):
            if mine != ids[offsets[i]:offsets[i + 1]].tolist():
                differ += 1
                first = i if first is None else first
    ours.close()
    return {"documents": len(docs), "differ": differ, "first": first}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("gigatoken", "hf", "tiktoken", "quicktok"))
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("shards", nargs="+")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--against")
    arguments = parser.parse_args()
    texts = documents(arguments.shards)
    docs = [text.encode() for text in texts] if arguments.peer == "gigatoken" else texts
    size = sum(len(text.encode()) for text in texts)
    start = time.process_time()
    encode, arrays = globals()[arguments.peer](arguments.tokenizer)
    load = time.process_time() - start
    cold, found = timed(encode, docs)
    ids, offsets = arrays(found)
    if arguments.against:
        print(json.dumps(differing(arguments, texts, ids, offsets)))
        return
    digest, tokens = hashlib.sha256(ids.astype("<u4").tobytes()).hexdigest(), int(len(ids))
    del found, ids, offsets
    warm = [timed(encode, docs)[0] for _ in range(arguments.passes)]
    print(json.dumps({"load_ms": load * 1e3, "cold_mb_s": size / cold / 1e6, "bytes": size, "tokens": tokens,
                      "warm_mb_s": size / statistics.median(warm) / 1e6 if warm else None, "ids": digest}))


if __name__ == "__main__":
    main()
