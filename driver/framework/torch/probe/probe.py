# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Prints, as one line of JSON, which PyTorch this Python has."""

import importlib
import importlib.util
import json
import platform
import sys

answer = {
    "installed": False,
    "why": "",
    "python": sys.executable,
    "python_version": platform.python_version(),
}


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def ask_kolo():
    """Asks for the version of the package kolo."""
    try:
        if importlib.util.find_spec("kolo.torch") is None:
            return
    except ImportError:  # no package kolo, or another of this name
        return
    answer["kolo"] = str(getattr(importlib.import_module("kolo"), "__version__", "unknown"))


def main():
    try:
        if importlib.util.find_spec("torch") is None:
            answer["why"] = "%s has none" % sys.executable
            return
        torch = importlib.import_module("torch")
        answer["version"] = str(torch.__version__)
    except Exception as error:  # whatever a broken installation throws
        answer["why"] = "torch cannot be imported: %s" % first_line(error)
        return
    answer["installed"] = True
    answer["cuda"] = torch.version.cuda or ""
    try:
        dist = importlib.import_module("torch.distributed")
        available = dist.is_available()
        for backend in ("gloo", "nccl", "mpi"):
            answer[backend] = bool(available and getattr(dist, "is_%s_available" % backend)())
        ask_kolo()
    except Exception as error:
        answer["why"] = "torch.distributed cannot be asked: %s" % first_line(error)


main()
print("\n" + json.dumps(answer))
