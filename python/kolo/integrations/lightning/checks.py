# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checks that refuse, at the start, what is not supported."""

from __future__ import annotations

from typing import Any, Optional

import torch
from lightning.pytorch import callbacks
from lightning.pytorch.loops.fetchers import _DataLoaderIterDataFetcher
from lightning.pytorch.loops.utilities import _select_data_fetcher
from lightning.pytorch.trainer.states import RunningStage
from torch.utils.data import BatchSampler, DataLoader

# Callbacks that change the model or the loops, or keep state that does not reach newcomers.
REFUSED = ("BaseFinetuning", "BatchSizeFinder", "GradientAccumulationScheduler", "LearningRateFinder", "ModelPruning",
           "StochasticWeightAveraging", "WeightAveraging")


def check_trainer(trainer: Any, global_batch: Optional[int]) -> None:
    """Raises ValueError for a Trainer or module that is not supported."""
    module = trainer.lightning_module
    interval = getattr(trainer, "val_check_interval", 1.0)  # missing with fast_dev_run
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


def check_loader(loader: Any) -> None:
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
    if reason is not None:
        raise ValueError("ElasticStrategy cannot divide the training data: %s" % reason)
