# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Records which commit of the training a process holds. Pure.

Members compare the numbers of their commits to decide which member sends its
state. So a number must never stand for two different states:

- If anything but training changes the state, saving it makes another commit; see
  fresh.
- A process that was in a training group but has lost the group's state holds LOST.
  It is not a newcomer.
"""

from __future__ import annotations

NONE = -1  # in place of a number: no commit of any group yet
LOST = -2  # in place of a number: the process was in a group that trains, but does not have its state


class Ledger:
    """The numbers of the last commits of one process, and whether they are still in memory."""

    def __init__(self) -> None:
        self.number = NONE  # of the last commit
        self.before = NONE  # of the commit before it, if that is kept
        self.saved = False  # there is a saved state to restore
        self.fresh = False  # nothing but training has changed the state since it was saved

    @property
    def held(self) -> int:
        """The number of the last commit if it can be restored; NONE or LOST otherwise."""
        return self.number if self.saved or self.number < 0 else LOST

    def save(self) -> None:
        """Records that the state was saved, without a commit."""
        self.saved = self.fresh = True

    def commit(self, number: int, keeps_previous: bool = False) -> None:
        """Records that the state was saved as the commit with this number. With keeps_previous, the previous commit is kept, too."""
        if keeps_previous:
            self.before = self.held
        self.save()
        self.number = number

    def change(self) -> None:
        """Records that anything but training has changed the state."""
        self.fresh = False

    def restore(self) -> None:
        """Records that the last saved state was restored."""
        self.fresh = True

    def go_back(self) -> None:
        """Goes back to the commit before the last one, which only this process has."""
        self.number, self.before = self.before, NONE

    def begin(self) -> None:
        """Begins a training, of which no process has a commit yet."""
        self.number = self.before = NONE

    def disown(self) -> None:
        """Marks this process's commits as foreign: the process is new in the group, and the group's commits may differ.

        Commit 0 is the state with which the training begins; all processes have it.
        """
        if self.number >= 0:
            self.number, self.before = LOST if self.number > 0 else NONE, NONE

    def lose(self) -> None:
        """Records that the last commit cannot be restored."""
        self.number = LOST

    def forget(self) -> None:
        """Records that another process's state is about to replace this process's state, part by part. Until then, the state is unusable."""
        self.saved = self.fresh = False
        self.number = LOST

    def agree(self, number: int) -> None:
        """Gives the last commit the number on which all members agree, without saving it again.

        If nothing is saved, held is LOST until the next commit.
        """
        self.number = number

    def take_over(self, number: int, fresh: bool) -> None:
        """Records that the state was saved as another process's commit. number and fresh are those of that process."""
        self.saved, self.fresh, self.number = True, fresh, number
