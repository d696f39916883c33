"""batch.training() against a naive reference written from the header's words, for every option; RC-072 and RC-074."""

import support

import itertools

import numpy as np

import lanekeeper
from lanekeeper import Stream

import lk


def pieces_of(batch, row):
    """[(first token of the document, tokens)] of a row, its padding apart."""
    record = batch.row_table[row]
    parts = batch.parts[record["first_part"]:record["first_part"] + record["n_parts"]]
    return [(int(p["first"]), int(p["tokens"])) for p in parts], int(record["used"])


def naive_row(tokens, pieces, used, labels, borders, positions, ignore):
    """One row, token by token."""
    length = len(tokens)
    starts = list(itertools.accumulate((n for _, n in pieces), initial=0))[:-1]
    place, piece_of, where = [], [], []
    for number, (first, n) in enumerate(pieces):
        for i in range(n):
            piece_of.append(number)
            place.append({"piece": i, "document": first + i, "row": starts[number] + i}[positions or "piece"])
    for i in range(length - used):
        piece_of.append(-1)
        place.append(used + i if positions == "row" else i)
    label, counts = [], []
    for i in range(length):
        target = i if labels == "same" else i + 1    # which token is the label; the one before predicts it
        good = 0 < target < used and (borders == "kept" or piece_of[target] == piece_of[target - 1])
        counts.append(good)
        label.append(tokens[target] if good else ignore)
    bounds = [*starts, used] if used < length else [*starts]
    cu = sorted({*bounds, length}) if length else [0]
    return {"labels": label, "loss_mask": counts, "position_ids": place, "document_ids": piece_of, "cu": cu,
            "longest": max(b - a for a, b in zip(cu, cu[1:]))}


def naive(batch, labels, borders, positions, cu_seqlens, ignore):
    rows = [naive_row(batch.tokens[r].tolist(), *pieces_of(batch, r), labels, borders, positions, ignore) for r in range(batch.rows)]
    expected = {name: [row[name] for row in rows] for name in ("labels", "loss_mask", "position_ids", "document_ids")}
    expected["input_ids"] = batch.tokens.tolist()
    if cu_seqlens == "flat":
        flat = [0]
        for r, row in enumerate(rows):
            flat += [r * batch.sequence + at for at in row["cu"][1:]]
        expected["cu_seqlens"] = flat
    else:
        most = max(len(row["cu"]) for row in rows)
        expected["cu_seqlens"] = [row["cu"] + [batch.sequence] * (most - len(row["cu"])) for row in rows]
        expected["max_seqlens"] = [row["longest"] for row in rows]
    expected["max_seqlen"] = max(row["longest"] for row in rows)
    expected["num_valid_tokens"] = sum(map(sum, expected["loss_mask"]))
    return expected


