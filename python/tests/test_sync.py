# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Members have the same state, no matter where each of them failed. The ranks are threads of this process."""

import contextlib
import functools
import io
import os
import threading
import time
import unittest
from datetime import timedelta
from unittest import mock

import torch
import torch.distributed as dist

import kolo.torch as kolo
from kolo.torch import place
from kolo.torch.broadcast.sync import Broadcast
from kolo.torch.group import group as groups
from kolo.torch.group.group import Group, GroupFailed
from kolo.torch.phases import CHANGE, Member
from kolo.torch.session import Elastic, Leave, Session
from kolo.torch.state.state import core_of
from kolo.worker import Place

TIMEOUT = timedelta(seconds=120)


def leave(group, state):
    """Does what Elastic.check does, in this group."""
    elastic = Elastic.__new__(Elastic)
    elastic.group, elastic._core, elastic._phase = group, core_of(state), Member(group)
    elastic.client = mock.Mock(changing=lambda _: True)
    elastic.check()


class Process:
    """A process: a state and a session, which goes from group to group."""

    def __init__(self, **values):
        self.state = kolo.State(**values)
        self.session = Session("gloo", TIMEOUT)

    def join(self, group, newcomer=False):
        self.session.group = group
        core_of(self.state).attach(self.session)
        if not newcomer:
            core_of(self.state).call_back()
        Broadcast(group).deliver(core_of(self.state))


