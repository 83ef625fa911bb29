# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Accelerate: unchanged, with the additions of docs/howto/run-a-torchrun-script.md (page.py), or in process."""

import os
import sys

import recorder
import torch
from torch.utils.data import DataLoader, TensorDataset

mode = sys.argv[1]
if mode == "in process":
    from kolo.integrations.accelerate import ElasticAccelerator as Accelerator
else:
    from accelerate import Accelerator


class Progress:
    step = 0

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


model = torch.nn.Linear(16, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
accelerator = Accelerator(cpu=True)
data = DataLoader(TensorDataset(*recorder.samples()), batch_size=12)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
progress = Progress()
accelerator.register_for_checkpointing(progress)
if os.path.exists("checkpoint"):
    accelerator.load_state("checkpoint")
if mode == "added":
    from page import end_step


def train():
    for _ in accelerator.epochs(1000) if mode == "in process" else range(1000):
        for x, y, index in data:
            loss = torch.nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            progress.step += 1
            recorder.step(progress.step, accelerator.process_index, accelerator.num_processes, indices=index.tolist())
            if mode == "added":
                end_step(accelerator, "checkpoint")
            if progress.step % recorder.EVERY == 0:
                accelerator.save_state("checkpoint")


if mode == "in process":
    train = accelerator.elastic(train)
train()
