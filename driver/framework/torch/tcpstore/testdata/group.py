# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Forms process groups through the store that the environment names, and prints the sum of their ranks.

With "env", it forms them like an unmodified script; with "store", without libuv's option.
"""

import faulthandler
import functools
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

faulthandler.dump_traceback_later(90, exit=True)
limit = timedelta(seconds=60)
if sys.argv[1] == "env":
    try:
        dist.init_process_group("gloo", timeout=limit)
    except RuntimeError as e:
        if "without libuv" not in str(e):
            raise
        # Debian's build. rendezvous.py does not pass use_libuv on in this mode.
        sys.modules["torch.distributed.rendezvous"].TCPStore = functools.partial(dist.TCPStore, use_libuv=False)
        dist.init_process_group("gloo", timeout=limit)
else:
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), size, False, limit, use_libuv=False)
    dist.init_process_group("gloo", store=dist.PrefixStore("first", store), rank=rank, world_size=size, timeout=limit)
t = torch.ones(1) * (1 + dist.get_rank())
dist.all_reduce(t)
pair = dist.new_group([0, dist.get_world_size() - 1])
u = torch.ones(1)
if dist.get_rank() in (0, dist.get_world_size() - 1):
    dist.all_reduce(u, group=pair)
objects = [None] * dist.get_world_size()
dist.all_gather_object(objects, dist.get_rank())
dist.barrier()
print(int(t.item()), int(u.item()), sum(objects), flush=True)
os._exit(0)  # gloo's end is not what this is about
