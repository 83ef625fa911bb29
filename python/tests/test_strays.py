# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checks what is reported as missing in a State, and what is not; see also test_features.Lost."""

import unittest
from unittest import mock

import torch
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler, RandomSampler, SequentialSampler

import kolo.torch as kolo
from kolo.torch.state import strays
from kolo.torch.state.state import core_of


class Own:
    """An object of a script that keeps others."""

    def __init__(self, **values):
        vars(self).update(values)

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class OwnSampler(DistributedSampler):
    state_dict, load_state_dict = Own.state_dict, Own.load_state_dict


class Strays(unittest.TestCase):
    def setUp(self):
        for kind in BatchSampler, DistributedSampler, RandomSampler, SequentialSampler:
            patch = mock.patch.object(kind, "__iter__", kind.__iter__)
            patch.start()
            self.addCleanup(patch.stop)
        self.hooks = []
        register = strays.register_optimizer_step_post_hook
        with mock.patch.object(strays, "register_optimizer_step_post_hook", lambda hook: self.hooks.append(register(hook))):
            self.strays = strays.Strays()
            self.strays.watch()
        for hook in self.hooks:
            self.addCleanup(hook.remove)
        self.model = torch.nn.Linear(2, 1)

    def reported(self, **values):
        with mock.patch.object(strays, "log") as log:
            self.strays.report(core_of(kolo.State(model=self.model, **values)))
        return [call.args[1] for call in log.call_args_list]

    def stepped(self):
        """An optimizer that has made a step."""
        optimizer = torch.optim.AdamW(self.model.parameters())
        self.model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        return optimizer

    def test_an_optimizer_of_which_the_state_has_the_scheduler(self):
        scheduler = torch.optim.lr_scheduler.StepLR(self.stepped(), 1)
        report, = self.reported(scheduler=scheduler)
        self.assertIn("an optimizer (AdamW) trains modules of the state and is not part of it", report)

    def test_optimizers_of_an_object_of_the_script(self):
        for own in lambda one: Own(one=one), lambda one: Own(all=[one]), lambda one: Own(named={"one": one}):
            self.assertEqual([], self.reported(own=own(self.stepped())))

    def test_an_optimizer_of_the_state(self):
        optimizer = self.stepped()
        self.assertEqual([], self.reported(optimizer=optimizer, scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 1)))

    def test_samplers(self):
        samplers = DistributedSampler([1, 2, 3], 1, 0), RandomSampler([1, 2, 3]), SequentialSampler([1, 2, 3])
        walks = [iter(sampler) for sampler in samplers]
        self.assertEqual([], self.reported(), "not begun")
        for walk in walks:
            next(walk)
        self.assertEqual([type(sampler).__name__ for sampler in samplers], [report.split()[1] for report in self.reported()])
        self.assertEqual([], self.reported(), "once")

    def test_a_sampler_that_has_ended(self):
        self.assertEqual(3, len(list(SequentialSampler([1, 2, 3]))))
        for _ in SequentialSampler([1, 2, 3]):
            break
        self.assertEqual([], self.reported())

    def test_a_commit_on_the_last_batch_of_an_epoch(self):
        """Nothing is left of the epoch, though its iterator has not ended. With drop_last, the remaining samples are not used."""
        for samples, drop_last in (20, False), (22, True), (22, False):
            for shuffle in False, True:
                with self.subTest(samples=samples, drop_last=drop_last, shuffle=shuffle):
                    loader = DataLoader(range(samples), 4, shuffle=shuffle, drop_last=drop_last)
                    batches = iter(loader)
                    for _ in range(len(loader)):
                        next(batches)
                    self.assertEqual([], self.reported())
        batches = iter(DataLoader(range(22), 4, drop_last=True))
        for _ in range(4):
            next(batches)
        report, = self.reported()
        self.assertIn("in the middle of its epoch", report)

    def test_a_sampler_without_a_hash(self):
        """A dataclass, for example, has no hash. Such a sampler is not watched, and works."""
        class Equal(SequentialSampler):
            __hash__ = None

        batches = iter(DataLoader(range(4), 2, sampler=Equal(range(4))))
        self.assertEqual([0, 1], next(batches).tolist())
        self.assertEqual([], self.reported())

    def test_a_sampler_of_the_state(self):
        for keep in lambda sampler: sampler, lambda sampler: Own(sampler=sampler):
            sampler = OwnSampler([1, 2, 3], 1, 0)
            walk = iter(sampler)
            next(walk)
            self.assertEqual([], self.reported(sampler=keep(sampler)))


if __name__ == "__main__":
    unittest.main()
