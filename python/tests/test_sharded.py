# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sharded parameters in groups that change."""

import os
import shutil
import tempfile

from .test_group import HERE, Training


class Sharded(Training):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="kolo-shards-", dir="/dev/shm")
        self.addCleanup(self.directory.cleanup)

    def start(self, agent, count, **environment):
        workers = agent.start(count, TEST_SCRIPT="sharded", TEST_SHARDS=self.directory.name, **environment)
        agent.arrived(workers)
        return workers

    def unchanged(self, **environment):
        """The full state at the end of a training in one process."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        self.start(agent, 1, TEST_SLEEP="0", **environment)
        agent.go()
        self.assertEqual([0], agent.complete(), agent.report())
        return agent.digests()[40]

    def test_changes(self):
        """2 -> 3 -> 1 -> 2 ranks. Model and optimizer equal those of a training without a change."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = self.start(agent, 4, TEST_SLEEP="0.1")
        agent.go(*workers[:2])
        agent.formed(2)
        agent.stepped(3)
        agent.go(workers[2])
        agent.formed(3)
        agent.stepped(3)
        agent.shrink([workers[0], workers[2]])
        agent.formed(1)
        agent.stepped(3)
        agent.go(workers[3])
        agent.formed(2)
        agent.complete()
        self.assertEqual([0, 0], [workers[n].process.returncode for n in (1, 3)], agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())
        self.assertEqual(5, len(digests), agent.report())
        self.assertEqual(self.unchanged(), digests[40])
        for run in os.listdir(self.directory.name):
            self.assertLessEqual(len(os.listdir(os.path.join(self.directory.name, run))), 2)

    def test_killed(self):
        """A rank is killed, and then rank 0. Only steps after the last commit are lost."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = self.start(agent, 3, TEST_SLEEP="0.1")
        agent.go()
        agent.formed(3)
        agent.stepped(4)
        agent.kill(workers[1])
        agent.formed(2)
        agent.stepped(4)
        agent.kill(workers[0])
        agent.formed(1)
        agent.complete()
        self.assertEqual(0, workers[2].process.returncode, agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())
        self.assertEqual(self.unchanged(), digests[40])

    def test_fsdp(self):
        """FSDP2 averages gradients, so rounding depends on the number of ranks."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = self.start(agent, 3, TEST_MODEL="fsdp_of", TEST_SLEEP="0.1")
        agent.go(workers[0])
        agent.formed(1)
        agent.stepped(3)
        agent.go()
        agent.formed(3)
        agent.stepped(3)
        agent.kill(workers[1])
        agent.formed(2)
        agent.complete()
        self.assertEqual([0, 0], [workers[n].process.returncode for n in (0, 2)], agent.report())
        digests = agent.digests()
        self.assertEqual([1] * 4, [len(values) for values in digests.values()], agent.report())
        (_, total), = digests[40]
        (_, expected), = self.unchanged(TEST_MODEL="fsdp_of")
        self.assertAlmostEqual(expected, total, delta=1e-3)

    def test_checkpoint(self):
        """A training goes on from a checkpoint with another number of ranks, and in another directory."""
        path = os.path.join(self.directory.name, "checkpoint.pt")
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        self.start(agent, 2, TEST_CHECKPOINT=path, TEST_STEPS="12")
        agent.go()
        self.assertEqual([0, 0], agent.complete(), agent.report())
        self.assertEqual(1, len(os.listdir(path + ".shards")))
        for run in os.listdir(self.directory.name):
            if run.startswith("kolo-"):
                shutil.rmtree(os.path.join(self.directory.name, run))
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        self.start(agent, 3, TEST_CHECKPOINT=path)
        agent.go()
        self.assertEqual([0] * 3, agent.complete(), agent.report())
        digests = agent.digests()
        self.assertEqual({9, 40}, set(digests), agent.report())
        self.assertEqual(self.unchanged(), digests[40])


if __name__ == "__main__":
    import unittest
    unittest.main()
