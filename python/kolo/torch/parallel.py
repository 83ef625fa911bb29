# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""DistributedDataParallel for the current group."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from . import compat
from .run import present


def wrap(module: torch.nn.Module, **arguments: Any) -> DistributedDataParallel:
    """Wraps a module in DistributedDataParallel for the current group.

    Call it within the elastic function, because each group needs a new wrapper. The
    arguments are those of DistributedDataParallel; device_ids is the module's
    GPU by default.
    """
    wrapped = DistributedDataParallel.__new__(DistributedDataParallel)
    rewrap(wrapped, module, **arguments)
    return wrapped


def rewrap(wrapped: DistributedDataParallel, module: torch.nn.Module, **arguments: Any) -> None:
    """Does the same as wrap, but reuses a DistributedDataParallel that was made for another group, or is not constructed yet."""
    session = present()
    if session is None or session.group is None:
        raise RuntimeError("there is no group yet: call kolo.wrap in the function that kolo.elastic runs")
    if any(compat.is_dtensor(parameter) for parameter in module.parameters()):
        raise TypeError("kolo.wrap makes a DistributedDataParallel: sharded modules (FSDP2) are made by kolo.Sharded")
    devices = {parameter.device for parameter in module.parameters()}
    if "device_ids" not in arguments and len(devices) == 1 and next(iter(devices)).type == "cuda":
        arguments["device_ids"] = [next(iter(devices))]
    construct = compat.wrap_equal if session.synced(module) else DistributedDataParallel.__init__
    try:
        construct(wrapped, module, **arguments)
    except RuntimeError as err:
        if "same model across all ranks" not in str(err):
            raise
        raise RuntimeError("the ranks do not train the same parameters. requires_grad is not part of the state: where it changes in training, set "
                           "it at the beginning of the function too, by what the state has (state.step). PyTorch: %s" % err) from err
    session.group.wrapped(wrapped)


def _explain_missing_group() -> None:
    """Makes DistributedDataParallel's constructor advise kolo.wrap if there is no group. PyTorch would advise init_process_group."""
    construct = DistributedDataParallel.__init__

    @functools.wraps(construct)
    def explained(self: DistributedDataParallel, *arguments: Any, **named: Any) -> None:
        if not dist.is_initialized():
            raise RuntimeError("there is no process group yet: Kolo forms it before it calls the function that kolo.elastic runs. "
                               "Wrap the module there: ddp = kolo.wrap(state.model)")
        construct(self, *arguments, **named)

    DistributedDataParallel.__init__ = explained  # type: ignore[method-assign]


_explain_missing_group()
