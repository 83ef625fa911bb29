# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A small GPT like nanoGPT, in process: sharded with FSDP2 or, with replicas, with HSDP."""

import argparse
import inspect
import os

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils.data import DataLoader, TensorDataset

import kolo.torch as kolo

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=50)
parser.add_argument("--batch", type=int, default=24, help="sequences of a step, of all processes together")
parser.add_argument("--shards", default="shards", help="directory for the last commit, shared by all hosts; not used with replicas")
parser.add_argument("--checkpoint", default="", help="file to begin with, if it is there, and to write after each epoch")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class GPT(nn.Module):
    def __init__(self, length, width=64, layers=2, heads=4):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


# The source of a module of Python, in sequences of 65 bytes: text that is there without a download.
text = torch.tensor(list(inspect.getsource(argparse).encode()))
text = text[:65 * 1080].view(1080, 65)
data, test = TensorDataset(text[:960]), text[960:]


def build(mesh):  # is called for each group, with its processes
    torch.manual_seed(args.seed)
    model = GPT(length=64)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


state = kolo.State(sharded=kolo.Sharded(build, args.shards), sampler=kolo.ElasticSampler(data, seed=args.seed), step=0, samples=0, epoch=0)
if os.path.exists(args.checkpoint):
    kolo.load_checkpoint(state, args.checkpoint)


@kolo.elastic
def train(state):  # is called again for each group
    model, optimizer = state.sharded.model, state.sharded.optimizer
    loader = DataLoader(data, kolo.global_batch(args.batch).size, sampler=state.sampler)
    for epoch in state.epochs(args.epochs):
        for (tokens,) in state.batches(loader):
            loss = model(tokens[:, :-1], tokens[:, 1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state.step += 1
            state.commit(every=5)  # here the group may change; without replicas, a commit writes files
        with torch.no_grad():  # all processes have a part of the model
            loss = model(test[:, :-1], test[:, 1:])
        if kolo.rank() == 0:
            print("epoch %d, %d processes: test loss %.4f" % (epoch, kolo.size(), loss), flush=True)
        if args.checkpoint:
            kolo.save_checkpoint(state, args.checkpoint)


train(state)
