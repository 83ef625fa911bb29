# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Rules of batches that adapt: the noise estimate, the worth of a batch, and the choice of one."""

import math
import random
import unittest

from kolo.torch.adaptive import sizes
from kolo.torch.adaptive.noise import LEAST, Noise, Norm
from kolo.torch.adaptive.rules import efficiency, gain, lr_factor
from kolo.torch.adaptive.sizes import GROWTH, HYSTERESIS, Bounds, Division, Times, choose

INITIAL = 32


def normal(rng, mean, variance, samples):
    """Returns the mean gradient of a batch, whose samples' gradients are normally distributed around mean."""
    return [rng.gauss(m, math.sqrt(v / samples)) for m, v in zip(mean, variance)]


def squared(vector):
    return sum(value * value for value in vector)


def average(vectors):
    return [sum(values) / len(vectors) for values in zip(*vectors)]


class Estimate(unittest.TestCase):
    """Gradients whose distribution is known."""

    def setUp(self):
        self.rng = random.Random(5)
        self.mean = [self.rng.gauss(0, 1) for _ in range(40)]
        self.variance = [self.rng.uniform(1, 9) for _ in range(40)]  # of one sample
        self.true = sum(self.variance) / squared(self.mean)

    def check(self, measure, count=2000):
        """Measures often. Both estimates must be within five standard errors of the truth."""
        signals, variances = [], []
        for _ in range(count):
            noise = Noise()
            noise.observe(*measure())
            signals.append(noise.signal)
            variances.append(noise.variance)
        for estimates, truth in ((signals, squared(self.mean)), (variances, sum(self.variance))):
            middle = sum(estimates) / count
            error = math.sqrt(sum((value - middle) ** 2 for value in estimates) / count / (count - 1))
            self.assertLess(abs(middle - truth), 5 * error)

    def test_ranks(self):
        """The small batches are those of four ranks."""
        def measure():
            ranks = [normal(self.rng, self.mean, self.variance, 8) for _ in range(4)]
            return Norm(sum(map(squared, ranks)) / 4, 8), Norm(squared(average(ranks)), 32)

        self.check(measure)

    def test_passes(self):
        """The small batch is the first of three forward passes of one rank."""
        def measure():
            passes = [normal(self.rng, self.mean, self.variance, 8) for _ in range(3)]
            return Norm(squared(passes[0]), 8), Norm(squared(average(passes)), 24)

        self.check(measure)

    def test_consecutive_gradients(self):
        """Two gradients of one rank, if the weights do not move between them."""
        def measure():
            two = [normal(self.rng, self.mean, self.variance, 16) for _ in range(2)]
            return Norm(sum(map(squared, two)) / 2, 16), Norm(squared(average(two)), 32)

        self.check(measure)

    def test_consecutive_gradients_that_move(self):
        """If the gradient moves by d, S is too large by b * |d|^2 / 2."""
        moved = [value + 0.5 for value in self.mean]
        surplus, count = 16 * squared([0.5] * 40) / 2, 2000
        found = []
        for _ in range(count):
            two = [normal(self.rng, mean, self.variance, 16) for mean in (self.mean, moved)]
            noise = Noise()
            noise.observe(Norm(sum(map(squared, two)) / 2, 16), Norm(squared(average(two)), 32))
            found.append(noise.variance - sum(self.variance))
        middle = sum(found) / count
        error = math.sqrt(sum((value - middle) ** 2 for value in found) / count / (count - 1))
        self.assertLess(abs(middle - surplus), 5 * error)

    def test_the_average_over_changes_of_the_batch(self):
        noise = Noise(decay=0.99)
        for _ in range(600):
            ranks, local = self.rng.randint(2, 6), self.rng.choice([4, 8, 32])
            parts = [normal(self.rng, self.mean, self.variance, local) for _ in range(ranks)]
            noise.observe(Norm(sum(map(squared, parts)) / ranks, local), Norm(squared(average(parts)), ranks * local))
        self.assertAlmostEqual(1, noise.scale / self.true, delta=0.25)

    def test_what_is_ignored(self):
        noise = Noise()
        for small, big in ((Norm(1.0, 8), Norm(1.0, 8)), (Norm(math.nan, 8), Norm(1.0, 16)), (Norm(1.0, 8), Norm(math.inf, 16))):
            noise.observe(small, big)
        self.assertEqual((0, 0.0, None), (noise.count, noise.signal, noise.scale))

    def test_extremes(self):
        for small, big, expected in (((1.0, 8), (1.0, 16), 0.0), ((1.0, 8), (0.5, 16), math.inf), ((1.0, 8), (0.75, 16), 8.0)):
            noise = Noise()
            for number in range(LEAST):
                self.assertIsNone(noise.scale, number)
                noise.observe(Norm(*small), Norm(*big))
            self.assertEqual(expected, noise.scale)

    def test_state(self):
        noise, other = Noise(), Noise()
        for squared_ in (1.0, 2.0, 3.0, 4.0, 5.0):
            noise.observe(Norm(2 * squared_, 8), Norm(squared_, 24))
        other.load_state_dict(noise.state_dict())
        self.assertEqual(noise.scale, other.scale)


