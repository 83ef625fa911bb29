# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The gradient noise scale: how many samples a batch may have before more samples hardly improve its gradient. Pure.

The gradient of a batch of b samples has the expected squared norm

    E |g_b|^2 = |G|^2 + S / b

G is the gradient over all data, and S the trace of the covariance of one sample's
gradient. Two squared norms, of batches of different sizes, give unbiased estimates
of |G|^2 and S. Their ratio S / |G|^2 is the simple noise scale, in samples
(McCandlish, Kaplan, Amodei et al., "An Empirical Model of Large-Batch Training",
arXiv 1812.06162, 2018, appendix A.1).

Neither S nor |G|^2 depends on the batch size, so measurements before and after a
change of the size can be averaged. With Adam, both change with the second moment, in
nearly the same proportion, which leaves the noise scale.
"""

from __future__ import annotations

import math
from typing import Any, Dict, NamedTuple, Optional

DECAY = 0.9  # of the weight of earlier measurements, at each measurement
LEAST = 5  # measurements before there is an estimate


class Norm(NamedTuple):
    """The squared norm of a mean gradient."""

    squared: float
    samples: int  # of which it is the mean


class Noise:
    """Averages measurements of |G|^2 and S, the newest with the most weight."""

    def __init__(self, decay: float = DECAY) -> None:
        self.count = 0  # of measurements
        self._decay = decay
        self._weight = 0.0
        self._signal = 0.0  # weighted sum of estimates of |G|^2
        self._variance = 0.0  # weighted sum of estimates of S

    def observe(self, small: Norm, big: Norm) -> None:
        """Adds a measurement: the squared norms of the mean gradients of a small and a big batch.

        The small batch may be a part of the big one. small.squared may be an average
        over several batches of this size. A measurement that is not finite, or whose
        batches are equally large, is ignored.
        """
        if small.samples >= big.samples or not (math.isfinite(small.squared) and math.isfinite(big.squared)):
            return
        signal = (big.samples * big.squared - small.samples * small.squared) / (big.samples - small.samples)
        variance = (small.squared - big.squared) / (1 / small.samples - 1 / big.samples)
        self._weight = self._decay * self._weight + 1
        self._signal = self._decay * self._signal + signal
        self._variance = self._decay * self._variance + variance
        self.count += 1

    @property
    def signal(self) -> float:
        """The estimate of |G|^2. Chance may make it negative."""
        return self._signal / self._weight if self._weight else 0.0

    @property
    def variance(self) -> float:
        """The estimate of S. Chance may make it negative."""
        return self._variance / self._weight if self._weight else 0.0

    @property
    def scale(self) -> Optional[float]:
        """The noise scale in samples; None if there are too few measurements.

        The averages are unbiased, but their ratio is only consistent. It is infinite if
        the measurements do not show any gradient below the noise.
        """
        if self.count < LEAST:
            return None
        if self.variance <= 0:
            return 0.0
        return self.variance / self.signal if self.signal > 0 else math.inf

    def state_dict(self) -> Dict[str, Any]:
        return {"count": self.count, "weight": self._weight, "signal": self._signal, "variance": self._variance}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self.count, self._weight = state["count"], state["weight"]
        self._signal, self._variance = state["signal"], state["variance"]
