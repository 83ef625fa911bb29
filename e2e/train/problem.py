# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What the training scripts learn, and the network that learns it."""

import torch

FEATURES = 16
LAYER = 16  # megabytes that a parameter of the ballast has at most, as those of large models


def data(count):
    """The same on every rank: y is a fixed function of x, plus noise."""
    random = torch.Generator().manual_seed(7)
    x = torch.randn(count, FEATURES, generator=random)
    weights = torch.randn(FEATURES, 1, generator=random)
    y = torch.tanh(x @ weights) + 0.05 * torch.randn(count, 1, generator=random)
    return x, y


class Net(torch.nn.Module):
    """A small network with as many megabytes more as are asked for.

    The ballast takes part in it with weight zero; what is frozen does not.
    """

    def __init__(self, ballast=0, frozen=0):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        if ballast:
            self.ballast = torch.nn.ParameterList(
                torch.zeros(min(LAYER, ballast - begin) * 1024 * 1024 // 4) for begin in range(0, ballast, LAYER))
        if frozen:
            self.frozen = torch.nn.Parameter(torch.zeros(frozen * 1024 * 1024 // 4), requires_grad=False)

    def forward(self, x):
        y = self.layers(x)
        return y + 0 * sum(layer[0] for layer in self.ballast) if hasattr(self, "ballast") else y
