# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Starts a script for torchrun where PyTorch was built without libuv, or one of TensorFlow or JAX.

    python3 -m kolo.launch train.py --epochs 3
    python3 -m kolo.launch -m package.train --epochs 3
    python3 -m kolo.launch --environment tensorflow train.py

The script runs as ``__main__``, with ``sys.argv`` and ``sys.path`` as python itself
would set them. ``init_process_group`` with ``env://`` asks for a store client with
libuv, and raises a ``RuntimeError`` in builds without it. This module makes it ask for
a client without libuv, which works with the agent's store: the protocol is the same.

Scripts also lose less time to a change, in builds with libuv, too:

- A process of the next group waits in ``init_process_group`` while the current
  group trains. Before that, it imports modules that PyTorch otherwise imports
  with the first optimizer, and installed modules that the current processes of this
  host had imported by their first step; see kolo.imports.
- A script that has ended does not wait for Python to free PyTorch's objects.

With --environment, the process imports that framework and waits before the script
begins, and the script finds the framework's variables; see kolo.environments.

Rank 0 touches the file KOLO_STEP_FILE after each step of an optimizer. This shows the
agent for how long a change stopped training, even if the script reports no progress.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import threading
from types import ModuleType
from typing import Any, Sequence

from . import environments, imports
from .imports import STEP_FILE

_RENDEZVOUS = "torch.distributed.rendezvous"

# Positions of TCPStore's arguments.
_IS_MASTER, _USE_LIBUV = 3, 8

_USAGE = "usage: python3 -m kolo.launch [--environment torch|tensorflow|jax] [-m module | script.py] [arguments]"


def _touch(*_: Any) -> None:
    """Touches the step file, which shows the agent that a step was made. Ignores errors."""
    path = os.environ[STEP_FILE]
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))
        os.utime(path)
    except OSError:
        pass


_once = functools.lru_cache(maxsize=None)(imports.remember)


def _remember(*_: Any) -> None:
    """Remembers the imports after the first step. PyTorch does not let a hook remove itself."""
    _once()


def _show_steps() -> None:
    """Makes PyTorch's optimizers touch the step file after each step on rank 0, and write the names of
    modules after the first step on all ranks."""
    if not os.environ.get(STEP_FILE):
        return
    try:
        optimizer = importlib.import_module("torch.optim.optimizer")
    except Exception:  # the script fails itself, or does not need it
        return
    hooks = getattr(optimizer, "_global_optimizer_post_hooks", {})
    if os.environ.get("RANK") == "0" and _touch not in hooks.values():
        optimizer.register_optimizer_step_post_hook(_touch)

    if _remember not in hooks.values():
        optimizer.register_optimizer_step_post_hook(_remember)


def _without_libuv(rendezvous: ModuleType) -> None:
    """Replaces the module's TCPStore, so that its store clients do without libuv."""
    store = getattr(rendezvous, "TCPStore", None)
    if store is None:  # built without torch.distributed
        return

    class TCPStore(store):  # type: ignore[misc, valid-type]
        """A TCPStore whose clients do without libuv. Servers are not changed."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            serves = kwargs.get("is_master", args[_IS_MASTER] if len(args) > _IS_MASTER else False)
            if not serves:
                imports.repeat()
                _show_steps()
            if not serves and "use_libuv" not in kwargs and len(args) <= _USE_LIBUV:
                try:
                    super().__init__(*args, use_libuv=False, **kwargs)
                    return
                except TypeError:  # a release without libuv
                    pass
            super().__init__(*args, **kwargs)

    rendezvous.TCPStore = TCPStore  # type: ignore[attr-defined]


class _Loader(importlib.abc.Loader):
    """Loads the module with another loader, and then changes it."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _without_libuv(module)

    def __getattr__(self, name: str) -> Any:  # for get_source and others
        return getattr(self._loader, name)


class _Finder(importlib.abc.MetaPathFinder):
    """An import finder that finds only the rendezvous module, and only once."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _RENDEZVOUS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Registers an import hook: once PyTorch's rendezvous module is imported, ``env://`` uses a store client without libuv."""
    loaded = sys.modules.get(_RENDEZVOUS)
    if loaded is not None:
        _without_libuv(loaded)
    else:
        sys.meta_path.insert(0, _Finder())


def main(argv: Sequence[str]) -> None:
    """Runs the module or script that the arguments name."""
    args = list(argv)
    environment = "torch"
    if args[:1] and args[0].startswith("--environment"):
        name, _, environment = args.pop(0).partition("=")
        if name == "--environment" and not environment and args:
            environment = args.pop(0)
        if name != "--environment" or environment not in ("torch", *environments.KINDS):
            sys.exit(_USAGE)
    module = args[:1] == ["-m"]
    if module:
        del args[0]
    if not args or args[0].startswith("-"):
        sys.exit(_USAGE)
    if environment == "torch":
        install()
    else:
        environments.enter(environment)
    sys.argv[:] = args
    status = 0
    try:
        if module:
            # As with python -m, the working directory is in sys.path already.
            runpy.run_module(args[0], run_name="__main__", alter_sys=True)
        else:
            if not getattr(sys.flags, "safe_path", False):  # since Python 3.11
                sys.path[0] = os.path.dirname(os.path.realpath(args[0]))
            runpy.run_path(args[0], run_name="__main__")
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            raise
        status = end.code or 0
    _end(status)


def _end(status: int) -> None:
    """Ends the process as Python does, but without freeing its objects."""
    threading._shutdown()  # type: ignore[attr-defined] # waits for threads
    atexit._run_exitfuncs()
    # Freeing a file would write what its buffer has. A text file comes first, because it writes into a binary one.
    files = [one for one in gc.get_objects() if type(one) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)]
    files.sort(key=lambda file: type(file) is not io.TextIOWrapper)
    for stream in (*files, sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):  # no one reads it
            pass
    os._exit(status & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
