# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The data of ranks whose number changes. Rules only: no PyTorch."""

import collections
import random
import unittest

from kolo.integrations.batches import Position, RankBatches, Step, deal, deal_evenly

try:
    import kolo.torch as kolo
    from kolo.integrations.streams import Source, Stream, StreamBatches, StreamPosition
except ImportError:  # no PyTorch
    StreamBatches = None


class Steps(unittest.TestCase):
    def test_share(self):
        for (size, forward, accumulate, total), expected in {
            (1, 8, 1, None): Step(8, 1),
            (3, 8, 2, None): Step(48, 2),
            (1, 8, 1, 32): Step(32, 4),
            (3, 8, 1, 32): Step(32, 2),  # 11 samples of a rank take two passes
            (4, 8, 5, 32): Step(32, 1),  # the accumulation of the script does not count
            (5, 8, 1, 3): Step(3, 1),
        }.items():
            self.assertEqual(expected, Step.shared(size, forward, accumulate, total), (size, forward, accumulate, total))

    def test_position_of_a_number_of_epochs(self):
        for epochs, expected in ((0, (0, 0)), (1.25, (1, 25)), (2, (2, 0)), (1.999999, (2, 0)), (0.01, (0, 1))):
            position = Position(100)
            position.seek(epochs)
            self.assertEqual(expected, (position.epoch, position.used))
            self.assertAlmostEqual(epochs, position.epochs, places=5)

    def test_a_rest_that_is_no_whole_step(self):
        self.assertEqual((4, 3), (Position(100).steps(30), Position(100, drop_last=True).steps(30)))
        grown = Position(100, drop_last=True, used=90)
        self.assertEqual(1, grown.steps(30))  # else nothing would end the epoch

    def test_until_the_end_of_a_part_of_an_epoch(self):
        for epochs, used, expected in ((1.5, 0, 15), (0.5, 0, 5), (0.5, 30, 2), (0.5, 60, 0), (2.0, 30, 17)):
            self.assertEqual(expected, Position(100, used=used).steps_until(epochs, 10), (epochs, used))


class Epochs(unittest.TestCase):
    """The samples that ranks draw while their number changes at random."""

    def draw(self, seed):
        rng = random.Random(seed)
        position = Position(rng.randint(1, 300), rng.random() < 0.3)
        total = rng.choice([None, rng.randint(1, 40)])
        forward, accumulate = rng.randint(1, 6), rng.randint(1, 3)
        order = lambda epoch: random.Random(epoch).sample(range(position.samples), position.samples)
        while position.epoch < 2:
            used, repeated, most = collections.Counter(), 0, 0
            left = 1
            while left:
                size = rng.randint(1, 5)
                step = Step.shared(size, forward, accumulate, total)
                ranks = [iter(RankBatches(position, order, step, forward, rank, size)) for rank in range(size)]
                left = position.steps(step.samples)
                count = rng.randint(0, left)  # steps until the next change
                for _ in range(count):
                    passes = [[next(rank) for _ in range(step.accumulate)] for rank in ranks]
                    rest = min(step.samples, position.samples - position.used)
                    drawn = [len(one) for rank in passes for one in rank]
                    self.assertLessEqual(max(drawn), forward)
                    self.assertGreaterEqual(min(drawn), 1)
                    shares = [sum(map(len, rank)) for rank in passes]
                    self.assertLessEqual(max(shares) - min(shares), 1)
                    repeated += sum(drawn) - rest
                    self.assertEqual(max(rest, size * step.accumulate), sum(drawn))
                    used.update(index for rank in passes for one in rank for index in one)
                    position.advance(step.samples)
                left -= count
                if not left:
                    self.assertEqual([None] * size, [next(rank, None) for rank in ranks])
                most = max(most, step.samples)
            if position.drop_last:
                self.assertLess(position.samples - len(used), most)
            else:
                self.assertEqual(set(range(position.samples)), set(used))
            self.assertLessEqual(sum(used.values()) - len(used), repeated)
            position.end_epoch()

    def test_no_sample_is_left_out_or_used_twice(self):
        for seed in range(400):
            with self.subTest(seed=seed):
                self.draw(seed)

    def test_the_steps_that_are_left_are_those_that_are_made(self):
        for seed in range(200):
            rng = random.Random(seed)
            position = Position(rng.randint(1, 100), rng.random() < 0.5)
            epochs, samples = rng.randint(1, 3), rng.randint(1, 40)
            expected, made = position.steps_until(epochs, samples), 0
            while position.epoch < epochs:
                for _ in range(position.steps(samples)):
                    self.assertEqual(expected - made, position.steps_until(epochs, samples), seed)
                    position.advance(samples)
                    made += 1
                position.end_epoch()
            self.assertEqual(expected, made, seed)


class Numbers:
    """An iterable of numbers, in another order each epoch."""

    def __init__(self, count):
        self.count, self.epoch, self.read = count, 0, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        for number in random.Random(self.epoch).sample(range(self.count), self.count):
            self.read += 1
            yield number


class Placed(Numbers):
    """Numbers that can go on from a position."""

    next = 0

    def __iter__(self):
        order = random.Random(self.epoch).sample(range(self.count), self.count)
        while self.next < self.count:
            self.next += 1
            self.read += 1
            yield order[self.next - 1]

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


