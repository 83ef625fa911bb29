# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Closes connections of gloo without waiting for it, which takes tens of milliseconds."""

from __future__ import annotations

import threading
import time
from typing import Any, List

_NAME = "kolo-leave"


def let_go(backends: List[Any], daemon: bool) -> None:
    """Drops the last references to backends in a separate thread. With daemon, the process may end before the thread does."""
    threading.Thread(target=drop, args=(backends,), name=_NAME, daemon=daemon).start()


def drop(backends: List[Any]) -> None:
    """Drops the last references to the backends of a group.

    First it gives gloo's threads time to free the tensors of completed collectives,
    for which they need the interpreter's lock. The end of a group waits for these
    threads. Some releases of torch hold the lock meanwhile, which is a deadlock if
    the tensors are not freed yet.
    """
    for _ in range(3):
        time.sleep(0.001)
    backends.clear()


def finish_leaving(timeout: float) -> None:
    """Waits until the connections of former groups are closed, at most timeout seconds for each group."""
    for thread in threading.enumerate():
        if thread.name == _NAME:
            thread.join(timeout)
