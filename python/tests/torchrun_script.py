# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A plain script for torchrun: goes on from its checkpoint, and knows nothing of Kolo.

Usage: torchrun_script.py STEPS --records DIRECTORY. Rank 0 appends a line of JSON to
steps in the directory for each step. A file named stop there ends training.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

steps, directory = int(sys.argv[1]), sys.argv[3]
os.makedirs(directory, exist_ok=True)
checkpoint = os.path.join(directory, "checkpoint")
assert "KOLO_WORKER_ADDR" not in os.environ

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
step = 0
if os.path.exists(checkpoint):
    with open(checkpoint) as file:
        step = int(file.read())
dist.barrier()  # all have read it
stop = os.path.join(directory, "stop")
while step < steps:
    total = torch.tensor([1, int(rank == 0 and os.path.exists(stop))])
    dist.all_reduce(total)
    assert int(total[0]) == size
    if total[1]:
        break
    time.sleep(0.02)
    step += 1
    if rank == 0:
        with open(os.path.join(directory, "steps"), "a") as file:
            file.write(json.dumps({"t": time.time(), "step": step, "size": size, "pid": os.getpid(),
                                   "restart": os.environ["TORCHELASTIC_RESTART_COUNT"]}) + "\n")
        with open(checkpoint + ".new", "w") as file:
            file.write(str(step))
        os.replace(checkpoint + ".new", checkpoint)
    fail = os.environ.get("TEST_FAIL", "")  # RANK:FILE, once
    if fail.startswith("%d:" % rank) and step > 20 and not os.path.exists(fail.partition(":")[2]):
        open(fail.partition(":")[2], "w").close()
        sys.exit(3)
dist.destroy_process_group()
