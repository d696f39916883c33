"""NeMo AutoModel's recipe for language models over a stream, as ranks of torch.distributed (gloo).

The recipe is NeMo's own: its configuration, loader, collating, step scheduler, loss, optimizer's steps and checkpoints.
Three things that it asks of CUDA are given to it here, as there is none: memory statistics, a device, and the building
of the model, which puts it on a GPU. Triton is hidden from it: 0.7.0's kernels do not fit the version that the newest torch
brings, and it does without.
"""

import ranks

ranks.needs("torch", "torchdata", "transformers", "nemo-automodel")

import json
import sys

import lk
import support

sys.modules["triton"] = None

NAMES = ("input_ids", "labels", "position_ids")

TRAIN = """
    import json, os, sys, torch, torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    from transformers import LlamaForCausalLM
    from nemo_automodel.components.config.loader import ConfigNode
    from nemo_automodel.recipes.llm import train_ft
    address, steps, local, folder, resume, more = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5], json.loads(sys.argv[6])
    cpu = torch.device("cpu")
    torch.cuda.reset_peak_memory_stats = lambda *_: None
    torch.cuda.max_memory_allocated = lambda *_: 0
    def build_model(cfg_model, *_, **__):
        torch.manual_seed(1)
        model = LlamaForCausalLM(cfg_model.config.instantiate())
        return DistributedDataParallel(model) if dist.get_world_size() > 1 else model
    train_ft.build_model = build_model
    class Recipe(train_ft.TrainFinetuneRecipeForNextTokenPrediction):
        def _forward_backward_step(self, index, batch, **named):
            self.dist_env.device = cpu
            rank.note(batch)
            super()._forward_backward_step(index, batch, **named)
    config = {
        "seed": 1, "dist_env": {"backend": "gloo"}, "distributed": {"strategy": "ddp"},
        "step_scheduler": {"global_batch_size": 8, "local_batch_size": local, "max_steps": steps, "ckpt_every_steps": 2, "num_epochs": 1},
        "model": {"_target_": "nemo_automodel.NeMoAutoModelForCausalLM.from_config", "config": {
            "_target_": "transformers.LlamaConfig", "vocab_size": 257, "hidden_size": 16, "intermediate_size": 32,
            "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128}},
        "loss_fn": {"_target_": "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy"},
        "optimizer": {"_target_": "torch.optim.AdamW", "lr": 0.01},
        "checkpoint": {"enabled": True, "checkpoint_dir": folder, "model_save_format": "torch_save", "save_consolidated": False},
        "dataset": {"_target_": "lanekeeper.adapters.nemo.RecipeDataset", "address": address, **more.get("dataset", {})},
        "dataloader": {"collate_fn": "lanekeeper.adapters.nemo.collate", **more.get("dataloader", {})}}
    config["step_scheduler"].update(more.get("step_scheduler", {}))
    if resume != "-":
        config["checkpoint"]["restore_from"] = resume
    dist.init_process_group("gloo")
    recipe = Recipe(ConfigNode(config))
    recipe.setup()
    recipe.run_train_validation_loop()
    rank.say([recipe.step_scheduler.step, recipe.dataloader.dataset.step, recipe.dataloader.dataset.stream.world])
    rank.say(recipe.dataloader.dataset.state_dict())
    dist.destroy_process_group()"""


def trained(box, world, address, steps, local, folder, resume="-", fails=False, **more):
    return ranks.leg(box, TRAIN, world, address, steps, local, box.path / folder, resume, json.dumps(more), fails=fails)


def whole(results, k):
    """Micro-batches of a rank put together, so that a step is an entry."""
    return [(words, {name: [ranks.np.concatenate(arrays[i:i + k]) for i in range(0, len(arrays), k)]
                     for name, arrays in noted.items()}) for words, noted in results]


def losses(box, folder):
    """{step: loss} as the recipe logged them."""
    lines = (box.path / folder / "training.jsonl").read_text().splitlines()
    return {one["step"]: one["loss"] for one in map(json.loads, lines)}


