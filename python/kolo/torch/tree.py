# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Training state as a tree: its tensors apart from the rest of it.

split() takes the tensors out of nested dicts, lists and tuples, join() puts
others in. What is left is small, may be pickled and copied; the tensors are
copied, or sent as they are.
"""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterable, List, NamedTuple, Tuple

import torch

_ATOMS = (int, float, bool, str, bytes, type(None), complex)


class _Hole(NamedTuple):
    """Stands for tensor number index."""

    index: int


def split(tree: Any) -> Tuple[Any, List[torch.Tensor]]:
    """Returns a copy of tree with holes for its tensors, and the tensors, which are not copied."""
    tensors: List[torch.Tensor] = []

    def walk(node: Any) -> Any:
        if isinstance(node, torch.Tensor):
            if node.layout != torch.strided or type(node).__name__ == "DTensor":
                raise TypeError(
                    "a tensor of layout %s (%s) cannot be part of the state: use a handler of your own "
                    "(kolo.register_handler)" % (node.layout, type(node).__name__))
            tensors.append(node.detach())
            return _Hole(len(tensors) - 1)
        if type(node) in _ATOMS:
            return node
        if isinstance(node, dict) and hasattr(type(node), "copy"):
            result = copy.copy(node)  # keeps its class, a default factory, torch's _metadata
            for key, value in node.items():
                result[key] = walk(value)
            return result
        if type(node) in (list, tuple):
            return type(node)(walk(value) for value in node)
        if isinstance(node, tuple) and hasattr(node, "_fields"):
            return type(node)(*map(walk, node))
        return copy.deepcopy(node)

    return walk(tree), tensors


def join(skeleton: Any, tensor: Callable[[int], torch.Tensor]) -> Any:
    """Puts tensors, by their number, where split() has left holes."""
    if type(skeleton) is _Hole:
        return tensor(skeleton.index)
    if type(skeleton) in _ATOMS:
        return skeleton
    if isinstance(skeleton, dict) and hasattr(type(skeleton), "copy"):
        result = copy.copy(skeleton)
        for key, value in skeleton.items():
            result[key] = join(value, tensor)
        return result
    if type(skeleton) in (list, tuple):
        return type(skeleton)(join(value, tensor) for value in skeleton)
    if isinstance(skeleton, tuple) and hasattr(skeleton, "_fields"):
        return type(skeleton)(*(join(value, tensor) for value in skeleton))
    return copy.deepcopy(skeleton)


def nbytes(tensors: Iterable[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
