# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The training of torch_train.py with torchft in place of kolo, for comparison.

Each process is a replica group of one rank, with the number --slot.
TORCHFT_LIGHTHOUSE names the lighthouse, which `torchft_train.py lighthouse PORT`
serves. torchft's sampler loses and repeats samples when the size changes. So each
rank draws its own samples, and records none. The record is described in
record.py, the flags in flags.py.
"""

import datetime
import os
import sys
import time

import flags
from record import Record

if sys.argv[1:2] == ["lighthouse"]:
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(bind="[::]:" + sys.argv[2], min_replicas=1, join_timeout_ms=100, quorum_tick_ms=20,
                              heartbeat_timeout_ms=1000)
    while True:
        time.sleep(3600)

args = flags.parse(__doc__, slot=0, timeout=5.0)
flags.start_slowly(args)

import torch  # noqa: E402  (after the simulated slow import)
import torch.distributed as dist  # noqa: E402


class Store(dist.TCPStore):
    """A store for a torch that was built without libuv, such as Debian's."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, use_libuv=False, **kwargs)


import torchft.manager  # noqa: E402
import torchft.process_group  # noqa: E402

torchft.manager.TCPStore = torchft.process_group.TCPStore = Store

import problem  # noqa: E402

torch.set_num_threads(1)


class Gloo(torchft.ProcessGroupGloo):
    """Gloo for PyTorch before 2.7, whose groups have no names of ranks for logs."""

    def _create_pg(self, store, rank, world_size):
        self._global_ranks = []
        return super()._create_pg(store, rank, world_size)


class Parallel(torchft.DistributedDataParallel):
    """Continues after a failed collective. torchft 0.2.0 would end with an AssertionError."""

    @staticmethod
    def _comm_hook(state, bucket):
        work = state.allreduce(bucket.buffer())
        work.wait()
        future = work.get_future()
        future = getattr(future, "_fut", future)
        if future is None:  # the manager does not commit the step
            future = torch.futures.Future()
            future.set_result(bucket.buffer())
        return future


def main():
    record = Record(args.records)
    record.write("start")
    torch.manual_seed(42)
    x, y = problem.data(args.samples)
    model = problem.Net(args.ballast, args.frozen)
    plain = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    store = Store("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = torchft.Manager(
        pg=Gloo(timeout=datetime.timedelta(seconds=args.timeout)),
        timeout=datetime.timedelta(seconds=60), min_replica_size=1, rank=0, world_size=1,
        store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1",
        replica_id="slot%d" % args.slot,
        state_dict=lambda: {"model": model.state_dict(), "optimizer": plain.state_dict()},
        load_state_dict=lambda saved: (model.load_state_dict(saved["model"]), plain.load_state_dict(saved["optimizer"])))
    ddp = Parallel(manager, model)
    optimizer = torchft.Optimizer(manager, plain)
    random = torch.Generator().manual_seed(args.slot)
    ranks = 4 if args.global_batch else 1
    quorum, epoch_steps = None, args.samples // (args.global_batch or args.batch)
    pace = flags.Pace(args)
    while manager.current_step() < args.epochs * epoch_steps:
        epoch = manager.current_step() // epoch_steps
        # Ranks share a global batch; the number of ranks is that of the step before.
        indices = torch.randint(args.samples, (flags.rank_batch(args, max(1, ranks)),), generator=random)
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(ddp(x[indices]), y[indices])
        loss.backward()
        step = manager.current_step()
        optimizer.step()
        pace.end_step(len(indices))
        rank = manager.participating_rank()
        if rank is None or manager.current_step() == step:
            continue  # heals, or the step failed
        ranks = manager.num_participants()
        place = dict(step=step + 1, rank=rank, size=ranks, epoch=epoch)
        if quorum != manager._quorum_id:
            quorum = manager._quorum_id
            record.write("ring", **place)
        record.write("step", loss=round(loss.item(), 6), **place)


if __name__ == "__main__":
    main()
