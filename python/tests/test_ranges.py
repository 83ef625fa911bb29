# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checks which bytes of a sharded state go where: by the rules, and in random changes. Needs no PyTorch."""

import importlib.util
import os
import random
import sys
import unittest

PATH = os.path.join(os.path.dirname(__file__), "..", "kolo", "torch", "state", "ranges.py")
SPEC = importlib.util.spec_from_file_location("ranges", PATH)
ranges = sys.modules["ranges"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ranges)
NOWHERE, Change, Item, Offer, Piece = ranges.NOWHERE, ranges.Change, ranges.Item, ranges.Offer, ranges.Piece


def some_items(dice):
    return [Item(dice.randrange(0, 30), dice.choice((0, 1, 3, 4, 20)), dice.random() < 0.8) for _ in range(dice.randrange(1, 8))]


def some_change(dice):
    """Any members stay, at least one; in any order, with any number of newcomers between them."""
    before = dice.randrange(1, 9)
    stay = dice.sample(range(before), dice.randrange(1, before + 1))
    places = stay + [NOWHERE] * dice.randrange(0, 6)
    dice.shuffle(places)
    lost = [rank for rank in range(before) if rank not in stay]
    if lost and dice.random() < 0.3:
        return Change(before, tuple(places), tuple((rank, places.index(dice.choice(stay))) for rank in lost))
    return Change(before, tuple(places))


def content(item, start, stop):
    """Returns the bytes of a piece. Each byte value occurs only once in a state."""
    return [(item, number) for number in range(start, stop)]


class Spans(unittest.TestCase):
    def test_uneven(self):
        """The rows are divided as by torch.chunk: the last ranks have fewer rows, or none."""
        item = Item(7, 10, True)
        self.assertEqual([(0, 20), (20, 40), (40, 60), (60, 70)], [item.span(rank, 4) for rank in range(4)])
        self.assertEqual([(0, 10), (10, 20), (20, 20)], [Item(2, 10, True).span(rank, 3) for rank in range(3)])
        self.assertEqual([(0, 70)] * 2, [Item(7, 10, False).span(rank, 2) for rank in range(2)])

    def test_owners(self):
        """The owners are the ranks whose span has a part of the range, and no others."""
        dice = random.Random(1)
        for _ in range(2000):
            item, size = Item(dice.randrange(1, 30), dice.randrange(1, 9), True), dice.randrange(1, 12)
            start, stop = sorted(dice.sample(range(item.rows * item.width + 1), 2))
            owners = [rank for rank in range(size) if max(start, item.span(rank, size)[0]) < min(stop, item.span(rank, size)[1])]
            self.assertEqual(owners, list(item.owners(start, stop, size)), (item, size, start, stop))


class Offers(unittest.TestCase):
    """Checks how the last commit gets to the next group."""

    def test_change(self):
        newcomer, other = Offer(-1, -1, NOWHERE, 0, 0), Offer(3, 2, 1, 4, 0)
        first, second, third = (Offer(5, 4, rank, 3, 0) for rank in range(3))
        leaving = [offer._replace(group=8) for offer in (first, second, third)]
        for name, (offers, result) in {
            "the first group": ([newcomer, newcomer], None),
            "all are there": ([first, second, third], Change(3, (0, 1, 2))),
            "in another order": ([third, newcomer, first, second], Change(3, (2, NOWHERE, 0, 1))),
            "one of an older commit is as one of none": ([first, other, second, third], Change(3, (0, NOWHERE, 1, 2))),
            "one is lost": ([first, third], None),
            "one has left as planned": ([leaving[0], leaving[2]], Change(3, (0, 2))),
            "a member is no longer connected with it": ([leaving[0], third], None),
            "or with the one of another group": ([leaving[0], leaving[2]._replace(group=7)], None),
            "the same part twice": ([first, first, second, third], None),
            "one is lost, and another has a copy": ([first, third._replace(copy=1)], Change(3, (0, 2), ((1, 1),))),
            "the copy is of another one": ([first, third._replace(copy=0)], None),
            "two are lost": ([third._replace(copy=1)], None),
            "no part": ([first._replace(rank=NOWHERE)], None),
            "parts of two sizes": ([first, second, third._replace(size=4)], None),
        }.items():
            with self.subTest(name):
                self.assertEqual(result, ranges.change(offers))

    def test_leavers(self):
        self.assertEqual([1, 3], Change(4, (2, NOWHERE, 0)).leavers())


