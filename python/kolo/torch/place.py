# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The place of this process in the current group."""

from __future__ import annotations

from typing import Optional

import torch

from ..worker import Place
from .context import context


def enter(place: Optional[Place]) -> None:
    """Sets the place from which rank(), size() and the functions below take their results."""
    context.place = place


def current() -> Optional[Place]:
    """Returns the place in the current group; None before the first group."""
    return context.place


def _get() -> Place:
    if context.place is None:
        raise RuntimeError("this process has no rank yet: it is known within the function that kolo.elastic runs")
    return context.place


def rank() -> int:
    """The rank of this process in the current group."""
    return _get().rank


def size() -> int:
    """The number of processes of the current group."""
    return _get().size


def local_rank() -> int:
    """The number of this process's slot on its host. While a slot restarts, its number is missing in the group."""
    return _get().local_rank


def local_size() -> int:
    """The number of processes of the current group on this host."""
    return _get().local_size


def replica() -> int:
    """The number of processes that share one copy of a sharded model; 1 without `replica` in the jobspec."""
    return _get().replica


def generation() -> int:
    """The number of the current group. Each group has a higher number than the last."""
    return _get().generation


def device() -> torch.device:
    """The device of this process, which stays the same for its whole life.

    With CUDA, it is the slot's GPU, selected by the process's initial LOCAL_RANK,
    or the only visible GPU. Otherwise, it is the CPU.
    """
    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    return torch.device("cuda", context.slot % count)