def recipe(box):
    """RC-006, RC-007, RC-135: a recipe stopped, and resumed from its checkpoint by fewer ranks and by more."""
    address = box.serve(box.mixed()).address
    first = trained(box, 2, address, 4, 2, "out")
    ranks.equal(whole(first, 2), ranks.expected(address, 0, 4), NAMES, "2 ranks of 2 micro-batches: the stream's first 4 steps")
    lk.same([words[0] for words, _ in first], [[4, 4, 2]] * 2, "a step of the recipe is a step of the stream")
    at = box.path / "out" / "epoch_0_step_1"
    saved = ranks.leg(box, "import sys, torch; rank.say(torch.load(sys.argv[1])['dataset_state']['step'])", 1, at / "dataloader" / "dataloader_dp_rank_0.pt")
    lk.same(saved[0][0], [2], "the checkpoint in between says 2 steps")
    second = trained(box, 1, address, 5, 8, "one", at)
    ranks.equal(second, ranks.expected(address, 2, 5), NAMES, "resumed there by 1 rank of 1 micro-batch: steps 2, 3, 4")
    from lanekeeper.adapters.nemo import spread
    spread(at, 4)
    third = trained(box, 4, address, 4, 1, "four", at)
    ranks.equal(whole(third, 2), ranks.expected(address, 2, 4), NAMES, "spread to 4 ranks of 2 micro-batches: steps 2 and 3")
    lk.same(ranks.states(third)["step"], 4, "and they count on")


def goes_on(box):
    """The loss after a restart is what it was without one."""
    address = box.serve(box.mixed()).address
    trained(box, 1, address, 6, 4, "whole")
    trained(box, 1, address, 3, 4, "parts")
    trained(box, 1, address, 6, 4, "parts")
    through, parts = losses(box, "whole"), losses(box, "parts")
    lk.same(sorted(through), list(range(6)), "six steps were logged")
    lk.same(parts, through, "three, and three more of a process that found the checkpoint: the same losses, bit by bit")


def the_end(box):
    """RC-092: a stream that ends before max_steps ends training at the same step everywhere."""
    stream = box.mixed(count=40)
    for data in stream["datasets"].values():
        data.update(epochs=1, **{"then": "release"})
    daemon = box.serve(stream)
    with ranks.lanekeeper.Stream(daemon.address, rank=0, world=1) as all_of_it:
        steps = sum(1 for _ in all_of_it)
    lk.check(2 < steps < 60, "the stream is short", steps)
    results = trained(box, 2, daemon.address, 1000, 4, "out", step_scheduler={"ckpt_every_steps": 1000})
    lk.same([words[0][:2] for words, _ in results], [[steps, steps]] * 2, "training ends with it, on both ranks")


