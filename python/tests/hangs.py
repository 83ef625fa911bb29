# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Detects a process that hangs because it uses no CPU time, as the agent does (driver/agent/host/idle.go).

If a connection ends within a message, gloo waits in the other process until the
timeout. Only a new process helps.
"""

import glob
import os
import time

IDLE = 2.0  # seconds without work
USE = 0.05  # seconds of CPU time in them that are no work: gloo's threads wake up every 10 ms
INTERVAL = 0.25
_TICK = os.sysconf("SC_CLK_TCK")


class Watch:
    """Observes the activity of a process from now on."""

    def __init__(self, pid):
        self._pid = pid
        self._looked = self._since = time.monotonic()
        self._used = 0.0
        self._hangs = False

    def hangs(self):
        """Whether the process has been inactive for a while."""
        now = time.monotonic()
        if now - self._looked < INTERVAL:
            return self._hangs
        self._looked = now
        used, held = activity(self._pid)
        if held or used > self._used + USE or used < self._used:
            self._since, self._used, self._hangs = now, used, False
        elif now - self._since >= IDLE:
            self._since, self._used, self._hangs = now, used, True
        return self._hangs


def blocked(pid):
    """Waits until a process is blocked in sending, because the receiver does not read."""
    last, watch, end = 0, Watch(pid), time.monotonic() + 60
    while not watch.hangs() and time.monotonic() < end:
        time.sleep(0.5)
        left = _unsent(pid)
        if left and left == last:
            return
        last = left


def _unsent(pid):
    """Returns the bytes in the TCP connections of a process that the other sides have not received."""
    links = [os.readlink(path) for path in glob.glob("/proc/%d/fd/*" % pid) if os.path.islink(path)]
    total = 0
    for path in "/proc/net/tcp", "/proc/net/tcp6":
        if os.path.exists(path):
            with open(path) as file:
                connections = [line.split() for line in file][1:]
            total += sum(int(fields[4].partition(":")[0], 16) for fields in connections if "socket:[%s]" % fields[9] in links)
    return total


def activity(pid):
    """The CPU time of a process, and whether a thread waits for a disk or was stopped."""
    used, held = 0, False
    for path in glob.glob("/proc/%d/task/*/stat" % pid):
        try:
            with open(path) as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        used += int(fields[11]) + int(fields[12])
        held = held or fields[0] in "DTt"
    return used / _TICK, held
