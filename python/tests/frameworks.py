# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Shared by the tests of kolo.integrations."""

from .test_group import Training


class Processes(Training):
    """Helpers: processes that run a script with a framework."""

    script = None

    def begin(self, count, later=0, fork=True, **options):
        """Starts training with count workers. Additional workers start and wait. Without fork, each is a separate interpreter."""
        agent = self.agent(script=self.script, fork=fork)
        workers = self.up(agent, count + later, count, **options)
        agent.go(*workers[:count])
        agent.formed(count)
        return agent, workers

    def up(self, agent, count, size=1, **options):
        """Starts workers with numbers, and waits until they are up. They have torchrun's variables, which an agent sets and frameworks read."""
        options = {"TEST_" + name: str(value) for name, value in options.items()}
        workers = [worker for rank in range(count) for worker in agent.start(
            1, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size),
            TEST_NUMBER=str(rank), **options)]
        agent.arrived(workers)
        return workers

    def of(self, agent, kind, **values):
        """Returns the records of a kind that have these values."""
        return [entry for entry in agent.entries() if entry["kolo"] == kind and all(entry[name] == value for name, value in values.items())]

    def check_slow(self, agent, *reasons):
        """Checks that these reasons of slow steps, and no others, were announced, and that each ended before the next step was reported."""
        announced = set()
        for worker in agent.workers:
            slow = ""
            for message in worker.progress:
                slow = message.get("slow", slow)
                announced.add(slow)
                self.assertFalse(slow and "step" in message, message)
        self.assertEqual({"", *reasons}, announced)

    def alone_and_with_others(self, steps=5, **options):
        """Trains two epochs of 396 samples twice, and returns the agents of both trainings.

        The first training has one process. The second grows to three, loses one by
        SIGKILL, and shrinks to one that was not rank 0. Each training uses every sample
        once in an epoch.
        """
        options.update(SAMPLES=396, EPOCHS=2)
        alone, _ = self.begin(1, **options)
        agent, workers = self.begin(1, 2, **options)
        agent.stepped(steps)
        agent.go(*workers[1:])
        agent.formed(3)
        agent.stepped(7)
        agent.kill(workers[2])
        agent.formed(2)
        agent.stepped(7)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.finish(agent, samples=396, epochs=2, lost=1)
        self.finish(alone, samples=396, epochs=2)
        return alone, agent

    def other_orders(self):
        """Trains with processes whose samplers give other orders: from the start, from the second epoch, and a newcomer's from the start."""
        for epoch, joined in (0, False), (1, False), (0, True):
            with self.subTest(epoch=epoch, joined=joined):
                agent = self.agent(script=self.script, fork=False)
                workers = self.up(agent, 2, SAMPLES=40, EPOCHS=3, SAMPLER=1, DIFFERS=epoch, SLEEP=0.2 if joined else 0)
                agent.go(*workers[:1 if joined else 2])
                if joined:
                    agent.stepped(2)
                    agent.go(workers[1])
                self.assertEqual([1, 1], agent.complete(), agent.report())
                self.assertIn("a Shelves gives its samples in another order than in another process", agent.report())
                if not joined:
                    self.assertEqual(set(range(epoch)), {entry["epoch"] for entry in self.of(agent, "step")})
