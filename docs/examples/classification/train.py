# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Image classification with a small ResNet: a plain PyTorch loop, in process."""

import argparse
import os

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import kolo.torch as kolo

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--batch", type=int, default=48, help="samples of a step, of all processes together")
parser.add_argument("--checkpoint", default="", help="file to begin with, if it is there, and to write after each epoch")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


def images(number, seed):
    """Ten patterns of 16 x 16 pixels, shifted at random, with noise. They are generated, so nothing is downloaded."""
    patterns = torch.randn(10, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(10, (number,), generator=random)
    shifts = torch.randint(16, (number, 2), generator=random).tolist()
    shifted = torch.stack([patterns[label].roll(shift, (1, 2)) for label, shift in zip(labels.tolist(), shifts)])
    return TensorDataset(shifted + 0.5 * torch.randn(shifted.shape, generator=random), labels)


class Block(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        # GroupNorm: BatchNorm's result depends on how a batch is divided among processes.
        self.body = nn.Sequential(
            nn.Conv2d(channels // stride, channels, 3, stride, 1), nn.GroupNorm(4, channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1), nn.GroupNorm(4, channels))
        self.shortcut = nn.Conv2d(channels // stride, channels, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.shortcut(x))


torch.manual_seed(args.seed)
data, test = images(2400, seed=1), images(480, seed=2)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), Block(8, 1), Block(16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).to(kolo.device())
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(data) // args.batch)
state = kolo.State(model=model, optimizer=optimizer, scheduler=scheduler, sampler=kolo.ElasticSampler(data, seed=args.seed), step=0, samples=0, epoch=0)
if os.path.exists(args.checkpoint):
    kolo.load_checkpoint(state, args.checkpoint)


def evaluate(epoch):
    with torch.no_grad():
        images, labels = (tensor.to(kolo.device()) for tensor in test.tensors)
        scores = model(images)
        print("epoch %d, %d processes: test loss %.4f, accuracy %.3f" % (
            epoch, kolo.size(), cross_entropy(scores, labels), (scores.argmax(1) == labels).float().mean()), flush=True)


@kolo.elastic
def train(state):  # is called again for each group
    ddp = kolo.wrap(model)
    loader = DataLoader(data, kolo.global_batch(args.batch).size, sampler=state.sampler)
    for epoch in state.epochs(args.epochs):
        for images, labels in state.batches(loader):
            loss = cross_entropy(ddp(images.to(kolo.device())), labels.to(kolo.device()))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            state.step += 1
            state.commit()  # here the group may change
        if kolo.rank() == 0:
            evaluate(epoch)
        if args.checkpoint:
            kolo.save_checkpoint(state, args.checkpoint)


train(state)
