# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A sequence classifier in a loop with Hugging Face Accelerate, in process."""

import argparse

import torch
from accelerate.utils import set_seed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from kolo.integrations.accelerate import ElasticAccelerator as Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--batch", type=int, default=48, help="samples of a step, of all processes together")
parser.add_argument("--checkpoint", default="", help="directory to write the state to after each epoch")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


def sequences(number, seed):
    """Sequences of 16 letters. The label is the one of eight letters that occurs most often."""
    letters = torch.randint(8, (number, 16), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(letters, letters.mode(1).values)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 32)
        self.encoder = nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True)
        self.head = nn.Linear(32, 8)

    def forward(self, letters):
        return self.head(self.encoder(self.embedding(letters)).mean(1))


set_seed(args.seed)
accelerator = Accelerator(global_batch=args.batch)
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
loader = DataLoader(sequences(2400, seed=1), batch_size=48, shuffle=True)
test = DataLoader(sequences(480, seed=2), batch_size=48)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(loader.dataset) // args.batch)
model, optimizer, loader, test, scheduler = accelerator.prepare(model, optimizer, loader, test, scheduler)


@accelerator.elastic
def train():  # is called again for each group
    for epoch in accelerator.epochs(args.epochs):
        model.train()
        for letters, labels in loader:
            with accelerator.accumulate(model):
                accelerator.backward(cross_entropy(model(letters), labels))
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        model.eval()
        losses = []
        for letters, labels in test:
            with torch.no_grad():
                losses.append(accelerator.gather_for_metrics(cross_entropy(model(letters), labels, reduction="none")))
        accelerator.print("epoch %d, %d processes: test loss %.4f" % (epoch, accelerator.num_processes, torch.cat(losses).mean()), flush=True)
        if args.checkpoint:
            accelerator.save_state(args.checkpoint)


train()
