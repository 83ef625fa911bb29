# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lightning: unchanged, with the additions of docs/howto/run-a-torchrun-script.md (page.py), or in process."""

import os
import sys

import recorder
import torch
import lightning
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16, 1)

    def training_step(self, batch, _):
        x, y, index = batch
        self.used = index.tolist()
        return torch.nn.functional.mse_loss(self.layer(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


class Steps(lightning.Callback):
    def on_train_batch_end(self, trainer, module, *_):
        recorder.step(trainer.global_step, trainer.global_rank, trainer.world_size, indices=module.used)


data = DataLoader(TensorDataset(*recorder.samples()), batch_size=12)
options = {"max_epochs": 1000, "logger": False, "enable_progress_bar": False, "callbacks": [Steps()]}
if sys.argv[1] == "added":
    from page import fit

    fit(Model(), data, "checkpoint.ckpt", recorder.EVERY, **options)
elif sys.argv[1] == "in process":
    from kolo.integrations.lightning import ElasticStrategy

    lightning.Trainer(strategy=ElasticStrategy(), enable_checkpointing=False, **options).fit(Model(), data)
else:
    options["callbacks"].append(lightning.pytorch.callbacks.ModelCheckpoint("checkpoints", every_n_train_steps=recorder.EVERY, save_last=True))
    trainer = lightning.Trainer(strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=int(os.environ["GROUP_WORLD_SIZE"]), **options)
    trainer.fit(Model(), data, ckpt_path="last")
