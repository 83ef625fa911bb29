# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The function that the training scripts learn, and the network that learns it."""

import torch

FEATURES = 16
LAYER = 16  # megabytes that a parameter of the ballast has at most, as those of large models


def data(count):
    """Returns the same data on every rank: y is a fixed function of x, plus noise."""
    random = torch.Generator().manual_seed(7)
    x = torch.randn(count, FEATURES, generator=random)
    weights = torch.randn(FEATURES, 1, generator=random)
    y = torch.tanh(x @ weights) + 0.05 * torch.randn(count, 1, generator=random)
    return x, y


class Net(torch.nn.Module):
    """A small network, with additional megabytes of parameters.

    The ballast takes part in it with weight zero; frozen megabytes do not. With
    an audit, the network counts how often each of so many samples is used, see uses.
    """

    def __init__(self, ballast=0, frozen=0, audit=0):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        if ballast:
            self.ballast = torch.nn.ParameterList(
                torch.zeros(min(LAYER, ballast - begin) * 1024 * 1024 // 4) for begin in range(0, ballast, LAYER))
        if frozen:
            self.frozen = torch.nn.Parameter(torch.zeros(frozen * 1024 * 1024 // 4), requires_grad=False)
        self.count = torch.nn.Parameter(torch.zeros(audit)) if audit else None

    def forward(self, x):
        y = self.layers(x)
        return y + 0 * sum(layer[0] for layer in self.ballast) if hasattr(self, "ballast") else y

    def groups(self):
        """Returns the parameters for an optimizer. The counting weights have a rate of 1 and no momentum."""
        groups = [{"params": [p for p in self.parameters() if p is not self.count]}]
        return groups + [{"params": [self.count], "lr": 1.0, "momentum": 0.0}] if self.count is not None else groups

    def uses(self, indices, size):
        """Returns a part of the loss, of value 0, by which a step adds 1 to the weight of each of these samples.

        Its gradient is -size, and the ranks average it to -1. So the weights count the
        samples that are in the training state, independently of the script's record.
        """
        if self.count is None:
            return 0
        used = self.count[indices]
        return -size * (used - used.detach()).sum()


def audit(state, record, **where):
    """Records the counts of the weights at the end of an epoch. state.counted holds the counts at its beginning."""
    if state.model.count is None:
        return
    count = state.model.count.detach().clone()
    uses = (count - state.counted).round()
    state.counted = count
    record.write("epoch", epoch=state.epoch, unused=int((uses < 1).sum()), again=int((uses - 1).clamp(min=0).sum()), **where)
