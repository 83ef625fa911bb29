# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Who trains in a new group, and who observes it until it has the state. Pure."""

from __future__ import annotations

import dataclasses
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...worker import Place
from ..state.ledger import LOST


class StateLost(Exception):
    """No process that is left has the state of the training."""


class Offer(NamedTuple):
    """What each process says of itself before the group forms."""

    commit: int  # number of its last commit, -1 for a newcomer, LOST
    background: int  # 1: would send its state while it trains
    host: int  # number of its host


class Roles(NamedTuple):
    """The result; ranks are those of all processes together."""

    members: Tuple[int, ...]  # train
    observers: Tuple[int, ...]  # receive the state from the first member, meanwhile


def decide(offers: Sequence[Offer]) -> Roles:
    """Distributes the roles. All processes come to the same result from the same offers.

    Without observers all are members, and what some of them lack is broadcast. So
    it is in the first group of a training, where members have failed at different
    commits, and where rank 0, with which the agent speaks, would be no member.
    """
    everyone = tuple(range(len(offers)))
    holders = tuple(rank for rank in everyone if offers[rank].commit >= 0)
    if not holders:
        if any(offer.commit == LOST for offer in offers):
            raise StateLost("the training state is lost: all processes that had it are gone, "
                            "and the others had not received all of it")
        return Roles(everyone, ())
    equal = len({offers[rank].commit for rank in holders}) == 1
    if len(holders) == len(offers) or not equal or holders[0] != 0 or not offers[0].background:
        return Roles(everyone, ())
    return Roles(holders, tuple(rank for rank in everyone if rank not in holders))


def among(place: Place, roles: Roles, offers: Sequence[Offer]) -> Optional[Place]:
    """The place that a process has among the members; None for an observer."""
    if place.rank not in roles.members:
        return None
    hosts: List[int] = [offers[rank].host for rank in roles.members]
    return dataclasses.replace(
        place, rank=roles.members.index(place.rank), size=len(roles.members), newcomers=(),
        local_size=hosts.count(place.cross_rank), cross_size=len(set(hosts)),
        cross_rank=sorted(set(hosts)).index(place.cross_rank))
