# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A process connects to the store before its next group forms."""

import os
import socket
import threading
import unittest
from datetime import timedelta
from unittest import mock

import torch.distributed as dist

from kolo.torch.group import forming

from .agent import Agent

TIMEOUT = timedelta(seconds=60)


class Connecting(unittest.TestCase):
    def setUp(self):
        self.server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=False)
        environment = mock.patch.dict(os.environ, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.server.port)})
        environment.start()
        self.addCleanup(environment.stop)

    def test_a_group_gets_the_store_with_its_sockets(self):
        """The store's sockets are shut down when the group is given up, but not those of other threads."""
        connect, go = forming._connect, threading.Event()

        def slow(timeout):
            go.wait()
            return connect(timeout)

        with mock.patch.object(forming, "_connect", slow):
            connecting = forming.Connecting(TIMEOUT)
            with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()):
                self.assertFalse(connecting.spent)
                go.set()
                store, sockets = connecting.take()
        self.assertTrue(connecting.spent)
        store.set("a", "b")
        self.assertEqual([self.server.port], [ends[1][1] for ends in sockets.values()])

    def test_that_there_is_no_store_is_said_where_it_is_needed(self):
        with mock.patch.object(forming, "_connect", side_effect=RuntimeError("no store")):
            connecting = forming.Connecting(TIMEOUT)
            connecting.join()
            self.assertFalse(connecting.spent)
            with self.assertRaisesRegex(RuntimeError, "no store"):
                connecting.take()
        self.assertTrue(connecting.spent)


class Ahead(unittest.TestCase):
    def test_a_process_is_connected_before_others_wait_for_it(self):
        """Connecting may take seconds, because PyTorch first asks a name server."""
        agent = Agent("--epochs", "1")
        self.addCleanup(agent.close)
        workers = agent.start(2)
        agent.arrived(workers)
        for worker in workers:
            self.assertEqual(1, connections(worker.process.pid, agent.store.port))
        agent.go()
        agent.formed(2)
        for worker in workers:  # that of the group, and one for the next
            agent.until(lambda: connections(worker.process.pid, agent.store.port) == 2 or worker.process.poll() is not None)


def connections(pid, port):
    """Returns how many TCP connections a process has to a port of this machine."""
    inodes = set()
    for name in os.listdir("/proc/%d/fd" % pid):
        try:
            inodes.add(os.readlink("/proc/%d/fd/%s" % (pid, name)))
        except OSError:
            pass  # it was closed meanwhile
    count = 0
    for table in "tcp", "tcp6":
        with open("/proc/%d/net/%s" % (pid, table)) as lines:
            for fields in (line.split() for line in list(lines)[1:]):
                count += fields[2].endswith(":%04X" % port) and "socket:[%s]" % fields[9] in inodes
    return count


if __name__ == "__main__":
    unittest.main()
