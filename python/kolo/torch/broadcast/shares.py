# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Gives all members of a group their shares of a sharded state. Each process has a different share.

    what each has --> values, build for the new group --> shares, all to all --> all have theirs?
                                                                                  |         |
                                                                          commit <+         +-> last checkpoint

After a planned change, the processes together still have the whole last
commit. The members of the new group hold a part of it. Processes that leave
hold the rest, and hand it over through the connections of their former group.
When a member is lost, its share is lost, too, unless another member has a
copy. All members then go back to the last checkpoint. Until all have received
their new shares, each keeps its old share.
"""

from __future__ import annotations

from typing import Callable, Dict, List, Optional, Tuple

import torch

from ..group.exchange import Message, Messages
from ..group.former import PATIENCE, Former
from ..group.group import Group
from ..group.roles import StateLost
from ..log import log
from ..state import ranges, shards
from ..state.core import Core
from ..state.ranges import NOWHERE, Between, Change, Offer, Piece
from ..state.sharded import Sharded, ShardedHandler
from . import replicas

LIMIT = 4 * 1024 * 1024  # bytes of a message
ALONE = 64 * 1024  # bytes of a piece that is sent as it is; smaller ones are copied into one message
IDLE = 20.0  # seconds without a message after which a process that leaves is taken for lost
View = Callable[[Piece], torch.Tensor]  # the bytes of a piece


def sync(core: Core, group: Group, former: Optional[Former]) -> None:
    """Gives all members the state of the same commit, and saves it as a new commit."""
    at = group.place
    if at.rank in at.newcomers:  # what it has may be of a branch that was left
        core.ledger.disown()
        if core.ledger.held < 0:
            core.forget_checkpoint()
    offers = [Offer(*row) for row in group.gather_rows(_offer(core, former))]
    change = ranges.change(offers)
    _tell(former, offers, change)
    last = max(offer.commit for offer in offers)
    checkpoint = max(offer.checkpoint for offer in offers)
    if last < 0 and checkpoint < 0:
        core.begin()
        if at.size > 1:
            replicas.send(core, 0, group)
        core.reset()
        core.keep_changes(0)
        core.keep_checkpoint()
        return
    if change is None or not _move(core, group, former, change):
        _go_back(core, group, offers, checkpoint)
        core.keep_changes(max(last, checkpoint) + 1)
        core.keep_checkpoint()
        return
    core.keep_changes(last + 1)


def hand_over(core: Core, former: Former) -> None:
    """Hands over the share of a process that gets no next place.

    Sends the share to members of its group that go on, and returns when they have
    received it.
    """
    places = former.told()
    models = _models(core)
    if places is None or any(model.held is None for model in models):
        return
    mine = _joined([shards.held(model.held) for model in models if model.held is not None])
    handed = ranges.route(mine.items, Change(former.size, tuple(places))).handed
    sending = _messages(handed, former.rank, lambda piece: mine.view(piece, former.rank, former.size), sends=True)
    try:
        former.exchange(sending, {}).wait(lambda: False, PATIENCE.total_seconds())
    except RuntimeError as err:
        log("this process could not hand over its share of the model: %s", err)
        return
    former.confirmed(list(sending))


def protect(core: Core, group: Group, number: int) -> None:
    """Gives each member a copy of the share of the member before it, in the order of ranks.

    The shares are those of the commit with this number. Until all members have received
    their copies, each keeps its copy of the previous commit.
    """
    rank, size = group.place.rank, group.place.size
    models = [model for model in _models(core) if model.redundant]
    if not models or size == 1:
        return
    before, after = (rank - 1) % size, (rank + 1) % size
    copies = []
    for model in models:
        shard = model.shard()
        if shard is None:
            return
        mine, copy = shards.held(shard), shards.Parts()
        for item in mine.items:
            start, stop = item.span(before, size) if item.sharded else (0, 0)
            copy.add(item, torch.empty(stop - start, dtype=torch.uint8))

        def have(piece: Piece, parts: shards.Parts = mine) -> torch.Tensor:
            return parts.view(piece, rank, size)

        def want(piece: Piece, parts: shards.Parts = copy) -> torch.Tensor:
            return parts.view(piece, before, size)

        between = {(one, other): [Piece(number, *item.span(one, size)) for number, item in enumerate(mine.items)
                                  if item.sharded and len(set(item.span(one, size))) == 2]
                   for one, other in ((rank, after), (before, rank))}
        group.exchange(_messages(between, rank, have, sends=True), _messages(between, rank, want, sends=False))
        copies.append(copy)
    group.gather(number)
    for model, copy in zip(models, copies):
        model.copy = shards.Copy(number, before, size, copy)


def _offer(core: Core, former: Optional[Former]) -> Offer:
    """Returns what this process can contribute: its commit, its share, its checkpoint and its copy."""
    held = [model.held for model in _models(core)]
    rank, size = held[0]["at"] if held and held[0] is not None and None not in held and core.ledger.held >= 0 else (NOWHERE, 0)
    copies = [model.copy for model in _models(core)]
    copy = copies[0].rank if copies and copies[0] is not None and all(
        one is not None and (one.commit, one.size) == (core.ledger.held, size) for one in copies) else NOWHERE
    return Offer(core.ledger.held, core.checkpoint, rank, size, former.generation if former is not None else 0, copy)


def _tell(former: Optional[Former], offers: List[Offer], change: Optional[Change]) -> None:
    """Informs leaving processes of what they must hand over. Only one member of the former group does this."""
    if former is None:
        return
    connected = [offer.rank for offer in offers if offer.group == former.generation and offer.rank != NOWHERE]
    if connected and former.rank == min(connected):
        former.tell([rank for rank in range(former.size) if rank not in connected], change.places if change is not None and not change.copies else ())


def _move(core: Core, group: Group, former: Optional[Former], change: Change) -> bool:
    """Moves the shares. Returns whether all members have received theirs."""
    models, rank = _models(core), group.place.rank
    mine = []
    if change.places[rank] != NOWHERE:
        shares = [model.held for model in models if model.held is not None]
        mine = [(change.places[rank], _joined([shards.held(share) for share in shares]))]
        mine += [(lost, _joined([model.copy.parts for model in models if model.copy is not None]))
                 for lost, keeper in change.copies if keeper == rank]
        outlines = [shards.outline(share) for share in shares]
    if NOWHERE in change.places:
        received = _send(core, group, next(rank for rank, before in enumerate(change.places) if before != NOWHERE))
        outlines = outlines if mine else received
    for model, outline in zip(models, outlines):
        model.expect(outline)
    core.reset()
    made = [model.receive() for model in models]
    arrived = _exchange(group, former, change, mine, _joined([parts for parts, _ in made]))
    if min(group.gather(int(arrived))) == 0:
        return False
    for _, complete in made:
        complete()
    return True


def _send(core: Core, group: Group, root: int) -> List[shards.Outline]:
    """Sends everything except the shares from the member root to the others.

    These are the values of the state, the values of the checkpoint, what the snapshot
    knows of the tensors, and the outlines of the shares, which are returned.
    """
    def move(tensor: torch.Tensor) -> None:
        group.broadcast(tensor, root)

    if group.place.rank != root:
        checkpoint, received, known = core.receive(move)
        core.take_checkpoint(checkpoint)
        core.snapshot.learn(known)
        return list(received)
    outlines = [shards.outline(model.held) for model in _models(core) if model.held is not None]
    core.send(move, (core.shared_checkpoint(), outlines, core.snapshot.known))
    return outlines


def _exchange(group: Group, former: Optional[Former], change: Change, mine: List[Tuple[int, shards.Parts]], theirs: shards.Parts) -> bool:
    """Fills this process's share in the new group. Returns whether all of it has arrived.

    mine lists the parts that this process has, each with its rank in the former group.
    """
    rank, size = group.place.rank, group.place.size
    routes = ranges.route(theirs.items, change)
    through = _Through([piece for (source, _), pieces in routes.forwarded.items() if source == rank for piece in pieces])

    def have(piece: Piece) -> torch.Tensor:
        for before, parts in mine:
            start, stop = parts.items[piece.item].span(before, change.before)
            if start <= piece.start and piece.stop <= stop:
                return parts.view(piece, before, change.before)
        raise RuntimeError("this process does not have %r" % (piece,))

    def want(piece: Piece) -> torch.Tensor:
        return theirs.view(piece, rank, size)

    def arriving(piece: Piece) -> torch.Tensor:
        passing = through.view(piece)
        return want(piece) if passing is None else passing

    handing = None
    if former is not None and any(target == former.rank for _, target in routes.handed):
        handed = _messages(routes.handed, former.rank, arriving, sends=False)
        handing = former.exchange({}, handed)

    def keep() -> None:
        with torch.no_grad():
            for piece in routes.kept[rank]:
                want(piece).copy_(have(piece))

    group.exchange(_messages(routes.sent, rank, have, sends=True), _messages(routes.sent, rank, want, sends=False), keep)
    arrived = True
    if handing is not None and former is not None:
        try:
            handing.wait(lambda: group.failed, IDLE)
            former.confirm(list(handed))
        except RuntimeError as err:
            log("group %d: %s", group.place.generation, err)
            arrived = False
    if routes.forwarded:
        group.exchange(_messages(routes.forwarded, rank, through.whole, sends=True), _messages(routes.forwarded, rank, want, sends=False))
    return arrived


def _go_back(core: Core, group: Group, offers: List[Offer], checkpoint: int) -> None:
    """Gives all members the state of the last checkpoint. Each reads its own share for its place in the group."""
    if checkpoint < 0:
        raise StateLost("the training state is lost: a share of it is gone, and no process knows of a checkpoint")
    root = [offer.checkpoint for offer in offers].index(checkpoint)
    if group.place.rank == root:
        log("group %d goes on from the checkpoint of commit %d; the last commit was %d", group.place.generation, checkpoint,
            max(offer.commit for offer in offers))
    core.load_checkpoint()
    for handler in core.handlers.values():
        if handler.shares:
            handler.begin()
    if group.place.size > 1:
        replicas.send(core, root, group)
    core.reset()


def _models(core: Core) -> List[Sharded]:
    return core.values(ShardedHandler)


def _joined(parts: List[shards.Parts]) -> shards.Parts:
    """Returns the parts of several models as the parts of one model."""
    joined = shards.Parts()
    for one in parts:
        for item, tensor in zip(one.items, one.tensors):
            joined.add(item, tensor)
    return joined


def _messages(between: Between, rank: int, view: View, sends: bool) -> Messages:
    """Returns the messages that a process sends or receives, by the rank of the other process."""
    messages: Dict[int, List[Message]] = {}
    for (source, target), pieces in between.items():
        if rank == (source if sends else target):
            messages[target if sends else source] = [list(map(view, parcel)) for parcel in ranges.parcels(pieces, LIMIT, ALONE)]
    return messages


class _Through:
    """Memory for data that this process passes on, from a process that leaves to a newcomer."""

    def __init__(self, pieces: List[Piece]) -> None:
        self._memory: Dict[int, List[Tuple[Piece, torch.Tensor]]] = {}
        for piece in pieces:
            memory = torch.empty(piece.stop - piece.start, dtype=torch.uint8)
            self._memory.setdefault(piece.item, []).append((piece, memory))

    def view(self, part: Piece) -> Optional[torch.Tensor]:
        """Returns the bytes of a part of a piece; None if that part does not go through this process."""
        for piece, memory in self._memory.get(part.item, ()):
            if piece.start <= part.start and part.stop <= piece.stop:
                return memory[part.start - piece.start:part.stop - piece.start]
        return None

    def whole(self, part: Piece) -> torch.Tensor:
        """Returns the bytes of a part that goes through this process."""
        found = self.view(part)
        if found is None:
            raise RuntimeError("%r does not go through this process" % (part,))
        return found
