# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Chooses the batch for a number of ranks, and divides it among them. Pure.

The chosen batch has the highest goodput: samples per second, times what a sample
contributes (Pollux, OSDI 2021). Samples per second come from measured step times.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .rules import efficiency

HYSTERESIS = 0.05  # least relative improvement of the goodput for which the batch changes
GROWTH = 2.0  # most by which one decision multiplies the batch, because predictions far from the measured sizes are poor
FINE = 8  # candidates for each doubling of the batch
NEWEST = 0.5  # weight of the newest time of a size
SIZES = 16  # of which times are kept, for each number of ranks
RANKS = 8  # numbers of ranks of which times are kept


class Division(NamedTuple):
    """How the ranks share one optimizer step."""

    local: int  # samples of a rank in one forward pass
    passes: int  # forward passes of a rank in one step
    total: int  # samples of all ranks in one step

    @property
    def share(self) -> int:
        """The samples of a rank in one step."""
        return self.local * self.passes


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The author's bounds."""

    initial: int  # the smallest batch
    largest: int
    local: int  # most samples of a rank in one forward pass

    def __post_init__(self) -> None:
        if not 1 <= self.initial <= self.largest or self.local < 1:
            raise ValueError("initial=%d, max=%d, local_max=%d: must be 1 <= initial <= max and local_max >= 1"
                             % (self.initial, self.largest, self.local))

    def clip(self, batch: int) -> int:
        """Returns the nearest batch within the bounds."""
        return min(max(batch, self.initial), self.largest)

    def divide(self, batch: int, ranks: int) -> Division:
        """Divides a batch among ranks with as few forward passes as possible.

        All passes of all ranks have equally many samples, so the total is a multiple of
        the number of passes. The batch is rounded up to such a multiple, or down if the
        total would otherwise exceed the largest batch. If there are more ranks than the
        largest batch has samples, each rank takes one sample.
        """
        batch = self.clip(batch)
        share = max(1, min(-(-batch // ranks), self.largest // ranks))
        passes = -(-share // self.local)
        local = -(-share // passes)
        if ranks * local * passes > self.largest:
            local = share // passes
        return Division(local, passes, ranks * local * passes)


class Times:
    """Step times by number of ranks and by samples of a rank, as a line: fixed + each * samples.

    A line is enough, because a batch is divided into as few forward passes as
    possible: if there are several, each is nearly as large as the bound allows. So the
    overhead of a pass is proportional to the samples.
    """

    def __init__(self) -> None:
        self._seconds: Dict[int, Dict[int, float]] = {}  # by ranks and samples; the newest is the last

    def observe(self, ranks: int, share: int, seconds: float) -> None:
        """Adds the time of a step in which each rank has this many samples."""
        if not (seconds > 0 and math.isfinite(seconds)):
            return
        times = self._seconds.pop(ranks, {})
        before = times.pop(share, seconds)
        times[share] = before + NEWEST * (seconds - before)
        self._seconds[ranks] = times
        _shorten(times, SIZES)
        _shorten(self._seconds, RANKS)

    def line(self, ranks: int) -> Optional[Tuple[float, float]]:
        """Returns fixed and each, in seconds, for a number of ranks; None if no time is known.

        Without a time for this number, the times of the nearest one count. If only one
        size was measured, half of its time counts as fixed, so that another size is
        tried if its gradient is worth it.
        """
        if not self._seconds:
            return None
        nearest = min(self._seconds, key=lambda other: (abs(math.log(other / ranks)), other))
        points = list(self._seconds[nearest].items())
        if len(points) == 1:
            share, seconds = points[0]
            return seconds / 2, seconds / 2 / share
        return _fit(points)

    def state_dict(self) -> List[Tuple[int, List[Tuple[int, float]]]]:
        return [(ranks, list(times.items())) for ranks, times in self._seconds.items()]

    def load_state_dict(self, state: Iterable[Tuple[int, Iterable[Tuple[int, float]]]]) -> None:
        self._seconds = {ranks: dict(times) for ranks, times in state}


def choose(bounds: Bounds, current: int, ranks: int, scale: Optional[float], times: Times) -> int:
    """Returns the batch for the next steps, which is the current one unless another is clearly better.

    scale is the noise scale. Without it, or without step times, the batch stays.
    """
    current = bounds.clip(current)
    line = times.line(ranks)
    if scale is None or line is None:
        return current
    fixed, each = line

    def goodput(batch: int) -> float:
        division = bounds.divide(batch, ranks)
        seconds = fixed + each * division.share
        return division.total / seconds * efficiency(scale, bounds.initial, division.total)

    best = max(_candidates(bounds, current), key=lambda batch: (goodput(batch), -batch))
    return best if goodput(best) >= (1 + HYSTERESIS) * goodput(current) else current


def _candidates(bounds: Bounds, current: int) -> List[int]:
    """Returns batches from the initial one to the largest one that may be tried now."""
    largest = min(bounds.largest, int(GROWTH * current))
    count = max(1, math.ceil(FINE * math.log2(largest / bounds.initial)))
    steps = {round(bounds.initial * (largest / bounds.initial) ** (number / count)) for number in range(count + 1)}
    return sorted({bounds.clip(batch) for batch in steps} | {current})


def _fit(points: List[Tuple[int, float]]) -> Tuple[float, float]:
    """Returns the line with the least squares of relative errors. Neither of its numbers is negative."""
    weights = [(1 / seconds ** 2, share, seconds) for share, seconds in points]
    w = sum(weight for weight, _, _ in weights)
    x = sum(weight * share for weight, share, _ in weights) / w
    t = sum(weight * seconds for weight, _, seconds in weights) / w
    each = (sum(weight * (share - x) * (seconds - t) for weight, share, seconds in weights)
            / sum(weight * (share - x) ** 2 for weight, share, _ in weights))
    if each <= 0:
        return t, 0.0
    fixed = t - each * x
    return (fixed, each) if fixed > 0 else (0.0, sum(share / seconds for share, seconds in points) / sum(
        (share / seconds) ** 2 for share, seconds in points))


def _shorten(table: Dict[int, Any], most: int) -> None:
    """Removes the oldest entries."""
    while len(table) > most:
        del table[next(iter(table))]
