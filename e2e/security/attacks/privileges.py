# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Tries operations that need privileges, as a task of the default user.

usage: privileges.py <0600 file of root> <0644 file in the host's /etc>
"""
import os
import stat
import sys
import time

from findings import attempt, report

secret, public = sys.argv[1:]


def read(path):
    with open(path) as f:
        return f.read()


def status():
    with open("/proc/self/status") as f:
        return dict(line.split(":", 1) for line in f)


def capabilities():
    held = {k: v.strip() for k, v in status().items() if k.startswith("Cap") and int(v, 16)}
    if not held:
        raise PermissionError("none")
    return str(held)


def new_privileges():
    if status()["NoNewPrivs"].strip() == "1":
        raise PermissionError("no_new_privs is set")
    return "may gain privileges by setuid programs"


def root_groups():
    groups = {os.getgid(), os.getegid(), *os.getgroups()}
    if 0 not in groups:
        raise PermissionError(str(groups))
    return "is in group 0"


def become(call, number):
    call(number)
    return "became 0"


attempt("hold capabilities", capabilities)
attempt("gain privileges", new_privileges)
attempt("be in group 0", root_groups)
attempt("read a file of root", lambda: read(secret))
attempt("read the host's /etc", lambda: read(public))
attempt("read shadow", lambda: read("/etc/shadow"))
attempt("read a key of TLS", lambda: os.listdir("/etc/ssl/private"))
attempt("make a device node", lambda: os.mknod("/tmp/disk", 0o666 | stat.S_IFBLK, os.makedev(8, 0)))
attempt("become group 0", lambda: become(os.setgid, 0))
attempt("become user 0", lambda: become(os.setuid, 0))
report()
time.sleep(3600)
