# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The sending side: gives observers the state while this process trains.

    optimizer.step()  -->  gradients of the slices sent     -->  observers do the same step
    state.commit()    -->  the next slices                  -->  observers hold more
                      -->  none left, or no room: checksums -->  observers compare, and answer
    switch or leave   -->  the rest, and changed units      -->  observers hold the state

The stream follows only the optimizer's own steps. A unit that anything else has
changed is sent again at the end.

Slices and checksums are read from the live memory while the next gradients are
computed, and the step waits until they are read. Gradients are copied, because a
script may zero them at once.

In every step, observers receive the gradients of all slices that they hold. If
this makes training too slow (see pace), the rest of the state is left for the
end.

Observers could instead be silent members of the group and get the gradients from
its allreduce. But then the world size, the averages and the script's collectives
would count them. Also, the optimizer does not use the gradients that the allreduce
yields, but clipped and unscaled ones.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Set, Tuple

import torch

from ..state.core import Core
from ..state.tree import nbytes
from . import remainder
from .channel import Channel
from .outbox import Outbox
from .pace import Pace, limit
from .slices import Slice, Unit, hyperparameters, total, units

CHECKED = 4  # bytes that are compared, for each that would be sent


class Stream:
    """Sends a State along a channel."""

    def __init__(self, core: Core, channel: Channel) -> None:
        self._core = core
        self._channel = channel
        self._outbox = Outbox(channel)
        self._pace = Pace(limit())
        self._units = units(core.handlers)
        self._waiting = list(self._units.values())  # to be sent
        self._unchecked = list(self._units.values())
        self._asked = False  # the observers for the result of their comparison
        self._answers: List[List[str]] = []
        self._sent: Dict[str, int] = {}  # elements that the observers have, by unit
        self._versions: Dict[str, Any] = {}  # of the units, when the observers were last equal
        self._checked: Dict[str, Tuple[int, int]] = {}  # elements and their checksum
        self._changed: Set[str] = set()  # units that anything but their optimizer has changed
        self._gradients: Dict[str, torch.Tensor] = {}  # copies that are being sent
        self._followed = 0  # bytes of gradients since the last commit
        self._following = False
        self.at_end = 0  # bytes of the units that finish() has sent
        self.again: List[str] = []  # units that had to be sent again, because anything but a step changed them
        self._hooks: List[Any] = []
        self._names: Dict[int, str] = {}
        for unit in self._waiting:
            if unit.optimizer is not None and id(unit.optimizer) not in self._names:
                self._names[id(unit.optimizer)] = unit.name
                self._hooks.append(unit.optimizer.register_step_post_hook(self._after_step))

    @property
    def complete(self) -> bool:
        """Whether the observers have received and compared everything that is sent before the switch, so that no member waits."""
        return bool(self._answers)

    @property
    def generation(self) -> int:
        """The generation of the members' group."""
        return self._channel.generation

    def nbytes(self) -> int:
        """Returns how many bytes can be sent while training goes on."""
        return total(self._units.values())

    def advance(self) -> None:
        """Sends the next slices or checksums. Called at each commit."""
        with self._pace.waiting():
            if not self._followed:
                self._outbox.settle()  # otherwise the step has done so
        self._pace.commit()
        followed, self._followed = self._followed, 0
        if not self._following:
            self._follow()
        if self._pace.measuring:
            return
        rate = self._outbox.rate
        if self._waiting:
            self._send_slices(self._pace.room(rate, followed))
            if self._pace.exhausted:
                self._waiting = []
        else:
            self._send_checksums(self._pace.share(rate) * CHECKED)
            if not self._unchecked:
                self._ask()

    def switch(self) -> None:
        """Sends the observers the message to join the next group, in which all are members. Call finish() in that group."""
        self._ask()
        self._say("switch")

    def leave(self) -> None:
        """Sends the rest of the state to the observers, which then leave the group."""
        self._ask()
        self._say("leave")
        self.finish()

    def end(self) -> None:
        """Informs the observers that training is complete."""
        self._say("end")
        self.close()

    def _say(self, word: str) -> None:
        """Sends the last message of the stream."""
        self._outbox.post((word,))
        self._outbox.settle()
        self._detach()

    def finish(self) -> None:
        """Sends the rest of the state."""
        differing = {key for keys in self._answers for key in keys}
        self.again = sorted(differing | self._changed)
        slices: List[Slice] = []
        tensors: List[torch.Tensor] = []
        for unit in self._units.values():
            begin = self._sent[unit.key] if unit.key not in differing and self._is_equal(unit) else 0
            if begin < unit.tensor.numel():
                slice_, ranges = unit.slice(begin, unit.tensor.numel())
                slices.append(slice_)
                tensors.extend(ranges)
        self.at_end = nbytes(tensors)
        core = self._core
        rest = ([*map(tuple, slices)], remainder.take(core.handlers, self._units), core.calls, core.ledger.number, core.ledger.fresh)
        self._outbox.call(functools.partial(self._channel.send, rest, tensors))
        self.close()

    def abandon(self) -> None:
        """Ends all waits for the observers, because the group has lost a member. May be called by any thread."""
        self._outbox.abandon()

    def close(self) -> None:
        """Sends nothing more."""
        self._detach()
        self._outbox.close()

    def _detach(self) -> None:
        """Removes the hooks from the optimizers."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _follow(self) -> None:
        """Registers hooks for the gradients. They run after hooks that the script's function has registered before its first commit."""
        self._following = True
        for optimizer in {id(unit.optimizer): unit.optimizer for unit in self._units.values() if unit.optimizer}.values():
            self._hooks.append(optimizer.register_step_pre_hook(self._before_step))

    def _send_slices(self, budget: int) -> None:
        slices: List[Slice] = []
        tensors: List[torch.Tensor] = []
        while self._waiting and budget > 0:
            unit = self._waiting[0]
            if unit.key in self._changed:
                self._waiting.pop(0)
                continue
            begin, count = self._sent.get(unit.key, 0), unit.tensor.numel()
            share = max(1, budget * count // max(1, unit.nbytes())) if unit.can_be_cut() else count
            end = min(count, begin + share)
            slice_, ranges = unit.slice(begin, end)
            slices.append(slice_)
            tensors.extend(ranges)
            budget -= unit.nbytes() * (end - begin) // count
            self._sent[unit.key] = end
            if begin == 0:
                self._versions[unit.key] = unit.version()
            if end == count:
                self._waiting.pop(0)
        if slices:
            self._outbox.post(("slices", [*map(tuple, slices)]), tensors)

    def _send_checksums(self, budget: int) -> None:
        parts = []
        while self._unchecked and budget > 0:
            unit = self._unchecked.pop(0)
            if unit.key in self._sent and unit.key not in self._changed:
                if unit.optimizer is None:
                    self._versions[unit.key] = unit.version()
                parts.append((unit, self._sent[unit.key]))
                budget -= unit.nbytes()

        def send() -> None:
            sums = {unit.key: (count, unit.checksum(count)) for unit, count in parts}
            self._checked.update(sums)
            self._channel.send(("checksums", sums))

        if parts:
            self._outbox.do(send)

    def _ask(self) -> None:
        """Asks the observers which units differ, once per stream."""
        if self._asked:
            return

        def ask() -> None:
            self._channel.send(("answer",))
            self._answers = self._channel.answers()

        self._asked = True
        self._outbox.do(ask)

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """Sends the gradients, exactly as the optimizer uses them, of all slices that the observers hold."""
        with self._pace.waiting():
            self._send_gradients(optimizer, args, kwargs)

    def _send_gradients(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        mine = [self._units[key] for key in self._sent if self._units[key].optimizer is optimizer and key not in self._changed]
        if len(args) > 1 or kwargs.get("closure") is not None or getattr(optimizer, "grad_scale", None) is not None:
            self._changed.update(unit.key for unit in mine)  # the step will use other gradients
            return
        steps, tensors = [], []
        for unit in mine:
            gradient, count = unit.tensor.grad, self._sent[unit.key]
            if unit.version() != self._versions[unit.key] or gradient is not None and (
                    gradient.layout != torch.strided or gradient.dtype != unit.tensor.dtype):
                self._changed.add(unit.key)
            elif gradient is not None:
                steps.append((unit.key, count))
                tensors.append((unit.key, gradient.detach().reshape(-1)[:count]))
        if not steps:
            return
        self._outbox.settle()
        copies = [self._copy(key, gradient) for key, gradient in tensors]
        self._outbox.post(("step", self._names[id(optimizer)], hyperparameters(optimizer), steps), copies)
        self._followed += nbytes(copies)

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        for key in self._sent:
            if self._units[key].optimizer is optimizer and key not in self._changed:
                self._versions[key] = self._units[key].version()

    def _is_equal(self, unit: Unit) -> bool:
        """Whether a unit has not changed since the observers compared it."""
        if unit.key in self._changed or unit.key not in self._checked:
            return False
        if unit.version() == self._versions[unit.key]:
            return True
        # DistributedDataParallel writes buffers without changing their values.
        count, checksum = self._checked[unit.key]
        return unit.optimizer is None and unit.checksum(count) == checksum

    def _copy(self, key: str, gradient: torch.Tensor) -> torch.Tensor:
        """Copies a gradient into memory that is reused. The script may zero the gradient at once."""
        memory = self._gradients.get(key)
        if memory is None or memory.dtype != gradient.dtype:
            memory = self._gradients[key] = torch.empty(self._units[key].tensor.numel(), dtype=gradient.dtype, device=gradient.device)
        return memory[:gradient.numel()].copy_(gradient)
