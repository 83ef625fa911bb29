# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Who trains in a new group."""

import unittest

from kolo.torch.group.roles import Offer, Roles, StateLost, among, decide
from kolo.torch.state.ledger import LOST
from kolo.worker import Place

NEW = -1


class Decide(unittest.TestCase):
    def test_roles(self):
        for name, commits, sends, members in (
            ("first group", (NEW, NEW), (0, 0), (0, 1)),
            ("members have left", (4, 4), (1, 1), (0, 1)),
            ("newcomers", (4, NEW, 4, NEW), (1, 0, 1, 0), (0, 2)),
            ("an observer has lost its group", (4, LOST), (1, 0), (0,)),
            ("a small state", (4, NEW), (0, 0), (0, 1)),
            ("members have failed at different commits", (4, 5, NEW), (1, 1, 0), (0, 1, 2)),
            ("rank 0 has no state", (NEW, 4), (0, 1), (0, 1)),
        ):
            with self.subTest(name):
                roles = decide([Offer(commit, send, 0) for commit, send in zip(commits, sends)])
                observers = tuple(rank for rank in range(len(commits)) if rank not in members)
                self.assertEqual(Roles(members, observers), roles)

    def test_state_lost(self):
        with self.assertRaisesRegex(StateLost, "the training state is lost"):
            decide([Offer(LOST, 0, 0), Offer(NEW, 0, 0)])

    def test_place_among_the_members(self):
        offers = [Offer(4, 1, 0), Offer(NEW, 0, 0), Offer(NEW, 0, 1), Offer(4, 1, 2)]
        roles = decide(offers)
        place = Place(7, 3, 4, local_rank=0, local_size=1, cross_rank=2, cross_size=3, newcomers=(1, 2))
        self.assertEqual(Place(7, 1, 2, local_rank=0, local_size=1, cross_rank=1, cross_size=2), among(place, roles, offers))
        self.assertIsNone(among(Place(7, 1, 4), roles, offers))
        first = Place(7, 0, 4, local_rank=0, local_size=2, cross_rank=0, cross_size=3, newcomers=(1, 2))
        self.assertEqual(Place(7, 0, 2, local_size=1, cross_rank=0, cross_size=2), among(first, roles, offers))


if __name__ == "__main__":
    unittest.main()
