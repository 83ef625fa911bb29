# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""DistributedDataParallel for the present group."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from .run import present


def wrap(module: torch.nn.Module, **arguments: Any) -> DistributedDataParallel:
    """Wraps a module in DistributedDataParallel for the present group.

    Call it within the elastic function, so that each group has its own. The
    arguments are those of DistributedDataParallel; device_ids is the module's
    GPU by default.
    """
    session = present()
    if session is None or session.group is None:
        raise RuntimeError("kolo.wrap is for the function that kolo.elastic runs: there is no group yet")
    if any(type(parameter).__name__ == "DTensor" for parameter in module.parameters()):
        raise TypeError("kolo.wrap makes a DistributedDataParallel: sharded modules (FSDP) cannot change their group yet")
    devices = {parameter.device for parameter in module.parameters()}
    if "device_ids" not in arguments and len(devices) == 1 and next(iter(devices)).type == "cuda":
        arguments["device_ids"] = [next(iter(devices))]
    if session.synced(module) and "init_sync" in inspect.signature(DistributedDataParallel).parameters:
        arguments.setdefault("init_sync", False)
    wrapped = DistributedDataParallel(module, **arguments)
    session.group.wrapped(wrapped)
    return wrapped
