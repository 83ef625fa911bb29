# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""An autoencoder with Lightning, in process."""

import argparse

import lightning
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

from kolo.integrations.lightning import ElasticStrategy

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--batch", type=int, default=48, help="samples of a step, of all processes together")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


def waves(number, seed):
    """64 points of a sine with a frequency, a phase and a height of its own."""
    frequency, phase, height = torch.rand(3, number, 1, generator=torch.Generator().manual_seed(seed))
    return TensorDataset((0.5 + height) * torch.sin(torch.linspace(0, 6.28, 64) * (1 + 2 * frequency) + 6.28 * phase))


class Autoencoder(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 64), nn.GELU(), nn.Linear(64, 64))

    def training_step(self, batch, _):
        return mse_loss(self.decoder(self.encoder(batch[0])), batch[0])

    def validation_step(self, batch, _):
        self.log("test loss", mse_loss(self.decoder(self.encoder(batch[0])), batch[0]), sync_dist=True)

    def on_validation_epoch_end(self):
        if self.trainer.is_global_zero and not self.trainer.sanity_checking:
            print("epoch %d, %d processes: test loss %.4f" % (
                self.current_epoch, self.trainer.world_size, self.trainer.callback_metrics["test loss"]), flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


lightning.seed_everything(args.seed)
trainer = lightning.Trainer(
    strategy=ElasticStrategy(global_batch=args.batch), max_epochs=args.epochs, logger=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(
    Autoencoder(), DataLoader(waves(2400, seed=1), batch_size=48, shuffle=True), DataLoader(waves(480, seed=2), batch_size=48))
