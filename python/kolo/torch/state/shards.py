# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Handles a process's part of a sharded model and its optimizer, as plain tensors.

With replicas, members at the same place of their replicas have equal parts, so
one of them can send its part to another unchanged. Without replicas, every
process has a different part. When the group changes, Parts divides each part
into items (see module ranges), which move between processes.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from .. import compat
from .ranges import Item, Piece

Shard = Dict[str, Any]
Outline = Dict[str, Any]


def take(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Shard:
    """Returns this process's part. Its tensors share memory with the model and the optimizer."""
    saved, values = optimizer.state_dict(), model.state_dict()
    state = saved["state"]
    tensors_ = [value for value in values.values() if isinstance(value, torch.Tensor)] + [
        state[index][name] for index in sorted(state) for name in sorted(state[index]) if isinstance(state[index][name], torch.Tensor)]
    return {
        "model": {name: _own(value) for name, value in values.items()},
        "optimizer": {"state": {index: {name: _own(value) for name, value in kept.items()} for index, kept in state.items()},
                      "param_groups": saved["param_groups"]},
        "parts": [(index, name) for index, kept in state.items() for name, value in kept.items() if compat.is_dtensor(value)],
        "items": [tuple(_item(value)) for value in tensors_],
    }


def put(shard: Shard, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Sets this process's part. The optimizer may keep the given tensors."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if isinstance(value, torch.Tensor) and name in shard["model"]:
                _own(value).copy_(shard["model"][name])
    given = shard["optimizer"]
    parameters = _parameters(given["param_groups"], optimizer)
    state = {index: dict(values) for index, values in given["state"].items()}
    for index, name in shard["parts"]:
        state[index][name] = _part_of(parameters[index], state[index][name])
    optimizer.load_state_dict({"state": state, "param_groups": given["param_groups"]})


def stepped(optimizer: torch.optim.Optimizer) -> List[torch.Tensor]:
    """Returns this process's part of an optimizer's parameters and of their state."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [_own(value) for value in parameters + [
        value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]]


def _parameters(groups: List[Dict[str, Any]], optimizer: torch.optim.Optimizer) -> Dict[int, Any]:
    """Returns the parameters of an optimizer by their numbers in the groups of its state."""
    return dict(zip((index for group in groups for index in group["params"]),
                    (parameter for group in optimizer.param_groups for parameter in group["params"])))


def movable(model: torch.nn.Module, optimizer: torch.optim.Optimizer, mesh: Any) -> Optional[str]:
    """Returns None if this process's part consists of plain ranges of the whole; otherwise describes the value that does not."""
    values: List[Tuple[str, Any]] = list(model.state_dict().items())
    names: Dict[Any, str] = {parameter: name for name, parameter in model.named_parameters()}
    parameters: Dict[Any, Any] = dict(optimizer.state)
    for parameter, state in parameters.items():
        for name, value in state.items():
            values.append(("%s of %s" % (name, names.get(parameter, "a parameter")), value))
            if compat.is_dtensor(value) and (not compat.is_dtensor(parameter) or value.placements != parameter.placements):
                return "%s, which is placed otherwise than its parameter" % values[-1][0]
    for name, value in values:
        if not compat.is_dtensor(value):
            if isinstance(value, torch.Tensor) and type(value) not in (torch.Tensor, torch.nn.Parameter):
                return "%s, a %s" % (name, type(value).__name__)
        elif value.device_mesh.ndim != 1 or value.device_mesh != mesh or not _simple(value):
            return "%s, which is placed as %s on a mesh of %d dimensions" % (name, list(value.placements), value.device_mesh.ndim)
    return None


def _simple(value: Any) -> bool:
    """Whether each rank has consecutive rows of a DTensor, or the whole DTensor."""
    placement, = value.placements
    return bool(placement.is_replicate() or type(placement).__name__ == "Shard" and placement.is_shard(0))


class Parts:
    """Tensors as ranges of bytes of the whole state, in an order that is the same in all processes."""

    def __init__(self) -> None:
        self.items: List[Item] = []
        self.tensors: List[torch.Tensor] = []

    def add(self, item: Item, tensor: torch.Tensor) -> None:
        """Adds this process's part of an item."""
        self.items.append(item)
        self.tensors.append(tensor)

    def view(self, piece: Piece, rank: int, size: int) -> torch.Tensor:
        """Returns the bytes of a piece. The tensors are the part of the given rank of a group of size."""
        first, _ = self.items[piece.item].span(rank, size)
        return _bytes(self.tensors[piece.item])[piece.start - first:piece.stop - first]


def held(shard: Shard) -> Parts:
    """Returns as Parts what take() has returned."""
    parts, state, items = Parts(), shard["optimizer"]["state"], iter(shard["items"])
    for tensor in [value for value in shard["model"].values() if isinstance(value, torch.Tensor)] + [
            state[index][name] for index in sorted(state) for name in sorted(state[index]) if isinstance(state[index][name], torch.Tensor)]:
        parts.add(Item(*next(items)), tensor.contiguous())
    return parts


class Copy(NamedTuple):
    """A copy of another process's part."""

    commit: int
    rank: int
    size: int
    parts: Parts


def outline(shard: Shard) -> Outline:
    """Returns everything about a part except the values of its tensors.

    A process without a part needs it to allocate memory for its own part.
    """
    state = shard["optimizer"]["state"]
    return {
        "items": shard["items"], "parts": shard["parts"], "param_groups": shard["optimizer"]["param_groups"],
        "tensors": {index: {name: (value.dtype, value.shape) for name, value in values.items() if isinstance(value, torch.Tensor)}
                    for index, values in state.items()},
        "values": {index: {name: value for name, value in values.items() if not isinstance(value, torch.Tensor)}
                   for index, values in state.items()},
    }


def room(given: Outline, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Tuple[Parts, Shard]:
    """Returns memory for this process's part, and the part that put() sets when the memory is filled.

    The memory is that of the model where possible, and otherwise new tensors.
    """
    parts, items, apart = Parts(), [Item(*item) for item in given["items"]], {}
    for key, value in model.state_dict().items():
        if isinstance(value, torch.Tensor):
            number = len(parts.items)
            if number >= len(items) or items[number] != _item(value):
                raise RuntimeError("kolo.Sharded: build has returned a model with other parameters or buffers than in the group before")
            own = _own(value)
            if not own.is_contiguous():
                own = apart[key] = torch.empty(own.shape, dtype=own.dtype, device=own.device)
            parts.add(items[number], own)
    parameters = _parameters(given["param_groups"], optimizer)
    sharded, state = set(given["parts"]), {index: dict(values) for index, values in given["values"].items()}
    for index in sorted(given["tensors"]):
        for name, (dtype, shape) in sorted(given["tensors"][index].items()):
            parameter = parameters[index]
            local, device = (_own(parameter).shape, parameter.device) if (index, name) in sharded else (shape, torch.device("cpu"))
            state[index][name] = torch.empty(local, dtype=dtype, device=device)
            parts.add(items[len(parts.items)], state[index][name])
    return parts, {"model": apart, "optimizer": {"state": state, "param_groups": given["param_groups"]}, "parts": given["parts"]}


def _item(value: torch.Tensor) -> Item:
    """Returns the item of the whole state to which a tensor belongs."""
    if compat.is_dtensor(value) and not value.placements[0].is_replicate():  # type: ignore[attr-defined] # a DTensor
        return Item(value.shape[0], math.prod(value.shape[1:]) * value.element_size(), True)
    return Item(1, value.numel() * value.element_size(), False)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the memory of a contiguous tensor as bytes."""
    return tensor.view(-1).view(torch.uint8)


def tensors(model: torch.nn.Module) -> List[torch.Tensor]:
    """Returns the tensors of this process's part of a model, in the model's own memory."""
    return [_own(value) for value in model.state_dict().values() if isinstance(value, torch.Tensor)]


def _own(value: Any) -> Any:
    return compat.local_part(value).detach() if compat.is_dtensor(value) else value


def _part_of(parameter: Any, value: torch.Tensor) -> Any:
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(value, parameter.device_mesh, parameter.placements, run_check=False,
                              shape=parameter.shape, stride=parameter.stride())
