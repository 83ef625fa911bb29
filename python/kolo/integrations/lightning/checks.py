# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checks that refuse, at the start, what is not supported."""

from __future__ import annotations

from typing import Any, Optional

from lightning.pytorch import callbacks
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from lightning.pytorch.loops.utilities import _select_data_fetcher
from lightning.pytorch.trainer.states import RunningStage
from torch.utils.data import BatchSampler, DataLoader

from .. import streams

# Callbacks that change the model or the loops, or keep state that does not reach newcomers.
REFUSED = ("BaseFinetuning", "BatchSizeFinder", "GradientAccumulationScheduler", "LearningRateFinder", "ModelPruning", "StochasticWeightAveraging")


def check_trainer(trainer: Any, global_batch: Optional[int]) -> None:
    """Raises ValueError for a Trainer or module that is not supported."""
    module = trainer.lightning_module
    interval = getattr(trainer, "val_check_interval", 1.0)  # missing with fast_dev_run
    refused = {
        "manual optimization (automatic_optimization = False)": not module.automatic_optimization,
        "limit_train_batches, overfit_batches or fast_dev_run": isinstance(trainer.limit_train_batches, int) or trainer.limit_train_batches != 1.0,
        "a training_step with dataloader_iter":
            isinstance(_select_data_fetcher(trainer, RunningStage.TRAINING), _DataLoaderIterDataFetcher),
        "reload_dataloaders_every_n_epochs": trainer.reload_dataloaders_every_n_epochs > 0,
        "use_distributed_sampler=False (leave it out: the samples of your own sampler are divided, too)":
            not trainer._accelerator_connector.use_distributed_sampler,
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


def check_loader(loader: Any, trainer: Any, global_batch: Optional[int]) -> None:
    """Raises ValueError for training data that cannot be divided among processes whose number changes."""
    reason = _indivisible(loader)
    if reason is None and streams.is_stream(loader.dataset):
        reason = streams.refused(loader.num_workers, loader.persistent_workers)
        if loader.drop_last and global_batch is None:
            reason = "drop_last of an iterable data set needs ElasticStrategy(global_batch=…), because steps of another size leave out other samples"
        if not isinstance(trainer.val_check_interval, int) and trainer.val_check_interval != 1.0:
            reason = "val_check_interval=%r is a part of the length of an iterable data set, which has none: give a number of steps" % (
                trainer.val_check_interval)
    if reason is not None:
        raise ValueError("ElasticStrategy cannot divide the training data: %s" % reason)


def _indivisible(loader: Any) -> Optional[str]:
    """Returns why a loader cannot be divided, whatever its data set; None if it can."""
    if not isinstance(loader, DataLoader):
        return "it is a %s, not one DataLoader" % type(loader).__name__
    if not streams.is_stream(loader.dataset) and not hasattr(loader.dataset, "__len__"):
        return "its data set has no length, and is no torch.utils.data.IterableDataset"
    if type(loader).__iter__ is not DataLoader.__iter__:
        return "%s has an __iter__ of its own" % type(loader).__name__
    if type(loader.batch_sampler) is not BatchSampler:
        return "it has a batch_sampler of its own, or no batch_size"
    return None
