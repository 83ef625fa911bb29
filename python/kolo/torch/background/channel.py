# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A chain of processes, along which the first process sends to all others.

    member --> observer --> observer

Each process passes the data on, piece by piece. So several receivers cost the
sender no more than a single receiver.
"""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, Iterator, List, Sequence

import torch

from ..group.group import GroupFailed, PendingGroup
from ..state import transfer

PIECE = 4 * 1024 * 1024
_LONG = timedelta(days=30)  # the sender may do other things between two messages, such as evaluate its model
_TAG = 1


class Channel:
    """This process's link in the chain of a pending group."""

    def __init__(self, pending: PendingGroup) -> None:
        self._path = pending.roles.members[:1] + pending.roles.observers
        self._position = self._path.index(pending.place.rank)
        self._control = pending.control
        self.generation = pending.place.generation
        self._timeout = pending.timeout
        self.moved = 0  # bytes

    def send(self, tree: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Sends a tree of values along the chain, followed by tensors that the others receive in place."""
        transfer.send(tree, self._move, PIECE)
        transfer.exchange(list(tensors), self._move, False, PIECE)

    def receive(self) -> Any:
        """Waits, without limit, for the next tree from the first process, and returns it."""
        return transfer.receive(self._move, PIECE)

    def fill(self, tensors: Sequence[torch.Tensor]) -> None:
        """Receives, in place, the tensors that follow a tree."""
        transfer.exchange(list(tensors), self._move, True, PIECE)

    def answer(self, tree: Any) -> None:
        """Sends a tree to the first process only."""
        transfer.send(tree, lambda tensor: self._wait([self._send(tensor, self._path[0])], self._timeout))

    def answers(self) -> List[Any]:
        """Waits for the answers of all other processes, and returns them."""
        return [transfer.receive(lambda tensor: self._wait([self._receive(tensor, rank)], self._timeout))
                for rank in self._path[1:]]

    def _move(self, tensor: torch.Tensor) -> None:
        """Receives a tensor unless this process is the first, and passes it on unless it is the last."""
        data = tensor
        if tensor.device.type != "cpu":
            data = torch.empty_like(tensor, device="cpu") if self._position else tensor.cpu()
        sends = []
        for piece in data.split(PIECE // data.element_size()):
            if self._position > 0:
                self._wait([self._receive(piece, self._path[self._position - 1])], _LONG)
            if self._position + 1 < len(self._path):
                sends.append(self._send(piece, self._path[self._position + 1]))
        self._wait(sends, self._timeout)  # a receiver that hangs must not stop training forever
        self.moved += data.numel() * data.element_size()
        if data is not tensor and self._position > 0:
            tensor.copy_(data)

    def _send(self, tensor: torch.Tensor, rank: int) -> Any:
        with self._failing():
            return self._control.send([tensor], rank, _TAG)

    def _receive(self, tensor: torch.Tensor, rank: int) -> Any:
        with self._failing():
            return self._control.recv([tensor], rank, _TAG)

    def _wait(self, works: List[Any], timeout: timedelta) -> None:
        with self._failing():
            for work in works:
                work.wait(timeout)

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        """Turns errors of the backend into GroupFailed."""
        try:
            yield
        except RuntimeError as err:
            raise GroupFailed("group %d has lost a member: %s" % (self.generation, err)) from err
