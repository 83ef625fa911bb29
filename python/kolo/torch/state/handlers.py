# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Handlers: how State copies and sets what it holds."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple, Type, Union

import torch
from torch.nn.parallel import DistributedDataParallel

from .. import compat
from ..context import context
from ..sampler import Progress
from .tree import without_class
from .values import Refused


class Handler:
    """Copies and sets one object of a State.

    tree() returns it as nested values of the types that a State may hold; the
    tensors may be the live ones. It is called when the State is made, before
    there is a group, too. load() sets it from such a tree, whose tensors it may
    keep unless copies is set.
    """

    copies = False  # load() copies the tensors, and so does not keep them
    shared = True  # newcomers get it from a member; else each process has its own

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree(self) -> Any:
        raise NotImplementedError

    def load(self, tree: Any) -> None:
        raise NotImplementedError

    def tensors(self) -> Iterable[torch.Tensor]:
        """Large tensors that tree() will have, as far as they are known: memory for their copies is prepared ahead."""
        return ()

    @property
    def parts(self) -> bool:
        """Whether each member of a replica has a part of it, the same as the member with its place in another replica."""
        return False

    def common(self) -> Any:
        """Of such an object, what is no part: newcomers get it as they get all of others."""
        return self.tree()

    @property
    def shares(self) -> bool:
        """Whether each member has a share of it that no other has: common() is what members compare and send."""
        return False

    def begin(self) -> None:
        """Forgets the part of such an object: no replica has all of them, and nothing was trained yet."""

    def write(self) -> None:
        """Is called on all members before a checkpoint with such an object is written."""

    def commit(self) -> Any:
        """Is called on all members at a commit, before tree(); true: it has written a checkpoint, to which a lost member takes the others back."""

    @property
    def sealed(self) -> bool:
        """Whether members can leave their group with tree() alone, without commit()."""
        return False

    def keep(self, tree: Any, path: str) -> Any:
        """Returns a tree for the checkpoint at path, of one that a commit has: it has to outlast this training."""
        return tree

    def kept(self, tree: Any, path: str) -> None:
        """Is called when a checkpoint with this tree is at path."""

    def reset(self) -> Any:
        """Is called on all members when their group has formed and the state is equal; true: it has changed."""

    def drop(self) -> None:
        """Is called when this process leaves its group."""


class StateDictHandler(Handler):
    """Whatever has state_dict() and load_state_dict(): EMA, stateful data loaders."""

    def tree(self) -> Any:
        return self.value.state_dict()

    def load(self, tree: Any) -> None:
        self.value.load_state_dict(tree)


class ModuleHandler(StateDictHandler):
    """A module. Gradients do not outlive the group: they may be views of the old one's buckets."""

    copies = True

    def __init__(self, value: torch.nn.Module) -> None:
        super().__init__(value)
        for kind in {type(part) for part in value.modules()}:
            if issubclass(kind, DistributedDataParallel):
                raise Refused("a %s is bound to one group. Give State the module itself, and wrap it in the function: "
                              "ddp = kolo.wrap(state.model)" % kind.__name__)
            if kind.__name__ == "FullyShardedDataParallel":
                raise Refused("FullyShardedDataParallel (FSDP1) is not supported: shard the model with fully_shard (FSDP2), "
                              "by kolo.Sharded")

    def tensors(self) -> Iterable[torch.Tensor]:
        return compat.registered(self.value)

    def drop(self) -> None:
        for parameter in self.value.parameters():
            parameter.grad = None


class OptimizerHandler(StateDictHandler):
    """An optimizer. Its parameters and its state change in its step only."""

    def __init__(self, value: torch.optim.Optimizer) -> None:
        super().__init__(value)
        for parameter in self.parameters():
            without_class(parameter)  # its state will be of the same kind

    def tensors(self) -> Iterable[torch.Tensor]:
        return (tensor for kept in self.value.state.values() if isinstance(kept, dict)
                for tensor in kept.values() if isinstance(tensor, torch.Tensor))

    def parameters(self) -> Iterator[torch.Tensor]:
        return (parameter for group in self.value.param_groups for parameter in group["params"])


class ScalerHandler(StateDictHandler):
    """A GradScaler. That gradients are unscaled does not outlive the group, since they do not."""

    def drop(self) -> None:
        compat.forget_unscaled(self.value)


class SchedulerHandler(StateDictHandler):
    """A learning rate's scheduler. Functions that it was made with are not part of its state, though some have them there."""

    def tree(self) -> Any:
        return {name: value for name, value in self.value.state_dict().items() if not callable(value)}


class SamplerHandler(StateDictHandler):
    """An ElasticSampler or ElasticIterable."""

    def reset(self) -> None:
        self.value.reset()


class ValueHandler(Handler):
    """A plain value, such as a step counter."""

    def tree(self) -> Any:
        return self.value

    def load(self, tree: Any) -> None:
        self.value = tree


class RNG:
    """The state of the random number generators of this process: torch (CPU and CUDA), random and numpy.

    Part of a State (rng=kolo.RNG()), it makes a step that is done again after a
    failure draw the same numbers. Each rank keeps its own; newcomers keep theirs.
    """

    def state_dict(self) -> Dict[str, Any]:
        state: Dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state["cuda"] = torch.cuda.get_rng_state()
        numpy = sys.modules.get("numpy")
        if numpy is not None:
            kind, keys, *rest = numpy.random.get_state()
            state["numpy"] = (kind, torch.tensor(keys.tolist()), *rest)  # can be read without numpy
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        random.setstate(state["python"])
        if "cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["cuda"])
        if "numpy" in state and importlib.util.find_spec("numpy"):
            kind, keys, *rest = state["numpy"]
            importlib.import_module("numpy").random.set_state((kind, keys.tolist(), *rest))


class RNGHandler(StateDictHandler):
    shared = False


def _has_state_dict(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in ("state_dict", "load_state_dict"))


_Match = Union[type, Tuple[type, ...], Callable[[Any], bool]]
_own: List[Tuple[_Match, Type[Handler]]] = [
    (torch.nn.Module, ModuleHandler),
    (torch.optim.Optimizer, OptimizerHandler),
    ((torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau), SchedulerHandler),
    (Progress, SamplerHandler),
    (compat.is_scaler, ScalerHandler),
    (RNG, RNGHandler),
    (_has_state_dict, StateDictHandler),
]


def register_handler(match: _Match, handler: Type[Handler]) -> None:
    """Makes State use handler for objects of a type, or for which a function returns true.

    Handlers that were registered last are asked first, and all of them before
    the package's own.
    """
    context.handlers.insert(0, (match, handler))


def handler_for(value: Any) -> Handler:
    """The handler for a value: the first that matches, for all else ValueHandler."""
    handlers: List[Tuple[_Match, Type[Handler]]] = context.handlers + _own
    for match, handler in handlers:
        if isinstance(value, match) if isinstance(match, (type, tuple)) else match(value):
            return handler(value)
    return ValueHandler(value)
