# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Sharded models in replicas that come and go."""

import os
import tempfile
import unittest

from kolo.torch.broadcast.replicas import common

from .test_group import HERE, Training


class Common(unittest.TestCase):
    """Checks from which commit members go on, given the last two commits of each. Replicas have two members."""

    def check(self, commit, *held):
        self.assertEqual(commit, common([last for last, _ in held], [before for _, before in held], 2))

    def test_first(self):
        self.check(-1, (-1, -1), (-1, -1))
        self.check(-1, (0, -1), (-1, -1))  # failed as it began

    def test_equal(self):
        self.check(7, (7, 6), (7, 6), (7, 6), (7, 6))

    def test_newcomers(self):
        self.check(7, (7, 6), (7, 6), (-1, -1), (3, 2))

    def test_failed_on_both_sides_of_a_commit(self):
        self.check(7, (7, 6), (6, 5), (6, 5), (7, 6))  # the parts of several replicas
        self.check(6, (7, 6), (6, 5), (7, 6), (6, 5))  # the second part is not there

    def test_lost(self):
        self.check(None, (7, 6), (-1, -1), (7, 6), (3, 2))
        self.check(None, (-2, -1), (-1, -1))


class HSDP(Training):
    def start(self, agent, count, **environment):
        workers = agent.start(count, **{"TEST_SCRIPT": "sharded", "TEST_SHARDS": "/nonexistent/kolo", **environment})
        agent.arrived(workers)
        return workers

    def unchanged(self, **environment):
        """The full state at the end of a training in one replica."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"), replica=2)
        self.start(agent, 2, TEST_SLEEP="0", **environment)
        agent.go()
        self.assertEqual([0, 0], agent.complete(), agent.report())
        return agent.digests()[40]

    def train(self, **environment):
        """1 replica -> 2 -> a member is killed -> 1 -> 2. Returns the full state by step. Checkpoints cannot be written."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"), replica=2)
        *workers, spare = self.start(agent, 5, TEST_SLEEP="0.1", **environment)
        agent.go(*workers[:2])
        agent.formed(2)
        agent.stepped(3)
        agent.go(*workers[2:4])
        agent.formed(4)
        agent.stepped(3)
        agent.kill(workers[1])
        agent.formed(2)
        agent.stepped(3)
        self.assertEqual(workers[2:4], agent.members)
        agent.go(spare)
        agent.formed(4)
        self.assertEqual([*workers[2:4], workers[0], spare], agent.members)
        agent.complete()
        self.assertEqual([0] * 4, [worker.process.returncode for worker in agent.members], agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())
        self.assertEqual(5, len(digests), agent.report())
        return digests

    def test_replicas(self):
        """Replicas come, fail and come back. Model and optimizer equal those of a training without a change."""
        self.assertEqual(self.unchanged(), self.train()[40])

    def test_members_change_their_places(self):
        """The remaining members of two replicas form one, and exchange parts, which have equal shapes."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"), replica=2)
        workers = self.start(agent, 6, TEST_ROWS="8", TEST_SLEEP="0.1")
        agent.go()
        agent.formed(6)
        agent.stepped(3)
        leaving = [agent.members[0], agent.members[3]]
        agent.shrink(leaving)
        agent.formed(4)
        agent.until(lambda: all(worker.process.poll() is not None for worker in workers), what="all end")
        self.assertEqual([0] * 4, [worker.process.returncode for worker in agent.members], agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())

    def test_fsdp(self):
        """The same with fully_shard. It averages gradients, so rounding depends on the number of ranks."""
        (_, total), = self.train(TEST_MODEL="fsdp_of")[40]
        (_, expected), = self.unchanged(TEST_MODEL="fsdp_of")
        self.assertAlmostEqual(expected, total, delta=1e-3)

    def test_checkpoint(self):
        """A checkpoint of replicas is read by another number of replicas, and without replicas."""
        with tempfile.TemporaryDirectory(prefix="kolo-shards-", dir="/dev/shm") as directory:
            path = os.path.join(directory, "checkpoint.pt")
            environment = {"TEST_CHECKPOINT": path, "TEST_SHARDS": directory}
            agent = self.agent(script=os.path.join(HERE, "scripts.py"), replica=2)
            self.start(agent, 4, TEST_STEPS="12", **environment)
            agent.go()
            self.assertEqual([0] * 4, agent.complete(), agent.report())
            ends = []
            for count, replica in ((2, 2), (3, 1)):
                agent = self.agent(script=os.path.join(HERE, "scripts.py"), replica=replica)
                self.start(agent, count, TEST_STEPS="14", **environment)
                agent.go()
                self.assertEqual([0] * count, agent.complete(), agent.report())
                self.assertEqual({10, 14}, set(agent.digests()), agent.report())
                ends.append(agent.digests()[14])
            self.assertEqual(*ends)
