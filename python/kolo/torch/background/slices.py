# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Divides a State into parts that can be sent one after the other while training goes on.

A Unit is a parameter with its optimizer state, or a large tensor that no
optimizer changes. The optimizers in KINDS update each element of a parameter
independently, so a unit can be cut into slices. An observer that holds the
first n elements keeps them up to date with the first n elements of each
gradient.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

import torch

from .. import compat
from ..state.handlers import Handler, StateDictHandler
from ..state.tree import nbytes

# Optimizers that update each element independently, and skip parameters without a gradient.
KINDS = tuple(getattr(torch.optim, name) for name in (
    "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop"))
STATIC = 1024 * 1024  # least bytes of a tensor that is a unit although no optimizer changes it


class Slice(NamedTuple):
    """The header of a slice: elements begin to end of a unit. Tensors with their values follow it."""

    key: str
    shape: Tuple[int, ...]  # of the unit
    begin: int
    end: int
    types: Dict[str, torch.dtype]  # of the tensors that follow: "" is the parameter, the others are its optimizer state
    whole: Dict[str, Any]  # the rest of its optimizer state, such as a step counter


class Unit:
    """One unit of a State."""

    def __init__(self, key: str, tensor: torch.Tensor, name: str = "", optimizer: Optional[torch.optim.Optimizer] = None) -> None:
        self.key = key
        self.tensor = tensor
        self.name = name  # of its optimizer in the State
        self.optimizer = optimizer

    def kept(self) -> Dict[str, Any]:
        """Returns the optimizer state of this parameter."""
        return self.optimizer.state.get(self.tensor, {}) if self.optimizer else {}

    def ranges(self) -> Dict[str, torch.Tensor]:
        """Returns the parameter, with the key "", and the tensors of its optimizer state that have the same shape."""
        return {"": self.tensor.detach(), **{
            name: value for name, value in self.kept().items()
            if isinstance(value, torch.Tensor) and value.shape == self.tensor.shape}}

    def nbytes(self) -> int:
        return nbytes(self.ranges().values())

    def can_be_cut(self) -> bool:
        return all(tensor.is_contiguous() for tensor in self.ranges().values())

    def slice(self, begin: int, end: int) -> Tuple[Slice, List[torch.Tensor]]:
        """Returns a slice and its tensors, which share memory with the live ones. A unit that cannot be cut has one slice only."""
        ranges = self.ranges()
        whole = {name: value for name, value in self.kept().items() if name not in ranges}
        return (Slice(self.key, tuple(self.tensor.shape), begin, end, {name: tensor.dtype for name, tensor in ranges.items()}, whole),
                [_range(tensor, begin, end) for tensor in ranges.values()])

    def put(self, slice_: Slice) -> List[torch.Tensor]:
        """Prepares the unit for a slice from another process, and returns the memory for the slice's tensors."""
        kept = self.optimizer.state if self.optimizer is not None else {}
        if slice_.begin == 0:
            kept.pop(self.tensor, None)
        if len(slice_.types) > 1 or slice_.whole:
            own = kept[self.tensor]
            empty = torch.empty_like if slice_.end - slice_.begin == self.tensor.numel() else torch.zeros_like
            own.update((name, value.clone() if isinstance(value, torch.Tensor) else value)
                       for name, value in slice_.whole.items())
            for name, dtype in slice_.types.items():
                if name and name not in own:
                    own[name] = empty(self.tensor, dtype=dtype, requires_grad=False)
        room = self.ranges()
        if (any(room[name].dtype != dtype for name, dtype in slice_.types.items()) or slice_.shape != self.tensor.shape
                or slice_.end - slice_.begin < self.tensor.numel() and not self.can_be_cut()):
            raise TypeError("%s of this process has another type or size than that of its group" % self.key)
        return [_range(room[name], slice_.begin, slice_.end) for name in slice_.types]

    def version(self) -> Any:
        """Returns a value that changes with each in-place operation on the tensors that autograd sees."""
        kept = self.kept().values()
        return compat.version(self.tensor), [(id(value), compat.version(value)) for value in kept if isinstance(value, torch.Tensor)]

    def checksum(self, count: int) -> int:
        """Returns a checksum of the first count elements. Different elements almost certainly have different checksums."""
        total = 0
        for tensor in self.ranges().values():
            data = tensor.reshape(-1)[:count].view(torch.uint8)
            if data.data_ptr() % 8 or data.storage_offset() % 8:
                data = data.clone()
            even = data.numel() // 8 * 8
            total = total * 31 + int(data[:even].view(torch.int64).sum()) + int(data[even:].sum())
        return total % 2 ** 62


