# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A state that is sent while it changes arrives bit by bit equal. Sender and observers are threads of this process."""

import math
import threading
import unittest
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist

import kolo.torch as kolo
from kolo.torch.background import handover, pace, slices, stream
from kolo.torch.background.channel import Channel
from kolo.torch.background.observer import Observer
from kolo.torch.group.group import GroupFailed, PendingGroup
from kolo.torch.group.roles import Roles
from kolo.torch.state import reserve, tree
from kolo.torch.state.state import core_of
from kolo.worker import Place

TIMEOUT = timedelta(seconds=120)
SGD = lambda parameters: torch.optim.SGD(parameters, 0.05, momentum=0.9, nesterov=True, weight_decay=0.01)


class Average(torch.nn.Module):
    """An exponential moving average."""

    def __init__(self, model):
        super().__init__()
        self.mean = torch.nn.Parameter(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), requires_grad=False)

    def update(self, model):
        self.mean.mul_(0.9).add_(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), alpha=0.1)


class Net(torch.nn.Module):
    """Has BatchNorm, a frozen part, a large buffer, tied weights, an unused parameter, and one that is not contiguous."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 37)
        self.norm = torch.nn.BatchNorm1d(37)
        self.convolution = torch.nn.Conv1d(1, 3, 5, padding=2)
        self.image = torch.nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
        self.second = torch.nn.Linear(37 * 3, 37)
        self.third = torch.nn.Linear(4, 37)
        self.third.weight = self.first.weight
        self.last = torch.nn.Linear(37, 1)
        self.unused = torch.nn.Parameter(torch.randn(9))
        self.frozen = torch.nn.Parameter(torch.randn(50, 60), requires_grad=False)
        self.register_buffer("table", torch.randn(40, 90))

    def forward(self, x):
        y = torch.tanh(self.norm(self.first(x)))
        y = self.second(torch.relu(self.convolution(y.unsqueeze(1))).flatten(1)) + self.third(x)
        image = self.image(y[:, :36].reshape(-1, 1, 6, 6).expand(-1, 3, -1, -1).contiguous(memory_format=torch.channels_last))
        return self.last(torch.tanh(y)) + image.mean() + self.frozen[0, 0] * self.table[0, 0]


def ordered(node):
    """Returns a tree with sorted dicts, because the order of an optimizer's state depends on how it arose."""
    if isinstance(node, dict):
        return {key: ordered(node[key]) for key in sorted(node, key=repr)}
    return node


