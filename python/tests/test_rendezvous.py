# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Real torchruns whose rendezvous is a stand-in for the agent: groups grow, shrink, lose members."""

import json
import os
import re
import signal
import sys
import time
import unittest

from .agent import HERE, ROOT, Agent

SCRIPT = os.path.join(HERE, "torchrun_script.py")


def entry_points():
    """The package's entry points, as the wheel has them."""
    with open(os.path.join(ROOT, "python", "pyproject.toml")) as file:
        group, entry = re.search(r'^\[project\.entry-points\."(.*)"\]\n(\w+ = ".*")$', file.read(), re.M).groups()
    return "[%s]\n%s\n" % (group, entry.replace('"', ""))


class Torchrun(unittest.TestCase):
    """Each worker of the agent is a torchrun, whose script writes records into a directory."""

    def agent(self, steps, *flags, nproc=1):
        agent = Agent("torch.distributed.run", "--rdzv-backend=kolo", "--nnodes=1:4", "--nproc-per-node=%d" % nproc,
                      "--max-restarts=0", *flags, SCRIPT, str(steps), script="-m", fork=False)
        self.addCleanup(agent.close)
        installed = os.path.join(agent.directory.name, "installed", "kolo_nomad-0.dist-info")
        os.makedirs(installed)
        for name, text in ("METADATA", "Name: kolo-nomad\nVersion: 0\n"), ("entry_points.txt", entry_points()):
            with open(os.path.join(installed, name), "w") as file:
                file.write(text)
        self.environment = {
            "PYTHONPATH": os.pathsep.join([os.path.join(ROOT, "python"), os.path.dirname(installed)]),
            # The stand-in has one store for all groups, which workers do not expect.
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "USE_LIBUV": "0"}
        return agent

    def start(self, agent, count, **environment):
        workers = agent.start(count, **self.environment, **environment)
        agent.arrived(workers)
        return workers

    def steps(self, agent):
        try:
            with open(os.path.join(agent.records, "steps")) as file:
                return [json.loads(line) for line in file if line.endswith("\n")]
        except FileNotFoundError:
            return []

    def trains(self, agent, size, after=0.0):
        """Waits for steps of a group of this size after a time, and returns the time of the first."""
        find = lambda: [step["t"] for step in self.steps(agent) if step["size"] == size and step["t"] > after]
        agent.until(lambda: len(find()) > 5, what="training with %d" % size)
        return find()[0]

    def assert_trained(self, agent, steps, restarts=0):
        """Asserts that all steps were done, and that no more workers failed than expected."""
        done = self.steps(agent)
        self.assertEqual(list(range(1, steps + 1)), sorted({step["step"] for step in done}), agent.report())
        self.assertLessEqual(max(int(step["restart"]) for step in done), restarts, agent.report())

    def gap(self, agent, since, first):
        last = max(step["t"] for step in self.steps(agent) if step["t"] < first)
        sys.stderr.write("    %s: %.2f s between steps, %.2f s after the change\n" % (
            self.id().split(".")[-1], first - last, first - since))

    def test_grows_and_shrinks(self):
        """There is no wait for more nodes, and no worker fails, so max_restarts = 0 is enough."""
        agent = self.agent(400)
        first, second = self.start(agent, 2)
        agent.go(first)
        self.trains(agent, 1)
        since = agent.go(second)
        self.gap(agent, since, self.trains(agent, 2, since))
        since = time.time()
        agent.shrink([second])
        self.gap(agent, since, self.trains(agent, 1, since))
        agent.until(lambda: second.process.poll() is not None, what="the end of the one that leaves")
        codes = agent.complete()
        self.assertEqual(0, codes[0], agent.report())
        self.assert_trained(agent, 400)

    def test_rank_0_leaves(self):
        agent = self.agent(250, nproc=2)
        first, second = self.start(agent, 2)
        agent.go()
        self.trains(agent, 4)
        since = time.time()
        agent.shrink([agent.members[0]])
        self.trains(agent, 2, since)
        self.assertEqual([0, 0], agent.complete(), agent.report())  # the one that leaves ends by itself
        self.assert_trained(agent, 250)

    def test_a_member_is_killed(self):
        """The others go on at once, and its own worker does not outlive it."""
        agent = self.agent(250, "--max-restarts=1")
        workers = self.start(agent, 3)
        agent.go()
        self.trains(agent, 3)
        pid = self.steps(agent)[-1]["pid"]
        since = agent.kill(agent.members[0])
        agent.until(lambda: not os.path.exists("/proc/%d" % pid), what="the end of its worker")
        self.gap(agent, since, self.trains(agent, 2, since))
        self.assertEqual([0, 0], [worker.process.wait() or worker.process.returncode
                                  for worker in workers if not worker.killed], agent.report())
        self.assert_trained(agent, 250, restarts=1)

    def test_a_worker_fails(self):
        """One of two torchruns restarts its worker. The other one's worker does not fail because of that."""
        agent = self.agent(200, "--max-restarts=1")
        self.start(agent, 2, TEST_FAIL="1:" + os.path.join(agent.directory.name, "failed"))
        agent.go()
        self.assertEqual([0, 0], agent.complete(), agent.report())
        self.assert_trained(agent, 200, restarts=1)

    def test_a_member_dies_as_the_group_forms(self):
        agent = self.agent(60)
        workers = self.start(agent, 2)
        os.kill(workers[1].process.pid, signal.SIGSTOP)
        since = agent.go()
        time.sleep(0.5)
        agent.kill(workers[1])
        self.trains(agent, 1, since)
        workers[0].process.wait()
        self.assertEqual(0, workers[0].process.returncode, agent.report())

    def test_outside_a_task(self):
        agent = self.agent(1)
        worker, = agent.start(1, **self.environment, KOLO_WORKER_ADDR="")
        self.assertNotEqual([0], agent.complete())
        self.assertIn('--rdzv-backend=kolo is for tasks of driver = "torch"', agent.output(worker))


if __name__ == "__main__":
    unittest.main()
