# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The place of this process in the present group."""

from __future__ import annotations

from typing import Optional

import torch

from ..worker import Place
from .context import context


def enter(place: Optional[Place]) -> None:
    """Sets the place that rank() and its siblings answer from."""
    context.place = place


def current() -> Optional[Place]:
    """The place in the present group, None before the first one."""
    return context.place


def _get() -> Place:
    if context.place is None:
        raise RuntimeError("this process has no rank yet: it is known within the function that kolo.elastic runs")
    return context.place


def rank() -> int:
    """The rank of this process in the present group."""
    return _get().rank


def size() -> int:
    """The number of processes of the present group."""
    return _get().size


def local_rank() -> int:
    """The number of this process's slot on its host: with gaps while the process of another slot is started again."""
    return _get().local_rank


def local_size() -> int:
    """The number of processes of the present group on this host."""
    return _get().local_size


def replica() -> int:
    """The number of processes that share one copy of a sharded model, 1 where each has all of it."""
    return _get().replica


def generation() -> int:
    """The number of the present group; each has a higher one."""
    return _get().generation


def device() -> torch.device:
    """The device of this process, the same for its whole life.

    With CUDA it is the GPU of the slot (LOCAL_RANK as the process was started
    with; the only GPU where just one is visible), else the CPU.
    """
    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    return torch.device("cuda", context.slot % count)
