# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Models that are sharded over the ranks, as with FSDP2: made again for each group.

    planned change     commit --> build() for the next group --> parts move between processes
    a member is lost   checkpoint in the directory --> build() --> each rank reads its part

Each rank keeps a copy of its part of the last commit. A part that is lost is
nowhere else, so every so many commits are also a checkpoint of
torch.distributed.checkpoint: in a directory that all hosts share, or in
/dev/shm where all ranks are on one host. It is whole once its metadata is
there, which is written last. The state that members compare and send has its
name, so all of them read the same one. Where parts are not ranges of the whole
(see shards.movable) each commit is a checkpoint, and each change reads it.

With replicas (HSDP), the part of a rank is that of another one in each replica,
and newcomers get it from there: see replicas. A checkpoint is written for
save_checkpoint only.
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
from ..log import log
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
    are those that it has returned last. Commits stay in memory; each one, or each
    checkpoint_every-th, is also written to a directory of this run in directory,
    for the loss of a member. With redundancy=1 each member also keeps a copy of
    the part of the one before it, so that one that is lost takes back no more
    than to the last commit. With replicas only save_checkpoint writes there.
    """

    def __init__(self, build: Build, directory: str, checkpoint_every: int = 1, redundancy: int = 0) -> None:
        if checkpoint_every < 1:
            raise ValueError("kolo.Sharded: checkpoint_every is a number of commits, at least 1")
        self.model: Any = None
        self.optimizer: Any = None
        self._build = build
        self._directory = directory
        self._run: Optional[str] = None  # directory of this run, relative to directory
        self._names: List[str] = []  # the last checkpoints, relative to directory
        self._stepped = False  # the last one has the optimizer's state
        self._every = checkpoint_every
        if redundancy not in (0, 1):
            raise ValueError("kolo.Sharded: redundancy is 0 or 1")
        self._redundancy = redundancy
        self.copy: Optional[shards.Copy] = None  # of another member's part
        self._since = 0  # commits since the last checkpoint
        self._shard: Optional[shards.Shard] = None  # this rank's part, while there is no model with it
        self._outline: Optional[shards.Outline] = None  # of the parts that are to come from other members
        self._unmovable: Optional[str] = None  # what keeps parts from being moved
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
        self._names, self._stepped, self._since = self._names[1 - KEPT:] + [name], stepped, 0
        if dist.get_rank() == 0:
            self._prune(self._run)

    def commit(self) -> bool:
        """Writes a checkpoint if it is time for one, and returns whether; all ranks call it at each commit."""
        self._look()
        self._since += 1
        due = self._since >= self._every or self._unmovable is not None
        if due:
            self.write()
        return due

    def make(self) -> bool:
        """Makes model and optimizer for the present group; returns whether this has changed what they are.

        Without parts that are to come, they are as of the last checkpoint. One is written if there is none.
        """
        mesh = meshes.mesh()
        self.model, self.optimizer = self._build(mesh)
        if any(getattr(parameter, "device_mesh", mesh) != mesh for parameter in self.model.parameters()):
            raise TypeError("kolo.Sharded: build has to shard the model over the mesh that it is given. Tensor parallelism, over another mesh or a "
                            "dimension of this one, is not supported")
        if self._outline is not None:
            return True
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
            self._look()
            self.write()
        return True

    def _look(self) -> None:
        """Finds out whether parts can be moved. It is the same on all ranks."""
        reason = shards.movable(self.model, self.optimizer, meshes.mesh())
        if reason is not None and self._unmovable is None and dist.get_rank() == 0:
            log("kolo.Sharded: each commit is written, and each change of the group reads it, because of %s", reason)
        self._unmovable = reason

    @property
    def held(self) -> Optional[shards.Shard]:
        """This rank's part of the last commit, once the group that it is of is left."""
        return self._shard

    @property
    def redundant(self) -> bool:
        """Whether members are to have copies of each other's parts."""
        return self._redundancy > 0 and self._unmovable is None and not replicated()

    def expect(self, outline: shards.Outline) -> None:
        """Makes reset() leave it to receive() to set model and optimizer."""
        self._outline = outline

    def receive(self) -> Tuple[shards.Parts, Callable[[], None]]:
        """Memory for this rank's part in the present group, and a function that completes model and optimizer when it is filled."""
        if self._outline is None:
            raise RuntimeError("kolo.Sharded: nothing is to come")
        parts, shard = shards.room(self._outline, self.model, self.optimizer)

        def complete() -> None:
            shards.put(shard, self.model, self.optimizer)
            self._shard = self._outline = self.copy = None

        return parts, complete

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
        self._shard = self.shard()
        self.model = self.optimizer = self._outline = None

    def shard(self) -> Optional[shards.Shard]:
        """This rank's part, where it is kept in memory."""
        if self.model is None or self._outline is not None:
            return self._shard
        if self._unmovable is not None:
            return None
        taken = shards.take(self.model, self.optimizer)
        taken["at"] = _at()
        return taken

    def put(self, shard: Optional[shards.Shard]) -> None:
        """Sets this rank's part, at once or when there is a model."""
        if self.model is None or shard is None or self._outline is not None or shard["at"] != _at():
            self.model = self.optimizer = self._outline = None
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

    @property
    def shares(self) -> bool:
        return not replicated()

    def tree(self) -> Any:
        return {**self.common(), "shard": self.value.shard()}

    def common(self) -> Any:
        return {"run": self.value._run, "names": list(self.value._names), "stepped": self.value._stepped, "since": self.value._since}

    def write(self) -> None:
        self.value.write()

    def begin(self) -> None:
        self.value.put(None)
        self.value.copy = None

    def load(self, tree: Any) -> None:
        _check(tree["run"], tree["names"])
        if "shard" in tree:
            self.value.put(tree["shard"])
        self.value._run, self.value._names, self.value._stepped = tree["run"], list(tree["names"]), tree["stepped"]
        self.value._since = tree.get("since", 0)

    def keep(self, tree: Any, path: str) -> Any:
        return {"run": None, "names": [self.value.keep(tree["names"][-1], path)], "stepped": tree["stepped"]}

    def kept(self, tree: Any, path: str) -> None:
        last = os.path.basename(tree["names"][-1])
        for name in os.listdir(os.path.abspath(path) + ".shards"):
            if name != last:
                shutil.rmtree(os.path.join(os.path.abspath(path) + ".shards", name), ignore_errors=True)

    def commit(self) -> bool:
        return not replicated() and bool(self.value.commit())

    @property
    def sealed(self) -> bool:
        return replicated() or self.value._unmovable is None

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


def _at() -> Tuple[int, int]:
    """Which part of how many this process has."""
    parts = place.replica() if replicated() else place.size()
    return place.rank() % parts, parts


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
