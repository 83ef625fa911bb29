# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Reports the results of an attack.

The test reads the line that report prints. For each attempt, it has what the
attempt achieved, or why it failed.
"""
import json

_achieved, _refused = {}, {}


def attempt(name, act):
    """Runs act, which raises OSError if it is refused."""
    try:
        _achieved[name] = str(act() or "done")[:200]
    except OSError as e:
        _refused[name] = str(e)[:200]


def report():
    print("findings: " + json.dumps({"achieved": _achieved, "refused": _refused}), flush=True)
