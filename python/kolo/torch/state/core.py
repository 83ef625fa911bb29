# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What is behind a State: its values, the last commits in memory, and their numbers.

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
from . import transfer
from .handlers import Handler, ModuleHandler, SamplerHandler, handler_for
from .ledger import NONE, Ledger
from .snapshot import NotWhole, Snapshot
from .tree import join, split
from .values import Refused


class Committing(Protocol):
    """What a commit needs of the session in which the state is trained."""

    @property
    def size(self) -> int:
        """The number of members of the present group."""

    def verify(self) -> None:
        """Raises if what the group has computed up to here may be wrong."""

    def protect(self, number: int) -> None:
        """Is called before the state is saved as the commit of this number: gives other members copies of what is shared out."""

    def committed(self) -> None:
        """Is called when the state has been saved as a commit."""

    def check(self) -> None:
        """Returns unless this process is to leave its group here."""


class Core:
    """The values of a State by name, each with its handler, and the last commits of them."""

    def __init__(self) -> None:
        self.handlers: Dict[str, Handler] = {}
        self.ledger = Ledger()
        self.calls = 0  # of commit since it saved, for its argument every
        self.callbacks: List[Callable[[], None]] = []
        self._snapshot = Snapshot()
        self._previous = Snapshot()  # the commit before the last, where replicas have to agree on one
        self._checkpoint: Optional[Tuple[int, Dict[str, Any]]] = None  # number and values of the last one that handlers have written
        self._session: Optional["weakref.ref[Committing]"] = None

    def admit(self, name: str, value: Any) -> None:
        """Makes value part of the state under this name. Raises Refused for what cannot be, and changes nothing then."""
        try:
            handler = handler_for(value)
        except Refused as err:
            raise err.within("state." + name) from None
        split(handler.tree(), "state." + name)
        self.handlers[name] = handler

    # The session.

    @property
    def session(self) -> Optional[Committing]:
        """The session in which this state is trained, if there is one."""
        return self._session() if self._session is not None else None

    def attach(self, session: Committing) -> None:
        """Makes commits those of a session."""
        self._session = weakref.ref(session)

    def detach(self) -> None:
        """Makes commits save only."""
        self._session = None

    def commit(self, every: int) -> None:
        """Does what State.commit describes."""
        self.calls += 1
        if self.calls < every:
            return
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
        """Does what State.check describes."""
        session = self.session
        if session is not None:
            self.ledger.change()
            session.verify()
            session.check()

    # Commits.

    def save(self) -> None:
        """Saves the state in memory without anything else."""
        self._snapshot.take(self.handlers)
        self.ledger.save()

    def keep(self, number: int) -> None:
        """Saves the state as the commit of this number."""
        keeps_previous = self.has_parts()
        if keeps_previous:
            self._snapshot, self._previous = self._previous, self._snapshot
        self._snapshot.take(self.handlers)
        self.ledger.commit(number, keeps_previous)

    def seal(self) -> None:
        """Makes the state with which members leave their group a commit, if it is none.

        A member that fails at this moment goes back further, and must not be taken for equal.
        """
        if not self.ledger.fresh:
            written = self._write_commit(leaving=True)
            self.keep(self.ledger.number + 1)
            if written:
                self.keep_checkpoint()

    def keep_changes(self, number: int) -> None:
        """Makes the state the commit of this number in all members; saves it if something else than training has changed it."""
        if not self.ledger.fresh:
            self.save()
        self.ledger.agree(number)

    def restore(self) -> None:
        """Goes back to what was last saved. Without that, nothing changes."""
        if self.ledger.saved:
            self._snapshot.load(self.handlers)
            self.ledger.restore()
            self.calls = 0  # ranks may have failed on both sides of a call

    def recover(self) -> None:
        """Goes back to the last commit after a failure, or leaves it to a transport to get it from another member."""
        try:
            self.restore()
        except NotWhole:
            self.ledger.lose()

    def go_back(self) -> None:
        """Makes the commit before the last the last one again; the other is that of this process alone."""
        self._snapshot, self._previous = self._previous, self._snapshot
        self.ledger.go_back()
        self.restore()

    def begin(self) -> None:
        """Begins a training, whatever this process has of it: none has got further than this."""
        self.ledger.begin()
        for handler in self.handlers.values():
            handler.begin()

    def forget(self) -> None:
        """Marks the state as one that must not be trained from: it is about to become partly that of others."""
        self.drop()
        self.ledger.forget()

    def take_over(self, number: int, fresh: bool) -> None:
        """Saves the state as the commit that another process has made of it."""
        self._snapshot.take(self.handlers)
        self.ledger.take_over(number, fresh)

    @property
    def snapshot(self) -> Snapshot:
        """The last commit."""
        return self._snapshot

    def tensors(self) -> List[torch.Tensor]:
        """The tensors that make most of a commit of what is there now."""
        return [tensor for handler in self.handlers.values() for tensor in handler.tensors()]

    def _write_commit(self, leaving: bool) -> bool:
        """Returns whether a handler has written a checkpoint. To leave a group, only those do that have to."""
        written = False
        for handler in self.handlers.values():
            if not (leaving and handler.sealed):
                written = bool(handler.commit()) or written
        return written

    # Checkpoints to which a lost member takes the others back.

    @property
    def checkpoint(self) -> int:
        """The number of the commit that is one; negative for none."""
        return self._checkpoint[0] if self._checkpoint is not None else NONE

    @property
    def held(self) -> int:
        """The number of the last commit that this process can go on from, together with others; NONE or LOST otherwise."""
        return self.checkpoint if self.ledger.held < 0 <= self.checkpoint else self.ledger.held

    def keep_checkpoint(self) -> None:
        """Copies the values that belong to the checkpoint that was written for the last commit."""
        self._checkpoint = self.ledger.number, _copy(self._common())

    def load_checkpoint(self) -> None:
        """Sets the values to those of the checkpoint. What is shared out is to be read by reset()."""
        if self._checkpoint is not None:
            self.load(_copy(self._checkpoint[1]))

    def shared_checkpoint(self) -> Any:
        """Number and values of the checkpoint for another member, which gives them to take_checkpoint()."""
        number, tree = self._checkpoint or (NONE, {})
        return number, {name: tree[name] for name, handler in self.handlers.items() if handler.shared and name in tree}

    def take_checkpoint(self, shared: Any) -> None:
        """Takes number and values of the checkpoint from another member. What each member has of its own stays."""
        number, tree = shared
        own = self._checkpoint[1] if self._checkpoint is not None else self._common()
        self._checkpoint = number, {**own, **tree}

    def forget_checkpoint(self) -> None:
        """Forgets the checkpoint: it is not that of the group."""
        self._checkpoint = None

    # Values.

    def tree(self, shared: bool = False) -> Dict[str, Any]:
        """The live values by name, as nested containers of tensors; shared: only what newcomers get."""
        if not shared:
            return {name: h.tree() for name, h in self.handlers.items()}
        return {name: tree for name, tree in self._common().items() if self.handlers[name].shared}

    def _common(self) -> Dict[str, Any]:
        """The live values by name, without parts and shares."""
        return {name: h.common() if h.parts or h.shares else h.tree() for name, h in self.handlers.items()}

    def load(self, tree: Mapping[str, Any]) -> None:
        """Sets the values that tree() has returned; names that the state does not have are left out."""
        self._snapshot.settle()
        for name, handler in self.handlers.items():
            if name in tree:
                handler.load(tree[name])
        self.ledger.change()

    def receive(self, move: transfer.Move) -> Any:
        """Takes the shared values from another member, in memory that the next commit uses again; returns what it sends besides."""
        spare = self._snapshot.spare
        tree, self.calls, more = transfer.receive(move, spare=spare)
        self.load(tree)
        for name, handler in self.handlers.items():
            if name in tree and handler.copies:
                spare.add(split(tree[name])[1])
        return more

    def follow(self, calls: int) -> None:
        """Takes in that the values are now those of a member that has called commit this often since it saved."""
        self.calls = calls
        self.ledger.change()

    def send(self, move: transfer.Move, more: Any = None) -> None:
        """Sends the shared values, and more, to those who receive()."""
        transfer.send((self.tree(shared=True), self.calls, more), move)

    def has_parts(self) -> bool:
        """Whether members of a replica have parts of some value."""
        return any(handler.parts for handler in self.handlers.values())

    def has_shares(self) -> bool:
        """Whether each member has a share of some value that no other has."""
        return any(handler.shares for handler in self.handlers.values())

    def parts(self) -> Dict[str, Any]:
        """The values of which this process has a part, as tree()."""
        return {name: handler.tree() for name, handler in self.handlers.items() if handler.parts}

    def values(self, kind: type) -> List[Any]:
        """The values that have a handler of this kind."""
        return [handler.value for handler in self.handlers.values() if isinstance(handler, kind)]

    def modules(self) -> List[torch.nn.Module]:
        """The modules of the state."""
        return self.values(ModuleHandler)

    def samplers(self) -> List[Any]:
        """The samplers of the state."""
        return self.values(SamplerHandler)

    def report(self) -> Dict[str, Any]:
        """What a commit reports as progress."""
        return {name: self.handlers[name].value for name in reporting.FIELDS if name in self.handlers}

    # Checkpoints.

    def write_parts(self) -> None:
        """Has handlers write what no single process has, before a checkpoint. All members call it."""
        for handler in self.handlers.values():
            if handler.parts:
                handler.write()

    def kept(self, path: str) -> Dict[str, Any]:
        """What a checkpoint has: the live values, or where a handler has to keep what a commit has written, that commit."""
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
        for callback in self.callbacks:
            self.ledger.change()
            callback()

    def reset(self) -> None:
        """Makes what is bound to a group for the present one."""
        for handler in self.handlers.values():
            if handler.reset():
                self.ledger.change()

    def drop(self) -> None:
        """Forgets what is bound to the group that is left."""
        reporting.flush()
        self._snapshot.settle()
        for handler in self.handlers.values():
            handler.drop()



def _copy(tree: Dict[str, Any]) -> Dict[str, Any]:
    skeleton, live = split(tree)
    copies = [tensor.clone() for tensor in live]
    copied: Dict[str, Any] = join(skeleton, lambda number: copies[number])
    return copied
