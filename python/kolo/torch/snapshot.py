# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The last commit, in memory."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Collection, List, Mapping, Optional, Tuple

import torch

from .handlers import Handler
from .tree import join, nbytes, split


class Snapshot:
    """A copy of what handlers have, on the devices on which the tensors are.

    The second and later copies go into the same memory.

    Tensors that only an optimizer's step changes may be copied later: by a
    thread, while the next forward and backward passes read them. wait() has to
    be called before that step.
    """

    def __init__(self) -> None:
        self._skeletons: Mapping[str, Any] = {}
        self._buffers: List[torch.Tensor] = []
        self._copying: Optional["Future[None]"] = None
        self._versions: List[Tuple[torch.Tensor, int]] = []
        self._thread: Optional[ThreadPoolExecutor] = None

    def take(self, handlers: Mapping[str, Handler], later: Collection[int] = ()) -> None:
        """Copies what handlers have; later has the addresses of tensors that may be copied until wait()."""
        self.wait()
        with torch.no_grad():
            skeletons, live = split({name: handler.tree() for name, handler in handlers.items()})
            if len(live) != len(self._buffers) or not all(map(_alike, live, self._buffers)):
                self._buffers = [tensor.clone() for tensor in live]
            elif not later:
                _copy(self._buffers, live)
            else:
                self._copy_later(live, later)
            self._skeletons = skeletons

    def wait(self) -> None:
        """Waits until all is copied."""
        if self._copying is None:
            return
        copying, self._copying = self._copying, None
        copying.result()
        if any(tensor._version != version for tensor, version in self._versions):
            raise RuntimeError("a parameter or optimizer state has changed outside of the optimizer's step while "
                               "commit(lazy=True) copied it: commit without lazy=True")
        self._versions = []

    def load(self, handlers: Mapping[str, Handler]) -> None:
        """Sets what handlers have to what was copied."""
        self.wait()
        for name, handler in handlers.items():
            if name in self._skeletons:
                handler.load(join(self._skeletons[name], lambda index: self._give(index, handler)))

    def nbytes(self) -> int:
        """Bytes of the tensors that are copied."""
        return nbytes(self._buffers)

    def _give(self, index: int, handler: Handler) -> torch.Tensor:
        return self._buffers[index] if handler.copies else self._buffers[index].clone()

    def _copy_later(self, live: List[torch.Tensor], later: Collection[int]) -> None:
        now, then = [], []
        for pair in zip(self._buffers, live):
            (then if pair[1].data_ptr() in later else now).append(pair)
        _copy([buffer for buffer, _ in now], [tensor for _, tensor in now])
        self._versions = [(tensor, tensor._version) for _, tensor in then]
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kolo-commit")
        self._copying = self._thread.submit(
            _copy, [buffer for buffer, _ in then], [tensor for _, tensor in then])


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
