# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Chooses the backend of process groups, and warms it up before the first group."""

from __future__ import annotations

import os
from typing import Optional

import torch
import torch.distributed as dist

from . import compat

BACKEND = "KOLO_TORCH_BACKEND"
LAZY = "TORCH_GLOO_LAZY_INIT"


def choose(backend: Optional[str]) -> str:
    """Returns the script's backend, or else the backend in the environment. The default is gloo, with NCCL for CUDA tensors."""
    default = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    return backend or os.environ.get(BACKEND) or default


def warm(backend: str) -> None:
    """Does PyTorch's slow one-time initialization, so that no group waits for it."""
    if os.environ.get(LAZY, "0") not in ("", "0"):
        raise RuntimeError("%s=%s: Gloo would connect after the agents have checked the connections of a group; "
                           "take it out of the environment" % (LAZY, os.environ[LAZY]))
    with compat.same_excepthook():
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    with torch.random.fork_rng(devices=[]):  # the script's random numbers do not change
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    model(torch.zeros(1, 1)).backward()
    dist.destroy_process_group()
