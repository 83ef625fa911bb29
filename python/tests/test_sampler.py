# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Samplers yield each index once, for all sizes and all places of a change."""

import collections
import functools
import random
import unittest

import torch.utils.data

import kolo.torch as kolo


def epoch(make, random_, count, epoch_=0):
    """Walks an epoch with random batches and sizes. Returns the indices that ranks used, and how many may be repeated."""
    used, state = [], {"epoch": epoch_, "processed": 0}
    while True:
        size, batch = random_.randint(1, 7), random_.randint(1, 9)
        ranks = [make(rank, size) for rank in range(size)]
        for sampler in ranks:
            sampler.load_state_dict(state)
        lists = [list(sampler) for sampler in ranks]
        assert len({len(items) for items in lists}) == 1, "ranks have different numbers of steps"
        steps = random_.randint(1, 6)
        for step in range(steps):
            for sampler, items in zip(ranks, lists):
                part = items[step * batch:(step + 1) * batch]
                used.extend(part)
                sampler.record(len(part))
        done = len(lists[0]) <= steps * batch
        states = [sampler.state_dict() for sampler in ranks]
        assert all(other == states[0] for other in states), states
        state = states[0]
        if done:
            return collections.Counter(used), size


class Sampler(unittest.TestCase):
    def test_each_index_once(self):
        for seed in range(300):
            random_ = random.Random(seed)
            count, shuffle = random_.randint(1, 200), random_.random() < 0.5
            data = range(count)
            with self.subTest(seed=seed, count=count):
                used, size = epoch(lambda r, n: kolo.ElasticSampler(data, shuffle, rank=r, size=n), random_, count)
                self.assertEqual(set(data), set(used))
                self.assertLess(sum(used.values()) - count, size)  # only the last rest is filled up
                used, size = epoch(lambda r, n: kolo.ElasticSampler(data, shuffle, drop_last=True, rank=r, size=n), random_, count)
                self.assertEqual(1, max(used.values(), default=1))
                self.assertLess(count - len(used), 7)

    def test_iterable(self):
        for seed in range(100):
            random_ = random.Random(seed)
            count = random_.randint(1, 200)
            used, _ = epoch(lambda r, n: kolo.ElasticIterable(range(count), rank=r, size=n), random_, count)
            self.assertEqual(1, max(used.values(), default=1))
            self.assertLess(count - len(used), 7)

    def test_epochs_differ(self):
        sampler = kolo.ElasticSampler(range(100))
        first = list(sampler)
        self.assertEqual(first, list(sampler))
        sampler.set_epoch(1)
        self.assertNotEqual(first, list(sampler))
        self.assertEqual(sorted(first), sorted(sampler))

    def test_length(self):
        sampler = kolo.ElasticSampler(range(10), rank=0, size=4)
        self.assertEqual(3, len(sampler))
        self.assertEqual(2, len(kolo.ElasticSampler(range(10), drop_last=True, rank=0, size=4)))
        sampler.record_batch(0, 2)
        self.assertEqual(1, len(sampler))
        sampler.record(1)
        self.assertEqual((0, []), (len(sampler), list(sampler)))

    def test_iterable_with_workers(self):
        items = kolo.ElasticIterable(range(10), rank=1, size=2)
        loader = torch.utils.data.DataLoader(items, batch_size=2)
        self.assertEqual([[1, 3], [5, 7], [9]], [batch.tolist() for batch in loader])
        # No fork: in tests before, this process has had threads of torch, which do not survive one.
        workers = functools.partial(torch.utils.data.DataLoader, items, multiprocessing_context="spawn")
        with self.assertRaisesRegex(RuntimeError, "num_workers=0 or 1"):
            list(workers(num_workers=2))
        self.assertEqual(5, len(list(workers(num_workers=1))))
        with self.assertRaisesRegex(RuntimeError, "persistent_workers"):
            next(iter(workers(num_workers=1, persistent_workers=True)))

    def test_iterable_learns_of_epochs(self):
        class Items(list):
            def set_epoch(self, epoch):
                self.epoch = epoch

        items = Items([1, 2])
        kolo.ElasticIterable(items).load_state_dict({"epoch": 4, "processed": 0})
        self.assertEqual(4, items.epoch)


if __name__ == "__main__":
    unittest.main()
