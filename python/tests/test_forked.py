# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Processes of the tests that are forked; see launch."""

import multiprocessing
import os
import tempfile
import unittest

from .launch import Forked

SHOWS = """
import multiprocessing
import torch
print(torch.get_num_threads(), multiprocessing.get_start_method())
"""


class Environment(unittest.TestCase):
    def test_is_that_of_a_process_of_its_own(self):
        """If there are more processes than cores, the threads in each process wait for each other most of the time."""
        with tempfile.TemporaryDirectory() as directory:
            script, output = os.path.join(directory, "script.py"), os.path.join(directory, "output")
            with open(script, "w") as file:
                file.write(SHOWS)
            for threads in "1", "3":
                process = Forked([script], {**os.environ, "OMP_NUM_THREADS": threads}, output)
                process.wait()
                self.assertEqual(0, process.returncode)
                process.close()
            method = multiprocessing.get_start_method()
            with open(output) as file:
                self.assertEqual(["1 " + method, "3 " + method], file.read().splitlines())
