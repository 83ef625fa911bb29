# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The point at which a script for torchrun waits until it may train.

    imports, data, model           start of a process of the next group, while the current one trains
    kolo.ready()                   held here until the current processes have ended
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
    """Waits until the current group's processes have ended. For torchrun scripts whose processes Kolo replaces at each change.

    Code before this call runs while the current processes train; code after it adds
    to the pause of the change. So build the model and the data before this call, and
    load the checkpoint after it, even if init_process_group is called much later.
    Without an agent, such as with plain python, it returns at once. Scripts that use
    kolo.torch do not call it.

    Raises torch's errors if the store cannot be reached.
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
