"""One rank of one leg: trains from the leg's first step to its last, and leaves what the next leg goes on from."""
import hashlib
import json
import os
import pickle
import time

import torch
import torch.distributed as dist

import loaders
import model as models

WARM_UP = 10    # steps


def rate(step, settings):
    """Learning rate: rises, then falls linearly to a tenth at the run's end."""
    rise = min(1.0, (step + 1) / WARM_UP)
    fall = 1.0 - 0.9 * step / settings["steps"]
    return settings["rate"] * rise * fall


def flat(parameters):
    return torch.cat([p.grad.reshape(-1) for p in parameters])


class Plain:
    """Gradients as every trainer adds them: each rank over its rows at once, then all-reduce, in float32. In which
    order numbers are added depends on how many ranks there are."""

    def __init__(self, leg, rank):
        self.tokens = leg["batch"] * (leg["sequence"] - 1)

    def __call__(self, model, parameters, rows):
        """(mean loss of the step, its gradient as one vector), the same on all ranks."""
        model.zero_grad(set_to_none=False)
        loss = models.row_losses(model, rows, "sum") / self.tokens
        loss.backward()
        total = torch.cat([flat(parameters), loss.detach().reshape(1)])
        dist.all_reduce(total)
        return float(total[-1]), total[:-1]


class Fixed:
    """The same sum in an order that does not depend on the ranks: every row's gradient by itself, all of them gathered,
    added in float64 in the order of the global batch's rows."""

    def __init__(self, leg, rank):
        self.tokens = leg["batch"] * (leg["sequence"] - 1)
        batch, world = leg["batch"], leg["world"]
        self.shares = [batch * (r + 1) // world - batch * r // world for r in range(world)]

    def __call__(self, model, parameters, rows):
        made = torch.zeros(max(self.shares), sum(p.numel() for p in parameters) + 1)
        for i, row in enumerate(rows):
            model.zero_grad(set_to_none=False)
            loss = models.row_losses(model, row[None], "sum") / self.tokens
            loss.backward()
            made[i] = torch.cat([flat(parameters), loss.detach().reshape(1)])
        gathered = [torch.empty_like(made) for _ in self.shares]
        dist.all_gather(gathered, made)
        everything = torch.cat([part[:n] for part, n in zip(gathered, self.shares)])
        total = torch.zeros(everything.shape[1], dtype=torch.float64)
        for row in everything:
            total += row.double()
        return float(total[-1]), total[:-1].float()


REDUCTIONS = {"plain": Plain, "fixed": Fixed}


def hashes(rows):
    return [hashlib.blake2b(row.numpy().tobytes(), digest_size=8).hexdigest() for row in rows]


def load(leg, model, optimizer):
    if leg["checkpoint"]:
        saved = torch.load(leg["checkpoint"])
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])


def steps(leg, rank, loader, begun):
    """Trains; (model, optimizer, what was seen)."""
    settings = leg["settings"]
    model = models.made(settings, leg["init_seed"])
    parameters = [p for p in model.parameters()]
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=settings["rate"], betas=(0.9, 0.95), weight_decay=0.1)
    load(leg, model, optimizer)
    reduction = REDUCTIONS[leg["reduction"]](leg, rank)
    seen = {"losses": [], "rows": []}
    for step in range(leg["first"], leg["last"]):
        rows = loader.next()
        seen.setdefault("first_batch_s", time.monotonic() - begun)
        seen["rows"].append(hashes(rows))
        loss, gradient = reduction(model, parameters, rows)
        seen["losses"].append(loss)
        at = 0
        for parameter in parameters:
            parameter.grad.copy_(gradient[at:at + parameter.numel()].view_as(parameter))
            at += parameter.numel()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, settings)
        optimizer.step()
    return model, optimizer, seen


def rank_main(leg, rank):
    """The whole life of a rank's process. Its findings go to leg["folder"]/rank-N.json."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{leg['folder']}/gloo", rank=rank, world_size=leg["world"])
    begun = time.monotonic()
    loader = loaders.of(leg["loader"]).open(leg, rank)
    model, optimizer, seen = steps(leg, rank, loader, begun)
    if leg["last"] < leg["settings"]["steps"]:
        state = loader.save()    # all ranks: some loaders make it together
        if rank == 0:
            (leg["folder"] / "state").write_bytes(state)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, leg["folder"] / "model.new")
            seen["checkpoint_bytes"] = len(state)
    elif rank == 0:
        exam = models.Exam(leg["data"] / "held.json", leg["sequence"], leg["settings"]["exam_rows"], leg["settings"]["questions"])
        seen["marks"] = exam.mark(model)
        digest = hashlib.sha256(pickle.dumps([p.detach().numpy().tobytes() for p in model.parameters()]))
        seen["weights"] = digest.hexdigest()[:16]
    (leg["folder"] / f"rank-{rank}.json").write_text(json.dumps(seen))
    dist.barrier()
    loader.close()
