# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A client of the agent's store that needs no PyTorch. It speaks the protocol of c10d's TCPStore (torch/csrc/distributed/c10d/TCPStoreBackend.hpp)."""

from __future__ import annotations

import socket
import struct
from typing import Any

_VALIDATE, _SET, _GET, _CHECK, _WAIT = 0, 1, 3, 5, 6
_MAGIC = 0x3C85F7CE
_READY = b"\x00"


class Store:
    """The store of this process's group. The first request is answered only when there is a group."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._answers = self._socket.makefile("rb")
        self._socket.sendall(struct.pack("<BI", _VALIDATE, _MAGIC))

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self._answers.close()
        self._socket.close()

    def check(self, key: str) -> bool:
        """Whether a key exists."""
        self._socket.sendall(struct.pack("<Bq", _CHECK, 1) + _key(key))
        return self._read(1) == _READY

    def set(self, key: str, value: bytes) -> None:
        """Sets the value of a key."""
        self._socket.sendall(struct.pack("<B", _SET) + _key(key) + _counted(value))

    def get(self, key: str) -> bytes:
        """Waits without limit until a key exists, and returns its value. Raises OSError if the store is gone."""
        self._socket.sendall(struct.pack("<Bq", _WAIT, 1) + _key(key))
        if self._read(1) != _READY:
            raise OSError("the store does not wait for %r" % key)
        self._socket.sendall(struct.pack("<B", _GET) + _key(key))
        (length,) = struct.unpack("<q", self._read(8))
        return self._read(length)

    def _read(self, count: int) -> bytes:
        if count < 0:
            raise OSError("the store answers with a length of %d" % count)
        answer = self._answers.read(count)
        if len(answer) < count:
            raise OSError("the store has closed the connection")
        return answer


def _key(key: str) -> bytes:
    return _counted(b"/" + key.encode())  # where PyTorch's clients keep what scripts set


def _counted(text: bytes) -> bytes:
    return struct.pack("<q", len(text)) + text