class Worth(unittest.TestCase):
    def test_gain(self):
        for scale, batch, expected in ((0.0, 128, 1.0), (math.inf, 128, 4.0), (32.0, 128, 1.6), (None, 128, 1.0), (None, 16, 0.5), (32.0, 32, 1.0)):
            self.assertAlmostEqual(expected, gain(scale, INITIAL, batch), msg=(scale, batch))

    def test_gain_is_between_a_step_and_the_samples(self):
        rng = random.Random(1)
        for _ in range(1000):
            scale, batch = rng.choice([0.0, math.inf, None, rng.uniform(0, 1e5)]), rng.randint(INITIAL, 10000)
            value = gain(scale, INITIAL, batch)
            self.assertLessEqual(1, value + 1e-9)
            self.assertLessEqual(value, batch / INITIAL + 1e-9)
            self.assertAlmostEqual(value * INITIAL / batch, efficiency(scale, INITIAL, batch))

    def test_more_samples_never_make_less_progress(self):
        rng = random.Random(2)
        for _ in range(1000):
            scale, batch = rng.uniform(0, 1e4), rng.randint(1, 5000)
            self.assertLess(gain(scale, INITIAL, batch), gain(scale, INITIAL, batch + 1))
            self.assertGreaterEqual(efficiency(scale, INITIAL, batch), efficiency(scale, INITIAL, batch + 1))

    def test_learning_rate(self):
        for rule, expected in (("adascale", 1.6), ("sqrt", 2.0), ("linear", 4.0), (lambda relative: relative ** 2, 16.0)):
            self.assertAlmostEqual(expected, lr_factor(rule, 32.0, INITIAL, 128))
            self.assertAlmostEqual(1.0, lr_factor(rule, 32.0, INITIAL, INITIAL))
        with self.assertRaisesRegex(ValueError, "lr='cube' is none of"):
            lr_factor("cube", None, INITIAL, 128)


class Dividing(unittest.TestCase):
    def test_examples(self):
        for batch, ranks, expected in (
                (256, 1, Division(128, 2, 256)), (256, 4, Division(64, 1, 256)), (257, 4, Division(65, 1, 260)),
                (100, 4, Division(64, 1, 256)), (5000, 4, Division(128, 8, 4096)), (4096, 3, Division(124, 11, 4092)),
                (256, 5000, Division(1, 1, 5000))):
            self.assertEqual(expected, Bounds(256, 4096, 128).divide(batch, ranks), (batch, ranks))

    def test_the_batch_is_within_the_bounds(self):
        rng = random.Random(3)
        for _ in range(5000):
            initial = rng.randint(1, 500)
            bounds = Bounds(initial, rng.randint(initial, 3000), rng.randint(1, 200))
            ranks = rng.randint(1, bounds.largest)
            batch = rng.randint(1, 4000)
            division = bounds.divide(batch, ranks)
            self.assertEqual(division.total, division.local * division.passes * ranks)
            self.assertLessEqual(division.total, bounds.largest)
            self.assertTrue(1 <= division.local <= bounds.local, division)
            self.assertLess(abs(division.total - bounds.clip(batch)), ranks * (division.passes + 1), (bounds, batch, ranks))
            if bounds.clip(batch) + ranks * division.passes <= bounds.largest:
                self.assertGreaterEqual(division.total, bounds.initial)

    def test_wrong_bounds(self):
        for values in ((0, 8, 8), (8, 4, 8), (8, 8, 0)):
            with self.assertRaisesRegex(ValueError, "must be 1 <= initial <= max"):
                Bounds(*values)


