# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The claims of docs/reference/pytorch-features.md. The script is features."""

import ast
import collections
import glob
import importlib.util
import json
import os
import re
import signal
import unittest
import warnings

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.optim import DistributedOptimizer, ZeroRedundancyOptimizer
from torch.utils.data import DistributedSampler

import kolo.torch as kolo

from .agent import HERE, ROOT, Agent

DOCS = os.path.join(os.path.realpath(ROOT), "docs")
PAGE = os.path.join(DOCS, "reference", "pytorch-features.md")
FRAMEWORKS = os.path.join(DOCS, "howto", "train-with-a-framework.md")
SCRIPT = os.path.join(HERE, "features.py")

# By how much weights may differ from those of a training in one process, where not by the rounding of float32.
TOLERANCE = {"CompressedHook": 2e-2, "BFloat16": 5e-2, "MixedPrecision": 2e-2, "Quasinewton": 1e-3}


def read(agent, prefix):
    """The records of a run, by the process id of the worker that wrote them."""
    records = {}
    for path in glob.glob(os.path.join(agent.directory.name, "records-%s[0-9]*.jsonl" % prefix)):
        with open(path) as file:
            records[os.path.basename(path)[len("records-" + prefix):-len(".jsonl")]] = [json.loads(line) for line in file if line.endswith("\n")]
    return records


class Changes(unittest.TestCase):
    """One training with all features: first one process, then two, then the second one alone. Each test checks one feature."""

    environment = {"TEST_DEFERRED": "1"}

    @classmethod
    def setUpClass(cls):
        agent = Agent(script=SCRIPT)
        cls.addClassCleanup(agent.close)
        first, second = agent.up(2, **cls.environment)
        agent.go(first)
        agent.stepped(8)
        agent.go(second)
        together = lambda: [record for record in read(agent, "").get(str(second.process.pid), []) if record["size"] == 2]
        agent.until(together, what="they train together")
        second.process.send_signal(signal.SIGUSR1)
        agent.until(lambda: len(together()) > 5, what="some steps of both")
        agent.shrink([first])
        agent.until(lambda: first.process.poll() is not None and second.process.poll() is not None, what="the end")
        cls.output = agent.output(first) + agent.output(second)
        records = read(agent, "")
        cls.stayed, cls.left = records.get(str(second.process.pid), []), records.get(str(first.process.pid), [])
        cls.steps = [record for record in cls.left + cls.stayed if record["kind"] == "step"]
        steps = max([record["step"] for record in cls.steps], default=0) + 1
        fixed, = agent.start(1, KOLO_WORKER_ADDR="", TEST_FIXED=str(steps))
        agent.until(lambda: fixed.process.poll() is not None, what="the end of the fixed run")
        if first.process.returncode or second.process.returncode or fixed.process.returncode:
            raise AssertionError(agent.report())
        cls.fixed, = read(agent, "fixed-").values()

    def results(self, feature):
        """Returns the final values of the fixed run and of the run that changed."""
        return [next(record for record in records if record["kind"] == "result" and record["feature"] == feature)
                for records in (self.fixed, self.stayed)]

    def check(self, feature):
        fixed, changed = self.results(feature)
        for record in fixed, changed:
            self.assertLess(record["after"], record["before"], "it has learned")
        self.assertEqual(fixed["equal"], changed["equal"])
        if fixed["close"] is not None:
            self.assertEqual(len(fixed["close"]), len(changed["close"]))
            difference = max(abs(a - b) for a, b in zip(fixed["close"], changed["close"]))
            self.assertLess(difference, TOLERANCE.get(feature, 1e-4))
        number = [record["feature"] for record in self.fixed if record["kind"] == "result"].index(feature)
        self.assertEqual({0.0}, {record["spread"][number] for record in self.steps}, "all ranks have the same weights")

    def test_sizes(self):
        """The script was part of all three groups."""
        sizes = [max(record["size"] for record in self.steps if record["step"] == step) for step in sorted({r["step"] for r in self.steps})]
        self.assertEqual([1, 2, 1], [size for at, size in enumerate(sizes) if at == 0 or sizes[at - 1] != size])

    def test_hooks(self):
        self.check("Hooks")

    def test_compressed_hook(self):
        self.check("CompressedHook")

    def test_power_sgd_hook(self):
        self.check("PowerSGDHook")

    def test_own_hook(self):
        self.check("OwnHook")

    def test_unused_parameters(self):
        self.check("UnusedParameters")

    def test_static_graph(self):
        self.check("StaticGraph")

    def test_recomputation(self):
        self.check("Recomputation")

    def test_bucket_views(self):
        self.check("BucketViews")

    def test_accumulation(self):
        self.check("Accumulation")

    def test_collectives(self):
        self.check("Collectives")

    def test_quasinewton(self):
        self.check("Quasinewton")

    def test_sparse_gradients(self):
        self.check("SparseGradients")

    def test_batch_norm(self):
        self.check("BatchNorm")

    def test_checkpoints(self):
        self.check("Checkpoints")

    def test_uneven_inputs(self):
        self.check("UnevenInputs")

    def test_compiled(self):
        for feature in ("Compiled", "CompiledParallel"):
            with self.subTest(feature):
                self.check(feature)

    def test_mixed_precision(self):
        self.check("MixedPrecision")

    def test_bfloat16(self):
        self.check("BFloat16")

    def test_moving_average(self):
        self.check("MovingAverage")

    def test_schedules(self):
        for feature in ("Schedule", "OneCycle", "LambdaRate", "Plateau"):
            with self.subTest(feature):
                self.check(feature)

    def test_clipping(self):
        self.check("Clipping")

    def test_parametrizations(self):
        self.check("Parametrizations")

    def test_adversarial(self):
        self.check("Adversarial")

    def test_unfrozen(self):
        self.check("Unfrozen")

    def test_adapters(self):
        self.check("Adapters")

    @unittest.skipUnless(importlib.util.find_spec("torchmetrics"), "there is no torchmetrics")
    def test_metrics(self):
        self.check("Metrics")

    def test_loader_with_workers(self):
        """Each sample is used once in an epoch, although the loader's workers outlive a group and have fetched batches ahead."""
        last = max(record["epoch"] for record in self.steps)
        for epoch in range(last + 1):
            used = collections.Counter(index for record in self.steps if record["epoch"] == epoch for index in record["indices"])
            self.assertEqual([], [index for index, times in used.items() if times > 1])
            if epoch < last:
                self.assertEqual(60, len(used))

    def test_writer_of_rank_0(self):
        """Each step is written once, whichever process has rank 0. A process that leaves closes its open files."""
        written = [record["step"] for record in self.left + self.stayed if record["kind"] == "written"]
        self.assertEqual(sorted({record["step"] for record in self.steps}), sorted(written))
        self.assertIn("closed", [record["kind"] for record in self.left])

    def test_signals(self):
        """A handler of the script is still installed after the group has changed."""
        last = [record for record in self.stayed if record["kind"] == "step"][-1]
        self.assertEqual([2], last["signals"])

    def test_threads(self):
        """A thread of the script runs in each group."""
        for records in self.left, self.stayed:
            self.assertLess(0, [record for record in records if record["kind"] == "step"][-1]["ticks"])

    def test_says_nothing_of_what_is_part_of_the_state(self):
        self.assertNotIn("not part of", self.output)


