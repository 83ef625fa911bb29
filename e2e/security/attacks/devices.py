# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Looks for GPUs that were not given to its job."""
import glob
import os

from findings import attempt, report


def nodes():
    found = sorted(glob.glob("/dev/nvidia*"))
    if not found:
        raise FileNotFoundError("no node of a GPU")
    return str(found)


def environment():
    named = {k: v for k, v in os.environ.items() if k.startswith(("NVIDIA_VISIBLE", "CUDA_VISIBLE")) and v not in ("", "none", "void")}
    if not named:
        raise FileNotFoundError("no GPU is named")
    return str(named)


attempt("see device nodes", nodes)
attempt("be shown GPUs", environment)
report()
