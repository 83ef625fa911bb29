# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Measures how long a sharded model takes to change its group, next to a plain transfer of the bytes that must move.

    python3 -m tests.measure_shares 100 5   # MB of parameters, rounds

Each round grows from 2 to 4 processes on this machine and shrinks back. In between the four send each other as many
bytes as each of the two changes moves, in one message per pair, into new memory as a change does.
"""

import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta

WIDTH = 1024


def build(mesh):
    """Parameters of as many MB, without a time for their initialization, and AdamW."""
    import torch
    from torch.distributed.tensor import DTensor, Shard

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            chunk = -(-WIDTH // mesh.size())
            for number in range(int(os.environ["TEST_MB"]) * 1000 * 1000 // (4 * WIDTH * WIDTH)):
                local = torch.empty(max(0, min(chunk, WIDTH - mesh.get_local_rank() * chunk)), WIDTH)
                whole = DTensor.from_local(local, mesh, [Shard(0)], run_check=False, shape=(WIDTH, WIDTH), stride=(WIDTH, 1))
                setattr(self, "weight%d" % number, torch.nn.Parameter(whole))

    model = Layers()
    return model, torch.optim.AdamW(model.parameters(), foreach=False)


def script():
    """What each process runs."""
    import gc

    import torch

    import kolo.torch as kolo

    gc.freeze()  # a collection of all that was imported takes as long as the change
    state = kolo.State(sharded=kolo.Sharded(build, os.environ["TEST_SHARDS"], checkpoint_every=1_000_000), step=0, done=0)

    def note(what, *values):
        print(what, kolo.generation(), kolo.rank(), kolo.size(), time.time(), *values, flush=True)

    @kolo.elastic
    def train(state):
        note("begin")
        model, optimizer = state.sharded.model, state.sharded.optimizer
        if kolo.size() == 4:
            for before, after in ((2, 4), (4, 2)):
                for _ in range(3):
                    note("plain", before, after, plain(model, before, after))
        steps = 0
        while steps < 3 or kolo.generation() < int(os.environ["TEST_GROUPS"]):
            if steps < 3:
                for parameter in model.parameters():
                    parameter.grad = torch.ones_like(parameter)
                optimizer.step()
                optimizer.zero_grad()
            else:
                time.sleep(0.05)
            steps += 1
            state.step += 1
            note("step")
            state.commit()

    train(state)


def plain(model, before, after):
    """Seconds in which four processes move what a change moves."""
    import torch
    import torch.distributed as dist

    from kolo.torch.state import ranges

    item = ranges.Item(WIDTH, 4 * WIDTH, True)
    places = tuple(rank if rank < before else ranges.NOWHERE for rank in range(after))
    routes = ranges.route([item], ranges.Change(before, places))
    count = 3 * len(list(model.parameters()))  # with both moments
    sizes = {pair: count * sum(stop - start for _, start, stop in pieces)
             for pair, pieces in [*routes.sent.items(), *routes.handed.items()]}
    rank = dist.get_rank()
    sends = {target: torch.ones(size, dtype=torch.uint8) for (source, target), size in sizes.items() if source == rank}
    receives = {source: torch.empty(size, dtype=torch.uint8) for (source, target), size in sizes.items() if target == rank}
    dist.barrier()
    begin = time.time()
    works = [dist.irecv(buffer, source) for source, buffer in receives.items()]
    works += [dist.isend(buffer, target) for target, buffer in sends.items()]
    for work in works:
        work.wait(timedelta(seconds=600))
    dist.barrier()
    return time.time() - begin


def measure(size, rounds):
    """Prints medians."""
    from .agent import Agent

    found = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="kolo-shards-", dir="/var/tmp") as directory:
            agent = Agent(script=os.path.abspath(__file__))
            try:
                once(agent, {"TEST_MB": str(size), "TEST_SHARDS": directory, "TEST_GROUPS": "3"}, found)
            finally:
                agent.close()
    for (before, after), gaps in found.items():
        gap, transfer = (statistics.median(column) for column in zip(*gaps))
        print("%d MB, %d -> %d: gap %.3f s [%.3f, %.3f], plain transfer %.3f s [%.3f, %.3f], ratio of medians %.2f; %d rounds" % (
            size, before, after, gap, min(gaps)[0], max(gaps)[0], transfer, min(t for _, t in gaps), max(t for _, t in gaps),
            gap / transfer, len(gaps)))


def once(agent, environment, found):
    workers = agent.start(4, **environment)
    agent.arrived(workers)
    agent.go(*workers[:2])
    agent.formed(2)
    agent.stepped(5)
    agent.go()
    agent.formed(4)
    agent.stepped(5)
    agent.shrink(workers[2:])
    assert agent.complete() == [0] * 4, agent.report()
    times, transfers = {}, {}
    for worker in workers:
        for line in agent.output(worker).splitlines():
            words = line.split()
            if words and words[0] in ("begin", "step"):
                times.setdefault((words[0], int(words[1])), []).append(float(words[4]))
            elif words and words[0] == "plain":
                transfers.setdefault((int(words[5]), int(words[6])), []).append(float(words[7]))
            elif line.startswith("kolo:"):
                print(line)
    for generation, change in ((1, (2, 4)), (2, (4, 2))):
        gap = max(times["begin", generation + 1]) - max(times["step", generation])
        found.setdefault(change, []).append((gap, statistics.median(transfers[change])))
        print("%d -> %d: %.3f s, plain transfer %.3f s" % (*change, *found[change][-1]), flush=True)


if __name__ == "__main__":
    if "KOLO_WORKER_ADDR" in os.environ:
        script()
    else:
        measure(int(sys.argv[1]), int(sys.argv[2]))