class Background(Changes):
    """Like Changes, but the newcomer receives the state while the other process trains."""

    environment = {"KOLO_TORCH_BACKGROUND": "1"}

    def test_background(self):
        self.assertIn("1 processes receive", self.output)


class Lost(unittest.TestCase):
    """Values that a change of the group would lose silently are reported once, at the first commit."""

    @classmethod
    def setUpClass(cls):
        agent = Agent(script=SCRIPT)
        cls.addClassCleanup(agent.close)
        worker, = agent.grow(1, TEST_SCRIPT="careless")
        agent.until(lambda: worker.process.poll() is not None, what="the end")
        cls.output = agent.output(worker)
        if worker.process.returncode:
            raise AssertionError(cls.output)

    def test_sampler(self):
        self.assertEqual(1, self.output.count("kolo: a DistributedSampler is in the middle of its epoch"), self.output)
        self.assertEqual(1, self.output.count("kolo: a RandomSampler is in the middle of its epoch"), self.output)
        self.assertIn("Use kolo.ElasticSampler(data)", self.output)

    def test_optimizer(self):
        self.assertEqual(1, self.output.count("kolo: an optimizer (AdamW) trains modules of the state"), self.output)

    def test_zero_redundancy_optimizer(self):
        self.assertEqual(1, self.output.count("kolo: a ZeroRedundancyOptimizer has a part of its state on each rank"), self.output)

    def test_nothing_else(self):
        self.assertEqual(4, self.output.count("kolo: "), self.output)

    def test_frozen_on_some_ranks(self):
        """A newcomer trains other parameters than the others. All of them end with a message that states the remedy."""
        agent = Agent(script=SCRIPT)
        self.addCleanup(agent.close)
        workers = agent.up(2, TEST_SCRIPT="frozen")
        agent.go(workers[0])
        agent.stepped()
        agent.go(workers[1])
        agent.complete()
        for worker in workers:
            self.assertIn("set it at the beginning of the function too, by what the state has (state.step)", agent.output(worker))


