# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The same script without Kolo: with plain python, and under torchrun."""

import json
import os
import random
import socket
import tempfile
import unittest

from .agent import ROOT, SCRIPT
from .launch import Forked


def start(directory, **environment):
    """Starts the script."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
    env.update(PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", **environment)
    command = [SCRIPT, "--epochs", "1", "--samples", "240", "--step-time", "0.001", "--records", directory]
    return Forked(command, env, os.path.join(directory, "log"))


def end(directory, *processes):
    """Waits for processes and returns their records. Fails with their log if one has failed."""
    for process in processes:
        process.wait()
    with open(os.path.join(directory, "log")) as file:
        log = file.read()
    assert not any(process.returncode for process in processes), log
    records = []
    for name in os.listdir(directory):
        if name.endswith(".jsonl"):
            with open(os.path.join(directory, name)) as file:
                records.extend(json.loads(line) for line in file)
    return records


def free_port():
    """Returns a free port, below the ports that the kernel uses for connections and Nomad for tasks."""
    while True:
        port = random.randint(10000, 19999)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass


class Alone(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_plain_python(self):
        progress = os.path.join(self.directory, "progress")
        records = end(self.directory, start(self.directory, KOLO_PROGRESS_FILE=progress))
        done, = (record for record in records if record["kolo"] == "done")
        self.assertEqual((20, 240, 1), (done["step"], done["samples"], done["size"]))
        with open(progress) as file:
            last = [json.loads(line) for line in file][-1]
        self.assertEqual((20, 240, 20), tuple(last[name] for name in ("step", "samples", "total_steps")))

    def test_torchrun(self):
        """With torchrun's environment. Rank 0 serves the store, because Debian's build of torch allows nothing else."""
        environment = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "USE_LIBUV": "0"}
        records = end(self.directory, *(start(self.directory, RANK=rank, LOCAL_RANK=rank, **environment) for rank in "01"))
        done = [record for record in records if record["kolo"] == "done"]
        self.assertEqual([(10, 240, 2)] * 2, [(record["step"], record["samples"], record["size"]) for record in done])
        self.assertEqual(1, len({record["sum"] for record in done}))
        used = sorted(index for record in records if record["kolo"] == "step" for index in record["indices"])
        self.assertEqual(list(range(240)), used)


if __name__ == "__main__":
    unittest.main()
