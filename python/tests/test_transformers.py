# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The Trainer of Transformers in process, under the stand-in for the agent."""

import importlib.util
import json
import os
import tempfile
import unittest
from unittest import mock

from .agent import HERE
from .frameworks import Processes

SCRIPT = os.path.join(HERE, "trainer_script.py")


@unittest.skipUnless(importlib.util.find_spec("transformers") and importlib.util.find_spec("accelerate"), "needs Transformers and Accelerate")
class Trainer(Processes):
    script = SCRIPT

    def test_grows_and_shrinks(self):
        agent, workers = self.begin(1, 1, SAMPLES=480)
        agent.stepped(5)
        agent.go(workers[1])
        agent.formed(2)
        agent.stepped(5)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.finish(agent, samples=480)

    def test_a_global_batch_makes_any_sizes_the_training_of_one_process(self):
        """Grows to three, loses one by SIGKILL, shrinks to one. Logs, evaluations, rates and weights equal those of one process.

        So do the samples of each step, by a sampler of the script, a callback's moving average of the weights, and a GradScaler's scale.
        """
        alone, agent = self.alone_and_with_others(
            GLOBAL=12, WORKERS=1, SAMPLER=1, SCALER=1, ARGUMENTS=json.dumps({"eval_strategy": "epoch", "warmup_steps": 10, "max_grad_norm": 0.5}))

        steps = self.accepted(agent.entries())
        self.assertEqual(66, len(steps))
        for entries in steps.values():
            self.assertEqual({66}, {entry["total"] for entry in entries})
            used = sum(len(entry["indices"]) for entry in entries)
            self.assertTrue(used == 12 or len(entries) < entries[0]["size"], entries)
            if used == 12:
                (one,) = self.of(alone, "step", step=entries[0]["step"])
                self.assertEqual(sorted(one["indices"]), sorted(index for entry in entries for index in entry["indices"]))
        self.assertEqual({1, 2, 3}, {entry["size"] for entry in self.of(agent, "step")})
        rates = {entry["step"]: entry["rate"] for entry in self.of(alone, "step")}
        for entry in self.of(agent, "step"):
            self.assertAlmostEqual(rates[entry["step"]], entry["rate"], places=9)
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual({66}, {entry[name] for entry in (expected, done) for name in ("step", "averaged")})
        self.assertEqual(expected["scale"], done["scale"])
        for name, delta in ("sum", 0.02), ("average", 0.02), ("loss", 0.01):
            self.assertAlmostEqual(expected[name], done[name], delta=delta, msg=name)
        for kind, name in (("log", "loss"), ("log", "grad_norm"), ("evaluation", "loss")):
            values = [{entry["step"]: entry.get("logs", entry)[name] for entry in self.of(run, kind) if name in entry.get("logs", entry)}
                      for run in (alone, agent)]
            self.assertEqual(*[sorted(one) for one in values])
            for step, value in values[0].items():
                self.assertAlmostEqual(value, values[1][step], delta=0.02, msg="%s of step %d" % (name, step))

    def test_steps_grow_with_the_processes(self):
        """Without global_batch, the schedule counts samples, and each epoch has every sample once, for steps of any size."""
        agent, workers = self.begin(2, 1, fork=False, SAMPLES=400, EPOCHS=2.0, ACCUMULATE=2)
        agent.stepped(5)
        agent.go(workers[2])
        agent.formed(3)
        agent.stepped(5)
        agent.shrink(workers[1:2])
        agent.formed(2)
        self.finish(agent, samples=400, epochs=2)
        steps = self.of(agent, "step")
        self.assertEqual({16, 24}, {sum(len(entry["indices"]) for entry in entries) for entries in self.accepted(agent.entries()).values()} - {8, 16 - 8})
        self.assertEqual({2}, {entry["accumulate"] for entry in steps})
        for entry in steps:
            self.assertAlmostEqual(1e-3 * (1 - entry["fraction"] / 2), entry["rate"], delta=3e-5)
        self.assertEqual(steps[-1]["step"], steps[-1]["total"])

    def test_an_iterable_data_set(self):
        """The data set goes on by its own state: each sample is used once an epoch, as with one process."""
        alone, agent = self.alone_and_with_others(GLOBAL=12, ARGUMENTS=json.dumps({"max_steps": 66}), STREAM="placed")
        self.assertEqual({1, 2, 3}, {entry["size"] for entry in self.of(agent, "step")})
        self.assertEqual(66, len(self.accepted(agent.entries())))
        (expected,), (*_, done) = self.of(alone, "done"), self.of(agent, "done")
        self.assertEqual(66, done["step"])
        self.assertAlmostEqual(expected["sum"], done["sum"], delta=0.02)
        self.assertAlmostEqual(expected["loss"], done["loss"], delta=0.01)
        fractions = {entry["step"]: entry["fraction"] for entry in self.of(alone, "step")}
        for entry in self.of(agent, "step"):
            self.assertAlmostEqual(fractions[entry["step"]], entry["fraction"])

    @unittest.skipUnless(importlib.util.find_spec("datasets"), "needs datasets of Hugging Face")
    def test_streams_of_hugging_face(self):
        """They are read again, because their state may count samples that are not read yet, and lacks those in the buffer of shuffle()."""
        import datasets

        from kolo.integrations import streams
        from kolo.integrations.batches import Step, deal

        def stream():
            return datasets.Dataset.from_dict({"x": list(range(100))}).to_iterable_dataset(num_shards=2)

        step = Step(10, 1)
        for name, given in {"plain": stream(), "map": stream().map(dict), "filter": stream().filter(lambda sample: True),
                            "shuffle": stream().map(dict).shuffle(seed=1, buffer_size=7).map(dict)}.items():
            with self.subTest(name):
                expected = list(given)
                position, source = streams.StreamPosition(), streams.Source(given)
                batches = streams.StreamBatches(source, position, step, lambda samples: deal(samples, step, 0, 1), False)
                found = []
                for _ in range(4):  # groups
                    for _, batch in zip(range(3), streams.Stream(batches, position)):
                        found += batch
                        position.advance(10)
                self.assertEqual(expected, found)

    def test_an_iterable_data_set_from_a_checkpoint(self):
        """The checkpoint is from the middle or the end of an epoch. Each sample is used once an epoch."""
        import torch

        from kolo.integrations.transformers import elastic

        used = []

        class Items(torch.utils.data.IterableDataset):
            def __iter__(self):
                for number in range(16):
                    yield {"x": torch.full((1,), float(number))}

        def collate(samples):
            used.extend(int(sample["x"]) for sample in samples)
            return {"x": torch.stack([sample["x"] for sample in samples])}

        options = {"per_device_train_batch_size": 4}
        for steps in 3, 4:
            for name, first, second in ("the same", 4, 4), ("twice the samples a step", 4, 8), ("by the size", None, None):
                with self.subTest(name, steps=steps):
                    directory = self.directory()
                    used.clear()
                    elastic(self.trainer(data=Items(), collator=collate, max_steps=steps, save_steps=steps, output_dir=directory, **options),
                            global_batch=first).train()
                    before = used[:4 * steps]  # it reads ahead
                    used.clear()
                    other = elastic(self.trainer(data=Items(), collator=collate, max_steps=8, output_dir=directory, **options), global_batch=second)
                    self.assertEqual(8, other.train(resume_from_checkpoint=True).global_step)
                    self.assertEqual([[*range(16)]] * 2, [sorted((before + used)[at:at + 16]) for at in (0, 16)])
        path = os.path.join(directory, "checkpoint-4", "trainer_state.json")
        with open(path) as file:
            state = json.load(file)
        del state["stateful_callbacks"]["kolo"]
        with open(path, "w") as file:
            json.dump(state, file)
        with self.assertRaisesRegex(ValueError, "without Kolo .* use global_batch"):
            elastic(self.trainer(data=Items(), max_steps=8, output_dir=directory, **options)).train(resume_from_checkpoint=path.rsplit("/", 1)[0])

    def test_goes_on_from_a_checkpoint_of_the_framework(self):
        """Two processes write the checkpoint, and one loads it. A newcomer does not read it. Each sample is
        used once, and Transformers alone can read it.
        """
        options = {"SAMPLES": 240, "GLOBAL": 8, "ARGUMENTS": json.dumps({"save_steps": 10, "save_strategy": "steps"})}
        first, workers = self.begin(2, **options)
        checkpoint = os.path.join(first.directory.name, "output", "checkpoint-10")
        first.until(lambda: self.of(first, "step", step=12), what="12 steps")
        for worker in workers:
            first.kill(worker)
        from transformers import GPT2LMHeadModel, TrainerState
        GPT2LMHeadModel.from_pretrained(checkpoint)
        flos = TrainerState.load_from_json(os.path.join(checkpoint, "trainer_state.json")).total_flos

        agent = self.agent(script=self.script)
        (one,) = self.up(agent, 1, RESUME=checkpoint, AFTER=1, **options)
        (newcomer,) = self.up(agent, 1, RESUME="deleted-by-now", AFTER=1, **options)
        agent.go(one)
        agent.stepped(5)
        agent.go(newcomer)
        agent.formed(2)
        self.assertEqual([0] * 2, agent.complete(), agent.report())
        used = [index for run in (first, agent) for entry in self.of(run, "step") if run is agent or entry["step"] <= 10 for index in entry["indices"]]
        self.assertEqual(list(range(240)), sorted(used))
        steps = self.of(agent, "step")
        self.assertEqual((11, 30, 30), (steps[0]["step"], steps[-1]["step"], steps[-1]["total"]))
        rates = {entry["step"]: entry["rate"] for entry in steps}
        self.assertAlmostEqual(1e-3 * 19 / 30, rates[11])
        self.assertEqual({(30, 3 * flos)}, {(entry["step"], entry["flos"]) for entry in self.of(agent, "done")})
        after = self.of(agent, "after")  # evaluated, predicted and saved by both
        self.assertEqual([(30, False), (30, True)], sorted((entry["predictions"], entry["saved"]) for entry in after))
        self.assertEqual(1, len({entry["loss"] for entry in after}))
        self.check_slow(agent, "checkpoint", "evaluation")

    def test_processes_with_different_checkpoints(self):
        """They end with the reason. This happens if each host has its own files."""
        from transformers.trainer_callback import TrainerState

        agent = self.agent(script=self.script)
        TrainerState(global_step=10).save_to_json(os.path.join(agent.directory.name, "trainer_state.json"))
        workers = [*self.up(agent, 1, RESUME=agent.directory.name), *self.up(agent, 1)]
        agent.go(*workers)
        self.assertEqual([1, 1], agent.complete(), agent.report())
        for worker in workers:
            self.assertIn("different checkpoints, of steps 0 to 10", agent.output(worker))

    def test_callbacks_take_their_state_along(self):
        """Early stopping keeps its count when the process that has counted leaves."""
        agent, workers = self.begin(1, 1, SAMPLES=2000, PATIENCE=3, ARGUMENTS=json.dumps({
            "eval_strategy": "steps", "eval_steps": 10, "save_strategy": "steps", "save_steps": 10, "load_best_model_at_end": True,
            "eval_on_start": True}))
        agent.until(lambda: self.of(agent, "evaluation", step=20), what="two evaluations")
        agent.go(workers[1])
        agent.formed(2)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.assertEqual([0, 0], agent.complete(), agent.report())
        (done,) = self.of(agent, "done")
        self.assertEqual(40, done["step"], agent.report())  # the first is the best, and three are no better
        self.assertEqual([0, 10, 20, 30, 40], sorted({entry["step"] for entry in self.of(agent, "evaluation")}))  # no additional ones for each group

    def test_a_newcomer_compiles_before_it_joins(self):
        """Otherwise all members would wait for it. Mixed precision is on, because it is compiled, too."""
        agent, workers = self.begin(1, 1, SAMPLES=480, ARGUMENTS=json.dumps({"torch_compile": True, "torch_compile_backend": "eager", "bf16": True}))
        agent.stepped(5)
        agent.go(workers[1])
        agent.formed(2)
        agent.stepped(5)
        agent.shrink(workers[:1])
        agent.formed(1)
        self.finish(agent, samples=480)
        for entry in self.of(agent, "ring"):
            self.assertGreater(entry["compiled"], 0, entry)

    def test_a_sampler_with_another_order_in_another_process(self):
        """The difference is noticed at the start of the epoch, before a step is made with wrong samples."""
        self.other_orders()

    def test_samples_grouped_by_length(self):
        """The Trainer's own sampler for it gives each sample once."""
        import torch

        from kolo.integrations.transformers import elastic

        used = []

        def collate(samples):
            used.extend(int(sample["x"]) for sample in samples)
            return {"x": torch.stack([sample["x"] for sample in samples])}

        data = [{"x": torch.full((1,), float(number)), "input_ids": [0] * (1 + number % 5)} for number in range(40)]
        trainer = elastic(self.trainer(data=data, collator=collate, max_steps=10, per_device_train_batch_size=4,
                                       train_sampling_strategy="group_by_length", remove_unused_columns=False))
        self.assertEqual(10, trainer.train().global_step)
        self.assertEqual([*range(40)], sorted(used))
        self.assertEqual(5, len(data[used[0]]["input_ids"]))  # the longest come first

    def test_what_does_not_work_is_refused_at_the_start(self):
        import torch
        import transformers

        from kolo.integrations.transformers import elastic

        class Endless(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(())

        class SomethingElse:
            pass

        class Divides(transformers.Trainer):
            def get_train_dataloader(self):
                return None

        trainer = self.trainer
        for made, text in (
                (trainer(data=Endless(), dataloader_num_workers=2), "2 worker processes would each read"),
                (trainer(data=Endless(), dataloader_num_workers=1, dataloader_persistent_workers=True), "persistent workers"),
                (trainer(data=SomethingElse()), "has no length"),
                (trainer(Divides), "Divides.get_train_dataloader replaces"),
                (trainer(train_sampling_strategy="batch_rebalance"), "train_sampling_strategy='batch_rebalance'"),
                (trainer(auto_find_batch_size=True), "auto_find_batch_size"),
                (trainer(neftune_noise_alpha=1.0), "neftune_noise_alpha"),
                (trainer(accelerator_config={"split_batches": True}), "accelerator_config: split_batches")):
            with self.assertRaisesRegex(ValueError, text):
                elastic(made)
        with self.assertRaisesRegex(ValueError, "at least 1"):
            elastic(trainer(), global_batch=0)

    def test_models_divided_among_processes_are_refused(self):
        """The Trainer itself refuses them while a process is alone, otherwise elastic does."""
        from kolo.integrations.transformers import elastic

        # Transformers sets ACCELERATE_USE_FSDP before it refuses, and later processes would inherit it.
        with mock.patch.dict(os.environ), self.assertRaisesRegex(ValueError, "Using fsdp only works in distributed training"):
            self.trainer(fsdp="full_shard")
        for name in "is_fsdp_enabled", "is_deepspeed_enabled":
            trainer = self.trainer()
            setattr(trainer, name, True)
            with self.assertRaisesRegex(ValueError, "of the TrainingArguments is not supported .* kolo.Sharded .* from checkpoints"):
                elastic(trainer)
        trainer = self.trainer()
        trainer.args.parallelism_config = object()
        with self.assertRaisesRegex(ValueError, "parallelism_config of the TrainingArguments is not supported .* kolo.Sharded"):
            elastic(trainer)

    def test_a_checkpoint_of_more_processes(self):
        """Its number of epochs is larger than its steps would give with fewer processes. Training goes on from there, once, up to max_steps."""
        from kolo.integrations.transformers import elastic

        for skip in False, True:
            with self.subTest(ignore_data_skip=skip):
                directory = self.directory()
                first = elastic(self.trainer(max_steps=4, save_steps=4, output_dir=directory), global_batch=8)
                self.assertEqual(4, first.train().global_step)
                second = elastic(self.trainer(max_steps=6, output_dir=directory, ignore_data_skip=skip), global_batch=2)
                self.assertEqual(6, second.train(resume_from_checkpoint=True).global_step)
                self.assertEqual(4.5, second.state.epoch)
                with self.assertRaisesRegex(RuntimeError, "trains once"):
                    second.train()

    def test_the_state_of_callbacks_goes_by_their_names(self):
        """Loading a checkpoint changes the order of callbacks in that process."""
        from transformers.trainer_callback import EarlyStoppingCallback, ExportableState, TrainerCallback

        from kolo.integrations.transformers import KEPT, elastic

        class Counts(TrainerCallback, ExportableState):
            count = 0

            def state(self):
                return {"args": {}, "attributes": {"count": self.count}}

        early, counts = EarlyStoppingCallback(), Counts()
        early.early_stopping_patience_counter, counts.count = 2, 3
        sender = elastic(self.trainer(callbacks=[early, counts]))
        receiver = elastic(self.trainer(callbacks=[Counts(), Counts(), EarlyStoppingCallback()]))
        sender.add_callback(Counts())
        for one in sender, receiver:
            one._kolo.state = one._kolo.begin()
        sender._globalstep_last_logged = sender._total_loss_scalar = sender._initial_global_step = 0
        sender._tr_loss = None
        sender.state.global_step = sender._kolo.left = 1
        sender._kolo.commit()
        self.assertLess(set(KEPT), set(sender._kolo.progress.fields))
        receiver._kolo.progress.load_state_dict(sender._kolo.progress.state_dict())
        receiver._kolo.resume()
        *_, one, other, stopping = receiver.callback_handler.callbacks[:-1]
        self.assertEqual((3, 0, 2), (one.count, other.count, stopping.early_stopping_patience_counter))

    def trainer(self, kind=None, data=None, callbacks=None, collator=None, **arguments):
        import torch
        import transformers

        class Model(torch.nn.Linear):
            def forward(self, x):
                return {"loss": super().forward(x).square().mean()}

        options = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "max_steps": 4, "output_dir": self.directory(), **arguments}
        data = [{"x": torch.ones(1)}] * 8 if data is None else data
        return (kind or transformers.Trainer)(model=Model(1, 1), args=transformers.TrainingArguments(**options), train_dataset=data, callbacks=callbacks,
                                           data_collator=collator)

    def directory(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name


if __name__ == "__main__":
    unittest.main()
