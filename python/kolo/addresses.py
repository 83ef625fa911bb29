# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The address at which the other processes of a group reach this process."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Optional


def of_host(hosts: int) -> str:
    """Returns the address of this host for a group of so many hosts. It is the loopback address if there is only one host."""
    return "127.0.0.1" if hosts == 1 else _of_interface() or socket.getfqdn()


def _of_interface() -> Optional[str]:
    """Returns the IPv4 address of the interface that the agent has selected for this group."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if not interface:
        return None
    siocgifaddr = 0x8915  # Linux
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe, siocgifaddr, struct.pack("256s", interface.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])
