# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Small training scripts; TEST_SCRIPT selects one."""

import collections
import hashlib
import os
import pickle
import signal
import threading
import time

import torch

import kolo.torch as kolo
from kolo.torch import session
from kolo.torch.background import channel, observer, stream
from kolo.torch.broadcast import shares
from kolo.torch.group import exchange, group
from kolo.torch.state import snapshot, tree


def hopeless():
    """Always fails with an error that looks like a lost member."""
    state = kolo.State(step=0)

    @kolo.elastic
    def train(state):
        raise RuntimeError("gloo does not like these tensors")

    train(state)


class Average(torch.nn.Module):
    """An exponential moving average, as a module of its own."""

    def __init__(self, model):
        super().__init__()
        self.register_buffer("mean", torch.cat([p.detach().reshape(-1) for p in model.parameters()]))

    def update(self, model):
        self.mean.mul_(0.9).add_(torch.cat([p.detach().reshape(-1) for p in model.parameters()]), alpha=0.1)


def handover():
    """Hands over all kinds of values. Prints a digest of the state at the start of each group and at the end."""
    torch.manual_seed(os.getpid())  # each process begins with others
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
    state = kolo.State(
        model=model, optimizer=optimizer, average=Average(model), rng=kolo.RNG(),
        scheduler=torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999),
        mask=torch.rand(7) < 0.5, empty=torch.zeros(0), half=torch.rand(3).half(), scalar=torch.tensor(1.5),
        history=[os.getpid()], names={"a": (1, 2.5, None)}, kinds=[collections.deque([1], 3), {1, 2}, torch.float16, b"x", 2 ** 70],
        resets=0, step=0)

    def digest(what):
        skeleton, tensors = tree.split(state.tree(shared=True))
        text = repr(skeleton).encode() + b"".join(pickle.dumps(t.tolist()) for t in tensors)
        print(what, kolo.generation(), kolo.size(), hashlib.sha256(text).hexdigest(), state.resets, flush=True)

    def reset():
        state.resets += 1
        state.half += 1

    state.register_reset_callbacks([reset])

    @kolo.elastic
    def train(state):
        ddp = kolo.wrap(state.model, broadcast_buffers=True)
        digest("begin")
        while state.step < int(os.environ.get("TEST_STEPS", "60")):
            optimizer.zero_grad()
            ddp(torch.randn(6, 4)).square().mean().backward()
            optimizer.step()
            state.scheduler.step()
            for buffer in model.buffers():  # BatchNorm's differ among ranks
                torch.distributed.broadcast(buffer, 0)
            state.average.update(model)
            state.history.append(state.step)
            state.step += 1
            time.sleep(0.02)
            state.commit(every=2)
        return "result"

    assert train(state) == "result"
    digest("end")