def units(handlers: Dict[str, Handler]) -> Dict[str, Unit]:
    """Returns the units by key. Units that no optimizer changes come first, because they need no updates."""
    optimizers = {name: handler.value for name, handler in handlers.items() if _is_known(handler)}
    others = [h.value for h in handlers.values()
              if isinstance(h.value, torch.optim.Optimizer) and not any(h.value is known for known in optimizers.values())]
    owners: Dict[int, List[str]] = {}
    for name, optimizer in optimizers.items():
        for parameter in parameters(optimizer):
            owners.setdefault(id(parameter), []).append(name)
    foreign = {id(parameter) for optimizer in others for parameter in parameters(optimizer)}
    static: List[Unit] = []
    trained: List[Unit] = []
    seen = set(foreign)
    for key, tensor in _tensors(handlers):
        if id(tensor) in seen or not tensor.numel() or compat.is_dtensor(tensor) or tensor.layout != torch.strided:
            continue
        seen.add(id(tensor))
        names = owners.get(id(tensor), [])
        if len(names) == 1:
            trained.append(Unit(key, tensor, names[0], optimizers[names[0]]))
        elif not names and nbytes([tensor]) >= STATIC:
            static.append(Unit(key, tensor))
    return {unit.key: unit for unit in static + trained}


def _is_plain(handler: Handler) -> bool:
    """Whether a handler's tree is exactly the state dict of its object."""
    kind, plain = type(handler), StateDictHandler
    return (kind.tree, kind.load, kind.shared) == (plain.tree, plain.load, True)


def _is_known(handler: Handler) -> bool:
    """Whether a handler's object is an optimizer whose steps another process can repeat with the same gradients."""
    optimizer = handler.value
    return _is_plain(handler) and type(optimizer) in KINDS and not compat.has_post_hooks(optimizer)


def parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def hyperparameters(optimizer: torch.optim.Optimizer) -> List[Dict[str, Any]]:
    """Returns the optimizer's parameter groups without their parameters."""
    return [{name: value for name, value in group.items() if name not in ("params", "param_names")}
            for group in optimizer.param_groups]


def set_hyperparameters(optimizer: torch.optim.Optimizer, groups: List[Dict[str, Any]]) -> None:
    if len(groups) != len(optimizer.param_groups):
        raise ValueError("an optimizer of the group has %d groups of parameters, that of this process %d"
                         % (len(groups), len(optimizer.param_groups)))
    for group, values in zip(optimizer.param_groups, groups):
        group.update(values)


def total(parts: Iterable[Unit]) -> int:
    """Returns the size of units in bytes."""
    return sum(unit.nbytes() for unit in parts)


def _range(tensor: torch.Tensor, begin: int, end: int) -> torch.Tensor:
    """Returns a view of elements begin to end, or the whole tensor if it is not contiguous."""
    return tensor.view(-1)[begin:end] if tensor.is_contiguous() else tensor


def _tensors(handlers: Dict[str, Handler]) -> Iterator[Tuple[str, torch.Tensor]]:
    """Yields the tensors of modules that do not override state_dict, by a name that is the same in all processes."""
    plain = torch.nn.Module
    for name, handler in handlers.items():
        kind = type(handler.value)
        if not isinstance(handler.value, plain) or not _is_plain(handler):
            continue
        if (kind.state_dict, kind.load_state_dict) != (plain.state_dict, plain.load_state_dict):
            continue
        own = {id(tensor) for tensors in (handler.value.parameters(), handler.value.buffers()) for tensor in tensors}
        for key, tensor in handler.value.state_dict(keep_vars=True).items():
            if id(tensor) in own:
                yield name + "." + key, tensor
