# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Kolo as a rendezvous backend of torchrun: torchrun --rdzv-backend=kolo.

    torchrun (one per slot)                   Kolo's agent
      | next_rendezvous: ready ------------>  |  waits until there is a group
      | <------------------------------ place |
      | meets the others in the store -------->  of the group
      | formed ----------------------------->  |
      | starts its workers                     |
      | num_nodes_waiting, every 0.1 s:        |
      |   a key in the store <-- rank 0 <----- change
      |   <-------------------------------- broken
      | stops its workers, next_rendezvous     |

torchrun loads this module through the entry point group torchrun.handlers, which
requires PyTorch 2.5 or later. Kolo knows the members of each group, so there is
no last call, and --nnodes, --rdzv-endpoint and --rdzv-id are not needed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from datetime import timedelta
from typing import Any, Callable, Dict, Optional, Tuple

import torch
import torch.distributed as dist
from torch.distributed.elastic.rendezvous.api import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)

from . import __version__, addresses, orphans, worker

NAME = "kolo"
PRIVATE_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"  # torchrun's variable: workers use a separate store
RUN_ID = "TORCHELASTIC_RUN_ID"

POLL = 0.01  # seconds between checks of the others' keys
PATIENCE = 5.0  # seconds to wait for members or an agent that do not answer
TIMEOUT = timedelta(minutes=5)  # for one operation on the store


def backend() -> Callable[[RendezvousParameters], RendezvousHandler]:
    """The entry point. Returns the function that makes a handler from torchrun's parameters."""
    return Handler


