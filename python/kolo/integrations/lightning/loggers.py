# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Keeps loggers going when another process becomes rank 0."""

from __future__ import annotations

import csv
import os
import warnings
from typing import Any


def reopen(logger: Any, writes: bool) -> None:
    """Lets a CSVLogger continue a file that another process may have begun; by default, it would delete the file."""
    logger._experiment = None
    path = os.path.join(logger.log_dir, "metrics.csv")
    if writes and os.path.isfile(path):
        with open(path, newline="", encoding="utf-8") as file:
            content = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about that deletion
            writer = logger.experiment
        with open(path, "w", newline="", encoding="utf-8") as file:
            file.write(content)
        writer.metrics_keys = next(csv.reader(content.splitlines()), [])
