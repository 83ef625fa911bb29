# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Starts training processes by forking one that has imported torch, which takes a hundredth of the time."""

import atexit
import multiprocessing
import multiprocessing.connection
import os
import runpy
import signal
import sys
import threading

import torch

_forkserver = multiprocessing.get_context("forkserver")
_forkserver.set_forkserver_preload(["torch", "torch.optim", "torch._dynamo", "kolo.torch"])


class Forked:
    """A process, with the methods of subprocess.Popen that the tests use."""

    def __init__(self, command, env, output):
        self._polling = threading.Lock()  # the exit status can be read once; who comes second would see 255
        self._status = None  # once it is closed
        self._process = _forkserver.Process(target=_run, args=(command, env, output))
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        with self._polling:
            return self._process.exitcode if self._status is None else self._status

    returncode = property(poll)

    def wait(self):
        multiprocessing.connection.wait([self._process.sentinel])

    def close(self):
        """Releases the resources of the process, which has ended, except for its exit status."""
        with self._polling:
            self._status = self._process.exitcode
            self._process.close()

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def terminate(self):
        self.send_signal(signal.SIGTERM)


def _run(command, env, output):
    """Runs a script in the forked process, as python does."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.environ.clear()
    os.environ.update(env)
    if "OMP_NUM_THREADS" in env:
        torch.set_num_threads(int(env["OMP_NUM_THREADS"]))  # torch reads the variable only when it is imported, which was before the fork
    multiprocessing.set_start_method(None, force=True)  # the child must not inherit the method by which it was started
    sys.argv = command
    sys.path.insert(0, os.path.dirname(command[0]))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        runpy.run_path(command[0], run_name="__main__")
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
