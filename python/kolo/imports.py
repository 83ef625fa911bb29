# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lets a new process import early the modules that its script imports late.

Scripts often call init_process_group first, and import their models, data and trackers
afterwards. A process of the next group waits in that call while the current group trains.
Processes that train write the names of their modules into a file next to KOLO_STEP_FILE. The
waiting process imports these modules meanwhile, so its script finds them loaded.
"""

from __future__ import annotations

import glob
import importlib
import importlib.util
import json
import os
import sys
import sysconfig
from types import ModuleType

STEP_FILE = "KOLO_STEP_FILE"

# Bounds for the file of names.
_NAMES, _BYTES = 10_000, 1 << 20

# Modules that PyTorch imports with the first optimizer, which takes seconds.
_LATE = ("torch._dynamo", "torch.optim")


def _places() -> tuple[str, ...]:
    """Returns the directories of installed packages and of the standard library.

    Modules of the script itself are not imported early, because an import may run code that must run after
    init_process_group.
    """
    paths = sysconfig.get_paths()
    places = {os.path.realpath(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places.update(os.path.realpath(path) for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages"))
    return tuple(place + os.sep for place in places)


def remember() -> None:
    """Writes the names of this process's modules for the process that will replace it. Ignores errors."""
    path = os.environ.get(STEP_FILE)
    if not path:
        return
    places = _places()
    script = getattr(sys.modules.get("__main__"), "__spec__", None)  # of an installed module that was started by -m
    own = script.name.partition(".")[0] if script is not None else ""
    names = []
    for name, module in list(sys.modules.items()):  # in the order of their first imports
        if not issubclass(type(module), ModuleType) or name.partition(".")[0] == own:
            continue
        file = object.__getattribute__(module, "__dict__").get("__file__")  # loads no module that is loaded at its first use
        if isinstance(file, str) and os.path.realpath(file).startswith(places):
            names.append(name)
    part = "%s.modules.%d" % (path, os.getpid())
    try:
        with open(part, "w") as f:
            json.dump(names[:_NAMES], f)
        os.replace(part, path + ".modules")
    except OSError:
        pass


def _remembered() -> list[str]:
    """Returns the names that a process of this allocation wrote last. Returns no names if there is no file, or if
    it cannot be read."""
    path = os.environ.get(STEP_FILE)
    if not path:
        return []
    try:
        files = glob.glob(os.path.join(glob.escape(os.path.dirname(path)), "*.modules"))
        newest = max(files, key=os.path.getmtime)
        with open(newest) as f:
            names = json.loads(f.read(_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(names, list):
        return []
    return [name for name in names[:_NAMES] if isinstance(name, str) and all(part.isidentifier() for part in name.split("."))]


def repeat() -> None:
    """Imports the modules that PyTorch imports late, and those that earlier processes had imported by their
    first step.

    An import that fails is ignored: either the script does not need the module, or it fails there itself.
    """
    places = _places()
    for name in (*_LATE, *_remembered()):
        if name in sys.modules:
            continue
        try:
            spec = importlib.util.find_spec(name)  # imports the packages around it
            if name in _LATE or spec is not None and spec.origin and os.path.realpath(spec.origin).startswith(places):
                importlib.import_module(name)
        except (Exception, SystemExit):
            pass
