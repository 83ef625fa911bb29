# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A loop with Accelerate in process, under the stand-in for the agent."""

import json
import os
import tempfile
import unittest
from unittest import mock

from .agent import HERE
from .frameworks import Processes

try:
    import accelerate
except ImportError:
    accelerate = None

SCRIPT = os.path.join(HERE, "accelerate_script.py")


@unittest.skipUnless(accelerate, "needs Accelerate")
class Accelerate(Processes):
    script = SCRIPT

    def test_a_global_batch_makes_any_sizes_the_training_of_one_process(self):
        """Grows to three, loses one by SIGKILL, shrinks to one. Rates, evaluations and weights equal those of one process."""
        alone, agent = self.alone_and_with_others(3, GLOBAL=12, BATCH=4, WORKERS=1)
        self.assertEqual({1: 3, 2: 2, 3: 1}, {entry["size"]: entry["accumulate"] for entry in self.of(agent, "step")})
        self.assertEqual(66, len(self.accepted(agent.entries())))
        rates = {entry["step"]: entry["rate"] for entry in self.of(alone, "step")}
        for entry in self.of(agent, "step"):
            self.assertEqual(entry["step"], entry["count"])  # what was registered for checkpoints goes along
            self.assertAlmostEqual(rates[entry["step"]], entry["rate"], places=9)
        for expected, found in zip(self.of(alone, "evaluation"), self.of(agent, "evaluation")):
            self.assertEqual(list(range(30)), found["indices"])
            self.assertAlmostEqual(expected["loss"], found["loss"], places=4)
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual((66, 66), (expected["step"], done["step"]))
        self.assertAlmostEqual(expected["sum"], done["sum"], places=4)

    def test_steps_grow_with_the_processes(self):
        """Without global_batch, the prepared scheduler counts samples, and each epoch has every sample once."""
        agent, workers = self.begin(2, 1, fork=False, SAMPLES=400, EPOCHS=2, ACCUMULATE=2)
        agent.stepped(5)
        agent.go(workers[2])
        agent.formed(3)
        agent.stepped(5)
        agent.shrink(workers[1:2])
        agent.formed(2)
        self.assertEqual([0] * 3, agent.complete(), agent.report())
        for epoch in 0, 1:
            used = [index for entry in self.of(agent, "step", epoch=epoch) for index in entry["indices"]]
            self.assertEqual(set(range(400)), set(used))
            self.assertLessEqual(len(used), 402)  # the last batch of an epoch is as long on all ranks
        self.assertEqual({2}, {entry["accumulate"] for entry in self.of(agent, "step")})
        self.assertLess(self.of(agent, "step")[-1]["rate"], 3e-5)

    def test_a_sampler_an_average_and_a_compiled_model_of_the_script(self):
        """Everything is as with one process, even with mixed precision and a GradScaler. Each process compiles before it joins."""
        alone, agent = self.alone_and_with_others(3, GLOBAL=12, BATCH=4, SAMPLER=1, SCALER=1, WARM=1, ARGUMENTS=json.dumps(
            {"dynamo_backend": "eager", "mixed_precision": "bf16"}))
        for entry in self.of(agent, "ring"):
            self.assertGreater(entry["compiled"], 0, entry)
        for expected, found in zip(self.of(alone, "evaluation"), self.of(agent, "evaluation")):
            self.assertAlmostEqual(expected["loss"], found["loss"], delta=0.01)
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual({66}, {entry[name] for entry in (expected, done) for name in ("step", "averaged")})
        self.assertEqual(expected["scale"], done["scale"])
        for name in "sum", "average":
            self.assertAlmostEqual(expected[name], done[name], delta=0.01, msg=name)

    def test_a_sampler_with_another_order_in_another_process(self):
        """The difference is noticed at the start of the epoch, before a step is made with wrong samples."""
        self.other_orders()

    def test_an_iterable_data_set(self):
        """A worker process reads the data set again. Evaluations and weights are as with one process."""
        alone, agent = self.alone_and_with_others(3, GLOBAL=12, BATCH=4, STREAM="items", WORKERS=1)
        self.assertEqual({1: 3, 2: 2, 3: 1}, {entry["size"]: entry["accumulate"] for entry in self.of(agent, "step")})
        for expected, found in zip(self.of(alone, "evaluation"), self.of(agent, "evaluation")):
            self.assertEqual(list(range(30)), found["indices"])
            self.assertAlmostEqual(expected["loss"], found["loss"], places=4)
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual((66, 66), (expected["step"], done["step"]))
        self.assertAlmostEqual(expected["sum"], done["sum"], places=4)

    def test_a_checkpoint_of_an_epochs_end(self):
        """The checkpoint was written at the end of an epoch, with no batches left in it. Training goes on with the next epoch."""
        for stream in "", "items", "placed":
            with self.subTest(stream=stream):
                options = {"SAMPLES": 32, "BATCH": 8, "EPOCHS": 2, "STREAM": stream}
                first, _ = self.begin(1, SAVE=4, **options)
                self.assertEqual([0], first.complete(), first.report())
                agent, _ = self.begin(1, RESUME=os.path.join(first.directory.name, "saved"), **options)
                self.assertEqual([0], agent.complete(), agent.report())
                self.assertEqual(sorted([*range(32)]), sorted(index for entry in self.of(agent, "step") for index in entry["indices"]))

    def test_goes_on_from_a_checkpoint_of_the_framework(self):
        """The checkpoint is from within an epoch. Each sample is used once. The newcomer loads the checkpoint, too, but gets the newer state."""
        options = {"SAMPLES": 240, "BATCH": 8, "GLOBAL": 8}
        first, workers = self.begin(2, SAVE=10, **options)
        first.until(lambda: self.of(first, "step", step=12), what="12 steps")
        self.check_slow(first, "checkpoint")
        for worker in workers:
            first.kill(worker)
        agent, workers = self.begin(1, 1, RESUME=os.path.join(first.directory.name, "saved"), **options)
        agent.stepped(5)
        agent.go(workers[1])
        agent.formed(2)
        self.assertEqual([0] * 2, agent.complete(), agent.report())
        used = [index for run in (first, agent) for entry in self.of(run, "step") if run is agent or entry["step"] <= 10 for index in entry["indices"]]
        self.assertEqual(list(range(240)), sorted(used))
        steps = self.of(agent, "step")
        self.assertEqual((11, 30), (steps[0]["step"], steps[-1]["step"]))
        self.assertEqual({30}, {entry["count"] for entry in steps if entry["step"] == 30})

    def test_evaluation_within_an_epoch(self):
        """Every three steps, some batches are evaluated. They are always the same, and nothing is committed meanwhile."""
        agent, workers = self.begin(2, 1, SAMPLES=160, EVERY=3, BATCHES=2)
        self.evaluating(agent, 6)
        agent.kill(workers[0])  # rank 0
        agent.go(workers[2])
        self.finish(agent, samples=160, lost=1)
        evaluations = self.of(agent, "evaluation")
        self.assertLess(6, len(evaluations))
        self.assertEqual({tuple(range(16))}, {tuple(entry["indices"]) for entry in evaluations})
        self.check_slow(agent, "evaluation")

    def test_killed_in_the_evaluation_of_an_epoch(self):
        """The last step of the epoch and the evaluation are repeated."""
        agent, workers = self.begin(2, 1, SAMPLES=80, EPOCHS=2, EVALUATE=0.3)
        self.evaluating(agent, 10)
        agent.go(workers[2])  # a change that is not to come within it
        agent.kill(workers[1])
        self.finish(agent, samples=80, epochs=2, lost=1)
        self.assertEqual({tuple(range(30))}, {tuple(entry["indices"]) for entry in self.of(agent, "evaluation")})  # without repetitions

    def evaluating(self, agent, step):
        """Waits until an evaluation after this step is running."""
        agent.until(lambda: len(self.of(agent, "evaluates", step=step)) > 2, what="the second batch of an evaluation")

    def test_what_does_not_work_is_refused(self):
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        class Endless(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(())

        def prepared(**arguments):
            return ElasticAccelerator(cpu=True).prepare(torch.utils.data.DataLoader(**arguments))

        for arguments, text in (
                ({"dataset": Endless(), "num_workers": 2}, "2 worker processes would each read"),
                ({"dataset": Endless(), "batch_size": None}, "batches of its own"),
                ({"dataset": range(4), "sampler": torch.utils.data.DistributedSampler(range(4), 2, 0)}, "DistributedSampler of 2 replicas"),
                ({"dataset": range(4), "batch_size": None}, "batches of its own"),
                ({"dataset": range(4), "batch_sampler": [[1], [2]]}, "batches of its own")):
            with self.assertRaisesRegex(ValueError, text):
                prepared(**arguments)
        with self.assertRaisesRegex(ValueError, "split_batches"):
            ElasticAccelerator(cpu=True, dataloader_config=accelerate.DataLoaderConfiguration(split_batches=True))
        accelerator = ElasticAccelerator(cpu=True)
        model = accelerator.prepare(torch.nn.Linear(1, 1))
        with self.assertRaisesRegex(RuntimeError, "@accelerator.elastic"):
            model(torch.zeros(1, 1))
        self.assertIsInstance(accelerator.unwrap_model(model), torch.nn.Linear)

    def test_the_seed_of_the_order(self):
        """The seed is that of the script's DataLoaderConfiguration, which may be 0, or else torch's."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        torch.manual_seed(5)
        for given, expected in (None, 5), (0, 0), (3, 3):
            accelerator = ElasticAccelerator(cpu=True, dataloader_config=accelerate.DataLoaderConfiguration(data_seed=given))
            self.assertEqual(expected, accelerator.progress.seed)

    def test_loaders_of_the_same_length(self):
        """Each loader has its own order: in each epoch, a step with batches of both combines other samples."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        loaders = ElasticAccelerator(cpu=True).prepare(*(torch.utils.data.DataLoader(range(20), shuffle=True) for _ in range(2)))
        one, other = ([batch.item() for batch in loader] for loader in loaders)
        self.assertEqual(sorted(one), sorted(other))
        self.assertNotEqual(one, other)

    def test_models_divided_among_processes_are_refused(self):
        """They are divided by arguments, or by the variables of accelerate launch. Accelerate would ignore some of these while a process is alone."""
        from accelerate.utils import FullyShardedDataParallelPlugin, ParallelismConfig

        from kolo.integrations.accelerate import ElasticAccelerator

        for arguments, text in (
                ({"fsdp_plugin": FullyShardedDataParallelPlugin(fsdp_version=2)}, "FSDP is not supported .* kolo.Sharded"),
                ({"parallelism_config": ParallelismConfig(tp_size=2)}, "tensor, sequence or context parallelism .* kolo.Sharded")):
            with self.assertRaisesRegex(ValueError, text):
                ElasticAccelerator(cpu=True, **arguments)
        for name, text in (("FSDP", "FSDP is not"), ("DEEPSPEED", "DeepSpeed is not"), ("MEGATRON_LM", "Megatron-LM is not"),
                           ("PARALLELISM_CONFIG", "tensor, sequence or context parallelism")):
            with mock.patch.dict(os.environ, {"ACCELERATE_USE_" + name: "true"}), self.assertRaisesRegex(ValueError, text):
                ElasticAccelerator(cpu=True)

    def test_stops_early(self):
        """The number of bad evaluations is registered for checkpoints. It is kept when the process that has counted them leaves."""
        agent, workers = self.begin(1, 1, SAMPLES=300, EPOCHS=20, PATIENCE=3)
        agent.until(lambda: self.of(agent, "evaluation"), what="an evaluation")
        agent.go(workers[1])
        agent.formed(2)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.assertEqual([0, 0], agent.complete(), agent.report())
        self.assertEqual({0, 1, 2}, {entry["epoch"] for entry in self.of(agent, "step")})
        (done,) = self.of(agent, "done")
        self.assertEqual(max(entry["step"] for entry in self.of(agent, "evaluation")), done["step"])

    def test_epochs_that_a_script_counts_itself(self):
        """They are refused, because training would otherwise end silently after the first epoch."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        accelerator = ElasticAccelerator(cpu=True)
        model = torch.nn.Linear(1, 1)
        loader, model, optimizer = accelerator.prepare(
            torch.utils.data.DataLoader(torch.zeros(4, 1)), model, torch.optim.SGD(model.parameters(), 0.1))

        @accelerator.elastic
        def train():
            for _ in range(2):
                for x in loader:
                    accelerator.backward(model(x).sum())
                    optimizer.step()

        with self.assertRaisesRegex(RuntimeError, r"accelerator\.epochs"):
            train()

    def test_a_group_for_which_less_than_a_step_is_left(self):
        """With drop_last, the epoch is then over, also in a process that trained in the last group."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        class Numbers(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(torch.arange(20.0).reshape(20, 1))

        accelerator = ElasticAccelerator(cpu=True)
        model = torch.nn.Linear(1, 1)
        loader, model, optimizer = accelerator.prepare(
            torch.utils.data.DataLoader(Numbers(), 4, drop_last=True), model, torch.optim.SGD(model.parameters(), 0.1))
        read = []

        @accelerator.elastic
        def train():
            for _ in accelerator.epochs(2):
                for share in 4, 8:  # of the only process, in two groups
                    accelerator.share = lambda _, share=share: share
                    accelerator._enter()
                    for x in loader:
                        read.append(len(x))
                        accelerator.backward(model(x).sum())
                        optimizer.step()
                        if len(read) % 4 == 0:
                            break

        train()
        self.assertEqual([4] * 8, read)

    def test_a_step_with_batches_of_two_loaders(self):
        """The first loader makes the step. The group changes at its commit, and both loaders go on from their positions."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        for change in 1, 2:
            accelerator = ElasticAccelerator(cpu=True)
            model = torch.nn.Linear(1, 1)
            one, other, model, optimizer = accelerator.prepare(
                *(torch.utils.data.DataLoader(torch.arange(5.0).view(-1, 1)) for _ in range(2)), model, torch.optim.SGD(model.parameters(), 0.1))
            read, commit = [], accelerator._commit

            def changed(commit=commit, change=change, read=read):
                commit()
                if len(read) == change:
                    raise InterruptedError

            def body(accelerator=accelerator, one=one, other=other, model=model, optimizer=optimizer, read=read):
                for _ in accelerator.epochs(1):
                    for x, y in zip(one, other):
                        accelerator.backward(model(x).sum())
                        optimizer.step()
                        read.append((x.item(), y.item()))

            @accelerator.elastic
            def train(accelerator=accelerator, body=body, changed=changed, commit=commit):
                with mock.patch.object(accelerator, "_commit", changed), self.assertRaises(InterruptedError):
                    body()
                accelerator._enter()
                body()

            train()
            self.assertEqual([(number, number) for number in range(5)], read)

    def test_a_second_loader_that_is_read_again(self):
        """It is shorter than the first one, and is read again within an epoch of the first."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        accelerator = ElasticAccelerator(cpu=True)
        model = torch.nn.Linear(1, 1)
        loader, other, model, optimizer = accelerator.prepare(
            *(torch.utils.data.DataLoader(torch.arange(count).view(-1, 1)) for count in (5.0, 2.0)), model, torch.optim.SGD(model.parameters(), 0.1))
        read = []

        @accelerator.elastic
        def train():
            again = iter(other)
            for _ in accelerator.epochs(1):
                for x in loader:
                    y = next(again, None)
                    if y is None:
                        again = iter(other)
                        y = next(again)
                    accelerator.backward(model(x).sum())
                    optimizer.step()
                    read.append((x.item(), y.item()))

        train()
        self.assertEqual([(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)], read)

    def test_batches_that_are_looked_at(self):
        """The iterator that looks at them still exists while the script trains, and ends only then. Each sample is used once."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        accelerator = ElasticAccelerator(cpu=True)
        model = torch.nn.Linear(1, 1)
        loader, model, optimizer = accelerator.prepare(
            torch.utils.data.DataLoader(torch.arange(5.0).view(-1, 1)), model, torch.optim.SGD(model.parameters(), 0.1))
        looks = [iter(loader)]
        next(looks[0])
        read = []

        @accelerator.elastic
        def train():
            for _ in accelerator.epochs(1):
                for x in loader:
                    looks.clear()
                    accelerator.backward(model(x).sum())
                    optimizer.step()
                    read.append(x.item())

        train()
        self.assertEqual([0, 1, 2, 3, 4], read)
        self.assertEqual((1, 0), (loader.position.epoch, loader.position.used))

    def test_an_evaluation_that_is_left_early(self):
        """The last step of an epoch is still made, although it has fewer passes."""
        import torch

        from kolo.integrations.accelerate import ElasticAccelerator

        accelerator = ElasticAccelerator(cpu=True, gradient_accumulation_steps=2)
        model = torch.nn.Linear(1, 1)
        loader, tests, model, optimizer = accelerator.prepare(
            *(torch.utils.data.DataLoader(torch.ones(3, 1)) for _ in range(2)), model, torch.optim.SGD(model.parameters(), 0.1))
        synchronized = []

        @accelerator.elastic
        def train():
            for _ in accelerator.epochs(2):
                for x in loader:
                    with accelerator.accumulate(model):
                        accelerator.backward(model(x).sum())
                        optimizer.step()
                        optimizer.zero_grad()
                    synchronized.append(accelerator.sync_gradients)
                    for _ in tests:
                        break

        train()
        self.assertEqual([False, True, True] * 2, synchronized)

    def test_within_the_function(self):
        """The script's gradient compression is applied. Calls that each group would repeat are refused."""
        import torch
        from accelerate.utils import DDPCommunicationHookType

        from kolo.integrations.accelerate import ElasticAccelerator

        accelerator = ElasticAccelerator(cpu=True, kwargs_handlers=[
            accelerate.DistributedDataParallelKwargs(comm_hook=DDPCommunicationHookType.BF16)])
        model = torch.nn.Linear(1, 1)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))

        @accelerator.elastic
        def train():
            accelerator.backward(model(torch.ones(1, 1)).sum())
            self.assertIn("bf16_compress", model._get_ddp_logging_data()["comm_hook"])
            with self.assertRaisesRegex(RuntimeError, "call load_state before"):
                accelerator.load_state("somewhere")

        train()
        saved = tempfile.TemporaryDirectory()
        self.addCleanup(saved.cleanup)
        accelerator.save_state(saved.name)
        accelerator.load_state(saved.name)
        with self.assertRaisesRegex(RuntimeError, "one elastic function"):
            train()


if __name__ == "__main__":
    unittest.main()
