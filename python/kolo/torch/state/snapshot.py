# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Keeps the last commit in memory.

    take()              forward, backward             optimizer.step()
      | copies small and other tensors                       |
      +------ a thread copies what only steps change ----> settle() --> values change

Only an optimizer's step changes its parameters and its state. A thread can copy
them after the commit, and a hook before the next step waits for it. All other
tensors are copied in take().

A script may also change such tensors by hand. The first commits are therefore
copied completely in take(); tensors that differ before the next step are found to
be changed by hand, and are copied in take() from then on. If the script changes a
tensor by hand for the first time later, the tensor's version shows it, and that
commit is not used.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from .. import compat
from ..context import context
from .handlers import Handler, ModuleHandler, OptimizerHandler
from .reserve import Reserve
from .tree import join, nbytes, split

LARGE = 16 * 1024  # least bytes of a tensor that the thread copies
WORTHWHILE = 1024 * 1024  # bytes in all; with fewer, a thread is not faster
OBSERVED = 2  # commits that are copied at once, to find tensors that are changed by hand


class NotWhole(RuntimeError):
    """The last commit cannot be restored, because values were changed while it copied them."""


class Snapshot:
    """A copy of the handlers' values, on the same devices.

    The second and later copies reuse the memory of the first.
    """

    def __init__(self) -> None:
        self.whole = True  # the copy is of one commit, as far as settle() has found out
        self._parts: Dict[str, Tuple[Any, int]] = {}  # by name of the value: a tree with holes, the number of its first tensor
        self._buffers: List[torch.Tensor] = []
        self.spare = Reserve()  # memory for a later commit that needs more
        self._addresses: Optional[List[int]] = None  # of the tensors, when _stepped was determined
        self._stepped: List[int] = []  # numbers of the tensors that only a step changes
        self._by_hand: Set[int] = set()  # of these, the ones that the script has changed by hand
        self._observed = 0
        self._watched: List[Tuple[int, torch.Tensor, int]] = []  # number, tensor, its version at the commit
        self._copying: Optional["Future[None]"] = None

    @property
    def known(self) -> Tuple[int, List[int]]:
        """How many commits were observed, and which tensors the script then changed by hand. The same is true of other processes."""
        return self._observed, sorted(self._by_hand)

    def learn(self, known: Tuple[int, List[int]]) -> None:
        """Takes over what another process knows, before the first commit of a part that it has sent."""
        self._observed, self._by_hand = known[0], set(known[1])

    def reserve(self, live: Iterable[torch.Tensor]) -> None:
        """Allocates memory for a commit of these tensors. May be called by another thread than take()."""
        with torch.no_grad():
            self.spare.fill(live, self._buffers)

    def take(self, handlers: Mapping[str, Handler]) -> None:
        """Copies the handlers' values. The tensors that a thread copies are complete after settle()."""
        self.settle(used=False)
        parts: Dict[str, Tuple[Any, int]] = {}
        live: List[torch.Tensor] = []
        with torch.no_grad():
            for name, handler in handlers.items():
                skeleton, tensors = split(handler.tree(), "state." + name)
                parts[name] = skeleton, len(live)
                live += tensors
            self.whole = False
            unused = self._prepare(handlers, parts, live)
            later = self._later(live)
            chosen = set(later)
            _copy(self._buffers, live, [number for number in range(len(live)) if number not in chosen])
            self._parts = parts
            self._watched = [(number, live[number], compat.version(live[number])) for number in self._stepped]
            if self._watched:
                _watch(self)
            if later:
                self._copying = _thread().submit(_complete, self._buffers, live, later, unused)
            self.whole = True

    def settle(self, used: bool = True) -> None:
        """Completes the copy. Called before an optimizer's step, and before the copy is used."""
        if self._copying is not None and self._copying.exception() is not None:
            self.whole = False
        if self._watched:
            changed = {number for number, tensor, version in self._watched if compat.version(tensor) != version}
            if self._copying is not None and not changed <= self._by_hand:
                self.whole = False
            if self._observed < OBSERVED:  # changes through .data have no version
                changed |= {number for number, tensor, _ in self._watched if not torch.equal(tensor, self._buffers[number])}
            self._by_hand |= changed
            self._observed += used  # saving twice without training between shows nothing
        self._copying, self._watched = None, []

    def load(self, handlers: Mapping[str, Handler]) -> None:
        """Sets the handlers' values from the copy. Raises NotWhole if values changed while the copy was made."""
        self._check()
        for name, handler in handlers.items():
            if name in self._parts:
                skeleton, first = self._parts[name]
                handler.load(join(skeleton, lambda number: self._give(first + number, handler)))

    def tree(self) -> Dict[str, Any]:
        """Returns the copied values by name. Their tensors are the snapshot's own."""
        self._check()
        return {name: join(skeleton, lambda number: self._buffers[first + number])
                for name, (skeleton, first) in self._parts.items()}

    def forked(self) -> None:
        """Gives up the thread's copy in a forked process, in which the thread does not exist."""
        if self._copying is not None:
            self._copying, self._watched, self.whole = None, [], False

    def nbytes(self) -> int:
        """Returns the bytes of the copied tensors."""
        return nbytes(self._buffers)

    def _check(self) -> None:
        self.settle()
        if not self.whole:
            raise NotWhole("the last commit cannot be restored: a parameter or an optimizer's state was changed outside "
                           "of the optimizer's step while it was copied")

    def _give(self, number: int, handler: Handler) -> torch.Tensor:
        return self._buffers[number] if handler.copies else self._buffers[number].clone()

    def _prepare(self, handlers: Mapping[str, Handler], parts: Mapping[str, Tuple[Any, int]], live: List[torch.Tensor]) -> List[torch.Tensor]:
        """Allocates memory for tensors, and finds tensors that only a step changes, unless the tensors are the same as before.

        Returns memory that is no longer needed.
        """
        if len(live) != len(self._buffers) or not all(map(_alike, live, self._buffers)):
            divided = any(handler.shares for handler in handlers.values())
            if self._buffers and not (divided and [tensor.dtype for tensor in live] == [tensor.dtype for tensor in self._buffers]):
                self.learn((0, []))  # otherwise they are the same values, of which this process now has another part
            self.spare.add(self._buffers)  # their content is no longer needed
            self._buffers = [self._memory(tensor) for tensor in live]
            self._addresses = None
        unused = self.spare.tensors()
        self.spare.clear()
        addresses = [tensor.data_ptr() if type(tensor) is torch.Tensor else 0 for tensor in live]
        if addresses == self._addresses:
            return unused
        self._addresses = addresses
        owned = {_place(tensor) for handler in handlers.values()
                 for tensor in (handler.parameters() if isinstance(handler, OptimizerHandler) else handler.stepped())}
        ends = [first for _, first in parts.values()][1:] + [len(live)]
        self._stepped = [
            number for (name, (_, first)), end in zip(parts.items(), ends) for number in range(first, end)
            if isinstance(handlers[name], OptimizerHandler) and _deferrable(live[number])
            or (isinstance(handlers[name], ModuleHandler) or handlers[name].shares) and _deferrable(live[number])
            and _place(live[number]) in owned]
        return unused

    def _memory(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns memory into which a tensor can be copied."""
        plain = type(tensor) is torch.Tensor
        spare = self.spare.take(tensor.shape, tensor.dtype, tensor.device) if plain else None
        return torch.empty_like(tensor) if spare is None else spare

    def _later(self, live: List[torch.Tensor]) -> List[int]:
        """Returns which tensors the thread copies, by their numbers."""
        if self._observed < OBSERVED:
            return []
        later = [number for number in self._stepped if number not in self._by_hand]
        return later if nbytes(live[number] for number in later) >= WORTHWHILE else []


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors have the same shape, type and device."""
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device


def _deferrable(tensor: torch.Tensor) -> bool:
    """Whether the thread may copy a tensor. It does not copy GPU tensors, because their copies are asynchronous anyway."""
    return (type(tensor) is torch.Tensor and tensor.device.type == "cpu" and not tensor.is_inference()
            and nbytes([tensor]) >= LARGE)


def _place(tensor: torch.Tensor) -> Tuple[int, int]:
    """Returns the address and the size in bytes of a tensor."""
    return (tensor.data_ptr() if type(tensor) in (torch.Tensor, torch.nn.Parameter) else 0), nbytes([tensor])


def _copy(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], numbers: Sequence[int]) -> None:
    with torch.no_grad():
        compat.copy_all([targets[number] for number in numbers], [sources[number] for number in numbers])


def _complete(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor], numbers: Sequence[int], unused: List[torch.Tensor]) -> None:
    """Copies tensors in the thread. Before that, it frees memory, which takes the kernel a while."""
    while unused:
        unused.pop()
    _copy(targets, sources, numbers)


def _watch(snapshot: Snapshot) -> None:
    """Settles a snapshot before each step of any optimizer, even one that is not part of the state."""
    if context.commits.hook is None:
        context.commits.hook = register_optimizer_step_pre_hook(_settle)
    context.commits.watched.add(snapshot)


def _settle(*_: Any) -> None:
    for snapshot in list(context.commits.watched):
        snapshot.settle()


def _thread() -> ThreadPoolExecutor:
    """The thread that completes commits."""
    if context.commits.thread is None:
        os.register_at_fork(after_in_child=_forked)
        context.commits.thread = ThreadPoolExecutor(1, "kolo-commit")
    return context.commits.thread


def _forked() -> None:
    context.commits.thread = None
    for snapshot in list(context.commits.watched):
        snapshot.forked()
