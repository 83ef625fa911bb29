# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Kills the processes that the parent of this program leaves behind, by a mark in their environment.

    python orphans.py MARK

Waits until its stdin is closed, which happens when the parent ends. Then it
kills all processes with KOLO_ORPHANS=MARK in their environment. It imports
little, because it runs for as long as the training.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator

TOKEN = "KOLO_ORPHANS"


def marked(token: str) -> Iterator[int]:
    """Yields the other processes that have the mark."""
    mark = ("%s=%s" % (TOKEN, token)).encode()
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as environment:
                if mark in environment.read().split(b"\0"):
                    yield int(name)
        except OSError:
            pass  # it has ended, or belongs to another user


def main() -> None:
    while os.read(0, 1):
        pass
    while True:
        found = list(marked(sys.argv[1]))
        if not found:
            return
        for process in found:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.01)  # until they are gone


if __name__ == "__main__":
    main()