def packings(box):
    """Padding, and what NeMo's attention wants: as NeMo's own collaters make it of the same rows."""
    import torch
    from lanekeeper.adapters.nemo import RecipeDataset, collate
    from nemo_automodel.components.datasets.loader import DataloaderConfig, make_dataset_config
    from nemo_automodel.components.datasets.packing import _DefaultPackedSequenceContract
    from nemo_automodel.components.datasets.utils import neat_packed_collater, packed_sequence_thd_collater
    from nemo_automodel.components.distributed.thd_utils import process_input_for_thd
    stream = box.mixed()
    stream["pipeline"][-2] = {"pack": {"algorithm": "first_fit", "pool": 4}}    # which pads
    stream["pipeline"][1] = {"split": {"max_tokens": 100}}
    address = box.serve(stream).address

    def batches(packing):
        config = DataloaderConfig(make_dataset_config(RecipeDataset, {"address": address, "packing": packing}), batch_size=4, collate_fn=collate)
        return config.build(dp_rank=1, dp_world_size=2)
    with ranks.lanekeeper.Stream(address, rank=1, world=2) as rows:
        steps = [rows[s] for s in range(6)]
    padded = 0
    for batch, flash, thd, plain in zip(steps, batches("flash"), batches("thd"), batches(None)):
        made = batch.training()
        documents = torch.from_numpy(made.document_ids + 1)
        padded += int((documents == 0).sum())
        items = [{"input_ids": i, "labels": l, "position_ids": p, "attention_mask": d}
                 for i, l, p, d in zip(made.input_ids, made.labels, made.position_ids, documents)]
        theirs = neat_packed_collater(items, packing=_DefaultPackedSequenceContract("flash_varlen"))
        wrong = [k for k in ("input_ids", "labels", "position_ids", "cu_seq_lens_q", "cu_seq_lens_k") if not torch.equal(theirs[k], flash[k])]
        wrong += [k for k in ("max_length_q", "max_length_k") if theirs[k] != flash[k]]
        wrong += ["padding_mask"] * (not torch.equal(plain["padding_mask"], documents == 0))
        lk.check(not wrong and "cu_seq_lens_q" not in plain, f"step {batch.step}: for flash attention, as neat_packed_collater", wrong)
        lengths = [[int((row == d).sum()) for d in range(1, int(row.max()) + 1)] for row in documents]
        for item, row, row_lengths in zip(items, documents, lengths):
            item.pop("attention_mask")
            item.update(seq_lens=row_lengths, seq_lens_padded=row_lengths[:-1] + [len(row) - sum(row_lengths[:-1])])
        theirs = packed_sequence_thd_collater(items)
        wrong = [k for k in theirs if not (torch.equal(theirs[k], thd[k]) if k != "qkv_format" else thd[k] == "thd")]
        lk.check(not wrong, f"step {batch.step}: thd, as packed_sequence_thd_collater", wrong)
        flat = process_input_for_thd(thd)
        lk.check(torch.equal(flat["padding_mask"].view(documents.shape), documents == 0), f"step {batch.step}: NeMo finds the padding where the packer put it")
    lk.check(padded > 0, "there was padding", padded)


def refusals(box):
    """What does not fit is refused with the reason."""
    address = box.serve(box.mixed()).address
    refused = lambda *words, **more: _refused(trained(box, 1, address, 2, more.pop("local", 4), "out", fails=True, **more)[0], *words)    # noqa: E731
    refused("another collater is told", "collate_fn: lanekeeper.adapters.nemo.collate", dataloader={"collate_fn": "nemo_automodel.components.datasets.utils.default_collater"})
    refused("rows of two steps in one micro-batch", "steps 0 and 1", "local_batch_size", local=6, step_scheduler={"global_batch_size": 6})
    refused("a checkpoint within a step", "a checkpoint within step", "global_batch_size", local=4, step_scheduler={"global_batch_size": 4, "ckpt_every_steps": 1})
    refused("shuffling", "leave shuffle out", dataloader={"shuffle": True})
    refused("workers", "num_workers=0", dataloader={"num_workers": 1})
    import lanekeeper
    from lanekeeper.adapters.nemo import RecipeDataset, spread
    support.raises(lanekeeper.InvalidArgument, lambda: RecipeDataset(address, packing="bshd"), "a packing that there is not", "bshd", "thd")
    support.raises(lanekeeper.InvalidArgument, lambda: RecipeDataset(address, loss_mask=True), "an option that is the adapter's", "loss_mask")
    support.raises(lanekeeper.FailedPrecondition, lambda: RecipeDataset(address).shard(2, 0).shard(2, 1), "sharded twice", "rank 0 of 2")
    support.raises(lanekeeper.NotFound, lambda: spread(box.path, 2), "a folder that is no checkpoint", "dataloader_dp_rank_0.pt")


def _refused(error, fact, *words):
    missing = [word for word in words if word not in error]
    lk.check(not missing, fact, f"without {missing}: {error[-400:]}")


if __name__ == "__main__":
    ranks.main([recipe, goes_on, the_end, packings, refusals],
               "import sys; sys.modules['triton'] = None; import torch.distributed, lanekeeper.adapters.nemo; from transformers import LlamaForCausalLM; "
               "from nemo_automodel.recipes.llm import train_ft")
