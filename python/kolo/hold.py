# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Where a script for torchrun waits until it may train.

    imports, data, model           start of a process of the next group, while the present one trains
    kolo.ready()                   held here until the present processes have ended
    checkpoint, init_process_group

Without kolo.ready(), a process is held in init_process_group.
"""

from __future__ import annotations

import importlib
import os
from datetime import timedelta

# What PyTorch imports late: some seconds of work.
_LATE = ("torch._dynamo", "torch.optim")

_KEY = "kolo/ready"


def warm_up() -> None:
    """Imports what PyTorch would import after the group has formed."""
    for name in _LATE:
        try:
            importlib.import_module(name)
        except Exception:  # the script fails by itself, or does without
            pass


def ready() -> None:
    """Waits until the processes that train have ended, in a script for torchrun whose processes Kolo replaces at each change.

    Everything above it happens while these processes train, and what comes after
    it belongs to the pause of the change. So build the model and the data before,
    and load the checkpoint after it, however late the script or its framework calls
    init_process_group. Where no agent has the store, as with plain python, it
    returns at once. A script that uses kolo.torch does not call it.

    Raises torch's errors where the store cannot be reached.
    """
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    warm_up()
    dist = importlib.import_module("torch.distributed")
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    arguments = {"is_master": False, "wait_for_workers": False, "timeout": timedelta(minutes=5)}
    try:
        store = dist.TCPStore(*address, use_libuv=False, **arguments)
    except TypeError:  # a PyTorch that knows no libuv
        store = dist.TCPStore(*address, **arguments)
    store.check([_KEY])  # the agent answers when the process has a place