class Refused(unittest.TestCase):
    """Objects that are bound to a fixed group, or that have no state to keep, are refused when the State is made, with the remedy."""

    def setUp(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        self.model = torch.nn.Linear(2, 1)

    def refused(self, value, words):
        with self.assertRaisesRegex(TypeError, "state.value.* cannot be part of the state: .*" + words):
            kolo.State(value=value)

    def test_zero_redundancy_optimizer(self):
        self.refused(ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.SGD, lr=0.1), "FSDP2 by kolo.Sharded")

    def test_distributed_sampler(self):
        self.refused(DistributedSampler([1, 2]), "use kolo.ElasticSampler")

        class Own(DistributedSampler):
            """Says where it is."""

            def state_dict(self):
                return {}

            def load_state_dict(self, state):
                pass

        kolo.State(value=Own([1, 2]))

    def test_power_sgd_state(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch 2.6 uses what Python 3.13 deprecates
            from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        self.refused(powerSGD_hook.PowerSGDState(None), "could not be read back")

    def test_distributed_optimizer(self):
        self.refused(DistributedOptimizer.__new__(DistributedOptimizer), "could not be read back")

    def test_fsdp1(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # one rank has all of the parameters
            sharded = FullyShardedDataParallel(self.model, device_id=torch.device("cpu"))
        self.refused(sharded, "fully_shard")

    def test_sync_batch_norm(self):
        """SyncBatchNorm is part of a state like all modules. PyTorch has no code for it on CPUs."""
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.BatchNorm1d(2))
        kolo.State(value=model)
        with self.assertRaisesRegex(ValueError, "SyncBatchNorm expected input tensor to be on"):
            model(torch.ones(3, 2))


class Page(unittest.TestCase):
    """Each row of the page has a verdict and tests that exist, and each feature that is tested here has a row."""

    def rows(self):
        """The cells of the tables of features."""
        with open(PAGE, encoding="utf-8") as file:
            features = file.read().partition("\n## ")[2]
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in features.splitlines() if line.startswith("| ")]
        return [row for row in rows if row[-1] != "test"]

    def links(self, row, page=PAGE):
        """The tests that a row links to, by file."""
        for name, path in re.findall(r"\[([^\]]+)\]\(([^)]+)\)", row[-1]):
            yield os.path.normpath(os.path.join(os.path.dirname(page), path)), name

    def assert_tests_exist(self, row, page=PAGE):
        tests = list(self.links(row, page))
        self.assertTrue(tests, row)
        for path, name in tests:
            with open(path, encoding="utf-8") as file:
                self.assertIn(name, {"%s.%s" % (kind.name, method.name) for kind in ast.parse(file.read()).body if isinstance(kind, ast.ClassDef)
                                     for method in kind.body if isinstance(method, ast.FunctionDef)}, row)

    def test_each_row_has_tests_that_exist(self):
        self.assertLess(50, len(self.rows()))
        for row in self.rows():
            self.assertEqual(4, len(row), row)
            self.assertIn(row[1], ("works", "works with", "reported", "refused", "untested", "no"))
            self.assert_tests_exist(row)

    def test_each_row_of_the_frameworks_has_tests_that_exist(self):
        with open(FRAMEWORKS, encoding="utf-8") as file:
            table = file.read().partition("\n## What works\n")[2].partition("\n## ")[0]
        rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line.startswith("| ") and "](" in line]
        self.assertLess(12, len(rows))
        for row in rows:
            self.assertEqual(5, len(row), row)
            self.assert_tests_exist(row, FRAMEWORKS)

    def test_each_test_has_a_row(self):
        linked = {name for row in self.rows() for path, name in self.links(row) if path == os.path.realpath(__file__)}
        for kind in Changes, Lost, Refused:
            for name in vars(kind):
                if name.startswith("test_") and name not in ("test_sizes", "test_nothing_else"):
                    self.assertIn("%s.%s" % (kind.__name__, name), linked)


if __name__ == "__main__":
    unittest.main()
