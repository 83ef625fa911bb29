# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Runs a command that may not call pidfd_getfd: as the seccomp profile of some
container runtimes has it, without one."""

import ctypes
import os
import struct
import sys

PIDFD_GETFD = 438  # on all architectures
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, EPERM = 0x7FFF0000, 0x00050001


def instruction(code, true, false, k):
    return struct.pack("HBBI", code, true, false, k)


program = ctypes.create_string_buffer(
    instruction(0x20, 0, 0, 0)  # load the number of the call
    + instruction(0x15, 0, 1, PIDFD_GETFD)
    + instruction(0x06, 0, 0, EPERM)
    + instruction(0x06, 0, 0, ALLOW)
)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("first", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
rules = Filter(4, ctypes.addressof(program))
for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(rules), 0, 0)):
    if libc.prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
os.execvp(sys.argv[1], sys.argv[1:])
