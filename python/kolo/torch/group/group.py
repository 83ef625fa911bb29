# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Process groups that are formed, broken and left while the process lives.

    place --> Forming (thread) --> Group --> leave() --> next place
                 |  broken            |  broken
              abandon()            break_()

In addition to the default group, which the script uses, each Group has a gloo group
of its own, on which the members agree. A Group may have a pending group: its members
and the observers, processes that are no members yet and receive the state from one.
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
from .. import compat, meshes
from ..state.values import Malformed
from . import sockets
from .exchange import Exchange, Messages
from .former import Former
from .leaving import drop, let_go
from .roles import Roles

# What gloo's RuntimeErrors contain; NCCL's have a type.
_FAILURES = re.compile(r"gloo|NCCL|Connection (closed|reset)|Broken pipe|Socket closed|Timed out waiting|c10d", re.I)
PATIENCE = timedelta(seconds=60)  # of a commit with those of other ranks, before it is reported


class GroupFailed(RuntimeError):
    """The group has lost a member."""


class PendingGroup(NamedTuple):
    """The connected processes of the next group: the members of the present one, and its observers."""

    place: Place  # this process's, among all of them
    roles: Roles
    store: Any
    control: Any  # gloo group of all of them
    timeout: timedelta

    @property
    def observing(self) -> bool:
        """Whether this process is no member yet."""
        return self.place.rank in self.roles.observers


class Group:
    """A connected process group. That of an observer has no members."""

    def __init__(self, place: Place, store: Any, control: Any, timeout: timedelta, pending: Optional[PendingGroup] = None) -> None:
        self.place = place
        self.pending = pending
        self.failed = False
        self.connections: Dict[int, sockets.Ends] = {}
        self._store = store
        self._control = control
        self._timeout = timeout
        self._flag = torch.zeros(1, dtype=torch.int32)
        self._flag_work: Any = None
        self._wrapped: List["weakref.ref[torch.nn.Module]"] = []

    def agree(self, flag: int) -> int:
        """The highest flag of a member at the last call. All members call it equally often and get the same answer.

        0 means that there is nothing to do, and asks again. The answer of a call arrives while the members train on; so none waits,
        and none of them is ahead by more than one call.
        """
        if self._control is None:
            return flag
        if self._flag_work is not None:
            self._finish(self._flag_work, PATIENCE)
            self._flag_work = None
            if self._flag.item():
                return int(self._flag)
        self._flag.fill_(flag)
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX  # type: ignore[assignment] # pybind converts it
        self._flag_work = self._control.allreduce([self._flag], options)
        return 0

    def verify(self) -> None:
        """Raises if the group has failed.

        Called before state is saved. NCCL's collectives run later than the code
        that starts them and end without an error where they are aborted, so
        their results are waited for.
        """
        if self._flag_work is not None:  # none saves a commit while another has yet to save the one before the last
            self._finish(self._flag_work, PATIENCE)
        if compat.has_nccl():
            torch.cuda.synchronize()
        if self.failed:
            raise GroupFailed("group %d has lost a member" % self.place.generation)

    def gather(self, value: int) -> List[int]:
        """A number of each member, by rank."""
        return [values[0] for values in self.gather_rows([value])]

    def gather_rows(self, values: Sequence[int]) -> List[List[int]]:
        """As many numbers of each member, by rank."""
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
        """Sends a tensor of one member to the others, in place."""
        if tensor.device.type == "cpu":
            options = dist.BroadcastOptions()
            options.rootRank, options.rootTensor = root, 0
            self._finish(self._control.broadcast([tensor], options))
        else:
            dist.broadcast(tensor, root)

    def finish(self, timeout: timedelta = timedelta(seconds=30)) -> None:
        """Waits until all members are here, so that the end of one is no failure to another."""
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
        """Whether a call of agree() may still wait for the others."""
        return self._flag_work is not None

    def is_failure(self, error: BaseException) -> bool:
        """Whether an exception comes from this group's communication."""
        if self.failed or isinstance(error, (GroupFailed, Malformed, *compat.ERRORS)):
            return True
        return isinstance(error, RuntimeError) and _FAILURES.search(str(error)) is not None

    def wrapped(self, module: torch.nn.Module) -> None:
        """Remembers a DistributedDataParallel of this group."""
        self._wrapped.append(weakref.ref(module))

    def break_(self) -> None:
        """Ends the collectives of this group, in whatever thread they are waited for."""
        self.failed = True
        sockets.shut(self.connections)
        compat.abort_nccl()

    def part(self) -> Optional[Former]:
        """Takes out of the group the connections that outlive it, before it is left as planned."""
        if self._control is None or self.failed:
            return None
        former = Former(self.place.generation, self.place.rank, self.place.size, self._control)
        self._control = None
        return former

    def leave(self, wait: bool = False) -> None:
        """Leaves the group, so that the next can form at once. A collective in it must have ended.

        To close its connections takes gloo tens of milliseconds. Another thread
        waits for that, or this one, when the process ends. In a group that has failed
        that wait may last for ever (see outbox), and is not to keep the process.
        """
        if self.failed:
            self.break_()  # lets members who wait for this one know
        for reference in self._wrapped:
            module = reference()
            if module is not None:  # its hooks must not stay on the parameters
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
            if not wait:  # the process must not end in the middle of it
                let_go(backends, daemon=self.failed)
            elif self.failed:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(backends))  # never let go
            else:
                drop(backends)

    def _finish(self, work: Any, patience: Optional[timedelta] = None) -> None:
        """Waits for a collective; after patience it reports what a script may have done wrong, and waits on."""
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
    """Clears what an initialization that was given up leaves behind."""
    meshes.drop()
    compat.clear_groups()
