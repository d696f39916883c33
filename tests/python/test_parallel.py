"""Which rank of how many: from the environment, from layouts, from meshes and Megatron's state."""

import support

import importlib.util
import itertools
import logging
import os
import sys
import types

import numpy as np

import lanekeeper
from lanekeeper import launch, parallel

import lk


def from_the_environment(box):
    ways = {"torchrun": ({"RANK": "3", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (3, 8)),
            "srun": ({"SLURM_PROCID": "5", "SLURM_NTASKS": "16"}, (5, 16)),
            "srun of some tasks": ({"SLURM_PROCID": "1", "SLURM_NTASKS": "16", "SLURM_STEP_NUM_TASKS": "4"}, (1, 4)),
            "salloc's shell, no task": ({"SLURM_NTASKS": "16"}, (0, 1)),
            "mpirun": ({"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4"}, (2, 4)),
            "MPICH": ({"PMI_RANK": "7", "PMI_SIZE": "9"}, (7, 9)), "nothing": ({}, (0, 1))}
    for name, (environment, expected) in ways.items():
        lk.same(launch.detect(environment)[:2], expected, f"{name}: rank and world")
    support.raises(lanekeeper.InvalidArgument, lambda: launch.detect({"RANK": "1"}), "RANK alone is refused", "WORLD_SIZE")
    support.raises(lanekeeper.InvalidArgument, lambda: launch.detect({"RANK": "x", "WORLD_SIZE": "2"}), "a word for a number is named", "RANK='x'")
    sys.modules["jax"] = types.SimpleNamespace(process_index=lambda: 2, process_count=lambda: 3)
    lk.same(launch.detect({})[:2], (2, 3), "JAX, where it is imported")
    lk.same(launch.detect({"RANK": "0", "WORLD_SIZE": "2"})[:2], (0, 2), "but variables come first")
    del sys.modules["jax"]
    kept = sys.modules.get("torch")
    sys.modules["torch"] = types.SimpleNamespace(distributed=types.SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 1, get_world_size=lambda: 5))
    lk.same(launch.detect({"RANK": "0", "WORLD_SIZE": "2"})[:2], (1, 5), "an initialised torch.distributed before all")
    sys.modules["torch"] = kept
    if kept is None:
        del sys.modules["torch"]


def said(box):
    """In the log, once; in repr; and a stream takes it."""
    daemon = box.serve(box.mixed())
    code = """
        import logging, sys
        logging.basicConfig(level="INFO", format="%(message)s", stream=sys.stdout)
        import lanekeeper
        for _ in range(2):
            stream = lanekeeper.Stream(sys.argv[1])
        print(next(stream).first_row, repr(stream))"""
    child = support.python(box, code, daemon.address, environment={"RANK": "3", "WORLD_SIZE": "4"})
    status, out, err = support.said(child)
    lines = out.splitlines()
    lk.same((status, lines[0], len(lines)), (0, "rank 3 of 4 (RANK and WORLD_SIZE)", 2), "the log says it once", )
    lk.check(lines[-1].startswith("6 Stream(") and "rank=3, world=4 (RANK and WORLD_SIZE)" in lines[-1], "and repr says it", lines[-1] + err)
    child = support.python(box, 'import sys, lanekeeper; print(lanekeeper.Stream(rank=0).world)', environment={"WORLD_SIZE": "4", "RANK": "2", "LANEKEEPER_ADDRESS": daemon.address})
    lk.same(support.said(child), (0, "4\n", ""), "the address may be in the environment; what is given goes before it")


def from_sizes(box):
    """All layouts of 48 processes: data-parallel ranks are whole, and their peers differ in the other dimensions alone."""
    n = 0
    for tp, pp, cp in itertools.product((1, 2, 4), (1, 3), (1, 2)):
        for order in ("tp-cp-dp-pp", "pp-dp-cp-tp", "cp-tp-pp-dp"):
            places = [parallel.from_sizes(tp, pp, cp, order=order, rank=r, world=48) for r in range(48)]
            counted = {}
            for place in places:
                counted[place.rank, place.cp_rank] = counted.get((place.rank, place.cp_rank), 0) + 1
            dp = 48 // (tp * pp * cp)
            n += counted == {(d, c): tp * pp for d in range(dp) for c in range(cp)} and {p.world for p in places} == {dp}
    lk.same(n, 36, "each data-parallel rank has its tensor- and pipeline-parallel peers, in every layout")
    at = [parallel.from_sizes(tp=2, pp=2, rank=r, world=8)[:2] for r in range(8)]
    lk.same(at, [(0, 2), (0, 2), (1, 2), (1, 2)] * 2, "as Megatron numbers them: tensor-parallel peers are neighbours, stages are far")
    support.raises(lanekeeper.InvalidArgument, lambda: parallel.from_sizes(tp=3, rank=0, world=8), "sizes that do not make up the world are refused with all of them", "tp 3", "8")
    support.raises(lanekeeper.InvalidArgument, lambda: parallel.from_sizes(tp=2, dp=2, rank=0, world=8), "also a wrong dp", "dp 2")
    support.raises(lanekeeper.InvalidArgument, lambda: parallel.from_sizes(order="tp-dp", rank=0, world=8), "and an order that leaves one out", "order")


