# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""gloo's fault on purpose: a member dies in the middle of a message, and others never leave the broken group."""

import os
import signal
import time
import unittest

from .agent import HERE
from .hangs import IDLE, Watch
from .test_group import Training, stopped


class Hangs(Training):
    def test_killed_in_the_middle_of_a_message(self):
        """Who sends to the one that dies hangs, and is started again; the third keeps the state."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        agent.start(2, TEST_SCRIPT="messages")
        for strike in range(1, 4):
            victim, = agent.start(1, TEST_SCRIPT="messages", TEST_STOP="3")
            agent.arrived([victim])
            agent.go()
            agent.formed(3)
            agent.until(lambda: stopped(victim), what="it stops")
            time.sleep(0.5)  # the sender sends until it takes no more
            at = agent.kill(victim)
            agent.until(lambda: agent.hung == strike, what="the sender is started again")
            self.note("started again after %.1f s", time.time() - at)
            agent.formed(2)
            agent.stepped(2)

    def test_killed_at_any_time(self):
        agent = self.agent("--epochs", "1000", "--samples", "14400", "--ballast", "50")
        agent.grow(3, KOLO_TORCH_BACKGROUND="0")
        for _ in range(5):
            agent.formed(3)
            agent.stepped(2)
            agent.kill(agent.members[-1])
            agent.formed(2)
            agent.stepped(1)
            agent.grow(1, KOLO_TORCH_BACKGROUND="0")
        agent.formed(3)
        agent.stepped(1)
        steps = self.accepted(agent.entries())
        self.assertEqual(list(range(1, max(steps) + 1)), sorted(steps), agent.report())


class Watched(unittest.TestCase):
    def watch(self, function):
        """Whether a process that does something counts as one that hangs."""
        pid = os.fork()
        if not pid:
            function()
            os._exit(0)
        try:
            watch, end = Watch(pid), time.monotonic() + 2 * IDLE
            while time.monotonic() < end and not watch.hangs():
                time.sleep(0.05)
            return watch.hangs()
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def test_waits(self):
        self.assertTrue(self.watch(signal.pause))

    def test_computes(self):
        self.assertFalse(self.watch(spin))

    def test_is_stopped(self):
        self.assertFalse(self.watch(lambda: os.kill(os.getpid(), signal.SIGSTOP)))


def spin():
    while True:
        pass


if __name__ == "__main__":
    unittest.main()
