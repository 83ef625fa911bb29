# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Lets `kolo stacks` see where this process is.

    kolo stacks --> pipe ----> a thread writes the stacks of all threads into KOLO_STACKS_FILE
                --> signal --> faulthandler writes them, if the thread cannot

The thread needs the GIL, so it sees no stack that is just changing. A process whose
native code keeps the GIL is asked by the signal, because faulthandler needs neither the
GIL nor the main thread's cooperation. But faulthandler may crash a process that runs
Python code meanwhile. Child processes that were forked, such as the workers of a data
loader, have no such thread. The agent signals them only while all their threads sleep.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from types import FrameType
from typing import Iterator, Optional

FILE = "KOLO_STACKS_FILE"

# SIGRTMAX-2. The agent's package inspect has the same number.
SIGNAL = 62

# The kernel's name of the thread, before the number of the pipe's end that it reads.
THREAD = "kolo-ask-"

# As in faulthandler.
MOST_THREADS = 100
MOST_FRAMES = 100


def register() -> None:
    """Lets this process write its stacks if it is asked. Does nothing without an agent, and ignores errors."""
    path = os.environ.get(FILE)
    if not path or not hasattr(faulthandler, "register"):
        return
    try:
        file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        faulthandler.register(SIGNAL, file=file, all_threads=True)  # file stays open as long as the process
        pipe = os.pipe()  # nothing closes its other end, so that reads wait
        named = threading.Event()
        threading.Thread(target=_answer, args=(pipe[0], file, named), name="kolo-stacks", daemon=True).start()
        named.wait(5)  # the script may keep the GIL from now on
    except (OSError, RuntimeError, ValueError):
        pass


def _answer(requests: int, file: int, named: threading.Event) -> None:
    """Writes the stacks whenever there is something in a pipe."""
    try:
        try:
            with open("/proc/self/task/%d/comm" % threading.get_native_id(), "w") as name:
                name.write(THREAD + str(requests))
        finally:
            named.set()
        while os.read(requests, 4096):  # several requests have one answer
            text = "".join(_stacks()).encode("utf-8", "replace")
            while text:
                text = text[os.write(file, text):]
    except OSError:
        pass  # such as a full disk; the signal is left


def _stacks() -> Iterator[str]:
    """Yields the stacks of all threads except for the caller's in the format of faulthandler, with the main thread as the current one."""
    main, own = threading.main_thread().ident, threading.get_ident()
    frames = sys._current_frames()
    del frames[own]
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident in sorted(frames, key=lambda ident: ident == main)[-MOST_THREADS:]:
        name = " [%s]" % " ".join(names[ident].split()) if ident in names else ""
        yield "%s 0x%016x%s (most recent call first):\n" % ("Current thread" if ident == main else "Thread", ident, name)
        frame: Optional[FrameType] = frames[ident]
        for _ in range(MOST_FRAMES):
            if frame is None:
                break
            yield '  File "%s", line %d in %s\n' % (frame.f_code.co_filename, frame.f_lineno or 0, frame.f_code.co_name)
            frame = frame.f_back
        if frame is not None:
            yield "  ...\n"
        yield "\n"
