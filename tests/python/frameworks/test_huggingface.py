"""transformers' Trainer and accelerate over a stream, as ranks of torch.distributed (gloo)."""

import ranks

ranks.needs("torch", "accelerate", "transformers")

import json

import lk

NAMES = ("input_ids", "labels", "position_ids")
SAME = {"labels": "same"}

TRAINER = """
    import json, logging, os, sys, torch
    from transformers import GPT2Config, GPT2LMHeadModel, TrainingArguments
    from lanekeeper.adapters.huggingface import ModelDataset, StreamTrainer
    address, steps, folder, k, resume = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5]
    class Noting(GPT2LMHeadModel):
        def forward(self, **inputs):
            rank.note(inputs)
            return super().forward(**inputs)
    torch.manual_seed(1)
    model = Noting(GPT2Config(vocab_size=257, n_positions=128, n_embd=16, n_layer=1, n_head=2))
    arguments = TrainingArguments(folder, max_steps=steps, gradient_accumulation_steps=k, save_steps=2, use_cpu=True,
                                  report_to=[], disable_tqdm=True, logging_steps=1, seed=1, **json.loads(sys.argv[6]))
    trainer = StreamTrainer(model, arguments, train_dataset=ModelDataset(address, micro_batches=int(sys.argv[7])))
    done = trainer.train(resume_from_checkpoint=None if resume == "-" else resume)
    rank.say([trainer.state.global_step, trainer.train_dataset.step])
    rank.say(trainer.train_dataset.state_dict())
    torch.distributed.is_initialized() and torch.distributed.destroy_process_group()"""


def trained(box, world, address, steps, folder, k=1, resume="-", parts=None, fails=False, **arguments):
    return ranks.leg(box, TRAINER, world, address, steps, folder, k, resume, json.dumps(arguments), parts or k, fails=fails)


def whole(results, k):
    """Micro-batches of a rank put together, so that a step is an entry."""
    return [(words, {name: [ranks.np.concatenate(arrays[i:i + k]) for i in range(0, len(arrays), k)]
                     for name, arrays in noted.items()}) for words, noted in results]


def trainer(box):
    """RC-006, RC-007, RC-135: a Trainer stopped and resumed by another number of processes, with accumulation."""
    address, folder = box.serve(box.mixed()).address, box.path / "out"
    first = trained(box, 2, address, 4, folder, 2)
    ranks.equal(whole(first, 2), ranks.expected(address, 0, 4, **SAME), NAMES, "2 ranks of 2 micro-batches: the model was given the stream's first 4 steps")
    lk.same([words[0] for words, _ in first], [[4, 4]] * 2, "a step of the Trainer is a step of the stream")
    state = json.loads((folder / "checkpoint-2" / "trainer_state.json").read_text())["stateful_callbacks"]["lanekeeper"]
    lk.same(state["step"], 2, "the checkpoint in between says 2 steps, whatever was fetched")
    second = trained(box, 1, address, 5, folder, 4, folder / "checkpoint-2")
    ranks.equal(whole(second, 4), ranks.expected(address, 2, 5, **SAME), NAMES, "resumed there by 1 rank of 4 micro-batches: steps 2, 3, 4, and none before was fetched")
    ranks.states(second)
    lost = folder / "checkpoint-4" / "trainer_state.json"
    without = json.loads(lost.read_text())
    del without["stateful_callbacks"]["lanekeeper"]
    lost.write_text(json.dumps(without))
    third = trained(box, 1, address, 6, folder, 1, folder / "checkpoint-4")
    ranks.equal(third, ranks.expected(address, 4, 6, **SAME), NAMES, "a checkpoint of before goes on by its step")


