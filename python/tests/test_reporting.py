# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Tests of progress reports, without an agent."""

import unittest

from kolo.torch import State, reporting
from kolo.torch.context import context
from kolo.worker import Place


class Slow(unittest.TestCase):
    def setUp(self):
        self.sent = []
        self.addCleanup(setattr, context, "place", context.place)
        self.addCleanup(reporting.connect, None)
        reporting.connect(self.sent.append)
        self.state = State(step=0)

    def test_the_reason_holds_within_the_block(self):
        with self.state.slow("evaluation"):
            self.assertEqual([{"slow": "evaluation"}], self.sent)
            with self.state.slow("upload"):
                pass
        self.assertEqual(["evaluation", "upload", "evaluation", ""], [message["slow"] for message in self.sent])

    def test_an_exception_ends_it(self):
        with self.assertRaises(ZeroDivisionError), self.state.slow("evaluation"):
            raise ZeroDivisionError
        self.assertEqual({"slow": ""}, self.sent[-1])

    def test_a_step_that_was_kept_for_later_comes_before_it(self):
        context.place = Place(1, 0, 1)
        reporting.connect(self.sent.append, interval=1000.0)
        for step in (1, 2):
            reporting.report({"step": step})
        with self.state.slow("evaluation"):
            pass
        self.assertEqual([{"step": 1}, {"step": 2}, {"slow": "evaluation"}, {"slow": ""}], self.sent)

    def test_the_next_group_knows_nothing_of_it(self):
        with self.state.slow("evaluation"):
            reporting.connect(self.sent.append)
            with self.state.slow("upload"):
                pass
            self.assertEqual({"slow": ""}, self.sent[-1])

    def test_without_an_agent(self):
        reporting.connect(None)
        with self.state.slow("evaluation"):
            pass

    def test_it_needs_a_reason(self):
        with self.assertRaises(ValueError), self.state.slow(""):
            pass


class Adaptive(unittest.TestCase):
    def test_only_numbers_are_sent(self):
        sent = []
        self.addCleanup(setattr, context, "place", context.place)
        self.addCleanup(reporting.connect, None)
        context.place = Place(1, 0, 1)
        reporting.connect(sent.append)
        reporting.report({"step": 1, "adaptive": {"initial": 8, "batch": 16, "lr_factor": float("inf")}})
        self.assertEqual([{"step": 1, "adaptive": {"initial": 8, "batch": 16}}], sent)
        with self.assertRaisesRegex(TypeError, "progress has no adaptive"):
            reporting.progress(adaptive={})


if __name__ == "__main__":
    unittest.main()
