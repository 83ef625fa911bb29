# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with PyTorch: the group of processes changes while they train.

    import kolo.torch as kolo

    state = kolo.State(model=model, optimizer=optimizer, sampler=sampler, step=0, epoch=0)

    @kolo.elastic
    def train(state):
        ddp = kolo.wrap(state.model)
        for epoch in state.epochs(30):
            for x, y in state.batches(DataLoader(data, 32, sampler=state.sampler)):
                ...
                state.step += 1
                state.commit()  # here the group may change

    train(state)

The semantics are in the package's README.
"""

from ..worker import AgentError
from .adaptive.batch import AdaptiveBatch
from .batch import Batch, global_batch, scaled_lr
from .meshes import mesh
from .parallel import wrap
from .place import device, generation, local_rank, local_size, rank, size
from .reporting import progress
from .run import elastic
from .sampler import ElasticIterable, ElasticSampler
from .state.checkpoint import load_checkpoint, save_checkpoint
from .state.handlers import RNG, Handler, StateDictHandler, register_handler
from .state.sharded import Sharded
from .state.state import State

__all__ = [
    "AdaptiveBatch", "AgentError", "Batch", "ElasticIterable", "ElasticSampler", "Handler", "RNG", "Sharded", "State", "StateDictHandler",
    "device", "elastic", "generation", "global_batch", "load_checkpoint", "local_rank", "local_size", "mesh", "progress",
    "rank", "register_handler", "save_checkpoint", "scaled_lr", "size", "wrap",
]
