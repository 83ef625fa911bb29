# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Measures how long a sharded model takes to change its group, next to a plain transfer of the bytes that must move.

    python3 -m tests.measure_shares 100 5   # MiB of parameters, rounds

Each round grows from 2 to 4 processes on this machine and shrinks back. In between the four send each other as many
bytes as each of the two changes moves, in one message per pair, into new memory as a change does. Each change is a
line of JSON: seconds on the clock, and seconds of processor time of all processes together, in which other work on the
machine does not count. Both end before the thread that copies the new parts as a commit has done so.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from datetime import timedelta

WIDTH = 1024


def layers(size):
    """How many layers of 4 MiB a model of as many MiB has."""
    return max(1, size * 2**20 // (4 * WIDTH * WIDTH))


def build(mesh):
    """Parameters of as many MiB, without a time for their initialization, and AdamW."""
    import torch
    from torch.distributed.tensor import DTensor, Shard

    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            chunk = -(-WIDTH // mesh.size())
            for number in range(layers(int(os.environ["TEST_MIB"]))):
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
        print(what, kolo.generation(), time.time(), time.process_time(), *values, flush=True)

    @kolo.elastic
    def train(state):
        note("begin")
        model, optimizer = state.sharded.model, state.sharded.optimizer
        if kolo.size() == 4:
            for before, after in ((2, 4), (4, 2)):
                for _ in range(3):
                    note("plain", before, after, *plain(model, before, after))
        steps = 0
        while steps < 3 or kolo.generation() < int(os.environ["TEST_GROUPS"]):
            if steps < 3:
                for parameter in model.parameters():
                    parameter.grad = torch.ones_like(parameter)
                optimizer.step()
                optimizer.zero_grad()
            else:
                time.sleep(0.2)  # a model of this size does not commit at once again
            steps += 1
            state.step += 1
            note("step")
            state.commit()

    print("start", 0, time.time(), time.process_time(), flush=True)
    try:
        train(state)
    finally:
        print("end", 0, time.time(), time.process_time(), flush=True)


def plain(model, before, after):
    """Seconds in which four processes move what a change moves, and the processor time of this process."""
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
    begin, processor = time.time(), time.process_time()
    works = [dist.irecv(buffer, source) for source, buffer in receives.items()]
    works += [dist.isend(buffer, target) for target, buffer in sends.items()]
    for work in works:
        work.wait(timedelta(seconds=600))
    dist.barrier()
    return time.time() - begin, time.process_time() - processor


def measure(size, rounds):
    """Prints a line for each change."""
    from .agent import Agent

    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="kolo-shards-", dir="/var/tmp") as directory:
            agent = Agent(script=os.path.abspath(__file__))
            try:
                for change in once(agent, {"TEST_MIB": str(size), "TEST_SHARDS": directory, "TEST_GROUPS": "3"}):
                    print(json.dumps({**change, "mib": 4 * layers(size)}), flush=True)
            finally:
                agent.close()


def once(agent, environment):
    """Yields both changes of a round."""
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
    outputs = [output(agent.output(worker)) for worker in workers]
    for generation, before, after in (1, 2, 4), (2, 4, 2):
        steps = [times["step", generation][-1] for times in outputs if ("step", generation) in times]
        begins = [times["begin", generation + 1][0] for times in outputs if ("begin", generation + 1) in times]
        spent = 0.0
        for times in outputs:
            _, since = times.get(("step", generation), times["start", 0])[-1]
            _, until = times.get(("begin", generation + 1), times["end", 0])[0]
            spent += until - since
        plain = [[statistics.median(column) for column in zip(*times["plain", before, after])] for times in outputs]
        yield {"from": before, "to": after, "gap": max(begins)[0] - max(steps)[0], "gap_processor": spent,
               "plain": max(plain)[0], "plain_processor": sum(processor for _, processor in plain)}


def output(text):
    """Returns what a process has printed: times on the clock, with the processor time, by what they are of."""
    times = {}
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in ("start", "begin", "step", "end"):
            times.setdefault((words[0], int(words[1])), []).append((float(words[2]), float(words[3])))
        elif words and words[0] == "plain":
            times.setdefault((words[0], int(words[4]), int(words[5])), []).append((float(words[6]), float(words[7])))
        elif line.startswith("kolo:"):
            print(line, file=sys.stderr)
    return times


if __name__ == "__main__":
    if "KOLO_WORKER_ADDR" in os.environ:
        script()
    else:
        measure(int(sys.argv[1]), int(sys.argv[2]))
