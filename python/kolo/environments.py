# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Support for TensorFlow and JAX. Their processes learn only once, at the start, which other processes there are.

    import the framework --> wait for a group --> exchange addresses in the store --> set variables --> run the script

Each group therefore has new processes, which go on from the last checkpoint, as in
scripts for torchrun.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
from typing import Callable, Dict, List

from . import addresses, hold

KEY = "kolo/address/%s/%d"


def tensorflow(every: List[str], rank: int) -> Dict[str, str]:
    """Returns TF_CONFIG, by which MultiWorkerMirroredStrategy finds the other processes."""
    return {"TF_CONFIG": json.dumps({"cluster": {"worker": every}, "task": {"type": "worker", "index": rank}})}


def jax(every: List[str], rank: int) -> Dict[str, str]:
    """Returns the variable from which jax.distributed.initialize reads the address of process 0.

    Its other two arguments are WORLD_SIZE and RANK, which are already in the
    environment.
    """
    return {"JAX_COORDINATOR_ADDRESS": every[0]}


KINDS: Dict[str, Callable[[List[str], int], Dict[str, str]]] = {"tensorflow": tensorflow, "jax": jax}


def enter(kind: str) -> None:
    """Waits for a group, and sets the variables by which a framework finds its processes. Does nothing without an agent."""
    if not hold.has_agent():
        return
    try:
        importlib.import_module(kind)  # while the present group trains
    except ImportError:  # the script fails by itself
        pass
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")  # torchrun's store keeps the addresses of those before
    with hold.connect() as store:
        store.check(KEY % (attempt, rank))  # answered in a group
        store.set(KEY % (attempt, rank), _free().encode())
        every = [store.get(KEY % (attempt, number)).decode() for number in range(size)]
    os.environ.update(KINDS[kind](every, rank))


def _free() -> str:
    """Returns an address of this host with a free port."""
    with socket.create_server(("", 0)) as free:
        return "%s:%d" % (addresses.of_host(int(os.environ.get("GROUP_WORLD_SIZE", "1"))), free.getsockname()[1])
