# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Writes and reads checkpoints on disk. A checkpoint is complete at every moment, also while it is replaced."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections import OrderedDict
from typing import Any, Sequence, Union

import torch

from .. import place
from .state import State, core_of
from .tree import join, split
from .values import MARK, made

Path = Union[str, "os.PathLike[str]"]


def save_checkpoint(state: Any, path: Path) -> None:
    """Writes a State, or anything that torch.save accepts, to path. Only rank 0 writes; the others return.

    The file is written next to path and then renamed. So path is always the old
    checkpoint or the new one, even if the process or the machine fails meanwhile.

    For a State with a sharded model, the values of the last commit are written, with
    the model's parts in the directory path.shards. With replicas, the current values
    are written, and all ranks must call this function.
    """
    core = core_of(state) if isinstance(state, State) else None
    if core is not None:
        core.write_parts()
    now = place.current()
    if now is not None and now.rank != 0:
        return
    path = os.fspath(path)
    tree = core.kept(path) if core is not None else None
    content = state if tree is None else _written(*split(tree, "state"))
    directory = os.path.dirname(os.path.abspath(path))
    descriptor, part = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".part", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    if core is not None and tree is not None:
        core.checkpointed(tree, path)


def load_checkpoint(state: State, path: Path, weights_only: bool = True) -> bool:
    """Sets a State from a checkpoint of save_checkpoint, and returns whether there was a checkpoint.

    Call it before the elastic function. The first group takes the state of its rank
    0, and newcomers take the state of the group that they join.

    With weights_only (the default), the file cannot run code. This reads any State
    that save_checkpoint has written. Other files of a script may need
    weights_only=False.
    """
    if not os.path.exists(path):
        return False
    try:
        tree = torch.load(path, map_location="cpu", weights_only=weights_only)
    except pickle.UnpicklingError as err:
        raise ValueError("%s has values that save_checkpoint(state, path) does not write. For a file that you trust, pass "
                         "weights_only=False: %s" % (os.fspath(path), err)) from err
    state.load(_read(tree))
    state.save()
    return True


def _written(skeleton: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """Converts a skeleton and its tensors to types that every release of PyTorch reads with weights_only."""
    return join(skeleton, tensors.__getitem__, lambda kind, parts: {MARK: kind, "parts": parts})


def _read(node: Any) -> Any:
    """Undoes _written(). Returns other values unchanged."""
    if type(node) in (list, tuple):
        return type(node)(map(_read, node))
    if type(node) is dict and MARK in node:
        return made(node[MARK], _read(node.get("parts")))
    if type(node) in (dict, OrderedDict):
        for key, value in node.items():
            node[key] = _read(value)
    return node
