# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lets `kolo stacks` see where this process is.

    kolo stacks --> signal --> faulthandler writes the stacks of all threads into KOLO_STACKS_FILE

Faulthandler needs neither the GIL nor the main thread's cooperation, so a process answers
even in an endless loop of native code. Child processes that were forked, such as the
workers of a data loader, answer into the same file.
"""

from __future__ import annotations

import faulthandler
import os

FILE = "KOLO_STACKS_FILE"

# SIGRTMAX-2. The agent's package inspect has the same number.
SIGNAL = 62


def register() -> None:
    """Registers a handler that writes this process's stacks. Does nothing without an agent, and ignores errors."""
    path = os.environ.get(FILE)
    if not path or not hasattr(faulthandler, "register"):
        return
    try:
        file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        faulthandler.register(SIGNAL, file=file, all_threads=True)  # file stays open as long as the process
    except (OSError, RuntimeError, ValueError):
        pass
