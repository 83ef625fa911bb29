# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Messages of all processes to all others at the same time, and messages to processes that leave."""

import random
import threading
import unittest
from datetime import timedelta

import torch
import torch.distributed as dist

from kolo.torch.group import exchange
from kolo.torch.group.exchange import Exchange
from kolo.torch.group.former import Former


def groups(size):
    """Returns the gloo groups of as many processes, all of them in this process."""
    store, made = dist.HashStore(), [None] * size

    def make(rank):
        made[rank] = dist.ProcessGroupGloo(store, rank, size, timeout=timedelta(seconds=60))

    threads = [threading.Thread(target=make, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made


def some_bytes(dice, count):
    return torch.tensor([dice.randrange(256) for _ in range(count)], dtype=torch.uint8)


class Messages(unittest.TestCase):
    def test_random(self):
        """All messages arrive in their order: any number for each pair, in one part or several."""
        size = 3
        controls = groups(size)
        for seed in range(20):
            dice = random.Random(seed)
            sent = {(a, b): [[some_bytes(dice, dice.randrange(1, 50)) for _ in range(dice.choice((1, 1, 3)))]
                             for _ in range(dice.choice((0, 1, 5, 3 * exchange.PENDING)))]
                    for a in range(size) for b in range(size) if a != b}
            received = {pair: [[torch.zeros_like(part) for part in message] for message in messages] for pair, messages in sent.items()}
            running = [Exchange(controls[rank], {b: sent[a, b] for a, b in sent if a == rank}, {a: received[a, b] for a, b in sent if b == rank})
                       for rank in range(size)]
            for one in running:
                one.wait(lambda: False)
            for pair, messages in sent.items():
                for message, arrived in zip(messages, received[pair]):
                    self.assertTrue(all(map(torch.equal, message, arrived)), (seed, pair))

    def test_gives_up(self):
        """It gives up if the group has failed, or if nothing arrives for a while."""
        controls = groups(2)
        for arguments in (lambda: True,), (lambda: False, 0.3):
            with self.assertRaisesRegex(RuntimeError, "given up"):
                Exchange(controls[0], {}, {1: [[torch.zeros(1, dtype=torch.uint8)]]}).wait(*arguments)
        for _ in range(2):  # so that the threads end
            controls[1].send([torch.zeros(1, dtype=torch.uint8)], 0, 0).wait()


class Leavers(unittest.TestCase):
    def test_told(self):
        """Leavers learn where the others are, or that nothing is asked of them."""
        controls = groups(3)
        formers = [Former(7, rank, 3, control) for rank, control in enumerate(controls)]
        for places in [1, -1, 0], []:
            formers[1].tell([0, 2], places)
            for leaver in 0, 2:
                self.assertEqual(places or None, formers[leaver].told())
        formers[1].confirm([0])
        formers[0].confirmed([1])
        for former in formers:
            former.close()
            former.close()


if __name__ == "__main__":
    unittest.main()
