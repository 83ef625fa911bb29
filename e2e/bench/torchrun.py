# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Starts torchrun with a torch that was built without libuv, such as Debian's: its rendezvous fails with the
store's default.
"""

import torch.distributed as dist
from torch.distributed import run
from torch.distributed.elastic.rendezvous import c10d_rendezvous_backend


class Store(dist.TCPStore):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, use_libuv=False, **kwargs)


dist.TCPStore = c10d_rendezvous_backend.TCPStore = Store
run.main()
