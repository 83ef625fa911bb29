# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""State: everything that changes while training, in one object that can be committed, restored and sent."""

from __future__ import annotations

from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Optional

import torch

from .. import reporting
from .core import Core


class State:
    """Everything that changes while training. Newcomers receive it, and a failure restores it.

        state = State(model=model, optimizer=optimizer, sampler=sampler, step=0, epoch=0)

    Each argument becomes an attribute. How it is copied depends on its type; see
    register_handler. Modules, optimizers, schedulers, GradScaler, samplers, RNG and
    other objects with state_dict and load_state_dict keep their identity. Other
    values are replaced.

    Values of types that a checkpoint or a newcomer could not read are refused at
    once. The package's README lists the types.

    Each commit reports step, samples, epoch, total_steps and loss to Kolo, as far
    as the State holds them. With an AdaptiveBatch, samples are its work, and it reports
    the batch, too.
    """

    def __init__(self, **values: Any) -> None:
        self._core = Core()
        for name, value in values.items():
            if name.startswith("_") or hasattr(type(self), name):
                raise ValueError("%r cannot be the name of a value of State" % name)
            self._core.admit(name, value)

    def __getattr__(self, name: str) -> Any:
        core = self.__dict__.get("_core")
        if core is not None and name in core.handlers:
            return core.handlers[name].value
        raise AttributeError("State has no %r: give it to State(...) so that it is committed" % name)

    def __setattr__(self, name: str, value: Any) -> None:
        core = self.__dict__.get("_core")
        if core is not None and name in core.handlers:
            core.admit(name, value)
        elif name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            raise AttributeError("State has no %r: give it to State(...) so that it is committed" % name)

    def commit(self, every: int = 1) -> None:
        """Saves the state in memory. The group may change here.

        All ranks call it equally often, after the optimizer's step. With every=n, only
        every n-th call has an effect.
        """
        self._core.commit(every)

    def check(self) -> None:
        """Lets the group change here, as commit does, but does not save the state. So a failure still goes back to the last commit."""
        self._core.check()

    def slow(self, reason: str) -> ContextManager[None]:
        """Announces that the next step takes long on purpose, for example because of an evaluation.

            with state.slow("evaluation"):
                evaluate(state.model)

        While the block runs on any rank, stall_timeout = "auto" does not break the group,
        for at most an hour. It has no effect on a fixed stall_timeout. The block must end
        before the next commit.
        """
        return reporting.slow(reason)

    def save(self) -> None:
        """Saves the state in memory, such as after loading a checkpoint. The group does not change here."""
        self._core.save()

    def restore(self) -> None:
        """Goes back to the last saved state. Does nothing if there is none."""
        self._core.restore()

    def load(self, tree: Dict[str, Any]) -> None:
        """Sets the values that tree() has returned. Ignores names that the State does not have."""
        self._core.load(tree)

    def tree(self, shared: bool = False) -> Dict[str, Any]:
        """Returns the live values by name, as nested containers of tensors. With shared, only values that newcomers receive."""
        return self._core.tree(shared)

    def epochs(self, count: int) -> Iterator[int]:
        """Yields the remaining epochs of count, beginning with the current epoch.

        After each epoch, state.epoch grows by one and every sampler starts the next
        epoch. If the function is left within an epoch, the next call goes on there.
        """
        if "epoch" not in self._core.handlers:
            raise AttributeError("state.epochs() counts in state.epoch: give State epoch=0")
        while self.epoch < count:
            yield self.epoch
            self.epoch += 1
            for sampler in self._core.samplers():
                sampler.set_epoch(self.epoch)

    def batches(self, loader: Any, samples: Optional[Callable[[Any], int]] = None) -> Iterator[Any]:
        """Yields the batches of a loader and records each in the samplers of this state, and in state.samples.

        A batch is recorded before the loop's body runs, so that the commit at the end
        of the body includes it. samples returns the number of samples of a batch; by
        default it is the length of the first tensor in it.

        With an AdaptiveBatch in the state, loader is a function that makes a loader for a
        number of samples. It is called again when that number changes.
        """
        adaptive = self._core.batch
        for batch in loader if adaptive is None else adaptive.batches(loader):
            count = samples(batch) if samples else _length(batch)
            if adaptive is not None:
                adaptive.record(count)
            for sampler in self._core.samplers():
                sampler.record(count)
            if "samples" in self._core.handlers:
                session = self._core.session
                self.samples += count * (session.size if session is not None else 1)
            yield batch

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions that each member calls when the group has changed.

        They run after the new group has formed and before the state is sent. Newcomers
        do not call them, but receive their changes, such as a new learning rate.
        """
        self._core.callbacks.extend(callbacks)

    def report(self) -> Dict[str, Any]:
        """Returns the progress that a commit reports."""
        return self._core.report()

    def modules(self) -> List[torch.nn.Module]:
        """The modules of the state."""
        return self._core.modules()


def core_of(state: State) -> Core:
    """Returns the Core of a State. The attribute is private, so that a value may have any public name."""
    return state._core


def _length(batch: Any) -> int:
    """Returns the number of samples of a batch."""
    if isinstance(batch, torch.Tensor):
        return len(batch)
    values = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    for value in values:
        if isinstance(value, (torch.Tensor, list, tuple, dict)):
            return _length(value)
    if values and isinstance(batch, (list, tuple)):
        return len(batch)
    raise TypeError("cannot see the number of samples of a %s: use state.batches(loader, samples=function)" % type(batch))
