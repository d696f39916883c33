"""A small decoder-only model, and what it is judged by on held-out documents."""
import json
import random

import torch
from torch import nn
from torch.nn import functional

VOCAB, END = 257, 256    # a byte is a token; 256 ends a document


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def attend(self, x, mask):
        rows, length, width = x.shape
        q, k, v = (part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.qkv(x).split(width, dim=2))
        scores = q @ k.transpose(2, 3) * (width // self.heads) ** -0.5 + mask[:length, :length]
        return self.out((scores.softmax(dim=3) @ v).transpose(1, 2).reshape(rows, length, width))

    def forward(self, x, mask):
        x = x + self.attend(self.norm_1(x), mask)
        return x + self.down(functional.gelu(self.up(self.norm_2(x))))


class Model(nn.Module):
    """Logits [rows, T, VOCAB] of ids [rows, T], T at most @length."""

    def __init__(self, width, layers, heads, length):
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 if "down" not in name and "out" not in name else 0.01)

    def forward(self, ids):
        x = self.tokens(ids) + self.places.weight[:ids.shape[1]]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.tokens.weight.T


def made(settings, seed):
    """The same on every rank: nothing but @seed decides what it begins as."""
    torch.manual_seed(seed)
    return Model(settings["width"], settings["layers"], settings["heads"], settings["sequence"])


def row_losses(model, rows, reduction="none"):
    """Negative log likelihood of each token but the first, [rows, T - 1]; or their sum."""
    logits = model(rows[:, :-1])
    loss = functional.cross_entropy(logits.reshape(-1, VOCAB), rows[:, 1:].reshape(-1), reduction=reduction)
    return loss if reduction == "sum" else loss.view(rows.shape[0], -1)


class Exam:
    """Validation rows, and questions: which of four endings is the one that the document has."""

    CHOICES = 4

    def __init__(self, held_file, sequence, rows, questions):
        held = json.loads(held_file.read_text())
        draw = random.Random(7)
        self.ending = sequence // 5    # tokens; what goes before is context
        self.context = sequence - self.ending
        everything = []
        for name in sorted(held):
            for text in held[name]:
                everything += [*text.encode(), END]
        places = [draw.randrange(len(everything) - sequence) for _ in range(rows)]
        self.rows = torch.tensor([everything[p:p + sequence] for p in places])
        self.questions = torch.tensor(self._questions(held, draw, questions))    # the right one comes first

    def _questions(self, held, draw, n):
        need, found = self.context + self.ending, []
        texts = {name: [t for t in (list(text.encode()) for text in held[name]) if len(t) >= need + 8] for name in held}
        names = sorted(texts)
        for i in range(n):
            pieces = []
            for text in draw.sample(texts[names[i % len(names)]], self.CHOICES):
                at = draw.randrange(len(text) - need)
                pieces.append(text[at:at + need])
            found += [pieces[0][:self.context] + piece[self.context:] for piece in pieces]
        return found

    def mark(self, model):
        """{"loss": nats a token, "next": % of next tokens right, "choice": % of questions right}."""
        model.eval()
        loss, right, endings = 0.0, 0, []
        with torch.no_grad():
            for rows in self.rows.split(32):
                logits = model(rows[:, :-1])
                loss += float(functional.cross_entropy(logits.reshape(-1, VOCAB).double(), rows[:, 1:].reshape(-1), reduction="sum"))
                right += int((logits.argmax(dim=2) == rows[:, 1:]).sum())
            for rows in self.questions.split(32):
                endings.append(row_losses(model, rows)[:, -self.ending:].double().sum(dim=1))
        tokens = self.rows[:, 1:].numel()
        best = torch.cat(endings).view(-1, self.CHOICES).argmin(dim=1)
        return {"loss": loss / tokens, "next": 100 * right / tokens, "choice": 100 * float((best == 0).double().mean())}
