# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Trains a linear model with a batch that adapts. The targets are noise, so a larger batch is worth it."""

import argparse
import json
import os
import time

import torch
from torch.utils.data import DataLoader, TensorDataset

import kolo.torch as kolo

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int)
parser.add_argument("--epochs", type=int)
parser.add_argument("--total-steps", type=int)
parser.add_argument("--records")
parser.add_argument("--stop-file")
args = parser.parse_args()

torch.manual_seed(42)
torch.set_num_threads(1)
data = TensorDataset(torch.arange(args.samples), torch.randn(args.samples, 200), torch.randn(args.samples, 1))
model = torch.nn.Linear(200, 1)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.0001)
batch = kolo.AdaptiveBatch(initial=12, max=96, local_max=48, lr="adascale", every=2)
state = kolo.State(model=model, optimizer=optimizer, sampler=kolo.ElasticSampler(data), batch=batch, step=0, epoch=0)
kolo.progress(total_steps=args.total_steps)
os.makedirs(args.records, exist_ok=True)
records = open(os.path.join(args.records, "%s-%d.jsonl" % (os.environ["NOMAD_SHORT_ALLOC_ID"], os.getpid())), "a", buffering=1)


def record(what, **fields):
    records.write(json.dumps({"kolo": what, "t": time.time(), "pid": os.getpid(), "rank": kolo.rank(), "size": kolo.size(),
                              "generation": kolo.generation(), "step": state.step, "epoch": state.epoch, **fields}) + "\n")


def asked_to_stop():
    answer = [os.path.exists(args.stop_file)]
    if kolo.size() > 1:
        torch.distributed.broadcast_object_list(answer, src=0)
    return answer[0]


@kolo.elastic
def train(state):
    ddp = kolo.wrap(state.model)
    for _ in state.epochs(args.epochs):
        used = []
        for indices, inputs, targets in state.batches(lambda local: DataLoader(data, local, sampler=state.sampler)):
            used += indices.tolist()
            with batch.accumulate(ddp):
                torch.nn.functional.mse_loss(ddp(inputs), targets).backward()
            if batch.step(optimizer):
                time.sleep(0.1 + 0.01 * len(used))  # a sample takes 10 ms
                state.step += 1
                record("step", indices=used, progress=batch.progress, total=batch.total)
                used = []
                state.commit()
        if asked_to_stop():
            state.epoch += 1
            break
    record("done", progress=batch.progress)


train(state)
