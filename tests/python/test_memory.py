"""Whose memory a batch is, and for how long: views, leases, forks, threads, tensors."""

import support

import ctypes
import gc
import os
import re
import threading
import time

import numpy as np

import lanekeeper
from lanekeeper import Stream

import lk

try:
    import torch
except ImportError:
    torch = None


def mapping_of(address):
    """(permissions, name, inode, address in the file) of the mapping that an address lies in."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            begin, end = (int(x, 16) for x in line.split()[0].split("-"))
            if begin <= address < end:
                _, permissions, offset, _, inode, *name = line.split()
                return permissions, " ".join(name), int(inode), address - begin + int(offset, 16)
    return "", "", 0, 0


def leased(daemon):
    return daemon.status()["streams"][0]["slots_leased"]


def ready(stream, steps):
    """Batches whose training arrays the daemon has made ahead of time."""
    for _ in range(steps):
        next(stream).training()
    return next(stream)


def no_copies(box):
    """Tokens, int32 ids and the daemon's training arrays are its own memory, mapped read-only."""
    daemon = box.serve(box.mixed())
    stream = Stream(daemon.address, rank=1, world=2, lookahead=2)
    twin = Stream(daemon.address, rank=1, world=2, lookahead=2)
    batch, same = ready(stream, 6), ready(twin, 6)
    made, alike = batch.training(), same.training()
    lk.check(batch.shared and made.shared and alike.shared, "the daemon made tokens and training arrays", (batch, made))
    arrays = {"tokens": batch.tokens, "input_ids": batch.input_ids, "row_table": batch.row_table, "used": batch.used, "parts": batch.parts,
              **{f"training {name}": made[name] for name in ("input_ids", "labels", "position_ids", "document_ids", "loss_mask")}}
    for name, array in arrays.items():
        where = mapping_of(array.ctypes.data)
        lk.check(where[0] == "r--s" and "memfd:" in where[1], f"{name} is a view of the shared mapping", where)
        lk.check(not array.flags.writeable and not array.flags.owndata, f"{name} is read-only")
        support.raises(ValueError, lambda: array.__setitem__(0, 1), f"writing to {name} is refused")
        support.raises(ValueError, lambda: array.setflags(write=True), f"{name} cannot be made writable")
    view = made.torch() if torch else {}
    lk.check(all(view[name].data_ptr() == made[name].ctypes.data for name in view if hasattr(view[name], "data_ptr")), "tensors are the same memory")
    (*_, one, here), (*_, other, there) = mapping_of(made.labels.ctypes.data), mapping_of(alike.labels.ctypes.data)
    lk.check(one == other > 0, "a peer of the same rank looks at the same memory", (one, other))
    lk.same(here, there, "in the same place: the arrays were made once")
    copied = Stream(daemon.address, copy=True)
    batch = next(copied)
    batch.tokens[0, 0] = 7
    batch.input_ids[0, 1] = 8
    lk.same((batch.shared, batch.tokens[0, :2].tolist()), (False, [7, 8]), "copy=True: arrays of its own, which may be written to")
    lk.same(batch.training(dtype="int32").input_ids[0, :2].tolist(), [7, 8], "and trained on")
    lk.same(next(Stream(daemon.address)).tokens[0, 0] != 7 or next(Stream(daemon.address)).tokens[0, 1] != 8, True, "nobody else sees that")


def held(box):
    """RC-134: 200 batches held, across the end of the loop, close, and daemons that die, keep their bytes."""
    config = box.config(box.mixed(), prefetch_steps=4)
    daemon = box.daemon(config)
    stream = Stream(daemon.address, rank=0, world=2)
    other = Stream(daemon.address, rank=1, world=2)
    batches, copies = [], []
    for batch in stream:
        batches.append(batch)
        copies.append((batch.tokens.copy(), batch.parts.copy(), batch.digest))
        next(other)
        if len(batches) == 200:
            break

    def changed():
        return sum(not (np.array_equal(b.tokens, c[0]) and np.array_equal(b.parts, c[1]) and b.digest == c[2]) for b, c in zip(batches, copies))
    lk.same(changed(), 0, "200 held batches keep their bytes")
    lk.check(sum(b.shared for b in batches) >= 4, "some of them are in shared memory", sum(b.shared for b in batches))
    daemon.kill()
    daemon = box.daemon(config, index=False)
    lk.same((next(stream).step, changed()), (200, 0), "also when the daemon is killed and comes back")
    stream.close()
    for _ in range(30):
        next(other)
    lk.same(changed(), 0, "and when the stream is closed")
    only = batches[0].tokens[3, 5:9]
    expected = only.copy()
    batches.clear()
    del batch
    gc.collect()
    for _ in range(60):
        next(other)
    lk.check(np.array_equal(only, expected), "a slice of an array alone keeps the memory")


