# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Shared by the scripts in this directory: the lines that they write, and their samples."""

import json
import os
import time

import torch

EVERY = 50  # steps between the checkpoints of a script that is not asked for any


def record(what, **fields):
    """Writes an event, as train/record.py does. A write of one line is never split."""
    line = json.dumps({"kolo": what, "t": round(time.time(), 6), "pid": os.getpid(), **fields})
    with open("records/%d.jsonl" % os.getpid(), "a") as file:
        file.write(line + "\n")


def step(number, rank, size, **fields):
    """Records a step. It takes some time, like a real one."""
    time.sleep(0.1)
    record("step", step=number, rank=rank, size=size, **fields)


def samples(number=24000):
    """Returns inputs, targets that a linear layer can learn, and the numbers of the samples. A script records the numbers of each step."""
    x = torch.randn(number, 16)
    return x, x.sum(1, keepdim=True), torch.arange(number)


os.makedirs("records", exist_ok=True)
torch.set_num_threads(1)
torch.manual_seed(1)
record("start")
