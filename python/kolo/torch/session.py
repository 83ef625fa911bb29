# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The elastic loop: form a group, synchronize the state, train, leave, repeat.

    ask for a place --> form --> callbacks --> sync --> function --> its result
          ^               |                               |
          |   broken      v        planned change         |
          +---------------+<------------------------------+
          |                   a member is gone            |
          +<----------------------- restore --------------+

Newcomers may first receive the state while the others train; see background.
"""

from __future__ import annotations

import functools
import os
import time
import traceback
from datetime import timedelta
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from ..worker import Client, Place, Retired
from . import backends, compat, reporting
from . import place as places
from .background import handover, pace
from .background.channel import Channel
from .background.stream import Stream
from .broadcast.shares import hand_over, protect
from .broadcast.sync import Broadcast
from .group.former import Former
from .group.forming import Connecting, Forming
from .group.group import Group, GroupFailed, PendingGroup
from .group.leaving import finish_leaving
from .group.roles import Offer
from .log import log
from .phases import Member, Observing, Outside, Phase, Sending, Switching
from .state.core import Core
from .state.state import State, core_of
from .state.strays import Strays
from .state.transport import Transport

ATTESTED = 300.0  # seconds to wait for the agents to check a group's connections; enough for the election of another leader
FORMING = 0.5  # seconds between reports of where a group that has not formed yet listens
ATTEMPTS = 10  # failures in a row, without a commit between them or a lost member that the agent reports


class Leave(BaseException):
    """Raised at a commit to leave the script's function. No `except Exception` of a script catches it."""


class Session:
    """Takes this process through the training, from group to group."""

    def __init__(self, backend: Optional[str], timeout: timedelta) -> None:
        self.group: Optional[Group] = None
        self.backend = backends.choose(backend)
        self.timeout = timeout
        self.failures = 0  # groups in a row that have failed without a commit between them
        self.former: Optional[Former] = None  # the rest of the previous group, until the current one has the state
        self._core: Optional[Core] = None
        self._process = os.getpid()

    @property
    def size(self) -> int:
        return self.group.place.size if self.group else 1

    def enter(self) -> Group:
        """Forms a group, makes it the current group, and returns it."""
        raise NotImplementedError

    def verify(self) -> None:
        """Raises if the results of the group's collectives may be wrong."""

    def protect(self, number: int) -> None:
        """Gives other members copies of shares, before the state is saved as the commit with this number."""
        if self.group is not None and self._core is not None and self._core.has_shares():
            protect(self._core, self.group, number)

    def committed(self) -> None:
        """Called when the state has been saved as a commit."""
        self.failures = 0

    def check(self) -> None:
        """Raises Leave if the script's function is to be left here."""

    def leave(self, wait: bool = False) -> None:
        """Leaves the current group. With wait, returns only when the group's connections are closed."""
        if self.group is not None:
            self.group.leave(wait)
            self.group = None

    def close(self) -> None:
        """Leaves the current group at the end of the process, without waiting for the other members."""
        if os.getpid() != self._process:
            return  # a fork shares the connections
        if self.group is not None:
            if self.group.waiting():
                self.group.break_()
            self.leave(wait=True)
        self.close_former()
        finish_leaving(0.5)

    def close_former(self) -> None:
        """Closes the connections of the former group. No process needs them once the current group has the state."""
        if self.former is not None:
            self.former.close()
            self.former = None

    def synced(self, module: torch.nn.Module) -> bool:
        """Whether a module is part of the state, and therefore equal on all members."""
        modules = self._core.modules() if self._core else []
        return any(module is part for whole in modules for part in whole.modules())

    def train(self, function: Callable[..., Any], state: State, *args: Any, **kwargs: Any) -> Any:
        """Runs function once. Errors propagate, so that the launcher can restart this process."""
        self._begin(core_of(state), changed=False)
        return function(state, *args, **kwargs)

    def _begin(self, core: Core, changed: bool) -> None:
        self._core = core
        self._synchronize(core, changed, Broadcast(self.group or self.enter(), self.former))

    def _synchronize(self, core: Core, changed: bool, transport: Transport) -> None:
        """Gives all members of the current group the same state. changed is whether this process had the state in an earlier group."""
        core.attach(self)
        if changed:
            core.call_back()
        transport.deliver(core)