class Handler(RendezvousHandler):
    """Takes one torchrun from group to group.

    All members leave a group together. The first one to learn of a change sets
    CHANGE in the store, and no member stops its workers before every member has
    added itself to LEAVING. Otherwise a worker that loses its peers could fail
    before its torchrun knows the reason, and use up one of max_restarts.
    """

    CHANGE, LEAVING, MET, MASTER = "change", "leaving", "met", "master"

    def __init__(self, parameters: RendezvousParameters) -> None:
        if not os.environ.get(worker.ADDR):
            raise RendezvousConnectionError(
                "%s is not set: --rdzv-backend=%s is for tasks of driver = \"torch\"" % (worker.ADDR, NAME))
        self._client = worker.Client.from_environment(
            client="kolo-torchrun " + __version__, versions={"torch": str(torch.__version__)})
        for name in (worker.ADDR, worker.SECRET):  # the workers talk to torchrun, not to Kolo
            del os.environ[name]
        self._parameters = parameters
        self._place: Optional[worker.Place] = None
        self._store: Any = None
        self._leaves = True  # the others know that this member leaves, or there is no group
        self._shared = os.environ.get(PRIVATE_STORE) != "1"
        self._closed = False
        self._guard = _guard()

    def get_backend(self) -> str:
        return NAME

    def get_run_id(self) -> str:
        """Returns torchrun's --rdzv-id if one is given, else the job's name."""
        given = self._parameters.run_id
        return given if given not in ("", "none") else os.environ.get(RUN_ID) or given

    @property
    def use_agent_store(self) -> bool:
        """Whether the workers use the agent's store, which outlives every worker."""
        return self._shared

    def next_rendezvous(self) -> RendezvousInfo:
        """Waits for the next group of which this process is a member, without limit."""
        if self._closed:
            raise RendezvousClosedError("the rendezvous is closed")
        reason = "start"
        if self._place is not None:
            reason = "commit" if self._leaves else "failure"
            self._announce()
        while True:
            self._store = None
            try:
                place = self._client.ready(self._place.generation if self._place else 0, reason)
            except worker.Retired:  # its workers have been stopped
                raise SystemExit(0) from None
            except worker.AgentError as err:
                raise RendezvousConnectionError(str(err)) from err
            self._place, self._leaves = place, False
            try:
                info = self._meet(place)
            except RuntimeError:
                if not self._client.wait(self._over, PATIENCE):
                    raise
                info = None
            if info is not None:
                self._client.formed(place.generation)
                return info
            reason = "failure"

    def num_nodes_waiting(self) -> int:
        """Returns 1 if the workers must stop for another group, else 0. torchrun calls it every --monitor-interval."""
        if self._place is None or self._closed:
            return 0
        try:
            return int(self._over() or self._agree(self._place))
        except RuntimeError:
            self._client.wait(self._over, PATIENCE)  # the store ends with its group
            return 1

    def is_closed(self) -> bool:
        return self._closed

    def set_closed(self) -> None:
        """Ends this process's part in the group. Kolo decides by torchrun's exit status whether the other processes go on."""
        self._closed = True

    def shutdown(self) -> bool:
        self.set_closed()
        self._client.close()
        return True

    def _over(self) -> bool:
        """Whether the current group has lost a member, or the agent is gone."""
        return self._client.ended() or self._place is not None and self._client.broken(self._place.generation)

    def _meet(self, place: worker.Place) -> Optional[RendezvousInfo]:
        """Waits until all members have arrived. Returns None if a member is lost before that.

        If a member died during torchrun's own waits on the store, they would last until
        the timeout. So no member begins these waits before all have arrived.
        """
        store, plain = _connect()
        self._shared = self._shared and plain
        self._store = dist.PrefixStore("kolo/%d" % place.generation, store)
        if place.rank == 0:
            self._store.set(self.MASTER, self._master(place))
        self._store.add(self.MET, 1)
        while self._count(self.MET) < place.size:
            if self._client.wait(self._over, POLL):
                return None
        address, port = self._store.get(self.MASTER).decode().rsplit(" ", 1)
        if self._shared:  # each host's workers reach it at their own agent
            address, port = _address()
        return RendezvousInfo(dist.PrefixStore("torchrun", self._store), place.rank, place.size,
                              RendezvousStoreInfo(address, int(port)))

    def _agree(self, place: worker.Place) -> bool:
        """Whether the group must change. True only when all members know of the change."""
        if self._client.changing(place.generation):  # only rank 0's agent is notified
            self._store.set(self.CHANGE, "1")
        elif not self._store.check([self.CHANGE]):
            return False
        self._announce()
        deadline = time.monotonic() + PATIENCE  # one of them may wait in torchrun's exit barrier
        while self._count(self.LEAVING) < place.size and time.monotonic() < deadline:
            if self._client.wait(self._over, POLL):
                break
        return True

    def _announce(self) -> None:
        """Informs the others that this member leaves the group."""
        if self._leaves:
            return
        self._leaves = True
        try:
            self._store.set(self.CHANGE, "1")
            self._store.add(self.LEAVING, 1)
        except RuntimeError:
            pass  # the group is over already

    def _count(self, key: str) -> int:
        """Returns how many members have added themselves to a key. Add this member first: the store waits for a missing key."""
        return int(self._store.get(key))

    def _master(self, place: worker.Place) -> str:
        """Called on rank 0. Returns an address of its host for the workers' own store, for workers that cannot use the agent's."""
        address = self._parameters.local_addr
        if not address:
            address = addresses.of_host(place.cross_size)
        with socket.create_server(("", 0)) as free:
            return "%s %d" % (address, free.getsockname()[1])


def _address() -> Tuple[str, int]:
    """Returns the address at which the agent serves the store of the current group."""
    return os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])


def _connect() -> Tuple[Any, bool]:
    """Connects to the agent's store. Also returns whether workers can connect to it; they cannot choose use_libuv."""
    arguments: Dict[str, Any] = {"is_master": False, "wait_for_workers": False, "timeout": TIMEOUT}
    try:
        return dist.TCPStore(*_address(), **arguments), True
    except RuntimeError as err:
        if "libuv" not in str(err):  # builds such as Debian's lack it; a client works without it
            raise
        return dist.TCPStore(*_address(), use_libuv=False, **arguments), False


def _guard() -> "subprocess.Popen[bytes]":
    """Starts the process that ends torchrun's workers if torchrun itself is killed.

    Each worker has its own session, so a signal to the slot's process group does
    not reach it.
    """
    token = os.environ[orphans.TOKEN] = uuid.uuid4().hex
    return subprocess.Popen(
        [sys.executable, "-I", "-S", orphans.__file__, token], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True)
