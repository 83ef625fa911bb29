# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Process groups that are formed, broken and left while the process lives.

    place --> Forming (thread) --> Group --> leave() --> next place
                 |  broken            |  broken
              abandon()            break_()

A group forms in a thread of its own, because a member that dies meanwhile
leaves the others in a wait that ends at the timeout only. That thread is given
up, and cannot finish: see Forming.abandon.

Beside the default group, which the script uses, each Group has a gloo group of
its own, on which the members agree.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
import weakref
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from ..worker import Place
from . import sockets

# What gloo's RuntimeErrors contain; NCCL's have a type.
_FAILURES = re.compile(r"gloo|NCCL|Connection (closed|reset)|Broken pipe|Socket closed|Timed out waiting|c10d", re.I)
PATIENCE = timedelta(seconds=60)  # of a commit with those of other ranks, before it is reported
_TYPES = tuple(getattr(dist, name) for name in ("DistBackendError", "DistNetworkError") if hasattr(dist, name))


class GroupFailed(RuntimeError):
    """The group has lost a member."""


class Abandoned(BaseException):
    """Raised in the thread of a group that must not form any more."""


class Group:
    """A connected process group."""

    def __init__(self, place: Place, store: Any, control: Any, timeout: timedelta) -> None:
        self.place = place
        self.failed = False
        self.connections: Dict[int, sockets.Ends] = {}
        self._store = store
        self._control = control
        self._timeout = timeout
        self._flag = torch.zeros(1, dtype=torch.int32)
        self._flag_work: Any = None
        self._wrapped: List["weakref.ref[torch.nn.Module]"] = []

    def agree(self, flag: bool) -> bool:
        """Whether a member had a flag at the last call. All members call it equally often and get the same answer.

        The answer of a call arrives while the members train on; so none waits,
        and none of them is ahead by more than one call.
        """
        if self._control is None:
            return flag
        if self._flag_work is not None:
            self._finish(self._flag_work, PATIENCE)
            self._flag_work = None
            if self._flag.item():
                return True
        self._flag.fill_(int(flag))
        options = dist.AllreduceOptions()
        options.reduceOp = dist.ReduceOp.MAX
        self._flag_work = self._control.allreduce([self._flag], options)
        return False

    def verify(self) -> None:
        """Raises if the group has failed.

        Called before state is saved. NCCL's collectives run later than the code
        that starts them and end without an error where they are aborted, so
        their results are waited for.
        """
        if _with_nccl():
            torch.cuda.synchronize()
        if self.failed:
            raise GroupFailed("group %d has lost a member" % self.place.generation)

    def gather(self, value: int) -> List[int]:
        """A number of each member, by rank."""
        if self._control is None:
            return [value]
        mine = torch.tensor([value], dtype=torch.int64)
        all_ = [torch.zeros_like(mine) for _ in range(self.place.size)]
        self._finish(self._control.allgather([all_], [mine]))
        return [int(tensor) for tensor in all_]

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
        if self.failed or isinstance(error, (GroupFailed,) + _TYPES):
            return True
        return isinstance(error, RuntimeError) and _FAILURES.search(str(error)) is not None

    def wrapped(self, module: torch.nn.Module) -> None:
        """Remembers a DistributedDataParallel of this group."""
        self._wrapped.append(weakref.ref(module))

    def break_(self) -> None:
        """Ends the collectives of this group, in whatever thread they are waited for."""
        self.failed = True
        sockets.shut(self.connections)
        _abort()

    def leave(self) -> None:
        """Destroys the group. A collective in it must have ended."""
        if self.failed:
            self.break_()  # lets members who wait for this one know
        for reference in self._wrapped:
            module = reference()
            if module is not None:  # its hooks must not stay on the parameters
                for name in ("reducer", "logger"):
                    module.__dict__.pop(name, None)
        self._flag_work = self._control = self._store = None
        try:
            if dist.is_initialized():
                dist.destroy_process_group()
        except RuntimeError:
            if not self.failed:
                raise
        finally:
            _clear()

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


