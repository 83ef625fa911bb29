# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The synthetic data that the training scripts learn."""

import torch

FEATURES = 16


def make(count):
    """The same data on every rank: y is a fixed function of x, plus noise."""
    random = torch.Generator().manual_seed(7)
    x = torch.randn(count, FEATURES, generator=random)
    weights = torch.randn(FEATURES, 1, generator=random)
    y = torch.tanh(x @ weights) + 0.05 * torch.randn(count, 1, generator=random)
    return x, y
