# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training in process for frameworks built on PyTorch. Each module imports its framework; import the one you need."""
