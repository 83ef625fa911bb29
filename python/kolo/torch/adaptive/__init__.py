# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Batch sizes that adapt to the gradient noise and to the number of ranks. Experimental.

    gradients --> measure --> Noise --+--> choose --> AdaptiveBatch --> size of the next steps
    step times ------------> Times ---+
"""
