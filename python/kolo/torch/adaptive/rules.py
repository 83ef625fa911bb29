# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What a step with a larger batch is worth, and its learning rate. Pure.

Sizes are in samples of all ranks. A noise scale of None is unknown.
"""

from __future__ import annotations

import math
from typing import Callable, Optional, Union

# A rule's name, or a function of the batch's size relative to the initial one.
Rule = Union[str, Callable[[float], float]]


def gain(scale: Optional[float], initial: float, batch: float) -> float:
    """Returns how many steps with the initial batch a step with this batch is worth.

    This is the gain ratio of AdaScale SGD: (S/M0 + |G|^2) / (S/M + |G|^2), with
    the initial batch M0 and the batch M (Johnson, Agrawal, Gu and Guestrin,
    "AdaScale SGD: A User-Friendly Algorithm for Distributed Training", ICML 2020).
    It is between 1 and M/M0. While the noise scale is unknown, a larger batch is worth
    no more than one step.
    """
    if scale is None:
        return min(1.0, batch / initial)
    if math.isinf(scale):
        return batch / initial
    return batch * (scale + initial) / (initial * (scale + batch))


def efficiency(scale: Optional[float], initial: float, batch: float) -> float:
    """Returns how much a sample contributes, relative to a sample of the initial batch.

    This is the statistical efficiency of Pollux: (phi + M0) / (phi + M), with the
    noise scale phi (Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for
    Goodput-Optimized Deep Learning", OSDI 2021, section 3.1).
    """
    return gain(scale, initial, batch) * initial / batch


def lr_factor(rule: Rule, scale: Optional[float], initial: float, batch: float) -> float:
    """Returns the factor of the learning rate for this batch.

    - "adascale", for SGD: the gain. Momentum stays as it is, as in the paper.
    - "sqrt", for Adam and AdamW: the square root of M/M0 (Malladi, Lyu, Panigrahi and
      Arora, "On the SDEs and Scaling Rules for Adaptive Gradient Algorithms",
      NeurIPS 2022). The paper also adapts the betas and epsilon, which are not
      changed here: beta1 = 0.9 would become 0 at ten times the batch.
    - "linear": M/M0 (Goyal et al., "Accurate, Large Minibatch SGD", 2017, arXiv
      1706.02677). The momentum buffer of PyTorch's SGD does not contain the
      learning rate, so it needs no correction.
    """
    if callable(rule):
        return float(rule(batch / initial))
    if rule == "adascale":
        return gain(scale, initial, batch)
    if rule == "sqrt":
        return math.sqrt(batch / initial)
    if rule == "linear":
        return batch / initial
    raise ValueError("lr=%r is none of \"adascale\", \"sqrt\", \"linear\" or a function of the batch relative to the initial one" % (rule,))
