# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The Trainer of Hugging Face Transformers, trained in process while the number of processes changes.

    from kolo.integrations.transformers import elastic  # before TrainingArguments are made

    trainer = Trainer(model=model, args=args, train_dataset=data)
    elastic(trainer).train()

elastic adds a mixin to the trainer's class, which overrides methods of Trainer
(transformers/trainer.py, 5.24):

    train                    lets the first group load the checkpoint
    _inner_training_loop     is the elastic function, called for each group
    _init_training_state     goes on from the state
    _save_checkpoint         announces a slow step, and adds the position in the data to the checkpoint
    evaluation_loop          announces a slow step, also for evaluate() and predict() after the training
    _load_callback_state     leaves it out of what callbacks load
    _wrap_model              wraps the model for the current group
    get_train_dataloader     deals the rest of the epoch out to the ranks
    get_batch_samples        commits the last step before the next one
"""

from __future__ import annotations

import functools
import json
import math
import os
import sys
import time
from typing import Any, Dict, Optional, Tuple, TypeVar

import torch
import torch.distributed as dist
import transformers
from accelerate.data_loader import prepare_data_loader
from transformers.optimization import GreedyLR
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_callback import ExportableState, TrainerCallback, TrainerState
from transformers.trainer_utils import get_last_checkpoint, seed_worker

import kolo.torch as kolo
from kolo.torch import reporting

from . import processes, streams
from .batches import Position, RankBatches, Step, deal
from .samplers import Order

T = TypeVar("T", bound=transformers.Trainer)

# The fields of TrainerState that newcomers need. They are the same on all ranks.
KEPT = ("global_step", "epoch", "num_input_tokens_seen", "total_flos", "best_metric", "best_global_step", "best_model_checkpoint")

OVERRIDDEN = ("get_train_dataloader", "set_initial_training_values", "_init_training_state", "_inner_training_loop")
NEEDED = (*OVERRIDDEN, "_get_train_sampler", "_wrap_model", "_save_checkpoint", "_load_from_checkpoint", "_load_callback_state", "_evaluate",
          "evaluation_loop", "_finalize_training", "get_batch_samples", "_remove_unused_columns", "_get_collator_with_removed_columns")

NOTE = "kolo"  # of this module's entry in TrainerState.stateful_callbacks, which is part of checkpoints

processes.hide()


def elastic(trainer: T, global_batch: Optional[int] = None) -> T:
    """Makes a Trainer elastic, and returns it. Raises ValueError with the reason for anything unsupported.

    Under Kolo, train() goes on while processes come and go. Under torchrun and with
    plain python, the number of processes stays the same.

    global_batch is the number of samples of an optimizer step, for any number of
    processes. Each process does as many forward passes of at most
    per_device_train_batch_size as its share needs. The learning-rate schedule is the
    same as with one process.

    Without global_batch, each process does gradient_accumulation_steps passes, so a
    step has more samples if there are more processes. The learning rate does not
    change with their number. Its schedule counts samples if num_train_epochs limits
    training, and steps if max_steps does.
    """
    _check(trainer)
    if global_batch is not None and global_batch < 1:
        raise ValueError("global_batch is the number of samples of a step, at least 1, not %d" % global_batch)
    kind = type(trainer)
    trainer.__class__ = type(kind.__name__, (ElasticTrainer, kind), {"__module__": kind.__module__})
    trainer._kolo = Training(trainer, global_batch)
    trainer.callback_handler.callbacks.insert(0, Steps(trainer._kolo))  # before callbacks that read the epoch
    return trainer


def _check(trainer: transformers.Trainer) -> None:
    """Raises ValueError for a trainer or arguments that are not supported."""
    args = trainer.args
    for name in NEEDED:
        if not hasattr(transformers.Trainer, name):
            raise ValueError("the Trainer of Transformers %s has no %s: kolo.integrations.transformers was made for 5.24" %
                             (transformers.__version__, name))
    for name in OVERRIDDEN:
        if getattr(type(trainer), name) is not getattr(transformers.Trainer, name):
            raise ValueError("%s.%s replaces that of Trainer, which Kolo replaces itself to divide the data among processes whose "
                             "number changes; take it out" % (type(trainer).__name__, name))
    if streams.is_stream(trainer.train_dataset):
        reason = streams.refused(args.dataloader_num_workers, args.dataloader_persistent_workers)
        if reason is not None:
            raise ValueError("train_dataset: " + reason)
        if args.max_steps <= 0:
            raise ValueError("train_dataset is an iterable data set, whose length is not used: set max_steps")
    elif not isinstance(trainer.train_dataset, torch.utils.data.Dataset) and not hasattr(trainer.train_dataset, "__len__"):
        raise ValueError("train_dataset has no length, and is no torch.utils.data.IterableDataset")
    for name, there in {"deepspeed": trainer.is_deepspeed_enabled, "fsdp": trainer.is_fsdp_enabled,
                        "parallelism_config": args.parallelism_config is not None}.items():
        if there:
            raise ValueError("%s of the TrainingArguments is not supported with kolo.integrations.transformers: shard the model by kolo.Sharded in a "
                             "loop of your own, or run the script without this package, from checkpoints" % name)
    refused = {
        "auto_find_batch_size": args.auto_find_batch_size,
        "accelerator_config: split_batches": args.accelerator_config.split_batches,
        "accelerator_config: dispatch_batches": args.accelerator_config.dispatch_batches,
        "neftune_noise_alpha": trainer.neftune_noise_alpha is not None,
        "train_sampling_strategy=%r" % args.train_sampling_strategy: args.train_sampling_strategy not in ("random", "sequential", "group_by_length"),
    }
    for name, there in refused.items():
        if there:
            raise ValueError("%s of the TrainingArguments is not supported with kolo.integrations.transformers" % name)


class Own:
    """Values that each process keeps for itself, such as the loss since the last log, which logging gathers from all ranks."""

    def __init__(self) -> None:
        self.loss: Optional[torch.Tensor] = None  # None: this process has not trained yet
        self.flos = 0.0

    def state_dict(self) -> Dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        vars(self).update(state)


class OwnHandler(kolo.StateDictHandler):
    """Restores an Own after a failure. Newcomers do not receive it."""

    shared = False


kolo.register_handler(Own, OwnHandler)


class Progress:
    """The progress of a training up to its last commit, except for its position in the data."""

    def __init__(self) -> None:
        self.fields: Dict[str, Any] = {}

    def state_dict(self) -> Dict[str, Any]:
        return dict(self.fields)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.fields = dict(state)


class Training:
    """Connects a trainer with Kolo: the state that is committed, and the objects that are made for each group."""

    def __init__(self, trainer: Any, global_batch: Optional[int]) -> None:
        self.trainer = trainer
        self.global_batch = global_batch
        self.streams = streams.is_stream(trainer.train_dataset)
        self.position: Any
        if self.streams:
            self.position, self.source = streams.StreamPosition(trainer.args.max_steps), streams.Source(self.dataset())
        else:
            self.order = Order(self._sampler(), self._data_seed, trainer.args.dataloader_drop_last)
            self.position = self.order.position
        self.progress = Progress()
        self.own = Own()
        self.accumulate = trainer.args.gradient_accumulation_steps
        self.step = self._step(1)
        self.checkpoint: Any = None  # the argument of train(): a path, or True for the last one
        self.loaded = 0  # steps of that checkpoint
        self.left = 0  # steps that the present data loader still has
        self.entered = 0.0  # when the current group began to train
        self.state: Optional[kolo.State] = None
        self.optimizer: Any = None
        self.scheduler: Any = None
        self.methods: Dict[str, Any] = {}  # of the optimizer, as its scheduler has replaced them
        self.model: Any = None  # prepared by Accelerate, such as for mixed precision

    @property
    def begun(self) -> bool:
        """Whether any process has committed a step of this training."""
        return bool(self.progress.fields)

    def begin(self) -> kolo.State:
        """Makes the state, with the optimizer and the scheduler, which depend on the data."""
        trainer = self.trainer
        trainer.create_optimizer()
        trainer.create_scheduler(num_training_steps=self._scheduled())
        trainer._created_lr_scheduler = False  # otherwise each group begins with a new one
        self.optimizer, self.scheduler = trainer.optimizer, trainer.lr_scheduler
        self.methods = {"step": self.optimizer.step}
        self.model = trainer.accelerator.prepare_model(trainer.model, evaluation_mode=True)
        if trainer.args.torch_compile:
            self._compile()
        values = {"model": trainer.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "position": self.position,
                  "trained": self.progress, "own": self.own, "rng": kolo.RNG()}
        stateful = (one for one in trainer.callback_handler.callbacks if hasattr(one, "state_dict") and hasattr(one, "load_state_dict"))
        values.update({"callback%d" % number: one for number, one in enumerate(stateful)})
        scaler = getattr(trainer.accelerator, "scaler", None)
        if scaler is not None:
            values["scaler"] = scaler
        self.state = kolo.State(**values)
        return self.state

    def load(self) -> Optional[str]:
        """Loads the model of the checkpoint that train() was given, moves to its position in the data, and returns its path.

        The checkpoint is read only if training has not begun. Later, newcomers receive
        everything from the members, and the checkpoint may be gone. ignore_data_skip
        has no effect, because moving to a position reads no data.
        """
        if self.begun:
            return None
        trainer, checkpoint = self.trainer, self.checkpoint
        if checkpoint is True:
            checkpoint = get_last_checkpoint(trainer.args.output_dir)
            if checkpoint is None:
                raise ValueError("resume_from_checkpoint: there is no checkpoint in %s" % trainer.args.output_dir)
        path = os.path.join(checkpoint or "", TRAINER_STATE_NAME)
        if checkpoint is not None and os.path.isfile(path):
            state = TrainerState.load_from_json(path)
            self.loaded = state.global_step
            self._seek(state)
        steps = torch.tensor([self.loaded, -self.loaded], device=trainer.args.device)
        dist.all_reduce(steps, dist.ReduceOp.MAX)
        if steps.sum() != 0:
            raise ValueError("the processes go on from different checkpoints, of steps %d to %d: they need the same files" % (-steps[1], steps[0]))
        if checkpoint is not None:
            trainer._load_from_checkpoint(checkpoint)
        return None if checkpoint is None else str(checkpoint)

    def enter(self) -> None:
        """Begins to train in the current group."""
        trainer = self.trainer
        processes.enter()
        vars(self.optimizer).update(self.methods)  # with a scaler, Accelerate replaces step
        trainer.optimizer, trainer.lr_scheduler = self.optimizer, self.scheduler
        trainer.model_wrapped = trainer.model
        vars(trainer).pop("_eval_dataloaders", None)  # of the last group
        trainer.args._n_gpu = min(1, trainer.args.n_gpu)
        self.step = self._step(kolo.size())
        trainer.args.gradient_accumulation_steps = self.step.accumulate
        self.entered = time.monotonic()

    def wrap(self) -> torch.nn.Module:
        """Returns the model, wrapped for the current group."""
        accelerator = self.trainer.accelerator
        wrapped = kolo.wrap(self.model, **(accelerator.ddp_handler.to_kwargs() if accelerator.ddp_handler is not None else {}))
        accelerator._models = [wrapped]
        return wrapped

    def values(self) -> Tuple[int, int, int, int, int, int, int]:
        """Returns the values of set_initial_training_values. An epoch that has begun counts with all its steps, not only the rest."""
        args = self.trainer.args
        if self.streams:
            self.left, most = sys.maxsize, args.max_steps
            samples = most * self.step.samples
            return sys.maxsize, most, samples, samples, self.step.samples, most * self.step.accumulate, most
        size = self.position.samples
        each = Position(size, self.position.drop_last).steps(self.step.samples)
        self.left = self.position.steps(self.step.samples)
        done = self.progress.fields.get("global_step", self.loaded)
        if args.max_steps > 0:
            most = args.max_steps
            epochs = self.position.epoch + 1 + max(0, math.ceil((most - done - self.left) / each))
            samples = most * self.step.samples
        else:
            most = done + self.position.steps_until(args.num_train_epochs, self.step.samples)
            epochs = math.ceil(args.num_train_epochs)
            samples = size * args.num_train_epochs
        return epochs, each, size, samples, self.step.samples, each * self.step.accumulate, most

    def resume(self) -> int:
        """Sets the new TrainerState from the last commit, and returns the epoch."""
        state = self.trainer.state
        if self.begun:
            for name in KEPT:
                setattr(state, name, self.progress.fields[name])
            state.log_history = json.loads(self.progress.fields["log_history"])
            for name, exported in self._exported().items():
                vars(exported).update(self.progress.fields["callbacks"][name])
        return int(self.position.epoch)

    def carry_on(self) -> None:
        """Restores the counters that the loop has just set to zero. All ranks call it."""
        trainer = self.trainer
        if not self.begun:
            return
        fields = self.progress.fields
        losses = torch.zeros(2, device=trainer.args.device)  # the sum, and the number of ranks in it
        if self.own.loss is not None:
            losses += torch.stack([self.own.loss, torch.ones_like(self.own.loss)])
        dist.all_reduce(losses)
        trainer._tr_loss += losses[0] / losses[1].clamp(min=1)
        trainer._total_loss_scalar = fields["total_loss"]
        trainer._globalstep_last_logged = fields["logged"]
        trainer._initial_global_step = fields["initial_step"]
        trainer.current_flos = self.own.flos

    def stepped(self) -> None:
        """Counts the step that the optimizer has just made."""
        self.position.advance(self.step.samples)
        self.left -= 1
        self.trainer.state.epoch = self.position.epochs
        if self.global_batch is None and self.trainer.args.max_steps <= 0 and self._scheduled_by_steps() and \
                not self.trainer.accelerator.optimizer_step_was_skipped:
            for _ in range(kolo.size() - 1):
                self.scheduler.step()

    def commit(self) -> None:
        """Commits the last steps. Called before the next step, when callbacks and logs of the last step are done."""
        trainer = self.trainer
        state = trainer.state
        if self.state is None or self.left == 0 or state.global_step == self.progress.fields.get("global_step", trainer._initial_global_step):
            return
        now, fields = time.monotonic(), self.progress.fields
        history = fields.get("log_history", "[]")
        if len(state.log_history) != fields.get("logs"):
            history = json.dumps(state.log_history)
        self.progress.fields = {
            **{name: getattr(state, name) for name in KEPT},
            "log_history": history, "logs": len(state.log_history),
            "callbacks": {name: exported.state()["attributes"] for name, exported in self._exported().items()},
            "total_loss": trainer._total_loss_scalar, "logged": trainer._globalstep_last_logged,
            "initial_step": trainer._initial_global_step, "seconds": fields.get("seconds", 0.0) + now - self.entered,
        }
        self.entered = now
        self.own.loss, self.own.flos = trainer._tr_loss, trainer.current_flos
        kolo.progress(step=state.global_step, total_steps=state.max_steps, epoch=self.position.epoch,
                      **({} if self.streams else {"samples": self.position.epoch * self.position.samples + self.position.used}))
        self.state.commit()

    @property
    def seconds(self) -> float:
        """The seconds that this training has taken in all its groups together."""
        return float(self.progress.fields.get("seconds", 0.0)) + time.monotonic() - self.entered

    def dataset(self) -> Any:
        """Returns the training data with only the columns that the model takes."""
        dataset = self.trainer.train_dataset
        return self.trainer._remove_unused_columns(dataset, description="Training") if _has_columns(dataset) else dataset

    def collator(self) -> Any:
        """Returns the function that makes a batch of samples."""
        trainer = self.trainer
        if _has_columns(trainer.train_dataset):
            return trainer.data_collator
        return trainer._get_collator_with_removed_columns(trainer.data_collator, description="Training")

    def loader(self) -> Any:
        """The DataLoader of this rank."""
        args = self.trainer.args
        options = {
            "num_workers": args.dataloader_num_workers, "pin_memory": args.dataloader_pin_memory, "persistent_workers": args.dataloader_persistent_workers,
            "prefetch_factor": args.dataloader_prefetch_factor, "multiprocessing_context": args.dataloader_multiprocessing_context,
            "worker_init_fn": functools.partial(seed_worker, num_workers=args.dataloader_num_workers, rank=args.process_index)}
        if not self.streams:
            return torch.utils.data.DataLoader(self.dataset(), batch_sampler=self._batches(), collate_fn=self.collator(), **options)
        share = functools.partial(deal, step=self.step, rank=kolo.rank(), size=kolo.size())
        batches = streams.StreamBatches(self.source, self.position, self.step, share, args.dataloader_drop_last)
        return torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=streams.Collate(self.collator()), **options)

    def _batches(self) -> RankBatches:
        return RankBatches(self.position, self.order, self.step, self.trainer.args.per_device_train_batch_size, kolo.rank(), kolo.size())

    def _compile(self) -> None:
        """Compiles the model by a training step whose gradients are discarded. Called before a group forms, so that no member waits."""
        trainer = self.trainer
        buffers = {name: buffer.clone() for name, buffer in trainer.model.named_buffers()}
        dataset, count = self.dataset(), trainer.args.per_device_train_batch_size
        if self.streams:
            dataset = self.source.first(count)
        passes = [list(range(min(len(dataset), count)))] * self.step.accumulate
        with torch.random.fork_rng():
            loader = torch.utils.data.DataLoader(dataset, batch_sampler=passes, collate_fn=self.collator())
            batches, items = trainer.get_batch_samples(iter(loader), self.step.accumulate, trainer.args.device)
            trainer.current_gradient_accumulation_steps = self.step.accumulate
            trainer.training_step(self.model, batches[0], items)
        self.model.zero_grad()
        with torch.no_grad():
            for name, buffer in trainer.model.named_buffers():
                buffer.copy_(buffers[name])

    def _sampler(self) -> Any:
        """Returns the Trainer's sampler of its training data."""
        dataset = self.dataset()
        sampler = self.trainer._get_train_sampler(dataset)
        return torch.utils.data.SequentialSampler(dataset) if sampler is None else sampler

    def _data_seed(self) -> int:
        args = self.trainer.args
        return int(args.seed if args.data_seed is None else args.data_seed)

    def _seek(self, state: TrainerState) -> None:
        """Moves to the position in the data at which a checkpoint was written."""
        if not self.streams:
            self.position.seek(state.epoch)
            return
        note = state.stateful_callbacks.get(NOTE)
        if note is not None:
            self.position.seek(**note)
            return
        if self.global_batch is None:
            raise ValueError("a checkpoint without Kolo has the number of steps, and not that of the samples of an iterable data set: to go on "
                             "from it, steps need to be of one size: use global_batch")
        epoch = max(0, math.ceil(state.epoch) - 1)  # at least one of its steps is made
        steps = round((state.epoch - epoch) * state.max_steps)
        self.position.seek(epoch, steps, steps * self.global_batch)

    def note(self) -> Dict[str, int]:
        """Returns the position in an iterable data set, for _seek. Sizes of steps may differ before and after a checkpoint."""
        return {"epoch": self.position.epoch, "made": self.position.made, "used": self.position.used}

    def _step(self, size: int) -> Step:
        return Step.shared(size, self.trainer.args.per_device_train_batch_size, self.accumulate, self.global_batch)

    def _scheduled(self) -> int:
        """Returns the steps of the learning-rate schedule."""
        args = self.trainer.args
        if args.max_steps > 0:
            return int(args.max_steps)
        return Position(self.position.samples, self.position.drop_last).steps_until(args.num_train_epochs, self._step(1).samples)

    def _scheduled_by_steps(self) -> bool:
        """Whether the scheduler steps with the optimizer, rather than with a metric after an evaluation."""
        return not isinstance(self.scheduler, (torch.optim.lr_scheduler.ReduceLROnPlateau, GreedyLR))

    def _exported(self) -> Dict[str, Any]:
        """Returns the callbacks that have a state, by name. Loading a checkpoint changes their order, so positions do not identify them."""
        exported: Dict[str, Any] = {}
        for one in self.trainer.callback_handler.callbacks:
            if isinstance(one, ExportableState):
                kind = type(one).__name__
                exported["%s %d" % (kind, sum(name.startswith(kind + " ") for name in exported))] = one
        return exported


