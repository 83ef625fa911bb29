# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The rest of a State: all shared values except the units, which are sent as slices."""

from __future__ import annotations

import copy
from typing import Any, Dict, Mapping, Set, Tuple

import torch

from ..state.handlers import Handler
from .slices import Unit, hyperparameters, set_hyperparameters

_MODULE, _OPTIMIZER, _WHOLE = "module", "optimizer", "whole"


def take(handlers: Mapping[str, Handler], equal: Mapping[str, Unit]) -> Dict[str, Any]:
    """Returns the shared values of a State without the given units."""
    tensors = {id(unit.tensor) for unit in equal.values()}
    modules, optimizers = _owners(equal)
    result: Dict[str, Any] = {}
    for name, handler in handlers.items():
        if not handler.shared:
            continue
        if name in modules:
            part = copy.copy(handler.value.state_dict(keep_vars=True))
            for key in [key for key, value in part.items() if id(value) in tensors]:
                del part[key]
            result[name] = (_MODULE, part)
        elif name in optimizers:
            result[name] = (_OPTIMIZER, hyperparameters(handler.value), {
                (i, j): dict(handler.value.state.get(parameter, {}))
                for i, group in enumerate(handler.value.param_groups)
                for j, parameter in enumerate(group["params"]) if id(parameter) not in tensors})
        else:
            result[name] = (_WHOLE, handler.tree())
    return result


def put(handlers: Mapping[str, Handler], tree: Mapping[str, Any]) -> None:
    """Sets the values that take() has returned in another process."""
    for name, handler in handlers.items():
        if name not in tree:
            continue
        kind, *values = tree[name]
        if kind == _MODULE:
            unexpected = handler.value.load_state_dict(values[0], strict=False).unexpected_keys
            if unexpected:
                raise ValueError("%s of this process has no %s" % (name, ", ".join(unexpected)))
        elif kind == _OPTIMIZER:
            _put_optimizer(handler.value, *values)
        else:
            handler.load(values[0])


def _put_optimizer(optimizer: torch.optim.Optimizer, groups: Any, states: Mapping[Any, Any]) -> None:
    set_hyperparameters(optimizer, groups)
    for (i, j), state in states.items():
        parameter = optimizer.param_groups[i]["params"][j]
        optimizer.state.pop(parameter, None)
        if state:
            optimizer.state[parameter] = state


def _owners(equal: Mapping[str, Unit]) -> Tuple[Set[str], Set[str]]:
    """Returns the names that modules and optimizers with units have in the State."""
    return {key.partition(".")[0] for key in equal}, {unit.name for unit in equal.values() if unit.name}
