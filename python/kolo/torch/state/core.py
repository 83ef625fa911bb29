# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The core of a State: its values, its last commits in memory, and their numbers.

    script --> State --> Core <-- session, broadcast, background
                          |
              handlers, Snapshot, Ledger

Scripts see State only. The rest of the package works with its Core.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Tuple

import torch

from .. import reporting
from ..adaptive.batch import AdaptiveBatch
from . import transfer
from .handlers import BatchHandler, Handler, ModuleHandler, SamplerHandler, handler_for
from .ledger import NONE, Ledger
from .snapshot import NotWhole, Snapshot
from .tree import join, split
from .values import Refused


class Committing(Protocol):
    """The part of a session that a commit needs."""

    @property
    def size(self) -> int:
        """The number of members of the current group."""

    def verify(self) -> None:
        """Raises if the results of the group's collectives may be wrong."""

    def protect(self, number: int) -> None:
        """Called before the state is saved as the commit with this number. Gives other members copies of shares."""

    def committed(self) -> None:
        """Called when the state has been saved as a commit."""

    def check(self) -> None:
        """Raises if this process is to leave its group here."""


class Core:
    """The values of a State by name, each with its handler, and their last commits."""

    def __init__(self) -> None:
        self.handlers: Dict[str, Handler] = {}
        self.ledger = Ledger()
        self.calls = 0  # of commit(every) since the state was last saved
        self.callbacks: List[Callable[[], None]] = []
        self._snapshot = Snapshot()
        self._previous = Snapshot()  # the commit before the last, for replicas that failed at different ones
        self._checkpoint: Optional[Tuple[int, Dict[str, Any]]] = None  # number and values of the last one that handlers have written
        self._session: Optional["weakref.ref[Committing]"] = None

    def admit(self, name: str, value: Any) -> None:
        """Makes value part of the state under this name. Raises Refused, and changes nothing, for unsupported values."""
        try:
            handler = handler_for(value)
        except Refused as err:
            raise err.within("state." + name) from None
        split(handler.tree(), "state." + name)
        conflict = _conflict(handler, [other for key, other in self.handlers.items() if key != name])
        if conflict:
            raise Refused("in a State with an AdaptiveBatch, " + conflict).within("state." + name)
        self.handlers[name] = handler

    # The session.

    @property
    def session(self) -> Optional[Committing]:
        """The session in which this state is trained, or None."""
        return self._session() if self._session is not None else None

    def attach(self, session: Committing) -> None:
        """Makes commits take part in a session."""
        self._session = weakref.ref(session)

    def detach(self) -> None:
        """Makes commits only save the state, without a session."""
        self._session = None

    def commit(self, every: int) -> None:
        """Implements State.commit."""
        self.calls += 1
        if self.calls < every:
            return
        self._check_step()
        session = self.session
        if session is None:
            self.save()
            self.calls = 0
            return
        session.verify()
        written = self._write_commit(leaving=False)
        self.calls = 0
        session.protect(self.ledger.number + 1)
        self.keep(self.ledger.number + 1)
        if written:
            self.keep_checkpoint()
        session.committed()
        reporting.report(self.report())
        session.check()

    def check(self) -> None:
        """Implements State.check."""
        session = self.session
        if session is not None:
            self._check_step()
            self.ledger.change()
            session.verify()
            session.check()

    def _check_step(self) -> None:
        """Raises within a step of an AdaptiveBatch. A commit checks this first, so that a refused one has written nothing."""
        batch = self.batch
        if batch is not None:
            batch.check_step()

    # Commits.

    def save(self) -> None:
        """Saves the state in memory. The group does not change here."""
        self._snapshot.take(self.handlers)
        self.ledger.save()

    def keep(self, number: int) -> None:
        """Saves the state as the commit with this number."""
        keeps_previous = self.has_parts()
        if keeps_previous:
            self._snapshot, self._previous = self._previous, self._snapshot
        self._snapshot.take(self.handlers)
        self.ledger.commit(number, keeps_previous)

    def seal(self) -> None:
        """Commits the state with which members leave their group, if it differs from the last commit.

        A member that fails at this moment goes back to an earlier state, which must not have the same number.
        """
        if not self.ledger.fresh:
            written = self._write_commit(leaving=True)
            self.keep(self.ledger.number + 1)
            if written:
                self.keep_checkpoint()

    def keep_changes(self, number: int) -> None:
        """Makes the state the commit with this number. If anything but training has changed the state, saves it first."""
        if not self.ledger.fresh:
            self.save()
        self.ledger.agree(number)

    def restore(self) -> None:
        """Goes back to the last saved state. Does nothing if there is none."""
        if self.ledger.saved:
            self._snapshot.load(self.handlers)
            self.ledger.restore()
            self.calls = 0  # some ranks may have failed before a call of commit, others after it

    def recover(self) -> None:
        """Goes back to the last commit after a failure. If the commit is incomplete, a transport has to get the state from another member."""
        try:
            self.restore()
        except NotWhole:
            self.ledger.lose()

    def go_back(self) -> None:
        """Goes back to the commit before the last one, which only this process has."""
        self._snapshot, self._previous = self._previous, self._snapshot
        self.ledger.go_back()
        self.restore()

    def begin(self) -> None:
        """Begins a training, of which no process has a commit yet."""
        self.ledger.begin()
        for handler in self.handlers.values():
            handler.begin()

    def forget(self) -> None:
        """Marks the state as unusable, because another process's state is about to replace it part by part."""
        self.drop()
        self.ledger.forget()

    def take_over(self, number: int, fresh: bool) -> None:
        """Saves the state, which was received from another process, as that process's commit."""
        self._snapshot.take(self.handlers)
        self.ledger.take_over(number, fresh)

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that holds the last commit."""
        return self._snapshot

    def tensors(self) -> List[torch.Tensor]:
        """Returns the tensors that make up most of a commit of the present values."""
        return [tensor for handler in self.handlers.values() for tensor in handler.tensors()]

    def _write_commit(self, leaving: bool) -> bool:
        """Makes handlers write a checkpoint if one is due. Returns whether any handler has written one.

        When members leave their group, only handlers that need the checkpoint for it
        write one.
        """
        written = False
        for handler in self.handlers.values():
            if not (leaving and handler.sealed):
                written = bool(handler.commit()) or written
        return written

    # Checkpoints to which a lost member takes the others back.

    @property
    def checkpoint(self) -> int:
        """The number of the commit that was last written as a checkpoint; negative if there is none."""
        return self._checkpoint[0] if self._checkpoint is not None else NONE

    @property
    def held(self) -> int:
        """The number of the last commit or checkpoint from which this process can go on; NONE or LOST if there is none."""
        return self.checkpoint if self.ledger.held < 0 <= self.checkpoint else self.ledger.held

    def keep_checkpoint(self) -> None:
        """Copies the values that belong to the checkpoint that was written for the last commit."""
        self._checkpoint = self.ledger.number, _copy(self._common())

    def load_checkpoint(self) -> None:
        """Sets the values to those of the checkpoint. A value of which each member has a share is read later, by reset()."""
        if self._checkpoint is not None:
            self.load(_copy(self._checkpoint[1]))

    def shared_checkpoint(self) -> Any:
        """Returns number and values of the checkpoint, for take_checkpoint() on another member."""
        number, tree = self._checkpoint or (NONE, {})
        return number, {name: tree[name] for name, handler in self.handlers.items() if handler.shared and name in tree}

    def take_checkpoint(self, shared: Any) -> None:
        """Takes over another member's checkpoint: its number and its shared values. Values that each member keeps for itself stay."""
        number, tree = shared
        own = self._checkpoint[1] if self._checkpoint is not None else self._common()
        self._checkpoint = number, {**own, **tree}

    def forget_checkpoint(self) -> None:
        """Forgets the checkpoint, because it is not the group's checkpoint."""
        self._checkpoint = None

    # Values.

    def tree(self, shared: bool = False) -> Dict[str, Any]:
        """Returns the live values by name, as nested containers of tensors. With shared, only values that newcomers receive."""
        if not shared:
            return {name: h.tree() for name, h in self.handlers.items()}
        return {name: tree for name, tree in self._common().items() if self.handlers[name].shared}

    def _common(self) -> Dict[str, Any]:
        """Returns the live values by name, without the parts and shares of divided values."""
        return {name: h.common() if h.parts or h.shares else h.tree() for name, h in self.handlers.items()}

    def load(self, tree: Mapping[str, Any]) -> None:
        """Sets the values that tree() has returned. Ignores names that the state does not have."""
        self._snapshot.settle()
        for name, handler in self.handlers.items():
            if name in tree:
                handler.load(tree[name])
        self.ledger.change()

    def receive(self, move: transfer.Move) -> Any:
        """Receives the shared values from another member that calls send(), and returns its more. The next commit reuses the memory."""
        spare = self._snapshot.spare
        tree, self.calls, more = transfer.receive(move, spare=spare)
        self.load(tree)
        for name, handler in self.handlers.items():
            if name in tree and handler.copies:
                spare.add(split(tree[name])[1])
        return more

    def follow(self, calls: int) -> None:
        """Records that the values now come from another member. calls is how often it has called commit since it last saved."""
        self.calls = calls
        self.ledger.change()

    def send(self, move: transfer.Move, more: Any = None) -> None:
        """Sends the shared values, and more, to members that call receive()."""
        transfer.send((self.tree(shared=True), self.calls, more), move)

    def has_parts(self) -> bool:
        """Whether some value is divided into parts among the members of a replica."""
        return any(handler.parts for handler in self.handlers.values())

    def has_shares(self) -> bool:
        """Whether some value is divided into shares, of which each member has a different one."""
        return any(handler.shares for handler in self.handlers.values())

    def parts(self) -> Dict[str, Any]:
        """Returns the values of which this process holds a part, in the form of tree()."""
        return {name: handler.tree() for name, handler in self.handlers.items() if handler.parts}

    def values(self, kind: type) -> List[Any]:
        """Returns the values that have a handler of this kind."""
        return [handler.value for handler in self.handlers.values() if isinstance(handler, kind)]

    def modules(self) -> List[torch.nn.Module]:
        """The modules of the state."""
        return self.values(ModuleHandler)

    def samplers(self) -> List[Any]:
        """The samplers of the state."""
        return self.values(SamplerHandler)

    @property
    def batch(self) -> Optional[AdaptiveBatch]:
        """The AdaptiveBatch of the state; None if its batches do not adapt."""
        return next(iter(self.values(BatchHandler)), None)

    def report(self) -> Dict[str, Any]:
        """Returns the progress that a commit reports."""
        fields = {name: self.handlers[name].value for name in reporting.FIELDS if name in self.handlers}
        return fields if self.batch is None else {**fields, "samples": self.batch.work, "adaptive": self.batch.report()}

    # Checkpoints.

    def write_parts(self) -> None:
        """Makes handlers write values that are divided among processes, before a checkpoint. All members call it."""
        for handler in self.handlers.values():
            if handler.parts:
                handler.write()

    def kept(self, path: str) -> Dict[str, Any]:
        """Returns the content of a checkpoint at path.

        It consists of the live values, or of the last commit if a handler has written
        files for that commit; the handler then keeps the files for the checkpoint.
        """
        whole = self.has_parts() or all(type(handler).keep is Handler.keep for handler in self.handlers.values())
        if not whole and not self.ledger.saved:
            raise RuntimeError("a state with a sharded model has no commit to write yet")
        tree = self.tree() if whole else self._snapshot.tree() if self._checkpoint is None else self._checkpoint[1]
        return {name: handler.keep(tree[name], path) for name, handler in self.handlers.items()}

    def checkpointed(self, tree: Mapping[str, Any], path: str) -> None:
        """Informs handlers that a checkpoint with this tree is at path."""
        for name, handler in self.handlers.items():
            handler.kept(tree[name], path)

    # Changes of the group.

    def call_back(self) -> None:
        """Runs the reset callbacks."""
        if self.callbacks:
            self._snapshot.settle()
        for callback in self.callbacks:
            self.ledger.change()
            callback()

    def reset(self) -> None:
        """Makes handlers construct, for the current group, anything that is bound to a group."""
        for handler in self.handlers.values():
            if handler.reset():
                self.ledger.change()

    def drop(self) -> None:
        """Makes handlers forget anything that is bound to the group that this process leaves."""
        reporting.flush()
        if not self.has_shares():  # shares stay as they are until the next group has its own, so the copy goes on while that forms
            self._snapshot.settle()
        for handler in self.handlers.values():
            handler.drop()


def _conflict(handler: Handler, others: List[Handler]) -> str:
    """Returns why a value cannot be in a State with these others; empty if it can."""
    if isinstance(handler, BatchHandler):
        return next((other.fixed_batch for other in others if other.fixed_batch), "")
    return handler.fixed_batch if any(isinstance(other, BatchHandler) for other in others) else ""


def _copy(tree: Dict[str, Any]) -> Dict[str, Any]:
    skeleton, live = split(tree)
    copies = [tensor.clone() for tensor in live]
    copied: Dict[str, Any] = join(skeleton, lambda number: copies[number])
    return copied
