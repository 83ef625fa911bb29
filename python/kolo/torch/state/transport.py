# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The common interface of the two ways to send a state, which the packages broadcast and background implement."""

from __future__ import annotations

from typing import Protocol

from .core import Core


class Transport(Protocol):
    """One process's part in giving all members of a group the same state."""

    def deliver(self, core: Core) -> None:
        """Gives this process the state of the group, and a commit number that is the same in all members.

        All members call it when their group has formed.
        """

    def abandon(self) -> None:
        """Ends all waits for the others, because the group has lost a member. May be called by any thread."""

    def close(self) -> None:
        """Stops sending."""
