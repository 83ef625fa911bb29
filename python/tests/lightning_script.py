# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A small model, trained by Lightning, that records what its tests check. Its options are environment variables."""

import json
import os
import time

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, callbacks, seed_everything
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins import MixedPrecision
from recording import Shelves, averages, directory, option, record, scaler, streamed, total
from torch.utils.data import DataLoader, Dataset

import kolo.torch as kolo
from kolo.integrations.lightning import ElasticStrategy

SAMPLES, EPOCHS = option("SAMPLES", 240), option("EPOCHS", 1)


class Points(Dataset):
    """Points of a line, each with its index."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        x = torch.linspace(-1, 1, 8) * (index % 17 - 8) / 8
        return x, x.sum(0, keepdim=True) * 0.5 + 1, index


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        self.used = []
        self.save_hyperparameters({"width": 32})
        if option("COMPILE", "") == "layers":
            self.layers.compile(backend="eager")

    def on_fit_start(self):
        """Compiles before the process joins a group."""
        if option("COMPILE", "") == "layers":
            with self.trainer.precision_plugin.forward_context():
                self(torch.zeros(option("BATCH", 4), 8)).sum().backward()
            self.zero_grad()

    def prepare_data(self):
        record("prepares")

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        x, y, index = batch
        self.used += index.tolist()
        time.sleep(option("SLEEP", 0.02))
        output = self(x)
        self.computed = str(output.dtype)
        loss = torch.nn.functional.mse_loss(output, y)
        self.log("loss", loss, on_step=True, on_epoch=True, sync_dist=True, batch_size=len(x))
        return loss

    def validation_step(self, batch, batch_idx):
        x, y, _ = batch
        if not self.trainer.sanity_checking:
            record("validates", step=self.trainer.global_step, training=self.training)
            time.sleep(option("SLEEP_VALIDATING", 0.0))
        self.log("val_loss", torch.nn.functional.mse_loss(self(x), y), sync_dist=True, batch_size=len(x))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
        if not option("SCHEDULE", 0):
            return optimizer
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def compiled():
    """Returns how many functions were compiled."""
    return torch._dynamo.utils.counters["frames"]["ok"] if option("COMPILE", "") else 0


class Recorder(Callback):
    def on_train_start(self, trainer, module):
        record("begins", generation=kolo.generation(), step=trainer.global_step)

    def on_train_epoch_start(self, trainer, module):
        record("epoch", generation=kolo.generation(), epoch=trainer.current_epoch)

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if self.generation != kolo.generation():
            self.generation = kolo.generation()
            module.used.clear()
            record("ring", generation=kolo.generation(), size=kolo.size(), rank=kolo.rank(), step=trainer.global_step, compiled=compiled())

    generation = 0

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.fit_loop._should_accumulate():
            return
        record("step", generation=kolo.generation(), size=kolo.size(), rank=kolo.rank(), step=trainer.global_step, epoch=trainer.current_epoch,
               indices=list(module.used), accumulate=trainer.accumulate_grad_batches, rate=trainer.optimizers[0].param_groups[0]["lr"],
               zero=trainer.is_global_zero, world=trainer.world_size, training=module.training, computed=module.computed)
        module.used.clear()

    def on_train_epoch_end(self, trainer, module):
        record("epoch_end", generation=kolo.generation(), epoch=trainer.current_epoch, loss=trainer.callback_metrics["loss_epoch"].item())

    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            record("validation", generation=kolo.generation(), step=trainer.global_step, loss=trainer.callback_metrics["val_loss"].item())


if option("FAULT", 0):  # the first group fails before this process has done anything in it
    wrap = kolo.wrap

    def fault(*_, **__):
        kolo.wrap = wrap
        raise RuntimeError("gloo: Connection closed by peer")

    kolo.wrap = fault

seed_everything(0)
torch.set_num_threads(1)
output = os.path.join(os.path.dirname(directory), "output")
extra = [] if option("PLAIN", 0) else [Recorder()]
if option("EVERY", 0):
    extra.append(callbacks.ModelCheckpoint(dirpath=os.path.join(output, "steps"), every_n_train_steps=option("EVERY", 0), save_top_k=-1, filename="{step}"))
if option("PATIENCE", 0):  # nothing is an improvement
    extra.append(callbacks.EarlyStopping("val_loss", patience=option("PATIENCE", 0), min_delta=100))
average = callbacks.EMAWeightAveraging(decay=0.99)
if option("AVERAGE", 0):
    extra.append(average)
trainer = Trainer(
    strategy="auto" if option("PLAIN", 0) else ElasticStrategy(global_batch=option("GLOBAL", 0) or None),
    devices=1, accelerator="cpu", max_epochs=EPOCHS, default_root_dir=output, callbacks=extra, enable_model_summary=False, log_every_n_steps=5,
    logger=(TensorBoardLogger if option("TENSORBOARD", 0) else CSVLogger)(output),
    **({"plugins": [MixedPrecision("16-mixed", "cpu", scaler())]} if option("SCALER", 0) else {}),
    **{"enable_progress_bar": False, **json.loads(option("ARGUMENTS", "{}"))})
model = Net()
points = streamed(Points(SAMPLES))
order = {"sampler": Shelves(points)} if option("SAMPLER", 0) else {"shuffle": None if option("STREAM", "") else True}
train = DataLoader(points, batch_size=option("BATCH", 4), num_workers=option("WORKERS", 0), **order)
fitted = torch.compile(model, backend="eager") if option("COMPILE", "") == "module" else model
trainer.fit(fitted, train, DataLoader(Points(32), batch_size=8) if option("VALIDATE", 1) else None, ckpt_path=option("RESUME", "") or None)
if option("AFTER", 0):
    trainer.validate(model, DataLoader(Points(32), batch_size=8), verbose=False)
record("done", sum=total(model), samples=SAMPLES * EPOCHS, step=trainer.global_step, epoch=trainer.current_epoch,
       scale=trainer.precision_plugin.scaler.get_scale() if option("SCALER", 0) else None,
       compiled=compiled(), **(averages(average._average_model) if option("AVERAGE", 0) else {}))