def known(fixed, each, *shares, ranks=2):
    """Returns times of steps that follow a line."""
    times = Times()
    for share in shares:
        times.observe(ranks, share, fixed + each * share)
    return times


class Timing(unittest.TestCase):
    def test_a_line(self):
        fixed, each = known(0.1, 0.002, 10, 20, 40).line(2)
        self.assertAlmostEqual(0.1, fixed)
        self.assertAlmostEqual(0.002, each)

    def test_without_a_time(self):
        self.assertIsNone(Times().line(1))
        times = Times()
        for seconds in (0.0, -1.0, math.nan, math.inf):
            times.observe(1, 8, seconds)
        self.assertIsNone(times.line(1))

    def test_one_size(self):
        self.assertEqual((0.5, 0.05), known(1.0, 0.0, 10).line(2))

    def test_no_number_is_negative(self):
        for points in ({10: 0.1, 20: 0.3}, {10: 0.3, 20: 0.1}, {10: 0.1, 20: 0.1}):
            times = Times()
            for share, seconds in points.items():
                times.observe(2, share, seconds)
            fixed, each = times.line(2)
            self.assertGreaterEqual(min(fixed, each), 0)
            self.assertGreater(fixed + each, 0)

    def test_the_nearest_number_of_ranks(self):
        times = known(0.1, 0.0, 10, 20, ranks=2)
        times.observe(8, 10, 0.4)
        times.observe(8, 20, 0.4)
        self.assertAlmostEqual(0.1, times.line(3)[0])
        self.assertAlmostEqual(0.4, times.line(7)[0])

    def test_bounded(self):
        times = Times()
        for ranks in range(1, 50):
            for share in range(1, 50):
                times.observe(ranks, share, 1.0)
        state = times.state_dict()
        self.assertEqual((sizes.RANKS, {sizes.SIZES}), (len(state), {len(points) for _, points in state}))
        other = Times()
        other.load_state_dict(state)
        self.assertEqual(state, other.state_dict())


class Choosing(unittest.TestCase):
    bounds = Bounds(256, 4096, 128)

    def test_no_change_without_measurements(self):
        self.assertEqual(512, choose(self.bounds, 512, 2, None, known(1.0, 0.0, 128)))
        self.assertEqual(512, choose(self.bounds, 512, 2, 1e6, Times()))

    def test_noise_and_fixed_time_make_it_grow(self):
        self.assertEqual(512, choose(self.bounds, 256, 2, 1e6, known(1.0, 0.0, 128, 256)))

    def test_without_noise_it_shrinks(self):
        self.assertEqual(256, choose(self.bounds, 2048, 2, 0.0, known(0.1, 0.01, 128, 256)))

    def test_it_stays_where_time_grows_with_the_samples(self):
        self.assertEqual(256, choose(self.bounds, 256, 2, 1e6, known(0.0, 0.01, 128, 256)))

    def test_hysteresis(self):
        """The batch stays as it is once it is the best one."""
        times, batch, seen = known(1.0, 0.002, 128, 256), 256, []
        for _ in range(20):
            batch = choose(self.bounds, batch, 2, 3000.0, times)
            seen.append(batch)
        self.assertEqual(1, len(set(seen[5:])), seen)
        self.assertLess(256, seen[-1])
        self.assertEqual(batch, choose(self.bounds, batch, 2, 3000.0 * (1 + HYSTERESIS), times))

    def test_the_choice_is_within_the_bounds(self):
        rng = random.Random(4)
        for _ in range(2000):
            initial = rng.randint(1, 500)
            bounds = Bounds(initial, rng.randint(initial, 5000), rng.randint(1, 200))
            ranks = rng.randint(1, 16)
            times = known(rng.uniform(0.001, 1), rng.uniform(0, 0.01), *(rng.randint(1, 500) for _ in range(rng.randint(1, 4))), ranks=rng.randint(1, 16))
            current = bounds.clip(rng.randint(1, 6000))
            chosen = choose(bounds, current, ranks, rng.choice([0.0, math.inf, rng.uniform(0, 1e5)]), times)
            self.assertTrue(bounds.initial <= chosen <= min(bounds.largest, GROWTH * current), (bounds, current, chosen))


if __name__ == "__main__":
    unittest.main()
