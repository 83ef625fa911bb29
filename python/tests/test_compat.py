# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Each release of PyTorch has the private names that kolo.torch uses."""

import os
import sys
import unittest
from collections import OrderedDict
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel, distributed
from torch.utils.data import DataLoader, IterableDataset

from kolo.torch import compat


def group(test):
    """Makes a default group of this process alone."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    test.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())
    return store


class Tensors(unittest.TestCase):
    def test_version(self):
        tensor = torch.zeros(2)
        before = compat.version(tensor)
        tensor += 1
        self.assertGreater(compat.version(tensor), before)
        before = compat.version(tensor)
        tensor.detach().mul_(2)
        self.assertGreater(compat.version(tensor), before)

    def test_copy_all(self):
        sources = [torch.arange(3.0), torch.ones(2, dtype=torch.int64)]
        for release in torch, mock.Mock(spec=[]):  # one that has no such function
            targets = [torch.zeros(3), torch.zeros(2, dtype=torch.int64)]
            with mock.patch.object(compat, "torch", release):
                compat.copy_all(targets, sources)
            self.assertTrue(all(map(torch.equal, targets, sources)))
        compat.copy_all([], [])

    @unittest.skipUnless(hasattr(torch.amp, "GradScaler"), "needs a GradScaler of the CPU")
    def test_scalers(self):
        weight, scaler = torch.ones(1, requires_grad=True), torch.amp.GradScaler("cpu")
        optimizer = torch.optim.SGD([weight], 0.1)
        self.assertTrue(compat.is_scaler(scaler))
        self.assertFalse(compat.is_scaler(optimizer))
        scaler.scale(weight.sum()).backward()
        for _ in range(2):
            scaler.unscale_(optimizer)
            compat.forget_unscaled(scaler)

    def test_dtensors(self):
        self.assertFalse(compat.is_dtensor(torch.zeros(1)))
        group(self)
        try:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.tensor import DTensor, Shard
        except ImportError:
            self.skipTest("this PyTorch has no DTensor")
        whole = torch.arange(4.0)
        # Without a collective: one may still be on its way when the group is destroyed, and both wait for the GIL then.
        part = DTensor.from_local(whole, init_device_mesh("cpu", (1,)), [Shard(0)], run_check=False)
        self.assertTrue(compat.is_dtensor(part))
        self.assertTrue(torch.equal(whole, compat.local_part(part)))


class Modules(unittest.TestCase):
    def test_registered(self):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2, bias=False), torch.nn.BatchNorm1d(2))
        model.add_module("tied", torch.nn.Linear(2, 2, bias=False))
        model.tied.weight = model[0].weight
        found = list(compat.registered(model))
        self.assertEqual(2, sum(tensor is model[0].weight for tensor in found))
        self.assertEqual({id(tensor) for tensor in [*model.parameters(), *model.buffers()]}, {id(tensor) for tensor in found})

    def test_metadata(self):
        saved = torch.nn.BatchNorm1d(2).state_dict()
        self.assertEqual(2, compat.metadata(saved)[""]["version"])
        other = OrderedDict()
        self.assertIsNone(compat.metadata(other))
        compat.set_metadata(other, {"": {"version": 1}})
        self.assertEqual({"": {"version": 1}}, compat.metadata(other))

    def test_hooks_of_an_optimizer(self):
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer, called = torch.optim.SGD([parameter], 0.1), []
        self.assertFalse(compat.has_post_hooks(optimizer))
        optimizer.register_step_pre_hook(lambda *_: called.append("before"))
        handle = optimizer.register_step_post_hook(lambda *_: called.append("after"))
        self.assertTrue(compat.has_post_hooks(optimizer))
        with compat.without_pre_hooks(optimizer):
            optimizer.step()
        self.assertEqual(["after"], called)
        optimizer.step()
        self.assertEqual(["after", "before", "after"], called)
        handle.remove()
        self.assertFalse(compat.has_post_hooks(optimizer))

    def test_persistent_workers(self):
        class Items(IterableDataset):
            def __iter__(self):
                yield int(compat.in_persistent_worker())

        self.assertFalse(compat.in_persistent_worker())
        for persistent in False, True:
            loader = DataLoader(Items(), num_workers=1, persistent_workers=persistent, multiprocessing_context="fork")
            self.assertEqual([int(persistent)], [int(item) for item in loader])


class Parallel(unittest.TestCase):
    def test_wrap_equal(self):
        group(self)
        module, wrapped = torch.nn.Linear(2, 1), DistributedDataParallel.__new__(DistributedDataParallel)
        compare, sync = mock.Mock(wraps=distributed._verify_param_shape_across_processes), mock.Mock()
        with mock.patch.object(distributed, "_verify_param_shape_across_processes", compare), \
                mock.patch.object(distributed, "_sync_module_states", sync):
            compat.wrap_equal(wrapped, module, broadcast_buffers=False)
        self.assertIs(module, wrapped.module)
        self.assertEqual((1, 0), (compare.call_count, sync.call_count), "compares what is trained, and sends nothing")

    def test_unhook(self):
        """A backward pass of the module no longer waits for the group that is gone."""
        group(self)
        wrapped = DistributedDataParallel(torch.nn.Linear(2, 1))
        for name in "reducer", "logger":
            self.assertIn(name, wrapped.__dict__)
        compat.unhook(wrapped)
        dist.destroy_process_group()
        wrapped.module(torch.ones(1, 2)).sum().backward()
        self.assertIsNotNone(wrapped.module.weight.grad)

    def test_after_backward(self):
        """Functions that are registered when a gradient is accumulated run before the wait for other
        processes. Functions that they register run after it.
        """
        group(self)
        wrapped, order = DistributedDataParallel(torch.nn.Linear(2, 1)), []

        def hook(_, bucket):
            future = torch.futures.Future()
            future.set_result([bucket.buffer()])
            return future.then(lambda done: order.append("exchanged") or done.value()[0])

        def before():
            order.append("before")
            compat.after_backward(lambda: order.append("after"))

        wrapped.register_comm_hook(None, hook)
        wrapped.module.bias.register_post_accumulate_grad_hook(lambda _: compat.after_backward(before))
        wrapped(torch.ones(1, 2)).sum().backward()
        self.assertEqual(["before", "after"], [name for name in order if name != "exchanged"])
        self.assertEqual(1, order.count("exchanged"))


class Groups(unittest.TestCase):
    def test_errors(self):
        self.assertTrue(all(issubclass(kind, RuntimeError) for kind in compat.ERRORS))

    def test_connect(self):
        arguments = {"is_master": True, "wait_for_workers": False, "timeout": timedelta(seconds=60)}
        try:
            server = dist.TCPStore("127.0.0.1", 0, use_libuv=False, **arguments)
        except TypeError:
            server = dist.TCPStore("127.0.0.1", 0, **arguments)
        compat.connect("127.0.0.1", server.port, timedelta(seconds=60)).set("a", "b")
        self.assertEqual(b"b", server.get("a"))

    def test_excepthook(self):
        hook = sys.excepthook
        with compat.same_excepthook():
            group(self)
        self.assertIs(hook, sys.excepthook)

    def test_default_group(self):
        self.assertFalse(compat.has_nccl())
        store = group(self)
        store.set("a", "b")
        self.assertIsInstance(compat.default_store(), dist.Store)
        self.assertIn("cpu", compat.devices(dist.group.WORLD))
        self.assertFalse(compat.has_nccl())
        self.assertEqual(1, len(compat.gloo_backends()))
        compat.abort_nccl()  # does nothing: there is none

    def test_nothing_is_left_of_a_group(self):
        """The next group's counters start as in a new process."""
        for _ in range(2):
            group(self)
            dist.new_group([0])
            self.assertEqual(2, len(compat.gloo_backends()))
            dist.destroy_process_group()
            compat.clear_groups()
            self.assertEqual([], compat.gloo_backends())
            self.assertEqual(0, dist.distributed_c10d._world.group_count)

    def test_groups_that_are_there_stay(self):
        group(self)
        compat.clear_groups()
        self.assertEqual(1, len(compat.gloo_backends()))  # no collective, see test_dtensors
        self.assertEqual(1, dist.get_world_size())

    def test_nccl_may_fail(self):
        for release, name in ("2.1.0", "NCCL_ASYNC_ERROR_HANDLING"), ("2.2.0", "TORCH_NCCL_ASYNC_ERROR_HANDLING"):
            with mock.patch.dict(os.environ), mock.patch.object(torch, "__version__", release):
                os.environ.pop(name, None)
                compat.let_nccl_fail()
                self.assertEqual("0", os.environ[name])
                os.environ[name] = "1"
                compat.let_nccl_fail()
                self.assertEqual("1", os.environ[name])


if __name__ == "__main__":
    unittest.main()
