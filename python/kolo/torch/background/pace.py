# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Limits how much is sent between two commits, so that training is hardly slower. Pure.

    intervals without sending  -->  the usual one
    intervals with sending     -->  training waits, or the interval is longer  -->  less room, or none

An interval is the time between two commits; its room is the number of bytes that may
be sent in it. Two costs reduce the room: the time for which training waits for the
sender, and the time by which the interval exceeds the usual one. Sending can make an
interval longer, because it takes a core, memory or the network from training.

An interval that is longer for another reason also reduces the room of the next
interval. Sending ends only after many long intervals.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from typing import Callable, Iterator, List, Optional

VARIABLE = "KOLO_TORCH_SLOWDOWN"
LIMIT = 0.2  # by how much training may be slower
SHARE = 0.1  # of the time between two commits, for slices
FLOOR = 1024 * 1024  # bytes of slices that each commit with room sends at least
LITTLE = 4 * FLOOR  # bytes of gradients; with fewer, a slowdown has other causes, too
BUSY = 0.75  # of the time between two commits, for all that is sent: beyond that, training waits
QUIET = 4  # intervals without sending; the second longest is the usual one, because single ones are long by chance
LONG = 10.0  # seconds of such intervals; then fewer of them are enough
LEAST = 0.05  # bytes of slices for each byte of gradients; with fewer, sending would not end
PATIENCE = 6  # commits without room, minus those with room, after which there is no hope for room


def limit() -> float:
    """Returns by how much training may become slower: 0.2 is 20 %, inf is no limit."""
    text = os.environ.get(VARIABLE) or str(LIMIT)
    try:
        return float(text)
    except ValueError:
        raise ValueError("%s must be a number such as 0.2, or inf, not %r" % (VARIABLE, text)) from None


class Pace:
    """Measures training from commit to commit."""

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._quiet: List[float] = []
        self._own = 0.0  # the part of the last interval in which training did not wait
        self._slower = 0.0  # by how much training was slower in that interval
        self._waited = 0.0  # since the last commit
        self._last: Optional[float] = None  # time of the last commit
        self._refused = 0  # commits without room, minus those with room

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Measures for how long training waits."""
        begun = self._clock()
        try:
            yield
        finally:
            self._waited += self._clock() - begun

    def commit(self) -> None:
        """Ends an interval."""
        now = self._clock()
        if self._last is not None:
            interval = now - self._last
            self._own = interval - self._waited
            if self.measuring:
                self._quiet.append(interval)
            elif not math.isinf(self._limit):
                waits = self._waited / max(self._own, 1e-9)
                self._slower = max(waits, interval / max(sorted(self._quiet)[-2:][0], 1e-9) - 1)
        self._last, self._waited = now, 0.0

    @property
    def measuring(self) -> bool:
        """Whether the usual interval is still unknown. Nothing is sent meanwhile."""
        return not math.isinf(self._limit) and len(self._quiet) < QUIET and sum(self._quiet) < LONG

    @property
    def exhausted(self) -> bool:
        """Whether to stop waiting for room, and leave the rest of the state for the switch."""
        return self._refused >= PATIENCE

    def share(self, rate: float) -> int:
        """Returns how many bytes a commit may send of data that is sent only once.

        rate is the speed of sending, in bytes per second.
        """
        return max(FLOOR, int(SHARE * rate * self._own))

    def room(self, rate: float, followed: int) -> int:
        """Returns how many bytes of slices a commit may send, in addition to followed bytes of gradients.

        The result grows with followed, so little is sent at first, and more with each
        commit. It is lower if training would become too slow.
        """
        room = max(self.share(rate), followed)
        if followed and not math.isinf(self._limit):
            if rate:
                room = min(room, int(BUSY * rate * self._own) - followed)
            if self._slower > 0:
                room = min(room, int(max(followed, LITTLE) * (self._limit / self._slower - 1)))
            if room < max(FLOOR, followed * LEAST):
                self._refused += 1
                return 0
        self._refused = max(0, self._refused - 1)
        return room
