# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""How long this process waits for the other members in each step, and which member makes the others wait.

All members of a synchronous training have the same step time. The member that
makes it long arrives last in the exchange of gradients, and waits least there.
So the members compare their waits, which needs no common clock.
"""

from __future__ import annotations

import functools
import time
from typing import Any, List, Optional, Sequence, Tuple

import torch

from .. import compat

UNKNOWN = 0  # the wait of a member that does not know it; known waits are one larger
LONGEST = 2 ** 30  # microseconds; longer waits are cut
MOST = 64  # exchanges on a GPU between two commits that are timed


class Waits:
    """Measures the waits of this process in the backward passes of DistributedDataParallel."""

    def __init__(self) -> None:
        self._hooks: List[Any] = []
        self._waited = 0.0  # seconds since the last take()
        self._known = False  # there was an exchange since then
        self._running = False  # a backward pass is being timed
        self._events: List[Tuple[Any, Any]] = []  # before and after the exchanges on a GPU

    def watch(self, module: torch.nn.Module) -> None:
        """Measures the waits in each backward pass of a DistributedDataParallel."""
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        for parameter in trained[:1] + trained[1:][-1:]:  # two, because a pass may not use one of them
            self._hooks.append(parameter.register_post_accumulate_grad_hook(self._accumulated))

    def take(self) -> int:
        """Returns the wait in microseconds plus one since the last call, or UNKNOWN."""
        known, waited, events = self._known, self._waited, self._events
        self._known, self._waited, self._events, self._running = False, 0.0, [], False
        for before, after in events:
            if not after.query():
                return UNKNOWN
            waited += before.elapsed_time(after) / 1000
        return min(int(waited * 1e6), LONGEST) + 1 if known else UNKNOWN

    def close(self) -> None:
        """Removes the hooks from the parameters."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _accumulated(self, parameter: torch.Tensor) -> None:
        """Called in a backward pass, before DistributedDataParallel appends its wait to the functions that run at the end of the pass."""
        if not self._running:
            self._running = True
            compat.after_backward(functools.partial(self._arrived, parameter.device))

    def _arrived(self, device: torch.device) -> None:
        """Called when all gradients of this process are computed. The wait for the other members follows."""
        compat.after_backward(functools.partial(self._exchanged, device, self._now(device)))

    def _exchanged(self, device: torch.device, arrived: Any) -> None:
        """Called after the wait."""
        self._running, self._known = False, True
        now = self._now(device)
        if device.type == "cpu":
            self._waited += now - arrived
        elif now is not None and arrived is not None and len(self._events) < MOST:
            self._events.append((arrived, now))
        else:
            self._known = False

    @staticmethod
    def _now(device: torch.device) -> Any:
        """Returns the time or, on a GPU, an event in the stream that waits for the exchange. Returns None on other devices."""
        if device.type == "cpu":
            return time.perf_counter()
        if device.type != "cuda":
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(device))
        return event


def last(waits: Sequence[int]) -> Optional[Tuple[int, float]]:
    """Returns the rank that arrived last, and the seconds between the median of the other ranks and its arrival.

    waits holds what take() returned on each rank. Returns None if one of them does not know its wait.
    """
    if len(waits) < 2 or min(waits) == UNKNOWN:
        return None
    rank = min(range(len(waits)), key=waits.__getitem__)
    others = sorted([*waits[:rank], *waits[rank + 1:]])
    return rank, (others[(len(others) - 1) // 2] - waits[rank]) / 1e6