def strike(copy):
    """Kills this process in the middle of the commit thread's copy number TEST_STRIKE."""
    left = [int(os.environ.get("TEST_STRIKE", "0"))]

    def striking(targets, sources, numbers):
        if threading.current_thread().name.startswith("kolo-commit"):
            left[0] -= 1
            if left[0] == 0:
                copy(targets, sources, numbers[:len(numbers) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
        copy(targets, sources, numbers)

    return striking


def deferred():
    """Like handover, but a thread completes the commits, even of a small state."""
    snapshot.LARGE = snapshot.WORTHWHILE = 1
    snapshot._copy = strike(snapshot._copy)
    handover()


def messages():
    """Rank 0 sends to the last rank, which stops within a message if TEST_STOP asks for it."""
    state = kolo.State(step=0)
    tensor = torch.ones(10_000_000)

    @kolo.elastic
    def train(state):
        while True:
            if kolo.size() > 1 and kolo.rank() == 0:
                torch.distributed.send(tensor, kolo.size() - 1)
            elif kolo.size() > 1 and kolo.rank() == kolo.size() - 1:
                work = torch.distributed.irecv(tensor, 0)
                if state.step >= int(os.environ.get("TEST_STOP", "1000000")):
                    os.kill(os.getpid(), signal.SIGSTOP)
                work.wait()
            state.step += 1
            state.commit()

    train(state)


def bytes_in_the_pause():
    """Prints how many bytes were sent between the last commit and the first step of each group."""
    model = torch.nn.Linear(int(os.environ["TEST_WIDTH"]), 1200)
    state = kolo.State(model=model, optimizer=torch.optim.Adam(model.parameters()), steps=0, step=0)
    moved = [0]

    def count(kind, name):
        function = getattr(kind, name)

        def counted(self, tensor, *arguments):
            moved[0] += tree.nbytes([tensor])
            return function(self, tensor, *arguments)

        setattr(kind, name, counted)

    count(channel.Channel, "_move")
    count(group.Group, "broadcast")

    @kolo.elastic
    def train(state):
        ddp = kolo.wrap(state.model)
        print("pause", moved[0], flush=True)
        state.steps = 0
        while kolo.size() == 1 or state.steps < 3:
            state.optimizer.zero_grad()
            ddp(torch.randn(6, model.in_features)).square().mean().backward()
            state.optimizer.step()
            state.step += 1
            state.steps += 1
            time.sleep(0.02)
            moved[0] = 0
            state.commit()

    finish = observer.Observer.finish
    observer.Observer.finish = lambda self: moved.__setitem__(0, 0) or finish(self)
    switch = stream.Stream.finish
    stream.Stream.finish = lambda self: moved.__setitem__(0, 0) or switch(self)
    train(state)


class Layers(torch.nn.Module):
    """Parameters whose first dimension does not divide among ranks, unless a test needs that. One is smaller than the group."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.weight = torch.nn.Parameter(torch.randn(int(os.environ.get("TEST_ROWS", "7")), 5))
        self.bias = torch.nn.Parameter(torch.randn(2))
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight).square().mean() + self.bias.square().sum()


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def tensors_of(mesh):
    """A model of DTensors, as with FSDP2. The gradients do not depend on the number of ranks."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    model, placements = Layers(), [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
    for name, parameter in list(model.named_parameters()):
        setattr(model, name, torch.nn.Parameter(distribute_tensor(parameter.data, mesh, placements)))

    def backward(generator):
        for parameter in model.parameters():
            whole = torch.randn(parameter.shape, generator=generator) + full(parameter.detach())
            parameter.grad = distribute_tensor(whole, parameter.device_mesh, parameter.placements)

    return model, backward


def sum_for_average():
    """Replaces averages over replicas by sums, because gloo refuses to average."""
    from torch.distributed import ReduceOp

    reduce = torch.distributed.all_reduce
    if not hasattr(reduce, "stand_in"):
        def all_reduce(tensor, op=ReduceOp.SUM, **arguments):
            return reduce(tensor, op=ReduceOp.SUM if op == ReduceOp.AVG else op, **arguments)

        all_reduce.stand_in = True
        torch.distributed.all_reduce = all_reduce


def fsdp_of(mesh):
    """A model with FSDP2. On the CPU, PyTorch 2.6 needs replacements for events of a stream and for gloo's averages."""
    from torch.distributed.fsdp import fully_shard

    lacking = not hasattr(torch.cpu.Stream, "record_event")
    if lacking or getattr(torch.cpu.Stream, "stand_in", False):
        torch.cpu.Stream.stand_in = lacking = True
        torch.cpu.Stream.record_event = lambda self, event=None: torch.cpu.Event()
        torch.cpu.Stream.wait_event = lambda self, event: None
        if mesh.ndim > 1:
            sum_for_average()
    model = Layers()
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    scale = 1 / kolo.size() if lacking else 1  # over both dimensions of the mesh
    return model, lambda generator: (scale * model(torch.randn(6, 5, generator=generator))).backward()


def columns_of(mesh):
    """Like fsdp_of, with a parameter that is sharded along its second dimension. So a rank's part is not a range of it."""
    from torch.distributed.tensor import Shard, distribute_tensor

    model, backward = tensors_of(mesh)
    model.weight = torch.nn.Parameter(distribute_tensor(full(model.weight.detach()), mesh, [Shard(1)]))
    return model, backward


def apart_of(mesh):
    """A model on a mesh of its own, as with tensor parallelism."""
    from torch.distributed.device_mesh import init_device_mesh

    return tensors_of(init_device_mesh("cpu", (1, mesh.size())))


def strike_in_exchange(count):
    """Ends this process before its message number count of a change of the group, with messages of a few bytes."""
    left, changing, post, fill = [count], [], exchange.Exchange._post, shares._exchange

    def striking(self, posted, receiving, peer, number):
        if changing and number < len(self._messages[receiving][peer]):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        post(self, posted, receiving, peer, number)

    def filling(*arguments):
        changing.append(True)
        return fill(*arguments)

    def handing(*arguments):
        changing.append(True)
        return hand_over(*arguments)

    hand_over = session.hand_over
    exchange.Exchange._post, shares._exchange, session.hand_over = striking, filling, handing


def sharded():
    """Trains a sharded model. Prints the full state at the start of each group and at the end."""
    def build(mesh):
        model, backwards[:] = (lambda made: (made[0], made[1:]))(globals()[os.environ.get("TEST_MODEL", "tensors_of")](mesh))
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    shares.LIMIT, shares.ALONE = 16, 8
    snapshot.LARGE = snapshot.WORTHWHILE = 1
    if "TEST_STRIKE" in os.environ:
        strike_in_exchange(int(os.environ["TEST_STRIKE"]))
    backwards = []
    every = int(os.environ.get("TEST_CHECKPOINT_EVERY", "1"))
    state = kolo.State(sharded=kolo.Sharded(build, os.environ["TEST_SHARDS"], checkpoint_every=every,
                                                redundancy=int(os.environ.get("TEST_REDUNDANCY", "0"))), step=0)
    checkpoint = os.environ.get("TEST_CHECKPOINT")
    if checkpoint:
        kolo.load_checkpoint(state, checkpoint)

    def digest(what):
        model, optimizer = state.sharded.model, state.sharded.optimizer
        tensors = [full(tensor) for tensor in [*model.state_dict().values()] + [
            value for parameter in model.parameters() for _, value in sorted(optimizer.state.get(parameter, {}).items())]]
        text = hashlib.sha256(repr([tensor.tolist() for tensor in tensors]).encode()).hexdigest()
        print(what, kolo.generation(), state.step, text, "%.6f" % sum(tensor.sum() for tensor in tensors), flush=True)

    @kolo.elastic
    def train(state):
        digest("begin")
        model, optimizer = state.sharded.model, state.sharded.optimizer
        while state.step < int(os.environ.get("TEST_STEPS", "40")):
            optimizer.zero_grad()
            backwards[0](torch.Generator().manual_seed(state.step))
            optimizer.step()
            model.count += 1
            state.step += 1
            if state.step == int(os.environ.get("TEST_KILLED", "0")):
                os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(float(os.environ.get("TEST_SLEEP", "0.02")))
            if checkpoint and state.step % 5 == 0:
                kolo.save_checkpoint(state, checkpoint)  # of the last commit
            state.commit()
        digest("end")

    train(state)


def straggler():
    """The rank TEST_SLOW takes longer for each step."""
    state = kolo.State(model=torch.nn.Linear(4, 1), step=0)

    @kolo.elastic
    def train(state):
        ddp = kolo.wrap(state.model)
        while state.step < int(os.environ["TEST_STEPS"]):
            time.sleep(0.2 if kolo.rank() == int(os.environ["TEST_SLOW"]) else 0.01)
            ddp(torch.ones(2, 4)).sum().backward()
            state.step += 1
            state.commit()

    train(state)


if __name__ == "__main__":
    globals()[os.environ["TEST_SCRIPT"]]()
