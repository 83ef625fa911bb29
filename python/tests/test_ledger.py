# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Checks which commit a process holds after which events. Needs no PyTorch."""

import importlib.util
import os
import unittest

PATH = os.path.join(os.path.dirname(__file__), "..", "kolo", "torch", "state", "ledger.py")
SPEC = importlib.util.spec_from_file_location("ledger", PATH)
ledger = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ledger)
LOST, NONE, Ledger = ledger.LOST, ledger.NONE, ledger.Ledger

# Method of Ledger, and its arguments.
COMMIT = [("commit", number) for number in range(8)]
BOTH = [("commit", number, True) for number in range(8)]
SAVE, CHANGE, RESTORE, BACK, BEGIN, DISOWN, LOSE, FORGET = (
    (name,) for name in ("save", "change", "restore", "go_back", "begin", "disown", "lose", "forget"))


class Rules(unittest.TestCase):
    def test_held(self):
        """held is the number that members compare."""
        for name, (events, held) in {
            "a new process": ([], NONE),
            "what is saved before training is no commit": ([SAVE, SAVE], NONE),
            "a commit": ([COMMIT[0]], 0),
            "the last commit counts": ([COMMIT[0], COMMIT[1], COMMIT[2]], 2),
            "a change does not take the commit away": ([COMMIT[4], CHANGE], 4),
            "restoring does not either": ([COMMIT[4], CHANGE, RESTORE], 4),
            "a commit that cannot be restored": ([COMMIT[4], LOSE], LOST),
            "the one that replaces it": ([COMMIT[4], LOSE, COMMIT[5]], 5),
            "a process that observes": ([FORGET], LOST),
            "one that was a member before": ([COMMIT[4], FORGET], LOST),
            "an observer that has become a member has not saved yet": ([FORGET, ("agree", 5)], LOST),
            "until it does": ([FORGET, ("agree", 5), COMMIT[6]], 6),
            "an observer whose members are leaving": ([FORGET, ("take_over", 4, True)], 4),
            "members give a commit another number": ([COMMIT[4], ("agree", 5)], 5),
            "a training begins": ([COMMIT[4], BEGIN], NONE),
            "a process that is new in its group": ([COMMIT[4], DISOWN], LOST),
            "one that had what all begin with": ([COMMIT[0], DISOWN], NONE),
            "one that had nothing": ([DISOWN], NONE),
            "one that has lost its commit": ([COMMIT[4], LOSE, DISOWN], LOST),
        }.items():
            with self.subTest(name):
                self.assertEqual(held, self.after(events).held)

    def test_fresh(self):
        """fresh is false if the state must be saved again before its number stands for it."""
        for name, (events, fresh) in {
            "a new process": ([], False),
            "saved": ([SAVE], True),
            "committed": ([COMMIT[0]], True),
            "changed by a callback": ([COMMIT[0], CHANGE], False),
            "restored": ([COMMIT[0], CHANGE, RESTORE], True),
            "saved again": ([COMMIT[0], CHANGE, SAVE], True),
            "received in part": ([COMMIT[0], FORGET], False),
            "taken over as it was committed": ([FORGET, ("take_over", 4, True)], True),
            "taken over with changes": ([FORGET, ("take_over", 4, False)], False),
            "given another number": ([COMMIT[0], CHANGE, ("agree", 5)], False),
        }.items():
            with self.subTest(name):
                self.assertEqual(fresh, self.after(events).fresh)

    def test_the_commit_before(self):
        """Members differ by one commit at most, so each keeps two."""
        for name, (events, held, before) in {
            "without replicas none is kept": ([COMMIT[0], COMMIT[1]], 1, NONE),
            "the first commit": ([BOTH[0]], 0, NONE),
            "two commits": ([BOTH[0], BOTH[1]], 1, 0),
            "three": ([BOTH[0], BOTH[1], BOTH[2]], 2, 1),
            "back to the one before": ([BOTH[0], BOTH[1], BACK], 0, NONE),
            "and on from there": ([BOTH[0], BOTH[1], BACK, BOTH[5]], 5, 0),
            "one that cannot be restored is not kept": ([BOTH[0], BOTH[1], LOSE, BOTH[5]], 5, LOST),
            "a training begins": ([BOTH[0], BOTH[1], BEGIN], NONE, NONE),
            "a process that is new in its group": ([BOTH[0], BOTH[1], DISOWN], LOST, NONE),
        }.items():
            with self.subTest(name):
                self.assertEqual((held, before), (self.after(events).held, self.after(events).before))

    def after(self, events):
        made = Ledger()
        for name, *arguments in events:
            getattr(made, name)(*arguments)
        return made


if __name__ == "__main__":
    unittest.main()
