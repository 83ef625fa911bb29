# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Runs a command that may not make some system calls, as under the seccomp profiles of
some container runtimes.

    deny.py pidfd_getfd,ptrace command arguments
"""

import ctypes
import os
import platform
import struct
import sys

NUMBERS = {"pidfd_getfd": 438, "ptrace": 101 if platform.machine() == "x86_64" else 117}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ALLOW, EPERM = 0x7FFF0000, 0x00050001


def instruction(code, true, false, k):
    return struct.pack("HBBI", code, true, false, k)


code = instruction(0x20, 0, 0, 0)  # load the number of the call
for name in sys.argv[1].split(","):
    code += instruction(0x15, 0, 1, NUMBERS[name]) + instruction(0x06, 0, 0, EPERM)
code += instruction(0x06, 0, 0, ALLOW)
program = ctypes.create_string_buffer(code)


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("first", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
rules = Filter(len(code) // 8, ctypes.addressof(program))
for arguments in ((PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(rules), 0, 0)):
    if libc.prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
os.execvp(sys.argv[2], sys.argv[2:])
