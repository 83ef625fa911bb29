# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Connects a Trainer with Kolo: the state that is committed, and the objects that are made for each group."""

from __future__ import annotations

import functools
import math
import os
from typing import Any, Dict, Optional

import torch
from lightning.fabric.utilities.data import _auto_add_worker_init_fn
from lightning.pytorch import callbacks
from lightning.pytorch.core.optimizer import _MockOptimizer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.utilities import _log_hyperparams
from lightning.pytorch.loops import _Loop
from lightning.pytorch.trainer import call
from lightning.pytorch.trainer.connectors.data_connector import _request_dataloader
from lightning.pytorch.utilities import CombinedLoader
from torch.utils.data import DataLoader

import kolo.torch as kolo

from .. import streams
from ..batches import RankBatches, Step, deal
from ..samplers import Order
from .checks import check_loader, check_trainer
from .loggers import reopen

SAVED = ("_last_global_step_saved", "_last_checkpoint_saved")  # of ModelCheckpoint, in addition to its state_dict


class Kept:
    """Values of the last commit."""

    def __init__(self) -> None:
        self.fields: Dict[str, Any] = {}
        self.loaded = False  # the trainer is not set to them yet

    def state_dict(self) -> Dict[str, Any]:
        return dict(self.fields)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.fields, self.loaded = dict(state), True


class Own(Kept):
    """Values that each process keeps for itself, such as an epoch's metrics, which Lightning gathers from all ranks at the end."""


class OwnHandler(kolo.StateDictHandler):
    """Restores an Own after a failure. Newcomers do not receive it."""

    shared = False


kolo.register_handler(Own, OwnHandler)


class EpochBatches(RankBatches):
    """RankBatches whose length includes the finished passes of the epoch."""

    def __init__(self, training: "Training") -> None:
        super().__init__(training.position, training.order, training.step, training.loader.batch_size, kolo.rank(), kolo.size())
        self.training = training

    def __len__(self) -> int:
        return int(self.training.passes)


