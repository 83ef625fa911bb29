# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""AdaptiveBatch: the batch of the next steps, as a value of a State."""

from __future__ import annotations

import contextlib
import statistics
import time
import warnings
import weakref
from typing import Any, Callable, ContextManager, Dict, Iterable, Iterator, List, Optional

import torch
from torch.nn.parallel import DistributedDataParallel

from .. import place
from ..log import log
from . import rules
from .measure import Meter
from .noise import Noise, Norm
from .rules import Rule
from .sizes import Bounds, Times, choose

EVERY = 100  # steps between two measurements
TIMED = 3  # steps of a size before their time counts
LARGEST = 2 ** 30  # what fits into a commit's message


class AdaptiveBatch:
    """A batch that grows while larger batches train faster, and changes at commits only. Experimental.

        batch = kolo.AdaptiveBatch(initial=256, max=4096, local_max=128, lr="adascale")
        state = kolo.State(model=model, optimizer=optimizer, sampler=sampler, batch=batch, step=0, epoch=0)

        for x, y in state.batches(lambda local: DataLoader(data, local, sampler=state.sampler)):
            with batch.accumulate(ddp):
                torch.nn.functional.cross_entropy(ddp(x), y).backward()
            if batch.step(optimizer):
                state.step += 1
                state.commit()

    initial is the batch for which the learning rate of the optimizer is meant, and
    the smallest; max is the largest. Both are in samples of all ranks. local_max is the
    largest number of samples of a rank in one forward pass: larger shares are
    accumulated over several passes.

    lr is the rule of the learning rate: "adascale" for SGD, "sqrt" for Adam and AdamW,
    "linear", or a function of the batch relative to the initial one that returns the factor
    (see rules.lr_factor). The learning rate of the optimizer is multiplied only during
    its step, so that schedulers do not notice.

    every is the number of steps between two measurements of the gradients.
    """

    def __init__(self, initial: int, max: int, local_max: int, lr: Rule, every: int = EVERY) -> None:
        self._bounds = Bounds(initial, max, local_max)
        if max > LARGEST:
            raise ValueError("max=%d: a batch has at most %d samples" % (max, LARGEST))
        if every < 2:
            raise ValueError("every=%d: must be 2 or more" % every)
        rules.lr_factor(lr, None, initial, initial)
        self._rule = lr
        self._every = every
        # The values of the state.
        self._target = initial  # samples of all ranks, before rounding
        self._progress = 0.0
        self._steps = 0
        self._noise = Noise()
        self._times = Times()
        # Values that follow from them and from the group.
        self._ranks = 1
        self._division = self._bounds.divide(initial, 1)
        self._next = initial
        self._changes = 0
        self._factor = 1.0  # of the learning rate, in the last step of the whole size
        self._kept = False  # the operator wants the initial batch
        # The current step.
        self._meter: Optional[Meter] = None
        self._ddp: "Optional[weakref.ref[DistributedDataParallel]]" = None
        self._optimizer: Optional[torch.optim.Optimizer] = None
        self._durations: List[float] = []  # of steps of the present size, since the last measurement
        self._since: Optional[float] = None  # the end of the last step
        self._measuring = False
        self._kept_samples = 0  # of the gradients that the meter has kept
        self._first: Optional[Norm] = None  # of the first of several passes, if there is one rank
        self._clear()

    # For the script.

    @property
    def local(self) -> int:
        """The samples of a rank in one forward pass."""
        return self._division.local

    @property
    def passes(self) -> int:
        """The forward passes of a rank in one step."""
        return self._division.passes

    @property
    def total(self) -> int:
        """The samples of all ranks in one step."""
        return self._division.total

    @property
    def progress(self) -> float:
        """The steps that training with the initial batch would have needed: the sum of the gains of all steps (AdaScale)."""
        return self._progress

    @property
    def complete(self) -> bool:
        """Whether the present gradients are those of a whole step, which step() will make. Clip them only then."""
        return self._complete

    @property
    def work(self) -> float:
        """The samples that training with the initial batch would have needed. Commits report it as samples.

        The autoscaler compares numbers of ranks by the time of a sample, so it sees the
        time of a unit of progress at the chosen batch.
        """
        return self._progress * self._bounds.initial

    @property
    def noise_scale(self) -> Optional[float]:
        """The gradient noise scale in samples; None if it is not known yet."""
        return self._noise.scale

    @property
    def efficiency(self) -> float:
        """How much a sample contributes, relative to a sample of the initial batch."""
        return rules.efficiency(self._noise.scale, self._bounds.initial, self.total)

    def worth(self, samples: float) -> float:
        """Returns how many steps with the initial batch these samples are worth at the present batch."""
        return samples * self.efficiency / self._bounds.initial

    @contextlib.contextmanager
    def accumulate(self, ddp: DistributedDataParallel) -> Iterator[None]:
        """Do the forward and the backward pass of each batch in this context. Gradients are reduced in the last pass of a step."""
        meter = self._metered(ddp)
        last = self._ends or self._passes + 1 >= self.passes
        first = self._passes == 0
        if first:
            self._measuring = self._due() and meter.sample(self._optimizer)
        meter.reduced = False
        short = self._recorded - self._passes * self.local  # samples of this pass, if they are known
        if last and self._passes and 0 < short < self.local:
            meter.divide(short / self.local)  # so that each sample has the same weight
            self._divisor = self._own() / short
        context: ContextManager[Any] = contextlib.nullcontext() if last else ddp.no_sync()
        with context:
            yield
        if meter.reduced and not last:
            raise RuntimeError("gradients were reduced before the last forward pass of the step: do the forward pass within "
                               "batch.accumulate(ddp), too")
        self._passes += 1
        if self._measuring and first and not last and self._ranks == 1:
            self._first = Norm(float(meter.norm()), self._own())
        if last:
            self._finish(meter)

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Makes the optimizer's step if this was the last forward pass of the step, zeroes the gradients, and returns whether it did."""
        self._optimizer = optimizer
        if not self._passes:
            raise RuntimeError("batch.step() follows the forward and backward pass within batch.accumulate(ddp)")
        if not self._complete:
            return False
        total, scale = self._own() * self._ranks, self._noise.scale
        factor = rules.lr_factor(self._rule, scale, self._bounds.initial, total)
        if total == self.total:
            self._factor = factor
        with _scaled(optimizer, factor):
            optimizer.step()
        optimizer.zero_grad()
        self._progress += rules.gain(scale, self._bounds.initial, total)
        self._steps += 1
        self._time()
        self._clear()
        return True

    def record(self, samples: int) -> None:
        """Records the samples of this rank's next forward pass. state.batches() calls it."""
        self._recorded += samples

    def batches(self, make: Callable[[int], Iterable[Any]]) -> Iterator[Any]:
        """Yields the batches of make(local), and calls make again when the batch has changed. state.batches() calls it.

        One batch is read ahead, because the last one of an epoch ends its step.
        """
        if not callable(make):
            raise TypeError("with an AdaptiveBatch, state.batches() needs a function that makes a loader for a number of samples: "
                            "state.batches(lambda local: DataLoader(data, local, sampler=state.sampler))")
        nothing = object()
        while True:
            changes = self._changes
            items = iter(make(self.local))
            following = next(items, nothing)
            while following is not nothing and changes == self._changes:
                item, following = following, next(items, nothing)
                self._ends = following is nothing
                yield item
            if changes == self._changes:
                return

    # For the State and its session.

    def report(self) -> Dict[str, float]:
        """Returns what commits report of the batch, in addition to its work."""
        return {"initial": self._bounds.initial, "batch": self.total, "accumulation": self.passes, "efficiency": self.efficiency,
                "lr_factor": self._factor}

    def state_dict(self) -> Dict[str, Any]:
        return {"target": self._target, "progress": self._progress, "steps": self._steps,
                "noise": self._noise.state_dict(), "times": self._times.state_dict()}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        self._target = self._next = self._bounds.clip(state["target"])
        self._progress, self._steps = state["progress"], state["steps"]
        self._noise.load_state_dict(state["noise"])
        self._times.load_state_dict(state["times"])
        self._divide()

    def reset(self) -> None:
        """Divides the batch among the ranks of the current group. The elastic loop calls it."""
        now = place.current()
        if now is not None and now.replica > 1:
            raise RuntimeError("kolo.AdaptiveBatch does not work with replicas of sharded models (HSDP)")
        self._ranks = now.size if now is not None else 1
        self._next = self._target
        self._divide()
        if self.total > self._bounds.largest and now is not None and now.rank == 0:
            warnings.warn("%d ranks take one sample each, more than max=%d" % (self._ranks, self._bounds.largest), stacklevel=2)

    def drop(self) -> None:
        """Forgets objects of the script's function in a group that this process leaves, and gradients of an incomplete step.

        So members know no more than newcomers, and all of them measure the same steps.
        """
        self._meter = self._ddp = self._optimizer = None
        self._clear()

    def check_step(self) -> None:
        """Raises within a step, whose gradients a commit would lose."""
        if self._passes:
            raise RuntimeError("a commit within a step would lose gradients: commit after batch.step() has returned True")

    def proposal(self) -> int:
        """Returns the batch that rank 0 wants from the next commit on; 0 on other ranks."""
        self.check_step()
        now = place.current()
        wanted = self._bounds.initial if self._kept else self._next
        return wanted if now is None or now.rank == 0 else 0

    def keep(self, kept: bool) -> None:
        """States whether the initial batch is to be kept from the next commit on. Only rank 0's statement counts."""
        now = place.current()
        if kept and not self._kept and now is not None and now.rank == 0:
            log("the batch stays at its initial size: the operator of the cluster does not let it adapt (adapt_batch = false)")
        self._kept = kept

    def adopt(self, batch: int) -> None:
        """Changes the batch to the one that rank 0 has proposed at the last commit. 0 is no proposal."""
        if batch in (0, self._target):
            return
        before = self.total
        self._target = self._next = self._bounds.clip(batch)
        self._divide()
        now = place.current()
        if now is not None and now.rank == 0:
            log("the batch changes from %d to %d samples: %d ranks, %d forward passes of %d; noise scale %.0f, efficiency %.2f",
                before, self.total, self._ranks, self.passes, self.local, self._noise.scale or 0.0, self.efficiency)

    def _divide(self) -> None:
        self._division = self._bounds.divide(self._target, self._ranks)
        self._changes += 1
        self._durations, self._since = [], None
        self._kept_samples = 0
        self._clear()

    def _clear(self) -> None:
        """Begins a step."""
        self._passes = 0
        self._recorded = 0  # samples of this rank
        self._first = None
        self._divisor = 0.0  # of the sum of the passes' gradients, if the last pass has fewer samples
        self._complete = False  # the gradient is that of the whole step
        self._ends = False  # no more batches follow in this epoch

    def _metered(self, ddp: DistributedDataParallel) -> Meter:
        """Returns the meter of a DistributedDataParallel, and makes it at first."""
        if self._meter is not None and self._ddp is not None and self._ddp() is ddp:
            return self._meter
        if not isinstance(ddp, DistributedDataParallel):
            sharded = any("FSDP" in kind.__name__ or "FullySharded" in kind.__name__ for kind in type(ddp).__mro__)
            raise TypeError("batch.accumulate() takes the DistributedDataParallel of kolo.wrap, not a %s%s" % (
                type(ddp).__name__, ": the gradients of sharded models (FSDP, HSDP) are not measured" if sharded else ""))
        self._meter, self._ddp = Meter(ddp), weakref.ref(ddp)
        return self._meter

    def _own(self) -> int:
        """Returns this rank's samples in the current step so far."""
        return self._recorded or self._passes * self.local

    def _due(self, ahead: int = 1) -> bool:
        """Whether gradients are measured in the current step; with ahead=2, in the next one."""
        return (self._steps + ahead) % self._every == 0

    def _finish(self, meter: Meter) -> None:
        """Measures and completes the gradient of a step."""
        if self._measuring:
            self._measure(meter)
            meter.end()
            self._measuring = False
        elif self._ranks == 1 and self._passes == 1 and self._due(2):
            meter.keep()
            self._kept_samples = self._own()
        if self._passes > 1:
            meter.divide(self._divisor or self._passes)
        self._complete = True

    def _measure(self, meter: Meter) -> None:
        """Measures noise and step time, and chooses the next batch.

        The small batch is that of a rank. A single rank takes its first forward pass of
        several instead. With one pass, it takes the gradient of the step before, whose
        weights differ: the noise is overestimated by half of the batch times the squared
        difference of the two expected gradients. This is small if the learning rate is.
        """
        own, passes, size = self._own(), self._passes, self._ranks
        uneven = float(self._divisor > 0)  # gradients of passes with different numbers of samples are not compared
        seconds = 0.0
        if len(self._durations) >= TIMED:  # else they count at a later measurement
            seconds, self._durations = statistics.median(self._durations), []
        if size > 1:  # all ranks take the means, because CPUs of two kinds may differ in the last bits of a norm
            local, reduced = meter.reduced_norms()
            values = torch.stack([local, reduced, *(torch.full_like(local, value) for value in (seconds, uneven))])
            small, big, seconds, uneven = (value / size for value in meter.total(values))
            if not uneven:
                self._noise.observe(Norm(small / passes ** 2, own), Norm(big / passes ** 2, own * size))
        elif uneven:
            pass
        elif self._first is not None:
            self._noise.observe(self._first, Norm(float(meter.norm()) / passes ** 2, own))
        elif self._kept_samples == own:
            pair = meter.pair_norms()
            if pair is not None:
                self._noise.observe(Norm(float(pair[0]), own), Norm(float(pair[1]), 2 * own))
        self._times.observe(size, self._division.share, seconds)
        self._next = choose(self._bounds, self._target, size, self._noise.scale, self._times)

    def _time(self) -> None:
        """Measures the time of a step of the whole size, from the end of the step before."""
        now = time.monotonic()
        if self._since is not None and self._own() == self._division.share:
            self._durations.append(now - self._since)
        self._since = now


@contextlib.contextmanager
def _scaled(optimizer: torch.optim.Optimizer, factor: float) -> Iterator[None]:
    """Multiplies the learning rates of an optimizer."""
    rates = [group["lr"] for group in optimizer.param_groups]
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate * factor
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, rates):
            group["lr"] = rate
