# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The order of an epoch's samples, by samplers that scripts give to a framework."""

import random
import unittest
from unittest import mock

import torch
from torch.utils.data import DistributedSampler, RandomSampler, Sampler, SequentialSampler, SubsetRandomSampler, WeightedRandomSampler

import kolo.torch as kolo
from kolo.integrations.batches import RankBatches, Step
from kolo.integrations.samplers import Order

try:
    import numpy
except ImportError:
    numpy = None


class Own(Sampler):
    """Shuffles with a generator that the test gives."""

    def __init__(self, shuffle):
        self.shuffle = shuffle

    def __len__(self):
        return 12

    def __iter__(self):
        numbers = list(range(12))
        self.shuffle(numbers)
        return iter(numbers)


class Orders(unittest.TestCase):
    def order(self, sampler, seed=3):
        return Order(sampler, lambda: seed)

    def seed(self, seed, sampler):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed)
        if getattr(sampler, "generator", None) is not None:
            sampler.generator.manual_seed(seed)

    def numbers(self, seed, sampler):
        """Returns the next random number of each generator."""
        if seed is not None:
            self.seed(seed, sampler)
        own = getattr(sampler, "generator", None)
        return torch.rand(1), random.random(), numpy and numpy.random.random(), own and torch.rand(1, generator=own)

    def test_each_process_draws_the_same(self):
        """The order does not depend on the random numbers or epochs that the process has drawn before. Its
        own random numbers go on as if nothing had been drawn.
        """
        data = range(12)
        for make in (
                lambda: SequentialSampler(data), lambda: RandomSampler(data), lambda: RandomSampler(data, replacement=True, num_samples=20),
                lambda: RandomSampler(data, num_samples=5), lambda: SubsetRandomSampler([1, 4, 7, 8, 9, 10, 12], generator=torch.Generator().manual_seed(8)),
                lambda: WeightedRandomSampler([1.0] * 12, 7), lambda: DistributedSampler(data, 1, 0), lambda: Own(random.shuffle),
                lambda: Own(numpy.random.shuffle if numpy else random.shuffle)):
            with self.subTest(make().__class__.__name__):
                orders = []
                for epochs in (0, 1, 2), (2,):
                    sampler = make()
                    expected = self.numbers(len(epochs), sampler)
                    self.seed(len(epochs), sampler)
                    order = self.order(sampler)
                    orders.append([order(epoch) for epoch in epochs][-1])
                    self.assertEqual(expected, self.numbers(None, sampler))
                self.assertEqual(*orders)
                self.assertEqual(len(orders[0]), order.position.samples)
                if type(make()) is not SequentialSampler:
                    self.assertNotEqual(order(0), order(1))

    def test_the_order_of_a_shuffle(self):
        """The order is that of torch's permutation, as in earlier releases, so that their checkpoints go on within an epoch."""
        for count in 1, 1000, 300000:
            expected = torch.randperm(count, generator=torch.Generator().manual_seed(3 + 2))
            self.assertEqual(expected.tolist(), list(self.order(RandomSampler(range(count)))(2)))

    def test_a_sampler_with_random_numbers_of_its_own(self):
        """Its order is not the same in each process, so it is refused at the start, with the remedy."""
        with self.assertRaisesRegex(ValueError, "a Own gives its samples in another order the second time. .* set_epoch"):
            self.order(Own(random.Random(1).shuffle))

    def test_a_newcomer_with_another_order(self):
        """The order may differ because the data differ. The newcomer ends instead of training with wrong samples."""
        member = self.order(WeightedRandomSampler([1.0] * 12, 7))
        newcomer = self.order(WeightedRandomSampler([1.0, 2.0] * 6, 7))
        member(1)
        newcomer.position.load_state_dict(member.position.state_dict())
        newcomer(2)
        newcomer.position.load_state_dict(member.position.state_dict())
        with self.assertRaisesRegex(ValueError, "than in another process"):
            newcomer(1)

    def test_a_sampler_of_another_length_each_epoch(self):
        sampler = SubsetRandomSampler([1, 2, 3])
        order = self.order(sampler)
        sampler.indices = [1, 2]
        with self.assertRaisesRegex(ValueError, "a SubsetRandomSampler gives 2 samples in epoch 1, and its length was 3 at the start"):
            order(1)

    def test_indices_that_are_tensors(self):
        """They count as their values, because the text of a tensor takes long to make, and that of a numpy number depends on the release."""
        expected = self.order(SubsetRandomSampler([1, 4, 7])).position.digest
        self.assertEqual(expected, self.order(SubsetRandomSampler(torch.tensor([1, 4, 7]))).position.digest)
        self.assertNotEqual(expected, self.order(SubsetRandomSampler([(1,), (4,), (7,)])).position.digest)

    def test_random_numbers_of_gpus(self):
        """They stay as the script has seeded them. With torch.manual_seed, a GPU that is not in use yet would get the epoch's seed later."""
        with mock.patch("torch.cuda.manual_seed_all") as seeded:
            self.order(WeightedRandomSampler([1.0] * 12, 7))(1)
        seeded.assert_not_called()

    def test_an_epoch_without_samples_left(self):
        """Nothing is drawn. Such an epoch comes from a checkpoint that was made with other data."""
        order = self.order(WeightedRandomSampler([1.0] * 12, 7))
        order.position.load_state_dict({"epoch": 0, "used": 7, "digest": [0, 0]})
        self.assertEqual([], list(RankBatches(order.position, order, Step(4, 1), 4, 0, 1)))

    def test_a_sampler_without_an_end(self):
        class Endless(Sampler):
            def __iter__(self):
                while True:
                    yield 0

        with self.assertRaisesRegex(ValueError, "a Endless has no length"):
            self.order(Endless())

    def test_a_sampler_for_one_of_several_ranks(self):
        with self.assertRaisesRegex(ValueError, "a DistributedSampler of 2 replicas has only a part of the samples: take it out"):
            self.order(DistributedSampler(range(4), 2, 0))
        other = WeightedRandomSampler([1.0] * 12, 7)
        other.num_replicas = 2  # such as repeated augmentation has
        with self.assertRaisesRegex(ValueError, "a WeightedRandomSampler of 2 replicas has only a part of the samples: take it out"):
            self.order(other)
        with self.assertRaisesRegex(ValueError, "a ElasticSampler gives each process its own samples: take it out"):
            self.order(kolo.ElasticSampler(range(4)))


if __name__ == "__main__":
    unittest.main()
