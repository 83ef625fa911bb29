# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checkpoints on disk, whole at every moment."""

from __future__ import annotations

import os
import tempfile
from typing import Any, Union

import torch

from . import place
from .state import State

Path = Union[str, "os.PathLike[str]"]


def save_checkpoint(state: Any, path: Path) -> None:
    """Writes a State, or anything that torch.save takes, to path; rank 0 does, the others return.

    The file is written beside path and renamed, so that path is always the old
    checkpoint or the new one, even if the process or the machine ends meanwhile.
    A State with a sharded model is written as of its last commit; its parts are
    in the directory path.shards. With replicas it is written as it is now, and
    all ranks have to call this.
    """
    if isinstance(state, State):
        state._write_parts()
    now = place.current()
    if now is not None and now.rank != 0:
        return
    path = os.fspath(path)
    tree = state._kept(path) if isinstance(state, State) else state
    directory = os.path.dirname(os.path.abspath(path))
    descriptor, part = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".part", dir=directory)
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(tree, file)
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
    if isinstance(state, State):
        for name, handler in state._handlers.items():
            handler.kept(tree[name], path)


def load_checkpoint(state: State, path: Path, weights_only: bool = True) -> bool:
    """Sets a State from a checkpoint of save_checkpoint, if there is one, and returns whether there was.

    Call it before the elastic function: members take the state of rank 0 of the
    first group, newcomers that of the group. With weights_only (the default)
    the file cannot run code; states with values of other types need False.
    """
    if not os.path.exists(path):
        return False
    state.load(torch.load(path, map_location="cpu", weights_only=weights_only))
    state.save()
    return True
