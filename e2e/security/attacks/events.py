# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Replaces the file of task events with one that is hard to read.

usage: events.py sparse|fifo

The pipe (fifo) is a regular file until just before it is opened, because any
other pipe would be easy to recognize.
"""
import ctypes
import os
import sys
import threading
import time

from findings import attempt, report

EVENTS = "/local/kolo/events.jsonl"
AT_FDCWD, RENAME_EXCHANGE = -100, 2
libc = ctypes.CDLL(None, use_errno=True)


def sparse():
    os.truncate(EVENTS, 1 << 40)


def exchange(a, b):
    if libc.renameat2(AT_FDCWD, a.encode(), AT_FDCWD, b.encode(), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


def fifo():
    pipe = EVENTS + ".pipe"
    os.mkfifo(pipe)
    exchange(EVENTS, pipe)
    exchange(pipe, EVENTS)
    threading.Thread(target=swap, args=(pipe,), daemon=True).start()


def swap(pipe):
    while True:
        with open(EVENTS if os.path.isfile(EVENTS) else pipe, "a") as f:
            f.write("more\n")  # a file without news is not opened
        for _ in range(1000):
            exchange(EVENTS, pipe)


attempt(sys.argv[1], {"sparse": sparse, "fifo": fifo}[sys.argv[1]])
time.sleep(10 if sys.argv[1] == "fifo" else 0)  # some forty looks
report()
time.sleep(3600)
