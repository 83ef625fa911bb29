# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What the tests of kolo.integrations have in common."""

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
        """Starts workers, and waits until they are up. They have torchrun's variables, which an agent sets and frameworks read."""
        options = {"TEST_" + name: str(value) for name, value in options.items()}
        workers = [worker for rank in range(count) for worker in agent.start(
            1, RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(size), **options)]
        agent.arrived(workers)
        return workers

    def of(self, agent, kind, **values):
        """Returns the records of a kind that have these values."""
        return [entry for entry in agent.entries() if entry["kolo"] == kind and all(entry[name] == value for name, value in values.items())]

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
