# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Models that are sharded over the ranks, as with FSDP2: made again for each group, from the last commit on disk.

    commit                    the group changes, or has lost a member
    write() --> directory --> reset(): build() for the new group, each rank reads its part

With replicas (HSDP), the part of a rank is that of another one in each replica:
it is kept in memory, like the state of other objects, and newcomers get it from
there. See replicas. A checkpoint is written for save_checkpoint only.

Else a rank has no copy of what the others hold, so a commit is a checkpoint of
torch.distributed.checkpoint: in a directory that all hosts share, or in
/dev/shm where all ranks are on one host. It is whole once its metadata is
there, which is written last. The state that members compare and send has its
name, so all of them read the same one.
"""

from __future__ import annotations

import importlib
import os
import re
import shutil
import tempfile
import uuid
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist

from .. import meshes, place
from . import shards, transfer
from .handlers import Handler, register_handler

_RUN = re.compile(r"kolo-\w+", re.ASCII)
_CHECKPOINT = re.compile(r"[0-9a-f]{32}")
KEPT = 2  # checkpoints: a member may have failed before it learned of the last one

Build = Callable[[Any], Tuple[torch.nn.Module, torch.optim.Optimizer]]


class Sharded:
    """A model and its optimizer whose parameters are DTensors of the present group.

        def build(mesh):
            model = Net()
            fully_shard(model, mesh=mesh)
            return model, torch.optim.AdamW(model.parameters())

        state = kolo.State(sharded=kolo.Sharded(build, "/shared/training"), step=0)

    build is called for each group with the mesh of its ranks; model and optimizer
    are those that it has returned last. Each commit is written to a directory of
    this run in directory; with replicas, commits stay in memory, and only
    save_checkpoint writes there.
    """

    def __init__(self, build: Build, directory: str) -> None:
        self.model: Any = None
        self.optimizer: Any = None
        self._build = build
        self._directory = directory
        self._run: Optional[str] = None  # directory of this run, relative to directory
        self._names: List[str] = []  # the last checkpoints, relative to directory
        self._stepped = False  # the last one has the optimizer's state
        self._shard: Optional[shards.Shard] = None  # with replicas: this rank's part, while there is no model
        # Takes a second; most scripts do not need it.
        self._dcp = importlib.import_module("torch.distributed.checkpoint")
        self._dicts = importlib.import_module("torch.distributed.checkpoint.state_dict")

    def write(self) -> None:
        """Writes a checkpoint; all ranks call it. The old one counts until all have returned."""
        self._run = self._run or _agree(self._new_run)
        name = os.path.join(self._run, _agree(lambda: uuid.uuid4().hex))
        stepped = bool(self.optimizer.state)
        try:
            self._dcp.save(self._tree(stepped), checkpoint_id=os.path.join(self._directory, name))
        except self._dcp.CheckpointException as err:  # is no Exception
            raise OSError("cannot write a commit to %s: %s" % (self._directory, err)) from err
        self._names, self._stepped = self._names[1 - KEPT:] + [name], stepped
        if dist.get_rank() == 0:
            self._prune(self._run)

    def make(self) -> bool:
        """Makes model and optimizer for the present group, as of the last checkpoint; writes one if there is none."""
        mesh = meshes.mesh()
        self.model, self.optimizer = self._build(mesh)
        if any(getattr(parameter, "device_mesh", mesh) != mesh for parameter in self.model.parameters()):
            raise TypeError("kolo.Sharded: build has to shard the model over the mesh that it is given")
        if self._shard is not None:
            shards.put(self._shard, self.model, self.optimizer)
            self._shard = None
            return False
        if self._names:
            self._read()
            return replicated()
        if replicated():
            for tensor in shards.tensors(self.model):  # each replica has begun with its own numbers
                dist.broadcast(tensor, dist.get_rank() % place.replica(), group=meshes.column())
        else:
            self.write()
        return True

    def _read(self) -> None:
        """Sets model and optimizer to the last checkpoint."""
        tree = self._tree(self._stepped)
        try:
            self._dcp.load(tree, checkpoint_id=os.path.join(self._directory, self._names[-1]))
        except self._dcp.CheckpointException as err:
            raise OSError("cannot read the last commit from %s: %s" % (self._directory, err)) from err
        if self._stepped:
            self._dicts.set_state_dict(
                self.model, self.optimizer, model_state_dict=tree["model"], optim_state_dict=tree["optimizer"])
        else:
            self._dicts.set_model_state_dict(self.model, tree["model"])

    def drop(self) -> None:
        """Forgets what is bound to a group that is left."""
        if replicated():
            self._shard = self.shard()
        self.model = self.optimizer = None

    def shard(self) -> Optional[shards.Shard]:
        """With replicas: this rank's part."""
        return self._shard if self.model is None else shards.take(self.model, self.optimizer)

    def put(self, shard: Optional[shards.Shard]) -> None:
        """Sets this rank's part, at once or when there is a model."""
        if self.model is None or shard is None:
            self._shard = shard
        else:
            shards.put(shard, self.model, self.optimizer)

    def keep(self, name: str, path: str) -> str:
        """Copies a checkpoint into the directory path.shards, and returns where it is."""
        kept = os.path.join(os.path.abspath(path) + ".shards", os.path.basename(name))
        if not os.path.exists(kept):
            shutil.rmtree(kept + ".part", ignore_errors=True)
            shutil.copytree(os.path.join(self._directory, name), kept + ".part")
            os.sync()
            os.rename(kept + ".part", kept)
        return kept

    def _tree(self, stepped: bool) -> Dict[str, Any]:
        """What is written and read. An optimizer that has made no step has no state; to ask for it would make one."""
        if not stepped:
            return {"model": self._dicts.get_model_state_dict(self.model)}
        model, optimizer = self._dicts.get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def _new_run(self) -> str:
        os.makedirs(self._directory, exist_ok=True)
        return os.path.basename(tempfile.mkdtemp(prefix="kolo-", dir=self._directory))

    def _prune(self, run: str) -> None:
        """Removes checkpoints that no member needs, and what was not finished."""
        for name in os.listdir(os.path.join(self._directory, run)):
            if os.path.join(run, name) not in self._names:
                shutil.rmtree(os.path.join(self._directory, run, name), ignore_errors=True)


