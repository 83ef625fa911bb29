# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The strategy that a script gives to its Trainer."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Optional

import torch
from lightning.fabric.utilities.seed import reset_seed
from lightning.pytorch.strategies import DDPStrategy
from lightning.pytorch.strategies.launchers.launcher import _Launcher
from lightning.pytorch.trainer.states import TrainerFn
from torch.nn.parallel import DistributedDataParallel

import kolo.torch as kolo
from kolo.torch import place, reporting

from .environment import Environment
from .loops import adopt
from .training import Training

KEY = "kolo"  # of this module's entry in Lightning's checkpoints


class Launcher(_Launcher):  # type: ignore[misc]
    """Makes Trainer.fit elastic. It starts no processes, because Kolo's agent has started them."""

    is_interactive_compatible = False

    def launch(self, function: Callable[..., Any], *args: Any, trainer: Any = None, **named: Any) -> Any:
        if trainer is not None and trainer.state.fn == TrainerFn.FITTING:
            adopt(trainer)
        return function(*args, **named)

    def kill(self, signum: int) -> None:
        pass


class NoMesh:
    """The device_mesh of a module. Refuses a configure_model that shards the module, as for Lightning's ModelParallelStrategy."""

    def __getitem__(self, name: Any) -> Any:
        raise ValueError("ElasticStrategy does not support a sharded module (device_mesh): its parameters cannot move to another group of "
                         "processes. Shard the model by kolo.Sharded in a loop of your own, or run the script without this package, from checkpoints")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]


class ElasticStrategy(DDPStrategy):  # type: ignore[misc]
    """Lets Trainer.fit go on while processes come and go. Raises ValueError with the reason for anything unsupported.

    Under Kolo the scheduler decides on the number of processes; Trainer's devices
    and num_nodes are ignored. Under torchrun and with plain python, the number of
    processes stays the same.

    global_batch is the number of samples of an optimizer step, for any number of
    processes. Each process does as many forward passes of at most the data loader's
    batch_size as its share needs. Without global_batch, each process does
    accumulate_grad_batches passes: with more processes, a step has more samples, and
    an epoch has fewer steps.

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
        self.checkpoint: Optional[Dict[str, Any]] = None  # this module's entry in the last checkpoint that was loaded; {} if it has none
        self.training: Optional[Training] = None

    @property
    def root_device(self) -> torch.device:
        return kolo.device() if self.parallel_devices[0].type == "cuda" else self.parallel_devices[0]

    @property
    def distributed_sampler_kwargs(self) -> Dict[str, Any]:
        return {"num_replicas": self.world_size, "rank": self.global_rank if place.current() else 0}

    def _configure_launcher(self) -> None:
        self._launcher = Launcher()

    def setup_environment(self) -> None:
        super().setup_environment()
        if self.lightning_module is not None:
            self.lightning_module._device_mesh = NoMesh()

    def setup_distributed(self) -> None:
        reset_seed()
        self.set_world_ranks()

    def setup(self, trainer: Any) -> None:
        """Sets up the model and its optimizers. DistributedDataParallel is made for each group."""
        if trainer.state.fn == TrainerFn.FITTING:
            self.training = Training(trainer, self)
        super(DDPStrategy, self).setup(trainer)

    def _setup_model(self, model: torch.nn.Module) -> torch.nn.Module:
        return model

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **named: Any) -> Any:
        """Computes the gradients before the optimizer's step, because hooks of the optimizer send them to observers."""
        precision = self.precision_plugin
        if getattr(precision, "scaler", None) is not None:
            return super().optimizer_step(optimizer, closure, model, **named)
        result = precision._wrap_closure(model or self.lightning_module, optimizer, closure)
        optimizer.step(**named)
        return result

    def save_checkpoint(self, checkpoint: Dict[str, Any], filepath: Any, storage_options: Any = None) -> None:
        if self.training is not None:
            checkpoint[KEY] = self.training.note()
        with reporting.slow("checkpoint"):
            super().save_checkpoint(checkpoint, filepath, storage_options)

    def load_checkpoint(self, checkpoint_path: Any, weights_only: Optional[bool] = None) -> Dict[str, Any]:
        checkpoint: Dict[str, Any] = super().load_checkpoint(checkpoint_path, weights_only)
        self.checkpoint = checkpoint.get(KEY, {})
        return checkpoint
