# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Messages to the user."""

from __future__ import annotations

import sys
from typing import Any


def log(text: str, *args: Any) -> None:
    """Writes a line to stderr, which is part of the task's log."""
    print("kolo: " + text % args, file=sys.stderr, flush=True)
