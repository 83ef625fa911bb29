# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A loop with Accelerate that records what its tests check. Its options are environment variables."""

import json
import os
import time

import torch
from recording import Shelves, averaged, averages, directory, option, record, scaler, streamed, total

import kolo.torch as kolo
from kolo.integrations.accelerate import ElasticAccelerator as Accelerator

SAMPLES, EPOCHS = option("SAMPLES", 240), option("EPOCHS", 1)


class Points(torch.utils.data.Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(count, 8, generator=generator)
        self.y = self.x.sum(1, keepdim=True)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "y": self.y[index], "index": index}


class Patience:
    """Stops training when a loss has not become better a number of times. Each process counts, and all count the same."""

    def __init__(self, most):
        self.most, self.left = most, most

    def worse(self):
        self.left -= 1
        return self.left == 0

    def state_dict(self):
        return {"left": self.left}

    def load_state_dict(self, state):
        self.left = state["left"]


class Count:
    """An object of the script that is part of checkpoints."""

    value = 0

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, state):
        self.value = state["value"]


torch.manual_seed(0)
torch.set_num_threads(1)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=option("ACCUMULATE", 1), global_batch=option("GLOBAL", 0) or None,
                          **json.loads(option("ARGUMENTS", "{}")))
if option("SCALER", 0):
    accelerator.scaler = scaler()
count, patience = Count(), Patience(option("PATIENCE", 0))
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
average = averaged(model)
accelerator.register_for_checkpointing(count, patience, average)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
points = streamed(Points(SAMPLES))
order = {"sampler": Shelves(points)} if option("SAMPLER", 0) else {"shuffle": None if option("STREAM", "") else True}
loader = torch.utils.data.DataLoader(points, batch_size=option("BATCH", 4), num_workers=option("WORKERS", 0), **order)
tests = torch.utils.data.DataLoader(Points(30), batch_size=4)
most = SAMPLES * EPOCHS // (option("GLOBAL", 0) or option("BATCH", 4) * option("ACCUMULATE", 1))
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / most))
model, optimizer, loader, tests, scheduler = accelerator.prepare(model, optimizer, loader, tests, scheduler)
if option("RESUME", ""):
    accelerator.load_state(option("RESUME", ""))
if option("WARM", 0):  # compiles before the group changes, with gradients that are discarded
    compiled = accelerator.unwrap_model(model, keep_torch_compile=True)
    accelerator.backward(compiled(torch.zeros(option("BATCH", 4), 8)).sum())
    optimizer.zero_grad()


def evaluate():
    model.eval()
    errors, indices = [], []
    with torch.no_grad():
        for number, batch in enumerate(tests):
            time.sleep(option("EVALUATE", 0.0))
            if number == option("BATCHES", 1000):
                break
            error = (model(batch["x"]) - batch["y"]).square()
            record("evaluates", step=accelerator.steps)
            error, index = accelerator.gather_for_metrics((error, batch["index"]))
            errors.append(error)
            indices += index.tolist()
    record("evaluation", generation=kolo.generation(), step=accelerator.steps, loss=torch.cat(errors).mean().item(), indices=indices)


@accelerator.elastic
def train():
    record("ring", generation=kolo.generation(), size=accelerator.num_processes, rank=accelerator.process_index, step=accelerator.steps,
           compiled=torch._dynamo.utils.counters["frames"]["ok"] if option("WARM", 0) else 0)
    used = []
    for epoch in accelerator.epochs(EPOCHS):
        model.train()
        for batch in loader:
            used += batch["index"].tolist()
            time.sleep(option("SLEEP", 0.02))
            with accelerator.accumulate(model):
                accelerator.backward((model(batch["x"]) - batch["y"]).square().mean())
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            if accelerator.sync_gradients:
                average.update_parameters(accelerator.unwrap_model(model))
                count.value += 1
                record("step", generation=kolo.generation(), size=kolo.size(), rank=kolo.rank(), step=accelerator.steps, epoch=epoch, indices=used,
                       accumulate=accelerator.gradient_accumulation_steps, rate=scheduler.get_last_lr()[0], count=count.value)
                used = []
                if accelerator.steps == option("SAVE", 0):
                    accelerator.save_state(os.path.join(os.path.dirname(directory), "saved"))
                if option("EVERY", 0) and accelerator.steps % option("EVERY", 0) == 0:
                    evaluate()
                    model.train()
        evaluate()
        if option("PATIENCE", 0) and patience.worse():
            accelerator.set_trigger()
        if accelerator.check_trigger():
            break
    return accelerator.steps


steps = train()
scale = accelerator.scaler.get_scale() if accelerator.scaler is not None else None
record("done", sum=total(model), samples=SAMPLES * EPOCHS, step=steps, scale=scale, **averages(average))
