# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

import glob
import os
import subprocess
import sys
import tempfile
import threading
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

    def pipe(self, process):
        """Returns the pipe of the thread that writes the stacks of a process, or None before the thread runs."""
        for comm in glob.glob("/proc/%d/task/*/comm" % process.pid):
            with open(comm) as opened:
                name = opened.read().strip()
            if name.startswith(stacks.THREAD):
                return "/proc/%d/fd/%s" % (process.pid, name[len(stacks.THREAD):])
        return None

    def test_the_thread_answers(self):
        with tempfile.TemporaryDirectory() as directory:
            file = os.path.join(directory, "stacks")
            process = self.run_with(file)
            while not (pipe := self.pipe(process)):
                time.sleep(0.02)
            for _ in range(3):
                os.truncate(file, 0)
                with open(pipe, "wb") as requests:
                    requests.write(b"x")
                text = ""
                while not text.endswith("\n\n"):
                    time.sleep(0.02)
                    with open(file) as written:
                        text = written.read()
            thread, call, script = text.splitlines()[:3]
            self.assertRegex(thread, r"^Current thread 0x[0-9a-f]{16} \[MainThread\] \(most recent call first\):$")
            self.assertEqual('  File "<string>", line 8 in hang', call)
            self.assertEqual('  File "<string>", line 11 in <module>', script)
            self.assertNotIn("_answer", text, "its own stack is of no use")
            self.assertIsNone(process.poll())

    def test_the_limits_are_those_of_faulthandler(self):
        def deep(left):
            return deep(left - 1) if left else "".join(stacks._stacks())

        done, results = threading.Event(), []
        waiting = [threading.Thread(target=done.wait) for _ in range(stacks.MOST_THREADS + 5)]
        for thread in waiting:
            thread.start()
        try:
            caller = threading.Thread(target=lambda: results.append(deep(3 * stacks.MOST_FRAMES)))
            caller.start()
            caller.join()
        finally:
            done.set()
            for thread in waiting:
                thread.join()
        text = results[0]
        self.assertEqual(stacks.MOST_THREADS, text.count("(most recent call first):\n"))
        self.assertEqual(1, text.count("Current thread"))
        self.assertNotIn(" in deep\n", text)

        holder = threading.Thread(target=lambda: wait_deep(3 * stacks.MOST_FRAMES))
        entered, leave = threading.Event(), threading.Event()

        def wait_deep(left):
            if left:
                return wait_deep(left - 1)
            entered.set()
            return leave.wait()

        holder.start()
        entered.wait()
        text = "".join(stacks._stacks())
        leave.set()
        holder.join()
        self.assertIn(" in wait_deep\n  ...\n", text)
        self.assertLessEqual(text.count(" in wait_deep\n"), stacks.MOST_FRAMES)

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
