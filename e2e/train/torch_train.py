# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Elastic training with PyTorch and Kolo, made to be watched.

What train.py does with Horovod, with the package kolo.torch. Runs as it stands
under Kolo, under torchrun, and with plain python:

    nomad-driver-torch run -np 2 --max-np 4 -- python3 torch_train.py
    torchrun --nproc-per-node 2 torch_train.py
    python3 torch_train.py

Requires the package kolo (or its directory python/ in PYTHONPATH). Its record
is described in record.py, its flags in flags.py; events of rings and steps also
have the generation, and the last one has a checksum of the weights ("sum"),
equal on all ranks.
"""

import os

import flags
from faults import misbehave
from record import Record

args = flags.parse(__doc__)
flags.start_slowly(args)

import torch  # noqa: E402  (after the simulated slow import)
import kolo.torch as kolo  # noqa: E402

import problem  # noqa: E402

torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset):
    """Each sample has its index with it."""

    def __init__(self, count):
        self.x, self.y = problem.data(count)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return index, self.x[index], self.y[index]


def asked_to_stop():
    """Returns whether --stop-file exists. Rank 0 looks, so that all ranks agree."""
    answer = [bool(args.stop_file) and os.path.exists(args.stop_file)]
    if args.stop_file and kolo.size() > 1:
        torch.distributed.broadcast_object_list(answer, src=0)
    return answer[0]


def train(state, samples, record):
    """Goes on from the state. It is called again for each group."""
    record.write("ring", step=state.step, rank=kolo.rank(), size=kolo.size(),
                 generation=kolo.generation(), local_rank=kolo.local_rank(), epoch=state.epoch)
    device = kolo.device()
    model = kolo.wrap(state.model)
    batch = flags.rank_batch(args, kolo.size())
    for epoch in state.epochs(args.epochs):
        loader = torch.utils.data.DataLoader(samples, batch_size=batch, sampler=state.sampler)
        pace = flags.Pace(args)
        for indices, x, y in state.batches(loader):
            state.optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x.to(device)), y.to(device))
            (loss + state.model.uses(indices.to(device), kolo.size())).backward()
            state.optimizer.step()
            pace.end_step(len(indices))

            state.step += 1
            state.loss = round(loss.item(), 6)
            record.write("step", indices.tolist(), step=state.step, rank=kolo.rank(), size=kolo.size(),
                         generation=kolo.generation(), epoch=epoch, loss=state.loss)
            left = args.epochs * args.samples - state.samples
            kolo.progress(total_steps=state.step + left // (batch * kolo.size()))
            misbehave(args, state.step, kolo.rank())
            with pace.excluded():
                if args.checkpoint_every and state.step % args.checkpoint_every == 0:
                    kolo.save_checkpoint(state, args.checkpoint)
                if args.commit_every:
                    state.commit(every=args.commit_every)
        if args.checkpoint:
            kolo.save_checkpoint(state, args.checkpoint)
        problem.audit(state, record, step=state.step, rank=kolo.rank(), size=kolo.size(), generation=kolo.generation())
        if asked_to_stop():
            state.epoch += 1  # which is complete
            break


def main():
    record = Record(args.records)
    record.write("start")
    torch.manual_seed(42)
    samples = Samples(args.samples)
    model = problem.Net(args.ballast, args.frozen, args.audit * args.samples).to(kolo.device())
    state = kolo.State(
        model=model, optimizer=torch.optim.SGD(model.groups(), lr=0.05, momentum=0.9),
        sampler=kolo.ElasticSampler(samples), step=0, samples=0, epoch=0, loss=0.0, counted=0)
    if args.checkpoint and kolo.load_checkpoint(state, args.checkpoint):
        print("starting from the checkpoint of step %d" % state.step, flush=True)
    if args.fault == "init":
        torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=torch.distributed.HashStore())

    run = train if args.fault == "not-elastic" else kolo.elastic(train)
    run(state, samples, record)
    record.write("done", step=state.step, samples=state.samples, epoch=state.epoch, rank=kolo.rank(),
                 size=kolo.size(), sum=sum(parameter.double().sum().item() for parameter in model.parameters()))


if __name__ == "__main__":
    main()
