# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Progress that rank 0 reports: to the agent, or where there is none to KOLO_PROGRESS_FILE."""

from __future__ import annotations

import json
import math
import numbers
import os
import time
from typing import Any, Callable, Dict, Mapping, Optional

import torch

from . import place

FIELDS = ("step", "samples", "epoch", "total_steps", "loss")

INTERVAL = 0.02  # seconds between two reports to the agent

_send: Optional[Callable[[Mapping[str, Any]], None]] = None
_interval = 0.0
_sent = 0.0  # when
_held: Optional[Dict[str, Any]] = None
_extra: Dict[str, Any] = {}  # what the script has reported by itself


def connect(send: Optional[Callable[[Mapping[str, Any]], None]], interval: float = 0.0) -> None:
    """Sets where reports go. Within interval seconds, a report replaces the one that is held back."""
    global _send, _interval, _sent, _held
    _send, _interval, _sent, _held = send, interval, 0.0, None


def progress(**fields: Any) -> None:
    """Adds to what is reported: step, samples, epoch, total_steps, loss.

    What a State holds under these names is reported without it. The others are
    sent with the next commit, and again until they are replaced.
    """
    unknown = set(fields) - set(FIELDS)
    if unknown:
        raise TypeError("progress has no %s; it has %s" % (", ".join(sorted(unknown)), ", ".join(FIELDS)))
    _extra.update(fields)


def report(fields: Mapping[str, Any]) -> None:
    """Sends what a commit reports, from rank 0 only."""
    now = place.current()
    if _send is None or now is None or now.rank != 0:
        return
    global _held
    _held = {**_extra, **fields}
    if time.monotonic() - _sent >= _interval:
        flush()


def flush() -> None:
    """Sends what is held back."""
    global _sent, _held
    if _send is None or _held is None:
        return
    numbered = {name: _number(value) for name, value in _held.items()}
    _sent, _held = time.monotonic(), None
    _send({name: value for name, value in numbered.items() if value is not None})


def _number(value: Any) -> Any:
    """A value as JSON has it; None for what cannot be had without waiting for a GPU."""
    if isinstance(value, torch.Tensor):
        if value.device.type != "cpu" or value.numel() != 1:
            return None
        value = value.item()
    if not isinstance(value, numbers.Real) or not math.isfinite(value):
        return None
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def to_file() -> Optional[Callable[[Mapping[str, Any]], None]]:
    """Appends reports to KOLO_PROGRESS_FILE, if it is set."""
    path = os.environ.get("KOLO_PROGRESS_FILE")
    if not path:
        return None
    file = open(path, "a", buffering=1)
    return lambda fields: file.write(json.dumps(dict(fields)) + "\n") and None
