# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The device mesh of the present group.

            shard ->              A replica is a row: its members share one copy of the model.
    replicate  rank 0  rank 1     The members of a column have the same part of it.
        |      rank 2  rank 3
        v
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Optional, Tuple

import torch.distributed as dist

from ..worker import Place
from . import place

_groups: Tuple[Any, ...] = ()  # of this process's column and row
_mesh: Optional[Tuple[int, Any]] = None  # with the generation it is of


def form(at: Place, timeout: timedelta) -> None:
    """Makes the groups of a mesh with two dimensions: those of this process only, so that the cost does not grow."""
    global _groups
    _groups = ()
    if at.replica == 1:
        return
    column = list(range(at.rank % at.replica, at.size, at.replica))
    first = at.rank - at.rank % at.replica
    row = list(range(first, first + at.replica))
    _groups = tuple(dist.new_group(ranks, timeout=timeout, use_local_synchronization=True) for ranks in (column, row))


def drop() -> None:
    """Forgets what is bound to a group that is left."""
    global _groups, _mesh
    _groups, _mesh = (), None


def mesh() -> Any:
    """The DeviceMesh of the present group: all ranks, or with `replica` in the jobspec replicas by members.

    fully_shard(model, mesh=kolo.mesh()) shards the model within each replica and
    replicates it among them (HSDP). It is another mesh for each group.
    """
    global _mesh
    if _mesh is None or _mesh[0] != place.generation():
        _mesh = place.generation(), _make()
    return _mesh[1]


def column() -> Any:
    """The process group of the members that have the same part of the model as this one, in order of replicas."""
    return _groups[0]


def _make() -> Any:
    """Meshes of one size are equal by their names only, and torch caches by mesh."""
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    kind, size, replica, generation = place.device().type, place.size(), place.replica(), place.generation()
    if replica == 1:
        return init_device_mesh(kind, (size,), mesh_dim_names=("kolo%d" % generation,))
    ranks = [list(range(first, first + replica)) for first in range(0, size, replica)]
    return DeviceMesh.from_group(list(_groups), kind, mesh=ranks, mesh_dim_names=("replicate%d" % generation, "shard%d" % generation))
