# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The TCP connections that a process group has opened, so that they can be shut down.

gloo has no abort: a collective ends when a connection of its group does, unless
it is in the middle of a message (see outbox); the agent ends such a process. The
death of a process closes its own; for one that hangs, or whose host is gone,
the others have to close theirs. Works on Linux; elsewhere nothing is found, and
a collective ends at its timeout.
"""

from __future__ import annotations

import os
import socket
from typing import Dict, Optional, Tuple

Ends = Tuple[object, object]


def connections() -> Dict[int, Ends]:
    """Descriptors of this process that are connected TCP sockets, with both addresses."""
    found = {}
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return {}
    for name in names:
        ends = _ends(int(name))
        if ends:
            found[int(name)] = ends
    return found


def shut(connections: Dict[int, Ends]) -> None:
    """Shuts these connections down, unless their descriptors are other ones by now."""
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
            return connection.getsockname(), connection.getpeername()
    except OSError:
        return None
