"""TorchTitan's data loader over a stream: its configuration, its batches, and torch's distributed checkpoints."""

import ranks

ranks.needs("torch", "torchtitan")

import lk
import support

NAMES = ("input_ids", "labels", "position_ids")

ITERATE = """
    import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
    from torchtitan.components.dataloader import BaseDataLoader
    from lanekeeper.adapters.torchtitan import LanekeeperLoader
    address, steps, rows, load, save = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    dist.init_process_group("gloo")
    r, world = dist.get_rank(), dist.get_world_size()
    loader = LanekeeperLoader.Config(address=address).build(dp_world_size=world, dp_rank=r, tokenizer=None, seq_len=128,
                                                            local_batch_size=rows, snapshot_every_n_steps=None)
    assert isinstance(loader, BaseDataLoader)
    if load != "-":
        dcp.load({"dataloader": loader}, checkpoint_id=load)
    batches = iter(loader)
    for _ in range(steps):
        parts = [next(batches) for _ in range(8 // world // rows)]
        assert all(inputs["input"].shape == labels.shape == (rows, 128) for inputs, labels in parts)
        rank.note({"input_ids": torch.cat([i["input"] for i, _ in parts]), "labels": torch.cat([l for _, l in parts]),
                   "position_ids": torch.cat([i["positions"] for i, _ in parts])})
    dcp.save({"dataloader": loader}, checkpoint_id=save)
    rank.say(loader.state_dict())
    loader.close()
    dist.destroy_process_group()"""


def other_worlds(box):
    """RC-007: saved by two ranks of two micro-batches, loaded by one of one."""
    address = box.serve(box.mixed()).address
    first = ranks.leg(box, ITERATE, 2, address, 3, 2, "-", box.path / "a")
    ranks.equal(first, ranks.expected(address, 0, 3), NAMES, "2 ranks: inputs, labels and positions are the stream's")
    lk.same(ranks.states(first)["step"], 3, "the state counts what was used")
    second = ranks.leg(box, ITERATE, 1, address, 2, 8, box.path / "a", box.path / "b")
    ranks.equal(second, ranks.expected(address, 3, 5), NAMES, "its distributed checkpoint is loaded by 1 rank: steps 3 and 4")


def refusals(box):
    """Lengths that are not the stream's; rows that are no multiple; the end; half a step is none."""
    import lanekeeper
    from lanekeeper.adapters.torchtitan import LanekeeperLoader
    config = LanekeeperLoader.Config(address=box.serve(box.mixed()).address)
    build = lambda **more: config.build(**{"dp_world_size": 1, "dp_rank": 0, "tokenizer": None, "seq_len": 128, "local_batch_size": 2, **more})    # noqa: E731
    support.raises(lanekeeper.InvalidArgument, lambda: build(seq_len=64), "another seq_len", "seq_len=64", "128")
    support.raises(lanekeeper.InvalidArgument, lambda: next(iter(build(local_batch_size=3))), "rows that are no multiple", "8 rows", "local_batch_size=3")
    loader = build()
    batches = iter(loader)
    for _ in range(6):
        next(batches)
    lk.same(loader.state_dict()["step"], 1, "a step of which a part was taken is next still")
    loader.load_state_dict({})
    lk.check(bool((next(iter(loader))[1].numpy() == ranks.expected(config.address, 1, 2)["labels"][0][:2]).all()), "and is taken from its first part")


if __name__ == "__main__":
    ranks.main([other_worlds, refusals],
               "import torch.distributed.checkpoint, lanekeeper.adapters.torchtitan")
