# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with Kolo.

kolo.torch is for scripts that train with PyTorch, and ready() for scripts for
torchrun. kolo.worker is the client of the worker protocol for any framework,
and imports only the standard library.
"""

from . import stacks
from .hold import ready

__all__ = ["ready"]
__version__ = "0.1.0"

stacks.register()  # as early as possible, because a script may hang before it trains
