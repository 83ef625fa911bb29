# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A commit that a thread completes has the values of its moment, or is not used."""

import copy
import os
import threading
import unittest
from unittest import mock

import torch

import kolo.torch as kolo
from kolo.torch.state import snapshot
from kolo.torch.state.handlers import Handler
from kolo.torch.state.ledger import LOST
from kolo.torch.state.snapshot import NotWhole
from kolo.torch.state.state import core_of

from .test_state import network, same
from .test_sync import Process, ranks


class Slow:
    """Delays copies of the thread until the test allows them. All other copies begin at once."""

    def __init__(self):
        self.may = threading.Event()
        self.begun = threading.Event()
        self.copy = snapshot._copy
        self.threads = 0

    def __call__(self, *arguments):
        if threading.current_thread().name.startswith("kolo-commit"):
            self.threads += 1
            self.begun.set()
            if not self.may.wait(120):
                raise AssertionError("nothing lets the copy begin")
        self.copy(*arguments)


class Training:
    """A small model, all of whose large tensors are left to the thread."""

    def __init__(self, make=lambda p: torch.optim.Adam(p, 0.1)):
        torch.manual_seed(5)
        self.model = network(16)
        self.optimizer = make(self.model.parameters())
        self.state = kolo.State(model=self.model, optimizer=self.optimizer, step=0)

    def forward(self):
        self.loss = self.model(torch.randn(6, 4)).square().mean()

    def backward(self):
        self.optimizer.zero_grad()
        self.loss.backward()

    def update(self):
        self.optimizer.step()
        self.state.step += 1

    def commit(self):
        self.state.commit()
        return copy.deepcopy(self.state.tree())

    def steps(self, count):
        committed = None
        for _ in range(count):
            self.forward()
            self.backward()
            self.update()
            committed = self.commit()
        return committed


