# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Divides an epoch's data among ranks whose number changes within the epoch. Pure: no PyTorch, no network."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence


class Step(NamedTuple):
    """How the ranks share one optimizer step."""

    samples: int  # of all ranks
    accumulate: int  # forward passes of each rank

    @classmethod
    def shared(cls, size: int, forward: int, accumulate: int, global_batch: Optional[int]) -> "Step":
        """Returns the step of size ranks whose forward passes take up to forward samples.

        global_batch is the number of samples of a step, for any size. Without it, each
        rank does accumulate full passes, so a step grows with the size.
        """
        if global_batch is None:
            return cls(forward * accumulate * size, accumulate)
        share = -(-global_batch // size)
        return cls(global_batch, -(-share // forward))


@dataclasses.dataclass
class Position:
    """The position of a training in its data set."""

    samples: int  # of the data set
    drop_last: bool = False  # an epoch ends when less than a whole step is left
    epoch: int = 0
    used: int = 0  # samples of this epoch
    digest: Optional[List[int]] = None  # an epoch, and a checksum of its order, if the script has a sampler of its own

    def advance(self, samples: int) -> None:
        """Counts a step's samples."""
        self.used = min(self.samples, self.used + samples)

    def end_epoch(self) -> None:
        self.epoch += 1
        self.used = 0

    def seek(self, epochs: float) -> None:
        """Moves to the position after this many epochs."""
        self.epoch = int(epochs)
        self.used = round((epochs - self.epoch) * self.samples)
        if self.used >= self.samples:
            self.end_epoch()

    @property
    def epochs(self) -> float:
        """The number of finished epochs, plus the finished fraction of the current epoch."""
        return self.epoch + self.used / self.samples

    def steps(self, samples: int) -> int:
        """Returns how many steps of this many samples are left in the epoch.

        If steps have grown within the epoch, the rest may be smaller than a step. The
        rest counts as a step even with drop_last, because otherwise nothing would end
        the epoch.
        """
        return self._steps(self.samples - self.used, samples)

    def steps_until(self, epochs: float, samples: int) -> int:
        """Returns how many steps of this many samples are left until this number of epochs is done."""
        whole = int(epochs)
        each = self._steps(self.samples, samples)
        if self.epoch >= whole:  # in the last, partial epoch, or after it
            left = (epochs - self.epoch) * self.samples - self.used
            return max(0, math.ceil(left / samples))
        return self.steps(samples) + (whole - self.epoch - 1) * each + math.ceil(epochs * each) - whole * each

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "used": self.used, **({"digest": self.digest} if self.digest else {})}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch, self.used, self.digest = state["epoch"], state["used"], state.get("digest")

    def _steps(self, left: int, samples: int) -> int:
        if left <= 0:
            return 0
        return max(1, left // samples) if self.drop_last else -(-left // samples)


def deal(samples: Sequence[Any], step: Step, rank: int, size: int) -> Iterator[List[Any]]:
    """Yields a batch for each forward pass of a rank in a step of these samples.

    The samples are dealt out to the ranks in turn, so that ranks differ by one
    sample at most. A rank's samples are dealt out to its forward passes in the same
    way. If a step has fewer samples than all ranks together have passes, some
    samples are repeated, because each pass needs one.
    """
    least = size * step.accumulate
    if len(samples) < least:
        samples = list(itertools.islice(itertools.cycle(samples), least))
    mine = samples[rank::size]
    for number in range(step.accumulate):
        yield list(mine[number::step.accumulate])


def deal_evenly(samples: Sequence[Any], step: Step, rank: int, size: int) -> Iterator[List[Any]]:
    """Yields a single batch: the rank's share of consecutive samples, so that values gathered from all ranks keep the data's order.

    Up to size - 1 samples are repeated.
    """
    share = -(-len(samples) // size)
    whole = list(itertools.islice(itertools.cycle(samples), share * size))
    yield whole[rank * share:(rank + 1) * share]


class RankBatches:
    """The batch sampler of a rank. It yields a batch for each remaining forward pass of the current epoch."""

    def __init__(self, position: Position, order: Callable[[int], Sequence[int]], step: Step, forward: int, rank: int, size: int,
                 deal: Callable[[Sequence[int], Step, int, int], Iterator[List[int]]] = deal) -> None:
        self.position = position
        self.order = order  # of the epoch, the same on all ranks
        self.step = step
        self.batch_size = forward  # the largest
        self.rank = rank
        self.size = size
        self._deal = deal

    def __iter__(self) -> Iterator[List[int]]:
        used, each, steps = self.position.used, self.step.samples, self.position.steps(self.step.samples)
        order = self.order(self.position.epoch) if steps else ()  # the epoch may be one of a checkpoint, drawn from other data
        for begin in range(used, used + steps * each, each):
            yield from self._deal(order[begin:begin + each], self.step, self.rank, self.size)

    def __len__(self) -> int:
        return self.position.steps(self.step.samples) * self.step.accumulate
