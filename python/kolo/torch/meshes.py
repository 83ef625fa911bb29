# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The device mesh of the current group.

            shard ->              A replica is a row: its members share one copy of the model.
    replicate  rank 0  rank 1     The members of a column hold the same part of it.
        |      rank 2  rank 3
        v
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch.distributed as dist

from ..worker import Place
from . import place
from .context import Mesh, context


def form(at: Place, timeout: timedelta) -> None:
    """Makes the process groups of a mesh with two dimensions.

    It makes only the groups of this process, so that the cost does not grow with the
    number of replicas.
    """
    context.mesh.groups = ()
    if at.replica == 1:
        return
    column = list(range(at.rank % at.replica, at.size, at.replica))
    first = at.rank - at.rank % at.replica
    row = list(range(first, first + at.replica))
    context.mesh.groups = tuple(dist.new_group(ranks, timeout=timeout, use_local_synchronization=True) for ranks in (column, row))


def drop() -> None:
    """Forgets the mesh of a group that this process leaves."""
    context.mesh = Mesh()


def mesh() -> Any:
    """The DeviceMesh of the current group: one dimension of all ranks or, with `replica` in the jobspec, replicas by members.

    fully_shard(model, mesh=kolo.mesh()) shards the model within each replica and
    replicates it among them (HSDP). Each group has another mesh.
    """
    made = context.mesh.made
    if made is None or made[0] != place.generation():
        made = context.mesh.made = place.generation(), _make()
    return made[1]


def column() -> Any:
    """The process group of the members that have the same part of the model as this one, in order of replicas."""
    return context.mesh.groups[0]


def _make() -> Any:
    """Makes a mesh with a new name. PyTorch caches by mesh, and meshes of the same size and name would count as equal."""
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

    kind, size, replica, generation = place.device().type, place.size(), place.replica(), place.generation()
    if replica == 1:
        return init_device_mesh(kind, (size,), mesh_dim_names=("kolo%d" % generation,))
    ranks = [list(range(first, first + replica)) for first in range(0, size, replica)]
    return DeviceMesh.from_group(list(context.mesh.groups), kind, mesh=ranks, mesh_dim_names=("replicate%d" % generation, "shard%d" % generation))
