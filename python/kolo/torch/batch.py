# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Helpers that adapt batch size and learning rate to the number of ranks."""

from __future__ import annotations

import warnings
from typing import NamedTuple, Optional

from . import place


class Batch(NamedTuple):
    """The batch of one rank. The batches of all ranks together are the global batch."""

    size: int  # samples of a rank in one forward pass
    accumulate: int  # forward passes of one step
    total: int  # samples of all ranks in one step


def global_batch(total: int, limit: Optional[int] = None) -> Batch:
    """Divides a global batch among the ranks of the current group, and returns this rank's part.

    limit is the largest number of samples that fit in one forward pass. A rank with
    more samples accumulates gradients over several passes.

    All ranks take equally many samples. A total that does not divide among them is
    rounded up, and rank 0 warns. Choose a total with many divisors, such as 240, or
    read the total of the result.
    """
    if total < 1 or limit is not None and limit < 1:
        raise ValueError("a batch has at least one sample")
    size = place.size()
    share = -(-total // size)
    accumulate = 1 if limit is None else -(-share // limit)
    part = -(-share // accumulate)
    batch = Batch(part, accumulate, part * accumulate * size)
    if batch.total != total and place.rank() == 0:
        warnings.warn("a global batch of %d does not divide among %d ranks with %d forward passes: a step takes %d samples"
                      % (total, size, accumulate, batch.total), stacklevel=2)
    return batch


def scaled_lr(rate: float, base: int = 1) -> float:
    """Returns the learning rate for the current number of ranks by the linear rule.

    rate is the learning rate for base ranks. Use this function if each rank's batch
    stays the same. With global_batch, the learning rate stays the same.
    """
    return rate * place.size() / base