class ShardedHandler(Handler):
    """Has the name of the checkpoint as the state, and makes the rest of it when the group is there."""

    @property
    def parts(self) -> bool:
        return replicated()

    def tree(self) -> Any:
        return {**self.common(), "shard": self.value.shard()} if replicated() else self.common()

    def common(self) -> Any:
        return {"run": self.value._run, "names": list(self.value._names), "stepped": self.value._stepped}

    def write(self) -> None:
        self.value.write()

    def begin(self) -> None:
        self.value.put(None)

    def load(self, tree: Any) -> None:
        _check(tree["run"], tree["names"])
        if "shard" in tree:
            self.value.put(tree["shard"])
        self.value._run, self.value._names, self.value._stepped = tree["run"], list(tree["names"]), tree["stepped"]

    def keep(self, tree: Any, path: str) -> Any:
        return {"run": None, "names": [self.value.keep(tree["names"][-1], path)], "stepped": tree["stepped"]}

    def kept(self, tree: Any, path: str) -> None:
        last = os.path.basename(tree["names"][-1])
        for name in os.listdir(os.path.abspath(path) + ".shards"):
            if name != last:
                shutil.rmtree(os.path.join(os.path.abspath(path) + ".shards", name), ignore_errors=True)

    def commit(self) -> None:
        if not replicated():
            self.value.write()

    def reset(self) -> bool:
        made: bool = self.value.make()
        return made

    def drop(self) -> None:
        self.value.drop()


def _check(run: Optional[str], names: Sequence[str]) -> None:
    """Raises ValueError for a run and checkpoints whose names this module does not give: they may come from another process.

    A checkpoint is in a run of the directory, or where keep() has put it.
    """
    if run is not None and not _RUN.fullmatch(run):
        raise ValueError("kolo.Sharded: %r is no directory of a run" % (run,))
    for name in names:
        parent, base = os.path.split(name)
        kept = os.path.isabs(parent) and parent.endswith(".shards") and os.path.normpath(parent) == parent
        if not _CHECKPOINT.fullmatch(base) or not (kept or _RUN.fullmatch(parent)):
            raise ValueError("kolo.Sharded: %r is no checkpoint of a commit: it has to be kolo-<run>/<32 hex digits> below the directory, "
                             "or <file>.shards/<32 hex digits>" % (name,))


def replicated() -> bool:
    """Whether each part of a model is on several ranks of the present group, or is to be."""
    now = place.current()
    return now is not None and now.replica > 1


def _agree(make: Callable[[], str]) -> str:
    """What make returns on rank 0."""
    move = transfer.broadcasts(dist.group.WORLD, 0)
    if dist.get_rank() != 0:
        received: str = transfer.receive(move)
        return received
    name = make()
    transfer.send(name, move)
    return name


register_handler(Sharded, ShardedHandler)
