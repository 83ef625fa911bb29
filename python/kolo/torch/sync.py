# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sends the training state from one member to the others, where that is necessary."""

from __future__ import annotations

import pickle
from typing import Any, Dict, Iterator, List

import torch

from .group import Group
from .state import LOST, State
from .tree import join, nbytes, split

BUCKET = 32 * 1024 * 1024  # bytes that are sent together


def sync(state: State, group: Group) -> None:
    """Gives all members of a group the same state.

    Nothing is sent when all of them have the same commit, as after members have
    left. Otherwise the member with the latest commit sends (the lowest rank of
    several), all others receive.

    What is saved here, because a callback or another member has changed it, is
    another commit: a member that fails before it saves must not be taken for
    one that has saved.
    """
    commits = group.gather(state._commits)
    root = commits.index(max(commits))
    if commits[root] < 0 and LOST in commits:
        raise RuntimeError("the training state is lost: no member has a commit that can be restored")
    sent = bool(group.place.newcomers) or len(set(commits)) > 1 or commits[0] < 0
    if sent and group.place.size > 1:
        _broadcast(state, root, group)
    state._reset()
    if sent or not state._fresh:
        if not state._fresh:
            state.save()
        state._commits = commits[root] + 1


def _broadcast(state: State, root: int, group: Group) -> None:
    """Sends the values that are shared, as one pickle without tensors and the tensors in buckets."""
    live: List[torch.Tensor] = []
    text = b""
    if group.place.rank == root:
        skeleton, live = split(state.tree(shared=True))
        text = pickle.dumps((skeleton, state._calls, [(t.shape, t.dtype, t.device.type) for t in live]))
    length = torch.tensor([len(text)], dtype=torch.int64)
    group.broadcast(length, root)
    data = torch.frombuffer(bytearray(text or int(length)), dtype=torch.uint8)
    group.broadcast(data, root)
    if group.place.rank == root:
        _send(live, root, group)
        return
    skeleton, calls, specs = pickle.loads(data.numpy().tobytes())
    received = [torch.empty(shape, dtype=dtype, device=_local(device)) for shape, dtype, device in specs]
    _send(received, root, group)
    state.load(join(skeleton, received.__getitem__))
    state._calls = calls


def _send(tensors: List[torch.Tensor], root: int, group: Group) -> None:
    """Broadcasts tensors in place: large ones as they are, small ones of a kind together."""
    with torch.no_grad():
        for bucket in _buckets(tensors):
            if len(bucket) == 1 and bucket[0].is_contiguous():
                group.broadcast(_bytes(bucket[0]), root)
                continue
            flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
            group.broadcast(_bytes(flat), root)
            if group.place.rank == root:
                continue
            for tensor, part in zip(bucket, flat.split([tensor.numel() for tensor in bucket])):
                tensor.copy_(part.view_as(tensor))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor: backends do not know all types."""
    return tensor.view(-1).view(torch.uint8)


def _buckets(tensors: List[torch.Tensor]) -> Iterator[List[torch.Tensor]]:
    """Tensors of one type and device, up to BUCKET bytes; one that is larger stays alone."""
    kinds: Dict[Any, List[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for kind in kinds.values():
        bucket: List[torch.Tensor] = []
        size = 0
        for tensor in kind:
            size += nbytes([tensor])
            if bucket and size > BUCKET:
                yield bucket
                bucket, size = [], nbytes([tensor])
            bucket.append(tensor)
        if bucket:
            yield bucket


def _local(device: str) -> torch.device:
    """This process's device of a type."""
    return torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device(device)
