# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Handlers, with which a State copies and sets its values."""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
from typing import Any, Callable, Dict, Iterable, Iterator, List, Tuple, Type, Union

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

from .. import compat
from ..adaptive.batch import AdaptiveBatch
from ..context import context
from ..sampler import Progress
from .tree import without_class
from .values import Refused

ZERO = ("a ZeroRedundancyOptimizer has a part of its state on each rank of one group, which is lost when the group changes. Use the optimizer "
        "that it was given, made before the function; or, where its state is too large for one rank, FSDP2 by kolo.Sharded")


def is_zero(value: Any) -> bool:
    """Whether a value is a ZeroRedundancyOptimizer, whose module few scripts import."""
    return any(kind.__name__ == "ZeroRedundancyOptimizer" for kind in type(value).__mro__)


class Handler:
    """Copies and sets one object of a State.

    tree() returns the object as nested values of the types that a State may hold;
    its tensors may share memory with the object. It is also called when the State
    is made, before there is a group. load() sets the object from such a tree, and
    may keep the tree's tensors, unless copies is set.
    """

    copies = False  # load() copies the tensors instead of keeping them
    shared = True  # newcomers get it from a member; otherwise each process has its own
    fixed_batch = ""  # why an AdaptiveBatch cannot be in the same State; empty if it can

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree(self) -> Any:
        raise NotImplementedError

    def load(self, tree: Any) -> None:
        raise NotImplementedError

    def tensors(self) -> Iterable[torch.Tensor]:
        """Returns large tensors that tree() will contain, as far as known. Memory for their copies is allocated in advance."""
        return ()

    def stepped(self) -> Iterable[torch.Tensor]:
        """For divided objects: returns tensors of tree() that only an optimizer's step changes. Their copies may be made until the next step."""
        return ()

    @property
    def parts(self) -> bool:
        """Whether the object is divided among the members of a replica. Members at the same place in all replicas hold the same part."""
        return False

    def common(self) -> Any:
        """For divided objects: returns the values that are not divided. Newcomers receive them like any other value."""
        return self.tree()

    @property
    def shares(self) -> bool:
        """Whether each member has a different share of the object. Members then compare and send only common()."""
        return False

    def begin(self) -> None:
        """For divided objects: forgets this process's part, when a training begins from nothing."""

    def write(self) -> None:
        """For divided objects: called on all members before a checkpoint is written."""

    def commit(self) -> Any:
        """Called on all members at a commit, before tree(). Returns whether it has written a checkpoint.

        If a member is lost, the others go back to the last checkpoint.
        """

    @property
    def sealed(self) -> bool:
        """Whether members can leave their group without a call of commit(), because tree() is enough to go on."""
        return False

    def keep(self, tree: Any, path: str) -> Any:
        """Returns the tree for a checkpoint at path, given the tree of a commit. The result must outlast this training."""
        return tree

    def kept(self, tree: Any, path: str) -> None:
        """Called when a checkpoint with this tree is at path."""

    def reset(self) -> Any:
        """Called on all members when their group has formed and the state is equal. Returns whether it has changed the state."""

    def drop(self) -> None:
        """Called when this process leaves its group."""


class StateDictHandler(Handler):
    """Any object with state_dict() and load_state_dict(), such as EMA or a stateful data loader."""

    def tree(self) -> Any:
        return self.value.state_dict()

    def load(self, tree: Any) -> None:
        self.value.load_state_dict(tree)


class ModuleHandler(StateDictHandler):
    """A module. Its gradients do not outlive a group, because they may be views of DistributedDataParallel's buckets."""

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
    """An optimizer. Its parameters and its state change only in its step."""

    def __init__(self, value: torch.optim.Optimizer) -> None:
        super().__init__(value)
        if is_zero(value):
            raise Refused(ZERO)
        for parameter in self.parameters():
            without_class(parameter)  # its state will have the same class

    def tensors(self) -> Iterable[torch.Tensor]:
        return (tensor for kept in self.value.state.values() if isinstance(kept, dict)
                for tensor in kept.values() if isinstance(tensor, torch.Tensor))

    def parameters(self) -> Iterator[torch.Tensor]:
        return (parameter for group in self.value.param_groups for parameter in group["params"])


class ScalerHandler(StateDictHandler):
    """A GradScaler. It forgets which gradients are unscaled, because gradients do not outlive a group."""

    fixed_batch = "a GradScaler scales the gradients whose norms are measured: use bfloat16, which needs none"

    def drop(self) -> None:
        compat.forget_unscaled(self.value)


class SchedulerHandler(StateDictHandler):
    """A learning-rate scheduler. Functions in the state dicts of some schedulers are left out."""

    def tree(self) -> Any:
        return {name: value for name, value in self.value.state_dict().items() if not callable(value)}


class SamplerHandler(StateDictHandler):
    """An ElasticSampler or ElasticIterable."""

    def reset(self) -> None:
        self.value.reset()


class BatchHandler(StateDictHandler):
    """An AdaptiveBatch."""

    fixed_batch = "a State has one AdaptiveBatch"

    def reset(self) -> None:
        self.value.reset()

    def drop(self) -> None:
        self.value.drop()


class DistributedSamplerHandler(Handler):
    """A sampler that does not report its position within the epoch. It is refused."""

    def __init__(self, value: Any) -> None:
        raise Refused("a DistributedSampler is bound to one group, and begins its epoch again in the next one; use kolo.ElasticSampler")


class ValueHandler(Handler):
    """A plain value, such as a step counter."""

    def tree(self) -> Any:
        return self.value

    def load(self, tree: Any) -> None:
        self.value = tree


class RNG:
    """The state of the random number generators of this process: torch (CPU and CUDA), random and numpy.

    As part of a State (rng=kolo.RNG()), it makes a step that is repeated after a
    failure draw the same numbers. Each rank, also a newcomer, has its own
    generators.
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
    (lambda value: isinstance(value, DistributedSampler) and not _has_state_dict(value), DistributedSamplerHandler),
    (compat.is_scaler, ScalerHandler),
    (AdaptiveBatch, BatchHandler),
    (RNG, RNGHandler),
    (_has_state_dict, StateDictHandler),
]


def register_handler(match: _Match, handler: Type[Handler]) -> None:
    """Makes State use handler for objects that match: of these types, or for which match returns true.

    The handler that was registered last is tried first; the package's own handlers
    are tried after all of them.
    """
    context.handlers.insert(0, (match, handler))


def handler_for(value: Any) -> Handler:
    """Returns the first handler that matches a value, or a ValueHandler."""
    handlers: List[Tuple[_Match, Type[Handler]]] = context.handlers + _own
    for match, handler in handlers:
        if isinstance(value, match) if isinstance(match, (type, tuple)) else match(value):
            return handler(value)
    return ValueHandler(value)
