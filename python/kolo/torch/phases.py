# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The phases of this process in its group. The process is in one phase at a time; each phase has its own fields.

                  +--> Member ----+
    Outside ------+--> Sending ---+--> Switching --> Member
       ^          +--> Observing -+
       |                   |
       +-------------------+ a planned change, or a failure

A commit returns the next phase. An observer has no commits: its phase ends when
the members commit.
"""

from __future__ import annotations

from .background.channel import Channel
from .background.handover import Bystander, Receiver, Sender, take_over
from .background.observer import Observer
from .background.stream import Stream
from .group.group import Group, PendingGroup
from .log import log
from .state.core import Core
from .state.transport import Transport

NOTHING, SWITCH, CHANGE = 0, 1, 2  # what members agree on at a commit; the highest counts


class Phase:
    """The interface of all phases."""

    def commit(self, core: Core, changing: bool) -> "Phase":
        """Returns the phase that follows a commit. changing is whether the agent wants the group to change."""
        return self

    def abandon(self) -> None:
        """Ends all waits for observers, because the group has lost a member. May be called by any thread."""

    def end(self) -> None:
        """Informs observers that training is complete."""

    def close(self) -> None:
        """Ends the phase when the group is left."""


class Outside(Phase):
    """In no group: before the first group, and after the commit at which a group is left."""


class Member(Phase):
    """Trains. If the group has observers, another member sends them the state."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def commit(self, core: Core, changing: bool) -> Phase:
        return self._agree(core, CHANGE if changing else NOTHING)

    def _agree(self, core: Core, flag: int) -> Phase:
        batch = core.batch
        agreed = self._group.agree(flag, batch.proposal() if batch is not None else 0)
        if agreed == NOTHING:
            if batch is not None:
                batch.adopt(self._group.proposal)
            return self
        core.seal()
        pending = self._group.pending
        if agreed == SWITCH and pending is not None:
            return Switching(pending, self._switch())
        self._leave()
        return Outside()

    def _switch(self) -> Transport:
        """Returns this process's part when observers become members."""
        return Bystander()

    def _leave(self) -> None:
        """Prepares for a planned change: observers receive the rest of the state."""


class Sending(Member):
    """Trains, and sends the state to the observers of the group."""

    def __init__(self, group: Group, stream: Stream) -> None:
        super().__init__(group)
        self._stream = stream

    def commit(self, core: Core, changing: bool) -> Phase:
        self._stream.advance()
        return self._agree(core, CHANGE if changing else SWITCH if self._stream.complete else NOTHING)

    def _switch(self) -> Transport:
        self._stream.switch()
        return Sender(self._stream)

    def _leave(self) -> None:
        self._stream.leave()

    def abandon(self) -> None:
        self._stream.abandon()

    def end(self) -> None:
        self._stream.end()

    def close(self) -> None:
        self._stream.close()


class Observing(Phase):
    """Receives the state of a group that trains. The script's function does not run."""

    def __init__(self, core: Core, pending: PendingGroup) -> None:
        core.forget()
        self._core = core
        self._pending = pending
        self._observer = Observer(core, Channel(pending))

    def follow(self) -> Phase:
        """Receives what the members send while they train, and returns the next phase."""
        end = self._observer.follow()
        if end == "leave":
            take_over(self._core, self._observer)
            return Outside()
        if end == "end":
            log("training is complete; this process had no part in it yet")
            raise SystemExit(0)
        return Switching(self._pending, Receiver(self._observer))


class Switching(Phase):
    """Moves to the next group, in which the observers are members."""

    def __init__(self, pending: PendingGroup, transport: Transport) -> None:
        self.pending = pending
        self.transport = transport

    def abandon(self) -> None:
        self.transport.abandon()

    def close(self) -> None:
        self.transport.close()
