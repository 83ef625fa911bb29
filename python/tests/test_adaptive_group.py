# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Real workers whose batch changes while their group does, under a stand-in for the agent and without Kolo."""

import collections
import os
import tempfile
import unittest

from .adaptive_script import EPOCHS, SAMPLES
from .agent import HERE, ROOT
from .launch import Forked
from .test_alone import free_port
from .test_group import Training

SCRIPT = os.path.join(HERE, "adaptive_script.py")
SLOW = "0.5"  # seconds between steps, so that training does not end before a newcomer has come


class Adapting(Training):
    def check(self, entries, lost=0):
        """All ranks have the same batch in each step, samples are used once, and progress grows."""
        steps = self.accepted(entries)
        self.assertEqual(list(range(1, max(steps) + 1)), sorted(steps))
        progress, absent = 0.0, 0
        for _, ranks in sorted(steps.items()):
            first = ranks[0]
            for name in ("total", "local", "passes", "before", "progress", "lr", "sum", "size"):
                self.assertEqual(1, len({str(entry[name]) for entry in ranks}), (name, ranks))
            self.assertEqual(first["before"]["total"], first["size"] * first["before"]["local"] * first["before"]["passes"])
            self.assertTrue(24 - 10 * first["size"] < first["before"]["total"] <= 96)
            self.assertLessEqual(max(len(entry["indices"]) for entry in ranks), first["before"]["local"] * first["before"]["passes"])
            self.assertGreater(first["progress"], progress)
            self.assertAlmostEqual(0.05 * 0.99 ** first["step"], first["lr"])  # the scheduler's rate, not that of the step
            progress = first["progress"]
            absent += (first["size"] - len(ranks)) * len(first["indices"])  # of a rank that was killed before its record
        self.assertGreater(len({entry["before"]["total"] for ranks in steps.values() for entry in ranks}), 5)
        for epoch in range(EPOCHS):
            used = collections.Counter(index for ranks in steps.values() for entry in ranks if entry["epoch"] == epoch for index in entry["indices"])
            self.assertLessEqual(SAMPLES - len(used), absent)
            sizes = {entry["size"] for ranks in steps.values() for entry in ranks if entry["epoch"] == epoch}
            self.assertLessEqual(sum(used.values()) - len(used), max(sizes) - 1)  # to fill the last batch
        self.assertLessEqual(absent, 96 * lost)
        done = [entry for entry in entries if entry["kolo"] == "done"]
        self.assertEqual(1, len({(entry["sum"], entry["progress"], entry["samples"]) for entry in done}), done)

    def finish(self, agent, lost=0):
        codes = agent.complete()
        self.assertEqual([], [code for worker, code in zip(agent.workers, codes) if code and not worker.killed], agent.report())
        self.check(agent.entries(), lost + agent.hung)

    def test_grows_and_shrinks(self):
        agent = self.agent(script=SCRIPT)
        workers = agent.start(2, TEST_SCRIPT="resized", TEST_SLEEP=SLOW)
        agent.arrived(workers)
        agent.go()
        agent.stepped(8)
        agent.grow(1, TEST_SCRIPT="resized", TEST_SLEEP=SLOW)
        agent.formed(3)
        agent.stepped(8)
        agent.shrink(workers[1:])
        agent.formed(2)
        self.finish(agent)
        reported = [message["samples"] for worker in agent.workers for message in worker.progress if "samples" in message]
        self.assertAlmostEqual(24 * max(entry["progress"] for entry in agent.entries() if entry["kolo"] == "done"), max(reported))

    def test_receives_the_state_in_the_background(self):
        """Observers make the optimizer's steps with the learning rate of the step, and go on with that of the scheduler."""
        agent = self.agent(script=SCRIPT)
        agent.arrived(agent.start(2, TEST_SCRIPT="resized", TEST_SLEEP=SLOW, KOLO_TORCH_BACKGROUND="1"))
        agent.go()
        agent.stepped(4)
        agent.grow(1, TEST_SCRIPT="resized", TEST_SLEEP=SLOW, KOLO_TORCH_BACKGROUND="1")
        self.finish(agent)

    def test_the_operator_keeps_the_batch(self):
        agent = self.agent(script=SCRIPT)
        agent.arrived(agent.start(2, TEST_SCRIPT="resized", TEST_SLEEP="0.2"))
        agent.go()
        agent.stepped(8)
        agent.members[0].send(type="batch", keep=True)
        self.assertEqual([0, 0], agent.complete(), agent.report())
        totals = {entry["step"]: entry["before"]["total"] for entry in agent.entries() if entry["kolo"] == "step"}
        self.assertNotEqual({24}, {totals[step] for step in range(1, 9)})
        self.assertEqual({24}, {totals[step] for step in sorted(totals)[-10:]})

    def test_a_rank_is_lost(self):
        agent = self.agent(script=SCRIPT)
        workers = agent.start(3, TEST_SCRIPT="resized", TEST_SLEEP=SLOW)
        agent.arrived(workers)
        agent.go()
        agent.stepped(8)
        agent.kill(workers[0])
        agent.formed(2)
        self.finish(agent, lost=1)

    def test_measures_what_distributed_data_parallel_reduces(self):
        for size, optimizer in ((2, "sgd"), (1, "sgd"), (2, "adam")):
            agent = self.agent(script=SCRIPT)
            workers = agent.start(size, TEST_SCRIPT="measured", TEST_OPTIMIZER=optimizer)
            agent.arrived(workers)
            agent.go()
            self.assertEqual([0] * size, agent.complete(), agent.report())
            for worker in workers:
                line, = (line.split()[1:] for line in agent.output(worker).splitlines() if line.startswith("noise"))
                self.assertEqual((size, 4 // size), (int(line[0]), int(line[1])))
                self.assertAlmostEqual(1, float(line[2]), delta=0.15)
                self.assertLess(float(line[3]), 1e-5)  # the weights of a plain training

    def test_the_script_of_the_page(self):
        with open(os.path.join(ROOT, "docs", "howto", "let-the-batch-adapt.md")) as page:
            script = page.read().split("```python\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as directory:
            path, log = os.path.join(directory, "train.py"), os.path.join(directory, "log")
            with open(path, "w") as file:
                file.write(script)
            environment = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
            process = Forked([path], {**environment, "PYTHONPATH": os.path.join(ROOT, "python"), "OMP_NUM_THREADS": "1"}, log)
            process.wait()
            with open(log) as file:
                output = file.read()
            self.assertEqual(0, process.returncode, output)
            self.assertRegex(output, r"epoch 9: \d+ steps, worth \d+ of 32 samples; the next has \d+")

    def test_under_torchrun(self):
        with tempfile.TemporaryDirectory() as directory:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
            environment.update(PYTHONPATH=os.path.join(ROOT, "python"), OMP_NUM_THREADS="1", TEST_SCRIPT="resized", TEST_SLEEP="0", WORLD_SIZE="2",
                               MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), USE_LIBUV="0")
            records, log = os.path.join(directory, "records"), os.path.join(directory, "log")
            processes = [Forked([SCRIPT, "--records", records], {**environment, "RANK": rank, "LOCAL_RANK": rank}, log) for rank in "01"]
            for process in processes:
                process.wait()
            with open(log) as file:
                self.assertEqual([0, 0], [process.returncode for process in processes], file.read())
            agent = self.agent(script=SCRIPT)
            agent.records = records
            self.check(agent.entries())


if __name__ == "__main__":
    unittest.main()