def the_end(box):
    """RC-092: a stream that ends before max_steps ends training at the same step everywhere."""
    stream = box.mixed(count=40)
    for name, data in stream["datasets"].items():
        data.update(epochs=1, **{"then": "release"})
    daemon = box.serve(stream)
    with ranks.lanekeeper.Stream(daemon.address, rank=0, world=1) as all_of_it:
        steps = sum(1 for _ in all_of_it)
    lk.check(2 < steps < 60, "the stream is short", steps)
    results = trained(box, 2, daemon.address, 1000, box.path / "out")
    lk.same([words[0] for words, _ in results], [[steps, steps]] * 2, "training ends with it, on both ranks")


def refusals(box):
    """What does not fit is refused before anything is trained."""
    address = box.serve(box.mixed()).address
    error = trained(box, 1, address, 2, box.path / "out", 2, parts=4, fails=True)[0]
    lk.check("gradient_accumulation_steps=2" in error and "micro_batches=4" in error, "accumulation that is not the dataset's", error[-300:])
    error = trained(box, 1, address, 2, box.path / "out", fails=True, dataloader_num_workers=2)[0]
    lk.check("num_workers=2" in error and "num_workers=0" in error, "workers", error[-300:])
    error = trained(box, 1, address, 4, box.path / "out")
    other = box.serve(box.mixed(seed=9), "other").address
    error = trained(box, 1, other, 4, box.path / "out", resume=box.path / "out" / "checkpoint-2", fails=True)[0]
    lk.check("stream digest" in error, "a checkpoint of another stream", error[-300:])


ACCELERATE = """
    import sys, torch
    from accelerate import Accelerator
    from lanekeeper.adapters.huggingface import ModelDataset, PreparedLoader, prepare
    address, steps, folder, load = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "load"
    accelerator = Accelerator(cpu=True)
    model = torch.nn.Embedding(257, 4)
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
    data = ModelDataset(address)
    loader = prepare(accelerator, data)
    assert accelerator.prepare(loader) is loader and isinstance(loader, PreparedLoader)
    if load:
        accelerator.load_state(folder)
    for n, batch in enumerate(loader):
        rank.note(batch)
        loss = model(batch["input_ids"]).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        if n + 1 == steps:
            break
    accelerator.save_state(folder)
    rank.say(data.state_dict())
    accelerator.end_training()
    torch.distributed.is_initialized() and torch.distributed.destroy_process_group()"""


def accelerate(box):
    """RC-006 as accelerate had it: save_state and load_state count what was used, for any number of processes."""
    address, at = box.serve(box.mixed(batch=12)).address, 0
    for world, steps in ((2, 3), (3, 2), (1, 2)):
        results = ranks.leg(box, ACCELERATE, world, address, steps, box.path / "state", "load" if at else "new")
        ranks.equal(results, ranks.expected(address, at, at + steps, **SAME), NAMES, f"{world} processes, steps {at} to {at + steps - 1}: neither sharded again nor skipped")
        at += steps
        lk.same(ranks.states(results)["step"], at, "the state counts what was used")


def flat(box):
    """All rows as one, for flash attention; labels across rows are ignored."""
    from lanekeeper.adapters.huggingface import ModelDataset
    address = box.serve(box.mixed()).address
    wanted = ranks.expected(address, 0, 1, **SAME)
    got = next(iter(ModelDataset(ranks.lanekeeper.Stream(address, rank=0, world=1), flat=True)))
    np = ranks.np
    lk.check(all(np.array_equal(got[n].numpy(), wanted[n][0].reshape(1, -1)) for n in NAMES), "one row of all")
    lk.check(np.array_equal(got["cu_seq_lens_q"].numpy(), wanted["cu_seqlens"][0]) and got["max_length_k"] == int(wanted["max_seqlen"][0]), "and where documents begin")
    starts = got["cu_seq_lens_q"][:-1].long()
    lk.check(bool((got["labels"][0, starts] == -100).all()) and bool((got["position_ids"][0, starts] == 0).all()), "the first token of each document is predicted from no other document")


if __name__ == "__main__":
    ranks.main([trainer, the_end, refusals, accelerate, flat],
               "import torch.distributed, lanekeeper.adapters.huggingface; from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments")
