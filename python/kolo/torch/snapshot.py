# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The last commit, in memory."""

from __future__ import annotations

from typing import Any, List, Mapping

import torch

from .handlers import Handler
from .tree import join, nbytes, split


class Snapshot:
    """A copy of what handlers have, on the devices on which the tensors are.

    The second and later copies go into the same memory.
    """

    def __init__(self) -> None:
        self._skeletons: Mapping[str, Any] = {}
        self._buffers: List[torch.Tensor] = []

    def take(self, handlers: Mapping[str, Handler]) -> None:
        """Copies what handlers have."""
        with torch.no_grad():
            skeletons, live = split({name: handler.tree() for name, handler in handlers.items()})
            if len(live) != len(self._buffers) or not all(map(_alike, live, self._buffers)):
                self._buffers = [tensor.clone() for tensor in live]
            else:
                _copy(self._buffers, live)
            self._skeletons = skeletons

    def load(self, handlers: Mapping[str, Handler]) -> None:
        """Sets what handlers have to what was copied."""
        for name, handler in handlers.items():
            if name in self._skeletons:
                handler.load(join(self._skeletons[name], lambda index: self._give(index, handler)))

    def nbytes(self) -> int:
        """Bytes of the tensors that are copied."""
        return nbytes(self._buffers)

    def _give(self, index: int, handler: Handler) -> torch.Tensor:
        return self._buffers[index] if handler.copies else self._buffers[index].clone()


def _alike(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether one can be copied into the other without loss."""
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device


def _copy(targets: List[torch.Tensor], sources: List[torch.Tensor]) -> None:
    with torch.no_grad():
        if targets and hasattr(torch, "_foreach_copy_"):
            torch._foreach_copy_(targets, sources, non_blocking=True)
            return
        for target, source in zip(targets, sources):
            target.copy_(source, non_blocking=True)