@unittest.skipUnless(StreamBatches, "needs PyTorch")
class Streams(unittest.TestCase):
    """The numbers that ranks read from an iterable while their number changes at random."""

    def read(self, seed, kind):
        rng = random.Random(seed)
        count, drop_last = rng.randint(1, 200), rng.random() < 0.3
        total = rng.choice([None, rng.randint(1, 40)])
        forward, accumulate = rng.randint(1, 6), rng.randint(1, 3)
        dealt = rng.choice([deal, deal_evenly])
        states = [StreamPosition().state_dict()]
        epoch, used, most = 0, collections.Counter(), 0
        while epoch < 2:
            size = rng.randint(1, 5)
            step = Step.shared(size, forward, 1 if dealt is deal_evenly else accumulate, total if dealt is deal else None)
            most = max(most, step.samples)
            ranks = []
            for rank in range(size):  # all of them newcomers
                position, items = StreamPosition(), kind(count)
                position.load_state_dict(states[-1])
                share = lambda samples, rank=rank: dealt(samples, step, rank, size)
                ranks.append((position, items, iter(Stream(StreamBatches(Source(items), position, step, share, drop_last), position))))
            for _ in range(rng.randint(0, 8)):
                passes = [[next(batches, None) for _ in range(step.accumulate)] for _, _, batches in ranks]
                if passes[0][0] is None:
                    self.assertEqual({None}, {one for rank in passes for one in rank})
                    if not drop_last:
                        self.assertEqual(set(range(count)), set(used))
                    self.assertLess(count - len(used), most)
                    for position, _, _ in ranks:
                        position.end_epoch()
                    epoch, most = epoch + 1, 0
                    used.clear()
                else:
                    fresh = {one for rank in passes for batch in rank for one in batch}
                    self.assertFalse(fresh & set(used))
                    self.assertGreaterEqual(min(len(batch) for rank in passes for batch in rank), 1)
                    used.update(fresh)
                    for position, _, _ in ranks:
                        position.advance(step.samples)
                    self.assertEqual(len(used), ranks[0][0].used)
                states = [position.state_dict() for position, _, _ in ranks]
                self.assertEqual(1, len({str(state) for state in states}))
                if passes[0][0] is None:
                    break
            if kind is Placed:  # it reads on: all of it once, and what a rank has read ahead
                self.assertLessEqual(ranks[0][1].read, count)

    def test_no_sample_is_left_out_or_used_twice(self):
        for kind in Numbers, Placed:
            for seed in range(150):
                with self.subTest(kind=kind.__name__, seed=seed):
                    self.read(seed, kind)

    def test_an_iterable_with_a_state_goes_on_without_reading_again(self):
        items, position, step = Placed(100), StreamPosition(), Step(10, 1)
        batches = StreamBatches(Source(items), position, step, lambda samples: deal(samples, step, 0, 1), False)
        found = []
        for _ in range(3):  # groups
            for _, batch in zip(range(4), Stream(batches, position)):
                found += batch
                position.advance(10)
        self.assertEqual(random.Random(0).sample(range(100), 100), found)
        self.assertEqual(100, items.read)

    def test_an_epoch_that_begins_again(self):
        """An epoch begins again after the loss of its first step."""
        for kind in Numbers, Placed:
            items, position, step = kind(100), StreamPosition(), Step(10, 1)
            batches = StreamBatches(Source(items), position, step, lambda samples: deal(samples, step, 0, 1), False)
            begins = [next(iter(Stream(batches, position))) for _ in range(2)]
            position.advance(10)
            position.end_epoch()
            begins += [next(iter(Stream(batches, position))) for _ in range(2)]
            self.assertEqual([random.Random(epoch).sample(range(100), 100)[:10] for epoch in (0, 0, 1, 1)], begins)

    def test_the_state_of_a_stream_of_hugging_face(self):
        """The state may count samples that are not read yet, also in an iterable that returns it as its own state."""
        class Stream(Placed):
            __module__ = "datasets.iterable_dataset"

        class Own(Placed):
            def __init__(self, part):
                super().__init__(10)
                self.part, self.me = part, self

        self.assertTrue(Source(Own([Placed(10)] * 2)).placed)
        for inner in Stream(10), [Stream(10)], {"web": Own(Stream(10))}, Own([(Stream(10), 0.5)]):
            self.assertFalse(Source(Own(inner)).placed)
        self.assertFalse(Source(Stream(10)).placed)

    def test_an_elastic_iterable(self):
        """Outside of a State, its own state does not advance, so each group would begin again."""
        with self.assertRaisesRegex(ValueError, "an ElasticIterable does not count its samples .* give the iterable within it"):
            Source(kolo.ElasticIterable(Numbers(10)))

    def test_samples_that_are_looked_at_are_read_later(self):
        for kind in Numbers, Placed:
            items, position, step = kind(100), StreamPosition(), Step(10, 1)
            source = Source(items)
            first = source.first(10)
            batches = StreamBatches(source, position, step, lambda samples: deal(samples, step, 0, 1), False)
            self.assertEqual(first, next(iter(Stream(batches, position))))

    def test_an_iterable_that_cannot_be_read_again(self):
        class Once(Numbers):
            def __iter__(self):
                return self

            def __next__(self):
                self.read += 1
                return self.read

        class OncePlaced(Once):
            def state_dict(self):
                return {"read": self.read}

            def load_state_dict(self, state):
                self.read = state["read"]

        with self.assertRaisesRegex(ValueError, "__iter__ of a Once returns the object itself"):
            Source(Once(10)).read(StreamPosition())
        source = Source(OncePlaced(10))
        self.assertEqual([1, 1], [next(source.read(StreamPosition())) for _ in range(2)])


if __name__ == "__main__":
    unittest.main()
