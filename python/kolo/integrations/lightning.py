# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lightning, trained in process while the number of processes changes.

    from kolo.integrations.lightning import ElasticStrategy

    Trainer(strategy=ElasticStrategy(), max_epochs=10).fit(model, data)

Trainer.fit sets everything up in each process by itself: hooks, the model, its
optimizers, a checkpoint. Then its loop is the elastic function, called for each
group. The strategy replaces the classes of two of Trainer's loops
(lightning/pytorch/loops, 2.6):

    ElasticFitLoop      run() is the elastic function; builds the data loader of each group
    ElasticEpochLoop    commits the step that is done, before the next one; goes on within an epoch

Lightning's own way to go on from a checkpoint is not used: it runs hooks and
validations again, or leaves them out.

What scripts have to know:

- Hooks up to on_fit_start, and the sanity check, run in each process before it
  has a group. on_train_start runs once in each process, and on_train_epoch_start
  once for each epoch, also where a process joins within one: no collectives there.
- Callbacks take along what their state_dict has.
- Metrics that Lightning gathers over an epoch of training (on_epoch=True) lack
  what processes have seen that have left within it.
- A scheduler with interval="step" counts steps. Without global_batch there are
  fewer of them the more processes there are.
"""

from __future__ import annotations

import csv
import fcntl
import inspect
import os
import tempfile
import warnings
from typing import Any, Callable, Dict, List, Optional

import lightning
import torch
from lightning.fabric.plugins import ClusterEnvironment
from lightning.fabric.utilities.data import _auto_add_worker_init_fn
from lightning.fabric.utilities.seed import reset_seed
from lightning.pytorch import callbacks
from lightning.pytorch.core.optimizer import _MockOptimizer
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.loggers.utilities import _log_hyperparams
from lightning.pytorch.loops import _Loop
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from lightning.pytorch.loops.fit_loop import RestartStage, _FitLoop
from lightning.pytorch.loops.training_epoch_loop import _TrainingEpochLoop
from lightning.pytorch.loops.utilities import _select_data_fetcher
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers.launcher import _Launcher
from lightning.pytorch.trainer import call
from lightning.pytorch.trainer.connectors.data_connector import _request_dataloader
from lightning.pytorch.trainer.states import RunningStage, TrainerFn
from lightning.pytorch.utilities import CombinedLoader
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

import kolo.torch as kolo
from kolo.torch import place

from .batches import Position, RankBatches, Step

KEY = "kolo"  # of what a checkpoint of Lightning has for this module

# Callbacks that change the model or the loops, or keep state that does not reach newcomers.
REFUSED = ("BaseFinetuning", "BatchSizeFinder", "GradientAccumulationScheduler", "LearningRateFinder", "ModelPruning",
           "StochasticWeightAveraging", "WeightAveraging")

SAVED = ("_last_global_step_saved", "_last_checkpoint_saved")  # of ModelCheckpoint, in addition to its state_dict


class Environment(ClusterEnvironment):  # type: ignore[misc] # Lightning is not there where this is checked
    """Answers from the present group. Before there is one, each process is by itself, with the rank that it was started with."""

    creates_processes_externally = True
    main_address = ""
    main_port = 0

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return kolo.size() if place.current() else 1

    def global_rank(self) -> int:
        return kolo.rank() if place.current() else int(os.environ.get("RANK") or 0)

    def local_rank(self) -> int:
        return kolo.local_rank() if place.current() else 0  # so that each process prepares its data

    def node_rank(self) -> int:
        now = place.current()
        return now.cross_rank if now else 0

    def set_world_size(self, size: int) -> None:
        pass

    def set_global_rank(self, rank: int) -> None:
        pass


class Launcher(_Launcher):  # type: ignore[misc]
    """Starts nothing: Kolo's agent has started the processes. Makes a fit elastic."""

    is_interactive_compatible = False

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Any = None, **named: Any) -> Any:
        if trainer is not None and trainer.state.fn == TrainerFn.FITTING:
            _adopt(trainer)
        return function(*args, **named)

    def kill(self, signum: int) -> None:
        pass


