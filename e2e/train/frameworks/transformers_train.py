# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The Trainer of Transformers: unchanged, with the additions of docs/howto/run-a-torchrun-script.md (page.py), or in process."""

import os
import sys

import recorder
import torch

if sys.argv[1] == "in process":
    from kolo.integrations.transformers import elastic
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def forward(self, x, labels, index):
        self.used = index.tolist()
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}


class Steps(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        recorder.step(state.global_step, args.process_index, args.world_size, indices=model.used)


data = [{"x": x, "labels": y, "index": index} for x, y, index in zip(*recorder.samples())]
arguments = TrainingArguments("out", use_cpu=True, per_device_train_batch_size=12, num_train_epochs=1000, save_steps=recorder.EVERY,
                              train_sampling_strategy="sequential", save_total_limit=2, report_to=[], disable_tqdm=True, enable_jit_checkpoint=sys.argv[1] == "jit")
model = Model()
trainer = Trainer(model, arguments, train_dataset=data, callbacks=[Steps()])
if sys.argv[1] == "added":
    from page import train

    train(trainer)
elif sys.argv[1] == "in process":
    elastic(trainer).train()
else:
    trainer.train(resume_from_checkpoint=get_last_checkpoint("out") if os.path.exists("out") else None)
