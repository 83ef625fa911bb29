# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Processes of the tests that are forked: see launch."""

import os
import tempfile
import unittest

from .launch import Forked

THREADS = """
import torch
print(torch.get_num_threads())
"""


class Threads(unittest.TestCase):
    def test_as_many_as_the_environment_states(self):
        """More than one thread in each process wait for each other most of the time, where there are more processes than cores."""
        with tempfile.TemporaryDirectory() as directory:
            script, output = os.path.join(directory, "script.py"), os.path.join(directory, "output")
            with open(script, "w") as file:
                file.write(THREADS)
            for threads in "1", "3":
                process = Forked([script], {**os.environ, "OMP_NUM_THREADS": threads}, output)
                process.wait()
                self.assertEqual(0, process.returncode)
                process.close()
            with open(output) as file:
                self.assertEqual(["1", "3"], file.read().split())