class ElasticStrategy(DDPStrategy):  # type: ignore[misc]
    """Lets Trainer.fit go on while processes come and go. Raises ValueError with the reason where that cannot be.

    Under Kolo the number of processes is the scheduler's; Trainer's devices and
    num_nodes do not count. Under torchrun and with plain python it trains with the
    processes that are there.

    global_batch is the number of samples of an optimizer step, regardless of the
    number of processes: each does as many forward passes of at most the data loader's
    batch_size as its share takes. Without it, each process does
    accumulate_grad_batches passes, so that a step has more samples the more
    processes there are, and an epoch fewer steps.

    arguments are those of DistributedDataParallel.
    """

    def __init__(self, global_batch: Optional[int] = None, **arguments: Any) -> None:
        if global_batch is not None and global_batch < 1:
            raise ValueError("global_batch is the number of samples of a step, at least 1, not %d" % global_batch)
        for name in arguments:
            if name not in inspect.signature(DistributedDataParallel).parameters:
                raise ValueError("ElasticStrategy has no argument %r; it takes global_batch and those of DistributedDataParallel" % name)
        super().__init__(cluster_environment=Environment())
        self.global_batch = global_batch
        self.arguments = arguments
        self.checkpoint: Optional[Dict[str, Any]] = None  # what the one that was loaded last has for this module, {}: nothing
        self.training: Optional[Training] = None

    @property
    def root_device(self) -> torch.device:
        return kolo.device() if self.parallel_devices[0].type == "cuda" else self.parallel_devices[0]

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, Any]:
        return {"num_replicas": self.world_size, "rank": self.global_rank if place.current() else 0}

    def _configure_launcher(self) -> None:
        self._launcher = Launcher()

    def setup_distributed(self) -> None:
        reset_seed()
        self.set_world_ranks()

    def setup(self, trainer: Any) -> None:
        """Sets up the model and its optimizers; DistributedDataParallel comes with a group."""
        if trainer.state.fn == TrainerFn.FITTING:
            self.training = Training(trainer, self)
        super(DDPStrategy, self).setup(trainer)

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        return model

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **named: Any) -> Any:
        """Computes the gradients before the optimizer's step, whose hooks send them to processes that observe."""
        precision = self.precision_plugin
        if getattr(precision, "scaler", None) is not None:
            return super().optimizer_step(optimizer, closure, model, **named)
        result = precision._wrap_closure(model or self.lightning_module, optimizer, closure)
        optimizer.step(**named)
        return result

    def save_checkpoint(self, checkpoint: Dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        if self.training is not None:
            checkpoint[KEY] = self.training.note()
        super().save_checkpoint(checkpoint, filepath, storage_options)

    def load_checkpoint(self, checkpoint_path: Any, weights_only: Optional[bool] = None) -> Dict[str, Any]:
        checkpoint: Dict[str, Any] = super().load_checkpoint(checkpoint_path, weights_only)
        self.checkpoint = checkpoint.get(KEY, {})
        return checkpoint


def _adopt(trainer: Any) -> None:
    """Makes the loops of a trainer those of this module, if they are Lightning's."""
    loop = trainer.fit_loop
    for present, expected, ours in ((loop, _FitLoop, ElasticFitLoop), (loop.epoch_loop, _TrainingEpochLoop, ElasticEpochLoop)):
        if type(present) not in (expected, ours):
            raise ValueError("%s is not Lightning's %s, which ElasticStrategy replaces itself" % (type(present).__name__, expected.__name__))
        for name in vars(ours):
            if not name.startswith("__") and name != "_kolo" and not hasattr(expected, name):
                raise ValueError("%s of Lightning %s has no %s: kolo.integrations.lightning was made for 2.6" %
                                 (expected.__name__, lightning.__version__, name))
        present.__class__ = ours
    connector = trainer._data_connector
    if "prepare_data" in vars(connector):  # of an earlier fit
        return
    prepare = connector.prepare_data

    def one_after_another() -> Any:
        """Before there is a group, each process prepares the data: it does not know which others are on its host."""
        if place.current():
            return prepare()
        path = os.path.join(tempfile.gettempdir(), "kolo-prepare-data-%d" % os.getuid())
        file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            return prepare()
        finally:
            os.close(file)

    connector.prepare_data = one_after_another


def _check(trainer: Any, global_batch: Optional[int]) -> None:
    """Raises ValueError for what does not work."""
    module = trainer.lightning_module
    interval = getattr(trainer, "val_check_interval", 1.0)  # is not there with fast_dev_run
    refused = {
        "manual optimization (automatic_optimization = False)": not module.automatic_optimization,
        "torch.compile": getattr(module, "_compiler_ctx", None) is not None,
        "limit_train_batches, overfit_batches or fast_dev_run": isinstance(trainer.limit_train_batches, int) or trainer.limit_train_batches != 1.0,
        "a training_step with dataloader_iter":
            isinstance(_select_data_fetcher(trainer, RunningStage.TRAINING), _DataLoaderIterDataFetcher),
        "reload_dataloaders_every_n_epochs": trainer.reload_dataloaders_every_n_epochs > 0,
        "use_distributed_sampler=False": not trainer._accelerator_connector.use_distributed_sampler,
        "sync_batchnorm": trainer.strategy._layer_sync is not None,
        "a time as val_check_interval": getattr(trainer, "_val_check_time_interval", None) is not None,
        "val_check_interval=%r without global_batch" % (interval,):
            (isinstance(interval, int) or interval != 1.0) and trainer.check_val_every_n_epoch is not None and global_batch is None,
        "accumulate_grad_batches with global_batch, which divides a step into passes itself,":
            trainer.accumulate_grad_batches != 1 and global_batch is not None,
    }
    for name in REFUSED:
        kind = getattr(callbacks, name, None)
        refused["the callback %s" % name] = kind is not None and any(isinstance(one, kind) for one in trainer.callbacks)
    for name, there in refused.items():
        if there:
            raise ValueError("%s is not supported with ElasticStrategy" % name)


def _check_loader(loader: Any) -> None:
    """Raises ValueError for training data that cannot be divided among processes whose number changes."""
    reason = None
    if not isinstance(loader, DataLoader):
        reason = "it is a %s, not one DataLoader" % type(loader).__name__
    elif isinstance(loader.dataset, torch.utils.data.IterableDataset) or not hasattr(loader.dataset, "__len__"):
        reason = "its data set has no length"
    elif type(loader).__iter__ is not DataLoader.__iter__:
        reason = "%s has an __iter__ of its own" % type(loader).__name__
    elif type(loader.batch_sampler) is not BatchSampler:
        reason = "it has a batch_sampler of its own, or no batch_size"
    elif type(loader.sampler) not in (RandomSampler, SequentialSampler):
        reason = "its sampler is a %s, not one of shuffle=True or shuffle=False" % type(loader.sampler).__name__
    elif type(loader.sampler) is RandomSampler and (loader.sampler.replacement or loader.sampler.num_samples != len(loader.dataset)):
        reason = "its sampler does not take each sample once"
    if reason is not None:
        raise ValueError("ElasticStrategy cannot divide the training data: %s" % reason)


class Kept:
    """Values of the last commit."""

    def __init__(self) -> None:
        self.fields: Dict[str, Any] = {}
        self.loaded = False  # the trainer has yet to be set to them

    def state_dict(self) -> Dict[str, Any]:
        return dict(self.fields)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.fields, self.loaded = dict(state), True


class Own(Kept):
    """What each process keeps for itself: the metrics of the epoch, which all ranks are asked for at its end."""


class OwnHandler(kolo.StateDictHandler):
    """Takes Own back after a failure, and sends it to nobody."""

    shared = False


kolo.register_handler(Own, OwnHandler)


class EpochBatches(RankBatches):
    """RankBatches that count all passes of an epoch: those that are done, too."""

    def __init__(self, training: "Training") -> None:
        super().__init__(training.position, training.order, training.step, training.loader.batch_size, kolo.rank(), kolo.size())
        self.training = training

    def __len__(self) -> int:
        return self.training.passes


class Training:
    """What kolo knows of a trainer that fits."""

    def __init__(self, trainer: Any, strategy: ElasticStrategy) -> None:
        self.trainer, self.strategy = trainer, strategy
        self.global_batch = strategy.global_batch
        _check(trainer, self.global_batch)
        self.module = trainer.lightning_module
        self.loader = _request_dataloader(trainer.fit_loop._data_source)
        _check_loader(self.loader)
        self.validation: Any = None
        if trainer.enable_validation:
            source = trainer.fit_loop.epoch_loop.val_loop._data_source
            source.instance = self.validation = _request_dataloader(source)  # once, and not for each group
        self.position = Position(len(self.loader.dataset), self.loader.drop_last)
        self.progress, self.own = Kept(), Own()
        self.accumulate = trainer.accumulate_grad_batches
        self.step = self._step(1)
        self.unit = self.step.accumulate  # forward passes of a step, as the loops have counted them
        self.passes = self._left()  # of the epoch: those that are done, and those that are left to the present group
        self.within = False  # an epoch that has begun is to go on
        self.first: Optional[bool] = None  # whether this process has yet to begin, in the present group; None before there is one
        self.begun = False  # the hooks of that have run
        self.zero = trainer.is_global_zero
        self.state: Optional[kolo.State] = None
        self.forward = self.module.forward
        trainer.accumulate_grad_batches = self.step.accumulate
        trainer.fit_loop.max_batches = self.passes
        if isinstance(trainer.val_check_interval, int) and trainer.check_val_every_n_epoch is not None \
                and trainer.val_check_interval * self.unit > self.passes:
            raise ValueError("val_check_interval=%d is more than the %d steps of an epoch" % (trainer.val_check_interval, self.passes // self.unit))
        if not any(isinstance(one, Steps) for one in trainer.callbacks):
            trainer.callbacks.insert(0, Steps())  # before those that make checkpoints

    def begin(self) -> kolo.State:
        """Makes the state, with what Trainer has set up."""
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
        if trainer.datamodule is not None:
            values["data"] = trainer.datamodule
        self.state = kolo.State(**values)
        return self.state

    def enter(self) -> None:
        """Begins to train in the present group."""
        trainer, strategy, loop = self.trainer, self.strategy, self.trainer.fit_loop
        strategy.set_world_ranks()
        strategy.model = self.module
        self.module.forward = self.forward  # a failure within a forward pass has left that of the old group
        self.first = not self.begun
        if trainer.validating:  # a failure has ended that
            loop.epoch_loop.val_loop._on_evaluation_model_train()
        trainer.training = True
        self.step = self._step(kolo.size())
        self._set()
        trainer.accumulate_grad_batches = self.step.accumulate
        self.passes = loop.max_batches = self._left() + (loop.epoch_loop.batch_progress.current.ready if self.within else 0)
        loop._combined_loader = loop.epoch_loop.val_loop._combined_loader = None
        if isinstance(self.validation, CombinedLoader):  # its loaders are replaced by those of a group
            loop.epoch_loop.val_loop._data_source.instance = CombinedLoader(self.validation.iterables, self.validation._mode)
        self._show()
        strategy._pl_static_graph_delay_done = False
        strategy.model = kolo.wrap(self.module, **strategy.arguments)

    def dataloader(self) -> Any:
        """The training data of this rank in the present group."""
        given = self.loader
        loader = DataLoader(
            given.dataset, batch_sampler=EpochBatches(self), num_workers=given.num_workers, collate_fn=given.collate_fn,
            pin_memory=given.pin_memory, timeout=given.timeout, worker_init_fn=given.worker_init_fn, generator=given.generator,
            multiprocessing_context=given.multiprocessing_context, prefetch_factor=given.prefetch_factor,
            persistent_workers=given.persistent_workers)
        _auto_add_worker_init_fn(loader, kolo.rank())
        return loader

    def stepped(self) -> None:
        """Counts the step that the optimizer has just made."""
        self.position.advance(self.step.samples)

    def end_epoch(self) -> None:
        self.position.end_epoch()
        self.passes = self._left()

    def commit(self) -> None:
        """Commits the steps that are done. Before the next one, so that what was to be done after a step is done."""
        done = self.trainer.fit_loop.epoch_loop.batch_progress.current.ready
        if self.state is None or done % self.step.accumulate or self.trainer.global_step == self.progress.fields["step"]:
            return
        self.within = True
        self._keep()
        self.within = False  # in the present group
        total = self._total()
        kolo.progress(step=self.trainer.global_step, epoch=self.position.epoch,
                      samples=self.position.epoch * self.position.samples + self.position.used,
                      **({} if total is None else {"total_steps": total}))
        self.state.commit()

    def note(self) -> Dict[str, Any]:
        """What a checkpoint has for _resume."""
        return {**self.position.state_dict(), "accumulate": self.step.accumulate}

    def order(self, epoch: int) -> List[int]:
        """The order of the samples in an epoch."""
        if type(self.loader.sampler) is SequentialSampler:
            return list(range(self.position.samples))
        seed = int(os.environ.get("PL_GLOBAL_SEED") or 0)  # as Lightning's DistributedSampler
        return torch.randperm(self.position.samples, generator=torch.Generator().manual_seed(seed + epoch)).tolist()

    def val_check_batch(self) -> int:
        """After how many forward passes there is a validation: always after whole steps."""
        interval = self.trainer.val_check_interval
        steps = interval if isinstance(interval, int) else max(1, int(self.passes // self.step.accumulate * interval))
        return steps * self.step.accumulate

    def _step(self, size: int) -> Step:
        return Step.shared(size, self.loader.batch_size, self.accumulate, self.global_batch)

    def _left(self) -> int:
        """The forward passes of this rank that are left of the epoch."""
        return self.position.steps(self.step.samples) * self.step.accumulate

    def _total(self) -> Optional[int]:
        """The steps of this training, if the present group does the rest of it; None where there is no limit."""
        trainer = self.trainer
        counts = [] if trainer.max_steps == -1 else [trainer.max_steps]
        if trainer.max_epochs is not None and trainer.max_epochs != -1:
            counts.append(trainer.global_step + self.position.steps_until(trainer.max_epochs, self.step.samples))
        return min(counts, default=None)

    def _resume(self, note: Dict[str, Any]) -> None:
        """Goes on from the checkpoint of Lightning that was loaded; note is empty if Lightning has made it without Kolo."""
        loop = self.trainer.fit_loop
        epochs, batches = loop.epoch_progress, loop.epoch_loop.batch_progress
        if note:
            self.position.load_state_dict(note)
            if self.position.used >= self.position.samples:
                self.position.end_epoch()
        elif epochs.current.processed == epochs.current.ready:
            self.position.epoch = epochs.current.processed
        elif batches.is_last_batch:
            self.position.epoch = epochs.current.processed + 1
        else:
            raise ValueError("the checkpoint was made within an epoch, without ElasticStrategy: it does not have which samples are done. "
                             "Take one from the end of an epoch")
        self.within = self.position.used > 0
        self.unit = note.get("accumulate", 1)
        _count(epochs, self.position.epoch, self.position.epoch)
        _count(batches, batches.total.ready, batches.current.ready if self.within else 0)
        loop.epoch_loop._batches_that_stepped = self.trainer.global_step
        _begin_anew(loop)

    def _keep(self) -> None:
        """Writes down what is so now."""
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
        """Makes the loops, callbacks and metrics what they were at the last commit, where that is not so already."""
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
        if self.within and self.first:  # this process has yet to begin the epoch
            _count(loop.epoch_progress, self.position.epoch, self.position.epoch)

    def _show(self) -> None:
        """Lets the present rank 0 log and show what it does, where the last one has left off."""
        trainer, before, self.zero = self.trainer, self.zero, self.trainer.is_global_zero
        for logger, version in zip(trainer.loggers, self.progress.fields["versions"]):
            if version is not None and logger.version != version:
                logger._version, logger._experiment = version, None
            if isinstance(logger, CSVLogger) and self.progress.fields["step"]:
                _reopen(logger, self.zero)
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
            bar.on_train_epoch_start(trainer, self.module)  # with another number of steps


def _count(progress: Any, total: int, current: int) -> None:
    """Sets how many batches or epochs are done."""
    for tracker, count in ((progress.total, total), (progress.current, current)):
        tracker.ready = tracker.started = tracker.processed = tracker.completed = count


def _begin_anew(loop: Any) -> None:
    """Takes from a loop and its parts that they go on from a checkpoint."""
    loop.on_iteration_done()
    for part in vars(loop).values():
        if isinstance(part, _Loop):
            _begin_anew(part)


def _reopen(logger: Any, writes: bool) -> None:
    """Lets a CSVLogger write to the file that another process may have begun, and which it would delete."""
    logger._experiment = None
    path = os.path.join(logger.log_dir, "metrics.csv")
    if writes and os.path.isfile(path):
        with open(path, newline="", encoding="utf-8") as file:
            content = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of that deletion
            writer = logger.experiment
        with open(path, "w", newline="", encoding="utf-8") as file:
            file.write(content)
        writer.metrics_keys = next(csv.reader(content.splitlines()), [])


class Steps(callbacks.Callback):  # type: ignore[misc]
    """Counts steps and epochs for Training."""

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        if not trainer.fit_loop._should_accumulate():
            trainer.strategy.training.stepped()

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        trainer.strategy.training.end_epoch()


class ElasticFitLoop(_FitLoop):  # type: ignore[misc]
    """Lightning's loop over epochs, in one group after the other."""

    _combined_loader: Any

    @property
    def _kolo(self) -> Training:
        training: Training = self.trainer.strategy.training
        return training

    def run(self) -> None:
        training, inner = self._kolo, super().run

        @kolo.elastic
        def train(state: kolo.State) -> None:
            training.enter()
            inner()

        state = training.begin()
        self.trainer._signal_connector.teardown()  # SIGTERM ends this process as without Lightning, and not the training of all
        try:
            train(state)
        finally:
            self.trainer.strategy.model = training.module
            self.trainer.accumulate_grad_batches = training.accumulate

    def setup_data(self) -> None:
        training = self._kolo
        if training.first is None:  # for Trainer.estimated_stepping_batches
            if training.global_batch is None:
                raise ValueError("how many steps there are depends on the number of processes, which changes: trainer.estimated_stepping_batches "
                                 "needs ElasticStrategy(global_batch=…)")
            return
        if self._combined_loader is not None:
            return
        self._combined_loader = CombinedLoader(training.dataloader(), "max_size_cycle")
        self._data_fetcher = _select_data_fetcher(self.trainer, RunningStage.TRAINING)
        self._data_fetcher.setup(self._combined_loader)
        iter(self._data_fetcher)
        self._resuming_from_checkpoint = True  # else later epochs than the first begin with another iter()

    def update_restart_stage(self) -> None:
        """Within an epoch that this process has begun, there is no begin of it."""
        super().update_restart_stage()
        if self._kolo.within and not self._kolo.first:
            self._restart_stage = RestartStage.RESTARTED_MID_EPOCH

    def on_run_start(self) -> None:
        """Runs the hooks of a process that begins. All set up the data to validate with, which takes collectives."""
        trainer, loop = self.trainer, self.epoch_loop
        if self._kolo.first:
            super().on_run_start()
        elif loop._should_check_val_epoch():
            trainer.validating = True
            loop.val_loop.setup_data()
            trainer.training = True

    def on_advance_start(self) -> None:
        self.max_batches = self._kolo.passes
        self.trainer.val_check_batch = self._kolo.val_check_batch()
        super().on_advance_start()
        self._kolo.begun = True


class ElasticEpochLoop(_TrainingEpochLoop):  # type: ignore[misc]
    """Lightning's loop over the steps of an epoch, in which the group changes."""

    @property
    def _kolo(self) -> Training:
        training: Training = self.trainer.strategy.training
        return training

    def reset(self) -> None:
        if self._kolo.within:
            self._kolo.within = False
        else:
            super().reset()

    def advance(self, data_fetcher: Any) -> None:
        self._kolo.commit()
        super().advance(data_fetcher)

    def _broadcast_sigterm_tensor(self) -> None:
        """Is left out: a process that gets SIGTERM leaves, and the others go on."""
