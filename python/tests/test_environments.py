# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The variables by which TensorFlow and JAX find their processes, tested with PyTorch's own store server."""

import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

import torch.distributed as dist

from kolo.store import Store

from .agent import ROOT

SCRIPT = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ.get("TF_CONFIG"), os.environ.get("JAX_COORDINATOR_ADDRESS"), "torch" in sys.modules]))
"""


class Environments(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.script = os.path.join(directory.name, "script.py")
        with open(self.script, "w") as file:
            file.write(SCRIPT)

    def start(self, *args, **variables):
        return subprocess.Popen([sys.executable, "-m", "kolo.launch", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": ROOT, **variables})

    def agent(self, server):
        return {"TORCHELASTIC_USE_AGENT_STORE": "True", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(server.port), "GROUP_WORLD_SIZE": "1"}

    def printed(self, process):
        out, err = process.communicate()
        self.assertEqual(0, process.returncode, err)
        return json.loads(out)

    def server(self):
        return dist.TCPStore("127.0.0.1", 0, None, True, use_libuv=False, wait_for_workers=False)

    def member(self, server, kind, rank, size, **variables):
        return self.start("--environment", kind, self.script, "--lr", "1", RANK=str(rank), WORLD_SIZE=str(size), **self.agent(server), **variables)

    def world(self, kind, size):
        server = self.server()
        processes = [self.member(server, kind, rank, size) for rank in range(size)]
        return [self.printed(process) for process in processes]

    def test_tensorflow(self):
        worlds = self.world("tensorflow", 3)
        configs = [json.loads(config) for _, config, _, _ in worlds]
        self.assertEqual([{"type": "worker", "index": rank} for rank in range(3)], [config["task"] for config in configs])
        (workers,) = {tuple(config["cluster"]["worker"]) for config in configs}
        self.assertEqual(3, len(set(workers)))
        for address in workers:
            self.assertRegex(address, r"^127\.0\.0\.1:\d+$")
        self.assertEqual([[["--lr", "1"], None, False]] * 3, [[args, coordinator, torch] for args, _, coordinator, torch in worlds])

    def test_jax(self):
        (coordinators,) = {tuple(entry[2] for entry in self.world("jax", 2))}
        self.assertEqual(1, len(set(coordinators)))
        self.assertRegex(coordinators[0], r"^127\.0\.0\.1:\d+$")

    def test_torchrun_starts_the_processes_again(self):
        """Its store has the addresses of the last attempt, which are not used."""
        server = self.server()
        for attempt in "0", "1":
            first = self.member(server, "tensorflow", 0, 2, TORCHELASTIC_RESTART_COUNT=attempt)
            while first.poll() is None and not server.check(["kolo/address/%s/0" % attempt]):
                pass
            second = self.member(server, "tensorflow", 1, 2, TORCHELASTIC_RESTART_COUNT=attempt)
            one, other = (json.loads(self.printed(process)[1])["cluster"] for process in (first, second))
            self.assertEqual(one, other)

    def test_without_an_agent(self):
        process = self.start("--environment=tensorflow", self.script, TORCHELASTIC_USE_AGENT_STORE="")
        self.assertEqual([[], None, None, False], self.printed(process))

    def test_wrong_arguments(self):
        for args in ("--environment", "caffe", "x.py"), ("--environments=jax", "x.py"), ("--environment",):
            process = self.start(*args)
            _, err = process.communicate()
            self.assertEqual(1, process.returncode)
            self.assertIn("usage: python3 -m kolo.launch [--environment", err)

    def test_a_store_that_ends(self):
        server = self.server()
        process = self.start("--environment", "jax", self.script, RANK="0", WORLD_SIZE="2", **self.agent(server))
        while not server.check(["kolo/address/0/0"]):
            pass
        del server
        _, err = process.communicate()
        self.assertEqual(1, process.returncode)
        self.assertIn("OSError", err)

    def test_answers_that_are_none(self):
        """A server that uses another protocol is not mistaken for one that has a value."""
        for answer in b"\x00" + struct.pack("<q", -1), b"\x01", b"\x00" + struct.pack("<q", 9) + b"short":
            with self.subTest(answer=answer), socket.create_server(("127.0.0.1", 0)) as server:
                store = Store("127.0.0.1", server.getsockname()[1])
                accepted, _ = server.accept()
                with accepted, store:
                    accepted.sendall(answer)
                    accepted.shutdown(socket.SHUT_WR)
                    with self.assertRaises(OSError):
                        store.get("key")


if __name__ == "__main__":
    unittest.main()
