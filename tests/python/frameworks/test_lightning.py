"""Lightning's Trainer over a stream, as ranks of torch.distributed (gloo)."""

import ranks

ranks.needs("torch", "lightning")

import lk

NAMES = ("input_ids", "labels", "position_ids")

FIT = """
    import json, logging, sys, torch
    import lightning.pytorch as pl
    from lightning.pytorch.callbacks import ModelCheckpoint
    from lightning.pytorch.plugins.environments import TorchElasticEnvironment
    from lanekeeper.adapters.lightning import StreamDataModule
    address, steps, folder, k, resume, parts = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5], int(sys.argv[6])
    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Embedding(257, 4)
        def training_step(self, batch, i):
            rank.note(batch)
            return self.layer(batch["input_ids"]).square().mean()
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)
    TorchElasticEnvironment.detect = staticmethod(lambda: True)    # as torchrun would have it
    trainer = pl.Trainer(accelerator="cpu", devices=%d, strategy="ddp", max_steps=steps, max_epochs=-1, logger=False,
                         accumulate_grad_batches=k, enable_progress_bar=False, enable_model_summary=False,
                         callbacks=[ModelCheckpoint(folder, filename="{step}", every_n_train_steps=2, save_top_k=-1)])
    data = StreamDataModule(address, micro_batches=parts)
    trainer.fit(Model(), datamodule=data, ckpt_path=None if resume == "-" else resume)
    rank.say([trainer.global_step, data.dataset.stream.world])
    rank.say(data.state_dict())
    torch.distributed.is_initialized() and torch.distributed.destroy_process_group()"""


def fitted(box, world, address, steps, k=1, resume="-", parts=None, fails=False):
    return ranks.leg(box, FIT % world, world, address, steps, box.path / "out", k, resume, parts or k, fails=fails)


def whole(results, k):
    """Micro-batches of a rank put together, so that a step is an entry."""
    return [(words, {name: [ranks.np.concatenate(arrays[i:i + k]) for i in range(0, len(arrays), k)]
                     for name, arrays in noted.items()}) for words, noted in results]


def other_worlds(box):
    """RC-006, RC-007, RC-135: resumed by another number of processes; what Lightning fetched ahead does not count."""
    address = box.serve(box.mixed()).address
    first = fitted(box, 2, address, 3)
    ranks.equal(first, ranks.expected(address, 0, 3), NAMES, "2 ranks: the stream's first 3 steps")
    lk.same(ranks.states(first)["step"], 3, "the state counts what was used, and not what was fetched")
    saved = ranks.leg(box, "import sys, torch; c = torch.load(sys.argv[1], weights_only=False); rank.say(c['StreamDataModule'])", 1, box.path / "out" / "step=2.ckpt")
    lk.same(saved[0][0][0]["step"], 2, "so does the one in the checkpoint of step 2")
    second = fitted(box, 1, address, 5, 2, box.path / "out" / "step=2.ckpt")
    ranks.equal(whole(second, 2), ranks.expected(address, 2, 5), NAMES, "resumed there by 1 rank of 2 micro-batches: steps 2, 3, 4")
    lk.same(ranks.states(second)["step"], 5, "and it counts on")


def the_end(box):
    """RC-092, as Lightning had it: 25 samples in batches of 5 on two ranks."""
    box.dataset("d", [chr(65 + i) for i in range(25)])
    address = box.serve(box.plain({"d": {"path": "d", "epochs": 1}}, batch=5)).address
    results = fitted(box, 2, address, 5)
    lk.same(sorted(int(x) for step in ranks.gathered(results, "input_ids") for x in step.ravel()), [65 + i for i in range(25)], "5 steps on both ranks, each sample once")


def refusals(box):
    """Accumulation that is not the module's; a state of another stream."""
    address = box.serve(box.mixed()).address
    error = fitted(box, 1, address, 2, 2, parts=4, fails=True)[0]
    lk.check("accumulate_grad_batches=2" in error and "micro_batches=4" in error, "accumulation that is not the module's", error[-300:])
    fitted(box, 1, address, 2)
    other = box.serve(box.mixed(seed=9), "other").address
    error = fitted(box, 1, other, 4, resume=box.path / "out" / "step=2.ckpt", fails=True)[0]
    lk.check("stream digest" in error, "a checkpoint of another stream", error[-300:])


if __name__ == "__main__":
    ranks.main([other_worlds, the_end, refusals],
               "import torch.distributed, lanekeeper.adapters.lightning; from lightning.pytorch.callbacks import ModelCheckpoint")
