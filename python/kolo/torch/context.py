# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The process-wide state of kolo.torch. Its other modules keep state only in objects of their callers."""

from __future__ import annotations

import dataclasses
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..worker import Place


@dataclasses.dataclass
class Reports:
    """The progress that is reported; see reporting."""

    send: Optional[Callable[[Mapping[str, Any]], None]] = None
    interval: float = 0.0  # seconds between two reports
    sent: float = 0.0  # time of the last report
    held: Optional[Dict[str, Any]] = None  # the next report
    extra: Dict[str, Any] = dataclasses.field(default_factory=dict)  # set by the script with progress()
    slow: str = ""  # why the next step takes long; empty if it does not
    last: List[Tuple[int, float]] = dataclasses.field(default_factory=list)  # by step: the rank that arrived last, and by how many seconds


@dataclasses.dataclass
class Mesh:
    """The mesh of the current group; see meshes."""

    groups: Tuple[Any, ...] = ()  # torch's process groups of this process's column and row
    made: Optional[Tuple[int, Any]] = None  # the DeviceMesh, with its generation


@dataclasses.dataclass
class Commits:
    """Commits that a thread completes; see state.snapshot."""

    watched: "weakref.WeakSet[Any]" = dataclasses.field(default_factory=weakref.WeakSet)  # snapshots that an optimizer's step waits for
    hook: Any = None  # runs before each step of any optimizer
    thread: Optional[ThreadPoolExecutor] = None


@dataclasses.dataclass
class Context:
    """All process-wide state."""

    place: Optional[Place] = None  # in the current group; None before the first group
    slot: int = dataclasses.field(default_factory=lambda: int(os.environ.get("LOCAL_RANK", "0")))  # LOCAL_RANK at the start of the process
    session: Any = None  # the Session of the elastic function
    mesh: Mesh = dataclasses.field(default_factory=Mesh)
    reports: Reports = dataclasses.field(default_factory=Reports)
    handlers: List[Tuple[Any, Any]] = dataclasses.field(default_factory=list)  # from register_handler, the last one first
    commits: Commits = dataclasses.field(default_factory=Commits)


context = Context()
