# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A training as users of torchrun write it, with DistributedDataParallel and a checkpoint. It does not use Kolo.

    torchrun --nproc-per-node 2 torchrun.py --checkpoint model.pt

It starts from its checkpoint if there is one. It writes the checkpoint every --checkpoint-every
steps, and at SIGUSR1 or SIGTERM, after which it ends. It prints the same lines as train.py; lines
of steps also have the time at which the step began. With --progress, rank 0 numbers its steps for Kolo.
"""

import argparse
import json
import os
import signal
import time

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=1000000, help="steps in all")
parser.add_argument("--step-time", type=float, default=0.05)
parser.add_argument("--checkpoint", default="checkpoint.pt")
parser.add_argument("--checkpoint-every", type=int, default=20)
parser.add_argument("--ballast", type=float, default=1, help="megabytes that the checkpoint has at least")
parser.add_argument("--records", default="")
parser.add_argument("--stop-file", default="")
parser.add_argument("--progress", action="store_true", help="append each step to KOLO_PROGRESS_FILE")
args, _ = parser.parse_known_args()


def record(what, **fields):
    """Writes what happens."""
    line = json.dumps({"kolo": what, "t": round(time.time(), 6), "pid": os.getpid(), **fields})
    print(line, flush=True)
    if args.records:
        os.makedirs(args.records, exist_ok=True)
        with open(os.path.join(args.records, "%d.jsonl" % os.getpid()), "a") as file:
            file.write(line + "\n")


def number():
    """Reports the step to Kolo."""
    if args.progress and rank == 0:
        with open(os.environ["KOLO_PROGRESS_FILE"], "a") as file:
            file.write(json.dumps({"step": step}) + "\n")


asked = False


def ask(*_):
    """Handles the signal by which a scheduler asks the processes to end."""
    global asked
    asked = True


signal.signal(signal.SIGUSR1, ask)
signal.signal(signal.SIGTERM, ask)
torch.set_num_threads(1)
torch.manual_seed(1)
record("start")
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()

inputs = torch.randn(1200, 16)
targets = torch.tanh(inputs.sum(1, keepdim=True))
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
model.register_buffer("ballast", torch.zeros(int(args.ballast * 1024 * 1024 / 4)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
step = 0
if os.path.exists(args.checkpoint):
    saved = torch.load(args.checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    step = saved["step"]
ddp = torch.nn.parallel.DistributedDataParallel(model, broadcast_buffers=False)
record("ring", step=step, rank=rank, size=size)


def save():
    """Rank 0 replaces the checkpoint as a whole."""
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, args.checkpoint + ".part")
        os.replace(args.checkpoint + ".part", args.checkpoint)


def agreed():
    """Returns whether any rank was asked to end, or the training is over. All ranks learn that at the same step."""
    over = step >= args.steps or bool(args.stop_file) and os.path.exists(args.stop_file)
    flags = torch.tensor([int(asked), int(over)])
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return flags.tolist()


ended = over = 0
while not ended and not over:
    begun, begun_at = time.monotonic(), time.time()
    batch = torch.arange(12) + (step * size + rank) * 12
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(ddp(inputs[batch % 1200]), targets[batch % 1200])
    loss.backward()
    optimizer.step()
    time.sleep(max(0, args.step_time - (time.monotonic() - begun)))
    step += 1
    number()
    record("step", step=step, rank=rank, size=size, loss=round(loss.item(), 6), begun=round(begun_at, 6))
    ended, over = agreed()
    if ended or over or step % args.checkpoint_every == 0:
        save()
if over:
    record("done", step=step, rank=rank, size=size)
dist.barrier()  # rank 0 has saved
dist.destroy_process_group()
