# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Which commit of the training a process holds. Pure.

Members compare the numbers of their commits to decide who sends its state. So a
number must never stand for two different states:

- What is saved after anything else than training has changed the state is a
  commit of its own: see fresh.
- A process that was in a group that trains, and does not have its state, holds
  LOST. It is no newcomer.
"""

from __future__ import annotations

NONE = -1  # in place of a number: no commit of any group yet
LOST = -2  # in place of a number: the process was in a group that trains, and does not have its state


class Ledger:
    """The numbers of the last commits of one process, and whether they are still in memory."""

    def __init__(self) -> None:
        self.number = NONE  # of the last commit
        self.before = NONE  # of the one before it, where it is kept
        self.saved = False  # there is something to restore
        self.fresh = False  # nothing but training has changed the state since it was saved

    @property
    def held(self) -> int:
        """The number of the last commit if it can be restored; NONE or LOST otherwise."""
        return self.number if self.saved or self.number < 0 else LOST

    def save(self) -> None:
        """Records that the state was saved. That alone is no commit."""
        self.saved = self.fresh = True

    def commit(self, number: int, keeps_previous: bool = False) -> None:
        """Records that the state was saved as the commit of this number; keeps_previous: the last one is kept as well."""
        if keeps_previous:
            self.before = self.held
        self.save()
        self.number = number

    def change(self) -> None:
        """Records that something else than training has changed the state."""
        self.fresh = False

    def restore(self) -> None:
        """Records that the state is what was last saved."""
        self.fresh = True

    def go_back(self) -> None:
        """Makes the commit before the last the last one; that one was of this process alone."""
        self.number, self.before = self.before, NONE

    def begin(self) -> None:
        """Begins a training: no process has got further than this one."""
        self.number = self.before = NONE

    def disown(self) -> None:
        """Gives up commits that cannot be those of the group, because this process is new in it.

        Commit 0 is what the training begins with; all processes have it.
        """
        if self.number >= 0:
            self.number, self.before = LOST if self.number > 0 else NONE, NONE

    def lose(self) -> None:
        """Records that the last commit cannot be restored."""
        self.number = LOST

    def forget(self) -> None:
        """Records that the state is about to become partly that of another process: there is nothing to train from."""
        self.saved = self.fresh = False
        self.number = LOST

    def agree(self, number: int) -> None:
        """Gives the last commit the number that all members have for it, without saving.

        Where nothing is saved, held is LOST until the next commit.
        """
        self.number = number

    def take_over(self, number: int, fresh: bool) -> None:
        """Records that the state was saved as the commit of another process; fresh is as that process has it."""
        self.saved, self.fresh, self.number = True, fresh, number
