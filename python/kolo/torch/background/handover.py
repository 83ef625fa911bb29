# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Decides whether the state is sent in the background, and implements what each process does in the switch."""

from __future__ import annotations

import os
from typing import Optional

from ..log import log
from ..state.core import Core
from .observer import Observer
from .slices import total, units
from .stream import Stream

VARIABLE = "KOLO_TORCH_BACKGROUND"
THRESHOLD = 32 * 1024 * 1024  # bytes; a smaller state is sent while the group forms


def wanted(core: Core, setting: Optional[bool]) -> bool:
    """Whether a process with this state should send it in the background."""
    text = os.environ.get(VARIABLE, "")
    if setting is None and text:
        setting = text.lower() not in ("0", "false", "no", "off")
    if setting is False or core.has_parts() or core.has_shares():  # members have different parts, so one cannot send all of the state
        return False
    return total(units(core.handlers).values()) >= (1 if setting else THRESHOLD)


class Bystander:
    """What a member does in the switch if it neither sends nor receives. Like Sender and Receiver, it implements Transport."""

    def deliver(self, core: Core) -> None:
        core.reset()
        core.keep_changes(core.ledger.number + 1)

    def abandon(self) -> None:
        pass

    def close(self) -> None:
        pass


class Sender(Bystander):
    """What the member does in the switch that has sent the state while it trained."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def deliver(self, core: Core) -> None:
        self._stream.finish()
        super().deliver(core)
        self._report()

    def abandon(self) -> None:
        self._stream.abandon()

    def close(self) -> None:
        self._stream.close()

    def _report(self) -> None:
        stream = self._stream
        whole, rest = stream.nbytes(), stream.at_end
        log("group %d: %.0f of %.0f MB were received while training went on, %.0f MB at the switch",
            stream.generation, (whole - rest) / 1e6, whole / 1e6, rest / 1e6)
        if stream.again:
            log("group %d: %d values, such as %s, were changed outside of the optimizer's step and had to be sent again",
                stream.generation, len(stream.again), stream.again[0])


class Receiver:
    """What an observer does in the switch."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer

    def deliver(self, core: Core) -> None:
        number, _ = self._observer.finish()
        core.reset()
        core.ledger.agree(number + 1)  # it can be restored only from this process's first commit on

    def abandon(self) -> None:
        pass

    def close(self) -> None:
        pass


def take_over(core: Core, observer: Observer) -> None:
    """Completes an observer's state when the members leave the group before the switch."""
    core.take_over(*observer.finish())
