# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Which rank arrives last in the exchange of gradients."""

import copy
import os
import threading
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from kolo.torch import reporting
from kolo.torch.context import context
from kolo.torch.group import waits
from kolo.torch.group.waits import LONGEST, UNKNOWN, Waits, last
from kolo.worker import Place

from .agent import HERE
from .test_group import Training


class Last(unittest.TestCase):
    def test_the_rank_that_waits_least(self):
        self.assertEqual((1, 0.09), last([90_001, 1, 95_001]))
        self.assertEqual((0, 0.0), last([5, 5]))
        self.assertEqual((3, 0.02), last([20_001, 30_001, 40_001, 10_001, 30_001, 20_001]), "the lower of two medians")

    def test_unknown(self):
        for known in [], [7], [7, UNKNOWN], [UNKNOWN, UNKNOWN]:
            self.assertIsNone(last(known))


class Measured(unittest.TestCase):
    """Waits of a group of one whose exchange takes as long as a test wants."""

    def setUp(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        self.exchange = 0.0  # seconds
        self.module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 1))
        self.wrapped = DistributedDataParallel(self.module)
        self.wrapped.register_comm_hook(None, self.hook)
        self.waits = Waits()
        self.waits.watch(self.wrapped)

    def hook(self, _, bucket):
        future = torch.futures.Future()
        threading.Timer(self.exchange, future.set_result, [bucket.buffer()]).start()
        return future

    def step(self, wrapped=None):
        (wrapped or self.wrapped)(torch.ones(2, 4)).sum().backward()

    def test_the_wait_of_a_step(self):
        self.exchange = 0.3
        self.step()
        self.assertGreaterEqual(self.waits.take(), 250_000)
        self.assertEqual(UNKNOWN, self.waits.take(), "no step since")

    def test_time_before_the_exchange_does_not_count(self):
        clock = mock.Mock(side_effect=[100.0, 100.25])
        with mock.patch.object(waits.time, "perf_counter", clock):
            self.step()
        self.assertEqual(250_001, self.waits.take())
        self.assertEqual(2, clock.call_count, "once before the wait and once after it")

    def test_waits_of_several_passes_add_up(self):
        self.waits.watch(other := DistributedDataParallel(torch.nn.Linear(4, 1)))
        with mock.patch.object(waits.time, "perf_counter", mock.Mock(side_effect=[1.0, 2.0, 5.0, 7.0])):
            self.step()
            self.step(other)
        self.assertEqual(3_000_001, self.waits.take())

    def test_two_modules_in_one_pass(self):
        self.waits.watch(other := DistributedDataParallel(torch.nn.Linear(4, 1)))
        with mock.patch.object(waits.time, "perf_counter", mock.Mock(side_effect=[1.0, 2.0])):
            (self.wrapped(torch.ones(2, 4)) + other(torch.ones(2, 4))).sum().backward()
        self.assertEqual(1_000_001, self.waits.take())

    def test_a_pass_that_does_not_use_the_first_parameters(self):
        class Second(torch.nn.Sequential):
            def forward(self, batch):
                return self[1](batch)

        second = DistributedDataParallel(Second(torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)), find_unused_parameters=True)
        self.waits.watch(second)
        self.step(second)
        self.assertNotEqual(UNKNOWN, self.waits.take())

    def test_options_of_the_module(self):
        for options in {"static_graph": True}, {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}:
            wrapped, measured = DistributedDataParallel(torch.nn.Linear(4, 1), **options), Waits()
            measured.watch(wrapped)
            for _ in range(3):
                self.step(wrapped)
                self.assertNotEqual(UNKNOWN, measured.take(), options)
            with wrapped.no_sync():
                self.step(wrapped)
            self.step(wrapped)
            self.assertNotEqual(UNKNOWN, measured.take(), options)

    def test_copies_of_the_module_are_not_measured(self):
        copy.deepcopy(self.module)(torch.ones(2, 4)).sum().backward()
        self.assertEqual(UNKNOWN, self.waits.take())

    def test_a_pass_that_failed_does_not_stop_the_measurement(self):
        with mock.patch.object(waits.compat, "after_backward"):  # its functions never run
            self.step()
        self.assertEqual(UNKNOWN, self.waits.take())
        self.step()
        self.assertNotEqual(UNKNOWN, self.waits.take())

    def test_bounds(self):
        with mock.patch.object(waits.time, "perf_counter", mock.Mock(side_effect=[0.0, 1e9])):
            self.step()
        self.assertEqual(LONGEST + 1, self.waits.take())

    def test_nothing_is_measured_once_it_is_closed(self):
        self.waits.close()
        self.step()
        self.assertEqual(UNKNOWN, self.waits.take())

    def test_a_module_without_parameters_to_train(self):
        self.waits.watch(torch.nn.Flatten())
        self.assertEqual(UNKNOWN, self.waits.take())


class Reported(unittest.TestCase):
    def test_reports_have_the_steps_since_the_last_report(self):
        sent = []
        self.addCleanup(setattr, context, "place", context.place)
        self.addCleanup(reporting.connect, None)
        context.place = Place(1, 0, 2)
        reporting.connect(sent.append)
        reporting.arrived((1, 0.5))
        reporting.arrived(None)
        reporting.arrived((0, 0.25))
        reporting.report({"step": 1})
        reporting.report({"step": 2})
        for _ in range(2 * reporting.LAST):
            reporting.arrived((1, 0.5))
        reporting.report({"step": 3})
        self.assertEqual([(1, 0.5), (0, 0.25)], sent[0]["last"])
        self.assertNotIn("last", sent[1])
        self.assertEqual(reporting.LAST, len(sent[2]["last"]))
        reporting.arrived((1, 0.5))
        reporting.connect(sent.append)
        reporting.report({"step": 4})
        self.assertNotIn("last", sent[3], "of another group")


class Group(Training):
    def test_the_slow_rank_comes_last(self):
        agent = self.agent(script=os.path.join(HERE, "scripts.py"))
        workers = agent.start(3, TEST_SCRIPT="straggler", TEST_STEPS="20", TEST_SLOW="1")
        agent.arrived(workers)
        agent.go()
        self.assertEqual([0, 0, 0], agent.complete(), agent.report())
        named = [rank for worker in workers for message in worker.progress for rank, _ in message.get("last", [])]
        self.assertGreaterEqual(len(named), 10, agent.report())
        self.assertGreater(named.count(1), len(named) / 2, named)


if __name__ == "__main__":
    unittest.main()