class Mesh:
    """What of torch's DeviceMesh is used."""

    def __init__(self, names, sizes, rank):
        self.mesh_dim_names, self.sizes = names, sizes
        self.coordinate = [int(c) for c in np.unravel_index(rank, sizes)] if rank is not None else None

    def size(self, i):
        return self.sizes[i]

    def get_coordinate(self):
        return self.coordinate


def from_meshes(box):
    names, sizes = ("pp", "dp_replicate", "dp_shard", "cp", "tp"), (2, 2, 3, 2, 2)
    mine = [parallel.from_device_mesh(Mesh(names, sizes, r)) for r in range(48)]
    lk.same(mine, [parallel.from_sizes(2, 2, 2, rank=r, world=48) for r in range(48)], "TorchTitan's mesh is the layout of the sizes")
    lk.same(parallel.from_device_mesh(Mesh(("dp", "tp"), (4, 2), 5)), (2, 4, 0, 1), "dp and tp")
    lk.same(parallel.from_device_mesh(Mesh(("a", "b"), (4, 2), 5), ["b"]), (1, 2, 0, 1), "dimensions by name")
    support.raises(lanekeeper.InvalidArgument, lambda: parallel.from_device_mesh(Mesh(("x", "y"), (4, 2), 5)), "a mesh without one is refused with its names", "x, y")
    support.raises(lanekeeper.InvalidArgument, lambda: parallel.from_device_mesh(Mesh(None, (4,), 0)), "and one without names", "without names")
    support.raises(lanekeeper.FailedPrecondition, lambda: parallel.from_device_mesh(Mesh(("dp",), (4,), None)), "a process outside of the mesh is told so")
    state = types.SimpleNamespace(model_parallel_is_initialized=lambda: True, get_data_parallel_rank=lambda: 3, get_data_parallel_world_size=lambda: 4,
                                  get_context_parallel_rank=lambda: 1, get_context_parallel_world_size=lambda: 2)
    lk.same(parallel.from_megatron(state), (3, 4, 1, 2), "Megatron's parallel state")
    state.model_parallel_is_initialized = lambda: False
    support.raises(lanekeeper.FailedPrecondition, lambda: parallel.from_megatron(state), "before it is initialised: said so", "initialize_model_parallel")


def real_mesh(box):
    """torch's own DeviceMesh, where torch has one."""
    torch = importlib.util.find_spec("torch")    # not imported: that takes seconds
    if torch is None or not os.path.exists(os.path.join(os.path.dirname(torch.origin), "distributed", "device_mesh.py")):
        print("# no torch with DeviceMesh: left out")
        return
    code = """
        import torch.distributed as dist, lanekeeper
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        print(*lanekeeper.parallel.from_device_mesh(mesh), *lanekeeper.launch.detect()[:2])
        dist.destroy_process_group()"""
    port = lk.free_port()
    children = [support.python(box, code, environment={"RANK": str(r), "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for r in range(4)]
    lk.same([support.said(c)[1] for c in children], [f"{r // 2} 2 0 1 {r} 4\n" for r in range(4)], "a real DeviceMesh of four processes")


def slices(box):
    """Context-parallel slices: together they are the sequence, and those of Megatron have the same work."""
    batch = next(lanekeeper.Stream(box.serve(box.mixed(sequence=96)).address))
    whole = batch.training()
    for n in (1, 2, 3, 4):
        for kind, chunks in (("zigzag", lambda r: (r, 2 * n - 1 - r)), ("contiguous", lambda r: (2 * r, 2 * r + 1))):
            parts = [batch.training(cp=(r, n), cp_slice=kind) for r in range(n)]
            size, wrong = 96 // (2 * n), []
            for r, part in enumerate(parts):
                columns = [c for chunk in chunks(r) for c in range(chunk * size, (chunk + 1) * size)]
                wrong += [name for name in ("input_ids", "labels", "position_ids", "document_ids", "loss_mask") if not np.array_equal(part[name], whole[name][:, columns])]
            lk.check(not wrong, f"{n} {kind} slices: these columns of every array", wrong)
            lk.same(sum(p.num_valid_tokens for p in parts), whole.num_valid_tokens, "their valid tokens add up")
            lk.check(all(np.array_equal(p.cu_seqlens, whole.cu_seqlens) for p in parts), "cu_seqlens are of whole rows")
    place = parallel.from_sizes(cp=2, rank=1, world=2)
    part = list(batch.micro_batches(2))[1].training(cp=place)
    lk.check(np.array_equal(part.labels, batch.training(cp=(1, 2)).labels[4:]) and part.num_valid_tokens == int(part.loss_mask.sum()), "a place, and a micro-batch")
    support.raises(lanekeeper.InvalidArgument, lambda: batch.training(cp=(0, 5)), "a length that is not divisible is refused", "96")
    support.raises(lanekeeper.InvalidArgument, lambda: batch.training(cp=(2, 2)), "a rank that is not there is refused", "cp=(2, 2)")
    support.raises(lanekeeper.InvalidArgument, lambda: batch.training(cp=(0, 2), cp_slice="ring"), "another slice is refused", "zigzag")


if __name__ == "__main__":
    logging.getLogger("lanekeeper").setLevel("ERROR")
    support.main([from_the_environment, said, from_sizes, from_meshes, real_mesh, slices])
