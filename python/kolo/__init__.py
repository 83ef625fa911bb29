# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with Kolo.

kolo.torch is for scripts that train with PyTorch. kolo.worker is the client of
the worker protocol, which every framework can use; it requires nothing but the
standard library. ready() is for scripts for torchrun.
"""

from .hold import ready

__all__ = ["ready"]
__version__ = "0.1.0"
