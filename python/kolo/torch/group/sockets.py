# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Finds the TCP sockets that a process group has opened: its listeners, and its connections, which can be shut down.

gloo has no abort. A collective ends when a connection of its group ends, except
in the middle of a message (see outbox): the agent kills a process that waits
there. A process that dies closes its connections. If a process hangs, or its
host is gone, the other processes have to close their connections.

Works on Linux only. Elsewhere no sockets are found, and a collective ends at its
timeout.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

Ends = Tuple[Any, Any]


class Opened(NamedTuple):
    """Sockets of a process by descriptor."""

    connections: Dict[int, Ends]  # both addresses
    listeners: Dict[int, Ends]  # the address and None

    def since(self, before: "Opened") -> "Opened":
        """Returns the sockets that were not open before."""
        return Opened(*({descriptor: ends for descriptor, ends in now.items() if old.get(descriptor) != ends}
                        for now, old in zip(self, before)))

    def addresses(self) -> List[str]:
        """Returns the addresses of the listeners, in the form address:port."""
        return ["[%s]:%d" % (address[0].partition("%")[0], address[1]) if ":" in address[0] else "%s:%d" % address[:2]
                for address, _ in self.listeners.values()]


def opened() -> Optional[Opened]:
    """Returns the TCP sockets of this process; None if it cannot see them."""
    found = Opened({}, {})
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return None
    for name in names:
        ends = _ends(int(name))
        if ends:
            (found.listeners if ends[1] is None else found.connections)[int(name)] = ends
    return found


def shut(connections: Dict[int, Ends]) -> None:
    """Shuts these connections down, unless their descriptors belong to other sockets by now."""
    for descriptor, ends in connections.items():
        try:
            with _open(descriptor) as connection:
                if _ends(connection.fileno()) == ends:
                    connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # gloo or the peer was first


def _open(descriptor: int) -> socket.socket:
    copy = os.dup(descriptor)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _ends(descriptor: int) -> Optional[Ends]:
    try:
        if not os.readlink("/proc/self/fd/%d" % descriptor).startswith("socket:"):
            return None
        with _open(descriptor) as connection:
            if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
                return None
            if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return connection.getsockname(), None
            return connection.getsockname(), connection.getpeername()
    except OSError:
        return None
