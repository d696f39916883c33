"""Packs documents into rows and turns them into what a training step is fed with, as zephon does.

Standard input:  {"sequence": T, "pad_id": id, "ignore_index": id, "rows": [[[ids of a document], …], …]}
Standard output: {"plain": {input_ids, positions, cu_flat, max_flat, cu_rows, max_rows},
                  "labelled": {labels, loss_mask, num_valid_tokens, positions}}, rows as lists.
Exit status 77: the package is not installed.
"""

import json
import sys

try:
    import numpy
    from zephon._internal.ops.pack_sequences import Segment, _FlatSerializer
    from zephon.types import SampleBatch, SampleMeta, SampleRecord
except ImportError as e:
    print(f"skipped: {e}", file=sys.stderr)
    sys.exit(77)


def record(number, payload, padding=0):
    meta = SampleMeta(sample_id=number, lane_id=0, chunk_id=0)
    meta.tags["_packing_metadata"] = {"padding_length": padding}
    return SampleRecord(meta=meta, payload=payload)


def packed(number, documents, sequence, pad_id):
    """Zephon makes no row without a document: such a one is written as its padding would be."""
    used = sum(map(len, documents))
    if not used:
        return record(number, {"input_ids": numpy.full(sequence, pad_id),
                               "positions": numpy.arange(sequence)}, sequence)
    serializer = _FlatSerializer(max_length=sequence, tokens_field="input_ids", pad_token_id=pad_id,
                                 emit_positions=True)
    segments = [Segment(record=record(i, {"input_ids": numpy.array(ids)}), start=0, end=len(ids),
                        seq_len=len(ids)) for i, ids in enumerate(documents)]
    return record(number, serializer.build_payload(segments), serializer.padding_length(used))


def listed(made, *names):
    return {name: numpy.asarray(made[name]).tolist() for name in names}


def main():
    asked = json.load(sys.stdin)
    batch = SampleBatch(records=[packed(i, documents, asked["sequence"], asked["pad_id"])
                                 for i, documents in enumerate(asked["rows"])])
    common = {"dtype": numpy.int64}
    rows = batch.to_training(return_cu_seqlens=True, **common)
    flat = batch.to_training(return_cu_seqlens=True, flatten=True, **common)
    plain = listed(rows, "input_ids", "positions")
    plain.update(cu_flat=numpy.asarray(flat["cu_seqlens"]).tolist(), max_flat=int(flat["max_seqlen"]),
                 cu_rows=numpy.asarray(rows["cu_seqlens"]).tolist(),
                 max_rows=numpy.asarray(rows["max_seqlen"]).tolist())
    made = batch.to_training(return_labels=True, return_loss_mask=True, return_num_valid_tokens=True,
                             ignore_index=asked["ignore_index"], **common)
    labelled = listed(made, "labels", "loss_mask", "positions")
    labelled["num_valid_tokens"] = int(made["num_valid_tokens"])
    json.dump({"plain": plain, "labelled": labelled}, sys.stdout)


if __name__ == "__main__":
    main()