def leases(box):
    """Memory goes back exactly when the last array is gone, whatever it is."""
    daemon = box.serve(box.mixed(), prefetch_steps=4)
    stream = Stream(daemon.address, lookahead=0)
    for _ in range(3):
        next(stream).training()
    lk.wait_until(lambda: leased(daemon) == 0, 10, "nothing is held")
    ways = {"the batch": lambda b: b, "its tokens": lambda b: b.tokens, "a slice": lambda b: b.tokens[1:2, ::3], "int32 ids": lambda b: b.input_ids,
            "used": lambda b: b.used, "parts": lambda b: b.parts[:1], "a micro-batch": lambda b: list(b.micro_batches(4))[2],
            "labels": lambda b: b.training().labels, "a memoryview": lambda b: memoryview(b.tokens), "training()": lambda b: b.training(),
            "int32 training ids": lambda b: b.training(dtype=np.int32, labels=False, positions=False, loss_mask=False, document_ids=False).input_ids,
            "a DLPack capsule": lambda b: b.__dlpack__()}
    if torch:
        ways["a tensor"] = lambda b: torch.from_numpy(b.input_ids)
        ways["tensors of training()"] = lambda b: b.training().torch()["input_ids"][1:]
        ways["from_dlpack"] = lambda b: torch.from_dlpack(b)
    for name, way in ways.items():
        thing = way(next(stream))
        gc.collect()
        time.sleep(0.02)
        lk.same(leased(daemon), 1, f"{name} holds its batch")
        del thing
        gc.collect()
        lk.wait_until(lambda: leased(daemon) == 0, 10, f"{name} gone: given back")
    batch = next(stream)
    tokens = batch.tokens
    batch.release()
    support.raises(lanekeeper.FailedPrecondition, lambda: batch.tokens, "a released batch says so", "released")
    time.sleep(0.02)
    lk.same(leased(daemon), 1, "while its array is there it is held")
    del tokens
    lk.wait_until(lambda: leased(daemon) == 0, 10, "and then no more")
    copy = stream[3].copy()
    lk.wait_until(lambda: leased(daemon) == 0, 10, "a copy holds nothing")
    lk.same((copy.digest, list(copy.micro_batches(2))[1].digest), (stream.digest(3), None), "and knows what it is; a part of it has no digest")


