# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with PyTorch and Horovod, made to be watched.

A small model learns a function of synthetic data with real gradients. The
script knows nothing of Kolo beyond KOLO_PROGRESS_FILE, and runs unchanged
under horovodrun. Its record is described in record.py, its flags in flags.py.
"""

import json
import os
import signal

import flags
from faults import misbehave
from record import Record

args = flags.parse(__doc__)
flags.start_slowly(args)

import torch  # noqa: E402  (after the simulated slow import)
import horovod.torch as hvd  # noqa: E402

import problem  # noqa: E402

torch.set_num_threads(1)


class Progress:
    """Appends rank 0's progress to KOLO_PROGRESS_FILE, where there is one."""

    def __init__(self):
        path = os.environ.get("KOLO_PROGRESS_FILE")
        self.file = open(path, "a", buffering=1) if path else None

    def write(self, state, total_steps, loss):
        if self.file and hvd.rank() == 0:
            self.file.write(json.dumps({
                "step": state.step,
                "samples": state.samples,
                "epoch": state.epoch,
                "total_steps": total_steps,
                "loss": loss,
            }) + "\n")


def asked_to_stop():
    """Returns whether --stop-file exists. Rank 0 looks, so that all ranks agree."""
    if not args.stop_file:
        return False
    return hvd.broadcast_object(os.path.exists(args.stop_file), root_rank=0)


def save_checkpoint(state):
    """Rank 0 replaces the checkpoint, which is complete at every moment."""
    if not args.checkpoint or hvd.rank() != 0:
        return
    part = args.checkpoint + ".part"
    torch.save({
        "model": state.model.state_dict(),
        "optimizer": state.optimizer.state_dict(),
        "step": state.step,
        "samples": state.samples,
        "epoch": state.epoch,
        "sampler": state.sampler.state_dict(),
        "counted": state.counted,
    }, part)
    os.replace(part, args.checkpoint)


def load_checkpoint(state):
    if args.checkpoint and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint)
        state.model.load_state_dict(saved["model"])
        state.optimizer.load_state_dict(saved["optimizer"])
        state.step, state.samples, state.epoch = saved["step"], saved["samples"], saved["epoch"]
        state.sampler.load_state_dict(saved["sampler"])
        state.counted = saved["counted"]
        print("starting from the checkpoint of step %d" % state.step, flush=True)


def batches(sampler):
    """Yields this rank's indices for the rest of the epoch, one batch at a time."""
    indices, size = list(sampler), flags.rank_batch(args, hvd.size())
    for i in range(0, len(indices), size):
        yield indices[i:i + size]


def train(state, x, y, record, progress):
    record.write("ring", step=state.step, rank=hvd.rank(), size=hvd.size(),
                 local_rank=hvd.local_rank(), epoch=state.epoch)
    while state.epoch < args.epochs:
        pace = flags.Pace(args)
        for indices in batches(state.sampler):
            state.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(state.model(x[indices]), y[indices])
            (loss + state.model.uses(indices, hvd.size())).backward()
            state.optimizer.step()
            pace.end_step(len(indices))

            state.step += 1
            state.samples += len(indices) * hvd.size()
            state.sampler.record_batch(0, len(indices))
            value = round(loss.item(), 6)
            record.write("step", indices, step=state.step, rank=hvd.rank(), size=hvd.size(),
                         epoch=state.epoch, loss=value)
            left = args.epochs * args.samples - state.samples
            progress.write(state, state.step + left // (flags.rank_batch(args, hvd.size()) * hvd.size()), value)
            misbehave(args, state.step, hvd.rank())
            with pace.excluded():
                if args.checkpoint_every and state.step % args.checkpoint_every == 0:
                    save_checkpoint(state)
                if args.commit_every and state.step % args.commit_every == 0:
                    state.commit()
        problem.audit(state, record, step=state.step, rank=hvd.rank(), size=hvd.size())
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        save_checkpoint(state)
        state.commit()
        if asked_to_stop():  # not where train is entered, which may be in the middle of an epoch
            break


def main():
    record = Record(args.records)
    record.write("start")
    signal.signal(signal.SIGUSR1, lambda *_: record.write("signal"))
    progress = Progress()
    hvd.init()

    torch.manual_seed(42)
    model = problem.Net(args.ballast, args.frozen, args.audit * args.samples)
    optimizer = torch.optim.SGD(model.groups(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    x, y = problem.data(args.samples)
    state = hvd.elastic.TorchState(
        model=model, optimizer=optimizer,
        sampler=hvd.elastic.ElasticSampler(range(args.samples), shuffle=True),
        step=0, samples=0, epoch=0, counted=0)
    load_checkpoint(state)
    # The counters just loaded must survive a restore before the first commit.
    state.save()

    run = train if args.fault == "not-elastic" else hvd.elastic.run(train)
    run(state, x, y, record, progress)
    record.write("done", step=state.step, samples=state.samples, epoch=state.epoch,
                 rank=hvd.rank(), size=hvd.size())
    hvd.shutdown()


if __name__ == "__main__":
    main()
