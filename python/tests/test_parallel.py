# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Which tensors kolo.wrap broadcasts in a new group."""

import inspect
import unittest
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel, distributed

import kolo.torch as kolo
from kolo.torch import parallel


class Session:
    """A session whose group is torch's present one."""

    def __init__(self, *equal):
        self.group = mock.Mock()
        self._equal = equal

    def synced(self, module):
        return any(module is one for one in self._equal)


class Wrap(unittest.TestCase):
    def setUp(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        self.module = torch.nn.Linear(2, 1)

    def wrap(self, session):
        sync = mock.Mock(wraps=distributed._sync_module_states)
        with mock.patch.object(parallel, "present", lambda: session), \
                mock.patch.object(distributed, "_sync_module_states", sync):
            wrapped = kolo.wrap(self.module)
            self.assertIs(distributed._sync_module_states, sync, "as it was")
        self.assertIsInstance(wrapped, DistributedDataParallel)
        session.group.wrapped.assert_called_once_with(wrapped)
        return sync.call_count

    def test_sends_nothing_of_a_module_that_is_equal_on_all_members(self):
        self.assertEqual(0, self.wrap(Session(self.module)))

    def test_sends_another_module(self):
        self.assertEqual(1, self.wrap(Session()))

    def test_leaves_the_constructor_as_it_was_when_it_fails(self):
        sync = distributed._sync_module_states
        self.module.requires_grad_(False)
        with mock.patch.object(parallel, "present", lambda: Session(self.module)), self.assertRaises(RuntimeError):
            kolo.wrap(self.module)
        self.assertIs(sync, distributed._sync_module_states)

    def test_without_a_group(self):
        with self.assertRaisesRegex(RuntimeError, "there is no group yet"):
            kolo.wrap(self.module)


class Bound(unittest.TestCase):
    """Objects that are bound to one group are refused in a State, with a message that says what to do instead."""

    def group(self):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)

    def test_before_there_is_a_group(self):
        with self.assertRaisesRegex(RuntimeError, r"kolo\.wrap\(state\.model\)"):
            DistributedDataParallel(torch.nn.Linear(2, 1))
        self.group()
        self.assertIn("device_ids", inspect.signature(DistributedDataParallel).parameters)
        DistributedDataParallel(torch.nn.Linear(2, 1))

    def test_wrapped_module_in_the_state(self):
        self.group()
        wrapped = DistributedDataParallel(torch.nn.Linear(2, 1))
        with self.assertRaisesRegex(TypeError, r"state\.model cannot .*kolo\.wrap"):
            kolo.State(model=wrapped)
        state = kolo.State(model=wrapped.module)
        with self.assertRaisesRegex(TypeError, r"state\.model cannot .*kolo\.wrap"):
            state.model = wrapped

    def test_tensors_of_a_mesh(self):
        self.group()
        try:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import Shard, distribute_tensor
        except ImportError:
            self.skipTest("this PyTorch has no DTensor")
        module = torch.nn.Linear(2, 1)
        module.weight = torch.nn.Parameter(distribute_tensor(module.weight.data, init_device_mesh("cpu", (1,)), [Shard(0)]))
        for value in (module, module.weight, torch.optim.SGD(module.parameters(), 0.1)):
            with self.assertRaisesRegex(TypeError, r"state\.part.* cannot .*DTensor.*kolo\.Sharded.*tensor parallelism is not supported, except from "
                                                   r"checkpoints with mode"):
                kolo.State(part=value)
