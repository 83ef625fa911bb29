# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Forms process groups.

    store --> offers --> roles --> gloo group of all --> default group of the members --> attested

A group forms in a separate thread. If a member dies meanwhile, the threads of
the other members wait until the timeout. These threads are given up and kept
from finishing; see Forming.abandon.

Offers go through the agents' store, to which only processes of the job can
write. Data from a group's own connections is not trusted before the agents have
attested the connections.
"""

from __future__ import annotations

import ctypes
import json
import os
import threading
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist

from ...worker import Place
from .. import compat, meshes
from . import sockets
from .group import Group, PendingGroup, clear
from .roles import Offer, among, decide


class Abandoned(BaseException):
    """Raised in the thread that forms a group, to stop it."""


class Connecting(threading.Thread):
    """Connects to the store that the agent serves, before a group needs it.

    Newer releases of PyTorch first look up the host name of the address (2.15 does,
    2.6 does not), which takes ten seconds if no name server answers. A connection
    may be made before its group exists, because the agent assigns it to a group at
    the first operation.
    """

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(name="kolo-store", daemon=True)
        self.spent = False  # a group has taken the connection, or its error
        self._timeout = timeout
        self._store: Any = None
        self._error: Optional[BaseException] = None
        self._sockets: Dict[int, sockets.Ends] = {}
        self.start()

    def run(self) -> None:
        before = sockets.opened()
        try:
            self._store = _connect(self._timeout)
        except Exception as err:
            self._error = err
            return
        now = sockets.opened()
        if now and before:
            port = int(os.environ["MASTER_PORT"])
            opened = now.since(before).connections.items()  # other threads may have opened some, too
            self._sockets = {descriptor: ends for descriptor, ends in opened if ends[1][1] == port}

    def take(self) -> Tuple[Any, Dict[int, sockets.Ends]]:
        """Returns the store's client and its sockets. Raises the error if connecting failed."""
        self.join()
        self.spent = True
        if self._error is not None:
            raise self._error
        return self._store, self._sockets


class Forming(threading.Thread):
    """Forms a group. When done is true, either group or error is set.

    With a pending group, its connected processes all become members.
    """

    def __init__(self, place: Place, backend: str, timeout: timedelta, wake: Callable[[], None], offer: Offer,
                 connecting: Connecting, pending: Optional[PendingGroup] = None) -> None:
        super().__init__(name="kolo-form-%d" % place.generation, daemon=True)
        self.done = False
        self.group: Optional[Group] = None
        self.error: Optional[BaseException] = None
        self._place, self._backend, self._timeout, self._wake = place, backend, timeout, wake
        self._offer, self._connecting, self._pending = offer, connecting, pending
        self._store_sockets: Dict[int, sockets.Ends] = {}
        self._before: Optional[sockets.Opened] = None if place.size > 1 and pending is None else sockets.opened()
        self._device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def run(self) -> None:
        try:
            if self._device is not None:
                torch.cuda.set_device(self._device)
            self.group = self._whole(self._pending) if self._pending else self._form()
        except BaseException as err:  # the main thread handles it
            self.error = err
        finally:
            self.done = True
            self._wake()

    def finish(self) -> Group:
        """Returns the group, once done is true. Raises the error if it did not form."""
        if self.group is None:
            raise self.error or RuntimeError("the group did not form")
        self.group.connections = self._opened().connections
        return self.group

    def listening(self) -> Optional[List[str]]:
        """Returns the addresses at which this process listens for members; None if they are unknown."""
        return self._opened().addresses() if self._before else None

    def abandon(self) -> None:
        """Gives this group up, so that the next can form at once.

        The thread may stay inside torch until the timeout. At the next line of Python
        that it reaches, an exception is raised in it, so its group never becomes the
        default group. The group's connections are shut down, which usually ends the
        wait, too.
        """
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), ctypes.py_object(Abandoned))
        sockets.shut(self._opened().connections)
        self.join(0.02)
        if self.group is not None:  # it has formed meanwhile
            self.group.failed = True
            self.group.leave()
            self.group = None
        elif dist.is_initialized():  # only torch's default group was made
            dist.destroy_process_group()
        clear()

    def _opened(self) -> sockets.Opened:
        now = sockets.opened() if self._before else None
        if now is None or self._before is None:
            return sockets.Opened({}, {})
        opened = now.since(self._before)
        return sockets.Opened({**self._store_sockets, **opened.connections}, opened.listeners)

    def _form(self) -> Group:
        place = self._place
        if place.size == 1:
            decide([self._offer])
            return self._initialize(place, dist.HashStore(), None)
        connected, self._store_sockets = self._connecting.take()
        self._before = sockets.opened()
        store = dist.PrefixStore("kolo/%d" % place.generation, connected)
        offers = _exchange(store, self._offer, place)
        roles = decide(offers)
        control = self._gloo("control", store, place)
        if not roles.observers:
            return self._initialize(place, store, control)
        pending = PendingGroup(place, roles, store, control, self._timeout)
        own = among(place, roles, offers)
        if own is None:
            return Group(place, None, None, self._timeout, pending)
        if own.size == 1:
            return self._initialize(own, dist.HashStore(), None, pending)
        store = dist.PrefixStore("members", store)
        return self._initialize(own, store, self._gloo("control", store, own), pending)

    def _whole(self, pending: PendingGroup) -> Group:
        """Forms the group in which the observers of a pending group are members."""
        return self._initialize(pending.place, dist.PrefixStore("whole", pending.store), pending.control)

    def _gloo(self, name: str, store: Any, place: Place) -> Any:
        return dist.ProcessGroupGloo(dist.PrefixStore(name, store), place.rank, place.size, timeout=self._timeout)

    def _initialize(self, place: Place, store: Any, control: Any, pending: Optional[PendingGroup] = None) -> Group:
        """Makes torch's default group."""
        with compat.same_excepthook():
            dist.init_process_group(self._backend, store=dist.PrefixStore("default", store), rank=place.rank,
                                    world_size=place.size, timeout=self._timeout)
        meshes.form(place, self._timeout)
        return Group(place, store, control, self._timeout, pending)


def _exchange(store: Any, offer: Offer, place: Place) -> List[Offer]:
    """Publishes an offer, and returns those of all processes, by rank."""
    store.set("offer/%d" % place.rank, json.dumps(offer))
    texts = store.multi_get(["offer/%d" % rank for rank in range(place.size)])  # waits for all offers
    return [Offer(*json.loads(text)) for text in texts]


def _connect(timeout: timedelta) -> Any:
    """Connects to the store that the agent serves."""
    return compat.connect(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout)
