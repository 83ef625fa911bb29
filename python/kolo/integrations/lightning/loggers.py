# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Loggers, when rank 0 becomes another process."""

from __future__ import annotations

import csv
import os
import warnings
from typing import Any


def reopen(logger: Any, writes: bool) -> None:
    """Lets a CSVLogger write to the file that another process may have begun, and which it would delete."""
    logger._experiment = None
    path = os.path.join(logger.log_dir, "metrics.csv")
    if writes and os.path.isfile(path):
        with open(path, newline="", encoding="utf-8") as file:
            content = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of that deletion
            writer = logger.experiment
        with open(path, "w", newline="", encoding="utf-8") as file:
            file.write(content)
        writer.metrics_keys = next(csv.reader(content.splitlines()), [])
