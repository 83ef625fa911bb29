# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Faults that a training script can cause on demand."""

import os
import sys
import time


def misbehave(args, step, rank):
    """Causes the fault that --fault names, once its step and rank are reached."""
    if args.fault == "slow" and step >= args.fault_step and args.fault_rank in (-1, rank) and not os.path.exists(args.fault_end):
        time.sleep(args.slow_time)
    if args.fault not in ("exit", "raise", "hang", "kill", "evaluate") or step != args.fault_step:
        return
    if args.fault_rank not in (-1, rank):
        return
    if args.fault_once:
        try:
            os.close(os.open(args.fault_once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    print("fault: %s at step %d on rank %d" % (args.fault, step, rank), flush=True)
    if args.fault == "exit":
        sys.exit(args.exit_code)
    if args.fault == "raise":
        raise RuntimeError("--fault=raise asks for an exception")
    if args.fault == "kill":
        os.kill(os.getpid(), 9)
    while args.fault == "evaluate" and not os.path.exists(args.fault_end):  # and does nothing
        time.sleep(0.1)
    while args.fault == "hang":  # the others wait in their collective
        time.sleep(3600)
