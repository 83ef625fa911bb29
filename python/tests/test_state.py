# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A State restores all kinds of values that were committed."""

import copy
import os
import pickle
import pickletools
import random
import tempfile
import time
import unittest
import warnings
import zipfile

import torch

import kolo.torch as kolo
from kolo.torch import place
from kolo.torch.state import tree
from kolo.torch.state.state import core_of
from kolo.worker import Place


def network(width=8):
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.BatchNorm1d(width), torch.nn.Linear(width, 1))


def step(model, optimizer, *others):
    optimizer.zero_grad()
    model(torch.randn(6, 4)).square().sum().backward()
    optimizer.step()
    for other in others:
        other.step()


def same(a, b):
    """Whether two trees are equal."""
    skeleton, tensors = tree.split(a)
    skeleton_b, tensors_b = tree.split(b)
    return repr(skeleton) == repr(skeleton_b) and all(map(torch.equal, tensors, tensors_b))


class Commit(unittest.TestCase):
    def test_optimizers(self):
        for make in (
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, 0.1, amsgrad=True),
            lambda p: torch.optim.RMSprop(p, 0.1), lambda p: torch.optim.Adagrad(p, 0.1),
        ):
            model = network()
            optimizer = make(model.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
            state = kolo.State(model=model, optimizer=optimizer, scheduler=scheduler, step=0, rng=kolo.RNG())
            for steps in (0, 1, 3):  # also before the first step, when the optimizer has no state
                for _ in range(steps):
                    step(model, optimizer, scheduler)
                    state.step += 1
                state.commit()
                committed = copy.deepcopy(state.tree())
                for _ in range(2):  # what is restored must not be the commit itself
                    for _ in range(3):
                        step(model, optimizer, scheduler)
                        state.step += 1
                    self.assertFalse(same(committed, state.tree()))
                    state.restore()
                    self.assertTrue(same(committed, state.tree()), make)
                    self.assertIs(model, state.model)

    def test_goes_on_as_if_nothing_had_happened(self):
        def run(failure):
            torch.manual_seed(3)
            model = network()
            optimizer = torch.optim.Adam(model.parameters())
            state = kolo.State(model=model, optimizer=optimizer, rng=kolo.RNG(), step=0)
            state.save()
            while state.step < 10:
                step(model, optimizer)
                if state.step == failure:
                    failure = None
                    state.restore()
                    continue
                state.step += 1
                state.commit(every=2)
            return state.tree()["model"]

        self.assertTrue(same(run(None), run(5)))

    def test_values(self):
        state = kolo.State(step=0, history=[], best={"loss": 2.0}, loss=None)
        state.commit()
        state.step, state.loss = 3, torch.ones(2)
        state.history.append(1)
        state.best["loss"] = 1.0
        state.restore()
        self.assertEqual((0, [], {"loss": 2.0}, None), (state.step, state.history, state.best, state.loss))
        with self.assertRaisesRegex(AttributeError, "give it to State"):
            state.typo = 1
        with self.assertRaisesRegex(ValueError, "cannot be the name"):
            kolo.State(commit=1)

    def test_objects_with_state_dict(self):
        class Average:  # as an EMA or a stateful data loader
            def __init__(self):
                self.mean = torch.zeros(3)

            def state_dict(self):
                return {"mean": self.mean, "other": (1, [torch.ones(1)])}

            def load_state_dict(self, state):
                self.mean = state["mean"]

        average, scaler = Average(), torch.amp.GradScaler("cpu") if hasattr(torch.amp, "GradScaler") else Average()
        state = kolo.State(average=average, scaler=scaler)
        state.commit()
        for _ in range(2):
            average.mean += 1
            state.restore()
            self.assertTrue(torch.equal(torch.zeros(3), average.mean))

    @unittest.skipUnless(hasattr(torch.amp, "GradScaler"), "needs a GradScaler of the CPU")
    def test_a_scaler_begins_a_failed_step_again(self):
        """The group loses a member between unscale_ and step. The repeated step must unscale its gradients again."""
        model, scaler = torch.nn.Linear(1, 1), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        state = kolo.State(model=model, optimizer=optimizer, scaler=scaler)
        state.commit()
        for _ in range(2):
            scaler.scale(model(torch.ones(1, 1)).sum()).backward()
            scaler.unscale_(optimizer)
            self.assertEqual(1, model.bias.grad.item())
            core_of(state).recover()
            core_of(state).drop()

    def test_registered_handler(self):
        class Counter:
            count = 0

        class CounterHandler(kolo.Handler):
            def tree(self):
                return self.value.count

            def load(self, tree):
                self.value.count = tree

        kolo.register_handler(Counter, CounterHandler)
        counter = Counter()
        state = kolo.State(counter=counter)
        state.commit()
        counter.count = 5
        state.restore()
        self.assertEqual((0, counter), (counter.count, state.counter))

    def test_random_numbers(self):
        state = kolo.State(rng=kolo.RNG())
        state.commit()
        first = torch.rand(2).tolist(), random.random()
        state.restore()
        self.assertEqual(first, (torch.rand(2).tolist(), random.random()))

    def test_sparse_is_refused(self):
        with self.assertRaisesRegex(TypeError, "register_handler"):
            kolo.State(table=torch.zeros(2, 2).to_sparse()).commit()

    def test_epochs_and_batches(self):
        data = torch.utils.data.TensorDataset(torch.arange(10.0))
        state = kolo.State(sampler=kolo.ElasticSampler(data), epoch=0, samples=0)
        used = []

        def train(stop):
            for epoch in state.epochs(2):
                loader = torch.utils.data.DataLoader(data, batch_size=3, sampler=state.sampler)
                for x, in state.batches(loader):
                    used.append((epoch, x.tolist()))
                    state.commit()
                    if len(used) == stop:
                        return

        train(2)  # left in the middle, as when a group changes
        train(0)
        for epoch in range(2):
            self.assertEqual(list(range(10)), sorted(sum((x for e, x in used if e == epoch), [])))
        self.assertEqual((2, 20), (state.epoch, state.samples))
        with self.assertRaisesRegex(TypeError, "samples=function"):
            next(state.batches([object()]))


class Cost(unittest.TestCase):
    def test_commit(self):
        """Prints what a commit costs; the target is 2 % of a step of 50 ms, which is 1 ms."""
        for width, layers in ((64, 4), (256, 12), (1024, 4)):
            model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(layers)))
            optimizer = torch.optim.AdamW(model.parameters())
            state = kolo.State(model=model, optimizer=optimizer, step=0)
            model(torch.randn(2, width)).sum().backward()
            optimizer.step()
            state.commit()
            times = []
            for _ in range(20):
                begun = time.perf_counter()
                state.commit()
                times.append(time.perf_counter() - begun)
            print("    commit of %.1f MB in %d tensors: %.2f ms" % (
                core_of(state).snapshot.nbytes() / 1e6, len(tree.split(state.tree())[1]), sorted(times)[10] * 1e3))


