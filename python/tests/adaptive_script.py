# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Trains with an AdaptiveBatch. TEST_SCRIPT selects what else it does."""

import itertools
import json
import os
import random
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import kolo.torch as kolo
from kolo.torch.adaptive import batch as batches

SAMPLES, EPOCHS = 480, 3


def record(what, **fields):
    """Writes a line to the file of this process."""
    directory = sys.argv[sys.argv.index("--records") + 1]
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, "%d.jsonl" % os.getpid()), "a") as file:
        file.write(json.dumps({"kolo": what, "t": time.time(), "pid": os.getpid(), **fields}) + "\n")


def resized():
    """The batch changes at random, and each rank proposes another one. Records each step, with its samples."""
    wishes = itertools.cycle(random.Random(os.getpid()).sample(range(36, 97, 12), 6))  # far enough apart to differ when they are divided
    batches.choose = lambda *_: next(wishes)
    torch.manual_seed(3)
    x = torch.randn(SAMPLES, 6)
    data = TensorDataset(torch.arange(SAMPLES), x, x.sum(1, keepdim=True).tanh())
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    batch = kolo.AdaptiveBatch(initial=24, max=96, local_max=10, lr="adascale", every=2)
    state = kolo.State(model=model, optimizer=optimizer, scheduler=scheduler, sampler=kolo.ElasticSampler(data), batch=batch, step=0, samples=0, epoch=0)

    def note(what, **fields):
        record(what, step=state.step, rank=kolo.rank(), size=kolo.size(), generation=kolo.generation(), epoch=state.epoch, progress=batch.progress,
               total=batch.total, local=batch.local, passes=batch.passes, lr=optimizer.param_groups[0]["lr"], samples=state.samples,
               sum=sum(parameter.double().sum().item() for parameter in model.parameters()), **fields)

    @kolo.elastic
    def train(state):
        note("ring")
        ddp = kolo.wrap(state.model)
        for _ in state.epochs(EPOCHS):
            used = []
            for indices, inputs, targets in state.batches(lambda local: DataLoader(data, local, sampler=state.sampler)):
                used += indices.tolist()
                before = {"total": batch.total, "local": batch.local, "passes": batch.passes}
                with batch.accumulate(ddp):
                    torch.nn.functional.mse_loss(ddp(inputs), targets).backward()
                if batch.step(optimizer):
                    scheduler.step()
                    state.step += 1
                    note("step", indices=used, before=before)
                    used = []
                    time.sleep(float(os.environ.get("TEST_SLEEP", "0.02")))
                    state.commit()
        note("done")

    train(state)


def measured():
    """Compares a fixed batch with a plain training, and the noise of known gradients with the true one. Prints both."""
    torch.manual_seed(4)
    plain, ours = (torch.nn.Linear(200, 1, bias=False) for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    mean = 0.5 * torch.randn(200)
    adam = os.environ["TEST_OPTIMIZER"] == "adam"
    optimizers = [torch.optim.AdamW(model.parameters(), 0.001, betas=(0.9, 0.99)) if adam else torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
                  for model in (plain, ours)]
    batch = kolo.AdaptiveBatch(initial=32, max=32, local_max=8, lr="adascale", every=2)
    state = kolo.State(plain=plain, ours=ours, first=optimizers[0], second=optimizers[1], batch=batch, step=0)

    @kolo.elastic
    def train(state):
        torch.manual_seed(10 + kolo.rank())
        ddp = kolo.wrap(plain), kolo.wrap(ours)
        scales = []
        while state.step < 300:
            x = mean + 2 * torch.randn(batch.total // kolo.size(), 200)
            optimizers[0].zero_grad()
            ddp[0](x).mean().backward()
            optimizers[0].step()
            for part in x.split(batch.local):
                with batch.accumulate(ddp[1]):
                    ddp[1](part).mean().backward()
                stepped = batch.step(optimizers[1])
            assert stepped
            scales.append(batch.noise_scale)
            state.step += 1
            state.commit()
        divisor = mean.square() + 4 / batch.total if adam else torch.ones(200)  # Adam's second moment
        true = (4 / divisor).sum() / (mean.square() / divisor).sum()
        scales = [scale for scale in scales if scale]
        print("noise", kolo.size(), batch.passes, float(sum(scales) / len(scales) / true), float((plain.weight - ours.weight).abs().max()), flush=True)

    train(state)


if __name__ == "__main__":
    globals()[os.environ["TEST_SCRIPT"]]()
