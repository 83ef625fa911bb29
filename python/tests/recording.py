# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Shared by the scripts with a framework: options from the environment, and the records that tests check."""

import argparse
import json
import os
import random
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--records", required=True)
directory = parser.parse_args().records
os.makedirs(directory, exist_ok=True)
file = open(os.path.join(directory, "%d" % os.getpid()), "a", buffering=1)


def option(name, default):
    """Returns an option of the test, converted to the type of its default."""
    return type(default)(os.environ.get("TEST_" + name, default))


class Items(torch.utils.data.IterableDataset):
    """An iterable over a data set, in another order each epoch."""

    def __init__(self, data):
        self.data, self.epoch = data, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def order(self):
        return random.Random(self.epoch).sample(range(len(self.data)), len(self.data))

    def __iter__(self):
        for index in self.order():
            yield self.data[index]


class PlacedItems(Items):
    """Items that can go on from a position."""

    next = 0

    def __iter__(self):
        order = self.order()
        while self.next < len(order):
            self.next += 1
            yield self.data[order[self.next - 1]]

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


class Shelves(torch.utils.data.Sampler):
    """A sampler of a script's own: shuffles groups of samples, and the samples of each group.

    If the test asks for it, one process gives another order, from an epoch on.
    """

    def __init__(self, data):
        self.count, self.epoch = len(data), 0
        self.differs = option("DIFFERS", 1000) if option("NUMBER", 0) == 1 else 1000

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.count

    def __iter__(self):
        for shelf in torch.randperm(-(-self.count // 10)).tolist():
            samples = list(range(shelf * 10, min(shelf * 10 + 10, self.count)))
            random.shuffle(samples)
            yield from reversed(samples) if self.epoch >= self.differs else samples


def scaler():
    """Returns a GradScaler, whose scale shows how many steps were made. Frameworks make none on CPUs."""
    return torch.amp.GradScaler("cpu", init_scale=16.0, growth_factor=1.25, growth_interval=4)


def averaged(model):
    """Returns a moving average that does not forget its first steps in a test."""
    return torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.99))


def averages(average):
    """Returns the part of an average that is recorded: the sum of its weights, and the number of its updates."""
    return {"average": total(average), "averaged": int(average.n_averaged)}


def total(module):
    return sum(parameter.double().sum().item() for parameter in module.parameters())


def streamed(data):
    """Returns data, or an iterable over it if the test asks for one."""
    return {"": lambda data: data, "items": Items, "placed": PlacedItems}[option("STREAM", "")](data)


def record(kind, **fields):
    file.write(json.dumps({"kolo": kind, "t": time.time(), **fields}) + "\n")
