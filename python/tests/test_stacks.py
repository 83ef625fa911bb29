# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

import os
import subprocess
import sys
import tempfile
import time
import unittest

from kolo import stacks

SCRIPT = """
import os, sys, time
import kolo

def hang():
    if os.fork() == 0:
        sys.stdout.close()
    time.sleep(60)

print("ready", flush=True)
hang()
"""


class TestStacks(unittest.TestCase):
    def run_with(self, file):
        """Runs the script with a file for its stacks, and returns the process once it runs."""
        process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, start_new_session=True,
                                   env={**os.environ, stacks.FILE: file})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(os.killpg, process.pid, 9)
        self.assertEqual(b"ready\n", process.stdout.readline())
        return process

    def test_answers(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "stacks")
            process = self.run_with(file)
            text = ""
            while "in hang" not in text:
                os.kill(process.pid, stacks.SIGNAL)
                time.sleep(0.02)
                with open(file) as written:
                    text = written.read()
            self.assertIn("Current thread 0x", text)
            self.assertIsNone(process.poll())

    def test_ignores_a_file_that_it_cannot_write(self):
        with tempfile.TemporaryDirectory() as directory:
            link = os.path.join(directory, "link")
            os.symlink(os.path.join(directory, "elsewhere"), link)
            self.run_with(link)
            self.run_with(os.path.join(directory, "missing", "stacks"))
            self.assertFalse(os.path.exists(os.path.join(directory, "elsewhere")))

    def test_without_an_agent(self):
        script = "import kolo; print([line for line in open('/proc/self/status') if line.startswith('SigCgt')][0])"
        environment = {name: value for name, value in os.environ.items() if name != stacks.FILE}
        out = subprocess.run([sys.executable, "-c", script], env=environment, stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(0, int(out.split()[1], 16) >> stacks.SIGNAL - 1 & 1)
