# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Measures the squared norms of gradients that DistributedDataParallel reduces anyway.

A communication hook takes the place of DistributedDataParallel's own reduction. It
does the same, and at a sampled step computes one norm of each bucket before the
reduction. The norm after the reduction is computed when all buckets are reduced.

With Adam and AdamW, the gradient is divided by the square root of the second
moment, as in their step. So the noise is that of the steps the optimizer makes
(Pollux, section 3.1, "preconditioned"). Other optimizers are measured as SGD is.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

YOUNG = 10  # steps of Adam before its second moment means anything
PART = 2 ** 18  # elements that are divided at once, so that the quotients stay in a CPU's cache


class Scale(NamedTuple):
    """What divides the gradient of a parameter: the root of the second moment, as in Adam's step."""

    second: torch.Tensor
    correction: float  # of the root
    eps: float


class Unready(Exception):
    """The optimizer has not made enough steps for a measurement."""


class Meter:
    """Measures the gradients of one DistributedDataParallel."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.reduced = False  # gradients were reduced since this was set to False
        self._group = ddp.process_group
        self._size = dist.get_world_size(self._group)
        self._parameters = [parameter for parameter in ddp.parameters() if parameter.requires_grad]
        self._sampling = False
        self._scales: Dict[int, Scale] = {}  # by the parameter's id
        self._local: List[torch.Tensor] = []  # squared norms of the buckets before they are reduced
        self._buckets: List[Tuple[Any, ...]] = []
        self._kept: Optional[List[Optional[torch.Tensor]]] = None  # gradients of an earlier step
        try:
            ddp.register_comm_hook(None, lambda _, bucket: self._reduce(bucket))  # PyTorch refuses annotations that are text
        except RuntimeError as err:
            raise RuntimeError("kolo.AdaptiveBatch measures gradients in a communication hook, and this DistributedDataParallel "
                               "has one already or has trained without it: %s" % err) from err

    def sample(self, optimizer: Optional[torch.optim.Optimizer]) -> bool:
        """Makes the next reduction measure norms. Returns False, and does not, if the optimizer is not ready for it."""
        try:
            self._scales = preconditioner(optimizer, self._parameters)
        except Unready:
            return False
        self._sampling, self._local, self._buckets = True, [], []
        return True

    def end(self) -> None:
        """Ends a measurement."""
        self._sampling, self._scales, self._local, self._buckets = False, {}, [], []

    def reduced_norms(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """Returns the squared norms of this rank's gradient and of the mean over ranks, in the last reduction."""
        return _sum(self._local), _sum([self._squared(*bucket) for bucket in self._buckets])

    def norm(self) -> torch.Tensor:
        """Returns the squared norm of the present gradients."""
        return _sum([self._squared(None, [gradient], [parameter]) for parameter, gradient in self._gradients()])

    def keep(self) -> None:
        """Copies the present gradients, for the next step's pair_norms()."""
        self._kept = [None if parameter.grad is None else parameter.grad.clone() for parameter in self._parameters]

    def pair_norms(self) -> Optional[Tuple[torch.Tensor, torch.Tensor]]:
        """Returns the mean of the squared norms of the kept and the present gradients, and the squared norm of their mean. None if none is kept."""
        kept, self._kept = self._kept, None
        if kept is None:
            return None
        pairs = [(parameter, before, parameter.grad) for parameter, before in zip(self._parameters, kept)
                 if before is not None and parameter.grad is not None]
        single = _sum([self._squared(None, [gradient], [parameter]) for parameter, *both in pairs for gradient in both])
        mean = _sum([self._squared(None, [(before + gradient) / 2], [parameter]) for parameter, before, gradient in pairs])
        return single / 2, mean

    def divide(self, by: float) -> None:
        """Divides the gradients, which are sums over forward passes."""
        for _, gradient in self._gradients():
            gradient.div_(by)

    def total(self, values: torch.Tensor) -> List[float]:
        """Returns the sums of values over all ranks."""
        if self._size > 1:
            dist.all_reduce(values, group=self._group)
        return [float(value) for value in values.tolist()]

    def _reduce(self, bucket: Any) -> Any:
        """Averages a bucket over the ranks, as DistributedDataParallel does without a hook."""
        self.reduced = True
        buffer: torch.Tensor = bucket.buffer()
        if self._sampling and self._size > 1:
            parts = (buffer, bucket.gradients(), bucket.parameters()) if self._scales else (buffer, (), ())
            self._local.append(self._squared(*parts))
            self._buckets.append(parts)
        work: Any = dist.all_reduce(buffer.div_(self._size), group=self._group, async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    def _gradients(self) -> List[Tuple[torch.Tensor, torch.Tensor]]:
        return [(parameter, parameter.grad) for parameter in self._parameters if parameter.grad is not None]

    def _squared(self, buffer: Optional[torch.Tensor], gradients: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """Returns the squared norm of a bucket, or of gradients that are in none. With an Adam, each gradient is divided by its scale."""
        if not self._scales:
            gradients = gradients if buffer is None else (buffer,)
            return _sum([_squared(gradient) for gradient in gradients])
        return _sum([scaled_squared(gradient, self._scales[id(parameter)])
                     for parameter, gradient in zip(parameters, gradients) if id(parameter) in self._scales])


def preconditioner(optimizer: Optional[torch.optim.Optimizer], parameters: Sequence[torch.Tensor]) -> Dict[int, Scale]:
    """Returns what Adam and its relatives divide each gradient by, by the parameter's id; nothing for other optimizers."""
    if optimizer is None:
        raise Unready
    if not any("betas" in group and "eps" in group for group in optimizer.param_groups):
        return {}
    wanted, scales = {id(parameter) for parameter in parameters}, {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            kept = optimizer.state.get(parameter, {})
            if id(parameter) in wanted and "exp_avg_sq" in kept:
                steps = float(kept["step"])
                if steps < YOUNG:
                    raise Unready
                scales[id(parameter)] = Scale(kept["exp_avg_sq"], math.sqrt(1 - group["betas"][1] ** steps), group["eps"])
    if not scales:
        raise Unready
    return scales


def scaled_squared(gradient: torch.Tensor, scale: Scale) -> torch.Tensor:
    """Returns the squared norm of a gradient that is divided by its scale."""
    size = min(PART, gradient.numel()) if gradient.device.type == "cpu" else gradient.numel()
    room = torch.empty(size, dtype=_precise(gradient), device=gradient.device)  # used again: allocating costs more than computing
    squares = []
    for values, second in zip(gradient.detach().reshape(-1).split(max(1, size)), scale.second.reshape(-1).split(max(1, size))):
        root = torch.sqrt(second, out=room[:len(second)]).div_(scale.correction).add_(scale.eps)
        squares.append(_squared(torch.div(values, root, out=root)))
    return _sum(squares)


def _squared(tensor: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(tensor.detach(), dtype=_precise(tensor))
    return norm.double().square()


def _precise(tensor: torch.Tensor) -> torch.dtype:
    """Returns the type in which norms are computed."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32


def _sum(values: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack(list(values)).sum() if values else torch.zeros((), dtype=torch.float64)
