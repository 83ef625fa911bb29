# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The types of values that a State may hold besides tensors, for commits, newcomers and checkpoints.

    None, bool, int, float, str, list, tuple, dict, OrderedDict   as they are
    the kinds of the table below                                  Made(kind, parts)
    all else                                                      Refused, with its name

The parts of a value are in turn values of these types. Names from another
process are looked up only in this table and among torch's dtypes, so data from
the network or from a file cannot run code.
"""

from __future__ import annotations

import collections
import ctypes
import pathlib
import re
import sys
import types
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

import torch

ATOMS = frozenset((type(None), bool, int, float, str))
DEPTH = 64  # levels of nesting
WORD = 2 ** 63  # ints from -WORD to WORD - 1 are atoms
MARK = "kolo:kind"  # key of the dict that represents a Made in a file

REMEDY = ("keep what it has as numbers, strings, lists, dicts or tensors, give it state_dict() and load_state_dict(), "
          "or use kolo.register_handler")


class Refused(TypeError):
    """A value that cannot be part of a State."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.where: List[str] = []

    def within(self, part: str) -> "Refused":
        """Adds an outer part of the value's place, and returns this error."""
        self.where.insert(0, part)
        return self

    def __str__(self) -> str:
        return "%s cannot be part of the state: %s" % ("".join(self.where) or "this value", self.reason)


class Malformed(RuntimeError):
    """Data from another process or a file is not in this package's encoding."""


class Made(NamedTuple):
    """Represents a value by its kind and its parts."""

    kind: str
    parts: Any


class _Kind(NamedTuple):
    type: Optional[type]
    take: Callable[[Any], Any]  # returns the parts of a value
    make: Callable[[Any], Any]  # returns a value, given its parts


_FACTORIES: Dict[str, Any] = {"None": None, **{kind.__name__: kind for kind in (bool, int, float, str, list, tuple, dict, set)}}


def _factory(value: Any) -> str:
    """Returns the name of a defaultdict's default_factory."""
    for name, factory in _FACTORIES.items():
        if factory is value.default_factory:
            return name
    raise Refused("a defaultdict must be of one of these: %s" % ", ".join(_FACTORIES))


def dtype(name: Any) -> torch.dtype:
    """Returns torch's dtype with a name such as float32."""
    found = getattr(torch, name, None) if type(name) is str else None
    if not isinstance(found, torch.dtype):
        raise Malformed("torch has no dtype %.80r" % (name,))
    return found


# numpy's names of types: byte order, kind, size, and the unit of times.
_NUMPY = re.compile(r"[<>|=][biufcSUmM]\d{1,9}(\[\d*[A-Za-z]+\])?")


def _numpy(value: Any) -> bytes:
    """Returns the bytes of numpy's array or scalar."""
    if not _NUMPY.fullmatch(value.dtype.str):
        raise Refused("numpy's type %s is not supported; %s" % (value.dtype, REMEDY))
    memory: bytes = value.tobytes()
    return memory


def _array(name: str, shape: Tuple[int, ...], data: bytes) -> Any:
    try:
        import numpy
    except ImportError:
        raise Malformed("a value of numpy, which is not installed here") from None
    if not _NUMPY.fullmatch(name):
        raise Malformed("numpy has no type %.80r" % name)
    return numpy.ndarray(shape, name, data).copy()


def _memory(data: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


def _content(tensor: torch.Tensor) -> bytes:
    """Returns the bytes from which _memory() has made a tensor. Does not use numpy, because torch may be built without it."""
    here = tensor.cpu().contiguous()
    return ctypes.string_at(here.data_ptr(), here.numel()) if here.numel() else b""


def _hashable(values: Iterable[Any]) -> List[Any]:
    listed = list(values)
    if any(isinstance(value, torch.Tensor) for value in listed):
        raise Refused("tensors as keys or in sets are not supported")
    return listed


def _pairs(value: Dict[Any, Any]) -> List[Any]:
    _hashable(value)
    return list(value.items())


_KINDS: Dict[str, _Kind] = {
    "int": _Kind(int, hex, lambda parts: int(parts, 16)),
    "complex": _Kind(complex, lambda value: (value.real, value.imag), lambda parts: complex(*parts)),
    "bytes": _Kind(bytes, lambda value: value.decode("latin-1"), lambda parts: parts.encode("latin-1")),
    "set": _Kind(set, _hashable, set),
    "frozenset": _Kind(frozenset, _hashable, frozenset),
    "dict": _Kind(dict, _pairs, dict),  # if a key is not an atom
    "OrderedDict": _Kind(collections.OrderedDict, _pairs, collections.OrderedDict),
    "deque": _Kind(collections.deque, lambda value: (list(value), value.maxlen), lambda parts: collections.deque(*parts)),
    "defaultdict": _Kind(collections.defaultdict, lambda value: (_factory(value), dict(value)),
                         lambda parts: collections.defaultdict(_FACTORIES[parts[0]], parts[1])),
    "Counter": _Kind(collections.Counter, dict, collections.Counter),
    "Path": _Kind(type(pathlib.Path()), str, pathlib.Path),
    "SimpleNamespace": _Kind(types.SimpleNamespace, lambda value: dict(vars(value)), lambda parts: types.SimpleNamespace(**parts)),
    "dtype": _Kind(torch.dtype, lambda value: str(value).partition(".")[2], dtype),
    "device": _Kind(torch.device, str, torch.device),
    "Size": _Kind(torch.Size, list, torch.Size),
    # numpy's, which may not be installed.
    "ndarray": _Kind(None, lambda value: (value.dtype.str, value.shape, _memory(_numpy(value))),
                     lambda parts: _array(parts[0], parts[1], _content(parts[2]))),
    "scalar": _Kind(None, lambda value: (value.dtype.str, _numpy(value)), lambda parts: _array(parts[0], (), parts[1])[()]),
}
_BY_TYPE = {kind.type: name for name, kind in _KINDS.items() if kind.type is not None}


def taken(value: Any) -> Made:
    """Returns the kind and the parts of a value that is not an atom. Raises Refused if no kind matches."""
    name = _BY_TYPE.get(type(value))
    numpy = sys.modules.get("numpy")
    if name is None and numpy is not None:
        if type(value) is numpy.ndarray:
            name = "ndarray"
        elif isinstance(value, numpy.generic) and type(value) is value.dtype.type:
            name = "scalar"
    if name is None:
        kind = type(value)
        raise Refused("a %s.%s could not be read back from a checkpoint; %s" % (kind.__module__, kind.__qualname__, REMEDY))
    return Made(name, _KINDS[name].take(value))


def made(kind: Any, parts: Any) -> Any:
    """Returns the value of a kind with these parts. Raises Malformed if there is no such value."""
    if type(kind) is not str or kind not in _KINDS:
        raise Malformed("there are no values of kind %.80r" % (kind,))
    try:
        return _KINDS[kind].make(parts)
    except Malformed:
        raise
    except Exception as err:
        raise Malformed("a %s cannot be made from the received parts: %s" % (kind, err)) from err
