# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends along a channel in a separate thread, in order, so that training goes on meanwhile.

The main thread never waits in gloo here. A process that has sent or received only
a part of a message waits in gloo until the timeout, even if the connection ends
(Pair::signalException, gloo/transport/tcp/pair.cc). The sender may be the only
process that holds the state, so it must not be stuck in that wait.

The sending thread may be stuck in that wait, and is then given up. It is a
daemon that no one joins, and it keeps the tensors and the gloo group that it
uses. The end of a gloo group waits for collectives, but not for point-to-point
messages.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, TypeVar

import torch

from ..group.group import GroupFailed
from ..state.tree import join, nbytes, split
from .channel import Channel

_MEASURED = 256 * 1024  # bytes; smaller messages do not show how fast a channel is
T = TypeVar("T")


class Outbox:
    """A queue of messages with a thread that sends them. An error of the thread is raised at the next call."""

    def __init__(self, channel: Channel) -> None:
        self.rate = 0.0  # bytes a second
        self._channel = channel
        self._queue: "queue.SimpleQueue[Optional[Callable[[], object]]]" = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending = 0
        self._error: Optional[BaseException] = None
        threading.Thread(target=self._run, name="kolo-send", daemon=True).start()

    def post(self, tree: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Sends a copy of tree, followed by tensors. These must not change until settle() has returned."""
        skeleton, live = split(tree)
        copies = [tensor.clone() for tensor in live]
        self._add(functools.partial(self._send, join(skeleton, copies.__getitem__), tensors),
                  any(tensor.is_cuda for tensor in (*copies, *tensors)))

    def do(self, function: Callable[[], object]) -> None:
        """Runs a function in the thread, after what is pending."""
        self._add(function, torch.cuda.is_initialized())

    def call(self, function: Callable[[], T]) -> T:
        """Runs a function in the thread, after what is pending, and returns its result."""
        results: List[T] = []
        self.do(lambda: results.append(function()))
        self.settle()
        return results[0]

    def settle(self) -> None:
        """Waits until nothing is pending. Raises the error if the thread has failed, or was given up."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending == 0 or self._error is not None)
            self._raise()

    def abandon(self) -> None:
        """Gives up what is pending, because the group has lost a member. May be called by any thread."""
        self._fail(GroupFailed("group %d has lost a member" % self._channel.generation))

    def close(self) -> None:
        """Ends the thread when nothing is pending. Does not wait for it."""
        self._queue.put(None)

    def _add(self, function: Callable[[], object], cuda: bool) -> None:
        if cuda:
            torch.cuda.current_stream().synchronize()  # the thread uses another stream
        with self._changed:
            self._raise()
            self._pending += 1
        self._queue.put(function)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _fail(self, error: BaseException) -> None:
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _run(self) -> None:
        for function in iter(self._queue.get, None):
            try:
                function()
            except BaseException as err:  # the main thread handles it
                self._fail(err)
                return
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()

    def _send(self, tree: Any, tensors: Sequence[torch.Tensor]) -> None:
        begun = time.monotonic()
        self._channel.send(tree, tensors)
        self._measure(nbytes(tensors), time.monotonic() - begun)

    def _measure(self, moved: int, seconds: float) -> None:
        if moved >= _MEASURED and seconds > 0:
            self.rate = moved / seconds if not self.rate else 0.7 * self.rate + 0.3 * moved / seconds
