# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Where RNG was first: pickles that scripts have written name it by this module."""

from __future__ import annotations

from .state.handlers import RNG

__all__ = ["RNG"]
