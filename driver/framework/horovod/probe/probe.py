# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Prints, as one line of JSON, which Horovod this Python has."""

import glob
import importlib
import importlib.util
import json
import os
import platform
import sys

answer = {
    "installed": False,
    "why": "",
    "python": sys.executable,
    "python_version": platform.python_version(),
    "frameworks": {},
}


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def ask(bindings, framework, name, home):
    """Asks one framework's part of Horovod how it was built."""
    if not glob.glob(os.path.join(home, bindings, "mpi_lib*.so")):
        return
    try:
        hvd = importlib.import_module("horovod." + bindings)
        answer["frameworks"][name] = str(importlib.import_module(framework).__version__)
        for part in ("gloo", "nccl", "mpi"):
            answer[part] = bool(getattr(hvd, part + "_built")())
    except Exception as error:  # whatever a broken installation throws
        answer["why"] = "horovod.%s cannot be imported: %s" % (bindings, first_line(error))


def main():
    try:
        spec = importlib.util.find_spec("horovod")
        if spec is None or not spec.origin:
            answer["why"] = "%s has none" % sys.executable
            return
        answer["version"] = importlib.import_module("horovod").__version__
    except Exception as error:
        answer["why"] = "horovod cannot be imported: %s" % first_line(error)
        return
    answer["installed"] = True
    home = os.path.dirname(spec.origin)
    ask("torch", "torch", "pytorch", home)
    ask("tensorflow", "tensorflow", "tensorflow", home)
    ask("mxnet", "mxnet", "mxnet", home)
    if not answer["frameworks"] and not answer["why"]:
        answer["why"] = "Horovod was built for no framework"


main()
print("\n" + json.dumps(answer))
