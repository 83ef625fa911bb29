# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Encodes skeletons of trees as bytes, for other processes.

    node := tag, content
      N T F             None, True, False
      i f               int, float: 8 bytes
      s                 str: length, UTF-8
      h                 hole: number of its tensor, 4 bytes
      l t               list, tuple: length, nodes
      d o               dict, OrderedDict: length, keys and values; o: and its _metadata
      m                 Made: kind, parts

Lengths take 4 bytes, and all numbers are little-endian. The encoding has no
class names and no references.

loads() raises Malformed for anything that dumps() cannot have written. It never
uses more memory than a small multiple of its input.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import Any, Callable, Dict, Union

from .. import compat
from .tree import Hole, is_key
from .values import DEPTH, Made, Malformed, Refused

LIMIT = 64 * 1024 * 1024  # bytes
_LEVELS = DEPTH + 16  # with those of the message around a state

_COUNT, _INT, _FLOAT = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")


def dumps(node: Any) -> bytes:
    """Encodes a skeleton from split() as bytes."""
    out = bytearray()
    _write(node, out)
    if len(out) > LIMIT:
        raise Refused("its values other than tensors take %d MB, more than the limit of %d: put long lists of numbers into tensors"
                      % (len(out) // 1000000, LIMIT // 1000000))
    return bytes(out)


def loads(data: Union[bytes, bytearray]) -> Any:
    """Returns the skeleton that dumps() has encoded. Raises Malformed for other data."""
    if len(data) > LIMIT:
        raise Malformed("%d bytes are more than any state may have" % len(data))
    reader = _Reader(data)
    node = reader.node(0)
    if reader.at != len(data):
        raise Malformed("%d bytes after the end" % (len(data) - reader.at))
    return node


def _write(node: Any, out: bytearray) -> None:
    kind = type(node)
    if kind is str:
        text = node.encode("utf-8", "surrogatepass")
        out += b"s" + _COUNT.pack(len(text)) + text
    elif kind is int:
        out += b"i" + _INT.pack(node)
    elif kind is float:
        out += b"f" + _FLOAT.pack(node)
    elif node is None:
        out += b"N"
    elif kind is bool:
        out += b"T" if node else b"F"
    elif kind is Hole:
        out += b"h" + _COUNT.pack(node.number)
    elif kind is list or kind is tuple:
        out += (b"l" if kind is list else b"t") + _COUNT.pack(len(node))
        for value in node:
            _write(value, out)
    elif kind is dict or kind is OrderedDict:
        out += (b"d" if kind is dict else b"o") + _COUNT.pack(len(node))
        for key, value in node.items():
            _write(key, out)
            _write(value, out)
        if kind is OrderedDict:
            _write(compat.metadata(node), out)
    elif kind is Made:
        out += b"m"
        _write(node.kind, out)
        _write(node.parts, out)
    else:
        raise TypeError("%s is no part of a skeleton" % kind.__name__)


class _Reader:
    """Reads nodes from untrusted data."""

    def __init__(self, data: Union[bytes, bytearray]) -> None:
        self.at = 0
        self._data = data

    def node(self, depth: int) -> Any:
        if depth > _LEVELS:
            raise Malformed("more than %d levels" % _LEVELS)
        tag = self._take(1)[0]
        read = _READ.get(tag)
        if read is None:
            raise Malformed("there is no tag 0x%02x" % tag)
        return read(self, depth + 1)

    def _take(self, count: int) -> Union[bytes, bytearray]:
        data = self._data[self.at:self.at + count]
        if len(data) != count:
            raise Malformed("it ends too early")
        self.at += count
        return data

    def _count(self, size: int = 1) -> int:
        """Returns the next length, after checking that this many parts of at least size bytes can follow."""
        count: int = _COUNT.unpack(self._take(4))[0]
        if count * size > len(self._data) - self.at:
            raise Malformed("it ends too early")
        return count

    def _text(self, depth: int) -> str:
        try:
            return str(self._take(self._count()), "utf-8", "surrogatepass")
        except UnicodeDecodeError as err:
            raise Malformed("text is not UTF-8") from err

    def _list(self, depth: int) -> Any:
        return [self.node(depth) for _ in range(self._count())]

    def _dict(self, result: Dict[Any, Any], depth: int) -> Any:
        count = self._count(2)
        for _ in range(count):
            key = self.node(depth)
            if not is_key(key):
                raise Malformed("a %s is no key" % type(key).__name__)
            result[key] = self.node(depth)
        if len(result) != count:
            raise Malformed("a key is there twice")
        return result

    def _ordered(self, depth: int) -> Any:
        result = self._dict(OrderedDict(), depth)
        metadata = self.node(depth)
        if metadata is not None:
            compat.set_metadata(result, metadata)
        return result

    def _made(self, depth: int) -> Any:
        kind = self.node(depth)
        return Made(kind, self.node(depth))


_READ: Dict[int, Callable[[_Reader, int], Any]] = {ord(tag): read for tag, read in {
    "N": lambda reader, depth: None,
    "T": lambda reader, depth: True,
    "F": lambda reader, depth: False,
    "i": lambda reader, depth: _INT.unpack(reader._take(8))[0],
    "f": lambda reader, depth: _FLOAT.unpack(reader._take(8))[0],
    "h": lambda reader, depth: Hole(_COUNT.unpack(reader._take(4))[0]),
    "s": _Reader._text,
    "l": _Reader._list,
    "t": lambda reader, depth: tuple(reader._list(depth)),
    "d": lambda reader, depth: reader._dict({}, depth),
    "o": _Reader._ordered,
    "m": _Reader._made,
}.items()}
