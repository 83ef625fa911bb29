# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The same script without Kolo: with plain python, and under torchrun."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

from .agent import ROOT, SCRIPT


def run(*command, **environment):
    """Runs the script; returns its exit status and records."""
    with tempfile.TemporaryDirectory() as directory:
        env = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
        env.update(PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", **environment)
        arguments = ["--epochs", "1", "--samples", "240", "--step-time", "0.001", "--records", directory]
        ended = subprocess.run([sys.executable, *command, SCRIPT, *arguments], env=env, capture_output=True, text=True, timeout=100)
        records = []
        for name in os.listdir(directory):
            with open(os.path.join(directory, name)) as file:
                records.extend(json.loads(line) for line in file)
        return ended, records


class Alone(unittest.TestCase):
    def test_plain_python(self):
        with tempfile.NamedTemporaryFile("r") as progress:
            ended, records = run(KOLO_PROGRESS_FILE=progress.name)
            reports = [json.loads(line) for line in progress]
        self.assertEqual(0, ended.returncode, ended.stderr)
        done, = (record for record in records if record["kolo"] == "done")
        self.assertEqual((20, 240, 1), (done["step"], done["samples"], done["size"]))
        self.assertEqual((20, 240, 20), tuple(reports[-1][name] for name in ("step", "samples", "total_steps")))

    def test_torchrun(self):
        with tempfile.TemporaryDirectory() as directory:
            # A file and two variables, because Debian's build of torch, without libuv, has no other way to torchrun.
            ended, records = run("-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                                 "--rdzv-endpoint", os.path.join(directory, "store"), "--rdzv-conf", "store_type=file",
                                 TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1", USE_LIBUV="0")
        self.assertEqual(0, ended.returncode, ended.stderr)
        done = [record for record in records if record["kolo"] == "done"]
        self.assertEqual([(10, 240, 2)] * 2, [(record["step"], record["samples"], record["size"]) for record in done])
        self.assertEqual(1, len({record["sum"] for record in done}))
        used = sorted(index for record in records if record["kolo"] == "step" for index in record["indices"])
        self.assertEqual(list(range(240)), used)


if __name__ == "__main__":
    unittest.main()
