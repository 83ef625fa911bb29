# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Progress reports of rank 0, to the agent or, without one, to KOLO_PROGRESS_FILE."""

from __future__ import annotations

import contextlib
import json
import math
import numbers
import os
import time
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Tuple

import torch

from .context import context

FIELDS = ("step", "samples", "epoch", "total_steps", "loss")

INTERVAL = 0.02  # seconds between two reports to the agent


LAST = 64  # steps of which a report states who arrived last


def connect(send: Optional[Callable[[Mapping[str, Any]], None]], interval: float = 0.0) -> None:
    """Sets where reports go. Reports are at least interval seconds apart. In between, only the newest report is kept."""
    reports = context.reports
    reports.send, reports.interval, reports.sent, reports.held, reports.slow, reports.last = send, interval, 0.0, None, "", []


def progress(**fields: Any) -> None:
    """Adds fields to the progress reports: step, samples, epoch, total_steps, loss.

    Values that a State holds under these names are reported anyway, and take
    precedence. The other fields are sent with every later commit.
    """
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise TypeError("progress has no %s; it has %s" % (", ".join(sorted(unknown)), ", ".join(FIELDS)))
    context.reports.extra.update(fields)


def report(fields: Mapping[str, Any]) -> None:
    """Sends a commit's report, on rank 0 only."""
    reports, place = context.reports, context.place
    if reports.send is None or place is None or place.rank != 0:
        return
    reports.held = {**reports.extra, **fields}
    if time.monotonic() - reports.sent >= reports.interval:
        flush()


def arrived(last: Optional[Tuple[int, float]]) -> None:
    """Adds to the next report which rank arrived last in a step, and how many seconds after the others, if that is known."""
    if last is not None and len(context.reports.last) < LAST:
        context.reports.last.append(last)


def flush() -> None:
    """Sends the report that was kept for later, if any."""
    reports = context.reports
    if reports.send is None or reports.held is None:
        return
    fields = _numbers(reports.held)
    if "adaptive" in reports.held:
        fields["adaptive"] = _numbers(reports.held["adaptive"])
    if reports.last:
        fields["last"] = reports.last
    reports.sent, reports.held, reports.last = time.monotonic(), None, []
    reports.send(fields)


@contextlib.contextmanager
def slow(reason: str) -> Iterator[None]:
    """Announces, on any rank, that the next step takes long, until the block ends. An older agent ignores
    this."""
    if not reason:
        raise ValueError("slow() needs a reason, such as \"evaluation\"")
    outer = context.reports.slow
    _state_slow(reason)
    try:
        yield
    finally:
        _state_slow(outer)


def _state_slow(reason: str) -> None:
    flush()  # a step that is reported later would end the statement
    reports = context.reports
    reports.slow = reason
    if reports.send is not None:
        reports.send({"slow": reason})


def _numbers(values: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the values that are numbers, as JSON numbers."""
    numbered = {name: _number(value) for name, value in values.items()}
    return {name: value for name, value in numbered.items() if value is not None}


def _number(value: Any) -> Any:
    """Returns a value as a JSON number. Returns None for other values, and for values on a GPU, because reading them would wait for it."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.numel() != 1:
            return None
        value = value.item()
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def to_file() -> Optional[Callable[[Mapping[str, Any]], None]]:
    """Returns a function that appends reports to KOLO_PROGRESS_FILE; None if that is not set."""
    path = os.environ.get("KOLO_PROGRESS_FILE")
    if not path:
        return None
    file = open(path, "a", buffering=1)  # noqa: SIM115 # open as long as the process lives

    def write(fields: Mapping[str, Any]) -> None:
        file.write(json.dumps(dict(fields)) + "\n")

    return write
