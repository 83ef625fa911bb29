# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Reads an iterable data set on ranks whose number changes within an epoch.

    iterable --> StreamBatches --> DataLoader --> Stream --> (batch, and how far the iterable is after it)

Each rank reads the whole iterable, which gives all of them the same samples in
the same order, and takes its share of each step. So one number is enough to go on
with other ranks: how many samples the ranks have used. A rank that enters a group
skips as many, or loads the iterable's own state, if it has state_dict and
load_state_dict (as those of torchdata). The state of a stream of Hugging Face's
datasets is not used, because it may count samples that are not read yet.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import itertools
import sys
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

import torch.utils.data

import kolo.torch as kolo

from .batches import Step

_PARTS = 100  # of an object or list that are searched for a stream; a longer list has samples


@dataclasses.dataclass(frozen=True)
class Mark:
    """The position of an iterable after a step. A DataLoader passes it on unchanged."""

    used: int  # samples of this epoch
    samples: int  # of the step
    place: Optional[Dict[str, Any]]  # the iterable's own state; a copy, which nothing changes


@dataclasses.dataclass
class StreamPosition:
    """The position of a training in an iterable of unknown length. It has the interface of Position."""

    most: int = sys.maxsize  # steps that count as an epoch
    epoch: int = 0
    used: int = 0  # samples of this epoch
    made: int = 0  # steps of this epoch
    place: Optional[Dict[str, Any]] = None  # the iterable's own state after them
    taken: Mark = Mark(0, 0, None)  # of the batch that was read last

    def advance(self, samples: int) -> None:
        """Counts the step that ends with the last batch read. Its Mark has the true number of samples, so samples is not used."""
        self.used, self.place = self.taken.used, self.taken.place
        self.made += 1

    def end_epoch(self) -> None:
        self.epoch += 1
        self.used, self.made, self.place = 0, 0, None

    def seek(self, epoch: int, made: int, used: int) -> None:
        """Moves to the position in an epoch at which made steps were done and used samples were used."""
        self.epoch, self.made, self.used, self.place = epoch, made, used, None

    @property
    def epochs(self) -> float:
        """The number of finished epochs, plus the steps of the current epoch divided by most."""
        return self.epoch + self.made / self.most

    def steps(self, samples: int) -> int:
        """Returns a number larger than any epoch's, because the number of steps left is unknown."""
        return sys.maxsize

    def state_dict(self) -> Dict[str, Any]:
        return {"epoch": self.epoch, "used": self.used, "made": self.made, "place": self.place}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.epoch, self.used, self.made, self.place = state["epoch"], state["used"], state["made"], state.get("place")


class Source:
    """An iterable data set that can be read from any position within an epoch."""

    def __init__(self, items: Any) -> None:
        if isinstance(items, kolo.ElasticIterable):
            raise ValueError("an ElasticIterable does not count its samples without kolo.State: give the iterable within it, because Kolo divides the "
                             "samples among the processes")
        self._items = items
        self.placed = _has_state(items) and not _has_stream(items)
        self._initial = copy.deepcopy(items.state_dict()) if self.placed else None
        self._fresh = True  # not read by this process yet: iter() starts at the beginning, even if the script has looked at some samples

    def read(self, position: StreamPosition) -> Iterator[Any]:
        """Yields the rest of the epoch."""
        items, skipped = self._items, position.used
        if hasattr(items, "set_epoch"):
            items.set_epoch(position.epoch)
        if self.placed and position.place is not None:
            skipped = 0
            items.load_state_dict(copy.deepcopy(position.place))
        elif self.placed and not self._fresh:
            items.load_state_dict(copy.deepcopy(self._initial))
        self._fresh = False
        samples = iter(items)
        if samples is items and not self.placed and torch.utils.data.get_worker_info() is None:  # a worker process has a copy
            raise ValueError("the __iter__ of a %s returns the object itself, which cannot be read again in another epoch or group: let it return "
                             "a new iterator, or add state_dict and load_state_dict" % type(items).__name__)
        return itertools.islice(samples, skipped, None)

    def first(self, count: int) -> List[Any]:
        """Returns up to this many samples, which are still read later."""
        return list(itertools.islice(self.read(StreamPosition()), count))

    def place(self) -> Optional[Dict[str, Any]]:
        """The iterable's own state at the read position; None if the iterable has no state."""
        return copy.deepcopy(self._items.state_dict()) if self.placed else None


