# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The former module of RNG. Pickles that scripts have written refer to RNG by this name."""

from __future__ import annotations

from .state.handlers import RNG

__all__ = ["RNG"]
