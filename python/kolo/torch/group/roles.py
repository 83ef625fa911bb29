# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Decides which processes of a new group are members, and which are observers until they have the state. Pure."""

from __future__ import annotations

import dataclasses
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ...worker import Place
from ..state.ledger import LOST


class StateLost(Exception):
    """No remaining process has the state of the training."""


class Offer(NamedTuple):
    """What each process reports about itself before the group forms."""

    commit: int  # number of its last commit, -1 for a newcomer, LOST
    background: int  # 1: it would send its state while it trains
    host: int  # number of its host


class Roles(NamedTuple):
    """The roles of all processes, by their ranks."""

    members: Tuple[int, ...]  # they train
    observers: Tuple[int, ...]  # they receive the state from the first member meanwhile


def decide(offers: Sequence[Offer]) -> Roles:
    """Assigns the roles. All processes come to the same result from the same offers.

    There are no observers in the cases below. All processes are then members, and
    the state is broadcast to those that lack it:

    - in the first group of a training,
    - if members have failed at different commits,
    - if rank 0, which reports to the agent, would be an observer,
    - if rank 0 would not send its state in the background,
    - if all processes have the state.
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
    """Returns a process's place among the members; None for an observer."""
    if place.rank not in roles.members:
        return None
    hosts: List[int] = [offers[rank].host for rank in roles.members]
    return dataclasses.replace(
        place, rank=roles.members.index(place.rank), size=len(roles.members), newcomers=(),
        local_size=hosts.count(place.cross_rank), cross_size=len(set(hosts)),
        cross_rank=sorted(set(hosts)).index(place.cross_rank))
