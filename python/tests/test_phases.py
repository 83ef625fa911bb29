# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Which phase follows a commit, and which calls come before it."""

import unittest
from unittest import mock

from kolo.torch import phases
from kolo.torch.background.handover import Bystander, Receiver, Sender
from kolo.torch.phases import CHANGE, NOTHING, SWITCH, Member, Observing, Outside, Sending, Switching


class Commit(unittest.TestCase):
    def setUp(self):
        self.calls = mock.Mock()
        self.calls.stream.complete = False
        self.calls.core.batch = None

    def commit(self, phase, agreed=NOTHING, changing=False):
        """Returns the phase that follows a commit, and the names of the calls in their order."""
        self.calls.group.agree.return_value = agreed
        follows = phase.commit(self.calls.core, changing)
        return follows, [name for name, _, _ in self.calls.mock_calls]

    def test_member(self):
        for agreed, follows, calls in (
            (NOTHING, Member, ["group.agree"]), (SWITCH, Switching, ["group.agree", "core.seal"]),
            (CHANGE, Outside, ["group.agree", "core.seal"]),
        ):
            with self.subTest(agreed=agreed):
                self.calls.reset_mock()
                phase, called = self.commit(Member(self.calls.group), agreed)
                self.assertEqual((follows, calls), (type(phase), called))
        self.assertIsInstance(self.commit(Member(self.calls.group), SWITCH)[0].transport, Bystander)

    def test_sending(self):
        begin = ["stream.advance", "group.agree"]
        for agreed, follows, calls in (
            (NOTHING, Sending, begin), (SWITCH, Switching, [*begin, "core.seal", "stream.switch"]),
            (CHANGE, Outside, [*begin, "core.seal", "stream.leave"]),
        ):
            with self.subTest(agreed=agreed):
                self.calls.reset_mock()
                phase, called = self.commit(Sending(self.calls.group, self.calls.stream), agreed)
                self.assertEqual((follows, calls), (type(phase), called))
        self.assertIsInstance(self.commit(Sending(self.calls.group, self.calls.stream), SWITCH)[0].transport, Sender)

    def test_a_phase_that_goes_on_is_the_same(self):
        for phase in Member(self.calls.group), Sending(self.calls.group, self.calls.stream), Outside():
            self.assertIs(phase, self.commit(phase)[0])

    def test_what_a_member_proposes(self):
        """A change has precedence over a switch."""
        group, stream = self.calls.group, self.calls.stream
        for phase, complete, changing, flag in (
            (Member(group), False, False, NOTHING), (Member(group), False, True, CHANGE), (Sending(group, stream), False, False, NOTHING),
            (Sending(group, stream), True, False, SWITCH), (Sending(group, stream), True, True, CHANGE), (Sending(group, stream), False, True, CHANGE),
        ):
            with self.subTest(phase=type(phase), complete=complete, changing=changing):
                stream.complete = complete
                self.commit(phase, changing=changing)
                group.agree.assert_called_with(flag, 0)

    def test_a_batch_changes_in_a_group_that_goes_on(self):
        """A member that leaves its group does not adopt rank 0's proposal, because the next group gets another one."""
        core, group = self.calls.core, self.calls.group
        for agreed, adopted in ((NOTHING, [mock.call(512)]), (SWITCH, []), (CHANGE, [])):
            with self.subTest(agreed=agreed):
                core.batch, group.proposal = mock.Mock(), 512
                self.commit(Member(group), agreed)
                group.agree.assert_called_with(NOTHING, core.batch.proposal.return_value)
                self.assertEqual(adopted, core.batch.adopt.mock_calls)


class Waits(unittest.TestCase):
    def test_a_lost_member_ends_waits_for_observers(self):
        stream = mock.Mock()
        for phase in Sending(mock.Mock(), stream), Switching(mock.Mock(), Sender(stream)):
            phase.abandon()
            phase.close()
        self.assertEqual(["abandon", "close"] * 2, [name for name, _, _ in stream.mock_calls])
        for phase in Outside(), Member(mock.Mock()), Switching(mock.Mock(), Bystander()):
            phase.abandon()
            phase.close()
            phase.end()

    def test_the_end_of_training(self):
        stream = mock.Mock()
        Sending(mock.Mock(), stream).end()
        stream.end.assert_called_once_with()


class Follow(unittest.TestCase):
    def follow(self, how):
        core, pending = mock.Mock(), mock.Mock()
        with mock.patch.object(phases, "Observer") as observer, mock.patch.object(phases, "Channel"):
            observer.return_value.follow.return_value = how
            observer.return_value.finish.return_value = 4, True
            phase = Observing(core, pending).follow()
        return phase, core, pending

    def test_switch(self):
        phase, core, pending = self.follow("switch")
        self.assertIsInstance(phase, Switching)
        self.assertIs(pending, phase.pending)
        self.assertIsInstance(phase.transport, Receiver)
        core.forget.assert_called_once_with()

    def test_the_members_leave(self):
        phase, core, _ = self.follow("leave")
        self.assertIsInstance(phase, Outside)
        core.take_over.assert_called_once_with(4, True)

    def test_training_ends(self):
        with self.assertRaises(SystemExit) as end:
            self.follow("end")
        self.assertEqual(0, end.exception.code)


if __name__ == "__main__":
    unittest.main()
