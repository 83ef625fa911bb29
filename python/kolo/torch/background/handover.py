# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""When the state is sent in the background, and what each process does when all of it has arrived."""

from __future__ import annotations

import os
from typing import Optional

from .observer import Observer
from .slices import total, units
from ..state.core import Core
from .stream import Stream

VARIABLE = "KOLO_TORCH_BACKGROUND"
THRESHOLD = 32 * 1024 * 1024  # bytes; less is sent while the group forms


def wanted(core: Core, setting: Optional[bool]) -> bool:
    """Whether a process that holds this state is to send it in the background."""
    text = os.environ.get(VARIABLE, "")
    if setting is None and text:
        setting = text.lower() not in ("0", "false", "no", "off")
    if setting is False or core.has_parts():  # those of a replica are not those of another member
        return False
    return total(units(core.handlers).values()) >= (1 if setting else THRESHOLD)


def hand_over(core: Core, stream: Optional[Stream], observer: Optional[Observer]) -> None:
    """Makes the state whole in all members of a group in which those who observed are members."""
    if observer is not None:
        commit, _ = observer.finish()
        core.reset()
        core.ledger.agree(commit + 1)  # which it holds from its own first commit on
        return
    if stream is not None:
        stream.finish()
    core.reset()
    core.keep_changes(core.ledger.number + 1)


def take_over(core: Core, observer: Observer) -> None:
    """Makes a state whole that the members are leaving."""
    core.take_over(*observer.finish())
