# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Provokes a fault of gloo: a member dies in the middle of a message, and others never leave the broken group."""

import os
import signal
import time
import unittest

from . import hangs
from .agent import HERE
from .test_group import Training, stopped


class Hangs(Training):
    def test_killed_in_the_middle_of_a_message(self):
        """The member that sends to the killed one hangs and is restarted. The third member keeps the state."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        agent.arrived(agent.start(2, TEST_SCRIPT="messages"))
        for strike in range(1, 4):
            victim, = agent.up(1, TEST_SCRIPT="messages", TEST_STOP="3")
            agent.go()
            agent.formed(3)
            agent.until(lambda: stopped(victim), what="it stops")
            hangs.blocked(agent.members[0].process.pid)
            at = agent.kill(victim)
            agent.until(lambda: agent.hung == strike, what="the sender is started again")
            self.note("started again after %.1f s", time.time() - at)
            agent.formed(2)
            agent.stepped(2)

    def test_an_observer_is_killed_in_the_middle_of_a_message(self):
        """The only process that has the state sends to the observer. It continues without a restart."""
        agent = self.agent("--epochs", "1000", "--samples", "14400", "--ballast", "40", "--step-time", "0.03")
        sender, = agent.grow(1)
        for _ in range(3):
            agent.stepped()
            observer, = agent.up(1)
            agent.go()
            agent.formed(2)
            agent.stepped(2)
            observer.process.send_signal(signal.SIGSTOP)
            hangs.blocked(sender.process.pid)
            at = agent.kill(observer)
            agent.formed(1)
            self.note("%.3f s to the next step", agent.next_step(at) - at)
        self.assertEqual(0, agent.hung, agent.report())
        self.assertEqual(["start"] + ["commit", "failure"] * 3, sender.reasons)

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
    def start(self, function):
        """Starts a process that runs this code."""
        pid = os.fork()
        if not pid:
            function()
            os._exit(0)
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.kill, pid, signal.SIGKILL)
        return pid

    def hangs(self, pid, limit):
        """Whether a process is found to hang within a number of seconds."""
        watch, end = hangs.Watch(pid), time.monotonic() + limit
        while time.monotonic() < end and not watch.hangs():
            time.sleep(0.05)
        return watch.hangs()

    def test_waits(self):
        self.assertTrue(self.hangs(self.start(signal.pause), 20 * hangs.IDLE))

    def test_is_stopped(self):
        pid = self.start(lambda: os.kill(os.getpid(), signal.SIGSTOP))
        while not hangs.activity(pid)[1]:
            time.sleep(0.001)
        self.assertFalse(self.hangs(pid, 2 * hangs.IDLE))

    def test_computes(self):
        pid = self.start(spin)
        while hangs.activity(pid)[0] < 2 * hangs.USE:  # whenever that is
            time.sleep(0.01)


def spin():
    while True:
        pass


if __name__ == "__main__":
    unittest.main()
