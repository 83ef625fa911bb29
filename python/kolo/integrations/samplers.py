# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Gives all ranks the same order of an epoch's samples, with a sampler of PyTorch or of the script.

A rank takes its share of each step from this order. So the order has to be the same on
all ranks, including a newcomer that draws it in the middle of an epoch. Therefore the
random numbers of samplers are seeded by the epoch. At the start of each epoch, the
ranks compare checksums of their orders. The position in the data contains the
checksum, for newcomers.
"""

from __future__ import annotations

import array
import itertools
import random
import sys
import zlib
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.utils.data import RandomSampler, SequentialSampler

import kolo.torch as kolo

from .batches import Position

DIFFERS = ("a %s gives its samples in another order %s. Its order may depend on set_epoch(), its generator, and the global random numbers of torch, "
           "random and numpy, which are seeded by the epoch; let it depend on nothing else")
OTHER = "than in another process, or before"


class Order:
    """Returns the indices of an epoch in order. Raises ValueError for a sampler whose order is not the same on all ranks.

    The result of seed is added to the epoch. It is called for each epoch, because a newcomer's seed may
    change when it joins.
    """

    def __init__(self, sampler: Any, seed: Callable[[], int], drop_last: bool = False) -> None:
        replicas = getattr(sampler, "num_replicas", 1)
        if replicas != 1:
            raise ValueError("a %s of %d replicas has only a part of the samples: take it out, because Kolo divides the samples among the processes" %
                             (type(sampler).__name__, replicas))
        if isinstance(sampler, kolo.ElasticSampler):
            raise ValueError("a %s gives each process its own samples: take it out, because Kolo divides the samples among the processes" %
                             type(sampler).__name__)
        if not hasattr(sampler, "__len__"):
            raise ValueError("a %s has no length, and an epoch of it may have no end: give it __len__, or use an iterable data set" %
                             type(sampler).__name__)
        self._sampler = sampler
        self._seed = seed
        self._own = not _is_sequential(sampler) and not _is_shuffle(sampler)
        self._drawn: Optional[Tuple[int, List[Any]]] = None  # an epoch that was compared, and its order, until it is used
        self.position = Position(len(sampler), drop_last)
        if self._own:
            self.position.digest = [0, _checksum(self._draw(0))]
            self._check(0, self._draw(0), "the second time")

    def __call__(self, epoch: int) -> Sequence[Any]:
        if _is_sequential(self._sampler):
            return range(self.position.samples)
        if not self._own:
            order = array.array("q", bytes(8 * self.position.samples))  # a list would take six times the memory, and a second for some millions
            generator = torch.Generator().manual_seed(self._seed() + epoch)
            torch.randperm(len(order), generator=generator, out=torch.frombuffer(order, dtype=torch.int64))
            return order
        drawn, self._drawn = self._drawn, None
        if drawn is not None and drawn[0] == epoch:
            return drawn[1]
        return self._check(epoch, self._draw(epoch), OTHER)

    def compare(self) -> None:
        """Compares the order of the current epoch among the ranks. Raises ValueError on all of them if it differs.

        All ranks call it at the start of an epoch, and in each group again.
        """
        position = self.position
        if not self._own or position.used >= position.samples or not dist.is_initialized() or dist.get_world_size() == 1:
            return
        order = self._draw(position.epoch)
        checksum = _checksum(order)
        highest = torch.tensor([checksum, -checksum], device=kolo.device())
        dist.all_reduce(highest, dist.ReduceOp.MAX)
        if highest.sum() != 0:
            raise ValueError(DIFFERS % (type(self._sampler).__name__, OTHER))
        self._drawn = position.epoch, self._check(position.epoch, order, OTHER)

    def _check(self, epoch: int, order: List[Any], than: str) -> List[Any]:
        """Compares the order of an epoch with the checksum of an earlier draw, possibly of another process, and returns the order."""
        if len(order) != self.position.samples:
            raise ValueError("a %s gives %d samples in epoch %d, and its length was %d at the start: let each epoch have the same number of samples" %
                             (type(self._sampler).__name__, len(order), epoch, self.position.samples))
        digest = [epoch, _checksum(order)]
        if self.position.digest and self.position.digest[0] == epoch and self.position.digest != digest:
            raise ValueError(DIFFERS % (type(self._sampler).__name__, than))
        self.position.digest = digest
        return order

    def _draw(self, epoch: int) -> List[Any]:
        """Returns the sampler's order, with generators that are seeded by the epoch and restored afterwards."""
        sampler, seed, generators = self._sampler, self._seed() + epoch, kolo.RNG()
        own = getattr(sampler, "generator", None)
        own = own if isinstance(own, torch.Generator) else None
        before = generators.state_dict(), own.get_state() if own is not None else None
        try:
            torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed the GPUs, which are not all restored
            random.seed(seed)
            if "numpy" in sys.modules:
                sys.modules["numpy"].random.seed(seed % 2 ** 32)
            if own is not None:
                own.manual_seed(seed)
            if hasattr(sampler, "set_epoch"):
                sampler.set_epoch(epoch)
            return list(itertools.islice(sampler, len(sampler)))
        finally:
            generators.load_state_dict(before[0])
            if own is not None and before[1] is not None:
                own.set_state(before[1])


def _is_sequential(sampler: Any) -> bool:
    """Whether a sampler is that of a DataLoader with shuffle=False."""
    return type(sampler) is SequentialSampler


def _is_shuffle(sampler: Any) -> bool:
    """Whether a sampler is that of a DataLoader with shuffle=True, or gives the same samples."""
    return type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == len(sampler.data_source)


def _checksum(order: List[Any]) -> int:
    """Returns a checksum of an order. Indices may be tensors, whose text would take long to make."""
    try:
        return zlib.crc32(array.array("q", order))
    except (TypeError, OverflowError):  # not all of them are numbers
        return zlib.crc32(repr(order).encode())
