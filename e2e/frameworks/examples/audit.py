# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Runs an unchanged training script, and records the samples that its optimizer learns from.

    python3 audit.py train.py --epochs 3

For each step of an optimizer, it writes a line to the directory KOLO_AUDIT_RECORDS, in the
format of the Go package train: the step's number, from the optimizer's own state, and a
hash of each sample that the model was given since the last step. The script does not take
part in this: calls of torch.nn.Module are counted, and the optimizer has hooks.

While the file KOLO_AUDIT_PACE exists, a step takes a tenth of the time since the file was
touched. So training does not end before a slow change does: in ten times the time, it makes
only 24 more steps.
"""

import hashlib
import json
import os
import runpy
import sys
import time

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

RECORDS, PACE = os.environ["KOLO_AUDIT_RECORDS"], os.environ.get("KOLO_AUDIT_PACE", "")
samples = []  # since the last step of the present group
group = [0]  # its number
within = [0]  # modules


def first(values):
    """Returns the first tensor among arguments, or None."""
    for value in values.values() if isinstance(values, dict) else values:
        found = value if isinstance(value, torch.Tensor) else first(value) if isinstance(value, (dict, list, tuple)) else None
        if found is not None:
            return found
    return None


def generation():
    """Returns the number of the present group; 0 if the script does not know it, or is in no group yet."""
    place = sys.modules.get("kolo.torch.place")
    present = place and place.current()
    return present.generation if present else 0


def called(self, *args, **named):
    """Replaces Module.__call__. The outermost call with gradients gets samples; if its input has a gradient, it computes a loss."""
    if not within[0] and torch.is_grad_enabled():
        batch = first([args, named])
        if group[0] != generation():  # which makes a step that has failed again
            group[0] = generation()
            samples.clear()
        if batch is not None and not batch.requires_grad:
            for sample in batch.contiguous().cpu().numpy():
                samples.append(int.from_bytes(hashlib.blake2b(sample.tobytes(), digest_size=6).digest(), "big"))
    within[0] += 1
    try:
        return call(self, *args, **named)
    finally:
        within[0] -= 1


def stepped(optimizer, *_):
    """Records a step, and waits. Ignores steps without samples: PyTorch makes such a step to create an optimizer's state before it loads one."""
    if group[0] != generation() or not samples:
        return
    number = next(int(state["step"]) for state in optimizer.state.values() if "step" in state)
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    line = {"kolo": "step", "t": time.time(), "pid": os.getpid(), "step": number, "rank": rank, "size": size,
            "generation": generation(), "indices": samples[:]}
    samples.clear()
    with open(os.path.join(RECORDS, "%d.jsonl" % os.getpid()), "a") as file:
        file.write(json.dumps(line) + "\n")
    try:
        wait((time.time() - os.stat(PACE).st_mtime) / 10)
    except FileNotFoundError:
        pass


def wait(seconds):
    """Waits, and uses the CPU now and then, like a long step. Otherwise the agent would take an idle process of a broken ring for one that hangs."""
    end = time.time() + seconds
    while time.time() < end:
        time.sleep(min(0.2, max(0, end - time.time())))
        busy = time.process_time() + min(0.02, seconds / 10)
        while time.process_time() < busy:
            pass


os.makedirs(RECORDS, exist_ok=True)
call, torch.nn.Module.__call__ = torch.nn.Module.__call__, called
register_optimizer_step_post_hook(stepped)
sys.argv = sys.argv[1:]
sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
