# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Exchanges messages between the processes of a gloo group, all pairs at the same time.

Both processes of a pair know their messages and the order of these. Only a few
messages are under way at once. So the memory that they need is bounded, and a
slow process delays the others as little as possible.

A separate thread exchanges the messages. If a peer dies in the middle of a message,
gloo lets that thread wait until the timeout. The thread is then given up, and the
process goes on without it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, Callable, Deque, Dict, List, NamedTuple, Optional, Tuple

import torch

PENDING = 32  # messages of a pair and a direction that are on their way
_POLL = 0.05  # seconds after which a waiting process looks whether the group has failed

Message = List[torch.Tensor]  # bytes, in order, on any device
Messages = Dict[int, List[Message]]  # by rank of the other process


class _Posted(NamedTuple):
    work: Any
    flat: torch.Tensor  # what gloo sends or fills
    message: Message
    receiving: bool
    peer: int
    number: int


class Exchange(threading.Thread):
    """Sends and receives messages in a thread; see wait()."""

    def __init__(self, control: Any, sending: Messages, receiving: Messages, tag: int = 0) -> None:
        super().__init__(name="kolo-exchange", daemon=True)
        self._control, self._tag = control, tag
        self._messages = {False: sending, True: receiving}
        self._error: Optional[BaseException] = None
        self._count = 0  # messages that have come or gone
        self.start()

    def run(self) -> None:
        try:
            with torch.no_grad():
                self._exchange()
        except Exception as err:
            self._error = err

    def wait(self, failed: Callable[[], bool], idle: Optional[float] = None) -> None:
        """Waits until all messages have been sent or received.

        Raises RuntimeError if one cannot be, if failed() returns true, or if no
        message moves for idle seconds.
        """
        count, since = self._count, time.monotonic()
        while self.is_alive() and not failed() and (idle is None or time.monotonic() - since < idle):
            self.join(_POLL)
            if self._count != count:
                count, since = self._count, time.monotonic()
        if self._error is not None:
            raise RuntimeError("the exchange of shares has failed: %s" % self._error) from self._error
        if self.is_alive():
            raise RuntimeError("the exchange of shares was given up: a process is lost, or does not answer")

    def _exchange(self) -> None:
        posted: Deque[_Posted] = deque()
        # In order of their numbers: with the next ones added at the end, none waits for another that waits for it.
        for number in range(PENDING):
            for receiving, peer in self._pairs():
                self._post(posted, receiving, peer, number)
        while posted:
            first = posted.popleft()
            first.work.wait()
            if first.receiving and first.flat is not first.message[0]:
                for part, received in zip(first.message, first.flat.split([part.numel() for part in first.message])):
                    part.copy_(received)
            self._count += 1
            self._post(posted, first.receiving, first.peer, first.number + PENDING)

    def _pairs(self) -> List[Tuple[bool, int]]:
        return [(receiving, peer) for receiving in (True, False) for peer in self._messages[receiving]]

    def _post(self, posted: Deque[_Posted], receiving: bool, peer: int, number: int) -> None:
        messages = self._messages[receiving][peer]
        if number >= len(messages):
            return
        message, tag = messages[number], self._tag + number
        whole = len(message) == 1 and message[0].device.type == "cpu"
        if receiving:
            flat = message[0] if whole else torch.empty(sum(part.numel() for part in message), dtype=torch.uint8)
            work = self._control.recv([flat], peer, tag)
        else:
            flat = message[0] if whole else torch.cat([part.cpu() for part in message])
            work = self._control.send([flat], peer, tag)
        posted.append(_Posted(work, flat, message, receiving, peer, number))
