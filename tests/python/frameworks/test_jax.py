"""JAX arrays over a stream, in one process and in several of jax.distributed."""

import ranks

ranks.needs("jax")

import json

import lk
import support

NAMES = ("input_ids", "labels", "position_ids", "document_ids", "loss_mask")

ITERATE = """
    import json, sys, numpy as np
    address, steps, state = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    import os, jax
    r, world = int(os.environ.pop("RANK")), int(os.environ.pop("WORLD_SIZE"))    # JAX's own are taken
    jax.distributed.initialize(f"127.0.0.1:{os.environ['MASTER_PORT']}", world, r)
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from lanekeeper.adapters.jax import BatchIterator
    batches = BatchIterator(address, sharding=NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec("data")))
    if state:
        batches.set_state(state)
    for _ in range(steps):
        batch = next(batches)
        assert isinstance(batch["input_ids"], jax.Array) and batch["input_ids"].shape == (8, 128), batch["input_ids"].shape
        shards = {name: sorted(batch[name].addressable_shards, key=lambda s: s.index[0].indices(8)[0]) for name in %r}
        rank.note({name: np.concatenate([np.asarray(s.data) for s in parts]) for name, parts in shards.items()}, %r)
    rank.say([batches.stream.rank, batches.stream.world])
    rank.say(batches.get_state())
    jax.distributed.shutdown()""" % (NAMES, NAMES)


def other_worlds(box):
    """RC-007, RC-135: global arrays of two processes of two devices; resumed by one."""
    address = box.serve(box.mixed()).address
    two = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    first = ranks.leg(box, ITERATE, 2, address, 3, "null", environment=two)
    ranks.equal(first, ranks.expected(address, 0, 3, dtype=ranks.np.int32), NAMES, "2 processes: the shards of global arrays are the stream's rows")
    lk.same([words[0] for words, _ in first], [[0, 2], [1, 2]], "rank and world are JAX's")
    state = ranks.states(first)
    lk.same(state["step"], 3, "the state counts what was used")
    second = ranks.leg(box, ITERATE, 1, address, 2, json.dumps(state), environment=two)
    ranks.equal(second, ranks.expected(address, 3, 5, dtype=ranks.np.int32), NAMES, "resumed by one process: steps 3 and 4")


def one_process(box):
    """NumPy arrays without a sharding; the end; what a sharding that does not fit says."""
    support.os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import lanekeeper
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
    from lanekeeper.adapters.jax import BatchIterator
    box.dataset("d", [chr(65 + i) for i in range(10)])
    address = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=5)).address
    batches = BatchIterator(address)
    lk.same([(b["step"], b["input_ids"].shape, str(b["input_ids"].dtype)) for b in batches], [(0, (5, 1), "int32"), (1, (5, 1), "int32")], "it ends with the stream")
    batches.set_state({**batches.get_state()})
    support.raises(StopIteration, lambda: next(batches), "and stays there")
    sharding = NamedSharding(Mesh(ranks.np.array(jax.devices()), ("data",)), PartitionSpec("data"))
    half = BatchIterator(lanekeeper.Stream(address, rank=1, world=2), sharding=sharding)
    support.raises(lanekeeper.FailedPrecondition, lambda: next(half), "a rank whose rows are not the devices'", "rows 0 to 4 of 5", "3 rows")
    lk.same(half.get_state()["step"], 0, "and that step is next still")
    support.raises(lanekeeper.InvalidArgument, lambda: BatchIterator(address, batch_size=3), "an option that there is not", "batch_size")
    other = BatchIterator(box.serve(box.mixed(), "other").address)
    support.raises(lanekeeper.FailedPrecondition, lambda: other.set_state(half.get_state()), "a state of another stream", "stream digest")


if __name__ == "__main__":
    ranks.main([other_worlds, one_process],
               "import jax, lanekeeper.adapters.jax")
