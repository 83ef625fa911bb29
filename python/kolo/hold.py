# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The point at which a script for torchrun waits until it may train.

    imports, data, model           start of a process of the next group, while the current one trains
    kolo.ready()                   held here until the current processes have ended
    checkpoint, init_process_group

Without kolo.ready(), a process is held in init_process_group.
"""

from __future__ import annotations

import os

from . import imports
from .store import Store

_KEY = "kolo/ready"


def has_agent() -> bool:
    """Whether this process runs under an agent that serves a store, or under torchrun with such a store."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def ready() -> None:
    """Waits until the current group's processes have ended. For torchrun scripts whose processes Kolo replaces at each change.

    Code before this call runs while the current processes train; code after it adds
    to the pause of the change. So build the model and the data before this call, and
    load the checkpoint after it, even if init_process_group is called much later.
    Without an agent, such as with plain python, it returns at once. Scripts that use
    kolo.torch do not call it.

    Raises OSError if the store cannot be reached.
    """
    if not has_agent():
        return
    imports.repeat()
    with connect() as store:
        store.check(_KEY)


def connect() -> Store:
    """Connects to the agent's store, which answers when this process has a place in a group."""
    return Store(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
