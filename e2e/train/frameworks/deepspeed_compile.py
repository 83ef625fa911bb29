# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Compiles what DeepSpeed needs on CPUs, into TORCH_EXTENSIONS_DIR. Does nothing where it has been compiled.

DeepSpeed does so when a script starts; done before, no training waits for it.
"""

from deepspeed.comm.torch import build_shm_op

build_shm_op()