class Training:
    """Connects a running Trainer.fit with Kolo."""

    def __init__(self, trainer: Any, strategy: Any) -> None:
        self.trainer, self.strategy = trainer, strategy
        self.global_batch = strategy.global_batch
        check_trainer(trainer, self.global_batch)
        self.module = trainer.lightning_module
        self.loader = _request_dataloader(trainer.fit_loop._data_source)
        check_loader(self.loader, trainer, self.global_batch)
        self.validation: Any = None
        if trainer.enable_validation:
            source = trainer.fit_loop.epoch_loop.val_loop._data_source
            source.instance = self.validation = _request_dataloader(source)  # once, instead of for each group
        self.streams = streams.is_stream(self.loader.dataset)
        self.position: Any
        if self.streams:
            self.position, self.source = streams.StreamPosition(), streams.Source(self.loader.dataset)
        else:
            self.order = Order(self.loader.sampler, _seed, self.loader.drop_last)
            self.position = self.order.position
        self.ahead: Any = None  # the iterable data of the current group
        self.progress, self.own = Kept(), Own()
        self.accumulate = trainer.accumulate_grad_batches
        self.step = self._step(1)
        self.unit = self.step.accumulate  # forward passes per step in the counts of the loops
        self.passes = self._left()  # of the epoch: those that are done, and those that are left for the current group
        self.within = False  # an epoch has begun and is to go on
        self.first: Optional[bool] = None  # whether the start hooks are still to run in this process; None before its first group
        self.begun = False  # the start hooks have run in this process
        self.zero = trainer.is_global_zero
        self.state: Optional[kolo.State] = None
        self.forward = self.module.forward
        trainer.accumulate_grad_batches = self.step.accumulate
        trainer.fit_loop.max_batches = self.passes
        if isinstance(trainer.val_check_interval, int) and trainer.check_val_every_n_epoch is not None \
                and trainer.val_check_interval * self.unit > self.passes:
            raise ValueError("val_check_interval=%d is more than the %d steps of an epoch" % (trainer.val_check_interval, self.passes // self.unit))
        if not any(isinstance(one, Steps) for one in trainer.callbacks):
            trainer.callbacks.insert(0, Steps())  # before callbacks that write checkpoints

    def begin(self) -> kolo.State:
        """Makes the state from the objects that Trainer has set up."""
        trainer, strategy = self.trainer, self.strategy
        optimizer, = strategy.optimizers
        if isinstance(optimizer, (torch.optim.LBFGS, _MockOptimizer)):
            raise ValueError("%s is not supported with ElasticStrategy" % type(optimizer).__name__.lstrip("_"))
        if strategy.checkpoint is not None and trainer.fit_loop._loaded_from_state_dict:
            self._resume(strategy.checkpoint)
        self._keep()
        values = {"model": self.module, "optimizer": optimizer, "position": self.position, "progress": self.progress, "own": self.own,
                  "precision": trainer.precision_plugin, "rng": kolo.RNG()}
        for number, config in enumerate(strategy.lr_scheduler_configs):
            values["scheduler%d" % number] = config.scheduler
        averages = [one._average_model for one in trainer.callbacks if isinstance(one, callbacks.WeightAveraging)]
        values.update({"average%d" % number: average for number, average in enumerate(averages)})
        if trainer.datamodule is not None:
            values["data"] = trainer.datamodule
        self.state = kolo.State(**values)
        return self.state

    def enter(self) -> None:
        """Begins to train in the current group."""
        trainer, strategy, loop = self.trainer, self.strategy, self.trainer.fit_loop
        strategy.set_world_ranks()
        strategy.model = self.module
        self.module.forward = self.forward  # after a failure within a forward pass, it is still the old group's
        self.first = not self.begun
        if trainer.validating:  # a failure has ended a validation
            loop.epoch_loop.val_loop._on_evaluation_model_train()
        trainer.training = True
        self.step = self._step(kolo.size())
        self._set()
        trainer.accumulate_grad_batches = self.step.accumulate
        self.passes = loop.max_batches = self._left() + (loop.epoch_loop.batch_progress.current.ready if self.within else 0)
        loop._combined_loader = loop.epoch_loop.val_loop._combined_loader = None
        if isinstance(self.validation, CombinedLoader):  # Lightning replaces its loaders in each group
            loop.epoch_loop.val_loop._data_source.instance = CombinedLoader(self.validation.iterables, self.validation._mode)
        self._show()
        strategy._pl_static_graph_delay_done = False
        strategy.model = kolo.wrap(self.module, **strategy.arguments)

    def dataloader(self) -> Any:
        """The DataLoader of this rank in the current group."""
        given = self.loader
        options = {"num_workers": given.num_workers, "pin_memory": given.pin_memory, "timeout": given.timeout, "worker_init_fn": given.worker_init_fn,
                   "generator": given.generator, "multiprocessing_context": given.multiprocessing_context, "prefetch_factor": given.prefetch_factor}
        if self.streams:
            share = functools.partial(deal, step=self.step, rank=kolo.rank(), size=kolo.size())
            batches = streams.StreamBatches(self.source, self.position, self.step, share, given.drop_last)
            loader = DataLoader(batches, batch_size=None, collate_fn=streams.Collate(given.collate_fn), **options)
            self.ahead = streams.StreamAhead(loader, self.position)
        else:
            loader = DataLoader(given.dataset, batch_sampler=EpochBatches(self), collate_fn=given.collate_fn,
                                persistent_workers=given.persistent_workers, **options)
        _auto_add_worker_init_fn(loader, kolo.rank())
        return self.ahead if self.streams else loader

    def compare(self) -> None:
        """Raises ValueError if the order of the current epoch is not the same on all ranks, which all call it."""
        if not self.streams:
            self.order.compare()

    def passed(self) -> None:
        """Records that a forward pass is done."""
        if self.streams:
            self.ahead.used()

    def stepped(self) -> None:
        """Counts the step that the optimizer has just made."""
        self.position.advance(self.step.samples)

    def end_epoch(self) -> None:
        self.position.end_epoch()
        self.passes = self._left()

    def commit(self) -> None:
        """Commits the last steps. Called before the next step, when hooks and logs of the last step are done."""
        done = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        if self.state is None or done % self.step.accumulate or self.trainer.global_step == self.progress.fields["step"]:
            return
        self.within = True
        self._keep()
        self.within = False  # the current group itself does not start within the epoch
        total = self._total()
        kolo.progress(step=self.trainer.global_step, epoch=self.position.epoch,
                      **({} if self.streams else {"samples": self.position.epoch * self.position.samples + self.position.used}),
                      **({} if total is None else {"total_steps": total}))
        self.state.commit()

    def note(self) -> Dict[str, Any]:
        """Returns the entry of a checkpoint, for _resume."""
        position = self.position.state_dict()
        position.pop("place", None)  # an object of the script, which Lightning might not read; skipping samples is as good
        return {**position, "accumulate": self.step.accumulate}

    def val_check_batch(self) -> float:
        """Returns the number of forward passes between validations, always a whole number of steps."""
        interval = self.trainer.val_check_interval
        if self.streams and not isinstance(interval, int):
            return math.inf  # at the end of the epoch
        steps = interval if isinstance(interval, int) else max(1, int(self.passes // self.step.accumulate * interval))
        return steps * self.step.accumulate

    def _step(self, size: int) -> Step:
        return Step.shared(size, self.loader.batch_size, self.accumulate, self.global_batch)

    def _left(self) -> float:
        """Returns how many forward passes this rank still has to make in the epoch; infinity for an iterable
        data set."""
        if self.streams:
            return math.inf
        return int(self.position.steps(self.step.samples)) * self.step.accumulate

    def _total(self) -> Optional[int]:
        """Returns the total steps of this training if the group does not change again; None if there is no limit."""
        trainer = self.trainer
        counts = [] if trainer.max_steps == -1 else [trainer.max_steps]
        if not self.streams and trainer.max_epochs is not None and trainer.max_epochs != -1:
            counts.append(trainer.global_step + self.position.steps_until(trainer.max_epochs, self.step.samples))
        return min(counts, default=None)

    def _resume(self, note: Dict[str, Any]) -> None:
        """Goes on from the checkpoint that Lightning has loaded. note is empty if the checkpoint was made without Kolo."""
        loop = self.trainer.fit_loop
        epochs, batches = loop.epoch_progress, loop.epoch_loop.batch_progress
        if note:
            self.position.load_state_dict(note)
            if batches.is_last_batch if self.streams else self.position.used >= self.position.samples:
                self.position.end_epoch()
        elif epochs.current.processed == epochs.current.ready:
            self.position.epoch = epochs.current.processed
        elif batches.is_last_batch:
            self.position.epoch = epochs.current.processed + 1
        else:
            raise ValueError("the checkpoint was made within an epoch, without ElasticStrategy: it does not state which samples are done. "
                             "Take one from the end of an epoch")
        self.within = self.position.used > 0
        self.unit = note.get("accumulate", 1)
        _count(epochs, self.position.epoch, self.position.epoch)
        _count(batches, batches.total.ready, batches.current.ready if self.within else 0)
        loop.epoch_loop._batches_that_stepped = self.trainer.global_step
        _begin_anew(loop)

    def _keep(self) -> None:
        """Copies the trainer's current values into the state, for the next commit."""
        trainer, loop, connector = self.trainer, self.trainer.fit_loop, self.trainer._logger_connector
        self.progress.fields = {
            "step": trainer.global_step, "within": self.within, "unit": self.unit, "loops": loop.state_dict(),
            "should_stop": trainer.should_stop, "metrics": dict(connector._callback_metrics),
            "callbacks": call._call_callbacks_state_dict(trainer),
            "checkpoints": [[one.dirpath, *(getattr(one, name) for name in SAVED)] for one in trainer.checkpoint_callbacks
                            if isinstance(one, callbacks.ModelCheckpoint)],
            "versions": [logger.version if hasattr(logger, "_version") else None for logger in trainer.loggers],
        }
        self.own.fields = {
            "first": connector._first_loop_iter, "function": connector._current_fx,
            "results": {name: [result.value, getattr(result, "cumulated_batch_size", None)]
                        for name, result in loop.epoch_loop._results.items() if result.is_tensor and not result.has_reset},
        }

    def _set(self) -> None:
        """Sets the loops, callbacks and metrics back to the last commit, unless they match it already."""
        trainer, loop, connector, fields = self.trainer, self.trainer.fit_loop, self.trainer._logger_connector, self.progress.fields
        if self.progress.loaded:
            loop.load_state_dict(fields["loops"])
            self.unit = fields["unit"]
            trainer.should_stop = fields["should_stop"]
            checkpoints = [one for one in trainer.checkpoint_callbacks if isinstance(one, callbacks.ModelCheckpoint)]
            for one, (directory, *saved) in zip(checkpoints, fields["checkpoints"]):
                one.dirpath = directory
                vars(one).update(zip(SAVED, saved))
            call._call_callbacks_load_state_dict(trainer, {"callbacks": fields["callbacks"]})
            connector._callback_metrics = {name: value.clone() for name, value in fields["metrics"].items()}
        if self.own.loaded:
            connector._first_loop_iter, connector._current_fx = self.own.fields["first"], self.own.fields["function"]
            loop.epoch_loop.val_loop._results.reset()
            for name, result in loop.epoch_loop._results.items():
                if result.is_tensor:
                    result.reset()
                    if name in self.own.fields["results"]:
                        result.value, result.cumulated_batch_size = (
                            None if value is None else value.clone() for value in self.own.fields["results"][name])
                        result.has_reset = False
        self.progress.loaded = self.own.loaded = False
        self.within = fields["within"]
        _begin_anew(loop)
        batches = loop.epoch_loop.batch_progress
        _count(batches, *(tracker.completed // self.unit * self.step.accumulate for tracker in (batches.total, batches.current)))
        self.unit = self.step.accumulate
        if self.within and self.first:  # this process has not begun the epoch yet
            _count(loop.epoch_progress, self.position.epoch, self.position.epoch)

    def _show(self) -> None:
        """Lets the current rank 0 continue the logs and the progress bar of its predecessor."""
        trainer, before, self.zero = self.trainer, self.zero, self.trainer.is_global_zero
        for logger, version in zip(trainer.loggers, self.progress.fields["versions"]):
            if version is not None and logger.version != version:
                logger._version, logger._experiment = version, None
            if isinstance(logger, CSVLogger) and self.progress.fields["step"]:
                reopen(logger, self.zero)
        if self.zero and not before and trainer.enable_autolog_hparams:
            _log_hyperparams(trainer)
        bar = trainer.progress_bar_callback
        if bar is None:
            return
        if self.zero != before:
            (bar.enable if self.zero else bar.disable)()
        if self.zero and not self.first:
            if not before:
                bar.on_train_start(trainer, self.module)
            bar.on_train_epoch_start(trainer, self.module)  # the number of steps has changed


def _seed() -> int:
    """Returns the seed of Lightning's own order of the data."""
    return int(os.environ.get("PL_GLOBAL_SEED") or 0)


def _count(progress: Any, total: int, current: int) -> None:
    """Sets how many batches or epochs are done."""
    for tracker, count in ((progress.total, total), (progress.current, current)):
        tracker.ready = tracker.started = tracker.processed = tracker.completed = count


def _begin_anew(loop: Any) -> None:
    """Resets a loop and its parts to the start of training without a checkpoint."""
    loop.on_iteration_done()
    for part in vars(loop).values():
        if isinstance(part, _Loop):
            _begin_anew(part)


class Steps(callbacks.Callback):  # type: ignore[misc]
    """Counts steps and epochs for Training."""

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        trainer.strategy.training.passed()
        if not trainer.fit_loop._should_accumulate():
            trainer.strategy.training.stepped()

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        trainer.strategy.training.end_epoch()
