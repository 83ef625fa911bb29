# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Real workers with real gloo under a stand-in for the agent: groups grow, shrink, lose members."""

import collections
import os
import signal
import sys
import time
import unittest

from .agent import HERE, Agent

BATCH = 12


def gap(entries, at):
    """Seconds from the last step before a change to the first after it, with the sizes."""
    steps = [entry for entry in entries if entry["kolo"] == "step"]
    after = [entry for entry in steps if entry["generation"] == at]
    before = [entry for entry in steps if entry["generation"] < at]
    return before[-1]["size"], after[0]["size"], after[0]["t"] - before[-1]["t"]


class Training(unittest.TestCase):
    """Helpers: each test has an agent, and judges by what the workers recorded."""

    def agent(self, *arguments, **options):
        agent = Agent(*arguments, **options)
        self.addCleanup(agent.close)
        return agent

    def show(self, entries):
        """Prints the gap of each change."""
        generations = sorted({entry["generation"] for entry in entries if entry["kolo"] == "step"})
        for generation in generations[1:]:
            sys.stderr.write("    %s: %d -> %d ranks: %.3f s between steps\n" % ((self.id().split(".")[-1],) + gap(entries, generation)))

    def accepted(self, entries):
        """Step records that no later group did again, by step."""
        starts = {}
        for entry in entries:
            if entry["kolo"] == "ring":
                starts[entry["generation"]] = entry["step"]
        steps = collections.defaultdict(list)
        for entry in entries:
            if entry["kolo"] == "step":
                later = [step for generation, step in starts.items() if generation > entry["generation"]]
                if all(step >= entry["step"] for step in later):
                    steps[entry["step"]].append(entry)
        return steps

    def assert_trained(self, agent, samples, epochs=1, lost=0, commit_every=1):
        """No sample twice, none left out, all ranks with the same weights, no step lost beyond the last commit."""
        entries = agent.entries()
        self.show(entries)
        steps = self.accepted(entries)
        self.assertEqual(list(range(1, max(steps) + 1)), sorted(steps), agent.report())
        absent = 0
        for entries_of_step in steps.values():
            # A rank that was killed between its allreduce and its record: the others have counted its samples.
            absent += (entries_of_step[0]["size"] - len(entries_of_step)) * BATCH
        for epoch in range(epochs):
            used = collections.Counter(
                index for step in steps.values() for entry in step if entry["epoch"] == epoch for index in entry["indices"])
            self.assertEqual([], [index for index, times in used.items() if times > 1], agent.report())
            self.assertLessEqual(samples - len(used), absent, agent.report())
        self.assertLessEqual(absent, lost * BATCH, agent.report())
        done = [entry for entry in entries if entry["kolo"] == "done"]
        self.assertEqual(1, len({entry["sum"] for entry in done}), done)
        self.assertEqual({samples * epochs}, {entry["samples"] for entry in done}, done)
        again = [entry for entry in entries if entry["kolo"] == "step" and entry not in steps[entry["step"]]]
        self.assertLessEqual(len({entry["step"] for entry in again}), commit_every * (1 if lost else 0), agent.report())

    def finish(self, agent, **arguments):
        codes = agent.complete()
        self.assertEqual([], [code for worker, code in zip(agent.workers, codes) if code and not worker.killed], agent.report())
        self.assert_trained(agent, **arguments)


class Planned(Training):
    def test_grow_and_shrink(self):
        agent = self.agent("--epochs", "2", "--samples", "2880")
        first = agent.grow(1)
        agent.stepped()
        second = agent.grow(1)
        agent.formed(2)
        agent.stepped()
        rest = agent.grow(2)
        agent.formed(4)
        agent.stepped()
        agent.shrink(rest)
        agent.formed(2)
        agent.stepped()
        agent.shrink(first)  # rank 0
        agent.formed(1)
        self.finish(agent, samples=2880, epochs=2)
        self.assertEqual(["start"] + ["commit"] * 4, second[0].reasons + ["commit"])

    def test_start_together(self):
        agent = self.agent("--epochs", "1", "--samples", "480")
        workers = agent.grow(4)
        self.finish(agent, samples=480)
        last = workers[0].progress[-1]
        self.assertEqual((10, 480, 10), (last["step"], last["samples"], last["total_steps"]))
        self.assertTrue(all(not worker.progress for worker in workers[1:]))


if __name__ == "__main__":
    unittest.main()
