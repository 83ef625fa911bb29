# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Runs the training script, and kills or freezes itself while a group of TEST_SIZE forms.

TEST_MOMENT=get:2 does so at the second get on the store, and so on. With TEST_TRICKLE, newcomers
receive the state so slowly that they do not have it before the others end.
"""

import os
import runpy
import signal
import sys

import torch.distributed as dist

import kolo.torch.group.forming as forming
from kolo.torch.background import pace

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "e2e", "train", "torch_train.py")


class Store(dist.Store):
    """Counts operations, and kills or freezes the process at one of them."""

    def __init__(self, store, moment):
        super().__init__()
        self.store = store
        self.name, _, number = moment.partition(":")
        self.left = int(number)

    def strike(self, name):
        if os.environ.get("TEST_TRACE"):
            print("store: " + name, flush=True)
        if name == self.name:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), getattr(signal, os.environ.get("TEST_SIGNAL", "SIGKILL")))

    def set(self, key, value):
        self.strike("set")
        self.store.set(key, value)
        self.strike("was-set")

    def get(self, key):
        self.strike("get")
        return self.store.get(key)

    def check(self, keys):
        return self.store.check(keys)

    def compare_set(self, key, expected, desired):
        return self.store.compare_set(key, expected, desired)

    def delete_key(self, key):
        return self.store.delete_key(key)

    def multi_get(self, keys):
        self.strike("multi_get")
        return self.store.multi_get(keys)

    def add(self, key, value):
        return self.store.add(key, value)

    def wait(self, keys, timeout=None):
        self.strike("wait")
        self.store.wait(keys, timeout) if timeout else self.store.wait(keys)
        self.strike("waited")

    def set_timeout(self, timeout):
        self.store.set_timeout(timeout)


def faulty(timeout):
    stores.append(Store(connect(timeout), os.environ.get("TEST_MOMENT", "never:1")))
    return stores[-1]


if os.environ.get("TEST_TRICKLE"):
    pace.Pace.room = lambda *_: 1000
connect = forming._connect
stores = []  # the Python halves of the stores, which C++ does not keep
forming._connect = faulty
sys.argv[0] = SCRIPT
sys.path.insert(0, os.path.dirname(SCRIPT))
runpy.run_path(SCRIPT, run_name="__main__")
