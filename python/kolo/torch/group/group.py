# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Process groups. In its life, a process forms and leaves several of them.

    place --> Forming (thread) --> Group --> leave() --> next place
                 |  broken            |  broken
              abandon()            break_()

In addition to the default group, which the script uses, each Group has a gloo group
through which the members agree on changes. A Group may have a pending group: its
members, and observers. Observers are not members yet; a member sends them the state.
"""

from __future__ import annotations

import ctypes
import re
import sys
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch
import torch.distributed as dist

from ...worker import Place
from .. import compat, meshes, reporting
from ..state.values import Malformed
from . import sockets
from .exchange import Exchange, Messages
from .former import Former
from .leaving import drop, let_go
from .roles import Roles
from .waits import Waits, last

# Text in gloo's RuntimeErrors; NCCL's have a type.
_FAILURES = re.compile(r"gloo|NCCL|Connection (closed|reset)|Broken pipe|Socket closed|Timed out waiting|c10d", re.I)
PATIENCE = timedelta(seconds=60)  # after which a commit reports that it waits for other ranks


class GroupFailed(RuntimeError):
    """The group has lost a member."""


class PendingGroup(NamedTuple):
    """The connected processes of the next group: the members and the observers of the current group."""

    place: Place  # of this process, among all of them
    roles: Roles
    store: Any
    control: Any  # gloo group of all of them
    timeout: timedelta

    @property
    def observing(self) -> bool:
        """Whether this process is an observer."""
        return self.place.rank in self.roles.observers


class Group:
    """A connected process group. On an observer, it contains only the pending group."""

    def __init__(self, place: Place, store: Any, control: Any, timeout: timedelta, pending: Optional[PendingGroup] = None) -> None:
        self.place = place
        self.pending = pending
        self.failed = False
        self.proposal = 0  # rank 0's, in the last call of agree() whose result is known; 0 if there is none
        self.connections: Dict[int, sockets.Ends] = {}
        self._store = store
        self._control = control
        self._timeout = timeout
        self._flags = torch.zeros(2 + place.size, dtype=torch.int32)  # the flag and the proposal of agree(), and the wait of each rank
        self._waits = Waits()
        self._flag_work: Any = None
        self._wrapped: List["weakref.ref[torch.nn.Module]"] = []

    def agree(self, flag: int, proposal: int = 0) -> int:
        """Returns the highest flag that any member passed to the previous call. All members call it equally often and get the same result.

        If the result is 0, there is nothing to do, and this call's flag is sent. The flags arrive while the members train, so
        no member waits, and no member is ahead by more than one call.

        Two more things travel with the flag: the members' waits for each other (see waits), and a proposal, which is a
        number of rank 0, and 0 on the other ranks.
        """
        if self._control is None:
            self.proposal = proposal
            return flag
        if self._flag_work is not None:
            self._finish(self._flag_work, PATIENCE)
            self._flag_work = None
            agreed, proposed, *waited = self._flags.tolist()
            self.proposal = proposed
            if agreed:
                return int(agreed)
            if self.place.rank == 0 and self.pending is None:  # with observers, ranks differ from those that the agents know
                reporting.arrived(last(waited))
        self._flags.zero_()
        self._flags[0], self._flags[1], self._flags[2 + self.place.rank] = flag, proposal, self._waits.take()
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX  # type: ignore[assignment] # pybind converts it
        self._flag_work = self._control.allreduce([self._flags], options)
        return 0

    def verify(self) -> None:
        """Raises if the group has failed. Called before state is saved.

        NCCL's collectives run later than the code that starts them, and an aborted
        collective ends without an error. So this first waits for the GPU.
        """
        if self._flag_work is not None:  # no member saves a commit before all have saved the one before the last
            self._finish(self._flag_work, PATIENCE)
        if compat.has_nccl():
            torch.cuda.synchronize()
        if self.failed:
            raise GroupFailed("group %d has lost a member" % self.place.generation)

    def gather(self, value: int) -> List[int]:
        """Returns each member's value, by rank."""
        return [values[0] for values in self.gather_rows([value])]

    def gather_rows(self, values: Sequence[int]) -> List[List[int]]:
        """Returns each member's values, by rank. All members pass the same number of values."""
        if self._control is None:
            return [list(values)]
        mine = torch.tensor(list(values), dtype=torch.int64)
        all_ = [torch.zeros_like(mine) for _ in range(self.place.size)]
        self._finish(self._control.allgather([all_], [mine]))
        return [[int(number) for number in tensor] for tensor in all_]

    def exchange(self, sending: Messages, receiving: Messages, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Exchanges messages with other members, see Exchange."""
        if self._control is None:
            meanwhile()
            return
        exchange = Exchange(self._control, sending, receiving)
        meanwhile()
        try:
            exchange.wait(lambda: self.failed)
        except RuntimeError as err:
            raise GroupFailed("group %d has lost a member: %s" % (self.place.generation, err)) from err

    def broadcast(self, tensor: torch.Tensor, root: int) -> None:
        """Sends a tensor from the member root to the others, which receive it in place."""
        if tensor.device.type == "cpu":
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = root, 0
            self._finish(self._control.broadcast([tensor], options))
        else:
            dist.broadcast(tensor, root)

    def finish(self, timeout: timedelta = timedelta(seconds=30)) -> None:
        """Waits until all members have called it. Otherwise a member could mistake the end of another one for a failure."""
        if self._control is None:
            return
        try:
            if self._flag_work is not None:
                self._flag_work.wait(timeout)
                self._flag_work = None
            work = self._control.allreduce([torch.zeros(1)])
            work.wait(timeout)
        except RuntimeError:
            pass  # this process has its result; the others form a group of their own

    def waiting(self) -> bool:
        """Whether the collective of the last agree() may still wait for other members."""
        return self._flag_work is not None

    def is_failure(self, error: BaseException) -> bool:
        """Whether an exception comes from this group's communication."""
        if self.failed or isinstance(error, (GroupFailed, Malformed, *compat.ERRORS)):
            return True
        return isinstance(error, RuntimeError) and _FAILURES.search(str(error)) is not None

    def wrapped(self, module: torch.nn.Module) -> None:
        """Remembers a DistributedDataParallel of this group."""
        self._wrapped.append(weakref.ref(module))
        if self._control is not None:
            self._waits.watch(module)

    def break_(self) -> None:
        """Ends the collectives of this group, in any thread that waits for them."""
        self.failed = True
        sockets.shut(self.connections)
        compat.abort_nccl()

    def part(self) -> Optional[Former]:
        """Removes from the group the connections that are still needed after it is left as planned, and returns them."""
        if self._control is None or self.failed:
            return None
        former = Former(self.place.generation, self.place.rank, self.place.size, self._control)
        self._control = None
        return former

    def leave(self, wait: bool = False) -> None:
        """Leaves the group, so that the next group can form at once. The group's collectives must have ended.

        gloo takes tens of milliseconds to close the connections. A separate thread waits
        for this. With wait=True, meant for the end of the process, this call waits
        instead. It does not wait for a group that has failed, because that could take
        forever (see outbox).
        """
        if self.failed:
            self.break_()  # for members that wait for this one
        self._waits.close()
        for reference in self._wrapped:
            module = reference()
            if module is not None:  # the parameters must not keep its hooks
                compat.unhook(module)
        backends = [self._control, self.pending and self.pending.control, *compat.gloo_backends()]
        self._flag_work = self._control = self._store = self.pending = None
        try:
            if dist.is_initialized():
                dist.destroy_process_group()
        except RuntimeError:
            if not self.failed:
                raise
        finally:
            clear()
            if not wait:  # no daemon: the process must not end while it closes, unless the group has failed
                let_go(backends, daemon=self.failed)
            elif self.failed:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(backends))  # never freed
            else:
                drop(backends)

    def _finish(self, work: Any, patience: Optional[timedelta] = None) -> None:
        """Waits for a collective. After patience, it logs what may be wrong in the script, and continues to wait."""
        try:
            try:
                work.wait(*([patience] if patience else []))
            except RuntimeError:
                if work.is_completed():
                    raise
                print("kolo: rank %d has waited %d s for a commit of another rank: all ranks have to commit equally often"
                      % (self.place.rank, patience.total_seconds() if patience else 0), file=sys.stderr, flush=True)
                work.wait()
        except RuntimeError as err:
            raise GroupFailed("group %d has lost a member: %s" % (self.place.generation, err)) from err


def clear() -> None:
    """Clears the process-wide remains of a group, or of an initialization that was given up."""
    meshes.drop()
    compat.clear_groups()
