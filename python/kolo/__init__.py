# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with Kolo.

kolo.torch is for scripts that train with PyTorch. kolo.worker is the client of
the worker protocol, which every framework can use; it requires nothing but the
standard library.
"""

__version__ = "0.1.0"