def plainly(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def differences(made, expected):
    return [f"{name}: got {lk.short(plainly(made[name]), 120)}, expected {lk.short(expected[name], 120)}"
            for name in made if plainly(made[name]) != expected[name]]


def padded(box):
    """With padding, pieces, and documents that go on in the next sequence."""
    return box.mixed(pipeline=[{"filter": {"min_bytes": 8}}, {"split": {"max_tokens": 50}}, {"pack": {"algorithm": "best_fit", "pool": 4}}], sequence=64)


def every_option(box):
    """All combinations, made here and found in the daemon's memory, whole and in micro-batches."""
    daemon = box.serve(padded(box))
    streams = {"made here": Stream(daemon.address, shared=False), "shared": Stream(daemon.address)}
    seen = {"padding": 0, "pieces": 0, "shared": 0}
    wrong, n = [], 0
    for labels, borders, positions, cu_seqlens, dtype in itertools.product(
            ("shifted", "same"), ("masked", "kept"), ("piece", "document", "row"), ("flat", "rows"), (np.int32, np.int64)):
        for name, stream in streams.items():
            options = {"labels": labels, "borders": borders, "positions": positions, "cu_seqlens": cu_seqlens, "dtype": dtype, "ignore_index": -100 if borders == "kept" else -1}
            for _ in range(4 if name == "shared" else 1):    # what is asked for comes ready some batches later
                batch = next(stream)
                made = batch.training(**options)
            seen["shared"] += made.shared
            seen["padding"] += int((batch.used < batch.sequence).sum())
            seen["pieces"] += len(batch.parts)
            wrong += differences(made, naive(batch, labels, borders, positions, cu_seqlens, options["ignore_index"]))
            lk_types = {k: v.dtype for k, v in made.items() if isinstance(v, np.ndarray)}
            if any(lk_types[k] != dtype for k in ("input_ids", "labels", "position_ids", "document_ids")) or lk_types["cu_seqlens"] != np.int32 or lk_types["loss_mask"] != bool:
                wrong.append(f"dtypes {lk_types}")
            if n % 3 == 0:
                parts = list(batch.micro_batches(3))
                for part in parts:
                    wrong += differences(part.training(**options), naive(part, labels, borders, positions, cu_seqlens, options["ignore_index"]))
                if sum(p.rows for p in parts) != batch.rows or not np.array_equal(np.concatenate([p.tokens for p in parts]), batch.tokens):
                    wrong.append("micro-batches are not the rows of the batch")
            n += 1
    lk.check(not wrong, f"{n} combinations of options and sources are as the naive reference says", lambda: f"{len(wrong)} differences, the first: {wrong[0]}")
    lk.check(seen["padding"] > 50 and seen["pieces"] > 1000 and seen["shared"] >= 20, "with padding, many pieces, and arrays that the daemon made", seen)


def asked_for(box):
    """What is not asked for is not there; it is a mapping; wrong options are refused by name."""
    batch = next(Stream(box.serve(padded(box)).address))
    everything = batch.training()
    lk.same(list(everything), ["input_ids", "labels", "position_ids", "cu_seqlens", "max_seqlen", "loss_mask", "document_ids", "num_valid_tokens"], "the names")
    lk.same(sorted((lambda **k: k)(**everything)), sorted(everything), "it can be passed on as **keywords")
    least = batch.training(labels=False, positions=False, cu_seqlens=False, loss_mask=False, document_ids=False, dtype="int32")
    lk.same((list(least), least.num_valid_tokens), (["input_ids", "num_valid_tokens"], everything.num_valid_tokens), "the least of it")
    lk.same(least.input_ids.ctypes.data, batch.tokens.ctypes.data, "int32 input_ids are the batch's own memory")
    support.raises(AttributeError, lambda: least.labels, "an array that was not asked for says so", "labels", "input_ids")
    lk.same(everything.num_valid_tokens, int(everything.loss_mask.sum()), "num_valid_tokens is the sum of the loss mask")
    lk.same(int((everything.labels != -100).sum()), everything.num_valid_tokens, "and the labels that count")
    for options, words in (({"labels": "next"}, "labels='next'"), ({"positions": 3}, "positions"), ({"cu_seqlens": "all"}, "flat"), ({"borders": "x"}, "kept"),
                           ({"dtype": np.int16}, "int16"), ({"ignore_index": 1 << 40, "dtype": "int32"}, "ignore_index")):
        support.raises(ValueError, lambda: batch.training(**options), f"{options} is refused", words)
    kept = batch.training(dtype=np.int64)
    labels, before = kept.labels, kept.labels.copy()
    del kept, everything, batch
    lk.check(np.array_equal(labels, before), "an array alone keeps its memory")


def long_document(box):
    """RC-072: one document of 10 tokens and its end, sequences of 4: split, shifted inside of each row, nothing cut off."""
    box.dataset("d", ["".join(chr(i) for i in range(1, 11))])
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, sequence=4, tokenizer={"bytes": True, "append": "eos"}))
    rows = [(b.tokens[0].tolist(), b.training().labels[0].tolist(), b.training(positions="document").position_ids[0].tolist()) for b in Stream(daemon.address)]
    lk.same(rows[:2], [([1, 2, 3, 4], [2, 3, 4, -100], [0, 1, 2, 3]), ([5, 6, 7, 8], [6, 7, 8, -100], [4, 5, 6, 7])], "two full rows; labels do not cross rows")
    status = daemon.status()["streams"][0]["cursors"][0]
    lk.same((len(rows), status["tokens_in"], status["tokens_out"] + status["tokens_lost"] + status["tokens_waiting"]), (2, 11, 11), "the tail of three is counted")


def documents_apart(box):
    """RC-074: a row of two documents: positions, cu_seqlens, document ids, and the label that would cross."""
    box.dataset("d", ["\x01\x03\x03\x03", "\x01\x03\x03"])
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, sequence=7))
    made = next(Stream(daemon.address)).training()
    lk.same({k: plainly(v) for k, v in made.items()},
            {"input_ids": [[1, 3, 3, 3, 1, 3, 3]], "labels": [[3, 3, 3, -100, 3, 3, -100]], "position_ids": [[0, 1, 2, 3, 0, 1, 2]], "cu_seqlens": [0, 4, 7],
             "max_seqlen": 4, "loss_mask": [[True, True, True, False, True, True, False]], "document_ids": [[0, 0, 0, 0, 1, 1, 1]], "num_valid_tokens": 5}, "exactly")
    kept = next(Stream(daemon.address)).training(borders="kept")
    lk.same((kept.labels.tolist(), kept.num_valid_tokens), ([[3, 3, 3, 1, 3, 3, -100]], 6), "and kept by option")


if __name__ == "__main__":
    support.main([every_option, asked_for, long_document, documents_apart])
