# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Models that are sharded over the ranks, as with FSDP2. Each group constructs its model again.

    planned change     commit --> build() for the next group --> parts move between processes
    a member is lost   checkpoint in the directory --> build() --> each rank reads its part

Each rank keeps a copy of its part of the last commit in memory. No other
process has this part. In case it is lost, every n-th commit is also written as
a checkpoint of torch.distributed.checkpoint. The checkpoint is in a directory
that all hosts share, or in /dev/shm if all ranks are on one host. It is
complete once its metadata exists, because that is written last. The members
compare and send the checkpoint's name as part of the state, so all of them
read the same checkpoint. If the parts of a model are not plain ranges of the
whole (see shards.movable), every commit is a checkpoint, and every change of
the group reads it.

With replicas (HSDP), one rank in each replica has the same part, so newcomers
receive their part from such a rank: see replicas. Only save_checkpoint then
writes a checkpoint.
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

    build is called for each group with the mesh of its ranks. The attributes
    model and optimizer are the objects that it returned last. Commits stay in
    memory. For the case that a member is lost, every commit, or every
    checkpoint_every-th, is also written to disk, in a subdirectory of directory
    for this run. With redundancy=1, each member also keeps a copy of the part of
    the member before it. If one member is lost, training then goes back only to
    the last commit. With replicas, only save_checkpoint writes to directory.
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
        importlib.import_module("torch._dynamo")  # PyTorch imports it with the first DTensor, when members wait for this process

    def write(self) -> None:
        """Writes a checkpoint. All ranks call it. The previous checkpoint stays in force until all have returned."""
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
        """Writes a checkpoint if one is due, and returns whether it did. All ranks call it at each commit."""
        self._look()
        self._since += 1
        due = self._since >= self._every or self._unmovable is not None
        if due:
            self.write()
        return due

    def make(self) -> bool:
        """Constructs model and optimizer for the current group. Returns whether their values have changed.

        Unless their parts are still to be received, the values are those of the last
        commit or checkpoint. If there is no checkpoint yet, one is written.
        """
        mesh = meshes.mesh()
        self.model, self.optimizer = self._build(mesh)
        if any(getattr(parameter, "device_mesh", mesh) != mesh for parameter in self.model.parameters()):
            raise TypeError("kolo.Sharded: build has to shard the model over the mesh that it is given. Tensor parallelism, over another mesh or a "
                            "dimension of this one, is not supported: use fully_shard alone (with replica = N in the jobspec, each N ranks have a "
                            "whole model), or train from checkpoints with mode = \"restart\"")
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
        """Finds out whether parts can be moved between processes. The result is the same on all ranks."""
        reason = shards.movable(self.model, self.optimizer, meshes.mesh())
        if reason is not None and self._unmovable is None and dist.get_rank() == 0:
            log("kolo.Sharded: each commit is written, and each change of the group reads it, because of %s", reason)
        self._unmovable = reason

    @property
    def held(self) -> Optional[shards.Shard]:
        """This process's part of the last commit, after it has left the group to which the part belongs."""
        return self._shard

    @property
    def redundant(self) -> bool:
        """Whether members must keep copies of each other's parts."""
        return self._redundancy > 0 and self._unmovable is None and not replicated()

    def expect(self, outline: shards.Outline) -> None:
        """Announces that receive() will set model and optimizer, so that reset() does not."""
        self._outline = outline

    def receive(self) -> Tuple[shards.Parts, Callable[[], None]]:
        """Returns memory for this rank's part, and a function that completes model and optimizer when the memory is filled."""
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
        """Drops everything that belongs to the group that this process leaves, except its part."""
        self._shard = self.shard()
        self.model = self.optimizer = self._outline = None

    def shard(self) -> Optional[shards.Shard]:
        """Returns this rank's part; None if it is only in checkpoints."""
        if self.model is None or self._outline is not None:
            return self._shard
        if self._unmovable is not None:
            return None
        taken = shards.take(self.model, self.optimizer)
        taken["at"] = _at()
        return taken

    def stepped(self) -> List[torch.Tensor]:
        """Returns the tensors of this rank's part that only the optimizer's step changes."""
        return [] if self.model is None or replicated() else shards.stepped(self.optimizer)

    def put(self, shard: Optional[shards.Shard]) -> None:
        """Sets this rank's part: at once, or when there is a model for it."""
        if self.model is None or shard is None or self._outline is not None or shard["at"] != _at():
            self.model = self.optimizer = self._outline = None
            self._shard = shard
        else:
            shards.put(shard, self.model, self.optimizer)

    def keep(self, name: str, path: str) -> str:
        """Copies a checkpoint into the directory path.shards, and returns the path of the copy."""
        kept = os.path.join(os.path.abspath(path) + ".shards", os.path.basename(name))
        if not os.path.exists(kept):
            shutil.rmtree(kept + ".part", ignore_errors=True)
            shutil.copytree(os.path.join(self._directory, name), kept + ".part")
            os.sync()
            os.rename(kept + ".part", kept)
        return kept

    def _tree(self, stepped: bool) -> Dict[str, Any]:
        """Returns the tree of values that a checkpoint contains.

        It omits the state of an optimizer that has made no step, because reading that
        state would create it.
        """
        if not stepped:
            return {"model": self._dicts.get_model_state_dict(self.model)}
        model, optimizer = self._dicts.get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer}

    def _new_run(self) -> str:
        os.makedirs(self._directory, exist_ok=True)
        return os.path.basename(tempfile.mkdtemp(prefix="kolo-", dir=self._directory))

    def _prune(self, run: str) -> None:
        """Removes checkpoints that no member needs, and unfinished checkpoints."""
        for name in os.listdir(os.path.join(self._directory, run)):
            if os.path.join(run, name) not in self._names:
                shutil.rmtree(os.path.join(self._directory, run, name), ignore_errors=True)


class ShardedHandler(Handler):
    """Handles a Sharded. Its value in the state is the checkpoint's name and this process's part; the model is made for each group."""

    fixed_batch = "the gradients of a kolo.Sharded (FSDP2, HSDP) are not measured: keep the batch fixed, with kolo.global_batch"

    @property
    def parts(self) -> bool:
        return replicated()

    @property
    def shares(self) -> bool:
        return not replicated()

    def tree(self) -> Any:
        return {**self.common(), "shard": self.value.shard()}

    def stepped(self) -> List[torch.Tensor]:
        tensors: List[torch.Tensor] = self.value.stepped()
        return tensors

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
    """Raises ValueError for names of runs or checkpoints that this module cannot have given.

    The names may come from another process. A checkpoint is in the directory of a run,
    or in a directory that keep() has written.
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
    """Whether each part of a model is, or will be, on several ranks of the current group."""
    now = place.current()
    return now is not None and now.replica > 1


def _at() -> Tuple[int, int]:
    """Returns the number of the part that this process has, and the number of all parts."""
    parts = place.replica() if replicated() else place.size()
    return place.rank() % parts, parts


def _agree(make: Callable[[], str]) -> str:
    """Returns on all ranks what make returns on rank 0."""
    move = transfer.broadcasts(dist.group.WORLD, 0)
    if dist.get_rank() != 0:
        received: str = transfer.receive(move)
        return received
    name = make()
    transfer.send(name, move)
    return name


register_handler(Sharded, ShardedHandler)
