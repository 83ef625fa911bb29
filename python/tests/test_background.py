# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Real workers receive the state while others train. Everything that can happen meanwhile happens."""

import collections
import os
import unittest

from kolo.torch.background import pace

from .agent import HERE
from .test_group import Training

FAULTY = os.path.join(HERE, "faulty.py")
LARGE = ("--ballast", "17", "--step-time", "0.03")  # takes some tens of steps to send


class Background(Training):
    def rings(self, agent, size):
        return [entry for entry in agent.entries() if entry["kolo"] == "ring" and entry["size"] == size]

    def observing(self, agent, workers):
        """Lets workers observe; waits until something has been sent to them."""
        agent.arrived(workers)
        agent.go(*workers)
        text = "processes receive"
        agent.until(lambda: sum(agent.output(worker).count(text) for worker in agent.workers) > self.begun, what=text)
        self.begun += 1
        agent.stepped(4)

    def setUp(self):
        self.begun = 0

    def switched(self, agent, size):
        """Waits until a group of this size trains."""
        agent.until(lambda: any(e["kolo"] == "step" and e["size"] == size and e["generation"] == agent.generation
                                for e in agent.entries()), what="a step of %d" % size)

    def test_grows(self):
        agent = self.agent("--epochs", "2", "--samples", "1440", *LARGE)
        first, second, *rest = agent.up(4)
        agent.go(first)
        agent.stepped()
        self.observing(agent, [second])
        self.switched(agent, 2)
        self.observing(agent, rest)
        self.switched(agent, 4)
        self.finish(agent, samples=1440, epochs=2)
        for before, after in (1, 2), (2, 4):
            at = self.rings(agent, after)[0]["generation"]
            meanwhile = {e["step"] for e in agent.entries() if e["kolo"] == "step" and e["generation"] == at and e["size"] == before}
            self.assertGreater(len(meanwhile), pace.QUIET, agent.report())
        generations = collections.Counter(entry["generation"] for entry in self.rings(agent, 4))
        self.assertEqual([4], list(generations.values()))
        self.assertTrue(all(entry["step"] > 0 for entry in self.rings(agent, 4)))

    def test_commits_seldom(self):
        agent = self.agent("--epochs", "1", "--samples", "2880", "--commit-every", "3", *LARGE)
        *workers, newcomer = agent.up(3)
        agent.go(*workers)
        agent.stepped()
        self.observing(agent, [newcomer])
        self.switched(agent, 3)
        self.finish(agent, samples=2880)

    def test_losses(self):
        """A member, the sender and an observer are killed while an observer receives, which then begins again.

        If another member hangs in gloo because of that and is restarted, it has to get the state first.
        """
        agent = self.agent("--epochs", "1000", "--samples", "14400", *LARGE)
        workers = agent.grow(3)
        agent.formed(3)
        agent.stepped()
        newcomers = agent.start(2)
        self.observing(agent, newcomers)
        hung = 0
        for worker, left in (newcomers[1], 4), (workers[1], 3), (workers[0], 2):
            agent.kill(worker)
            agent.formed(left)
            agent.stepped(3)
            if agent.hung > hung:
                hung = agent.hung
                self.switched(agent, left)
        self.begun = 0
        self.switched(agent, 2)
        agent.stepped(3)
        entries = agent.entries()
        steps = self.accepted(entries)
        self.assertEqual(list(range(1, max(steps) + 1)), sorted(steps), agent.report())
        used = collections.Counter((entry["epoch"], index) for step in steps.values() for entry in step for index in entry["indices"])
        self.assertEqual([], [sample for sample, times in used.items() if times > 1])

    def test_the_state_is_lost(self):
        agent = self.agent("--epochs", "1000", "--samples", "14400", *LARGE, script=FAULTY)
        *workers, newcomer = agent.up(3, TEST_TRICKLE="1")
        agent.go(*workers)
        agent.stepped()
        self.observing(agent, [newcomer])
        for worker in workers:
            agent.kill(worker)
        agent.complete()
        self.assertEqual(1, newcomer.process.returncode)
        self.assertIn("kolo: the training state is lost", agent.output(newcomer))
        self.assertEqual([], self.rings(agent, 3))

    def test_the_sender_leaves(self):
        """The only process that has the state leaves as planned. It hands the state over first."""
        agent = self.agent("--epochs", "1", "--samples", "2400", *LARGE)
        first, newcomer = agent.up(2)
        agent.go(first)
        agent.stepped()
        self.observing(agent, [newcomer])
        agent.shrink([first])
        agent.formed(1)
        self.finish(agent, samples=2400)

    def test_another_comes_meanwhile(self):
        agent = self.agent("--epochs", "1", "--samples", "2400", *LARGE)
        first, second, third = agent.up(3)
        agent.go(first)
        agent.stepped()
        self.observing(agent, [second])
        self.observing(agent, [third])
        self.switched(agent, 3)
        self.finish(agent, samples=2400)

    def test_an_observer_leaves(self):
        agent = self.agent("--epochs", "1", "--samples", "2400", *LARGE)
        *workers, newcomer = agent.up(3)
        agent.go(*workers)
        agent.stepped()
        self.observing(agent, [newcomer])
        agent.shrink([newcomer])
        agent.formed(2)
        self.finish(agent, samples=2400)

    def test_training_ends_meanwhile(self):
        agent = self.agent("--epochs", "1", "--samples", "2400", *LARGE, script=FAULTY)
        workers = agent.up(3, TEST_TRICKLE="1")
        agent.go(*workers[:2])
        agent.stepped()
        self.observing(agent, workers[2:])
        self.finish(agent, samples=2400)
        self.assertIn("training is complete", agent.output(workers[2]))
        self.assertEqual([], self.rings(agent, 3))

    def test_off(self):
        agent = self.agent("--epochs", "1", "--samples", "1440", *LARGE)
        first, second = agent.up(2, KOLO_TORCH_BACKGROUND="0")
        agent.go(first)
        agent.stepped()
        agent.go(second)
        self.finish(agent, samples=1440)
        self.assertEqual({1, 2}, {entry["generation"] for entry in agent.entries() if entry["kolo"] == "ring"})
        self.assertNotIn("receive", agent.report())

    def test_all_kinds_of_values(self):
        """Members have the same state at the switch and at the end. Gradients are averaged over the members only."""
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = agent.start(4, TEST_SCRIPT="handover", TEST_STEPS="150", KOLO_TORCH_BACKGROUND="1")
        agent.arrived(workers)
        agent.go(*workers[:2])
        agent.stepped(6)
        agent.go(*workers)
        agent.until(lambda: "begin 2 4" in agent.output(workers[3]), what="the switch")
        agent.stepped(6)
        agent.kill(workers[0])
        agent.complete()
        self.assertEqual([0] * 3, [worker.process.returncode for worker in workers[1:]], agent.report())
        digests = collections.defaultdict(set)
        for worker in workers:
            for line in agent.output(worker).splitlines():
                if line.startswith(("begin", "end")):
                    what, generation, size, digest, resets = line.split()
                    digests[what, generation, size].add((digest, resets))
        self.assertEqual(["begin 1 2", "begin 2 2", "begin 2 4", "begin 3 3", "end 3 3"], sorted(map(" ".join, digests)), agent.report())
        self.assertEqual([1] * 5, [len(values) for values in digests.values()], digests)

    def test_bytes_in_the_pause(self):
        """The bytes that are sent while a group forms or switches do not depend on the size of the state."""
        sizes = []
        for width in 300, 1200:
            agent = self.agent(script=os.path.join(HERE, "scripts.py"))
            workers = agent.start(2, TEST_SCRIPT="bytes_in_the_pause", TEST_WIDTH=str(width), KOLO_TORCH_BACKGROUND="1",
                                  KOLO_TORCH_SLOWDOWN="inf")
            agent.arrived(workers)
            agent.go(workers[0])
            agent.stepped(3)
            agent.go()
            self.assertEqual([0, 0], agent.complete(), agent.report())
            moved = [[int(line.split()[1]) for line in agent.output(worker).splitlines() if line.startswith("pause")]
                     for worker in workers]
            self.assertEqual([3, 1], [len(each) for each in moved], agent.report())
            sizes.append(max(max(each) for each in moved))
            self.note("%d bytes in a pause", sizes[-1])
        self.assertGreater(sizes[0], 0)
        self.assertLess(sizes[1], sizes[0] + 1000)
        self.assertLess(sizes[1], 30000)


if __name__ == "__main__":
    unittest.main()