class StreamBatches(torch.utils.data.IterableDataset):  # type: ignore[type-arg] # PyTorch 2.1 has no generic one
    """Yields a rank's batches with their Marks: one for each remaining forward pass of the current epoch.

    Give it to a DataLoader with batch_size=None and Collate.
    """

    def __init__(self, source: Source, position: StreamPosition, step: Step,
                 deal: Callable[[Sequence[Any]], Iterator[List[Any]]], drop_last: bool) -> None:
        self.source = source
        self.position = position
        self.step = step
        self.drop_last = drop_last
        self.deal = deal  # this rank's passes of a step

    def __iter__(self) -> Iterator[Tuple[List[Any], Mark]]:
        used, left = self.position.used, self.source.read(self.position)
        while True:
            samples = list(itertools.islice(left, self.step.samples))
            if not samples or self.drop_last and len(samples) < self.step.samples:
                return
            used += len(samples)
            mark = Mark(used, len(samples), self.source.place())
            for batch in self.deal(samples):
                yield batch, mark


class Collate:
    """Collates the samples of a batch, and returns them with the batch's unchanged Mark."""

    def __init__(self, collate: Any) -> None:
        self._collate = collate

    def __call__(self, marked: Any) -> Any:
        samples, mark = marked
        return self._collate(samples), mark


class Stream:
    """Yields the batches of a DataLoader of StreamBatches, and records each batch's Mark in the position."""

    def __init__(self, loader: Any, position: StreamPosition) -> None:
        self.loader = loader
        self._position = position

    def __iter__(self) -> Iterator[Any]:
        for batch, mark in self.loader:
            self._position.taken = mark
            yield batch


class StreamAhead:
    """Yields the batches of a DataLoader of StreamBatches to a reader that fetches batches before it uses
    them.

    used() is called for each batch that is used.
    """

    def __init__(self, loader: Any, position: StreamPosition) -> None:
        self.loader = loader
        self._position = position
        self._marks: Deque[Mark] = collections.deque()  # of batches that were read and not used

    def __iter__(self) -> Iterator[Any]:
        self._marks.clear()
        for batch, mark in self.loader:
            self._marks.append(mark)
            yield batch

    def used(self) -> None:
        """Records the Mark of the next batch in the position."""
        self._position.taken = self._marks.popleft()


def is_stream(data: Any) -> bool:
    """Whether data is an iterable data set."""
    return isinstance(data, torch.utils.data.IterableDataset)


def _has_state(data: Any) -> bool:
    return hasattr(data, "state_dict") and hasattr(data, "load_state_dict")


def _has_stream(data: Any, *around: Any) -> bool:
    """Whether data is a stream of Hugging Face's datasets, or keeps one, whose state it may return in its own.

    Such a state lacks the samples in the buffer of shuffle(). With map() or filter(), it
    counts all samples of a table when the first one is read. These would be lost.
    """
    if any(data is one for one in around):
        return False
    if _has_state(data):
        if type(data).__module__.startswith("datasets."):
            return True
        parts = getattr(data, "__dict__", {}).values()
    else:
        parts = data.values() if isinstance(data, dict) else data if isinstance(data, (list, tuple)) else ()
    return any(_has_stream(part, data, *around) for part in itertools.islice(parts, _PARTS))


def refused(workers: int, persistent: bool) -> Optional[str]:
    """Returns why an iterable cannot be read with these settings of a DataLoader; None if it can."""
    if workers > 1:
        return "%d worker processes would each read the whole of an iterable data set: take at most one" % workers
    if persistent:
        return "persistent workers go on in an iterable data set where they were, and do not see a new group: leave them out"
    return None