def ranks(functions, newcomers=()):
    """Calls each function with a group, in a thread of its own."""
    store, results, errors = dist.HashStore(), {}, []

    def run(rank, function):
        try:
            control = dist.ProcessGroupGloo(store, rank, len(functions), timeout=TIMEOUT)
            results[rank] = function(Group(Place(1, rank, len(functions), newcomers=newcomers), None, control, TIMEOUT))
        except BaseException as err:
            errors.append(err)

    threads = [threading.Thread(target=run, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[rank] for rank in range(len(functions))]


class Sync(unittest.TestCase):
    def members(self, count, **values):
        """Members of a group that has trained."""
        members = [Process(**values) for _ in range(count)]
        ranks([lambda group, m=m: m.join(group, True) for m in members], tuple(range(count)))
        return members

    def again(self, members):
        """Returns the next group of the members after all of them have lost one."""
        for member in members:
            member.state.restore()
        ranks([member.join for member in members])

    def test_commits_at_the_same_step_after_a_failure_on_both_sides_of_a_call(self):
        members = self.members(2, step=0)
        for member, steps in zip(members, (6, 5)):  # rank 1 has failed in the step that rank 0 has done
            for _ in range(steps):
                member.state.step += 1
                member.state.commit(every=4)
        self.again(members)
        self.assertEqual([4, 4], [member.state.step for member in members])
        for member in members:
            for _ in range(3):
                member.state.step += 1
                member.state.commit(every=4)
            member.state.restore()
        self.assertEqual([4, 4], [member.state.step for member in members])

    def test_newcomers_commit_with_the_members(self):
        member, = self.members(1, step=0)
        for _ in range(3):
            member.state.step += 1
            member.state.commit(every=4)
        member.state.check()
        newcomer = Process(step=0)
        ranks([member.join, lambda group: newcomer.join(group, True)], (1,))
        for one in (member, newcomer):
            one.state.step += 1
            one.state.commit(every=4)
            one.state.step += 1
            one.state.restore()
        self.assertEqual([4, 4], [one.state.step for one in (member, newcomer)])

    def test_a_change_without_a_commit_at_which_one_member_fails(self):
        """The others leave with their present state, which is newer than the state to which the failed member goes back."""
        members = self.members(3, step=0)
        for member in members:
            member.state.commit()
            member.state.step = 5
            group = mock.Mock(agree=lambda *_: CHANGE)
            if member is members[1]:
                group.agree = mock.Mock(side_effect=GroupFailed("lost"))
            with mock.patch.object(member.session, "check", functools.partial(leave, group, member.state)):
                with self.assertRaises((Leave, GroupFailed)):
                    member.state.check()
        core_of(members[1].state).recover()
        self.assertEqual([5, 0, 5], [member.state.step for member in members])
        ranks([member.join for member in members])
        self.assertEqual([5, 5, 5], [member.state.step for member in members])

    def test_a_change_without_a_commit_writes_what_only_a_commit_keeps(self):
        """Some values, such as a sharded model, are kept only if their handler commits them. Otherwise, they are lost with the group."""
        class Written(kolo.Handler):
            def tree(self):
                return self.kept

            def load(self, tree):
                self.value[0] = tree

            def commit(self):
                self.kept = self.value[0]

        member, = self.members(1, step=0)
        core_of(member.state).handlers["model"] = handler = Written([7])
        handler.kept = 0
        member.state.save()
        with mock.patch.object(member.session, "check", functools.partial(leave, mock.Mock(agree=lambda *_: CHANGE), member.state)):
            with self.assertRaises(Leave):
                member.state.check()
        member.state.restore()
        self.assertEqual([7], handler.value)

    def test_a_switch_knows_the_connections_of_the_new_group(self):
        """The old group's connections are closed, and the new ones reuse their descriptors."""
        elastic = Elastic.__new__(Elastic)
        elastic.group = mock.Mock(connections={5: "old", 6: "control"})
        group = mock.Mock(connections={5: "new", 7: "new"})
        with mock.patch.object(elastic, "_form", lambda place, pending: group), mock.patch.object(elastic, "_placed"):
            elastic._switch(mock.Mock())
        self.assertEqual({5: "new", 6: "control", 7: "new"}, elastic.group.connections)

    def test_callbacks_that_one_member_has_saved(self):
        members, newcomer = self.members(2, rate=1), Process(rate=0)
        for member in [*members, newcomer]:
            def double(state=member.state):
                state.rate *= 2
            member.state.register_reset_callbacks([double])
        for member in members:
            member.state.commit()
        ranks([member.join for member in members] + [lambda group: newcomer.join(group, True)], (2,))
        self.again([*members, newcomer])
        self.assertEqual(1, len({member.state.rate for member in [*members, newcomer]}))

    def test_failure_before_one_member_has_saved(self):
        members = self.members(2, step=0)
        for member in members:
            member.state.commit()
            member.state.step = 5
            member.state.check()  # here the group changes

        def fail(group):
            group.gather(core_of(members[1].state).ledger.number)  # and ends before it saves

        ranks([members[0].join, fail])
        self.again(members)
        self.assertEqual([5, 5], [member.state.step for member in members])

    def test_commits_before_training_do_not_count(self):
        member, = self.members(1, step=0)
        member.state.step = 7
        newcomer = Process(step=0)
        for _ in range(3):
            newcomer.state.commit()
        ranks([member.join, lambda group: newcomer.join(group, True)], (1,))
        self.assertEqual([7, 7], [member.state.step, newcomer.state.step])

    def test_all_types_of_tensors(self):
        types = [torch.int16, torch.complex64, torch.bfloat16, torch.bool, torch.int64]
        types += [getattr(torch, name) for name in ("float8_e4m3fn", "uint16") if hasattr(torch, name)]

        def tensors(value):
            return [torch.full((3,), value).to(kind) for kind in types] + [
                torch.tensor(value), torch.full((2, 3), value).t(), torch.full((1,), value).expand(4), torch.zeros(0),
                (torch.full((2,), value), int(value)), torch.full((2,), value, dtype=torch.complex64).conj(), None]

        member, newcomer = Process(all=tensors(1.0)), Process(all=tensors(0.0))
        ranks([member.join, lambda group: newcomer.join(group, True)], (1,))
        self.assertEqual(repr(member.state.all), repr(newcomer.state.all))
        for state in (member.state, newcomer.state):
            state.restore()
            self.assertEqual(repr(tensors(1.0)), repr(state.all))

    def test_nothing_is_saved_in_a_group_that_has_failed(self):
        class Strict(Session):
            def verify(self):
                self.group.verify()

        member, = self.members(1, step=0)
        member.session = Strict("gloo", TIMEOUT)
        member.session.group = Group(Place(1, 0, 1), None, None, TIMEOUT)
        core_of(member.state).attach(member.session)
        member.state.step, member.session.group.failed = 1, True
        with self.assertRaises(GroupFailed):
            member.state.commit()
        member.state.restore()
        self.assertEqual(0, member.state.step)

    def test_reports_ranks_that_do_not_commit(self):
        def early(group):
            group.agree(False)
            group.agree(False)  # waits for the first call of the other
            return group

        def late(group):
            deadline = time.monotonic() + 60
            while "has waited" not in output.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
            group.agree(False)
            group.agree(False)
            return group

        output = io.StringIO()
        with mock.patch.object(groups, "PATIENCE", timedelta(seconds=0.2)), contextlib.redirect_stderr(output):
            for group in ranks([early, late]):
                self.assertFalse(group.failed)
        self.assertIn("rank 0 has waited 0 s for a commit of another rank", output.getvalue())

    def test_a_fork_leaves_the_group_alone(self):
        session = Session("gloo", TIMEOUT)
        group = session.group = mock.Mock()
        with mock.patch.object(os, "getpid", lambda: -1):
            session.close()
        group.leave.assert_not_called()

    def test_a_sampler_outside_of_the_state(self):
        self.addCleanup(place.enter, None)
        sampler = kolo.ElasticSampler(range(8), shuffle=False)
        place.enter(Place(1, 1, 2))
        self.assertEqual((4, [1, 3, 5, 7]), (len(sampler), list(sampler)))


if __name__ == "__main__":
    unittest.main()