class Routes(unittest.TestCase):
    def test_two_to_four(self):
        """Each of the two sends half of the bytes that the newcomers get."""
        routes = ranges.route([Item(12, 1, True), Item(4, 1, False)], Change(2, (0, 1, NOWHERE, NOWHERE)))
        self.assertEqual({0: [Piece(0, 0, 3), Piece(1, 0, 4)], 1: [Piece(1, 0, 4)], 2: [], 3: []}, routes.kept)
        self.assertEqual({(0, 1): [Piece(0, 3, 6)], (1, 2): [Piece(0, 6, 9)], (1, 3): [Piece(0, 9, 12), Piece(1, 0, 4)],
                          (0, 2): [Piece(1, 0, 4)]}, {key: routes.sent[key] for key in sorted(routes.sent)})
        self.assertEqual(({}, {}), routes[2:])

    def test_a_newcomer_for_one_that_leaves(self):
        """The part of the one that leaves goes through the process that stays."""
        routes = ranges.route([Item(4, 1, True)], Change(2, (0, NOWHERE)))
        self.assertEqual(({}, {(1, 0): [Piece(0, 2, 4)]}, {(0, 1): [Piece(0, 2, 4)]}), routes[1:])

    def test_random(self):
        """Each byte arrives once at each process that needs it. It is never sent to a process that has it, nor by one that lacks it."""
        for seed in range(1000):
            dice = random.Random(seed)
            items, change = some_items(dice), some_change(dice)
            with self.subTest(seed=seed, items=items, change=change):
                self.check(items, change, ranges.route(items, change))

    def check(self, items, change, routes):
        size = len(change.places)
        have = [{byte for number, item in enumerate(items) for byte in content(number, *item.span(rank, change.before))}
                for rank in range(change.before)]
        for lost, keeper in change.copies:
            have[change.places[keeper]] |= have[lost]
        arrived = {rank: [] for rank in range(size)}
        for rank, pieces in routes.kept.items():
            for piece in pieces:
                arrived[rank] += content(*piece)
                self.assertLessEqual(set(content(*piece)), have[change.places[rank]])
        through = {}
        for (source, target), pieces in routes.handed.items():
            self.assertIn(source, change.leavers())
            self.assertIn(target, change.places)
            for piece in pieces:
                self.assertLessEqual(set(content(*piece)), have[source])
                through.setdefault(target, []).append(piece)
        for (source, target), pieces in routes.forwarded.items():
            self.assertEqual(NOWHERE, change.places[target])
            for piece in pieces:
                through[change.places[source]].remove(piece)
                arrived[target] += content(*piece)
        for before, pieces in through.items():
            for piece in pieces:
                self.assertFalse(set(content(*piece)) & have[before])
                arrived[change.places.index(before)] += content(*piece)
        for (source, target), pieces in routes.sent.items():
            self.assertNotEqual(source, target)
            for piece in pieces:
                self.assertLessEqual(set(content(*piece)), have[change.places[source]])
                if change.places[target] != NOWHERE:
                    self.assertFalse(set(content(*piece)) & have[change.places[target]])
                arrived[target] += content(*piece)
        for rank in range(size):
            wanted = [byte for number, item in enumerate(items) for byte in content(number, *item.span(rank, size))]
            self.assertEqual(sorted(wanted), sorted(arrived[rank]), rank)


class Parcels(unittest.TestCase):
    def test_random(self):
        """Parcels have the same bytes, those of each item in order. No parcel exceeds the limit, and large pieces have their own."""
        for seed in range(500):
            dice = random.Random(seed)
            starts = [dice.randrange(50) for _ in range(dice.randrange(6))]
            pieces = [Piece(item, start, start + dice.randrange(1, 40)) for item, start in enumerate(starts)]
            limit = dice.randrange(1, 30)
            alone = dice.randrange(1, limit + 1)
            made = list(ranges.parcels(pieces, limit, alone))
            with self.subTest(seed=seed):
                self.assertTrue(all(0 < sum(stop - start for _, start, stop in parcel) <= limit for parcel in made))
                self.assertTrue(all(stop - start < alone for parcel in made if len(parcel) > 1 for _, start, stop in parcel))
                for item, piece in enumerate(pieces):
                    parts = [part for parcel in made for part in parcel if part.item == item]
                    self.assertEqual(content(*piece), [byte for part in parts for byte in content(*part)])


if __name__ == "__main__":
    unittest.main()
