"""PyTorch's DataLoader and torchdata's StatefulDataLoader over a stream, as ranks of torch.distributed (gloo)."""

import ranks

ranks.needs("torch", "torchdata")

import json
import pickle

import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import lanekeeper
from lanekeeper.adapters.torch import StreamDataset, loader

import lk
import support

NAMES = ("input_ids", "labels", "position_ids", "loss_mask", "document_ids")

LOADER = """
    import json, sys, torch, torch.distributed as dist
    from lanekeeper.adapters.torch import loader
    address, steps, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo")
    batches = loader(address, stateful=True)
    try:
        batches.load_state_dict(torch.load(path))
    except FileNotFoundError:
        pass
    dist.barrier()    # before it is written below
    for n, batch in enumerate(batches):
        assert batch["input_ids"].dtype == torch.int64 and batch["num_valid_tokens"] == int(batch["loss_mask"].sum())
        rank.note(batch, %r)
        if n + 1 == steps:
            break
    state = batches.state_dict()
    if dist.get_rank() == dist.get_world_size() - 1:
        torch.save(state, path)
    rank.say({"state": state, "bytes": len(json.dumps(state))})
    dist.barrier()
    dist.destroy_process_group()""" % (NAMES,)


def other_worlds(box):
    """RC-006, RC-007, RC-135: a StatefulDataLoader's checkpoint, taken by other numbers of ranks."""
    daemon = box.serve(box.mixed(batch=12))
    path, at = box.path / "loader.pt", 0
    for world, steps in ((2, 3), (3, 2), (1, 4)):
        results = ranks.leg(box, LOADER, world, daemon.address, steps, path)
        ranks.equal(results, ranks.expected(daemon.address, at, at + steps), NAMES, f"{world} ranks, steps {at} to {at + steps - 1}: all arrays are the stream's")
        at += steps
        said = [words[-1] for words, _ in results]
        lk.check(all(s == said[0] for s in said), "the loader's state is the same on every rank", lk.short(said))
        lk.check(said[0]["bytes"] < 4096, "and JSON of less than 4 KB", said[0])
        lk.same(said[0]["state"]["dataset_state"]["step"], at, "it counts what was used")


def ends(box):
    """RC-092: 25 samples in batches of 5 end at the same step on both ranks."""
    box.dataset("d", [chr(65 + i) for i in range(25)])
    daemon = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=5))
    results = ranks.leg(box, LOADER, 2, daemon.address, 100, box.path / "end.pt")
    lk.same([len(noted["input_ids"]) for _, noted in results], [5, 5], "both have 5 steps, and a barrier after them is passed")
    lk.same(sorted(int(x) for step in ranks.gathered(results, "input_ids") for x in step.ravel()), [65 + i for i in range(25)], "and each sample once")
    again = ranks.leg(box, LOADER, 3, daemon.address, 100, box.path / "end.pt")
    lk.same([noted for _, noted in again], [{}] * 3, "resumed at the end: nothing more")


def states_in_every_way(box):
    """RC-135: before and after the first iter(), through JSON and pickle, after iterating has begun."""
    address = box.serve(box.mixed()).address
    wanted = ranks.expected(address, 0, 10)["input_ids"]
    ids = lambda batch: batch["input_ids"].numpy()    # noqa: E731
    same = lambda got, step: (ids(got) == wanted[step]).all()    # noqa: E731
    for lookahead in (0, 1, 4, 8):
        first = loader(lanekeeper.Stream(address, 's', 0, 1, lookahead=lookahead), stateful=True)
        it = iter(first)
        for _ in range(3):
            next(it)
        state = json.loads(json.dumps(first.state_dict()))
        second = loader(lanekeeper.Stream(address, 's', 0, 1, lookahead=lookahead), stateful=True)
        second.load_state_dict(state)
        got = next(iter(second))
        lk.check(got["step"] == 3 and same(got, 3), f"look-ahead {lookahead}: before the first iter(), step 3 is next", got["step"])
        third = loader(lanekeeper.Stream(address, 's', 0, 1, lookahead=lookahead), stateful=True)
        next(iter(third))
        third.load_state_dict(pickle.loads(pickle.dumps(state)))
        got = next(iter(third))
        lk.check(got["step"] == 3 and same(got, 3), f"look-ahead {lookahead}: after it, too", got["step"])
    data = StreamDataset(address)
    plain = DataLoader(data, batch_size=None)
    it = iter(plain)
    next(it), next(it)
    lk.same(data.state_dict()["step"], 2, "the dataset's own state, under an ordinary DataLoader")
    data.load_state_dict(first.dataset.state_dict())
    got = next(it)
    lk.check(got["step"] == 3 and same(got, 3), "a state loaded while iterating takes effect at once", got["step"])
    other = box.serve(box.mixed(seed=4), "other").address
    late = loader(other, stateful=True)
    late.load_state_dict(state)
    support.raises(lanekeeper.FailedPrecondition, lambda: next(iter(late)), "a state of another stream is refused", "stream digest")


