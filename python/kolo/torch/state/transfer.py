# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Moves trees of tensors and values, or tensors alone, between processes.

The skeleton of a tree is sent as bytes (see encoding). Large tensors are sent
one by one; small tensors of the same dtype and device are sent together.

The caller provides a Move, a function that moves a tensor's bytes from one process to
the others. All processes call their Move with tensors of the same sizes in the same
order. The sender's Move sends each tensor; the receivers' Moves fill it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
import torch.distributed as dist

from .. import compat, place
from . import encoding
from .reserve import Reserve
from .tree import join, nbytes, split
from .values import Malformed, dtype

BUCKET = 32 * 1024 * 1024  # bytes that are moved together
_LARGEST = 2 ** 48  # bytes of a tensor

Move = Callable[[torch.Tensor], None]


def send(tree: Any, move: Move, bucket: int = BUCKET) -> None:
    """Sends a tree to processes that call receive(). Raises Refused, before it sends anything, for unsupported values."""
    skeleton, live = split(tree)
    text = encoding.dumps((skeleton, [_describe(tensor) for tensor in live]))
    move(torch.tensor([len(text)], dtype=torch.int64))
    move(torch.frombuffer(bytearray(text), dtype=torch.uint8))
    exchange(live, move, False, bucket)


def receive(move: Move, bucket: int = BUCKET, spare: Optional[Reserve] = None) -> Any:
    """Returns the tree that another process sends. The caller owns its tensors, even those from spare.

    Raises Malformed for data that send() cannot have sent.
    """
    length = torch.zeros(1, dtype=torch.int64)
    move(length)
    if not 0 < int(length) <= encoding.LIMIT:
        raise Malformed("%d bytes are no message of kolo.torch" % int(length))
    text = bytearray(int(length))
    move(torch.frombuffer(text, dtype=torch.uint8))
    message = encoding.loads(text)
    if type(message) is not tuple or len(message) != 2 or type(message[1]) is not list:
        raise Malformed("a message must have a skeleton and the descriptions of its tensors")
    skeleton, described = message
    received = [_room(*_kind(text), spare) for text in described]

    def tensor(number: int) -> torch.Tensor:
        if number >= len(received):
            raise Malformed("there is no tensor number %d of %d" % (number, len(received)))
        return received[number]

    exchange(received, move, True, bucket)
    return join(skeleton, tensor)


def broadcasts(group: Any, root: int) -> Move:
    """Returns a Move that broadcasts from rank root in a group of torch.distributed."""
    devices = compat.devices(group)

    def move(tensor: torch.Tensor) -> None:
        here = tensor if tensor.device.type in devices else tensor.to(place.device())  # NCCL sends only from GPUs
        dist.broadcast(here, root, group=group)
        if here is not tensor:
            tensor.copy_(here)

    return move


def _describe(tensor: torch.Tensor) -> str:
    """Returns a description of a tensor for receivers: dtype, device type, shape."""
    return " ".join((str(tensor.dtype).partition(".")[2], tensor.device.type, *map(str, tensor.shape)))


def _kind(text: Any) -> Tuple[torch.dtype, torch.device, Tuple[int, ...]]:
    """Returns dtype, device and shape from a description by _describe()."""
    words = text.split(" ") if type(text) is str else []
    if len(words) < 2 or not all(word.isascii() and word.isdigit() and len(word) < 16 for word in words[2:]):
        raise Malformed("%.80r describes no tensor" % (text,))
    kind, shape = dtype(words[0]), tuple(map(int, words[2:]))
    if math.prod(shape) * kind.itemsize > _LARGEST or words[1] == "meta":
        raise Malformed("%.80r describes no tensor that a process could have" % (text,))
    try:
        return kind, _local(words[1]), shape
    except RuntimeError as err:
        raise Malformed("a tensor on %.80r: %s" % (words[1], err)) from err


def _room(kind: torch.dtype, device: torch.device, shape: Tuple[int, ...], spare: Optional[Reserve]) -> torch.Tensor:
    """Returns memory for a tensor, from spare if possible."""
    ready = spare.take(torch.Size(shape), kind, device) if spare is not None else None
    return torch.empty(shape, dtype=kind, device=device) if ready is None else ready


def exchange(tensors: List[torch.Tensor], move: Move, receiving: bool, bucket: int = BUCKET) -> None:
    """Moves large tensors one by one, and small tensors of the same dtype and device together.

    All processes must pass tensors of the same dtypes and sizes.
    """
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
    """Views a contiguous tensor as bytes, because backends do not support all types."""
    return tensor.view(-1).view(torch.uint8)


def _buckets(tensors: List[torch.Tensor], limit: int) -> Iterator[List[torch.Tensor]]:
    """Yields groups of tensors of one dtype and device, up to limit bytes. A larger tensor has its own group."""
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
    """Returns this process's device of a device type such as cuda."""
    return torch.device(device, torch.cuda.current_device()) if device == "cuda" else torch.device(device)
