# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with PyTorch and Kolo: a small model on synthetic data.

Runs as it stands under Kolo, under torchrun, and with plain python:

    nomad-driver-torch run -np 2 --max-np 4 -- python3 torch_train.py
    torchrun --nproc-per-node 2 torch_train.py
    python3 torch_train.py

Requires the package kolo (or its directory python/ in PYTHONPATH).

Every rank prints one JSON line for each thing worth measuring, and appends it,
with the indices of the samples used, to a file of its own in --records:

  {"kolo": "start", "t": ..., "pid": ...}                     Python is up
  {"kolo": "ring",  "t": ..., "rank": ..., "size": ..., ...}  a group begins to train
  {"kolo": "step",  "t": ..., "step": ..., "rank": ..., "size": ..., "pid": ...,
   "epoch": ..., "loss": ...}                                 one step is done
  {"kolo": "done",  "t": ..., "step": ..., "samples": ..., "sum": ..., ...}
                                                              training is complete

t is time.time(); sum is a checksum of the weights, equal on all ranks.
"""

import argparse
import json
import os
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
    option("samples", 2400, "samples in the data set; a multiple of 12 times --batch divides among 1 to 4 ranks")
    option("batch", 12, "samples per rank and step")
    option("step-time", 0.05, "seconds a step takes at least")
    option("commit-every", 1, "steps between commits (0: never)")
    option("import-time", 0.0, "extra seconds of start-up, as a slow import takes")
    option("import-time-file", "", "file that holds the extra seconds, if it exists: later processes may differ")
    option("stop-file", "", "file that ends training with the epoch in which it appears")
    option("records", "", "directory for one file per process of what it trained on")
    option("checkpoint", "", "file to start from and to write at each epoch's end")
    option("checkpoint-every", 0, "steps between checkpoints within an epoch (0: none)")
    option("ballast", 0, "megabytes of parameters that make the state larger")
    option("frozen", 0, "megabytes of parameters that are not trained, but are part of the state")
    option("fault", "", "import, exit, raise, hang, kill, init (init_process_group by the script) or not-elastic")
    option("fault-step", 0, "step after which exit, raise, hang or kill happen")
    option("fault-rank", -1, "rank that they happen to (-1: all)")
    option("fault-once", "", "file that marks that the fault has happened and will not again")
    option("exit-code", 3, "status for the fault exit")
    return parser.parse_args()


args = parse()
if os.path.exists(args.import_time_file):
    with open(args.import_time_file) as f:
        args.import_time = float(f.read())
time.sleep(args.import_time)
if args.fault == "import":
    raise ImportError("--fault=import asks for a failing import")

import torch  # noqa: E402  (after the simulated slow import)
import kolo.torch as kolo  # noqa: E402

torch.set_num_threads(1)
FEATURES = 16


class Record:
    """Writes what happens to stdout and to the file of this process."""

    def __init__(self, directory):
        self.file = None
        if directory:
            os.makedirs(directory, exist_ok=True)
            name = "%s-%d.jsonl" % (os.environ.get("NOMAD_SHORT_ALLOC_ID", "host"), os.getpid())
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


class Net(torch.nn.Module):
    """A small network; the ballast takes part in it with weight zero, what is frozen does not."""

    def __init__(self, ballast, frozen):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
        self.ballast = torch.nn.Parameter(torch.zeros(max(1, ballast * 1024 * 1024 // 4)))
        self.frozen = torch.nn.Parameter(torch.zeros(frozen * 1024 * 1024 // 4), requires_grad=False)

    def forward(self, x):
        return self.layers(x) + 0 * self.ballast[0]


class Data(torch.utils.data.Dataset):
    """The same data on every rank: y is a fixed function of x, plus noise. Each sample has its index with it."""

    def __init__(self, count):
        random = torch.Generator().manual_seed(7)
        self.x = torch.randn(count, FEATURES, generator=random)
        weights = torch.randn(FEATURES, 1, generator=random)
        self.y = torch.tanh(self.x @ weights) + 0.05 * torch.randn(count, 1, generator=random)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return index, self.x[index], self.y[index]


def misbehave(step):
    """Does what --fault asks for, once its step and rank have come."""
    if args.fault not in ("exit", "raise", "hang", "kill") or step != args.fault_step:
        return
    if args.fault_rank not in (-1, kolo.rank()):
        return
    if args.fault_once:
        try:
            os.close(os.open(args.fault_once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    print("fault: %s at step %d on rank %d" % (args.fault, step, kolo.rank()), flush=True)
    if args.fault == "exit":
        sys.exit(args.exit_code)
    if args.fault == "raise":
        raise RuntimeError("--fault=raise asks for an exception")
    if args.fault == "kill":
        os.kill(os.getpid(), 9)
    while True:  # hang: the others wait in their collective
        time.sleep(3600)


def asked_to_stop():
    """Whether --stop-file exists: rank 0 looks, so that all ranks agree."""
    answer = [bool(args.stop_file) and os.path.exists(args.stop_file)]
    if args.stop_file and kolo.size() > 1:
        torch.distributed.broadcast_object_list(answer, src=0)
    return answer[0]


def train(state, data, record):
    """Goes on from the state; is called again for each group."""
    record.write("ring", step=state.step, rank=kolo.rank(), size=kolo.size(),
                 generation=kolo.generation(), local_rank=kolo.local_rank(), epoch=state.epoch)
    device = kolo.device()
    model = kolo.wrap(state.model)
    for epoch in state.epochs(args.epochs):
        loader = torch.utils.data.DataLoader(data, batch_size=args.batch, sampler=state.sampler)
        for indices, x, y in state.batches(loader):
            begun = time.monotonic()
            state.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            loss.backward()
            state.optimizer.step()
            time.sleep(max(0, args.step_time - (time.monotonic() - begun)))

            state.step += 1
            state.loss = round(loss.item(), 6)
            record.write("step", indices.tolist(), step=state.step, rank=kolo.rank(), size=kolo.size(),
                         generation=kolo.generation(), epoch=epoch, loss=state.loss)
            left = args.epochs * args.samples - state.samples
            kolo.progress(total_steps=state.step + left // (args.batch * kolo.size()))
            misbehave(state.step)
            if args.checkpoint_every and state.step % args.checkpoint_every == 0:
                kolo.save_checkpoint(state, args.checkpoint)
            if args.commit_every:
                state.commit(every=args.commit_every)
        if args.checkpoint:
            kolo.save_checkpoint(state, args.checkpoint)
        if asked_to_stop():
            break


def main():
    record = Record(args.records)
    record.write("start")
    torch.manual_seed(42)
    data = Data(args.samples)
    model = Net(args.ballast, args.frozen).to(kolo.device())
    state = kolo.State(
        model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9),
        sampler=kolo.ElasticSampler(data), step=0, samples=0, epoch=0, loss=0.0)
    if args.checkpoint and kolo.load_checkpoint(state, args.checkpoint):
        print("starting from the checkpoint of step %d" % state.step, flush=True)
    if args.fault == "init":
        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())

    run = train if args.fault == "not-elastic" else kolo.elastic(train)
    run(state, data, record)
    record.write("done", step=state.step, samples=state.samples, epoch=state.epoch, rank=kolo.rank(),
                 size=kolo.size(), sum=sum(parameter.double().sum().item() for parameter in model.parameters()))


if __name__ == "__main__":
    main()
