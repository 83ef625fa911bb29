# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""DeepSpeed with ZeRO 2: a script for torchrun that saves when it is asked to. It does not use Kolo."""

import argparse
import gc
import pathlib
import signal
import subprocess
import sys
import threading

import deepspeed
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=200)
parser.add_argument("--batch", type=int, default=48, help="samples of a step, of all processes together")
parser.add_argument("--checkpoint", default="checkpoint", help="directory that all hosts share")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()
path = pathlib.Path(args.checkpoint)
asked = threading.Event()


def time_to_end():
    flag = torch.tensor([int(asked.is_set())])  # with NCCL: device="cuda"
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    if flag.item():
        gc.freeze()  # Python looks for garbage when it ends, for a second or more
    return flag.item() > 0


def read(file):
    return file.read_text().strip() if file.exists() else ""


def initialize(**options):
    """Makes the engine, and goes on from the checkpoint. If another number of processes has written it, rank
    0 converts it.
    """
    tag = read(path / "latest")
    config = {"train_micro_batch_size_per_gpu": args.batch // dist.get_world_size(), "zero_optimization": {"stage": 2}}
    if tag:
        universal = tag + "_universal"
        if dist.get_rank() == 0 and read(path / "latest_universal") != universal:
            subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--inject_missing_state",
                            "--input_folder", path / tag, "--output_folder", path / universal], check=True)
        dist.barrier()
        config["checkpoint"] = {"load_universal": True}
    engine, *_ = deepspeed.initialize(config=config, **options)
    if tag:
        engine.load_checkpoint(path)
    return engine


def letters(number, seed):
    """Sequences of 16 letters. The label is the one of eight letters that occurs most often."""
    x = torch.randint(8, (number, 16), generator=torch.Generator().manual_seed(seed))
    return x, x.mode(1).values


signal.signal(signal.SIGUSR1, lambda *_: asked.set())
deepspeed.init_distributed("gloo")  # with GPUs: "nccl"
torch.manual_seed(args.seed)
model = nn.Sequential(nn.Embedding(8, 16), nn.Flatten(), nn.Linear(256, 128), nn.GELU(), nn.Linear(128, 8))
engine = initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=2e-3))
(x, y), (test_x, test_y) = letters(2400, seed=1), letters(480, seed=2)
each = len(x) // args.batch  # steps of an epoch
while engine.global_steps < args.epochs * each:
    epoch, step = divmod(engine.global_steps, each)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(args.seed + epoch))
    samples = order[step * args.batch:(step + 1) * args.batch][dist.get_rank()::dist.get_world_size()]
    loss = cross_entropy(engine(x[samples]), y[samples])
    engine.backward(loss)
    engine.step()
    if step == each - 1:
        with torch.no_grad():
            loss = cross_entropy(engine(test_x), test_y)
        if dist.get_rank() == 0:
            print("epoch %d, %d processes: test loss %.4f" % (epoch, dist.get_world_size(), loss), flush=True)
    ending = time_to_end()
    if ending or step == each - 1:
        engine.save_checkpoint(path)
    if ending:
        sys.exit()
