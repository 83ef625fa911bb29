# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The part that a process has of a sharded model and its optimizer, as plain tensors.

It is the same on all members with the same place in their replicas, so one of
them can give it to another as it is.
"""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import torch

from .. import compat

Shard = Dict[str, Any]


def take(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Shard:
    """This process's part. Its tensors are the live ones."""
    saved = optimizer.state_dict()
    parts: List[Tuple[Any, str]] = []
    state: Dict[Any, Any] = {}
    for index, values in saved["state"].items():
        parts += [(index, name) for name, value in values.items() if compat.is_dtensor(value)]
        state[index] = {name: _own(value) for name, value in values.items()}
    return {
        "model": {name: _own(value) for name, value in model.state_dict().items()},
        "optimizer": {"state": state, "param_groups": saved["param_groups"]}, "parts": parts,
    }


def put(shard: Shard, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Sets this process's part; an optimizer may keep the tensors."""
    with torch.no_grad():
        for name, value in model.state_dict().items():
            if isinstance(value, torch.Tensor):
                _own(value).copy_(shard["model"][name])
    given = shard["optimizer"]
    parameters = dict(zip(
        (index for group in given["param_groups"] for index in group["params"]),
        (parameter for group in optimizer.param_groups for parameter in group["params"])))
    state = {index: dict(values) for index, values in given["state"].items()}
    for index, name in shard["parts"]:
        state[index][name] = _part_of(parameters[index], state[index][name])
    optimizer.load_state_dict({"state": state, "param_groups": given["param_groups"]})


def tensors(model: torch.nn.Module) -> List[torch.Tensor]:
    """The live tensors of this process's part of a model."""
    return [_own(value) for value in model.state_dict().values() if isinstance(value, torch.Tensor)]


def _own(value: Any) -> Any:
    return compat.local_part(value).detach() if compat.is_dtensor(value) else value


def _part_of(parameter: Any, value: torch.Tensor) -> Any:
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(value, parameter.device_mesh, parameter.placements, run_check=False,
                              shape=parameter.shape, stride=parameter.stride())
