# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What the ways to send a state have in common: see the packages broadcast and background."""

from __future__ import annotations

from typing import Protocol

from .core import Core


class Transport(Protocol):
    """One process's part in giving all members of a group the same state."""

    def deliver(self, core: Core) -> None:
        """Returns when this process has the state, and a commit with the number that it has in all members.

        All members call it when their group has formed.
        """

    def abandon(self) -> None:
        """Ends waits for the others, because the group has lost a member. May be called by any thread."""

    def close(self) -> None:
        """Sends nothing more."""