class Chain:
    """A member that trains, and observers; each has the values that make() returns."""

    def __init__(self, make, observers=2):
        store, size = dist.HashStore(), observers + 1
        self.channels, threads = [None] * size, []

        def connect(rank):
            control = dist.ProcessGroupGloo(store, rank, size, timeout=TIMEOUT)
            roles = Roles((0,), tuple(range(1, size)))
            self.channels[rank] = Channel(PendingGroup(Place(1, rank, size), roles, None, control, TIMEOUT))

        for rank in range(size):
            threads.append(threading.Thread(target=connect, args=(rank,), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.values = []
        for rank in range(size):
            torch.manual_seed(rank)
            self.values.append(make())
        self.states = [kolo.State(**values) for values in self.values]
        self.states[0].commit()
        core_of(self.states[0]).ledger.number = 3
        self.results = [None] * size
        self.stream = None
        self.threads = [threading.Thread(target=self._observe, args=(rank,), daemon=True) for rank in range(1, size)]

    def start(self):
        for thread in self.threads:
            thread.start()
        self.stream = stream.Stream(core_of(self.states[0]), self.channels[0])

    def _observe(self, rank):
        try:
            core_of(self.states[rank]).forget()
            observer = Observer(core_of(self.states[rank]), self.channels[rank])
            how = observer.follow()
            if how == "leave":
                handover.take_over(core_of(self.states[rank]), observer)
            elif how == "switch":
                handover.Receiver(observer).deliver(core_of(self.states[rank]))
            self.results[rank] = how
        except BaseException as err:
            self.results[rank] = err

    def switch(self):
        self.stream.switch()
        handover.Sender(self.stream).deliver(core_of(self.states[0]))
        self.join()

    def leave(self):
        self.stream.leave()
        self.join()

    def join(self):
        for thread in self.threads:
            thread.join(120)
        for result in self.results[1:]:
            if isinstance(result, BaseException):
                raise result


class Following(unittest.TestCase):
    def setUp(self):
        for module, name, value in (pace, "FLOOR", 3000), (pace, "LIMIT", math.inf), (slices, "STATIC", 10000):
            patch = mock.patch.object(module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def assert_equal(self, chain):
        skeleton, tensors = tree.split(ordered(chain.states[0].tree(shared=True)))
        for state in chain.states[1:]:
            other, others = tree.split(ordered(state.tree(shared=True)))
            self.assertEqual(repr(skeleton), repr(other))
            for number, (one, two) in enumerate(zip(tensors, others)):
                self.assertTrue(torch.equal(one, two), "tensor %d of shape %s" % (number, one.shape))

    def train(self, chain, steps, before=lambda number: None, after=lambda number: None, every=1):
        """Trains the member until all is sent, and returns the number of steps."""
        values = chain.values[0]
        model, optimizer = values["model"], values["optimizer"]
        for number in range(steps):
            before(number)
            optimizer.zero_grad()
            model(torch.randn(6, 4)).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            after(number)
            chain.states[0].step += 1
            if number % every == every - 1 and chain.stream:
                chain.states[0].commit()
                chain.stream.advance()
                if chain.stream.complete:
                    return number
        return steps

    def make(self, optimizer=SGD, **more):
        def make():
            model = Net()
            return {"model": model, "optimizer": optimizer(p for p in model.parameters() if p.requires_grad), "step": 0,
                    **{name: value(model) for name, value in more.items()}}
        return make

    def changed(self, chain):
        return sorted(chain.stream._changed)

    def test_optimizers(self):
        for name, optimizer in {
            "SGD": lambda p: torch.optim.SGD(p, 0.05), "momentum": SGD, "Adam": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
            "AdamW": lambda p: torch.optim.AdamW(p, 0.01), "foreach": lambda p: torch.optim.AdamW(p, 0.01, foreach=True),
            "NAdam": lambda p: torch.optim.NAdam(p), "RAdam": lambda p: torch.optim.RAdam(p), "Adamax": lambda p: torch.optim.Adamax(p),
            "RMSprop": lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True), "Adagrad": lambda p: torch.optim.Adagrad(p),
            "Adadelta": lambda p: torch.optim.Adadelta(p), "ASGD": lambda p: torch.optim.ASGD(p), "Rprop": lambda p: torch.optim.Rprop(p),
        }.items():
            for steps in (0, 3):  # before: without and with state of the optimizer
                with self.subTest(optimizer=name, steps=steps):
                    chain = Chain(self.make(optimizer))
                    self.train(chain, steps)
                    chain.start()
                    number = self.train(chain, 2000)
                    self.assertTrue(5 < number < 2000, number)
                    chain.stream._outbox.settle()
                    moved = chain.channels[0].moved
                    chain.switch()
                    self.assertEqual([], self.changed(chain))
                    self.assertLess(chain.channels[0].moved - moved, 20000)
                    self.assert_equal(chain)
                    self.assertEqual([4, 4, 4], [core_of(state).ledger.number for state in chain.states])
                    self.assertEqual([False, True, True], [core_of(state).ledger.held < 0 for state in chain.states])

    def test_the_first_commit_of_an_observer_has_its_memory(self):
        """The group waits for that commit, so its memory is prepared before the switch."""
        with mock.patch.object(reserve, "LARGE", 100):
            chain = Chain(self.make(lambda p: torch.optim.Adam(p, 0.01)))
            self.train(chain, 2)
            chain.start()
            self.train(chain, 2000)
            chain.switch()
        for state in chain.states[1:]:
            ready = {tensor.data_ptr() for tensor in core_of(state).snapshot.spare.tensors()}
            state.save()
            copies = [tensor for tensor in tree.split(core_of(state).snapshot.tree())[1] if tree.nbytes([tensor]) >= 100]
            self.assertGreater(len(copies), 3 * 10)  # parameters, and two tensors of the optimizer for each
            self.assertLessEqual({tensor.data_ptr() for tensor in copies}, ready)

    def test_leaves_at_every_moment(self):
        """At a planned change, the rest is sent. The observer has the state before the member leaves."""
        for steps in (0, 1, 2, 5, 9, 14, 20):
            for every in (1, 3):
                with self.subTest(steps=steps, every=every):
                    chain = Chain(self.make(), observers=1)
                    self.train(chain, 2)
                    chain.start()
                    self.train(chain, steps, every=every)
                    chain.leave()
                    self.assert_equal(chain)
                    self.assertEqual(core_of(chain.states[0]).ledger.held, core_of(chain.states[1]).ledger.held)
                    chain.states[1].step += 1
                    chain.states[1].restore()
                    self.assert_equal(chain)

    def test_changes_outside_of_the_optimizer(self):
        """Changes that the optimizer's hooks do not show are found by versions and checksums, and sent again."""
        def clamp(values, number):
            with torch.no_grad():
                values["model"].first.weight.clamp_(-0.01, 0.01)

        def clamp_data(values, number):
            values["model"].last.weight.data.clamp_(-0.01, 0.01)

        def momentum(values, number):
            if number == 10:
                for state in values["optimizer"].state.values():
                    state["momentum_buffer"] = torch.zeros_like(state["momentum_buffer"])

        def thaw(values, number):
            if number == 3:
                with torch.no_grad():
                    values["model"].frozen += 1

        for change, key in (clamp, "model.first.weight"), (clamp_data, ""), (momentum, "model.first.weight"), (thaw, ""):
            with self.subTest(change=change.__name__):
                chain = Chain(self.make())
                self.train(chain, 2)
                chain.start()
                self.train(chain, 2000, after=lambda number: change(chain.values[0], number))
                change(chain.values[0], -1)
                chain.switch()
                self.assert_equal(chain)
                if key:
                    self.assertIn(key, self.changed(chain))

    def test_after_all_has_been_compared(self):
        """Callbacks may change values that the observers have. DistributedDataParallel writes equal values."""
        def nothing(values):
            pass

        def reset(values):
            values["optimizer"].state.clear()

        def write(values):
            with torch.no_grad():
                values["model"].first.weight += 1
                values["model"].frozen += 1

        def same(values):
            values["model"].table.copy_(values["model"].table.clone())

        sizes = {}
        for change in nothing, reset, write, same:
            with self.subTest(change=change.__name__):
                chain = Chain(self.make())
                chain.start()
                self.train(chain, 2000)
                change(chain.values[0])
                core_of(chain.states[0]).ledger.fresh = False
                chain.stream._outbox.settle()
                moved = chain.channels[0].moved
                chain.switch()
                sizes[change] = chain.channels[0].moved - moved
                self.assert_equal(chain)
        self.assertEqual(sizes[nothing], sizes[same])
        self.assertLess(sizes[nothing] + 12000, sizes[write])

    def test_hooks_that_the_function_registers(self):
        """They are registered after the stream exists. Still, the gradients that are sent are those of the step."""
        chain = Chain(self.make(lambda p: torch.optim.SGD(p, 0.05)))
        chain.start()
        late = []

        def halve(optimizer, args, kwargs):
            for parameter in late:  # as clipping: only when it is too large
                parameter.grad.mul_(0.5)

        chain.values[0]["optimizer"].register_step_pre_hook(halve)
        self.train(chain, 2000)
        late[:] = list(chain.values[0]["model"].last.parameters())
        chain.stream, following = None, chain.stream
        self.train(chain, 3)
        chain.stream = following
        chain.switch()
        self.assert_equal(chain)

    def test_gradients_of_another_type(self):
        """Newer releases of PyTorch allow them. Observers have memory only for gradients of the parameter's type."""
        class Mixed(torch.nn.Parameter):
            grad = property(lambda self: torch.zeros(self.shape, dtype=torch.bfloat16))

        chain = Chain(self.make())
        chain.start()
        chain.stream.advance()
        unit = chain.stream._units[next(iter(chain.stream._sent))]
        unit.tensor, unit.optimizer = Mixed(unit.tensor.detach()), chain.values[0]["optimizer"]
        chain.stream._versions[unit.key] = unit.version()
        chain.stream._before_step(unit.optimizer, (unit.optimizer,), {})
        self.assertIn(unit.key, chain.stream._changed)
        chain.stream.end()
        chain.join()

    def test_an_observer_that_hangs(self):
        """An observer that hangs stops training no longer than the timeout of a collective."""
        with mock.patch(__name__ + ".TIMEOUT", timedelta(seconds=1)):
            chain = Chain(lambda: {"model": torch.nn.Linear(3000, 3000), "step": 0}, observers=1)
        chain.stream = stream.Stream(core_of(chain.states[0]), chain.channels[0])
        failed = []

        def advance():
            try:
                for _ in range(100):
                    chain.stream.advance()
            except GroupFailed as err:
                failed.append(err)

        thread = threading.Thread(target=advance, daemon=True)
        with mock.patch.object(pace, "FLOOR", 16 * 1024 * 1024):
            thread.start()
            thread.join(120)
        self.assertEqual(1, len(failed))

    def test_completes_when_the_observers_have_compared(self):
        """Members agree on the switch only when the observers have compared, so none waits for that."""
        comparing, go_on = threading.Event(), threading.Event()
        compare = Observer._compare

        def slow(observer, sums):
            comparing.set()
            go_on.wait(120)
            compare(observer, sums)

        chain = Chain(self.make(), observers=1)
        with mock.patch.object(pace, "FLOOR", 10 ** 9), mock.patch.object(Observer, "_compare", slow):
            chain.start()
            for _ in range(2):  # slices; checksums and the question
                self.train(chain, 1)
            self.assertTrue(comparing.wait(120))
            self.assertTrue(chain.stream._asked)
            self.assertFalse(chain.stream.complete)
            go_on.set()
            chain.stream._outbox.settle()
            self.assertTrue(chain.stream.complete)
        chain.switch()
        self.assertEqual(0, chain.stream.at_end)
        self.assert_equal(chain)

    def test_training_that_becomes_too_slow(self):
        """A slow observer delays training for some steps. Its part of the state stays up to date, and the rest is sent at the switch."""
        for optimizer in SGD, lambda p: torch.optim.Adam(p, 0.01):
            chain = Chain(self.make(optimizer))
            self.train(chain, 2)
            chain.start()
            now = [0.0]
            following = chain.stream._pace = pace.Pace(0.2, lambda: now[0])
            settle = chain.stream._outbox.settle

            def slowly():
                settle()
                if chain.stream._sent:
                    now[0] += 0.5

            def step(number):
                now[0] += 1.0

            with mock.patch.object(chain.stream._outbox, "settle", slowly):
                number = self.train(chain, 2000, after=step)
            self.assertTrue(following.exhausted)
            self.assertLess(number, 60)
            chain.switch()
            self.assertTrue(0 < chain.stream.at_end < chain.stream.nbytes(), chain.stream.at_end)
            self.assertEqual(([], []), (self.changed(chain), chain.stream.again))
            self.assert_equal(chain)

    def test_checksum_of_memory_that_is_not_aligned(self):
        data = bytearray(4 * 11)
        base = torch.frombuffer(data, dtype=torch.float32)
        memory = torch.frombuffer(data, dtype=torch.float32, offset=4 if base.data_ptr() % 8 == 0 else 0)
        tensor = memory[1:9].normal_()
        self.assertEqual(0, tensor.data_ptr() % 8)
        self.assertEqual(slices.Unit("", tensor.clone()).checksum(8), slices.Unit("", tensor).checksum(8))

    def test_an_average_is_sent_at_the_switch(self):
        chain = Chain(self.make(average=Average))
        chain.start()
        self.train(chain, 2000, after=lambda number: chain.values[0]["average"].update(chain.values[0]["model"]))
        chain.switch()
        self.assert_equal(chain)

    def test_steps_that_cannot_be_followed(self):
        def closure(model, optimizer):
            def loss():
                optimizer.zero_grad()
                value = model(torch.randn(6, 4)).square().mean()
                value.backward()
                return value
            optimizer.step(loss)

        def fused(model, optimizer):
            optimizer.zero_grad()
            scaler.scale(model(torch.randn(6, 4)).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()

        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        for step, optimizer in (closure, SGD), (fused, lambda p: torch.optim.Adam(p, fused=True)):
            with self.subTest(step=step.__name__):
                chain = Chain(self.make(optimizer), observers=1)
                chain.start()
                while not chain.stream.complete:
                    step(chain.values[0]["model"], chain.values[0]["optimizer"])
                    chain.stream.advance()
                chain.switch()
                self.assert_equal(chain)

    def test_sparse_gradients(self):
        def make():
            model = torch.nn.Sequential(torch.nn.Embedding(300, 8, sparse=True), torch.nn.Linear(8, 1))
            return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), 0.1), "step": 0}

        chain = Chain(make, observers=1)
        chain.start()
        while not chain.stream.complete:
            chain.values[0]["optimizer"].zero_grad()
            chain.values[0]["model"](torch.randint(300, (5,))).square().mean().backward()
            chain.values[0]["optimizer"].step()
            chain.stream.advance()
        chain.switch()
        self.assert_equal(chain)

    def test_a_scheduler_a_scaler_and_accumulation(self):
        """A GradScaler skips steps, gradients of several passes are zeroed in place, and the learning rate is a tensor."""
        def make():
            model = Net()
            optimizer = torch.optim.Adam([{"params": model.first.parameters(), "lr": torch.tensor(0.02)}, {
                "params": [*model.second.parameters(), *model.last.parameters()], "weight_decay": 0.1}], lr=0.01)
            optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: [
                p.grad.mul_(0.5) for p in model.last.parameters()] and None)
            scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
            return {"model": model, "optimizer": optimizer, "scaler": scaler, "step": 0,
                    "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)}

        chain = Chain(make)
        chain.start()
        model, optimizer, scaler, scheduler = (chain.values[0][name] for name in ("model", "optimizer", "scaler", "scheduler"))
        number = 0
        while not chain.stream.complete:
            for _ in range(2):
                loss = model(torch.randn(6, 4)).square().mean() * (float("inf") if number % 4 == 2 else 1)
                scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_([*slices.parameters(optimizer)], 0.5)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            optimizer.zero_grad(set_to_none=False)
            number += 1
            chain.stream.advance()
        self.assertEqual([], self.changed(chain))
        chain.switch()
        self.assert_equal(chain)

    def test_what_is_no_unit(self):
        class Own(torch.optim.SGD):
            pass

        class Handler(kolo.StateDictHandler):
            def tree(self):
                return {"all": self.value.state_dict()}

            def load(self, tree):
                self.value.load_state_dict(tree["all"])

        def keys(make=None, **more):
            return set(slices.units(core_of(kolo.State(**(make or self.make(**more))())).handlers))

        def hooked(parameters):
            optimizer = SGD(parameters)
            optimizer.register_step_post_hook(lambda *_: None)
            return optimizer

        def two():
            values = self.make()()
            return {**values, "other": SGD(values["model"].last.parameters())}

        frozen = {"model.frozen", "model.table"}
        trained = {"model." + name for name, p in Net().named_parameters() if p.requires_grad}
        self.assertEqual(frozen | trained, keys())
        self.assertEqual(frozen, keys(optimizer=Own))
        self.assertEqual(frozen, keys(optimizer=hooked))
        self.assertEqual({"model.last.weight", "model.last.bias"}, frozen.union(trained) - keys(two))
        model = Net()
        state = kolo.State(model=model)
        core_of(state).handlers["model"] = Handler(model)
        self.assertEqual({}, slices.units(core_of(state).handlers))

    def test_a_model_of_another_kind(self):
        def make():
            model = torch.nn.Linear(4, 5 + torch.initial_seed() % 2)
            return {"model": model, "optimizer": SGD(model.parameters()), "step": 0}

        chain = Chain(make, observers=1)
        chain.start()
        threading.Thread(target=chain.stream.advance, daemon=True).start()  # waits for the observer
        with self.assertRaisesRegex(TypeError, "model.weight of this process has another type or size"):
            chain.join()

    def test_wanted(self):
        state = kolo.State(**self.make()())
        for setting, variable, want in (
            (None, "", False), (None, "1", True), (None, "off", False), (True, "0", True), (False, "1", False)):
            with mock.patch.dict("os.environ", {handover.VARIABLE: variable}):
                self.assertEqual(want, handover.wanted(core_of(state), setting), (setting, variable))
        with mock.patch.object(handover, "THRESHOLD", 1000):
            self.assertTrue(handover.wanted(core_of(state), None))
        self.assertFalse(handover.wanted(core_of(kolo.State(step=0)), True))


if __name__ == "__main__":
    unittest.main()
