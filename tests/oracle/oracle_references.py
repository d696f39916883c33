"""The libraries that we compare with, and our own encoder, behind one face: ids of texts."""
import json
import os
import pathlib
import struct
import subprocess
import threading

os.environ["TOKENIZERS_PARALLELISM"] = "false"


def is_panic(e):
    return type(e).__name__ == "PanicException"  # which is no Exception


class HuggingFace:
    """Hugging Face's `tokenizers`, for tokenizer.json and GPT-2's pair of files."""

    def __init__(self, directory):
        from tokenizers import Tokenizer
        path = pathlib.Path(directory, "tokenizer.json")
        self.tokenizer = Tokenizer.from_file(str(path)) if path.exists() else self.pair(directory)
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        added = self.tokenizer.get_added_tokens_decoder()
        self.added = [token.content for token in added.values() if token.content]
        self.special_ids = {i for i, token in added.items() if token.special}
        self.doubtful_ids = self.doubtful(path) if path.exists() else set()

    def doubtful(self, path):
        """Ids of special tokens that stand for ordinary text too: what BPE can make, and the unknown."""
        model = json.loads(path.read_text(encoding="utf-8"))["model"]
        made = {merge.replace(" ", "", 1) if isinstance(merge, str) else "".join(merge) for merge in model["merges"]}
        return {i for token, i in model["vocab"].items() if i in self.special_ids and (
            len(token) == 1 or token in made or token == model.get("unk_token") or model.get("ignore_merges"))}

    @staticmethod
    def pair(directory):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        for vocab, merges in (("encoder.json", "vocab.bpe"), ("vocab.json", "merges.txt")):
            if pathlib.Path(directory, vocab).exists():
                tokenizer = Tokenizer(models.BPE.from_file(str(pathlib.Path(directory, vocab)),
                                                           str(pathlib.Path(directory, merges))))
                tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
                tokenizer.decoder = decoders.ByteLevel()
                tokenizer.add_special_tokens(["<|endoftext|>"])
                return tokenizer
        raise SystemExit(f"no tokenizer in {directory}")

    def one(self, text):
        """None where the reference panics (added tokens that begin with spaces which the token before
        them has swallowed)."""
        try:
            return self.tokenizer.encode(text, add_special_tokens=False).ids
        except BaseException as e:
            if not is_panic(e):
                raise
            return None

    def ids(self, texts, as_text):
        self.tokenizer.encode_special_tokens = as_text
        try:
            return [e.ids for e in self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
        except BaseException as e:
            if not is_panic(e):
                raise
        return [self.one(text) for text in texts]


class Tiktoken:
    """OpenAI's `tiktoken`, for its rank files: its own schemes, the ranks from the file."""
    LONGEST = 20000  # it is slow on long runs

    def __init__(self, directory):
        import base64

        import tiktoken
        from tiktoken_ext import openai_public
        scheme = pathlib.Path(directory).name
        lines = pathlib.Path(directory, scheme + ".tiktoken").read_bytes().splitlines()
        ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
        openai_public.load_tiktoken_bpe = lambda *_, **__: ranks
        openai_public.data_gym_to_mergeable_bpe_ranks = lambda *_, **__: ranks
        self.encoding = tiktoken.Encoding(**getattr(openai_public, scheme)())
        self.added = sorted(self.encoding.special_tokens_set)
        self.special_ids = {self.encoding.encode_single_token(token) for token in self.added}
        self.doubtful_ids = set()

    def ids(self, texts, as_text):
        allowed = set() if as_text else "all"
        return [self.encoding.encode(text, allowed_special=allowed, disallowed_special=()) for text in texts]


def reference(directory):
    """The one for what is in @directory."""
    if any(pathlib.Path(directory).glob("*.tiktoken")):
        return Tiktoken(directory)
    return HuggingFace(directory)


class Refused(Exception):
    """Our loader does not take the tokenizer."""


class Ours:
    """encode_main as a process that answers batches. @counts: also how many special tokens each had."""
    SEND = struct.pack("<I", 0xFFFFFFFF)

    def __init__(self, encode, directory, mode):
        self.mode = mode
        self.process = subprocess.Popen([encode, str(directory), mode], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.lines = []
        self.listener = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.listener.start()

    def fail(self):
        status = self.process.wait()
        self.listener.join()
        said = b"".join(self.lines).decode("utf-8", "replace").strip()
        if status == 3:
            raise Refused(said)
        raise SystemExit(f"encode_main {self.mode}: exit status {status}: {said[-3000:]}")

    def number(self):
        data = self.process.stdout.read(4)
        if len(data) != 4:
            self.fail()
        return int.from_bytes(data, "little")

    def send(self, texts):
        try:
            for text in texts:
                data = text.encode()
                self.process.stdin.write(struct.pack("<I", len(data)) + data)
            self.process.stdin.write(self.SEND)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the reader finds out why

    def ids(self, texts):
        """For each text the ids; with mode "error", pairs of ids and the count."""
        sender = threading.Thread(target=self.send, args=(texts,))
        sender.start()
        answers = []
        for _ in texts:
            n = self.number()
            data = self.process.stdout.read(4 * n)
            if len(data) != 4 * n:
                self.fail()
            ids = list(struct.unpack(f"<{n}I", data))
            answers.append((ids, self.number()) if self.mode == "error" else ids)
        sender.join()
        return answers

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            self.fail()
        self.listener.join()
        self.process.stdout.close()
        self.process.stderr.close()
