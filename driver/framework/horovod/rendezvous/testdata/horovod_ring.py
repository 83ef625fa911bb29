# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""A process of a ring, with the real Horovod, that does not train.

It has the environment that an agent gives a slot. In each ring it adds up the
ranks, prints the sum as a line of JSON, and waits for a line of input. At
"reset" it goes to the next ring; at "set" it makes a process set of ranks 0 and
1, twice; at the end of the input it ends.
"""
import json
import sys

import torch
import horovod.torch as hvd


def ring(hvd):
    total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum, name="total")
    print(json.dumps({"rank": hvd.rank(), "size": hvd.size(), "local_rank": hvd.local_rank(),
                      "cross_size": hvd.cross_size(), "total": int(total.item())}), flush=True)


def process_set(hvd):
    totals = []
    for _ in range(2):
        both = hvd.add_process_set([0, 1])
        if both.included():
            total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum, process_set=both, name="pair")
            totals.append(int(total.item()))
        hvd.remove_process_set(both)
    print(json.dumps({"totals": totals}), flush=True)


hvd.init()
ring(hvd)
for line in sys.stdin:
    if line.strip() == "set":
        process_set(hvd)
        continue
    hvd.shutdown()
    hvd.init()
    ring(hvd)
hvd.shutdown()