class Files(unittest.TestCase):
    def test_checkpoint(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "c.pt")
            model = network()
            state = kolo.State(model=model, optimizer=torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), step=0)
            self.assertFalse(kolo.load_checkpoint(state, path))
            step(model, state.optimizer)
            state.step = 7
            kolo.save_checkpoint(state, path)
            saved = copy.deepcopy(state.tree())
            step(model, state.optimizer)
            state.step = 8
            self.assertTrue(kolo.load_checkpoint(state, path))
            self.assertTrue(same(saved, state.tree()))
            with self.assertRaises(Exception):
                kolo.save_checkpoint(lambda: None, path)  # cannot be pickled
            self.assertTrue(kolo.load_checkpoint(state, path))
            self.assertEqual(["c.pt"], os.listdir(directory))

    def test_names_no_module_of_the_package(self):
        """Checkpoints name no modules of the package, so modules can move and old checkpoints stay readable."""
        model = network()
        state = kolo.State(
            model=model, optimizer=torch.optim.Adam(model.parameters()), sampler=kolo.ElasticSampler(range(4)), rng=kolo.RNG(),
            kinds=[{1}, b"x", 2 ** 70, torch.float16], step=0)
        step(model, state.optimizer)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        file = os.path.join(directory.name, "c.pt")
        kolo.save_checkpoint(state, file)
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith(".pkl"):
                    words = [str(argument) for _, argument, _ in pickletools.genops(archive.read(name))]
                    self.assertIn("torch._utils _rebuild_tensor_v2", words)
                    self.assertEqual([], [word for word in words if word.startswith("kolo.")])

    def test_pickles_of_earlier_releases(self):
        """Scripts may pickle these by themselves."""
        for name, kind in {"handlers\nRNG": kolo.RNG, "sampler\nElasticSampler": kolo.ElasticSampler,
                           "sampler\nElasticIterable": kolo.ElasticIterable, "batch\nBatch": kolo.Batch}.items():
            self.assertIs(kind, pickle.loads(("ckolo.torch.%s\n." % name).encode()))

    def test_other_ranks_write_nothing(self):
        self.addCleanup(place.enter, None)
        place.enter(Place(1, 1, 2))
        kolo.save_checkpoint({}, "/nonexistent/c.pt")


class Sizes(unittest.TestCase):
    def tearDown(self):
        place.enter(None)

    def test_global_batch(self):
        for size, total, limit, want in (
            (1, 64, None, (64, 1, 64)), (4, 64, None, (16, 1, 64)), (1, 64, 16, (16, 4, 64)), (2, 64, 16, (16, 2, 64)),
            (3, 64, None, (22, 1, 66)), (4, 64, 100, (16, 1, 64)), (1, 65, 16, (13, 5, 65)), (8, 4, None, (1, 1, 8)),
        ):
            for rank in {0, size - 1}:
                place.enter(Place(1, rank, size))
                with warnings.catch_warnings(record=True) as warned:
                    warnings.simplefilter("always")
                    self.assertEqual(want, tuple(kolo.global_batch(total, limit)), (size, total, limit))
                text = "a step takes %d samples" % want[2]
                self.assertEqual(rank == 0 and want[2] != total, any(text in str(each.message) for each in warned))
        self.assertAlmostEqual(0.4, kolo.scaled_lr(0.1, base=2))

    def test_no_group_yet(self):
        with self.assertRaisesRegex(RuntimeError, "no rank yet"):
            kolo.rank()
        with self.assertRaisesRegex(RuntimeError, "no group yet"):
            kolo.wrap(network())


if __name__ == "__main__":
    unittest.main()
