# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends along a channel in a thread of its own, in order, so that training goes on meanwhile."""

from __future__ import annotations

import queue
import threading
import time
from typing import Any, Optional, Sequence, Tuple

import torch

from .channel import Channel
from .tree import join, nbytes, split

_MEASURED = 256 * 1024  # bytes; less does not show how fast a channel is


class Outbox:
    """What is to be sent. An error of the thread is raised at the next call."""

    def __init__(self, channel: Channel) -> None:
        self.rate = 0.0  # bytes a second
        self._channel = channel
        self._queue: "queue.SimpleQueue[Optional[Tuple[Any, Sequence[torch.Tensor]]]]" = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending = 0
        self._error: Optional[BaseException] = None
        threading.Thread(target=self._run, name="kolo-send", daemon=True).start()

    def post(self, tree: Any, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Sends a copy of tree, and then tensors, which must not change until settle() has returned."""
        skeleton, live = split(tree)
        copies = [tensor.clone() for tensor in live]
        if any(tensor.is_cuda for tensor in (*copies, *tensors)):
            torch.cuda.current_stream().synchronize()  # the thread has another stream
        with self._changed:
            self._raise()
            self._pending += 1
        self._queue.put((join(skeleton, copies.__getitem__), tensors))

    def settle(self) -> None:
        """Waits until all is sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending == 0 or self._error is not None)
            self._raise()

    def close(self) -> None:
        """Ends the thread, after what is pending."""
        self._queue.put(None)

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        for tree, tensors in iter(self._queue.get, None):
            begun = time.monotonic()
            try:
                self._channel.send(tree, tensors)
            except BaseException as err:  # what is raised here, the main thread judges
                with self._changed:
                    self._error = err
                    self._changed.notify_all()
                return
            self._measure(nbytes(tensors), time.monotonic() - begun)
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()

    def _measure(self, moved: int, seconds: float) -> None:
        if moved >= _MEASURED and seconds > 0:
            self.rate = moved / seconds if not self.rate else 0.7 * self.rate + 0.3 * moved / seconds
