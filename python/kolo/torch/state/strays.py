# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Finds optimizers and samplers that a script trains with but its State lacks. A change would lose them silently.

    optimizer.step()  --> an optimizer of the state's modules that is not part of the state
    iter(sampler)     --> a sampler of PyTorch's that is in the middle of its epoch at a commit

A commit on the last batch of an epoch is not in the middle of it, so the iterators
count the samples that they have given out. Each optimizer and sampler is reported once, at the first commit after it was used.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from typing import Any, Iterator, Set

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SequentialSampler

from ..log import log
from .core import Core
from .handlers import ZERO, ModuleHandler, SchedulerHandler, is_zero

SAMPLERS = (DistributedSampler, RandomSampler, SequentialSampler)
SAMPLER = ("a %s is in the middle of its epoch at a commit, and is not part of the state: after a change of the group its epoch begins "
           "again, so samples are used twice or left out. Use kolo.ElasticSampler(data), and give it to State(sampler=...)")
OPTIMIZER = ("an optimizer (%s) trains modules of the state and is not part of it: what it keeps of earlier steps is lost when the group changes. "
             "Make it before the function, and give it to State(optimizer=...)")


class Strays:
    """Optimizers and samplers that the process has used, and which of them were reported."""

    def __init__(self) -> None:
        self._stepped: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()  # for the first time, since the last commit
        self._known: "weakref.WeakSet[torch.optim.Optimizer]" = weakref.WeakSet()  # before it
        self._walks: "weakref.WeakKeyDictionary[Any, _Walk]" = weakref.WeakKeyDictionary()  # by their iterators
        self._dropped: "weakref.WeakKeyDictionary[Any, int]" = weakref.WeakKeyDictionary()  # samples that drop_last may leave out, by sampler
        self._said: Set[str] = set()

    def watch(self) -> None:
        """Registers hooks for steps and iterators, until the process ends."""
        register_optimizer_step_post_hook(self._step)
        for kind in SAMPLERS:
            self._watch_iterators(kind)
        self._watch_batches()

    def report(self, core: Core) -> None:
        """Reports optimizers and samplers used since the last commit that the state lacks."""
        for reference in self._walks.keyrefs():  # a list, since other threads may begin iterators
            iterator = reference()
            if iterator is None or inspect.getgeneratorstate(iterator) != inspect.GEN_SUSPENDED:
                continue
            walk = self._walks[iterator]
            sampler = walk.sampler
            if len(sampler) - walk.given <= self._dropped.get(sampler, 0):
                continue
            if not getattr(sampler, "replacement", False) and not _is_part(sampler, core):
                self._say(SAMPLER % type(sampler).__name__)
        stepped = list(self._stepped)
        self._stepped.clear()
        inner = {id(getattr(optimizer, "optim", None)) for optimizer in stepped if is_zero(optimizer)}
        for optimizer in stepped:
            self._known.add(optimizer)
            if id(optimizer) not in inner and _is_stray(optimizer, core):
                self._say(ZERO if is_zero(optimizer) else OPTIMIZER % type(optimizer).__name__)

    def _watch_iterators(self, kind: Any) -> None:
        """Registers a hook for the iterators of a sampler class."""
        begin = kind.__iter__

        @functools.wraps(begin)
        def watched(sampler: Any) -> Iterator[Any]:
            walk = _Walk(sampler)
            iterator = walk.over(begin(sampler))
            if type(sampler).__hash__ is not None:  # that of a dataclass is None
                self._walks[iterator] = walk
            return iterator

        kind.__iter__ = watched

    def _watch_batches(self) -> None:
        """Registers a hook for the iterators of BatchSampler, which may leave out the last samples of an epoch."""
        begin = BatchSampler.__iter__

        @functools.wraps(begin)
        def watched(batches: Any) -> Iterator[Any]:
            if isinstance(batches.sampler, SAMPLERS) and type(batches.sampler).__hash__ is not None:
                self._dropped[batches.sampler] = batches.batch_size - 1 if batches.drop_last else 0
            return begin(batches)

        BatchSampler.__iter__ = watched  # type: ignore[method-assign]

    def _step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if optimizer not in self._known:
            self._stepped.add(optimizer)

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log("%s", text)


class _Walk:
    """Counts the samples that an iterator of a sampler gives out."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.given = 0

    def over(self, items: Iterator[Any]) -> Iterator[Any]:
        """Wraps the iterator in a generator, to which weak references are possible."""
        for item in items:
            self.given += 1
            yield item


def _is_stray(optimizer: torch.optim.Optimizer, core: Core) -> bool:
    """Whether an optimizer keeps something of its steps, and the state contains no optimizer of the same parameters."""
    kept = [value for values in optimizer.state.values() for value in (values.values() if isinstance(values, dict) else [values])]
    if all(value is None for value in kept) and not is_zero(optimizer):
        return False
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    modules = core.values(ModuleHandler)
    if not any(id(parameter) in own for module in modules for parameter in module.parameters()):
        return False
    groups = (group for handler in core.handlers.values() for group in getattr(handler.value, "param_groups", ()))
    if any(id(parameter) in own for group in groups for parameter in group["params"]):
        return False
    return not _is_part(optimizer, core)


def _is_part(one: Any, core: Core) -> bool:
    """Whether an object is a value of the state, or a value of the script's own has it, maybe in a list or dict.

    The state of a scheduler does not include its optimizer.
    """
    for handler in core.handlers.values():
        if handler.value is one:
            return True
        if isinstance(handler, SchedulerHandler):
            continue
        for part in list(getattr(handler.value, "__dict__", {}).values()):
            parts = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
            if part is one or any(inner is one for inner in list(parts)):
                return True
    return False
