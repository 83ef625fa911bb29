# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Accelerate's view of the processes that train, on which Transformers relies, too.

Accelerate reads torchrun's variables once, forms the process group, and keeps both
for the life of the process. Under Kolo the group forms when training begins, and
changes later. So these variables are hidden while the script sets everything up as
a single process. Each group is then written into Accelerate's state.
"""

from __future__ import annotations

import contextlib
import gc
import os
from typing import Iterator

import accelerate.state as accelerate
import torch
import torch.distributed as dist

import kolo.torch as kolo

from .. import worker

# torchrun's variables; libraries that see them form a group
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE")


def hide() -> None:
    """Hides torchrun's variables if Kolo's agent has started this process. Call it before Accelerate reads them."""
    if worker.ADDR not in os.environ:
        return
    if dist.is_initialized():
        raise RuntimeError("a process group is there already, and Kolo is to form it: import kolo.integrations before TrainingArguments "
                           "or an Accelerator is made, and take init_process_group out of the script")
    if torch.cuda.is_available():
        torch.cuda.set_device(kolo.device())
    for name in VARIABLES:
        os.environ.pop(name, None)


@contextlib.contextmanager
def frozen() -> Iterator[None]:
    """Exempts existing objects from Python's garbage collector, which would spend tenths of a second on imported objects in each group."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def enter() -> None:
    """Writes the current group into Accelerate's state."""
    place = {
        "num_processes": kolo.size(),
        "process_index": kolo.rank(),
        "local_process_index": kolo.local_rank(),
        "backend": dist.get_backend(),
        "distributed_type": accelerate.DistributedType.MULTI_GPU if kolo.device().type == "cuda" else accelerate.DistributedType.MULTI_CPU,
    }
    accelerate.PartialState()
    for state in (accelerate.PartialState, accelerate.AcceleratorState):
        if state._shared_state:
            state._shared_state.update(place)
    accelerate.GradientState().dataloader_references = [None]  # drops loops over data that were left