def _has_columns(dataset: Any) -> bool:
    """Whether a data set is a Dataset of Hugging Face's datasets."""
    return "datasets" in sys.modules and isinstance(dataset, sys.modules["datasets"].Dataset)


class Steps(TrainerCallback):  # type: ignore[misc] # Transformers is not there where this is checked
    """Counts steps and epochs for Training."""

    def __init__(self, training: Training) -> None:
        self.training = training

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        self.training.carry_on()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.training.stepped()

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self.begun = self.training.position.used
        if not self.training.streams:
            self.training.order.compare()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        position = self.training.position
        if self.training.streams and self.begun and position.used == self.begun:  # a checkpoint of an epoch's end
            control.should_training_stop = False
        position.end_epoch()
        self.training.left = position.steps(self.training.step.samples)


class ElasticTrainer:
    """The mixin that elastic adds to the class of a Trainer."""

    _kolo: Training

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **named: Any) -> Any:
        self._kolo.checkpoint = resume_from_checkpoint or None
        return super().train(None, *args, **named)  # type: ignore[misc]

    def _inner_training_loop(self, *args: Any, **named: Any) -> Any:
        training, inner = self._kolo, super()._inner_training_loop  # type: ignore[misc]
        if training.state is not None:
            raise RuntimeError("an elastic Trainer trains once: newcomers begin with its train()")

        @kolo.elastic
        def train(state: kolo.State) -> Any:
            training.enter()
            named["resume_from_checkpoint"] = training.load()
            return inner(*args, **named)

        state = training.begin()
        with processes.frozen():
            return train(state)

    def _init_training_state(self, *args: Any, **named: Any) -> Tuple[int, int]:
        super()._init_training_state(*args, **named)  # type: ignore[misc]
        return self._kolo.resume(), 0

    def _save_checkpoint(self: Any, *args: Any, **named: Any) -> None:
        if self._kolo.streams:
            self.state.stateful_callbacks[NOTE] = self._kolo.note()
        with reporting.slow("checkpoint"):
            super()._save_checkpoint(*args, **named)  # type: ignore[misc]

    def _load_callback_state(self: Any) -> None:
        self.state.stateful_callbacks.pop(NOTE, None)
        super()._load_callback_state()  # type: ignore[misc]

    def _wrap_model(self, model: torch.nn.Module, training: bool = True, **named: Any) -> torch.nn.Module:
        model = super()._wrap_model(model, training=training, **named)  # type: ignore[misc]
        return self._kolo.wrap() if training else model

    def _evaluate(self, *args: Any, skip_scheduler: bool = False, **named: Any) -> Any:
        if skip_scheduler and self._kolo.begun:
            return {}  # eval_on_start: once in a training, not in each group
        return super()._evaluate(*args, skip_scheduler=skip_scheduler, **named)  # type: ignore[misc]

    def evaluation_loop(self, *args: Any, **named: Any) -> Any:
        with reporting.slow("evaluation"):
            return super().evaluation_loop(*args, **named)  # type: ignore[misc]

    def _finalize_training(self, trial: Any, num_train_samples: float, start_time: float) -> Any:
        return super()._finalize_training(trial, num_train_samples, time.time() - self._kolo.seconds)  # type: ignore[misc]

    def get_train_dataloader(self: Any) -> Any:
        # num_processes is 1, because the batches are already those of this rank.
        loader = prepare_data_loader(self._kolo.loader(), device=self.accelerator.device, num_processes=1, process_index=0, put_on_device=True,
                                     non_blocking=self.accelerator.non_blocking, dispatch_batches=False)
        return streams.Stream(loader, self._kolo.position) if self._kolo.streams else loader

    def set_initial_training_values(self, *_: Any, **__: Any) -> Tuple[int, int, int, int, int, int, int]:
        return self._kolo.values()

    def get_batch_samples(self, *args: Any, **named: Any) -> Any:
        training = self._kolo
        if not training.streams:
            training.commit()
            return super().get_batch_samples(*args, **named)  # type: ignore[misc]
        batches, items = super().get_batch_samples(*args, **named)  # type: ignore[misc]
        if batches:  # else the last step was that of the epoch, which is committed when the next one has begun
            training.commit()
        return batches, items
