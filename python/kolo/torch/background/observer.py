# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The receiving side: receives the state of a group that trains, and keeps the received part up to date.

Meanwhile the script's function does not run. Only its optimizers do: they step
with the gradients of a member.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Tuple

import torch

from .. import compat
from ..state.core import Core
from ..state.values import Malformed
from . import remainder
from .channel import Channel
from .slices import Slice, Unit, set_hyperparameters, units


class Observer:
    """Receives a State from a channel. The state is complete after finish()."""

    def __init__(self, core: Core, channel: Channel) -> None:
        self._core = core
        self._channel = channel
        self._units = units(core.handlers)
        self._gradients: Dict[str, torch.Tensor] = {}  # memory that is used again for each step
        self._differing: List[str] = []
        # All wait for the first commit of this process, so its memory is prepared. A separate thread does it, to not delay the sender.
        self._reserving = ThreadPoolExecutor(1, "kolo-reserve")

    def follow(self) -> str:
        """Follows the stream to its end, and returns the last message: switch, leave or end."""
        try:
            return self._follow()
        finally:
            self._reserving.shutdown(cancel_futures=True)

    def _follow(self) -> str:
        while True:
            kind, *values = self._channel.receive()
            if kind == "slices":
                self._take(*values)
                if any(Slice._make(slice_).begin == 0 for slice_ in values[0]):
                    self._reserving.submit(self._core.snapshot.reserve, self._core.tensors())
            elif kind == "step":
                self._step(*values)
            elif kind == "checksums":
                self._compare(*values)
            elif kind == "answer":
                self._channel.answer(self._differing)
            elif kind in ("switch", "leave", "end"):
                self._gradients.clear()
                self._reserving.shutdown()
                return str(kind)
            else:
                raise Malformed("observers know no message %.80r" % (kind,))

    def finish(self) -> Tuple[int, bool]:
        """Receives the rest of the state. Returns the number of the last commit, and whether the state has not changed since."""
        slices, tree, calls, commits, fresh = self._channel.receive()
        self._take(slices)
        remainder.put(self._core.handlers, tree)
        self._core.follow(calls)
        return commits, fresh

    def _take(self, slices: List[Tuple[Any, ...]]) -> None:
        with torch.no_grad():
            self._channel.fill([tensor for slice_ in map(Slice._make, slices) for tensor in self._unit(slice_.key).put(slice_)])

    def _step(self, name: str, groups: List[Dict[str, Any]], steps: List[Tuple[str, int]]) -> None:
        """Does a step of an optimizer. Elements not received yet get zero gradients; receiving them overwrites the result."""
        optimizer = self._core.handlers[name].value
        set_hyperparameters(optimizer, groups)
        parts = []
        for key, count in steps:
            parameter = self._unit(key).tensor
            gradient = self._gradients.setdefault(key, torch.empty(0))
            if not gradient.numel():
                gradient = self._gradients[key] = torch.zeros_like(parameter, requires_grad=False)
            parts.append(gradient.view(-1)[:count] if gradient.is_contiguous() else gradient)
            parameter.grad = gradient
        self._channel.fill(parts)
        with compat.without_pre_hooks(optimizer):  # the script's hooks have run on the sender
            type(optimizer).step(optimizer)
        for key, _ in steps:
            self._unit(key).tensor.grad = None

    def _compare(self, sums: Dict[str, Tuple[int, int]]) -> None:
        self._differing += [key for key, (count, value) in sums.items() if self._unit(key).checksum(count) != value]

    def _unit(self, key: str) -> Unit:
        if key not in self._units:
            raise ValueError("the group sends %s, which the state of this process does not have" % key)
        return self._units[key]
