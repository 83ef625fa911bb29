# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Measures PyTorch alone: groups that are formed again in place, and broadcasts.

    reform.py reform 1,2,4,2,1      prints the gap of each change of the group's size
    reform.py broadcast 10,100      prints the time of a broadcast of so many MiB to a second rank

Each rank has its own process, and the store has another. All of them are started
beforehand. The gap is from the last step of the old group to the end of the first step
of the new one, as rank 0 sees it. Each measurement is one line of JSON.
"""

import datetime
import json
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

STEP, STEPS = 0.05, 20
TIMEOUT = datetime.timedelta(seconds=60)
torch.set_num_threads(1)


def join(store, name, rank, size):
    dist.init_process_group("gloo", store=dist.PrefixStore(name, store), rank=rank, world_size=size, timeout=TIMEOUT)


def meet(store, name, ranks):
    """Waits for all ranks, without using their connections."""
    store.add(name, 1)
    while store.add(name, 0) < ranks:
        time.sleep(0.05)


def reform(store, rank, sizes):
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    join(dist.HashStore(), "warm", 0, 1)  # what is slow the first time
    torch.nn.parallel.DistributedDataParallel(model)(torch.randn(12, 16)).square().mean().backward()
    dist.destroy_process_group()
    meet(store, "ready", max(sizes))
    last = 0.0
    for n, size in enumerate(sizes):
        if rank >= size:
            store.wait(["over/%d" % n], datetime.timedelta(minutes=10))
            continue
        join(store, str(n), rank, size)
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        for step in range(STEPS):
            begun = time.monotonic()
            optimizer.zero_grad()
            ddp(torch.randn(12, 16)).square().mean().backward()
            optimizer.step()
            time.sleep(max(0, STEP - (time.monotonic() - begun)))
            now = time.monotonic()
            if step == 0 and n and rank == 0:
                print(json.dumps({"from": sizes[n - 1], "to": size, "seconds": now - last}), flush=True)
            last = now
        if rank == 0:
            store.set("over/%d" % n, "")
        del ddp
        dist.destroy_process_group()


def broadcast(store, rank, sizes):
    join(store, "broadcast", rank, 2)
    for megabytes in sizes:
        for _ in range(5):
            sent = torch.ones(megabytes * 2**20, dtype=torch.uint8) if rank == 0 else None
            dist.barrier()
            begun = time.monotonic()
            # A newcomer has the memory to allocate, too.
            dist.broadcast(sent if rank == 0 else torch.empty(megabytes * 2**20, dtype=torch.uint8), src=0)
            dist.barrier()
            if rank == 0:
                print(json.dumps({"mb": megabytes, "seconds": time.monotonic() - begun}), flush=True)
    meet(store, "done", 2)
    os._exit(0)  # destroying the group may hang where the other rank was faster


def main():
    what, sizes = {"reform": reform, "broadcast": broadcast}[sys.argv[1]], [int(n) for n in sys.argv[2].split(",")]
    if len(sys.argv) > 3:
        store = dist.TCPStore("127.0.0.1", int(sys.argv[3]), is_master=False, use_libuv=False, timeout=TIMEOUT)
        what(store, int(sys.argv[4]), sizes)
        return
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, use_libuv=False, wait_for_workers=False)
    ranks = max(sizes) if what is reform else 2
    children = [subprocess.Popen([sys.executable, __file__, *sys.argv[1:3], str(store.port), str(rank)]) for rank in range(ranks)]
    while any(child.poll() is None for child in children):
        if any(child.poll() for child in children):
            for child in children:
                child.kill()
            sys.exit("ranks ended with %s" % [child.wait() for child in children])
        time.sleep(0.05)


if __name__ == "__main__":
    main()