def micro_batches(box):
    """Cuts of a step for gradient accumulation; a step taken in part is taken anew."""
    address = box.serve(box.mixed()).address
    wanted = ranks.expected(address, 0, 4)
    data = StreamDataset(address, micro_batches=4)
    it = iter(DataLoader(data, batch_size=None))
    parts = [next(it) for _ in range(4)]
    lk.check(all(torch.equal(torch.cat([p[n] for p in parts]), torch.from_numpy(wanted[n][0])) for n in NAMES), "four micro-batches are the step's rows")
    lk.same([data.state_dict()["step"], next(it)["step"], data.state_dict()["step"], data.stream.step], [1, 1, 1, 2], "a step of which one part was taken is next still")
    again = next(iter(DataLoader(data, batch_size=None)))
    lk.check(again["step"] == 1 and torch.equal(again["labels"], torch.from_numpy(wanted["labels"][1][:2])), "another iterator takes it from its first part", again["step"])
    it = iter(DataLoader(data, batch_size=None))
    next(it)
    data.seek(3)
    lk.same(next(it)["step"], 3, "after seek nothing of the old step comes")
    bad = iter(StreamDataset(address, micro_batches=9))
    support.raises(lanekeeper.InvalidArgument, lambda: next(bad), "more micro-batches than rows are refused with both numbers", "9", "8")


def refusals(box):
    """Workers, options that there are not, pinned memory without CUDA; set_epoch changes nothing."""
    address = box.serve(box.mixed()).address
    support.raises(lanekeeper.InvalidArgument, lambda: loader(address, num_workers=2), "workers are refused", "num_workers=2", "as often as", "num_workers=0")
    for kind, name in ((DataLoader, "DataLoader"), (StatefulDataLoader, "StatefulDataLoader")):
        for source in (address, lanekeeper.Stream(address)):
            workers = kind(StreamDataset(source), batch_size=None, num_workers=1)
            support.raises(lanekeeper.FailedPrecondition, lambda: next(iter(workers)), f"{name} with workers is refused in the worker", "num_workers=0")
            del workers
    support.raises(lanekeeper.InvalidArgument, lambda: loader(address, batch_size=4), "a batch size is the recipe's", "batch_size", "ignore_index")
    support.raises(lanekeeper.InvalidArgument, lambda: loader(address, micro_batches=0), "no micro-batches", "micro_batches=0")
    if not torch.cuda.is_available():
        support.raises(lanekeeper.FailedPrecondition, lambda: loader(address, pin_memory=True), "pinned memory without CUDA", "CUDA")
    support.raises(lanekeeper.InvalidArgument, lambda: next(iter(loader(address, keys=["input_ids", "pixels"]))), "a key that there is not", "pixels")
    data = StreamDataset(address, keys=["input_ids", "step"], copy=True)
    first = next(iter(data))
    data.set_epoch(7)
    lk.same((sorted(first), data.step, next(iter(data))["step"]), (["input_ids", "step"], 1, 1), "keys; set_epoch changes nothing")
    first["input_ids"].zero_()
    lk.check(bool((next(iter(data))["input_ids"] > 0).any()), "copies may be written to")


def held(box):
    """RC-134: tensors of many steps keep their bytes, after the end of everything."""
    daemon = box.serve(box.mixed(sequence=32), prefetch_steps=2)
    data = StreamDataset(lambda: lanekeeper.Stream(daemon.address, rank=0, world=1))
    batches = [batch for batch, _ in zip(DataLoader(data, batch_size=None), range(40))]
    wanted = ranks.expected(daemon.address, 0, 40)
    data.stream.close()
    daemon.stop()
    lk.check(all(torch.equal(b[n], torch.from_numpy(wanted[n][i])) for i, b in enumerate(batches) for n in NAMES), "40 steps held, after close and the daemon's end")


def restarted(box):
    """RC-111: the daemon is killed and started again under a loader that goes on."""
    daemon = box.serve(box.mixed())
    wanted = ranks.expected(daemon.address, 0, 8)
    data = StreamDataset(lambda: lanekeeper.Stream(daemon.address, rank=0, world=1, timeout=120))
    got = []
    for batch in DataLoader(data, batch_size=None):
        got.append(batch["input_ids"].clone())
        if batch["step"] == 3:
            daemon.kill()
            box.daemon(daemon.config_path, index=False)
        if batch["step"] == 7:
            break
    lk.check(len(got) == 8 and all(torch.equal(g, torch.from_numpy(w)) for g, w in zip(got, wanted["input_ids"])), "no step is left out or given twice", len(got))
    lk.check(data.stream.info.connections > 1, "over another connection", data.stream.info)


if __name__ == "__main__":
    ranks.main([other_worlds, ends, states_in_every_way, micro_batches, refusals, held, restarted],
               "import torch, torch.distributed, torchdata.stateful_dataloader, lanekeeper.adapters.torch")
