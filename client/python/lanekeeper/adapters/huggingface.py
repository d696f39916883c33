"""Hugging Face: a stream for transformers' Trainer, and for loops of one's own with accelerate.

    from lanekeeper.adapters.huggingface import ModelDataset, StreamTrainer
    arguments = TrainingArguments(…, max_steps=10_000, gradient_accumulation_steps=4)
    trainer = StreamTrainer(model, arguments, train_dataset=ModelDataset("ipc:///run/lanekeeper.sock", micro_batches=4))
    trainer.train(resume_from_checkpoint=last)      # by any number of processes; nothing is skipped batch by batch

    from lanekeeper.adapters.huggingface import prepare
    loader = prepare(accelerator, ModelDataset("ipc:///run/lanekeeper.sock"))
    accelerator.save_state(folder)                  # holds the stream's state, too

A stream is cut for the ranks by the daemon: accelerate must neither shard it again nor dispatch it from rank 0, so it
is given loaders that count as prepared. They put batches on the device, and fetch nothing ahead of what is used.
"""

from __future__ import annotations

from typing import Any, Iterator

import torch
from accelerate import Accelerator
from accelerate.utils import send_to_device
from torch.utils.data import DataLoader

from ..batch import Batch
from ..errors import FailedPrecondition, InvalidArgument
from ._common import Source, check_workers
from .torch import StreamDataset

_KEY = "lanekeeper"    # of the stream's state in trainer_state.json


class ModelDataset(StreamDataset):
    """What transformers' causal language models take as keywords: input_ids, labels, position_ids.

    labels:   "same" by default: these models shift by themselves. What would be predicted across documents is ignored.
    flat:     False: [rows, T], with position_ids that begin anew in each document. True: one row of [1, rows·T], and
              for flash attention, so that documents do not see each other, cu_seq_lens_q, cu_seq_lens_k, max_length_q
              and max_length_k.
    position_ids tell where documents begin; whether attention keeps to them is the model's and its attention's matter.
    The rest is `StreamDataset`'s.
    """

    def __init__(self, source: Source, *, flat: bool = False, micro_batches: int = 1, copy: bool = False,
                 **training: Any) -> None:
        training = {"labels": "same", "document_ids": False, **training}
        super().__init__(source, micro_batches=micro_batches, copy=copy, **training)
        self.flat = flat

    def tensors(self, batch: Batch) -> dict[str, Any]:
        made = super().tensors(batch)
        wanted: dict[str, Any] = {key: made[key] for key in ("input_ids", "labels", "position_ids") if key in made}
        if not self.flat:
            return wanted
        bounds, most = made["cu_seqlens"], made["max_seqlen"]
        return {**{key: value.view(1, -1) for key, value in wanted.items()},
                "cu_seq_lens_q": bounds, "cu_seq_lens_k": bounds, "max_length_q": most, "max_length_k": most}


class PreparedLoader(DataLoader[dict[str, Any]]):
    """A loader that accelerate takes as prepared already: it is not sharded, dispatched or fetched ahead."""

    _is_accelerate_prepared = True

    def __init__(self, dataset: StreamDataset, device: torch.device | str | None, non_blocking: bool = False) -> None:
        super().__init__(dataset, batch_size=None, num_workers=0)
        self._device = device
        self._non_blocking = non_blocking

    def __iter__(self) -> Iterator[dict[str, Any]]:    # type: ignore[override]
        for batch in super().__iter__():
            yield batch if self._device is None else send_to_device(batch, self._device, non_blocking=self._non_blocking)


def prepare(accelerator: Accelerator, dataset: StreamDataset, *, num_workers: int = 0) -> PreparedLoader:
    """The loader to iterate over, instead of `accelerator.prepare(loader)`; its state is in `accelerator.save_state`.

    FailedPrecondition: the stream's rank and world are not the accelerator's, and no mesh explains it.
    """
    check_workers(num_workers)
    _check_place(accelerator, dataset)
    accelerator.register_for_checkpointing(dataset)
    return _loader(accelerator, dataset)


def _loader(accelerator: Accelerator, dataset: StreamDataset) -> PreparedLoader:
    device = accelerator.device if accelerator.device_placement else None
    return PreparedLoader(dataset, device, accelerator.non_blocking)


def _check_place(accelerator: Accelerator, dataset: StreamDataset) -> None:
    stream = dataset.stream
    if accelerator.num_processes % stream.world != 0:
        raise FailedPrecondition(
            f"the stream is rank {stream.rank} of {stream.world}, but accelerate has {accelerator.num_processes} processes",
            "open it after the Accelerator is made, without rank= and world=; or with lanekeeper.parallel's")


class StreamTrainerMixin:
    """For a Trainer of one's own: `class MyTrainer(StreamTrainerMixin, Trainer)`. Its train_dataset is a
    `StreamDataset`, mostly a `ModelDataset`, with micro_batches=gradient_accumulation_steps.

    A step of the Trainer is a step of the stream. The state of the stream lies in trainer_state.json; a checkpoint
    without it is resumed by its step. per_device_train_batch_size is not used, as the recipe says what a batch is.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        from transformers import TrainerCallback
        trainer: Any = self
        trainer.args.ignore_data_skip = True    # the callback seeks instead

        class StreamCallback(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                _resume(trainer.train_dataset, state)

            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                state.stateful_callbacks[_KEY] = trainer.train_dataset.state_dict()

        trainer.add_callback(StreamCallback)

    def get_train_dataloader(self) -> PreparedLoader:
        trainer: Any = self
        dataset, k = trainer.train_dataset, trainer.args.gradient_accumulation_steps
        if not isinstance(dataset, StreamDataset):
            raise InvalidArgument(f"train_dataset is a {type(dataset).__name__}: expected a StreamDataset")
        if dataset.micro_batches != k:
            raise InvalidArgument(f"gradient_accumulation_steps={k}, but the dataset's micro_batches={dataset.micro_batches}",
                                  "make them equal: a step of the stream is cut into as many micro-batches")
        check_workers(trainer.args.dataloader_num_workers)
        _check_place(trainer.accelerator, dataset)
        return _loader(trainer.accelerator, dataset)


def _resume(dataset: StreamDataset, state: Any) -> None:
    saved = state.stateful_callbacks.get(_KEY)
    if saved is not None:
        dataset.load_state_dict(saved)
    elif state.global_step > 0:
        dataset.seek(state.global_step)


def __getattr__(name: str) -> Any:
    """`StreamTrainer`, made when it is asked for: transformers is slow to import, and accelerate alone does not need it."""
    if name != "StreamTrainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from transformers import Trainer
    made = type(name, (StreamTrainerMixin, Trainer), {"__doc__": "transformers' Trainer, for a `StreamDataset`."})
    globals()[name] = made
    return made
