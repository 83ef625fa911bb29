# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""How an attack reports what it achieved.

The test reads the line that report prints: each attempt by name, with what it
achieved, or why not.
"""
import json

_achieved, _refused = {}, {}


def attempt(name, act):
    """Runs act, which raises OSError where it is refused."""
    try:
        _achieved[name] = str(act() or "done")[:200]
    except OSError as e:
        _refused[name] = str(e)[:200]


def report():
    print("findings: " + json.dumps({"achieved": _achieved, "refused": _refused}), flush=True)
