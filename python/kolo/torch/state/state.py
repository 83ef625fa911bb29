# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""State: all that changes while training, in one object that can be committed, restored and sent."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional

import torch

from . import transfer
from .. import reporting
from .handlers import Handler, ModuleHandler, SamplerHandler, ValueHandler, handler_for
from .snapshot import NotWhole, Snapshot
from .tree import split
from .values import Refused

if TYPE_CHECKING:
    from ..session import Session

# In place of the number of a commit: this process was in a group that trains, and does not have its state.
LOST = -2


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
        self._handlers: Dict[str, Handler] = {}
        self._snapshot = Snapshot()
        self._previous = Snapshot()  # the commit before the last, where replicas have to agree on one
        self._before = -1  # number of that one; -1: there is none
        self._saved = False  # there is something to restore
        self._fresh = False  # nothing but training has changed the state since it was saved
        self._commits = -1  # number of the last commit; -1: not of any group yet
        self._calls = 0  # of commit since it saved, for its argument every
        self._callbacks: List[Callable[[], None]] = []
        self._session: Optional["weakref.ref[Session]"] = None
        for name, value in values.items():
            if name.startswith("_") or hasattr(type(self), name):
                raise ValueError("%r cannot be the name of a value of State" % name)
            self._handlers[name] = _admitted(name, value)

    def __getattr__(self, name: str) -> Any:
        handlers = self.__dict__.get("_handlers", {})
        if name in handlers:
            return handlers[name].value
        raise AttributeError("State has no %r: give it to State(...) so that it is committed" % name)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is None:
            if not name.startswith("_"):
                raise AttributeError("State has no %r: give it to State(...) so that it is committed" % name)
            object.__setattr__(self, name, value)
        else:
            self._handlers[name] = _admitted(name, value)

    def commit(self, every: int = 1) -> None:
        """Saves the state in memory; here the group may change.

        All ranks call it equally often, after the optimizer's step. With every=n
        only each n-th call does something.
        """
        self._calls += 1
        if self._calls < every:
            return
        session = self._session and self._session()
        if session:
            session.verify()
            for handler in self._handlers.values():
                handler.commit()
        if not session:
            self.save()
        self._calls = 0
        if session:
            self._keep(self._commits + 1)
            session.failures = 0
            reporting.report(self.report())
            session.check()

    def check(self) -> None:
        """Lets the group change here as commit does, without saving the state: a failure goes further back."""
        session = self._session and self._session()
        if session:
            self._fresh = False
            session.verify()
            session.check()

    def save(self) -> None:
        """Saves the state in memory without anything else, as after a checkpoint has been loaded."""
        self._snapshot.take(self._handlers)
        self._saved = self._fresh = True

    def _keep(self, number: int) -> None:
        """Saves the state as the commit of this number."""
        if self._has_parts():
            self._snapshot, self._previous = self._previous, self._snapshot
            self._before = self._held()
        self.save()
        self._commits = number

    def _go_back(self) -> None:
        """Makes the commit before the last the last one again; the other is that of this process alone."""
        self._snapshot, self._previous = self._previous, self._snapshot
        self._commits, self._before = self._before, -1
        self.restore()

    def _has_parts(self) -> bool:
        """Whether members of a replica have parts of some value."""
        return any(handler.parts for handler in self._handlers.values())

    def _parts(self) -> Dict[str, Any]:
        """The values of which this process has a part, as tree()."""
        return {name: handler.tree() for name, handler in self._handlers.items() if handler.parts}

    def _write_parts(self) -> None:
        for handler in self._handlers.values():
            if handler.parts:
                handler.write()

    def _begin(self) -> None:
        """Begins a training, whatever this process has of it: none has got further than this."""
        self._commits = self._before = -1
        for handler in self._handlers.values():
            handler.begin()

    def restore(self) -> None:
        """Goes back to what was last saved. Without that, nothing changes."""
        if self._saved:
            self._snapshot.load(self._handlers)
            self._fresh = True
            self._calls = 0  # ranks may have failed on both sides of a call

    def _seal(self) -> None:
        """Makes the state with which members leave their group a commit, if it is none.

        A member that fails at this moment goes back further, and must not be taken for equal.
        """
        if self._fresh:
            return
        for handler in self._handlers.values():
            handler.commit()
        self._keep(self._commits + 1)

    def _recover(self) -> None:
        """Goes back to the last commit after a failure, or leaves it to sync to get it from another member."""
        try:
            self.restore()
        except NotWhole:
            self._commits = LOST

    def load(self, tree: Dict[str, Any]) -> None:
        """Sets the values that tree() has returned; names that State does not have are left out."""
        self._snapshot.settle()
        for name, handler in self._handlers.items():
            if name in tree:
                handler.load(tree[name])
        self._fresh = False

    def tree(self, shared: bool = False) -> Dict[str, Any]:
        """The live values by name, as nested containers of tensors; shared: only what newcomers get."""
        if not shared:
            return {name: h.tree() for name, h in self._handlers.items()}
        return {name: h.common() if h.parts else h.tree() for name, h in self._handlers.items() if h.shared}

    def _tensors(self) -> List[torch.Tensor]:
        """The tensors that make most of a commit of what is there now."""
        return [tensor for handler in self._handlers.values() for tensor in handler.tensors()]

    def _receive(self, move: transfer.Move) -> None:
        """Takes the shared values from another member, in memory that the next commit uses again."""
        tree, self._calls = transfer.receive(move, spare=self._snapshot.spare)
        self.load(tree)
        for name, handler in self._handlers.items():
            if name in tree and handler.copies:
                self._snapshot.spare.add(split(tree[name])[1])

    def _kept(self, path: str) -> Dict[str, Any]:
        """What a checkpoint has: the live values, or where a handler has to keep what a commit has written, that commit."""
        whole = self._has_parts() or all(type(handler).keep is Handler.keep for handler in self._handlers.values())
        if not whole and not self._saved:
            raise RuntimeError("a state with a sharded model has no commit to write yet")
        tree = self.tree() if whole else self._snapshot.tree()
        return {name: handler.keep(tree[name], path) for name, handler in self._handlers.items()}

    def epochs(self, count: int) -> Iterator[int]:
        """Yields the epochs that are left of count, beginning with the present one.

        After each, state.epoch is one more and every sampler begins again. A
        loop that is left in the middle of an epoch goes on there.
        """
        if "epoch" not in self._handlers:
            raise AttributeError("state.epochs() counts in state.epoch: give State epoch=0")
        while self.epoch < count:
            yield self.epoch
            self.epoch += 1
            for sampler in self._samplers():
                sampler.set_epoch(self.epoch)

    def batches(self, loader: Iterable[Any], samples: Optional[Callable[[Any], int]] = None) -> Iterator[Any]:
        """Yields the batches of a loader and records each in the samplers of this state, and in state.samples.

        A batch counts as soon as the loop's body has it, so that the commit at
        the end of the body includes it. samples returns the number of samples of
        a batch; by default it is the length of the first tensor in it.
        """
        for batch in loader:
            count = samples(batch) if samples else _length(batch)
            for sampler in self._samplers():
                sampler.record(count)
            if "samples" in self._handlers:
                session = self._session and self._session()
                self.samples += count * (session.size if session else 1)
            yield batch

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """Adds functions that each member calls when the group has changed.

        They run after the new group has formed and before the state is sent, so
        that what they change, as a learning rate, reaches newcomers. Newcomers do
        not call them.
        """
        self._callbacks.extend(callbacks)

    def report(self) -> Dict[str, Any]:
        """What a commit reports as progress."""
        names = [name for name in reporting.FIELDS if name in self._handlers]
        return {name: self._handlers[name].value for name in names}

    def modules(self) -> List[torch.nn.Module]:
        return [handler.value for handler in self._handlers.values() if isinstance(handler, ModuleHandler)]

    def _samplers(self) -> List[Any]:
        return [handler.value for handler in self._handlers.values() if isinstance(handler, SamplerHandler)]

    def _held(self) -> int:
        """The number of the last commit, if it can be restored; -1: of none yet; LOST."""
        return self._commits if self._saved or self._commits < 0 else LOST

    def _attach(self, session: "Session") -> None:
        self._session = weakref.ref(session)

    def _call_back(self) -> None:
        """Runs the reset callbacks."""
        for callback in self._callbacks:
            self._fresh = False
            callback()

    def _reset(self) -> None:
        for handler in self._handlers.values():
            if handler.reset():
                self._fresh = False

    def _drop(self) -> None:
        reporting.flush()
        self._snapshot.settle()
        for handler in self._handlers.values():
            handler.drop()


def _admitted(name: str, value: Any) -> Handler:
    """The handler for a value that can be part of a State under this name."""
    try:
        handler = handler_for(value)
    except Refused as err:
        raise err.within("state." + name)
    split(handler.tree(), "state." + name)
    return handler


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
