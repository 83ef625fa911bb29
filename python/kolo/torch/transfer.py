# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Moves trees of tensors and picklable values, or tensors alone, between processes.

What is no tensor goes as one pickle, the tensors as they are, small ones of a
kind together. How bytes get from one process to the others is the caller's: a
Move is given the same sequence of tensors on all sides; that of the sender
sends them, those of the others fill them.
"""

from __future__ import annotations

import pickle
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import torch

from .reserve import Reserve
from .tree import join, nbytes, split

BUCKET = 32 * 1024 * 1024  # bytes that are moved together

Move = Callable[[torch.Tensor], None]


class Spec(NamedTuple):
    """What a receiver must know of a tensor."""

    shape: torch.Size
    dtype: torch.dtype
    device: str

    def memory(self, spare: Optional[Reserve]) -> torch.Tensor:
        """Memory for it, from spare if there is some."""
        device = _local(self.device)
        ready = spare.take(self.shape, self.dtype, device) if spare is not None else None
        return torch.empty(self.shape, dtype=self.dtype, device=device) if ready is None else ready


def send(tree: Any, move: Move, bucket: int = BUCKET) -> None:
    """Sends a tree to those who receive()."""
    skeleton, live = split(tree)
    text = pickle.dumps((skeleton, [Spec(t.shape, t.dtype, t.device.type) for t in live]))
    move(torch.tensor([len(text)], dtype=torch.int64))
    move(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    exchange(live, move, False, bucket)


def receive(move: Move, bucket: int = BUCKET, spare: Optional[Reserve] = None) -> Any:
    """Returns the tree that another process sends. Its tensors are the caller's, also those from spare."""
    length = torch.zeros(1, dtype=torch.int64)
    move(length)
    data = torch.empty(int(length), dtype=torch.uint8)
    move(data)
    skeleton, specs = pickle.loads(data.numpy().tobytes())
    received = [spec.memory(spare) for spec in specs]
    exchange(received, move, True, bucket)
    return join(skeleton, received.__getitem__)


def exchange(tensors: List[torch.Tensor], move: Move, receiving: bool, bucket: int = BUCKET) -> None:
    """Moves tensors of the same types and sizes on all sides: large ones as they are, small ones of a kind together."""
    with torch.no_grad():
        for part in _buckets(tensors, bucket):
            if len(part) == 1 and part[0].is_contiguous():
                move(_bytes(part[0]))
                continue
            flat = torch.cat([tensor.reshape(-1) for tensor in part])
            move(_bytes(flat))
            if receiving:
                for tensor, piece in zip(part, flat.split([tensor.numel() for tensor in part])):
                    tensor.copy_(piece.view_as(tensor))


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The memory of a contiguous tensor: backends do not know all types."""
    return tensor.view(-1).view(torch.uint8)


def _buckets(tensors: List[torch.Tensor], limit: int) -> Iterator[List[torch.Tensor]]:
    """Tensors of one type and device, up to limit bytes; one that is larger stays alone."""
    kinds: Dict[Any, List[torch.Tensor]] = {}
    for tensor in tensors:
        if tensor.numel():
            kinds.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for kind in kinds.values():
        bucket: List[torch.Tensor] = []
        size = 0
        for tensor in kind:
            size += nbytes([tensor])
            if bucket and size > limit:
                yield bucket
                bucket, size = [], nbytes([tensor])
            bucket.append(tensor)
        if bucket:
            yield bucket


def _local(device: str) -> torch.device:
    """This process's device of a type."""
    return torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device(device)
