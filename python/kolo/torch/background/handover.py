# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Growing without a pause: newcomers observe until they have the state, and then become members.

    place --> group of the members, with company --> function, commits, ...
                                  |                       | the observers have all
              observers:          +-- slices, gradients --+--> switch --> group of all --> function

At a planned change in between, the observers get the rest at that commit,
because the members may be about to leave. After a failure they begin again.
"""

from __future__ import annotations

import os
from typing import Optional

from .observer import Observer
from .slices import total, units
from ..state.state import LOST, State
from .stream import Stream

VARIABLE = "KOLO_TORCH_BACKGROUND"
THRESHOLD = 32 * 1024 * 1024  # bytes; less is sent while the group forms


def wanted(state: State, setting: Optional[bool]) -> bool:
    """Whether a process that holds this state is to send it in the background."""
    text = os.environ.get(VARIABLE, "")
    if setting is None and text:
        setting = text.lower() not in ("0", "false", "no", "off")
    if setting is False or state._has_parts():  # those of a replica are not those of another member
        return False
    return total(units(state._handlers).values()) >= (1 if setting else THRESHOLD)


def hand_over(state: State, stream: Optional[Stream], observer: Optional[Observer]) -> None:
    """Makes the state whole in all members of a group in which those who observed are members."""
    if observer is not None:
        commit, _ = observer.finish()
        state._reset()
        state._commits = commit + 1  # which it holds from its own first commit on
        return
    if stream is not None:
        stream.finish()
    state._reset()
    if not state._fresh:
        state.save()
    state._commits += 1


def take_over(state: State, observer: Observer) -> None:
    """Makes a state whole that the members are leaving."""
    commit, fresh = observer.finish()
    state.save()
    state._commits, state._fresh = commit, fresh


def forget(state: State) -> None:
    """Marks a state as one that must not be trained from: it is about to become partly that of others."""
    state._drop()
    state._saved = state._fresh = False
    state._commits = LOST
