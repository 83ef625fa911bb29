# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Gives newcomers the state of a model that is sharded within replicas (HSDP).

    replica 0   part 0   part 1        part 0   part 1
                  |        |             |        |
    newcomers     +- - ->  . - - -> ...  v        v

A newcomer receives its part from a member with the same part, along their column of
the mesh. This needs no checkpoint and no resharding.

After a failure, members may be at different commits, but at most one commit apart,
because each step needs all members. So each member keeps its last two commits.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

from .. import meshes
from ..group.group import Group
from ..group.roles import StateLost
from ..state import transfer
from ..state.core import Core


def common(last: Sequence[int], before: Sequence[int], replica: int) -> Optional[int]:
    """Returns the highest commit of which all parts exist; -1 if no member has a commit yet, None if the state is lost."""
    for commit in sorted({*last, *before} - {-1}, reverse=True):
        have = {rank % replica for rank in range(len(last)) if commit in (last[rank], before[rank])}
        if commit >= 0 and len(have) == replica:
            return commit
    # Commit 0 is the state with which the training begins.
    return None if any(commit > 0 or commit < -1 for commit in last) else -1


def sync(core: Core, group: Group) -> int:
    """Gives all members the state of one commit, including their parts, and returns its number."""
    at = group.place
    if at.rank in at.newcomers:  # its commits may be of another part, or of steps that the others have done again
        core.ledger.disown()
    last, before = group.gather(core.ledger.held), group.gather(core.ledger.before)
    commit = common(last, before, at.replica)
    if commit is None:
        raise StateLost("the training state is lost: no replica is whole, and the remaining members lack a part")
    if commit < 0:
        core.begin()
        send(core, 0, group)
        return commit
    have = [rank for rank in range(at.size) if commit in (last[rank], before[rank])]
    if at.rank in have and last[at.rank] != commit:
        core.go_back()
    lacking = [rank for rank in range(at.size) if rank not in have]
    if lacking or at.newcomers or len(set(last)) > 1:
        send(core, have[0], group)
    column = [rank for rank in range(at.size) if rank % at.replica == at.rank % at.replica]
    if any(rank in lacking for rank in column):
        _send_part(core, lacking, next(rank for rank in column if rank in have), group)
    return commit


def send(core: Core, root: int, group: Group) -> None:
    """Sends the shared values, except for parts, from the member root to all others."""
    (core.send if group.place.rank == root else core.receive)(lambda tensor: group.broadcast(tensor, root))


def _send_part(core: Core, lacking: List[int], root: int, group: Group) -> None:
    """Sends the part of a column to the members that lack it."""
    column = meshes.column()
    move = transfer.broadcasts(column, root)
    if group.place.rank == root:
        transfer.send(core.parts(), move)
        return
    tree = transfer.receive(move)
    if group.place.rank in lacking:
        core.load(tree)
