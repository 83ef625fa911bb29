# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""State: all that changes while training, in one object that can be committed, restored and sent."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional

import torch

from .core import Core


class State:
    """All that changes while training: what newcomers need, and what a failure takes back.

        state = State(model=model, optimizer=optimizer, sampler=sampler, step=0, epoch=0)

    Each argument becomes an attribute. How it is copied depends on its type, see
    register_handler: modules, optimizers, schedulers, GradScaler, samplers, RNG
    and whatever has state_dict and load_state_dict keep their identity; other
    values are replaced. What could not be read back from a checkpoint, or sent
    to a newcomer, is refused at once: see the package's README for the types.

    step, samples, epoch, total_steps and loss, where they are there, are
    reported to Kolo at each commit.
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
        """Saves the state in memory; here the group may change.

        All ranks call it equally often, after the optimizer's step. With every=n
        only each n-th call does something.
        """
        self._core.commit(every)

    def check(self) -> None:
        """Lets the group change here as commit does, without saving the state: a failure goes further back."""
        self._core.check()

    def save(self) -> None:
        """Saves the state in memory without anything else, such as after a checkpoint has been loaded."""
        self._core.save()

    def restore(self) -> None:
        """Goes back to what was last saved. Without that, nothing changes."""
        self._core.restore()

    def load(self, tree: Dict[str, Any]) -> None:
        """Sets the values that tree() has returned; names that State does not have are left out."""
        self._core.load(tree)

    def tree(self, shared: bool = False) -> Dict[str, Any]:
        """The live values by name, as nested containers of tensors; shared: only what newcomers get."""
        return self._core.tree(shared)

    def epochs(self, count: int) -> Iterator[int]:
        """Yields the epochs that are left of count, beginning with the present one.

        After each, state.epoch is one more and every sampler begins again. A
        loop that is left in the middle of an epoch goes on there.
        """
        if "epoch" not in self._core.handlers:
            raise AttributeError("state.epochs() counts in state.epoch: give State epoch=0")
        while self.epoch < count:
            yield self.epoch
            self.epoch += 1
            for sampler in self._core.samplers():
                sampler.set_epoch(self.epoch)

    def batches(self, loader: Iterable[Any], samples: Optional[Callable[[Any], int]] = None) -> Iterator[Any]:
        """Yields the batches of a loader and records each in the samplers of this state, and in state.samples.

        A batch counts as soon as the loop's body has it, so that the commit at
        the end of the body includes it. samples returns the number of samples of
        a batch; by default it is the length of the first tensor in it.
        """
        for batch in loader:
            count = samples(batch) if samples else _length(batch)
            for sampler in self._core.samplers():
                sampler.record(count)
            if "samples" in self._core.handlers:
                session = self._core.session
                self.samples += count * (session.size if session is not None else 1)
            yield batch

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions that each member calls when the group has changed.

        They run after the new group has formed and before the state is sent, so
        that what they change, such as a learning rate, reaches newcomers. Newcomers
        do not call them.
        """
        self._core.callbacks.extend(callbacks)

    def report(self) -> Dict[str, Any]:
        """What a commit reports as progress."""
        return self._core.report()

    def modules(self) -> List[torch.nn.Module]:
        """The modules of the state."""
        return self._core.modules()


def core_of(state: State) -> Core:
    """What is behind a State, for the rest of the package. As an attribute it could not be the name of a value."""
    return state._core


def _length(batch: Any) -> int:
    """The number of samples of a batch."""
    if isinstance(batch, torch.Tensor):
        return len(batch)
    values = batch.values() if hasattr(batch, "values") else batch if isinstance(batch, (list, tuple)) else ()
    for value in values:
        if isinstance(value, (torch.Tensor, list, tuple, dict)):
            return _length(value)
    if values and isinstance(batch, (list, tuple)):
        return len(batch)
    raise TypeError("cannot see the number of samples of a %s: use state.batches(loader, samples=function)" % type(batch))
