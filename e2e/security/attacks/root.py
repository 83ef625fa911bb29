# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Writes to the host as root, whose /etc a task sees read-only.

usage: root.py <file to write in /etc>
"""
import os
import subprocess
import sys

from findings import attempt, report


def write():
    subprocess.run(["mount", "-o", "remount,rw,bind", "/etc"], check=False)
    with open(sys.argv[1], "w") as f:
        f.write("written by a task\n")


def run_as_root():
    if os.getuid() != 0:
        raise PermissionError(f"runs as {os.getuid()}")
    return "runs as user 0"


attempt("run as root", run_as_root)
attempt("write to the host's /etc", write)
report()
