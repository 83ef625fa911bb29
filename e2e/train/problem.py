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

    The ballast takes part in it with weight zero; what is frozen does not. With
    an audit, the network counts the uses of so many samples, see uses.
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
        """The parameters for an optimizer. What counts has a rate of 1 and no momentum."""
        groups = [{"params": [p for p in self.parameters() if p is not self.count]}]
        return groups + [{"params": [self.count], "lr": 1.0, "momentum": 0.0}] if self.count is not None else groups

    def uses(self, indices, size):
        """A part of the loss, of value 0, by which a step adds 1 to the weight of each of these samples.

        Its gradient is -size, of which the ranks' average leaves -1. So the weights
        count what is in the training state, whatever the script's record says.
        """
        if self.count is None:
            return 0
        used = self.count[indices]
        return -size * (used - used.detach()).sum()


def audit(state, record, **where):
    """Records what the weights say at the end of an epoch. state.counted is what they said at its begin."""
    if state.model.count is None:
        return
    count = state.model.count.detach().clone()
    uses = (count - state.counted).round()
    state.counted = count
    record.write("epoch", epoch=state.epoch, unused=int((uses < 1).sum()), again=int((uses - 1).clamp(min=0).sum()), **where)
