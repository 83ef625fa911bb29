# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends the training state from one member to the others, if they lack it."""

from __future__ import annotations

from typing import Optional

from ..group.former import Former
from ..group.group import Group
from ..state.core import Core
from . import replicas, shares


class Broadcast:
    """Sends the state within a group that has no observers. It implements Transport."""

    def __init__(self, group: Group, former: Optional[Former] = None) -> None:
        self._group = group
        self._former = former  # what is left of the group before

    def deliver(self, core: Core) -> None:
        sync(core, self._group, self._former)

    def abandon(self) -> None:
        pass  # breaking the group ends its collectives

    def close(self) -> None:
        pass


def sync(core: Core, group: Group, former: Optional[Former] = None) -> None:
    """Gives all members of a group the same state.

    Nothing is sent if all members have the same commit, such as after members have
    left. Otherwise, the member with the latest commit sends (of several, the lowest
    rank), and all others receive.

    If a callback or another member has changed the state, it is saved here as a new
    commit. With the old number, a member that fails before it saves would seem to
    have the same state as a member that has saved.
    """
    if core.has_parts():
        commit = replicas.sync(core, group)
        core.reset()
        core.keep(commit + 1)
        return
    if core.has_shares():
        shares.sync(core, group, former)
        return
    commits = group.gather(core.ledger.held)
    root = commits.index(max(commits))
    sent = bool(group.place.newcomers) or len(set(commits)) > 1 or commits[0] < 0
    if sent and group.place.size > 1:
        replicas.send(core, root, group)
    core.reset()
    if sent or not core.ledger.fresh:
        core.keep_changes(commits[root] + 1)
