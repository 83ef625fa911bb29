# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What a process has once. No other module of kolo.torch keeps anything between two calls but in objects of its caller."""

from __future__ import annotations

import dataclasses
import os
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from ..worker import Place


@dataclasses.dataclass
class Reports:
    """Progress that is reported: see reporting."""

    send: Optional[Callable[[Mapping[str, Any]], None]] = None
    interval: float = 0.0  # seconds between two reports
    sent: float = 0.0  # when the last one was
    held: Optional[Dict[str, Any]] = None  # what is sent next
    extra: Dict[str, Any] = dataclasses.field(default_factory=dict)  # what the script has reported by itself


@dataclasses.dataclass
class Mesh:
    """What is made of the ranks of the present group: see meshes."""

    groups: Tuple[Any, ...] = ()  # torch's groups of this process's column and row
    made: Optional[Tuple[int, Any]] = None  # the DeviceMesh, with the generation that it is of


@dataclasses.dataclass
class Commits:
    """Commits that a thread completes: see state.snapshot."""

    watched: "weakref.WeakSet[Any]" = dataclasses.field(default_factory=weakref.WeakSet)  # snapshots that a step waits for
    hook: Any = None  # of all optimizers
    thread: Optional[ThreadPoolExecutor] = None


@dataclasses.dataclass
class Context:
    """All of it."""

    place: Optional[Place] = None  # in the present group; None before the first one
    slot: int = dataclasses.field(default_factory=lambda: int(os.environ.get("LOCAL_RANK", "0")))  # as the process was started with
    session: Any = None  # the Session of the elastic function
    mesh: Mesh = dataclasses.field(default_factory=Mesh)
    reports: Reports = dataclasses.field(default_factory=Reports)
    handlers: List[Tuple[Any, Any]] = dataclasses.field(default_factory=list)  # those that register_handler was given, the last one first
    commits: Commits = dataclasses.field(default_factory=Commits)


context = Context()
