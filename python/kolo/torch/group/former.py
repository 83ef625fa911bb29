# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The connections of a group that was left as planned.

Leavers are processes of the group that are not in the next one. They use these
connections to hand over their data to processes that stay.

    members ---------+-- next place --> next group: first one says how it is made up --+
                     |                                                                 v
    leavers ---------+-- no next place --> wait ------------------------> send, wait for receipts, end
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch

from .exchange import Exchange, Messages
from .leaving import let_go

_TOLD, _RECEIPT, _CONTENT = 1, 2, 3  # tags; those from the last one on are of messages
PATIENCE = timedelta(seconds=120)  # that a leaver has for the others, unless its agent ends it before
_LONGEST = 2 ** 20  # members


class Former:
    """The connections that a process keeps of a group that it has left."""

    def __init__(self, generation: int, rank: int, size: int, control: Any) -> None:
        self.generation, self.rank, self.size = generation, rank, size
        self._control = control
        self._sent: List[Any] = []  # to leavers, which may not have it yet

    def tell(self, leavers: Sequence[int], places: Sequence[int]) -> None:
        """Informs leavers of the members of the next group: for each, the rank that it had in this group.

        With no ranks, nothing is asked of the leavers.
        """
        numbers = [[len(places)], list(places)] if places else [[0]]
        self._send(leavers, [torch.tensor(values, dtype=torch.int64) for values in numbers], _TOLD)

    def told(self) -> Optional[List[int]]:
        """For a leaver: returns what tell() has sent; None if nothing is asked of this process."""
        length = torch.zeros(1, dtype=torch.int64)
        try:
            self._control.recv_anysource([length], _TOLD).wait(PATIENCE)
            if not 0 < int(length) <= _LONGEST:
                return None
            places = torch.zeros(int(length), dtype=torch.int64)
            self._control.recv_anysource([places], _TOLD).wait(PATIENCE)
        except RuntimeError:
            return None  # the others have gone on without this process
        return [int(place) for place in places]

    def exchange(self, sending: Messages, receiving: Messages) -> Exchange:
        """Begins to exchange messages with members of this group."""
        return Exchange(self._control, sending, receiving, _CONTENT)

    def confirm(self, leavers: Sequence[int]) -> None:
        """Informs leavers that what they have sent has arrived."""
        self._send(leavers, [torch.zeros(1, dtype=torch.uint8)], _RECEIPT)

    def confirmed(self, ranks: Sequence[int]) -> None:
        """For a leaver: waits for receipts, so that it does not end before everything has arrived.

        It ignores a receipt that does not come.
        """
        for rank in ranks:
            try:
                self._control.recv([torch.zeros(1, dtype=torch.uint8)], rank, _RECEIPT).wait(PATIENCE)
            except RuntimeError:
                pass

    def close(self) -> None:
        """Closes the connections. A separate thread waits until they are closed."""
        if self._control is not None:
            held = [self._control, *self._sent]
            self._control, self._sent = None, []
            let_go(held, daemon=True)

    def _send(self, ranks: Sequence[int], tensors: Sequence[torch.Tensor], tag: int) -> None:
        """Sends tensors without waiting until they have arrived."""
        for rank in ranks:
            try:
                self._sent += [(self._control.send([tensor], rank, tag), tensor) for tensor in tensors]
            except RuntimeError:
                pass  # it has died; who waits for it notices
