# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The sending thread may hang forever, but the process goes on."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

import torch

from kolo.torch.background.outbox import Outbox
from kolo.torch.group.group import GroupFailed

# One process sends to another, which stops when it has received a part of the message, and is killed.
STUCK = """
import os, signal, sys, threading
from datetime import timedelta
import torch
import torch.distributed as dist
from kolo.torch.background.channel import Channel
from kolo.torch.group.group import PendingGroup, GroupFailed
from kolo.torch.background.outbox import Outbox
from kolo.torch.group.roles import Roles
from kolo.worker import Place
from tests import hangs

peer, timeout = os.fork(), timedelta(minutes=30)
rank = int(peer == 0)
control = dist.ProcessGroupGloo(dist.FileStore(sys.argv[1], 2), rank, 2, timeout=timeout)
channel = Channel(PendingGroup(Place(1, rank, 2), Roles((0,), (1,)), None, control, timeout))
if rank:
    channel.receive()
    works = [control.recv([torch.empty(1_000_000)], 0, 1) for _ in range(10)]
    os.kill(os.getpid(), signal.SIGSTOP)
outbox = Outbox(channel)
outbox.post(("slices",))
outbox.settle()
os.waitid(os.P_PID, peer, os.WSTOPPED | os.WNOWAIT)
outbox.post(("slices",), [torch.zeros(10_000_000)])
hangs.blocked(os.getpid())
os.kill(peer, signal.SIGKILL)
os.waitpid(peer, 0)
threading.Timer(1, outbox.abandon).start()
try:
    outbox.settle()
except GroupFailed as err:
    print(err)
outbox.close()
print([thread.name for thread in threading.enumerate()].count("kolo-send"), "hangs")
del channel, control, outbox
print("left", flush=True)
"""


class Silent:
    """A channel in which sending never ends."""

    generation = 7

    def __init__(self):
        self.sending = threading.Event()

    def send(self, tree, tensors=()):
        self.sending.set()
        threading.Event().wait()


class Abandoned(unittest.TestCase):
    def setUp(self):
        self.channel = Silent()
        self.outbox = Outbox(self.channel)

    def abandon(self, seconds):
        timer = threading.Timer(seconds, self.outbox.abandon)
        timer.start()
        self.addCleanup(timer.join)

    def test_settle_ends(self):
        self.outbox.post(("step",), [torch.zeros(4)])
        self.assertTrue(self.channel.sending.wait(60))
        self.abandon(0.2)
        with self.assertRaisesRegex(GroupFailed, "group 7 has lost a member"):
            self.outbox.settle()
        with self.assertRaises(GroupFailed):
            self.outbox.post(("step",))
        self.outbox.close()

    def test_call_ends(self):
        self.abandon(0.2)
        with self.assertRaises(GroupFailed):
            self.outbox.call(threading.Event().wait)

    def test_call(self):
        self.assertEqual(42, self.outbox.call(lambda: 42))
        with self.assertRaises(ZeroDivisionError):
            self.outbox.call(lambda: 1 // 0)

    def test_the_first_error_counts(self):
        with self.assertRaises(ZeroDivisionError):
            self.outbox.call(lambda: 1 // 0)
        self.outbox.abandon()
        with self.assertRaises(ZeroDivisionError):
            self.outbox.settle()

    def test_the_process_ends(self):
        """A process that has left the group ends without waiting for the thread."""
        with tempfile.TemporaryDirectory() as directory:
            result = subprocess.run([sys.executable, "-W", "ignore", "-c", STUCK, os.path.join(directory, "store")],
                                    stdout=subprocess.PIPE, text=True, timeout=300)
        self.assertEqual("group 1 has lost a member\n1 hangs\nleft\n", result.stdout)
        self.assertEqual(0, result.returncode)


if __name__ == "__main__":
    unittest.main()
