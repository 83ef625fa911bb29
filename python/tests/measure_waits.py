# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Measures what it costs a step to find out which rank comes last, next to the same step without it.

    python3 -m tests.measure_waits 8 300   # ranks whose waits are compared, rounds

Each round makes 20 steps of a small model with the measurement and 20 without; the round with the least CPU time of each counts. A step is a backward pass of
DistributedDataParallel in a group of one process, and the part of a commit in which members agree.
"""

import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from kolo.torch.group.group import Group
from kolo.torch.group.waits import UNKNOWN
from kolo.worker import Place

STEPS = 20
COMPARED = 0.05  # seconds of the step that the cost is compared with


class Control:
    """A group whose other members have the same wait as this process."""

    def allreduce(self, tensors, _):
        tensors[0][1:] = tensors[0][1]
        return self

    def wait(self, *_):
        """The collective is complete."""


def seconds(wrapped, group):
    """Returns the CPU time of a step in this thread, which does not depend on what else the machine does."""
    began = time.thread_time()
    for _ in range(STEPS):
        wrapped(torch.ones(2, 4)).sum().backward()
        group.agree(0)
    return (time.thread_time() - began) / STEPS


def main():
    size, rounds = int(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    pairs = {}
    for name in ("without", "with"):
        wrapped = DistributedDataParallel(torch.nn.Linear(4, 1))
        group = Group(Place(1, 0, size), None, Control(), timedelta(seconds=60))
        if name == "with":
            group.wrapped(wrapped)
        else:
            group._waits.take = lambda: UNKNOWN
        pairs[name] = wrapped, group
    times = {name: [] for name in pairs}
    for _ in range(rounds):
        for name, pair in pairs.items():
            times[name].append(seconds(*pair))
    without, measured = (min(of) for of in times.values())
    print("step without: %.1f us   with: %.1f us   difference: %.1f us, %.3f %% of a step of %.0f ms, %d ranks"
          % (without * 1e6, measured * 1e6, (measured - without) * 1e6, 100 * (measured - without) / COMPARED, COMPARED * 1000, size))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
