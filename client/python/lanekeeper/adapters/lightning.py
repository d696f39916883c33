"""Lightning: a stream as a LightningDataModule.

    from lanekeeper.adapters.lightning import StreamDataModule
    trainer = Trainer(max_steps=10_000, max_epochs=-1, …)
    trainer.fit(model, datamodule=StreamDataModule("ipc:///run/lanekeeper.sock"))
    trainer.fit(model, datamodule=…, ckpt_path="last.ckpt")      # with any number of processes

Lightning fetches a batch ahead of the one it trains on, to know the last; the module counts those that training ended,
so its state, which is in every checkpoint, is of what was used.
"""

from __future__ import annotations

from typing import Any, Mapping

from ..errors import FailedPrecondition, InvalidArgument
from ._common import Source
from .torch import StreamDataset

try:
    import lightning.pytorch as pl
except ImportError:    # the same under its older name
    import pytorch_lightning as pl    # type: ignore[no-redef]
from torch.utils.data import DataLoader


class _Loader(DataLoader[dict[str, Any]]):
    """A loader whose state is what was used, and not what was fetched."""

    def __init__(self, module: StreamDataModule) -> None:
        super().__init__(module.dataset, batch_size=None, num_workers=0)
        self._module = module

    def state_dict(self) -> dict[str, Any]:
        return self._module.state_dict()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self._module.load_state_dict(state_dict)


class _Count(pl.Callback):
    """Tells the module which batches training has ended."""

    def __init__(self, module: StreamDataModule) -> None:
        self._module = module

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self._module._ended(batch)


class StreamDataModule(pl.LightningDataModule):
    """Training batches for `Trainer.fit(model, datamodule=…)`: dicts of tensors, as `StreamDataset` has them.

    source:        see `Source`; an address is opened in `setup`, when Lightning has started its processes.
    micro_batches: accumulate_grad_batches of the Trainer: a step of the stream is cut into so many.
    dataset:       other options of `StreamDataset`. Among its keys must be "step".

    Epochs are the recipe's: use max_steps, and max_epochs=-1.
    """

    def __init__(self, source: Source, *, micro_batches: int = 1, **dataset: Any) -> None:
        super().__init__()
        if "step" not in (dataset.get("keys") or ("step",)):
            raise InvalidArgument('keys without "step"', 'add it: it tells which batches are used; or leave keys out')
        self.dataset = StreamDataset(source, micro_batches=micro_batches, **dataset)
        self._used: int | None = None    # steps that training has ended; None: where the stream is
        self._parts = 0                  # micro-batches of the next

    def setup(self, stage: str) -> None:
        trainer = self.trainer
        if trainer is None or stage != "fit":
            return
        k = trainer.accumulate_grad_batches
        if k != self.dataset.micro_batches:
            raise InvalidArgument(f"accumulate_grad_batches={k}, but micro_batches={self.dataset.micro_batches}",
                                  "make them equal: a step of the stream is cut into as many micro-batches")
        world = self.dataset.stream.world
        if trainer.world_size % world != 0:
            raise FailedPrecondition(f"the stream is cut for {world} ranks, but Lightning has {trainer.world_size} processes",
                                     "give the address, so that it is opened in setup; or lanekeeper.parallel's rank and world")
        if self._used is None:
            self._used = self.dataset.step
        callbacks: list[Any] = getattr(trainer, "callbacks")
        callbacks[:] = [_Count(self), *(c for c in callbacks if not isinstance(c, _Count))]    # before what saves

    def train_dataloader(self) -> DataLoader[dict[str, Any]]:
        if self._used is not None and self.dataset.step != self._used:    # what was only fetched ahead
            self.dataset.seek(self._used)
        self._parts = 0
        return _Loader(self)

    def _ended(self, batch: Mapping[str, Any]) -> None:
        self._parts += 1
        if self._parts == self.dataset.micro_batches:
            self._parts = 0
            self._used = int(batch["step"]) + 1

    def state_dict(self) -> dict[str, Any]:
        """`Stream.state_dict` of what training has ended."""
        return self.dataset.stream.state_dict(self._used)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Goes on from the state of any rank of any number of ranks; see `Stream.load_state_dict`."""
        self.dataset.load_state_dict(state_dict)
        self._used, self._parts = self.dataset.step, 0