class Deferred(unittest.TestCase):
    def setUp(self):
        for name in ("LARGE", "WORTHWHILE"):
            patch = mock.patch.object(snapshot, name, 1)
            patch.start()
            self.addCleanup(patch.stop)
        self.slow = Slow()
        self.addCleanup(self.slow.may.set)
        patch = mock.patch.object(snapshot, "_copy", self.slow)
        patch.start()
        self.addCleanup(patch.stop)

    def after(self, steps, **arguments):
        """Returns a training after so many steps that commits are no longer copied at once."""
        training = Training(**arguments)
        self.slow.may.set()
        return training, training.steps(steps)

    def hold(self, training):
        """Blocks the thread's copies from now on."""
        core_of(training.state).snapshot.settle()
        self.slow.may.clear()

    def test_a_failure_at_every_point(self):
        for make in (
            lambda p: torch.optim.SGD(p, 0.01, momentum=0.9), lambda p: torch.optim.AdamW(p, 0.1, amsgrad=True),
            lambda p: torch.optim.Adam(p, 0.1, foreach=True), lambda p: torch.optim.SGD(p, 0.01),
        ):
            points = (), ("forward",), ("forward", "backward"), ("forward", "backward", "update")
            for steps in (0, 2, 5):
                for point in points:
                    for late in (True, False):
                        training, committed = self.after(steps, make=make)
                        if steps == 0:
                            committed = training.commit()
                        if late:  # the copy has not begun when the failure happens
                            self.hold(training)
                            committed = training.commit()
                        for name in point:
                            if name == "update":
                                self.slow.may.set()  # the step waits for it
                            getattr(training, name)()
                        self.slow.may.set()
                        for _ in range(2):
                            training.state.restore()
                            self.assertTrue(same(committed, training.state.tree()), (steps, point, late))
                            training.forward()
                            training.backward()
                            training.update()
        self.assertGreater(self.slow.threads, 50)

    def test_goes_on_as_with_a_commit_at_once(self):
        def run(failures):
            training, _ = self.after(0)
            training.state.save()
            while training.state.step < 12:
                training.forward()
                training.backward()
                training.update()
                if training.state.step in failures:
                    failures.remove(training.state.step)
                    training.state.restore()
                    torch.manual_seed(training.state.step)
                    continue
                torch.manual_seed(training.state.step)
                training.commit()
            return training.state.tree()

        deferred = run([3, 5, 6, 9])
        with mock.patch.object(snapshot, "OBSERVED", 1000):
            at_once = run([])
        torch.manual_seed(0)
        self.assertTrue(same(at_once["model"], run([])["model"]))
        self.assertTrue(same(at_once, deferred))

    def test_the_step_waits(self):
        training, _ = self.after(4)
        self.hold(training)
        training.commit()
        training.forward()
        training.backward()
        threading.Timer(0.1, self.slow.may.set).start()
        training.update()
        self.assertTrue(self.slow.may.is_set())

    def test_a_step_of_another_optimizer_waits(self):
        training, _ = self.after(4)
        self.hold(training)
        committed = training.commit()
        training.forward()
        training.backward()
        threading.Timer(0.1, self.slow.may.set).start()
        torch.optim.SGD(training.model.parameters(), 0.1).step()
        training.state.restore()
        self.assertTrue(same(committed, training.state.tree()))

    def test_changed_by_hand_at_each_step(self):
        """Tensors that are changed before each step are never left to the thread, even if no version shows the change."""
        def seen(weight):
            with torch.no_grad():
                weight.clamp_(-0.01, 0.01)

        def unseen(weight):
            weight.data.clamp_(-0.01, 0.01)

        for clamp in (seen, unseen):
            training, _ = self.after(0)
            for _ in range(6):
                self.hold(training)
                training.forward()
                training.backward()
                self.slow.may.set()
                training.update()
                self.hold(training)
                committed = training.commit()
                clamp(training.model[0].weight)
                self.slow.may.set()
                training.state.restore()
                self.assertTrue(same(committed, training.state.tree()))
                clamp(training.model[0].weight)
        self.assertGreater(self.slow.threads, 0)

    def test_another_part_of_a_divided_value(self):
        """A process gets another part in a change. Like a newcomer, it leaves the same tensors to the thread as before, and no others."""
        class Divided(Handler):
            shares = True

            def tree(self):
                return self.value

            def stepped(self):
                return self.value["trained"], self.value["clamped"]

        def part(size):
            return {"part": Divided({name: torch.rand(size) for name in ("trained", "clamped", "buffer")})}

        kept, present = snapshot.Snapshot(), part(8)
        self.slow.may.set()
        for _ in range(3):
            kept.take(present)
            present["part"].value["clamped"].add_(1)
            kept.settle()
        newcomer = snapshot.Snapshot()
        newcomer.learn(kept.known)
        for taken, size in (kept, 4), (newcomer, 6):
            self.slow.may.clear()
            self.slow.threads, present = 0, part(size)
            value = present["part"].value
            expected = {name: tensor.clone() for name, tensor in value.items()}
            taken.take(present)
            for name in "clamped", "buffer":  # copied already
                value[name].add_(1)
            self.slow.may.set()
            taken.settle()
            self.assertEqual(1, self.slow.threads)
            self.assertTrue(same(expected, taken.tree()["part"]))

    def test_the_copy_of_a_share_goes_on_after_the_group(self):
        """A process leaves its group without waiting for the copy. A callback, which may change values, waits."""
        class Divided(Handler):
            shares = True

            def tree(self):
                return self.value

            def load(self, tree):
                self.value = tree

            def stepped(self):
                return list(self.value.values())

        state = kolo.State(step=0)
        core = core_of(state)
        part = core.handlers["part"] = Divided({"trained": torch.rand(8)})
        self.slow.may.set()
        for _ in range(3):
            state.commit()
            core.snapshot.settle()
        self.slow.may.clear()
        self.slow.begun.clear()
        state.commit()
        committed = copy.deepcopy(part.value)
        core.drop()
        self.assertTrue(self.slow.begun.wait(120))
        self.slow.may.set()
        core.callbacks.append(lambda: part.value["trained"].add_(1))
        core.call_back()
        self.assertFalse(same(committed, part.value))
        core.recover()
        self.assertTrue(same(committed, part.value))

    def test_no_part_any_longer(self):
        """A process without a part in memory after a change can still commit."""
        class Divided(Handler):
            shares = True

            def tree(self):
                return self.value

            def stepped(self):
                return list(self.value.values())

        taken = snapshot.Snapshot()
        for value in {"trained": torch.rand(8)}, {}:
            taken.take({"part": Divided(value)})
            taken.settle()
            self.assertTrue(same(value, taken.tree()["part"]))

    def test_saved_before_training(self):
        """Saving twice without a step between does not show what the script changes by hand."""
        training, _ = self.after(0, make=lambda p: torch.optim.SGD(p, 0.1))
        for _ in range(3):  # a checkpoint, the first group
            training.state.save()
        for _ in range(5):
            training.forward()
            training.backward()
            self.slow.may.set()
            training.update()
            self.hold(training)
            committed = training.commit()
            training.model[0].weight.data.clamp_(-0.01, 0.01)
        self.slow.may.set()
        training.state.restore()
        self.assertTrue(same(committed, training.state.tree()))

    def test_changed_by_hand_once(self):
        for late in (True, False):
            training, _ = self.after(4)
            if late:
                self.hold(training)
            training.commit()
            with torch.no_grad():
                training.model[0].weight.mul_(2)
            self.slow.may.set()
            with self.assertRaises(NotWhole):
                training.state.restore()
            training.forward()
            training.backward()
            training.update()
            with self.assertRaises(NotWhole):
                training.state.restore()
            for _ in range(2):
                committed = training.commit()
                with torch.no_grad():
                    training.model[0].weight.mul_(2)  # now it is copied at once
                training.state.restore()
                self.assertTrue(same(committed, training.state.tree()))

    def test_replaced_by_hand(self):
        """The copy has the committed tensors, not those that have replaced them."""
        training, _ = self.after(4)
        self.hold(training)
        committed = training.commit()
        with torch.no_grad():
            training.model[0].weight.data = torch.zeros_like(training.model[0].weight)
        training.optimizer.state.clear()
        self.slow.may.set()
        training.state.restore()
        self.assertTrue(same(committed, training.state.tree()))

    def test_what_is_not_the_optimizer_s_is_copied_at_once(self):
        frozen = torch.nn.Linear(4, 4).requires_grad_(False)
        training = Training()
        training.state = kolo.State(model=training.model, optimizer=training.optimizer, frozen=frozen, value=torch.zeros(9))
        self.slow.may.set()
        for _ in range(4):
            training.forward()
            training.backward()
            training.optimizer.step()
            training.commit()
        self.hold(training)
        committed = training.commit()
        training.forward()  # changes BatchNorm's buffers
        frozen.weight.data.mul_(2)  # as moving averages do
        training.state.value += 1
        self.slow.may.set()
        training.state.restore()
        self.assertTrue(same(committed, training.state.tree()))

    def test_a_fork_has_no_thread(self):
        threads = torch.get_num_threads()
        self.addCleanup(torch.set_num_threads, threads)
        torch.set_num_threads(1)  # OpenMP hangs in a fork of a process that has used its threads
        training, _ = self.after(4)
        self.hold(training)
        training.commit()
        child = os.fork()
        if child == 0:
            training.forward()
            self.slow.may.set()
            with torch.no_grad():
                training.optimizer.step()
            lost = not core_of(training.state).snapshot.whole
            training.commit()
            training.state.restore()
            os._exit(0 if lost and core_of(training.state).snapshot.whole else 1)
        self.assertEqual(0, os.waitpid(child, 0)[1])

    def test_new_parameters(self):
        training, _ = self.after(4)
        more = torch.nn.Linear(1, 1)
        training.model.add_module("more", more)
        training.optimizer.add_param_group({"params": list(more.parameters())})
        for _ in range(4):
            committed = training.steps(1)
            more(torch.randn(2, 1)).sum().backward()
            training.update()
            training.state.restore()
            self.assertTrue(same(committed, training.state.tree()))

    def test_a_member_that_cannot_restore_gets_the_state_from_another(self):
        for torn in (1, 2):
            members, trainings = [], []
            for _ in range(2):
                trainings.append(Training())
                members.append(Process(**{name: getattr(trainings[-1].state, name) for name in ("model", "optimizer", "step")}))
                trainings[-1].state = members[-1].state
            self.slow.may.set()
            ranks([lambda group, m=m: m.join(group, True) for m in members], (0, 1))
            for number, training in enumerate(trainings):
                committed = training.steps(4)
                if number < torn:
                    with torch.no_grad():
                        training.model[0].weight.zero_()
            for member in members:
                core_of(member.state).recover()
            if torn == 2:
                self.assertEqual([LOST, LOST], [core_of(member.state).ledger.held for member in members])  # see roles.decide
                continue
            ranks([member.join for member in members])
            for training in trainings:
                self.assertTrue(same(committed, training.state.tree()))
                training.state.restore()
                self.assertTrue(same(committed, training.state.tree()))


if __name__ == "__main__":
    unittest.main()
