# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Training without Kolo."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Callable

import torch.distributed as dist

from ..worker import Place
from . import compat, meshes, reporting
from . import place as places
from .group.group import Group
from .phases import NOTHING
from .session import Session
from .state.state import State, core_of

REPLICA = "KOLO_REPLICA_SIZE"


class Alone(Session):
    """A session without Kolo: a group of one, or the group that torchrun's environment describes."""

    def enter(self) -> Group:
        environment = os.environ
        replica = int(environment.get(REPLICA) or 1)
        if dist.is_initialized():
            place = Place(1, dist.get_rank(), dist.get_world_size(), int(environment.get("LOCAL_RANK", "0")))
        elif "RANK" in environment and "WORLD_SIZE" in environment and "MASTER_ADDR" in environment:
            place = Place(
                1, int(environment["RANK"]), int(environment["WORLD_SIZE"]),
                int(environment.get("LOCAL_RANK", "0")), int(environment.get("LOCAL_WORLD_SIZE", "1")),
                int(environment.get("GROUP_RANK", "0")), int(environment.get("GROUP_WORLD_SIZE", "1")))
            dist.init_process_group(self.backend, init_method="env://", timeout=self.timeout)
        else:
            place = Place(1, 0, 1)
            dist.init_process_group(self.backend, store=dist.HashStore(), rank=0, world_size=1)
        if place.size % replica:
            raise RuntimeError("%d processes are not a multiple of %s=%d" % (place.size, REPLICA, replica))
        place = dataclasses.replace(place, replica=replica)
        meshes.form(place, self.timeout)
        control = dist.ProcessGroupGloo(
            dist.PrefixStore("kolo", compat.default_store()), place.rank, place.size,
            timeout=self.timeout) if place.size > 1 else None
        self.group = Group(place, None, control, self.timeout)
        places.enter(place)
        reporting.connect(reporting.to_file())
        return self.group

    def check(self) -> None:
        batch = self._core.batch if self._core is not None else None
        if batch is not None and self.group is not None:
            self.group.agree(NOTHING, batch.proposal())
            batch.adopt(self.group.proposal)

    def train(self, function: Callable[..., Any], state: State, *args: Any, **kwargs: Any) -> Any:
        result = super().train(function, state, *args, **kwargs)
        if core_of(state).batch is not None and self.group is not None:
            self.group.finish()
        return result
