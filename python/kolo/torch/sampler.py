# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Data for groups that change size within an epoch.

All ranks go through the epoch in the same order. Of the items that are left,
rank r of n takes r, r+n, r+2n, ... So after k items on each rank, the first k*n
items are done. The number k*n is enough to go on with another n: no rank has to
report which items it used, not even a rank that died.
"""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sized, TypeVar

import torch
import torch.utils.data

from . import compat, place

T = TypeVar("T")


class Progress:
    """The epoch, and the number of its samples that all ranks together have done."""

    def __init__(self, rank: Optional[int], size: Optional[int]) -> None:
        self.epoch = 0
        self.processed = 0
        self._fixed = (rank, size)
        self.rank, self.size = 0, 1
        self.reset()

    def reset(self) -> None:
        """Takes over rank and size of the current group. The elastic loop calls it for the samplers of a state."""
        now = place.current()
        rank, size = self._fixed
        self.rank = rank if rank is not None else now.rank if now else 0
        self.size = size if size is not None else now.size if now else 1

    def set_epoch(self, epoch: int) -> None:
        """Begins a whole new epoch. state.epochs() calls it."""
        self.epoch = epoch
        self.processed = 0

    def record(self, samples: int) -> None:
        """Records that each rank has trained on this many more samples."""
        self.processed += samples * self.size

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Records a batch of this size. The signature is Horovod's; batch_idx is not used."""
        self.record(batch_size)

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "processed": self.processed}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch, self.processed = state["epoch"], state["processed"]


class ElasticSampler(Progress, torch.utils.data.Sampler):  # type: ignore[type-arg] # PyTorch 2.1 has no generic one
    """Distributes the indices of a data set over ranks whose number changes.

    A change within an epoch neither leaves out an index nor uses one again.

    All ranks must train on equally many samples per step. If the rest of an epoch
    does not divide among the ranks, up to size - 1 indices are used twice in the
    last batch, as in torch's DistributedSampler and Horovod's ElasticSampler.
    With drop_last=True, up to size - 1 indices are left out instead.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0, drop_last: bool = False,
                 rank: Optional[int] = None, size: Optional[int] = None) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        super().__init__(rank, size)

    def order(self) -> List[int]:
        """Returns the order of the indices in the current epoch, which is the same on all ranks."""
        count = len(self.dataset)
        if not self.shuffle:
            return list(range(count))
        generator = torch.Generator().manual_seed(self.seed + self.epoch)
        return torch.randperm(count, generator=generator).tolist()

    def __iter__(self) -> Iterator[int]:
        self.reset()  # for a sampler that is not part of the state
        left = self.order()[self.processed:]
        if self.drop_last:
            left = left[:len(left) - len(left) % self.size]
        elif left:
            missing = -len(left) % self.size
            left += list(itertools.islice(itertools.cycle(left), missing))
        return iter(left[self.rank::self.size])

    def __len__(self) -> int:
        self.reset()
        left = max(0, len(self.dataset) - self.processed)
        return left // self.size if self.drop_last else -(-left // self.size)


class ElasticIterable(Progress, torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """Distributes the items of an iterable over ranks whose number changes.

    The iterable must give the same items in the same order on every rank. Items
    that are done are skipped; of the others, each rank takes every size-th item. If
    the last items are fewer than the ranks, they are left out. If the iterable has
    set_epoch(), it is called with the epoch.

    Use it with at most one worker process of a DataLoader, because several would
    divide the items again.
    """

    def __init__(self, items: Iterable[T], rank: Optional[int] = None, size: Optional[int] = None) -> None:
        self.items = items
        self._walked = False
        super().__init__(rank, size)

    def set_epoch(self, epoch: int) -> None:
        super().set_epoch(epoch)
        if hasattr(self.items, "set_epoch"):
            self.items.set_epoch(epoch)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        super().load_state_dict(state)
        if hasattr(self.items, "set_epoch"):
            self.items.set_epoch(self.epoch)

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise RuntimeError("ElasticIterable works with num_workers=0 or 1 of a DataLoader, not %d" % worker.num_workers)
        if worker is not None and (self._walked or compat.in_persistent_worker()):
            raise RuntimeError("ElasticIterable does not work with persistent_workers=True: they do not see a new epoch or group. "
                               "Leave that argument out: workers are then started for each epoch")
        self._walked = worker is not None  # each worker process has its own copy
        left = itertools.islice(iter(self.items), self.processed, None)
        while True:
            row = list(itertools.islice(left, self.size))
            if len(row) < self.size:
                return
            yield row[self.rank]
