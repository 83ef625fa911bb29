# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Allocates memory before it is needed.

The kernel allocates a page when it is first written, which can take several times
as long as copying a page. So a process writes to the memory while no group waits
for it.
"""

from __future__ import annotations

import collections
from typing import DefaultDict, Iterable, List, Optional, Tuple

import torch

from .tree import nbytes

LARGE = 16 * 1024  # least bytes of a tensor to reserve; the allocator has smaller blocks at hand
_Kind = Tuple[torch.Size, torch.dtype, torch.device]


class Reserve:
    """Unused tensors by shape, dtype and device."""

    def __init__(self, tensors: Iterable[torch.Tensor] = ()) -> None:
        self._free: DefaultDict[_Kind, List[torch.Tensor]] = collections.defaultdict(list)
        self.add(tensors)

    def add(self, tensors: Iterable[torch.Tensor]) -> None:
        """Takes tensors that no one else uses."""
        for tensor in tensors:
            if type(tensor) is torch.Tensor:
                self._free[_kind(tensor)].append(tensor)

    def take(self, shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Optional[torch.Tensor]:
        """Returns a tensor with arbitrary content, which the caller then owns; None without one of this shape, dtype and device."""
        free = self._free.get((shape, dtype, device))
        return free.pop() if free else None

    def fill(self, tensors: Iterable[torch.Tensor], used: Iterable[torch.Tensor]) -> None:
        """Adds tensors, so that each of the given tensors has a counterpart of its shape, dtype and device, here or in used."""
        have = collections.Counter(_kind(tensor) for tensor in used)
        have.update({kind: len(free) for kind, free in self._free.items()})
        for tensor in filter(_worthwhile, tensors):
            kind = _kind(tensor)
            have[kind] -= 1
            if have[kind] < 0:
                self._free[kind].append(torch.empty_like(tensor, requires_grad=False).zero_())

    def tensors(self) -> List[torch.Tensor]:
        """Returns all unused tensors."""
        return [tensor for free in self._free.values() for tensor in free]

    def clear(self) -> None:
        """Drops all unused tensors."""
        self._free.clear()


def _kind(tensor: torch.Tensor) -> _Kind:
    return tensor.shape, tensor.dtype, tensor.device


def _worthwhile(tensor: torch.Tensor) -> bool:
    return (type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.device.type == "cpu"
            and tensor.layout == torch.strided and nbytes([tensor]) >= LARGE)
