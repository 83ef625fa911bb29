# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""AdaptiveBatch with real gradients of one process, and the samples of ranks whose batch changes."""

import collections
import math
import random
import types
import unittest
import warnings
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import kolo.torch as kolo
from kolo.torch import place
from kolo.torch.adaptive import batch as batches
from kolo.torch.adaptive import measure
from kolo.torch.state.state import core_of
from kolo.worker import Place


class Mean(torch.nn.Module):
    """A model whose gradient is the mean of its inputs."""

    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return (x @ self.weight).mean()


class Alone(unittest.TestCase):
    """A group of one process."""

    @classmethod
    def setUpClass(cls):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()

    def setUp(self):
        torch.manual_seed(1)


class Gradients(Alone):
    def train(self, batch, model, optimizer, data, steps, after=lambda: None):
        ddp = DistributedDataParallel(model)
        made = 0
        for x in data:
            with batch.accumulate(ddp):
                ddp(x).square().mean().backward()
            complete = batch.complete
            self.assertEqual(complete, batch.step(optimizer))
            self.assertFalse(batch.complete)
            if complete:
                after()
                made += 1
        self.assertEqual(steps, made)

    def test_passes_make_the_steps_of_whole_batches(self):
        data = torch.randn(20, 12, 5)
        ours, theirs = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
        theirs.load_state_dict(ours.state_dict())
        optimizers = [torch.optim.SGD(model.parameters(), 0.1, momentum=0.9) for model in (ours, theirs)]
        batch = kolo.AdaptiveBatch(initial=12, max=12, local_max=4, lr="adascale", every=3)
        self.assertEqual((4, 3, 12), (batch.local, batch.passes, batch.total))
        self.train(batch, ours, optimizers[0], data.reshape(60, 4, 5), 20)
        for x in data:
            optimizers[1].zero_grad()
            theirs(x).square().mean().backward()
            optimizers[1].step()
        for mine, other in zip(ours.parameters(), theirs.parameters()):
            torch.testing.assert_close(mine, other)
        self.assertAlmostEqual(20, batch.progress)

    def test_each_sample_of_a_last_step_has_the_same_weight(self):
        """The last pass of an epoch has one sample."""
        data = torch.randn(9, 5)
        ours, theirs = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
        theirs.load_state_dict(ours.state_dict())
        batch = kolo.AdaptiveBatch(initial=12, max=12, local_max=4, lr="linear", every=2)
        ddp, gradient = DistributedDataParallel(ours), None
        optimizer = torch.optim.SGD(ours.parameters(), 0.0)
        for x in batch.batches(lambda local: data.split(local)):
            batch.record(len(x))
            with batch.accumulate(ddp):
                ddp(x).square().mean().backward()
            if batch.complete:
                gradient = ours.weight.grad.clone()
            batch.step(optimizer)
        theirs(data).square().mean().backward()
        torch.testing.assert_close(gradient, theirs.weight.grad)
        self.assertIsNone(batch.noise_scale)

    def test_the_learning_rate_is_scaled_in_the_step_only(self):
        model = torch.nn.Linear(5, 3)
        optimizer = torch.optim.SGD([{"params": [model.weight], "lr": 0.1}, {"params": [model.bias], "lr": 0.2}])
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        seen = []
        optimizer.register_step_pre_hook(lambda *_: seen.append([group["lr"] for group in optimizer.param_groups]))
        batch = kolo.AdaptiveBatch(initial=4, max=16, local_max=16, lr="linear")
        batch.adopt(12)
        self.train(batch, model, optimizer, torch.randn(2, 12, 5), 2, scheduler.step)
        self.assertEqual([[0.1 * 3, 0.2 * 3], [0.05 * 3, 0.1 * 3]], seen)
        self.assertEqual([0.025, 0.05], [group["lr"] for group in optimizer.param_groups])

    def test_the_learning_rate_after_a_step_that_fails(self):
        model = torch.nn.Linear(5, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        batch = kolo.AdaptiveBatch(initial=4, max=16, local_max=16, lr="linear")
        batch.adopt(16)
        with mock.patch.object(optimizer, "step", side_effect=ValueError), self.assertRaises(ValueError):
            self.train(batch, model, optimizer, torch.randn(1, 16, 5), 1)
        self.assertEqual(0.1, optimizer.param_groups[0]["lr"])

    def noise(self, local_max, optimizer=lambda p: torch.optim.SGD(p, 0.0), steps=500, every=2, weights=None):
        """Returns the estimated noise scale of gradients with a known distribution, relative to the true one."""
        width = 100
        mean, deviation = torch.randn(width), 1 + 3 * torch.rand(width)
        model = Mean(width)
        ddp, optimizer = DistributedDataParallel(model), optimizer(model.parameters())
        batch = kolo.AdaptiveBatch(initial=16, max=16, local_max=local_max, lr="linear", every=every)
        scales = []
        for _ in range(steps):
            for _ in range(batch.passes):
                with batch.accumulate(ddp):
                    ddp(mean + deviation * torch.randn(batch.local, width)).backward()
                batch.step(optimizer)
            scales.append(batch.noise_scale)
        scales = [scale for scale in scales[steps // 5:] if scale]
        weight = 1 if weights is None else 1 / weights(mean, deviation)
        truth = float((deviation.square() * weight).sum() / (mean.square() * weight).sum())
        return sum(scales) / len(scales) / truth

    def test_noise_of_passes(self):
        self.assertAlmostEqual(1, self.noise(4), delta=0.1)

    def test_noise_of_consecutive_gradients(self):
        self.assertAlmostEqual(1, self.noise(16), delta=0.1)
        self.assertAlmostEqual(1, self.noise(16, every=5, steps=1000), delta=0.15)

    def test_noise_with_adam(self):
        """In Adam's step, each gradient is divided by its scale. Without that, the noise scale would be wrong."""
        def second_moment(mean, deviation):
            return mean.square() + deviation.square() / 16

        for local_max in 4, 16:
            ratio = self.noise(local_max, lambda p: torch.optim.AdamW(p, 0.0, betas=(0.9, 0.99), weight_decay=0), steps=1000, weights=second_moment)
            self.assertAlmostEqual(1, ratio, delta=0.15)

    def test_a_gradient_that_is_divided_in_parts(self):
        for dtype, delta in ((torch.float64, 1e-9), (torch.float32, 1e-3), (torch.bfloat16, 1e-3)):
            gradient, second = torch.randn(3, 2 ** 17).to(dtype), torch.rand(3, 2 ** 17).add(0.5).to(dtype)
            expected = (gradient.double() / (second.double().sqrt() / 0.9 + 0.001)).square().sum()
            self.assertAlmostEqual(1, float(measure.scaled_squared(gradient, measure.Scale(second, 0.9, 0.001)) / expected), delta=delta)

    def test_a_young_adam_is_not_measured(self):
        model = torch.nn.Linear(5, 3)
        batch = kolo.AdaptiveBatch(initial=4, max=4, local_max=2, lr="sqrt", every=2)
        self.train(batch, model, torch.optim.Adam(model.parameters()), torch.randn(20, 2, 5), 10)
        self.assertEqual(0, batch.state_dict()["noise"]["count"])
        self.train(batch, model, torch.optim.Adam(model.parameters()), torch.randn(80, 2, 5), 40)
        self.assertGreater(batch.state_dict()["noise"]["count"], 10)

    def test_step_times_of_frequent_measurements(self):
        model = torch.nn.Linear(5, 3)
        batch = kolo.AdaptiveBatch(initial=4, max=4, local_max=4, lr="adascale", every=2)
        self.train(batch, model, torch.optim.SGD(model.parameters(), 0.01), torch.randn(10, 4, 5), 10)
        self.assertEqual([1], [ranks for ranks, _ in batch.state_dict()["times"]])

    def test_half_precision(self):
        model = torch.nn.Linear(5, 3, dtype=torch.bfloat16)
        batch = kolo.AdaptiveBatch(initial=4, max=4, local_max=2, lr="adascale", every=2)
        self.train(batch, model, torch.optim.SGD(model.parameters(), 0.01), torch.randn(40, 2, 5, dtype=torch.bfloat16), 20)
        self.assertEqual(10, batch.state_dict()["noise"]["count"])
        self.assertTrue(math.isfinite(batch.state_dict()["noise"]["signal"]))


class Refusals(Alone):
    def setUp(self):
        super().setUp()
        self.model = torch.nn.Linear(5, 3)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def batch(self, **arguments):
        return kolo.AdaptiveBatch(**{"initial": 8, "max": 32, "local_max": 4, "lr": "adascale", **arguments})

    def test_arguments(self):
        for arguments, message in (
                ({"initial": 0}, "initial=0, max=32, local_max=4: must be"), ({"max": 4}, "initial=8, max=4"), ({"local_max": 0}, "local_max=0"),
                ({"max": 2 ** 31}, "has at most 1073741824 samples"), ({"every": 1}, "every=1: must be 2"), ({"lr": "cube"}, "lr='cube' is none of")):
            with self.assertRaisesRegex(ValueError, message):
                self.batch(**arguments)

    def test_values_that_no_batch_adapts_to(self):
        scaler = torch.amp.GradScaler("cpu") if hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=False)
        for value, message in ((self.batch(), "a State has one AdaptiveBatch"), (scaler, "a GradScaler scales"),
                               (kolo.Sharded(None, "/nowhere"), r"the gradients of a kolo.Sharded \(FSDP2, HSDP\)")):
            for names in (("batch", "other"), ("other", "batch")):  # in either order
                values = {name: self.batch() if name == "batch" else value for name in names}
                with self.assertRaisesRegex(TypeError, r"state.\w+ cannot be part of the state: in a State with an AdaptiveBatch, " + message):
                    kolo.State(**values)
        state = kolo.State(batch=self.batch(), step=0)
        state.batch = self.batch()  # in place of the first

    def test_modules(self):
        FSDPLinear = type("FSDPLinear", (torch.nn.Linear,), {})
        with self.assertRaisesRegex(TypeError, r"DistributedDataParallel of kolo.wrap, not a FSDPLinear: the gradients of sharded models \(FSDP, HSDP\)"):
            with self.batch().accumulate(FSDPLinear(2, 2)):
                pass
        with self.assertRaisesRegex(TypeError, "not a Linear$"):
            with self.batch().accumulate(self.model):
                pass

    def test_replicas(self):
        self.addCleanup(place.enter, None)
        place.enter(Place(1, 0, 4, replica=2))
        with self.assertRaisesRegex(RuntimeError, "does not work with replicas of sharded models"):
            self.batch().reset()

    def test_another_hook(self):
        ddp = DistributedDataParallel(self.model)
        ddp.register_comm_hook(None, lambda _, bucket: None)
        with self.assertRaisesRegex(RuntimeError, "measures gradients in a communication hook, and this"):
            with self.batch().accumulate(ddp):
                pass

    def test_a_forward_pass_outside(self):
        ddp, batch = DistributedDataParallel(self.model), self.batch()
        loss = ddp(torch.randn(4, 5)).mean()
        with self.assertRaisesRegex(RuntimeError, r"do the forward pass within batch.accumulate\(ddp\), too"):
            with batch.accumulate(ddp):
                loss.backward()

    def test_a_commit_within_a_step(self):
        ddp, batch = DistributedDataParallel(self.model), self.batch()
        with batch.accumulate(ddp):
            ddp(torch.randn(4, 5)).mean().backward()
        self.assertFalse(batch.step(self.optimizer))
        with self.assertRaisesRegex(RuntimeError, r"commit after batch.step\(\) has returned True"):
            batch.proposal()

    def test_a_step_without_a_pass(self):
        with self.assertRaisesRegex(RuntimeError, "follows the forward and backward pass"):
            self.batch().step(self.optimizer)

    def test_a_loader_that_is_no_function(self):
        state = kolo.State(batch=self.batch(), sampler=kolo.ElasticSampler(range(8)))
        with self.assertRaisesRegex(TypeError, "needs a function that makes a loader"):
            next(state.batches([[1, 2]]))

    def test_more_ranks_than_samples(self):
        self.addCleanup(place.enter, None)
        place.enter(Place(1, 0, 40))
        batch = self.batch()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            batch.reset()
        self.assertIn("40 ranks take one sample each, more than max=32", str(seen[0].message))
        self.assertEqual((1, 1, 40), (batch.local, batch.passes, batch.total))


class Values(Alone):
    def test_a_state_goes_back(self):
        batch = kolo.AdaptiveBatch(initial=8, max=64, local_max=8, lr="adascale", every=2)
        state = kolo.State(batch=batch, step=0)
        model = torch.nn.Linear(5, 3)
        ddp, optimizer = DistributedDataParallel(model), torch.optim.SGD(model.parameters(), 0.01)

        def steps(count):
            for _ in range(count * batch.passes):
                with batch.accumulate(ddp):
                    ddp(torch.randn(batch.local, 5)).square().mean().backward()
                batch.step(optimizer)

        batch.adopt(24)
        steps(20)
        state.commit()
        committed = batch.state_dict()
        batch.adopt(48)
        steps(10)
        self.assertNotEqual(committed, batch.state_dict())
        with batch.accumulate(ddp):  # a step that is not complete
            ddp(torch.randn(batch.local, 5)).square().mean().backward()
        state.restore()
        self.assertEqual(committed, batch.state_dict())
        self.assertEqual((8, 3), (batch.local, batch.passes))
        steps(1)
        report = state.report()
        self.assertAlmostEqual(batch.efficiency * 3, report["adaptive"].pop("lr_factor"))
        self.assertEqual({"step": 0, "samples": 8 * batch.progress, "adaptive": {
            "initial": 8, "batch": 24, "accumulation": 3, "efficiency": batch.efficiency}}, report)
        self.assertAlmostEqual(batch.efficiency * 3, batch.worth(24))

    def test_the_operator_keeps_the_batch(self):
        batch = kolo.AdaptiveBatch(initial=8, max=64, local_max=8, lr="adascale")
        batch.adopt(32)
        self.assertEqual(32, batch.proposal())
        batch.keep(True)
        self.assertEqual(8, batch.proposal())
        batch.adopt(8)
        self.assertEqual(8, batch.total)
        batch.keep(False)
        self.assertEqual(8, batch.proposal())
        self.addCleanup(place.enter, None)
        place.enter(Place(1, 1, 2))
        self.assertEqual(0, batch.proposal())

    def test_a_refused_commit_has_written_nothing(self):
        batch = kolo.AdaptiveBatch(initial=8, max=8, local_max=4, lr="adascale")
        state = kolo.State(batch=batch, step=0)
        core, session = core_of(state), mock.Mock(size=1)
        core.attach(session)
        model = torch.nn.Linear(5, 3)
        ddp, optimizer = DistributedDataParallel(model), torch.optim.SGD(model.parameters(), 0.01)
        state.commit()
        number = core.ledger.number
        session.reset_mock()
        state.step = 1
        with batch.accumulate(ddp):
            ddp(torch.randn(4, 5)).square().mean().backward()
        self.assertFalse(batch.step(optimizer))
        for refused in (state.commit, state.check):
            with self.assertRaisesRegex(RuntimeError, r"commit after batch.step\(\) has returned True"):
                refused()
        self.assertEqual([], session.method_calls)
        self.assertEqual(number, core.ledger.number)
        state.restore()
        self.assertEqual(0, state.step)

    def test_members_and_newcomers_measure_the_same_steps(self):
        """Measuring is collective. A newcomer has not seen the optimizer before its first step."""
        def step(batch, ddp, optimizer):
            for _ in range(batch.passes):
                with batch.accumulate(ddp):
                    ddp(torch.randn(batch.local, 5)).square().mean().backward()
                batch.step(optimizer)
            return batch.state_dict()["noise"]["count"]

        for before in 3, 4, 5:
            made = []
            for _ in range(2):
                model = torch.nn.Linear(5, 3)
                made.append((kolo.AdaptiveBatch(initial=8, max=8, local_max=4, lr="adascale", every=2), DistributedDataParallel(model),
                             torch.optim.SGD(model.parameters(), 0.01)))
            member, newcomer = made
            for _ in range(before):
                step(*member)
            newcomer[0].load_state_dict(member[0].state_dict())
            member[0].drop()
            member = (member[0], DistributedDataParallel(member[1].module), member[2])
            for _ in range(5):
                self.assertEqual(step(*member), step(*newcomer))

    def test_without_one_nothing_is_reported(self):
        self.assertEqual({"step": 1}, kolo.State(step=1).report())
        self.assertIsNone(core_of(kolo.State(step=1)).batch)

    def test_other_bounds_after_a_checkpoint(self):
        batch, other = (kolo.AdaptiveBatch(initial=8, max=most, local_max=8, lr="adascale") for most in (64, 16))
        batch.adopt(64)
        other.load_state_dict(batch.state_dict())
        self.assertEqual(16, other.total)


class Ranks(unittest.TestCase):
    """Ranks that train on an epoch while their batch and their number change at random. There are no gradients."""

    def setUp(self):
        self.addCleanup(place.enter, None)

    def passes(self, batch, rank, size, state, log):
        """A rank's function: yields after each step."""
        ddp = types.SimpleNamespace(no_sync=mock.MagicMock())
        for indices in state.batches(lambda local: DataLoader(range(state.count), local, sampler=state.sampler)):
            meter = mock.Mock(reduced=False)
            with mock.patch.object(batch, "_metered", lambda _, meter=meter: meter), mock.patch.object(batch, "_due", lambda *_: False):
                with batch.accumulate(ddp):
                    pass
            log.append(indices.tolist())
            if batch.step(mock.Mock(param_groups=[])):
                yield

    def epoch(self, seed):
        rng = random.Random(seed)
        count, initial = rng.randint(1, 300), rng.randint(1, 20)
        bounds = {"initial": initial, "max": rng.randint(initial, 80), "local_max": rng.randint(1, 12)}
        position, saved, used, progress, spare = 0, None, collections.Counter(), 0.0, 0
        while True:
            size = rng.randint(1, min(4, bounds["max"]))
            ranks = []
            for rank in range(size):
                place.enter(Place(1, rank, size))
                batch = kolo.AdaptiveBatch(lr=rng.choice(["adascale", "sqrt"]), **bounds)
                if saved:
                    batch.load_state_dict(saved)
                batch.reset()
                state = kolo.State(batch=batch, sampler=kolo.ElasticSampler(range(count), rank=rank, size=size), count=count)
                state.sampler.processed = position
                log = []
                ranks.append((batch, state, log, self.passes(batch, rank, size, state, log)))
            spare += -(count - position) % size
            for _ in range(rng.randint(1, 12)):
                going = [next(passes, "end") for *_, passes in ranks]
                self.assertEqual(1, len(set(going)), seed)  # all ranks make equally many passes
                if going[0] == "end":
                    self.assertEqual(set(range(count)), set(used), seed)
                    self.assertLessEqual(sum(used.values()) - count, spare, seed)
                    return
                for *_, log, _ in ranks:
                    self.assertLessEqual(max(map(len, log)), bounds["local_max"])
                    used.update(index for indices in log for index in indices)
                    log.clear()
                self.assertEqual(1, len({str(batch.state_dict()) for batch, *_ in ranks}))
                self.assertGreater(ranks[0][0].progress, progress)
                progress = ranks[0][0].progress
                position, saved = ranks[0][1].sampler.processed, ranks[0][0].state_dict()
                self.assertLessEqual(ranks[0][0].total, bounds["max"])
                if rng.random() < 0.5:
                    wanted = rng.randint(1, 100)
                    for batch, *_ in ranks:
                        batch.adopt(wanted)
                    saved = ranks[0][0].state_dict()

    def test_each_sample_is_used_once_and_progress_never_falls(self):
        with mock.patch.object(batches, "log"):
            for seed in range(60):
                with self.subTest(seed=seed):
                    self.epoch(seed)


if __name__ == "__main__":
    unittest.main()
