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
        return agent.digests()[int(environment.get("TEST_STEPS", "40"))]

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

    def train(self, *groups, begin, **environment):
        """Trains in groups. Each is given by the number of processes that join and the workers that leave. Returns the agent when all have ended."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        count = begin + sum(joining for joining, _ in groups)
        workers = self.start(agent, count, TEST_SLEEP="0.1", TEST_STEPS="60", **environment)
        spare = iter(workers)
        members = [next(spare) for _ in range(begin)]
        agent.go(*members)
        for joining, leaving in groups:
            agent.formed(len(members))
            agent.stepped(3)
            for run in os.listdir(self.directory.name):  # what is read from now on is not there
                shutil.rmtree(os.path.join(self.directory.name, run))
            left = [members[number] for number in leaving]
            members = [member for member in members if member not in left] + [next(spare) for _ in range(joining)]
            with agent.lock:
                for worker in left:
                    worker.leaving = True
                agent.go(*members)
        agent.complete()
        self.assertEqual([0] * count, [worker.process.returncode for worker in workers], agent.report())
        self.assertNotIn("checkpoint of commit", agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())
        self.assertEqual(len(groups) + 2, len(digests), agent.report())
        self.assertEqual(self.unchanged(TEST_STEPS="60", **environment), digests[60])

    def test_in_memory(self):
        """2 -> 4 -> 2 ranks, where one of the last two is a newcomer; and 3 -> 1 -> 3. Nothing is read from the directory."""
        self.train((2, ()), (0, (1, 2)), (1, (0,)), begin=2, TEST_CHECKPOINT_EVERY="1000")
        self.train((0, (0, 2)), (2, ()), begin=3, TEST_CHECKPOINT_EVERY="1000")

    def interrupted(self, begin, joining, leaving, strikes, **environment):
        """A process ends in the middle of a change, and the others train on; returns the state by step."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = [agent.start(1, TEST_SCRIPT="sharded", TEST_SHARDS=self.directory.name, TEST_SLEEP="0.1", TEST_CHECKPOINT_EVERY="4",
                               **environment, **({"TEST_STRIKE": "2"} if number == strikes else {}))[0] for number in range(begin + joining)]
        agent.arrived(workers)
        agent.go(*workers[:begin])
        agent.formed(begin)
        agent.stepped(5)
        with agent.lock:
            for number in leaving:
                workers[number].leaving = True
            agent.go(*workers)
        agent.complete()
        self.assertEqual([-9 if number == strikes else 0 for number in range(len(workers))],
                         [worker.process.returncode for worker in workers], agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())
        self.assertEqual(self.unchanged(), digests[40], agent.report())
        return agent.report()

    def test_newcomer_dies_in_a_change(self):
        """The others still have all parts of the last commit."""
        self.assertNotIn("checkpoint of commit", self.interrupted(begin=2, joining=2, leaving=(), strikes=3))

    def test_member_dies_in_a_change(self):
        """Its part is lost: the others go back to the last checkpoint."""
        self.assertIn("goes on from the checkpoint of commit", self.interrupted(begin=2, joining=2, leaving=(), strikes=1))

    def test_redundant_member_dies_in_a_change(self):
        """Another member has a copy of its part."""
        self.assertNotIn("checkpoint of commit", self.interrupted(begin=3, joining=1, leaving=(), strikes=1, TEST_REDUNDANCY="1"))

    def test_leaver_dies_in_a_change(self):
        self.assertIn("goes on from the checkpoint of commit", self.interrupted(begin=4, joining=0, leaving=(2, 3), strikes=3))

    def test_redundancy(self):
        """One rank after the other is lost, also rank 0. Its part is with the next rank each time, so nothing is read."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        environment = {"TEST_SLEEP": "0.1", "TEST_STEPS": "60", "TEST_CHECKPOINT_EVERY": "1000", "TEST_REDUNDANCY": "1"}
        workers = [self.start(agent, 1, TEST_KILLED=step, **environment)[0] for step in ("16", "8", "0", "50", "0")]
        agent.go(*workers[:4])
        agent.formed(4)
        agent.stepped(1)
        for run in os.listdir(self.directory.name):
            shutil.rmtree(os.path.join(self.directory.name, run))
        agent.formed(2)
        agent.go()
        agent.complete()
        self.assertEqual([-9, -9, 0, -9, 0], [worker.process.returncode for worker in workers], agent.report())
        self.assertNotIn("checkpoint of commit", agent.report())
        digests = agent.digests()
        self.assertEqual([1] * len(digests), [len(values) for values in digests.values()], agent.report())
        self.assertEqual({0, 7, 15, 49, 60}, set(digests) & {0, 7, 15, 49, 60}, agent.report())
        self.assertEqual(self.unchanged(TEST_STEPS="60"), digests[60])

    def test_redundancy_of_leavers(self):
        """Other processes already have the parts of those that leave."""
        self.train((0, (1, 3)), begin=4, TEST_CHECKPOINT_EVERY="1000", TEST_REDUNDANCY="1")

    def test_newcomer_knows_the_checkpoint(self):
        """The only process that was there when the checkpoint was written is lost. The other one goes back to it."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = self.start(agent, 2, TEST_SLEEP="0.1", TEST_CHECKPOINT_EVERY="1000")
        agent.go(workers[0])
        agent.formed(1)
        agent.stepped(3)
        agent.go()
        agent.formed(2)
        agent.stepped(3)
        agent.kill(workers[0])
        agent.complete()
        self.assertEqual(0, workers[1].process.returncode, agent.report())
        self.assertIn("goes on from the checkpoint of commit", agent.report())
        self.assertEqual(self.unchanged(), agent.digests()[40])

    def test_parts_that_are_no_ranges(self):
        """Such parts go through the directory, and a message states that."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = self.start(agent, 3, TEST_MODEL="columns_of", TEST_SLEEP="0.1", TEST_CHECKPOINT_EVERY="1000")
        agent.go(*workers[:2])
        agent.formed(2)
        agent.stepped(3)
        agent.go()
        agent.formed(3)
        self.assertEqual([0] * 3, agent.complete(), agent.report())
        self.assertIn("because of weight, which is placed as [Shard(dim=1)] on a mesh of 1 dimensions", agent.report())
        digests = agent.digests()
        self.assertEqual([1] * 3, [len(values) for values in digests.values()], agent.report())
        self.assertEqual(self.unchanged(), digests[40])

    def test_another_mesh(self):
        """Another mesh, such as one of two dimensions for tensor parallelism within a host, is refused, with the remedy."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        self.start(agent, 1, TEST_MODEL="apart_of")
        agent.go()
        self.assertEqual([1], agent.complete())
        self.assertIn("build has to shard the model over the mesh that it is given. Tensor parallelism, ", agent.report())
        self.assertIn('with replica = N in the jobspec, each N ranks have a whole model), or train from checkpoints with mode = "restart"', agent.report())

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
