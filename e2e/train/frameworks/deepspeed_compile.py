# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Compiles the extensions that DeepSpeed needs on CPUs, into TORCH_EXTENSIONS_DIR, unless they are there already.

Otherwise DeepSpeed would compile them when a script starts, and the training would wait.
"""

from deepspeed.comm.torch import build_shm_op

build_shm_op()
