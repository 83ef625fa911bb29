# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Separates the tensors of a training state from its other values.

split() takes the tensors out of nested values, and join() puts tensors back in.
The values without tensors are the skeleton. A skeleton contains only plain
values (see values), is small, and is copied and sent separately from the
tensors.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Tuple

import torch

from .. import compat
from .values import ATOMS, DEPTH, MARK, WORD, Made, Refused, made, taken


class Hole(NamedTuple):
    """Takes the place of a tensor in a skeleton. It holds the tensor's number in the list of tensors."""

    number: int


def split(tree: Any, name: str = "") -> Tuple[Any, List[torch.Tensor]]:
    """Returns a copy of tree with holes for its tensors, and the tensors, which are not copied.

    Raises Refused for values that cannot be part of a State. The error names their
    place in the tree, beginning with name.
    """
    tensors: List[torch.Tensor] = []

    def walk(node: Any, depth: int) -> Any:
        kind = type(node)
        if kind in ATOMS and (kind is not int or -WORD <= node < WORD):
            return node
        if depth > DEPTH:
            raise Refused("it is nested more than %d levels deep" % DEPTH)
        if isinstance(node, torch.Tensor):
            tensors.append(without_class(node))
            return Hole(len(tensors) - 1)
        if kind is list or kind is tuple:
            parts: List[Any] = []
            try:
                for value in node:
                    parts.append(walk(value, depth + 1))
            except Refused as err:
                raise err.within("[%d]" % len(parts)) from None
            return parts if kind is list else tuple(parts)
        if (kind is dict or kind is OrderedDict) and MARK not in node and all(map(is_key, node)):
            result: Dict[Any, Any] = kind()
            key = None
            try:
                for key, value in node.items():
                    result[key] = walk(value, depth + 1)
                versions = compat.metadata(node) if kind is OrderedDict else None
                if versions is not None:
                    key = "_metadata"
                    compat.set_metadata(result, walk(versions, depth + 1))
            except Refused as err:
                raise err.within("[%r]" % (key,)) from None
            return result
        value = taken(node)
        return Made(value.kind, walk(value.parts, depth + 1))

    try:
        return walk(tree, 0), tensors
    except Refused as err:
        raise (err.within(name) if name else err) from None


def is_key(key: Any) -> bool:
    """Whether a dict with such keys is encoded as a dict, and not as a list of pairs."""
    return type(key) in ATOMS and (type(key) is not int or -WORD <= key < WORD) or type(key) is tuple and all(map(is_key, key))


def without_class(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the tensor as a plain torch.Tensor in the same memory, without autograd's history. Raises Refused if that is impossible."""
    kind = type(tensor)
    if kind is not torch.Tensor:
        if compat.is_dtensor(tensor):
            raise Refused("a DTensor is bound to one group. A model that is sharded (FSDP2) is made by kolo.Sharded, again for "
                          "each group; tensor parallelism is not supported, except from checkpoints with mode = \"restart\"")
        if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            raise _unplain(tensor)
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_meta:
        raise _unplain(tensor)
    plain = tensor.detach()
    return plain if type(plain) is torch.Tensor else plain.as_subclass(torch.Tensor)


def _unplain(tensor: torch.Tensor) -> Refused:
    return Refused("a %s of layout %s on %s; use a handler of your own (kolo.register_handler)"
                   % (type(tensor).__name__, tensor.layout, tensor.device.type))


def join(skeleton: Any, tensor: Callable[[int], torch.Tensor], value_of: Callable[[str, Any], Any] = made) -> Any:
    """Undoes split(): returns the tree, with a tensor in each hole and a value in place of each Made.

    value_of returns the value of a Made, from its kind and its parts.
    """
    kind = type(skeleton)
    if kind in ATOMS:
        return skeleton
    if kind is Hole:
        return tensor(skeleton.number)
    if kind is list:
        return [join(value, tensor, value_of) for value in skeleton]
    if kind is tuple:
        return tuple([join(value, tensor, value_of) for value in skeleton])
    if kind is Made:
        return value_of(skeleton.kind, join(skeleton.parts, tensor, value_of))
    result = kind()
    for key, value in skeleton.items():
        result[key] = join(value, tensor, value_of)
    versions = compat.metadata(skeleton)
    if versions is not None:
        compat.set_metadata(result, join(versions, tensor, value_of))
    return result


def nbytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