class Forming(threading.Thread):
    """Forms a group. When done is set, either group or error is."""

    def __init__(self, place: Place, backend: str, timeout: timedelta, wake: Callable[[], None]) -> None:
        super().__init__(name="kolo-form-%d" % place.generation, daemon=True)
        self.done = False
        self.group: Optional[Group] = None
        self.error: Optional[BaseException] = None
        self._place, self._backend, self._timeout, self._wake = place, backend, timeout, wake
        self._before = sockets.connections()
        self._device = torch.cuda.current_device() if torch.cuda.is_available() else None

    def run(self) -> None:
        try:
            if self._device is not None:
                torch.cuda.set_device(self._device)
            self.group = self._form()
        except BaseException as err:  # what is raised here, the main thread judges
            self.error = err
        finally:
            self.done = True
            self._wake()

    def finish(self) -> Group:
        """The group, once done; raises what has prevented it."""
        if self.group is None:
            raise self.error or RuntimeError("the group did not form")
        self.group.connections = self._opened()
        return self.group

    def abandon(self) -> None:
        """Gives this group up, so that the next can form at once.

        The thread may be inside torch, until the timeout. An exception is put
        before the first line of Python that it comes to; so it never reaches
        the lines that would make its group the default one. Its connections
        are shut down, which mostly ends the wait as well.
        """
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), ctypes.py_object(Abandoned))
        sockets.shut(self._opened())
        self.join(0.02)
        if self.group is not None:  # it was faster
            self.group.failed = True
            self.group.leave()
            self.group = None
        elif dist.is_initialized():  # it came to torch's globals, and no further
            dist.destroy_process_group()
        _clear()

    def _opened(self) -> Dict[int, sockets.Ends]:
        now = sockets.connections()
        return {descriptor: ends for descriptor, ends in now.items() if self._before.get(descriptor) != ends}

    def _form(self) -> Group:
        place, timeout = self._place, self._timeout
        store, control = dist.HashStore(), None
        if place.size > 1:
            store = dist.PrefixStore("kolo/%d" % place.generation, _connect(timeout))
            control = dist.ProcessGroupGloo(dist.PrefixStore("control", store), place.rank, place.size, timeout=timeout)
        hook = sys.excepthook
        try:
            dist.init_process_group(self._backend, store=dist.PrefixStore("default", store), rank=place.rank,
                                    world_size=place.size, timeout=timeout)
        finally:
            sys.excepthook = hook  # torch puts another one around it for each group
        return Group(place, store, control, timeout)


def _connect(timeout: timedelta) -> Any:
    """Connects to the store that the agent serves."""
    arguments = {"is_master": False, "wait_for_workers": False, "timeout": timeout}
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        # A client is the same with and without libuv, but some builds of torch, as Debian's, refuse the default.
        return dist.TCPStore(*address, use_libuv=False, **arguments)
    except TypeError:  # a torch that has no such argument
        return dist.TCPStore(*address, **arguments)


def _with_nccl() -> bool:
    return torch.cuda.is_available() and dist.is_initialized() and "nccl" in str(dist.get_backend_config())


def _abort() -> None:
    """Aborts NCCL's communicators, where there are any. Untested: no GPU was there."""
    group = dist.group.WORLD if dist.is_initialized() else None
    if group is None or not torch.cuda.is_available():
        return
    try:
        if hasattr(c10d, "_abort_process_group"):
            c10d._abort_process_group(group)
        else:
            group._get_backend(torch.device("cuda"))._abort()
    except (AttributeError, RuntimeError, ValueError):
        pass  # a group without NCCL, or one that is gone already


def _clear() -> None:
    """Clears what an initialization that was given up leaves in torch's globals."""
    if dist.is_initialized():
        return
    world = getattr(c10d, "_world", None)
    if world is None:
        return
    for name in ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag",
                 "pg_coalesce_state"):
        registered = getattr(world, name, None)
        if registered:
            registered.clear()
    world.group_count = 0  # part of the keys in the store: it must be equal on all members
    unregister = getattr(c10d, "_unregister_all_process_groups", None)
    if unregister:
        unregister()
