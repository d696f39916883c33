"""What is left of the tokenizer's own speed: from rows to tokens in the arena, and end to end."""
import re
import statistics
import subprocess
import sys

WEIGHTS = (("docs", 0.5), ("man", 0.3), ("code", 0.2))  # of tokens, as served.recipe mixes them
WORKERS = 2  # as served.Daemon has
STEPS = 9000  # some passes over the corpus, with batches of 8
BATCHES = ((8, ""), (64, ".batch64"))  # sequences; with 64 a trainer asks once for eight times as many tokens


def alone(text, kind):
    """Tokens per CPU-second of the tokenizer alone, over documents mixed as the stream mixes them."""
    rates = {int(d): 1e6 * float(rate) for d, rate in
             re.findall(kind + r": tokenizer alone, dataset (\d+): ([\d.]+) M tokens", text)}
    return 1 / sum(weight / rates[d] for d, (_, weight) in enumerate(WEIGHTS))


def rows_at_once(bench, copies):
    """What @copies of bench_rows say that run at once, since cores share what is beneath them: two workers on two
    of them are each slower than one alone."""
    files = [str(bench.data / name) for name, _ in WEIGHTS]
    command = [str(bench.build / "tests/bench/bench_rows"), "--tokens", str(bench.gpt2 / "tokenizer.json"), "text", *files]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(copies)]
    texts = [process.communicate()[0] for process in running]
    if any(process.returncode != 0 for process in running):
        sys.exit("bench.py: bench_rows failed")
    return texts


def shares(bench, end_to_end, runs):
    """@end_to_end: runs the stream once, 8 lanes, batches of so many; its tokens per CPU-second. All are measured in
    turns. Once the pieces of the text have been seen, a run is a warm pass: so that is the headline, and cold beside
    it."""
    texts, served = [], {batch: [] for batch, _ in BATCHES}
    for _ in range(runs):
        for batch, _ in BATCHES:
            served[batch].append(end_to_end(batch))
        texts += rows_at_once(bench, WORKERS)
    for kind, suffix in (("warm", ""), ("cold", ".cold")):
        found = [re.search(kind + r": rows to tokens ([\d.]+) .* alone ([\d.]+), share ([\d.]+)", text) for text in texts]
        rows, tokens, share = (statistics.median(float(one[i]) for one in found) for i in (1, 2, 3))
        bench.put("rows_to_tokens.share" + suffix, share, "ratio", 0.75,
                  f"GPT-2, {kind} pass: read, check, parse, filter, tokenise, keep in the arena: {rows:.0f} of "
                  f"{tokens:.0f} MB of text per CPU-second, two at once")
        tokenizer = statistics.median(alone(text, kind) for text in texts)
        for batch, of_batch in BATCHES:
            rate = statistics.median(served[batch])
            bench.put("e2e.share" + of_batch + suffix, rate / tokenizer, "ratio", 0.6,
                      f"8 lanes, batches of {batch}, daemon + {WORKERS} workers + trainer: {rate / 1e6:.1f} M of "
                      f"{tokenizer / 1e6:.1f} M tokens per CPU-second that the tokenizer alone makes of such documents, "
                      f"{kind} pass")
