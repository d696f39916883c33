"""Megatron-core's parallel state and data iterator over a stream, as ranks of torch.distributed (gloo)."""

import ranks

ranks.needs("torch", "megatron-core")

import megatron.core.parallel_state    # noqa: F401 - before there is a box: it imports what makes temporary folders

import lanekeeper
from lanekeeper.adapters.megatron import BatchIterator, open_stream

import lk
import support

NAMES = ("input_ids", "labels", "position_ids", "loss_mask")

ITERATE = """
    import json, sys, torch, torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.packed_seq_params import PackedSeqParams
    from lanekeeper.adapters.megatron import BatchIterator, open_stream
    address, steps, tp, k, packed, state = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "packed", json.loads(sys.argv[6])
    dist.init_process_group("gloo")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=tp)
    data = BatchIterator(open_stream(address), num_microbatches=k, packed=packed)
    if state:
        data.load_state_dict(state)
    for _ in range(steps):
        step = []
        for _ in range(k):
            batch = next(data)
            assert batch["attention_mask"] is None and batch["loss_mask"].dtype == torch.float32
            if packed:
                bounds = batch["packed_seq_params"]
                assert isinstance(bounds, PackedSeqParams) and bounds.qkv_format == "thd" and bounds.cu_seqlens_q.dtype == torch.int32
                assert batch["tokens"].shape == (1, int(bounds.cu_seqlens_q[-1]))
                starts = bounds.cu_seqlens_q[:-1].long()
                assert (batch["position_ids"][0, starts] == 0).all() and int(bounds.cu_seqlens_q.diff().max()) == bounds.max_seqlen_kv
                batch = {name: batch[name].view(-1, 128) for name in ("tokens", "labels", "position_ids", "loss_mask")}
            step.append(batch)
        whole = {name: torch.cat([batch[name] for batch in step]) for name in ("tokens", "labels", "position_ids", "loss_mask")}
        rank.note({"input_ids": whole["tokens"], **whole}, %r)
    rank.say(parallel_state.get_data_parallel_rank())
    rank.say(data.state_dict())
    dist.destroy_process_group()""" % (NAMES,)


def layouts(box):
    """RC-010: tensor-parallel peers have the same bytes and count once; resumed in another layout."""
    address = box.serve(box.mixed()).address
    peers = ranks.leg(box, ITERATE, 2, address, 2, 2, 2, "rows", "null")
    wanted = ranks.expected(address, 0, 2, ignore_index=0)
    for r in range(2):
        ranks.equal(peers[r:r + 1], wanted, NAMES, f"tensor-parallel rank {r} of 2 has the whole global batch")
    lk.same([words[0] for words, _ in peers], [0, 0], "they are one data-parallel rank")
    state = ranks.states(peers)
    lk.same(state["step"], 2, "and 2 steps are used")
    data = ranks.leg(box, ITERATE, 2, address, 2, 1, 2, "packed", support.lk.json.dumps(state))
    ranks.equal(data, ranks.expected(address, 2, 4, ignore_index=0), NAMES, "resumed by 2 data-parallel ranks, packed: steps 2 and 3")


def refusals(box):
    """Packing with context parallelism; the end of the stream; a state of another stream."""
    box.dataset("d", [chr(65 + i) for i in range(10)])
    address = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=5)).address
    alone, half = lanekeeper.parallel.DataParallel(0, 1), lanekeeper.parallel.DataParallel(0, 1, 1, 2)
    stream = lanekeeper.Stream(address, rank=0, world=1)
    support.raises(lanekeeper.InvalidArgument, lambda: BatchIterator(stream, packed=True, place=half), "packed with context parallelism", "context-parallel")
    support.raises(lanekeeper.FailedPrecondition, lambda: open_stream(address), "before the parallel state is initialised", "initialize_model_parallel")
    data = BatchIterator(stream, place=alone)
    lk.same([b["tokens"].numel() for b in data], [5, 5], "it ends with the stream")
    other = box.serve(box.mixed(), "other").address
    data = BatchIterator(lanekeeper.Stream(other, rank=0, world=1), place=half)
    whole = ranks.expected(other, 0, 1, ignore_index=0)
    columns = [c for chunk in (1, 2) for c in range(chunk * 32, chunk * 32 + 32)]
    lk.check((next(data)["tokens"].numpy() == whole["input_ids"][0][:, columns]).all(), "a context-parallel rank has its two chunks")
    support.raises(lanekeeper.FailedPrecondition, lambda: data.load_state_dict(stream.state_dict()), "a state of another stream", "stream digest")
    data.seek(7)
    lk.same(data.state_dict()["step"], 7, "seek to an iteration")


if __name__ == "__main__":
    ranks.main([layouts, refusals],
               "import torch.distributed, lanekeeper.adapters.megatron; from megatron.core import parallel_state, packed_seq_params")
