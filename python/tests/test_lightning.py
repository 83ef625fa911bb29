# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lightning in process, under the stand-in for the agent."""

import csv
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

from .agent import HERE, ROOT
from .frameworks import Processes

SCRIPT = os.path.join(HERE, "lightning_script.py")


@unittest.skipUnless(importlib.util.find_spec("lightning"), "needs Lightning")
class Lightning(Processes):
    script = SCRIPT

    def test_grows_and_shrinks(self):
        agent, workers = self.begin(1, 1, SAMPLES=480, ARGUMENTS=json.dumps({"enable_progress_bar": True}))
        agent.stepped(5)
        agent.go(workers[1])
        agent.formed(2)
        agent.stepped(5)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.finish(agent, samples=480)
        self.assertRegex(agent.output(workers[1]), r" (\d+)/\1 ")  # the progress bar goes on where rank 0 is


    def test_a_newcomer_begins_in_the_group_after_one_that_failed(self):
        agent = self.agent(script=SCRIPT)
        first, newcomer = (agent.start(1, RANK=str(rank), TEST_SAMPLES="480", TEST_FAULT=str(rank))[0] for rank in range(2))
        agent.arrived([first, newcomer])
        agent.go(first)
        agent.stepped(5)
        agent.go(newcomer)
        agent.until(lambda: newcomer.reasons == ["start", "failure"], what="it fails")
        agent.formed(2)
        self.finish(agent, samples=480)
        self.assertEqual(2, len(self.of(agent, "begins")))
        self.assertEqual(2, len(self.of(agent, "epoch")))

    def test_a_global_batch_makes_any_sizes_the_training_of_one_process(self):
        """Grows to three, loses one by SIGKILL, shrinks to one. Metrics, validations, rates and weights equal those of one process.

        So do the samples of each step, by a sampler of the script.
        """
        alone, agent = self.alone_and_with_others(GLOBAL=12, WORKERS=1, SCHEDULE=1, SAMPLER=1)

        steps = self.accepted(agent.entries())
        self.assertEqual(66, len(steps))
        for entries in steps.values():
            used = sum(len(entry["indices"]) for entry in entries)
            self.assertTrue(used == 12 or len(entries) < entries[0]["size"], entries)
            if used == 12:
                (one,) = self.of(alone, "step", step=entries[0]["step"])
                self.assertEqual(sorted(one["indices"]), sorted(index for entry in entries for index in entry["indices"]))
            self.assertTrue(all(entry["training"] and entry["world"] == entry["size"] and entry["zero"] == (entry["rank"] == 0)
                                for entry in entries))
        self.assertEqual({(1, 3), (2, 2), (3, 1)}, {(entry["size"], entry["accumulate"]) for entry in self.of(agent, "step")})
        rates = {entry["step"]: entry["rate"] for entry in self.of(alone, "step")}
        for entry in self.of(agent, "step"):
            self.assertAlmostEqual(rates[entry["step"]], entry["rate"], places=9)
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual((66, 2), (done["step"], done["epoch"]))
        self.assertAlmostEqual(expected["sum"], done["sum"], delta=0.02)
        self.assertEqual([33, 66], [entry["step"] for entry in self.of(agent, "validation")])
        for one, other in zip(self.of(alone, "validation"), self.of(agent, "validation")):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=0.01)
        (one,), (other,) = (self.of(run, "epoch_end", epoch=1) for run in (alone, agent))  # the first epoch lacks samples of processes that have left
        self.assertAlmostEqual(one["loss"], other["loss"], delta=0.01)
        logs = [self.logs(run) for run in (alone, agent)]
        self.assertEqual(*[sorted({step for step, _ in run}) for run in logs])
        self.assertEqual(*[run[-1][1].keys() for run in logs])

    def test_an_iterable_data_set(self):
        """The data set goes on by its own state. As with one process, each sample is used once an epoch.

        Newcomers compile before they join. Mixed precision with a GradScaler and a moving average of the weights equal those of one process, too.
        """
        alone, agent = self.alone_and_with_others(GLOBAL=12, STREAM="placed", WORKERS=1, COMPILE="layers", SCALER=1, AVERAGE=1)
        for entry in self.of(agent, "ring"):
            self.assertLess(0, entry["compiled"], entry)
        self.assertEqual({(1, 3), (2, 2), (3, 1)}, {(entry["size"], entry["accumulate"]) for entry in self.of(agent, "step")})
        self.assertEqual(66, len(self.accepted(agent.entries())))
        self.assertEqual([33, 66], [entry["step"] for entry in self.of(agent, "validation")])
        for one, other in zip(self.of(alone, "validation"), self.of(agent, "validation")):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=0.02)
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual({66}, {entry[name] for entry in (expected, done) for name in ("step", "averaged")})
        self.assertEqual((2, expected["scale"]), (done["epoch"], done["scale"]))
        for name in "sum", "average":
            self.assertAlmostEqual(expected[name], done[name], delta=0.05, msg=name)

    def test_a_sampler_with_another_order_in_another_process(self):
        """The difference is noticed at the start of the epoch, before a step is made with wrong samples."""
        self.other_orders()

    def test_bf16(self):
        """Each step is computed in bfloat16, with weights in either type. Validations and weights equal those of one process.

        On CPUs, Lightning replaces 16-mixed with bf16-mixed.
        """
        for precision, within in ("bf16-mixed", 0.05), ("bf16-true", 0.2):
            with self.subTest(precision=precision):
                alone, agent = self.alone_and_with_others(GLOBAL=12, ARGUMENTS=json.dumps({"precision": precision}))
                for run in alone, agent:
                    self.assertEqual({"torch.bfloat16"}, {entry["computed"] for entry in self.of(run, "step")})
                self.assertEqual(66, len(self.accepted(agent.entries())))
                self.assertEqual([33, 66], [entry["step"] for entry in self.of(agent, "validation")])
                for one, other in zip(self.of(alone, "validation"), self.of(agent, "validation")):
                    self.assertAlmostEqual(one["loss"], other["loss"], delta=0.02)
                (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
                self.assertAlmostEqual(expected["sum"], done["sum"], delta=within)

        from lightning.pytorch import Trainer

        from kolo.integrations.lightning import ElasticStrategy

        trainer = Trainer(strategy=ElasticStrategy(), accelerator="cpu", precision="16-mixed", logger=False, enable_progress_bar=False)
        self.assertEqual("bf16-mixed", trainer.precision_plugin.precision)

    def test_an_iterable_data_set_from_a_checkpoint(self):
        """The checkpoint is from the middle or the end of an epoch. Each sample is used once an epoch, also with another global batch."""
        import torch
        from lightning.pytorch import LightningModule, Trainer, callbacks
        from torch.utils.data import DataLoader, IterableDataset

        from kolo.integrations.lightning import ElasticStrategy

        used = []

        class Items(IterableDataset):
            def __iter__(self):
                return iter(torch.arange(16.0).reshape(16, 1))

        class Net(LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(1, 1)

            def training_step(self, batch, batch_idx):
                used.extend(batch[:, 0].int().tolist())
                return self.layer(batch).sum()

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        def fit(directory, steps, global_batch, **arguments):
            trainer = Trainer(strategy=ElasticStrategy(global_batch), accelerator="cpu", max_steps=steps, max_epochs=-1, logger=False,
                              enable_progress_bar=False, enable_model_summary=False, default_root_dir=directory, callbacks=[
                                  callbacks.ModelCheckpoint(dirpath=directory, every_n_train_steps=steps, filename="saved")])
            trainer.fit(Net(), DataLoader(Items(), batch_size=4), **arguments)
            self.assertEqual(steps, trainer.global_step)

        for steps in 3, 4:
            for first, second in ((4, 4), (4, 8), (None, None)):
                with self.subTest(steps=steps, batches=(first, second)), tempfile.TemporaryDirectory() as directory:
                    used.clear()
                    fit(directory, steps, first)
                    fit(directory, 8, second, ckpt_path=os.path.join(directory, "saved.ckpt"))
                    self.assertEqual([[*range(16)]] * 2, [sorted(used[at:at + 16]) for at in (0, 16)])

    def logs(self, agent):
        """The rows that CSVLogger has written, with their steps."""
        path = os.path.join(agent.directory.name, "output", "lightning_logs")
        self.assertEqual(["version_0"], os.listdir(path))
        with open(os.path.join(path, "version_0", "hparams.yaml")) as file:
            self.assertEqual("width: 32\n", file.read())
        with open(os.path.join(path, "version_0", "metrics.csv")) as file:
            return [(int(row["step"]), row) for row in csv.DictReader(file)]

    @unittest.skipUnless(importlib.util.find_spec("tensorboard"), "needs TensorBoard")
    def test_tensorboard_goes_on_where_rank_0_moves(self):
        """It continues in the same version, with each step that was logged."""
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        agent, workers = self.begin(1, 1, SAMPLES=400, TENSORBOARD=1)
        agent.stepped(12)
        agent.go(workers[1])
        agent.formed(2)
        agent.stepped(12)
        agent.shrink(workers[1:])
        agent.formed(1)
        self.finish(agent, samples=400)
        path = os.path.join(agent.directory.name, "output", "lightning_logs")
        self.assertEqual(["version_0"], os.listdir(path))
        events = EventAccumulator(os.path.join(path, "version_0"))
        events.Reload()
        steps = [event.step for event in events.Scalars("loss_step")]
        last = self.of(agent, "step")[-1]["step"]
        self.assertEqual(list(range(4, last, 5)), steps)

    def test_steps_grow_with_the_processes(self):
        """Without global_batch, each epoch has every sample once, for steps of any size. The module is compiled."""
        agent, workers = self.begin(
            2, 1, fork=False, SAMPLES=400, EPOCHS=2, AFTER=1, COMPILE="module", ARGUMENTS=json.dumps({"accumulate_grad_batches": 2}))
        agent.stepped(5)
        agent.go(workers[2])
        agent.formed(3)
        agent.stepped(5)
        agent.shrink(workers[1:2])
        agent.formed(2)
        self.finish(agent, samples=400, epochs=2)
        used = {sum(len(entry["indices"]) for entry in entries) for entries in self.accepted(agent.entries()).values()}
        self.assertLessEqual({16, 24}, used)
        self.assertEqual({2}, {entry["accumulate"] for entry in self.of(agent, "step")})
        for number in (0, 1):  # each process begins each epoch once
            self.assertLessEqual(len(self.of(agent, "epoch", epoch=number)), 3)
        self.assertEqual(3, len(self.of(agent, "begins")))
        for entry in self.of(agent, "done"):
            self.assertLess(0, entry["compiled"])
        self.assertEqual(3 + 1, len(self.of(agent, "prepares")))  # after the training, Lightning prepares once on each host

    def test_killed_while_it_validates(self):
        """The step and its whole validation are repeated."""
        agent, workers = self.begin(3, SAMPLES=240, GLOBAL=12, SLEEP_VALIDATING=0.3, ARGUMENTS=json.dumps({"val_check_interval": 5}))
        agent.until(lambda: self.of(agent, "validates", step=10), what="it validates")
        agent.kill(workers[0])
        self.finish(agent, samples=240, lost=1)
        self.assertEqual({5, 10, 15, 20}, {entry["step"] for entry in self.of(agent, "validation")})
        self.assertEqual({False}, {entry["training"] for entry in self.of(agent, "validates")})
        self.assertEqual({True}, {entry["training"] for entry in self.of(agent, "step")})

    def test_goes_on_from_a_checkpoint_of_the_framework(self):
        """Two processes write the checkpoint; one loads it, and a newcomer joins. Each sample is used once.
        Lightning alone can read the checkpoint, too.
        """
        options = {"SAMPLES": 240, "GLOBAL": 8, "EVERY": 10, "EPOCHS": 2, "SCHEDULE": 1}
        first, workers = self.begin(2, **options)
        checkpoint = os.path.join(first.directory.name, "output", "steps", "step=10.ckpt")
        first.until(lambda: self.of(first, "step", step=12), what="12 steps")
        for worker in workers:
            first.kill(worker)

        agent, workers = self.begin(1, 1, RESUME=checkpoint, **options)
        agent.stepped(5)
        agent.go(workers[1])
        agent.formed(2)
        self.assertEqual([0] * 2, agent.complete(), agent.report())
        for epoch in (0, 1):
            used = [index for run in (first, agent) for entry in self.of(run, "step", epoch=epoch) if run is agent or entry["step"] <= 10
                    for index in entry["indices"]]
            self.assertEqual(list(range(240)), sorted(used))
        steps = self.of(agent, "step")
        self.assertEqual((11, 60), (steps[0]["step"], steps[-1]["step"]))
        for entry in steps:
            self.assertAlmostEqual(1e-2 * (1 - (entry["step"]) / 60), entry["rate"])
        self.assertEqual([30, 60], sorted({entry["step"] for entry in self.of(agent, "validation")}))
        self.check_slow(agent, "checkpoint", "validation")

        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(
                [sys.executable, SCRIPT, "--records", os.path.join(directory, "records")], capture_output=True, text=True,
                env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "TEST_PLAIN": "1", "TEST_RESUME": checkpoint, "TEST_SAMPLES": "240",
                     "TEST_SLEEP": "0"})
            self.assertEqual(0, done.returncode, done.stderr)

    def test_callbacks_take_their_state_along(self):
        """Early stopping keeps its count when the process that has counted leaves."""
        agent, workers = self.begin(1, 1, SAMPLES=2000, PATIENCE=3, ARGUMENTS=json.dumps({"val_check_interval": 10, "check_val_every_n_epoch": None}))
        agent.until(lambda: self.of(agent, "validation", step=20), what="two validations")
        agent.go(workers[1])
        agent.formed(2)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.assertEqual([0, 0], agent.complete(), agent.report())
        (done,) = self.of(agent, "done")
        self.assertEqual(40, done["step"], agent.report())  # the first is the best, and three are no better

    def test_what_does_not_work_is_refused_at_the_start(self):
        import torch
        from lightning.pytorch import LightningModule, Trainer, callbacks
        from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

        from kolo.integrations.lightning import ElasticStrategy

        class Net(LightningModule):
            def __init__(self, optimizer=torch.optim.SGD):
                super().__init__()
                self.layer, self.optimizer = torch.nn.Linear(1, 1), optimizer

            def training_step(self, batch, batch_idx):
                return self.layer(batch).sum()

            def configure_optimizers(self):
                return self.optimizer(self.parameters(), lr=0.1)

        class Manual(Net):
            automatic_optimization = False

        class Scheduled(Net):
            def configure_optimizers(self):
                return super().configure_optimizers() if self.trainer.estimated_stepping_batches else None

        class Iterator(Net):
            def training_step(self, dataloader_iter):
                return None

        class Parallel(Net):
            def configure_model(self):
                torch.distributed.fsdp.fully_shard(self.layer, mesh=self.device_mesh["data_parallel"])

        class Whole(Net):
            def configure_model(self):
                torch.distributed.fsdp.fully_shard(self.layer, mesh=self.device_mesh)

        class Endless(IterableDataset):
            def __iter__(self):
                return iter(())

        data = torch.zeros(8, 1)

        def fit(text, model=Net, loader=None, global_batch=None, **arguments):
            with tempfile.TemporaryDirectory() as directory, self.assertRaisesRegex(ValueError, text):
                Trainer(strategy=ElasticStrategy(global_batch), accelerator="cpu", devices=1, max_epochs=1, logger=False, enable_progress_bar=False,
                        enable_model_summary=False, enable_checkpointing=False, default_root_dir=directory, **arguments).fit(
                            model(), DataLoader(data, batch_size=2) if loader is None else loader)

        fit("manual optimization", Manual)
        for model in Parallel, Whole:
            fit("does not support a sharded module .* kolo.Sharded", model)
        fit("limit_train_batches", limit_train_batches=3)
        fit("fast_dev_run", fast_dev_run=True)
        fit("reload_dataloaders_every_n_epochs", reload_dataloaders_every_n_epochs=1)
        fit("use_distributed_sampler=False", use_distributed_sampler=False)
        fit("sync_batchnorm", sync_batchnorm=True)
        fit("a time as val_check_interval", val_check_interval="00:00:01:00")
        fit("val_check_interval=0.5 without global_batch", val_check_interval=0.5)
        fit("more than the 4 steps", val_check_interval=5, global_batch=2)
        fit("accumulate_grad_batches with global_batch", accumulate_grad_batches=2, global_batch=4)
        fit("the callback StochasticWeightAveraging", callbacks=[callbacks.StochasticWeightAveraging(swa_lrs=0.1)])
        fit("dataloader_iter", Iterator)
        fit("estimated_stepping_batches needs ElasticStrategy", Scheduled)
        fit("LBFGS", lambda: Net(torch.optim.LBFGS))
        fit("not one DataLoader", loader=[DataLoader(data), DataLoader(data)])
        fit("2 worker processes would each read", loader=DataLoader(Endless(), num_workers=2))
        fit("drop_last of an iterable data set needs", loader=DataLoader(Endless(), batch_size=2, drop_last=True))
        fit("a part of the length of an iterable", loader=DataLoader(Endless()), val_check_interval=0.5, global_batch=2)
        fit("a batch_sampler of its own", loader=DataLoader(data, batch_sampler=[[0], [1]]))
        fit("a DistributedSampler of 2 replicas", loader=DataLoader(data, sampler=DistributedSampler(data, 2, 0)))
        with self.assertRaisesRegex(ValueError, "at least 1"):
            ElasticStrategy(global_batch=0)
        with self.assertRaisesRegex(ValueError, "no argument 'start_method'"):
            ElasticStrategy(start_method="spawn")


if __name__ == "__main__":
    unittest.main()
