# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""How much is sent depends on how much it slows training down, by a clock that only the tests advance."""

import math
import os
import random
import unittest
from unittest import mock

from kolo.torch.background.pace import BUSY, FLOOR, PATIENCE, QUIET, SHARE, Pace, limit

RATE = 1e9  # bytes a second


class Pacing(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.pace = Pace(0.2, lambda: self.now)

    def interval(self, own, waiting=0.0):
        with self.pace.waiting():
            self.now += waiting
        self.now += own
        self.pace.commit()

    def measured(self, own=1.0):
        self.pace.commit()
        for _ in range(QUIET):
            self.assertTrue(self.pace.measuring)
            self.interval(own)
        self.assertFalse(self.pace.measuring)

    def test_begins_when_it_knows_the_usual_interval(self):
        self.measured()
        self.assertEqual(int(SHARE * RATE), self.pace.room(RATE, 0))
        self.assertEqual(FLOOR, self.pace.room(0, 0))

    def test_grows_with_the_gradients(self):
        """Room grows with the gradients, but not beyond what is sent before training would wait for it."""
        self.measured()
        self.interval(1.0)
        self.assertEqual(300_000_000, self.pace.room(RATE, 300_000_000))
        self.assertEqual(int(BUSY * RATE) - 500_000_000, self.pace.room(RATE, 500_000_000))
        self.assertEqual(0, self.pace.room(RATE, 750_000_000))

    def test_training_waits(self):
        self.measured()
        for _ in range(PATIENCE):
            self.assertFalse(self.pace.exhausted)
            self.interval(1.0, 0.21)
            self.assertEqual(0, self.pace.room(RATE, 10 * FLOOR))
        self.assertTrue(self.pace.exhausted)

    def test_training_is_slower_without_waiting(self):
        self.measured()
        self.interval(1.3)
        self.assertEqual(0, self.pace.room(RATE, 10 * FLOOR))

    def test_stops_before_training_is_too_slow(self):
        self.measured()
        self.interval(1.0, 0.16)
        self.assertAlmostEqual(25, self.pace.room(RATE, 100 * FLOOR) / FLOOR, 3)

    def test_a_long_interval_has_other_causes(self):
        self.measured()
        for own in [9.0, 1.1] * PATIENCE:
            self.interval(own)
            self.pace.room(RATE, FLOOR)
            self.assertFalse(self.pace.exhausted)

    def test_what_needs_no_gradients_goes_on(self):
        """Tensors without gradients cost nothing later, so they always get their share."""
        self.measured()
        for _ in range(2 * PATIENCE):
            self.interval(3.0)
            self.assertGreaterEqual(self.pace.room(RATE, 0), FLOOR)
        self.assertFalse(self.pace.exhausted)

    def test_states_of_all_sizes(self):
        """A machine on which sending takes half a core from training, and one on which it takes nothing."""
        for taken in 0.0, 0.5:
            for size, step in (10e6, 0.05), (100e6, 0.06), (1e9, 0.67), (1e9, 2.0), (4e9, 1.0), (16e9, 0.3):
                with self.subTest(taken=taken, size=size, step=step):
                    self.setUp()
                    begun, commits, sent, worst = self.course(size, step, taken)
                    self.assertLess(commits, 60)
                    self.assertLess((self.now - begun) / commits, 1.2 * step)
                    self.assertLess(worst, 1.4 * step)
                    self.assertGreater(sent, 0.1 * min(size, RATE * step))
                    if taken == 0 and size / 2 < 0.5 * RATE * step:
                        self.assertEqual(size, sent)

    def test_ends_where_steps_vary(self):
        """Sending ends even if intervals vary for other reasons."""
        for seed in range(20):
            self.setUp()
            _, commits, sent, _ = self.course(1e9, 1.0, 0.0, random.Random(seed))
            self.assertLess(commits, 150)
            self.assertGreater(sent, 100e6)

    def course(self, size, step, taken, varying=None):
        """Sends a state, half of which is parameters. Returns when sending began, the commits since, the bytes sent and the longest interval."""
        begun = commits = sent = pending = worst = 0
        while not self.pace.exhausted and sent < size:
            own, last = step + taken * min(step, pending / RATE), self.now
            if varying:
                own *= varying.uniform(0.5, 1.5)
            self.interval(own, max(0.0, pending / RATE - own) + sent / 2 / (5 * RATE))
            pending = sent / 2
            if self.pace.measuring:
                begun = self.now
                continue
            commits, worst = commits + 1, max(worst, self.now - last)
            slices = min(self.pace.room(RATE, int(pending)), size - sent)
            sent, pending = sent + slices, pending + slices
        return begun, commits, sent, worst

    def test_no_limit(self):
        self.pace = Pace(math.inf, lambda: self.now)
        self.assertFalse(self.pace.measuring)
        for _ in range(4):
            self.interval(1.0, 9.0)
        self.assertEqual(10 ** 10, self.pace.room(RATE, 10 ** 10))

    def test_limit(self):
        for text, value in ("", 0.2), ("0.5", 0.5), ("inf", math.inf):
            with mock.patch.dict(os.environ, {"KOLO_TORCH_SLOWDOWN": text}):
                self.assertEqual(value, limit())
        with mock.patch.dict(os.environ, {"KOLO_TORCH_SLOWDOWN": "20%"}), self.assertRaisesRegex(ValueError, "number such as 0.2"):
            limit()


if __name__ == "__main__":
    unittest.main()
