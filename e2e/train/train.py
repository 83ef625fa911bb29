# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with PyTorch and Horovod, made to be watched.

A small model learns a function of synthetic data with real gradients. The
script knows nothing of Kolo beyond KOLO_PROGRESS_FILE, and runs unchanged
under horovodrun.

Every rank prints one JSON line for each thing worth measuring, and appends it,
with the indices of the samples used, to a file of its own in --records:

  {"kolo": "start", "t": …, "pid": …}                    Python is up
  {"kolo": "ring",  "t": …, "rank": …, "size": …, …}     a ring begins to train
  {"kolo": "step",  "t": …, "step": …, "rank": …, "size": …, "pid": …,
   "epoch": …, "loss": …}                                one step is done
  {"kolo": "signal", …}                                  SIGUSR1 has come
  {"kolo": "done",  "t": …, "step": …, "samples": …, …}  training is complete

t is time.time(), which all processes of one machine share.

Each rank takes --batch samples a step. The default is a multiple of 12, and so
should --samples be: what is left of an epoch then always divides among 1, 2, 3
or 4 ranks, and ElasticSampler, which pads by repeating samples where it does
not, has no reason to. So samples can be checked to be used exactly once.

With --global-batch a step takes that many samples of all ranks together, so
that more ranks make a step shorter, and not larger; --sample-time is then what
they share. A multiple of 60 divides among 1 to 6 ranks.
"""

import argparse
import json
import os
import signal
import sys
import time


def parse():
    """Reads flags; the default of each comes from TRAIN_<NAME> if set."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])

    def option(name, default, help):
        env = os.environ.get("TRAIN_" + name.upper().replace("-", "_"))
        kind = type(default)
        parser.add_argument("--" + name, type=kind, default=default if env is None else kind(env), help=help)

    option("epochs", 2, "passes over the data")
    option("samples", 2400, "samples in the data set")
    option("batch", 12, "samples per rank and step")
    option("global-batch", 0, "samples per step of all ranks, in place of --batch")
    option("step-time", 0.05, "seconds a step takes at least")
    option("sample-time", 0.0, "seconds that each sample of a rank adds to --step-time")
    option("commit-every", 1, "steps between commits")
    option("import-time", 0.0, "extra seconds of start-up, as a slow import takes")
    option("import-time-file", "", "file that holds the extra seconds, if it exists: later processes may differ")
    option("stop-file", "", "file that ends training with the epoch in which it appears")
    option("records", "", "directory for one file per process of what it trained on")
    option("checkpoint", "", "file to start from and to write at each epoch's end")
    option("checkpoint-every", 0, "steps between checkpoints within an epoch (0: none)")
    option("fault", "", "import, exit, raise, hang, kill or not-elastic")
    option("fault-step", 0, "step after which exit, raise, hang or kill happen")
    option("fault-rank", -1, "rank that they happen to (-1: all)")
    option("fault-once", "", "file that marks that the fault has happened and will not again")
    option("exit-code", 3, "status for the fault exit")
    return parser.parse_args()


args = parse()

if os.path.exists(args.import_time_file):
    with open(args.import_time_file) as f:
        args.import_time = float(f.read())
if args.import_time > 0:
    time.sleep(args.import_time)
if args.fault == "import":
    raise ImportError("--fault=import asks for a failing import")

import torch  # noqa: E402  (after the simulated slow import)
import horovod.torch as hvd  # noqa: E402

torch.set_num_threads(1)
FEATURES = 16


class Record:
    """Writes what happens to stdout and to the file of this process."""

    def __init__(self, directory):
        self.file = None
        if directory:
            os.makedirs(directory, exist_ok=True)
            name = "%s-%d.jsonl" % (os.environ.get("HOROVOD_HOSTNAME", "host"), os.getpid())
            self.file = open(os.path.join(directory, name), "a", buffering=1)

    def write(self, what, indices=None, **fields):
        line = {"kolo": what, "t": round(time.time(), 6), "pid": os.getpid(), **fields}
        # One write per line: the streams of several ranks share a terminal.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if self.file:
            if indices is not None:
                line["indices"] = indices
            self.file.write(json.dumps(line) + "\n")


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


