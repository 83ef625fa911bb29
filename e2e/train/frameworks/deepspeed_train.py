# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""DeepSpeed with zero0, zero1 or zero2: unchanged, or with the additions of
docs/howto/run-a-torchrun-script.md (page.py).
"""

import sys

import deepspeed
import recorder
import torch
import torch.distributed as dist

mode, zero = sys.argv[1:]
# ZeRO loads a universal checkpoint only if each process has a part of the parameters.
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 1))
options = {"model": model, "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-2)}
config = {"train_micro_batch_size_per_gpu": 12, "zero_optimization": {"stage": int(zero.removeprefix("zero"))}}
added = mode == "added"
if added:
    from page import end_step, initialize

    engine = initialize("checkpoint", config, **options)
else:
    deepspeed.init_distributed("gloo")
    engine, *_ = deepspeed.initialize(config=config, **options)
    engine.load_checkpoint("checkpoint")
x, y, _ = recorder.samples()
while True:
    batch = torch.randint(len(x), (12,))
    loss = torch.nn.functional.mse_loss(engine(x[batch]), y[batch])
    engine.backward(loss)
    engine.step()
    recorder.step(engine.global_steps, dist.get_rank(), dist.get_world_size(), loss=loss.item())
    if added:
        end_step(engine, "checkpoint")
    if engine.global_steps % recorder.EVERY == 0:
        engine.save_checkpoint("checkpoint")