def pressure(box):
    """Many batches let go at random by many threads, and cycles that only the collector ends."""
    daemon = box.serve(box.mixed(), prefetch_steps=4)
    reference = [next(s).digest for s in [Stream(daemon.address)] for _ in range(120)]
    failed = []

    def churn(seed):
        try:
            with Stream(daemon.address, lookahead=seed % 4) as stream:
                kept = []
                for _ in range(120):
                    batch = next(stream)
                    cycle = [batch]
                    cycle.append(cycle)
                    kept.append((batch.input_ids, batch.tokens.copy()))
                    if len(kept) > 3:
                        a, b = kept.pop(seed % 3)
                        if not np.array_equal(a, b):
                            failed.append(f"step {batch.step}: overwritten")
                    if batch.digest != reference[batch.step]:
                        failed.append(f"step {batch.step}: another digest")
        except Exception as error:    # noqa: BLE001
            failed.append(error)
    threads = [threading.Thread(target=churn, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        gc.collect()
        time.sleep(0.005)
    lk.check(not failed, "four threads with streams of their own, under a collector that never rests", failed[:3])
    gc.collect()
    lk.wait_until(lambda: leased(daemon) == 0, 10, "everything is given back")


def forked(box):
    """A forked child gets a clear error from its parent's stream and batches, opens its own, and takes nothing away."""
    daemon = box.serve(box.mixed())
    stream = Stream(daemon.address)
    batch, expected = next(stream), [next(Stream(daemon.address)).digest, *(stream.digests(1, 3))]
    kept = batch.tokens.copy()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for call in (lambda: next(stream), lambda: stream[0], lambda: stream.state_dict(), lambda: stream.info, lambda: stream.status(),
                     lambda: batch.training(), lambda: batch.parts):
            try:
                call()
                said.append("no error")
            except lanekeeper.FailedPrecondition as error:
                said.append("refused" if "fork" in str(error) and str(os.getppid()) in str(error) else str(error))
            except BaseException as error:    # noqa: BLE001
                said.append(repr(error))
        stream.close()
        try:
            with Stream(daemon.address) as own:
                said.append([next(own).digest for _ in range(3)] == expected)
        except BaseException as error:    # noqa: BLE001
            said.append(repr(error))
        os.write(write, repr(said).encode())
        del batch
        gc.collect()
        os._exit(0)
    os.close(write)
    said = eval(os.read(read, 1 << 16))    # noqa: S307 - our own child's
    os.close(read)
    lk.same(os.waitpid(child, 0)[1], 0, "the child ends in order")
    lk.same(said, ["refused"] * 7 + [True], "the child is refused, and its own stream has the same batches")
    for _ in range(20):
        next(Stream(daemon.address))
    lk.check(np.array_equal(batch.tokens, kept), "the parent's batch is as it was after the child let go of it")
    lk.same([next(stream).digest for _ in range(2)], expected[1:], "and its stream goes on")


def tensors(box):
    """torch and DLPack over the same memory."""
    daemon = box.serve(box.mixed())
    batch = next(Stream(daemon.address))
    if hasattr(np, "from_dlpack"):
        lk.check(np.array_equal(np.from_dlpack(batch), batch.tokens), "numpy.from_dlpack(batch)")
    lk.same(batch.__dlpack_device__(), (1, 0), "it says that it is on the CPU")
    lk.same(batch.tokens_as(np.int64).tolist(), batch.tokens.tolist(), "tokens_as(int64)")
    lk.same((batch.tokens_as("uint16").dtype, batch.tokens_as("uint16").tolist()), (np.dtype(np.uint16), batch.tokens.tolist()), "tokens_as(uint16)")
    if torch is None:
        print("# no torch: its half is left out")
        support.raises(lanekeeper.FailedPrecondition, lambda: lanekeeper.pin(batch), "pin without torch says so", "PyTorch")
        return
    tensor = torch.from_numpy(batch.input_ids)
    lk.same((tensor.dtype, tensor.data_ptr()), (torch.int32, batch.tokens.ctypes.data), "torch.from_numpy is the same memory")
    lk.check(torch.equal(torch.from_dlpack(batch), tensor), "torch.from_dlpack(batch)")
    lk.same(torch.from_dlpack(batch).data_ptr(), batch.tokens.ctypes.data, "is the same memory, too")
    made = batch.training()
    lk.check(all(torch.equal(t, torch.from_numpy(made[n].copy())) for n, t in made.torch().items() if isinstance(made[n], np.ndarray)), "training().torch()")
    own = made.torch(copy=True)
    own["labels"][0, 0] = 5
    lk.same((int(own["labels"][0, 0]), own["max_seqlen"]), (5, made.max_seqlen), "copy=True may be written to; numbers stay numbers")
    if torch.cuda.is_available():
        pinned = made.pin()
        lk.check(pinned["labels"].is_pinned() and torch.equal(pinned["labels"], made.torch()["labels"]), "pinned copies")
    else:
        support.raises(lanekeeper.FailedPrecondition, made.pin, "pin without CUDA says so", "CUDA")


RANK = """
    import os, sys, numpy
    def private():
        with open("/proc/self/smaps_rollup") as f:
            return sum(int(l.split()[1]) for l in f if l.startswith(("Private_Dirty", "Private_Clean", "Private_Hugetlb"))) * 1024
    numpy.zeros(1000) + 1; import json, logging, threading, dataclasses, subprocess, tempfile, ctypes
    import gc; gc.collect(); before = private()
    import lanekeeper
    stream = lanekeeper.Stream(sys.argv[1], rank=int(sys.argv[2]), world=4)
    for batch in stream:
        batch.training().labels.sum()
        if batch.step == 60:
            break
    gc.collect()
    print(before, private())
    sys.stdin.read()
"""


def memory_of_a_rank(box):
    """What each further rank process takes beside Python and NumPy: at most 5 MB."""
    daemon = box.serve(box.mixed(batch=8, sequence=2048))
    ranks = [support.python(box, RANK, daemon.address, r) for r in range(4)]
    figures = [[int(x) for x in rank.stdout.readline().split()] for rank in ranks]
    for rank in ranks:
        rank.stdin.close()
        rank.wait(30)
        rank.stdout.close()
        rank.stderr.close()
    most = max(after - before for before, after in figures)
    lk.check(most <= 5 << 20, f"a rank's process grows by {most / 1e6:.1f} MB of its own, at most 5", figures)


if __name__ == "__main__":
    support.main([no_copies, held, leases, pressure, forked, tensors, memory_of_a_rank])