def misbehave(step):
    """Does what --fault asks for, once its step and rank have come."""
    if args.fault not in ("exit", "raise", "hang", "kill") or step != args.fault_step:
        return
    if args.fault_rank not in (-1, hvd.rank()):
        return
    if args.fault_once:
        try:
            os.close(os.open(args.fault_once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    print("fault: %s at step %d on rank %d" % (args.fault, step, hvd.rank()), flush=True)
    if args.fault == "exit":
        sys.exit(args.exit_code)
    if args.fault == "raise":
        raise RuntimeError("--fault=raise asks for an exception")
    if args.fault == "kill":
        os.kill(os.getpid(), 9)
    while True:  # hang: the others wait in their collective
        time.sleep(3600)


def make_data():
    """The same data on every rank: y is a fixed function of x, plus noise."""
    random = torch.Generator().manual_seed(7)
    x = torch.randn(args.samples, FEATURES, generator=random)
    weights = torch.randn(FEATURES, 1, generator=random)
    y = torch.tanh(x @ weights) + 0.05 * torch.randn(args.samples, 1, generator=random)
    return x, y


def asked_to_stop():
    """Whether --stop-file exists: rank 0 looks, so that all ranks agree."""
    if not args.stop_file:
        return False
    return hvd.broadcast_object(os.path.exists(args.stop_file), root_rank=0)


def save_checkpoint(state):
    """Rank 0 writes a checkpoint that is whole at every moment."""
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
    }, part)
    os.replace(part, args.checkpoint)


def load_checkpoint(state):
    if args.checkpoint and os.path.exists(args.checkpoint):
        saved = torch.load(args.checkpoint)
        state.model.load_state_dict(saved["model"])
        state.optimizer.load_state_dict(saved["optimizer"])
        state.step, state.samples, state.epoch = saved["step"], saved["samples"], saved["epoch"]
        state.sampler.load_state_dict(saved["sampler"])
        print("starting from the checkpoint of step %d" % state.step, flush=True)


def rank_batch():
    """The samples of one rank in one step of the present ring."""
    return args.global_batch // hvd.size() if args.global_batch else args.batch


def batches(sampler):
    """The indices of this rank for the rest of the epoch, one batch at a time."""
    indices = list(sampler)
    for i in range(0, len(indices), rank_batch()):
        yield indices[i:i + rank_batch()]


def train(state, data, record, progress):
    x, y = data
    record.write("ring", step=state.step, rank=hvd.rank(), size=hvd.size(),
                 local_rank=hvd.local_rank(), epoch=state.epoch)
    while state.epoch < args.epochs and not asked_to_stop():
        for indices in batches(state.sampler):
            begun = time.monotonic()
            state.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(state.model(x[indices]), y[indices])
            loss.backward()
            state.optimizer.step()
            rest = args.step_time + args.sample_time * len(indices) - (time.monotonic() - begun)
            if rest > 0:
                time.sleep(rest)

            state.step += 1
            state.samples += len(indices) * hvd.size()
            state.sampler.record_batch(0, len(indices))
            value = round(loss.item(), 6)
            record.write("step", indices, step=state.step, rank=hvd.rank(), size=hvd.size(),
                         epoch=state.epoch, loss=value)
            left = args.epochs * args.samples - state.samples
            progress.write(state, state.step + left // (rank_batch() * hvd.size()), value)
            misbehave(state.step)
            if args.checkpoint_every and state.step % args.checkpoint_every == 0:
                save_checkpoint(state)
            if state.step % args.commit_every == 0:
                state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)
        save_checkpoint(state)
        state.commit()


def main():
    record = Record(args.records)
    record.write("start")
    signal.signal(signal.SIGUSR1, lambda *_: record.write("signal"))
    progress = Progress()
    hvd.init()

    torch.manual_seed(42)
    model = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    data = make_data()
    state = hvd.elastic.TorchState(
        model=model, optimizer=optimizer,
        sampler=hvd.elastic.ElasticSampler(range(args.samples), shuffle=True),
        step=0, samples=0, epoch=0)
    load_checkpoint(state)
    # The counters just loaded must survive a restore before the first commit.
    state.save()

    run = train if args.fault == "not-elastic" else hvd.elastic.run(train)
    run(state, data, record, progress)
    record.write("done", step=state.step, samples=state.samples, epoch=state.epoch,
                 rank=hvd.rank(), size=hvd.size())
    hvd.shutdown()


if __name__ == "__main__":
    main()
