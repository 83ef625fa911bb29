# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Computes which bytes of a sharded state each process sends to which other one when the group changes. Pure.

    ranks before     0: [0, 6)          1: [6, 12)
                          |  \\               |  \\
    ranks after      0: [0, 3)  1: [3, 6)  2: [6, 9)  3: [9, 12)

An item is a tensor of the whole state. A piece is a range of an item's bytes.
Bytes that a process has and also needs in the next group are not sent. A
process that leaves is connected only with processes of its own group. So it
sends the bytes for a newcomer to one of these, which passes them on.
"""

from __future__ import annotations

from collections import Counter
from typing import Counter as Counts
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

NOWHERE = -1  # in place of a rank


class Item(NamedTuple):
    """A tensor of the whole state, as DTensor places it: sharded along its first dimension, or the same on all ranks."""

    rows: int
    width: int  # bytes of a row
    sharded: bool

    def span(self, rank: int, size: int) -> Tuple[int, int]:
        """Returns the range of bytes that a rank has. The last ranks may have fewer than the others, or none."""
        if not self.sharded:
            return 0, self.rows * self.width
        chunk = self._chunk(size)
        return min(rank * chunk, self.rows) * self.width, min((rank + 1) * chunk, self.rows) * self.width

    def owners(self, start: int, stop: int, size: int) -> range:
        """Returns the ranks that together have a range of bytes of a sharded item. The range must not be empty."""
        chunk = self._chunk(size) * self.width
        return range(start // chunk, (stop - 1) // chunk + 1)

    def _chunk(self, size: int) -> int:
        return -(-self.rows // size)


class Piece(NamedTuple):
    """A range of the bytes of an item."""

    item: int
    start: int
    stop: int


class Change(NamedTuple):
    """A change from one group to the next."""

    before: int  # size of the group that has the state
    places: Tuple[int, ...]  # by rank of the next group: the rank before, or NOWHERE
    copies: Tuple[Tuple[int, int], ...] = ()  # ranks before that are lost, with the rank of the next group that has a copy of their part

    def leavers(self) -> List[int]:
        """Returns the ranks of processes that leave: they are not in the next group, but not lost either."""
        lost = dict(self.copies)
        return [rank for rank in range(self.before) if rank not in self.places and rank not in lost]


class Offer(NamedTuple):
    """What a member of the next group can contribute to the state."""

    commit: int  # number of the commit of which it has a share; negative for none
    checkpoint: int  # number of the commit of the last checkpoint; negative for none
    rank: int  # that the share is of, or NOWHERE
    size: int
    group: int  # generation of the group that it has left as planned, and is still connected with; 0 for none
    copy: int = NOWHERE  # rank of which it has a copy of the share, of the same commit


Between = Dict[Tuple[int, int], List[Piece]]  # by sender and receiver


class Routes(NamedTuple):
    """The pieces that processes keep and send in a change."""

    kept: Dict[int, List[Piece]]  # by rank of the next group: what it has already
    sent: Between  # ranks of the next group
    handed: Between  # ranks before: from a process that leaves to one that stays
    forwarded: Between  # ranks of the next group: of what was handed to the sender


def change(offers: Sequence[Offer]) -> Optional[Change]:
    """Returns how the last commit gets to the next group; None if a part of it is missing, or no member has a commit."""
    last = max(offer.commit for offer in offers)
    holders = [offer for offer in offers if offer.commit == last]
    size, group = holders[0].size, holders[0].group
    ranks = [offer.rank for offer in holders]
    if last < 0 or any(offer.size != size for offer in holders) or NOWHERE in ranks or len(set(ranks)) < len(ranks):
        return None
    places = tuple(offer.rank if offer.commit == last else NOWHERE for offer in offers)
    lost = [rank for rank in range(size) if rank not in ranks]
    copies = {offer.copy: rank for rank, offer in enumerate(offers) if offer.commit == last}
    if all(rank in copies for rank in lost):
        return Change(size, places, tuple((rank, copies[rank]) for rank in lost))
    if group == 0 or any(offer.group != group for offer in holders):
        return None
    return Change(size, places)


def route(items: Sequence[Item], change: Change) -> Routes:
    """Returns which pieces each process sends to which other one. All processes compute the same result."""
    present = {before: rank for rank, before in enumerate(change.places) if before != NOWHERE}
    routes, load = Routes({}, {}, {}, {}), _Load(sorted(present.values()))
    present.update(change.copies)
    for rank, before in enumerate(change.places):
        kept = routes.kept.setdefault(rank, [])
        for number, item in enumerate(items):
            start, stop = item.span(rank, len(change.places))
            if start == stop:
                continue
            if not item.sharded:
                piece = Piece(number, start, stop)
                if before != NOWHERE:
                    kept.append(piece)
                else:
                    routes.sent.setdefault((load.least(stop), rank), []).append(piece)
                continue
            for owner in item.owners(start, stop, change.before):
                first, last = item.span(owner, change.before)
                piece = Piece(number, max(start, first), min(stop, last))
                if present.get(owner) == rank:
                    kept.append(piece)
                elif owner in present:
                    routes.sent.setdefault((present[owner], rank), []).append(piece)
                elif before != NOWHERE:
                    routes.handed.setdefault((owner, before), []).append(piece)
                else:
                    through = load.least(piece.stop - piece.start)
                    routes.handed.setdefault((owner, change.places[through]), []).append(piece)
                    routes.forwarded.setdefault((through, rank), []).append(piece)
    return routes


class _Load:
    """Distributes the sending of bytes that several ranks have: the rank that sends least so far is next."""

    def __init__(self, ranks: Sequence[int]) -> None:
        self._ranks = ranks
        self._bytes: Counts[int] = Counter()

    def least(self, size: int) -> int:
        rank = min(self._ranks, key=lambda one: self._bytes[one])
        self._bytes[rank] += size
        return rank


def parcels(pieces: Sequence[Piece], limit: int, alone: int) -> Iterator[List[Piece]]:
    """Yields pieces in parcels of at most limit bytes.

    Larger pieces are divided. Pieces of less than alone bytes are put together.
    """
    parcel: List[Piece] = []
    room = limit
    for piece in pieces:
        for start in range(piece.start, piece.stop, limit):
            part = Piece(piece.item, start, min(piece.stop, start + limit))
            size = part.stop - part.start
            if size >= alone:
                yield [part]
                continue
            if size > room:
                yield parcel
                parcel, room = [], limit
            parcel.append(part)
            room -= size
    if parcel:
        yield parcel
