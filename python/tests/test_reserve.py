# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""No group waits while the kernel allocates memory for a newcomer: its first commit reuses memory that was written before."""

import resource
import unittest
from unittest import mock

import torch

import kolo.torch as kolo
from kolo.torch.session import Elastic
from kolo.torch.state import tree
from kolo.torch.state.reserve import Reserve
from kolo.torch.state.state import core_of

from .test_state import same
from .test_sync import Process, ranks

MIB = 2**20


def addresses(tensors):
    return {tensor.data_ptr() for tensor in tensors if tensor.numel()}


class Kept(unittest.TestCase):
    """The tensors of a Reserve."""

    def test_one_for_each(self):
        spare = Reserve()
        like = [torch.ones(5000), torch.ones(50, 100), torch.ones(5000), torch.ones(5000, dtype=torch.int64)]
        spare.fill(like, [torch.ones(5000)])
        spare.fill(like, [torch.ones(5000)])  # they are there
        self.assertEqual([(50, 100), (5000,), (5000,)], sorted(tuple(tensor.shape) for tensor in spare.tensors()))
        taken = [spare.take(torch.Size([5000]), kind, torch.device("cpu")) for kind in (torch.int64, torch.int64, torch.float32, torch.float32)]
        self.assertEqual([True, False, True, False], [tensor is not None for tensor in taken])
        spare.clear()
        self.assertEqual([], spare.tensors())

    def test_what_has_no_memory_of_its_own_here(self):
        spare = Reserve()
        spare.fill([torch.ones(3), torch.empty(9999, device="meta"), torch.nn.UninitializedParameter(), torch.eye(99).to_sparse()], [])
        self.assertEqual([], spare.tensors())


class FirstCommit(unittest.TestCase):
    def test_has_its_memory_before(self):
        model = torch.nn.Linear(200, 200)
        model.second = torch.nn.Linear(200, 200)
        model.second.weight = model.weight  # twice in the state, as tied weights are
        optimizer = torch.optim.Adam(model.parameters())
        model(torch.ones(1, 200)).sum().backward()
        optimizer.step()
        state = kolo.State(model=model, optimizer=optimizer, step=0)
        core_of(state).snapshot.reserve(core_of(state).tensors())
        ready = addresses(core_of(state).snapshot.spare.tensors())
        state.commit()
        large = [tensor for tensor in tree.split(core_of(state).snapshot.tree())[1] if tensor.numel() == 40000]
        self.assertEqual(4, len(large))
        self.assertLessEqual(addresses(large), ready)
        self.assertEqual([], core_of(state).snapshot.spare.tensors())

    def test_writes_no_page_for_the_first_time(self):
        state = kolo.State(weight=torch.nn.ParameterList([torch.ones(64 * MIB // 4)]))
        core_of(state).snapshot.reserve(core_of(state).tensors())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        state.commit()
        pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        self.assertLess(pages, 64 * MIB // resource.getpagesize() // 4)

    def test_is_ready_before_a_process_asks_for_its_group(self):
        state = kolo.State(weight=torch.nn.ParameterList([torch.ones(5000)]))
        elastic = Elastic.__new__(Elastic)
        elastic.group = None
        with mock.patch.object(elastic, "_begin", side_effect=ValueError("no agent")), self.assertRaisesRegex(ValueError, "no agent"):
            elastic.train(None, state)
        self.assertEqual([(5000,)], [tuple(tensor.shape) for tensor in core_of(state).snapshot.spare.tensors()])

    def test_more_parameters_take_the_memory_that_is_there(self):
        model = torch.nn.ParameterList([torch.ones(5000), torch.ones(6000)])
        state = kolo.State(model=model)
        state.commit()
        before = addresses(tree.split(core_of(state).snapshot.tree())[1])
        state.model = torch.nn.ParameterList([torch.ones(7000), *model])
        state.commit()
        self.assertLessEqual(before, addresses(tree.split(core_of(state).snapshot.tree())[1]))

    def test_of_one_that_has_received_a_broadcast(self):
        """The first commit uses the memory into which the state was received."""
        member, = self.trained(1)
        newcomer, = self.made(1)
        core_of(newcomer.state).snapshot.reserve(core_of(newcomer.state).tensors())
        ready = addresses(core_of(newcomer.state).snapshot.spare.tensors())
        self.assertEqual(2, len(ready))
        arrived = set()
        receive = Reserve.take

        def take(spare, *kind):
            tensor = receive(spare, *kind)
            arrived.update(addresses([] if tensor is None else [tensor]))
            return tensor

        with mock.patch.object(Reserve, "take", take):
            ranks([member.join, lambda group: newcomer.join(group, True)], (1,))
        self.assertTrue(same(member.state.tree(), newcomer.state.tree()))
        self.assertLessEqual(ready, arrived)
        self.assertLessEqual(ready, addresses(tree.split(core_of(newcomer.state).snapshot.tree())[1]))
        newcomer.state.step += 1
        newcomer.state.model[0].data.zero_()
        newcomer.state.restore()
        self.assertTrue(same(member.state.tree(), newcomer.state.tree()))

    def test_a_member_that_has_one_keeps_it(self):
        """The received state replaces its commit, and no memory is left over."""
        members = self.trained(2)
        members[0].state.model[0].data.fill_(7)
        members[0].state.commit()
        ranks([member.join for member in members])
        self.assertTrue(same(members[0].state.tree(), members[1].state.tree()))
        for member in members:
            self.assertEqual([], core_of(member.state).snapshot.spare.tensors())
            member.state.restore()
            self.assertTrue(same(members[0].state.tree(), member.state.tree()))

    def made(self, count):
        return [Process(model=torch.nn.ParameterList([torch.rand(50, 100), torch.rand(6000)]), step=0) for _ in range(count)]

    def trained(self, count):
        members = self.made(count)
        ranks([lambda group, m=m: m.join(group, True) for m in members], tuple(range(count)))
        return members


if __name__ == "__main__":
    unittest.main()