class Elastic(Session):
    """A session with Kolo's agent."""

    def __init__(self, backend: Optional[str], timeout: timedelta, background: Optional[bool] = None) -> None:
        if dist.is_initialized():
            raise RuntimeError("torch.distributed is initialized already: Kolo forms the process group, and forms it "
                               "again when it changes; take init_process_group out of the script")
        super().__init__(backend, timeout)
        self._phase: Phase = Outside()
        compat.let_nccl_fail()
        backends.warm(self.backend)
        self.client = Client.from_environment(versions={"torch": str(torch.__version__)})
        self.client.on_broken = self._on_broken
        self._left, self._reason = 0, "start"  # the last generation of this process, and why it was left
        self._attempts = 0  # groups in a row that have not formed
        self._connecting = Connecting(timeout)  # connects to the store for the next group
        self._background = background
        self._strays = Strays()
        self._strays.watch()
        pace.limit()  # a wrong value is reported at the start

    def enter(self) -> Group:
        """Asks for places until a group has formed, and returns the group. Raises SystemExit if this process gets no place."""
        if self._left == 0:
            self._connecting.join()  # before others wait for this process
        while True:
            try:
                place = self.client.ready(self._left, self._reason)
            except Retired:
                if self.former is not None and self._core is not None:
                    hand_over(self._core, self.former)
                log("this process leaves the training, which goes on without it")
                raise SystemExit(0) from None
            try:
                return self._enter(place)
            except GroupFailed as err:
                log("%s", err)
            except RuntimeError as err:
                self._attempts += 1
                if self._attempts >= ATTEMPTS:
                    raise
                log("group %d does not form: %s", place.generation, err)
                time.sleep(min(1.0, 0.02 * 2 ** self._attempts))
            self._left, self._reason = place.generation, "failure"

    def verify(self) -> None:
        if self.group is not None:
            self.group.verify()

    def committed(self) -> None:
        super().committed()
        if self._core is not None:
            self._strays.report(self._core)

    def check(self) -> None:
        if self.group is None or self._core is None:
            return
        batch = self._core.batch
        if batch is not None:
            batch.keep(self.client.keeps_batch)
        phase = self._phase
        self._phase = phase.commit(self._core, self.client.changing(self.group.place.generation))
        if self._phase is not phase:
            raise Leave()

    def train(self, function: Callable[..., Any], state: State, *args: Any, **kwargs: Any) -> Any:
        """Calls function for each group until function returns, and returns its result."""
        self._core = core = core_of(state)
        core.snapshot.reserve(core.tensors())  # done while the others train
        changed = False
        while True:
            try:
                self._begin(core, changed)
                result = function(state, *args, **kwargs)
                break
            except Leave as leave:
                traceback.clear_frames(leave.__traceback__)
                if isinstance(self._phase, Switching):
                    core.drop()
                    changed = True
                    continue
                self._reason = "commit"
            except Exception as err:
                if self.group is None or not self.group.is_failure(err) or self._hopeless():
                    raise
                log("group %d: %s", self.group.place.generation, err)
                self._reason = "failure"
                self.group.break_()
                traceback.clear_frames(err.__traceback__)  # it refers to objects of the old group
                core.recover()
            changed = core.ledger.held >= 0
            self._left = self._present().place.generation
            self.close_former()
            core.drop()
            if self._reason == "commit" and core.has_shares():
                self.former = self._present().part()
            self.leave()
        core.detach()
        reporting.flush()
        try:
            self._phase.end()
        except GroupFailed as err:  # the failure of an observer does not affect the result
            log("%s", err)
        self._present().finish()
        return result

    def leave(self, wait: bool = False) -> None:
        self._phase.close()
        self._phase = Outside()
        super().leave(wait)

    def _begin(self, core: Core, changed: bool) -> None:
        group = self.group or self.enter()
        pending = group.pending
        if pending is not None and pending.observing:
            self._phase = observing = Observing(core, pending)
            self._phase = observing.follow()
            if not isinstance(self._phase, Switching):
                raise Leave()
        if isinstance(self._phase, Switching):
            self._switch(self._phase.pending)
            self._synchronize(core, changed, self._phase.transport)
            self._phase = Member(self._present())
            return
        self._phase = Member(group)
        super()._begin(core, changed)
        self.close_former()
        if pending is not None and pending.place.rank == pending.roles.members[0]:
            self._send(core, group, pending)

    def _send(self, core: Core, group: Group, pending: PendingGroup) -> None:
        """Begins to send the state to observers."""
        stream = Stream(core, Channel(pending))
        self._phase = Sending(group, stream)
        if self.client.broken(pending.place.generation):  # it may have broken before the client's thread could abandon the stream
            stream.abandon()
        log("group %d: %d processes receive %.0f MB while training goes on", pending.place.generation,
            len(pending.roles.observers), stream.nbytes() / 1e6)

    def _present(self) -> Group:
        """Returns the current group. Called only between the first place and the end of this process's training."""
        if self.group is None:
            raise RuntimeError("this process is in no group")
        return self.group

    def _switch(self, pending: PendingGroup) -> None:
        """Moves from the group of the members to the group that includes the observers."""
        members = self._present()
        connections = members.connections
        members.leave()
        self.group = self._form(pending.place, pending)
        self.group.connections = {**connections, **self.group.connections}  # descriptors may be reused, so the new ones win
        self._placed(self.group)

    def _enter(self, place: Place) -> Group:
        self.group = group = self._form(place)
        self._attempts = 0
        self._placed(group)
        return group

    def _form(self, place: Place, pending: Optional[PendingGroup] = None) -> Group:
        client, core = self.client, self._core

        def broken() -> bool:
            return client.broken(place.generation) or client.ended()

        round_ = 2 if pending else 1  # of the groups of this generation
        sends = place.replica == 1 and core is not None and core.held >= 0 and handover.wanted(core, self._background)
        offer = Offer(core.held if core is not None else -1, int(sends), place.cross_rank)
        forming = Forming(place, self.backend, self.timeout, client.wake, offer, self._connecting, pending)
        forming.start()
        try:
            return self._formed(forming, place, round_, broken)
        finally:
            if self._connecting.spent:
                self._connecting = Connecting(self.timeout)

    def _formed(self, forming: Forming, place: Place, round_: int, broken: Callable[[], bool]) -> Group:
        """Waits until the group has formed and, if the agents attest connections, is attested. Returns the group."""
        client = self.client
        while not client.wait(lambda: forming.done or broken(), FORMING):
            client.forming(place.generation, round_, forming.listening() or ())
        if forming.group is not None and not broken():
            client.formed(place.generation, round_, forming.listening())
            if place.attests and not client.wait(lambda: client.attested(place.generation, round_) or broken(), ATTESTED):
                forming.abandon()
                raise RuntimeError("the agents have not compared its connections within %d s: the one that leads may be of an older "
                                   "release; update all clients of the job" % ATTESTED)
        if broken():
            forming.abandon()
            raise GroupFailed("group %d has lost a member while it formed" % place.generation)
        return forming.finish()

    def _placed(self, group: Group) -> None:
        """Makes rank(), size() and progress reports refer to this group."""
        generation = group.place.generation
        if group.pending is None or not group.pending.observing:
            places.enter(group.place)
        reporting.connect(functools.partial(self.client.progress, generation), reporting.INTERVAL)
        if self.client.broken(generation):  # it may have broken meanwhile
            group.break_()

    def _hopeless(self) -> bool:
        """Counts a failure. Returns whether to give up: an error that recurs is not caused by a lost member."""
        if self.client.broken(self._present().place.generation):
            self.failures = 0
        self.failures += 1
        return self.failures >= ATTEMPTS

    def _on_broken(self, generation: int) -> None:
        """Ends any wait of the main thread for the group. Called by the client's thread."""
        group, phase = self.group, self._phase
        if group is not None and group.place.generation <= generation:
            group.break_()
            phase.abandon()

