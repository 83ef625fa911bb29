# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A script that uses many features of PyTorch at once, each with a model of its own: see test_features.

All features train on the same global batch, whatever the number of processes. So where the sums of a step do not depend on how
the batch is divided, the weights are those of a training in one process.
"""

import argparse
import contextlib
import copy
import json
import os
import signal
import threading
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import mse_loss
from torch.nn.utils import clip_grad_norm_, parametrizations
from torch.optim import lr_scheduler, swa_utils
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler

import kolo.torch as kolo
from kolo.torch.state import snapshot

try:
    import torchmetrics
except ImportError:
    torchmetrics = None

GLOBAL_BATCH = 4
AFTER = 4  # steps of the last group
UNFREEZE = 7  # the step from which on a frozen layer is trained


def network():
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))


def mean(loss):
    """The mean of a loss over the ranks."""
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total / kolo.size()


class Feature:
    """Trains a network in one way."""

    arguments = {}  # of kolo.wrap

    def __init__(self):
        torch.manual_seed(7)
        self.model = self.network()
        self.optimizer = self.make_optimizer()
        self.more = {}  # of the State

    def network(self):
        return network()

    def make_optimizer(self):
        return torch.optim.AdamW(self.model.parameters(), lr=0.01)

    def values(self):
        return {"model": self.model, "optimizer": self.optimizer, **self.more}

    def begin(self, state):
        """Makes the objects that are bound to a group."""
        self.state = state
        self.ddp = kolo.wrap(self.model, **self.arguments)

    def loss(self, x, y):
        return mse_loss(self.ddp(x), y)

    def step(self, number, x, y):
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        self.optimizer.step()

    def close(self):
        """Returns the values that are nearly the same in a training in one process."""
        return torch.cat([parameter.detach().reshape(-1).float() for parameter in self.model.parameters()])

    def equal(self):
        """Returns the values that are the same in a training in one process."""


class Hooks(Feature):
    def __init__(self):
        super().__init__()
        self.calls, self.steps = [0] * 5, 0
        self.model.register_forward_pre_hook(lambda module, inputs: (self.count(0), inputs[0] / 2)[1])
        self.model.register_forward_hook(lambda *_: self.count(1))
        self.model.register_full_backward_hook(lambda *_: self.count(2))
        self.model[0].weight.register_hook(lambda gradient: (self.count(3), gradient * 3)[1])
        self.optimizer.register_step_post_hook(lambda *_: self.count(4))

    def count(self, number):
        self.calls[number] += self.model.training

    def step(self, number, x, y):
        super().step(number, x, y)
        self.steps += 1

    def equal(self):
        return [calls / self.steps for calls in self.calls]


class CompressedHook(Feature):
    def begin(self, state):
        super().begin(state)
        self.ddp.register_comm_hook(None, default_hooks.fp16_compress_hook)


class PowerSGDHook(Feature):
    def network(self):
        return torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))

    def begin(self, state):
        super().begin(state)
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
        self.ddp.register_comm_hook(state, powerSGD_hook.powerSGD_hook)

    close = lambda self: None


class OwnHook(Feature):
    def begin(self, state):
        super().begin(state)
        self.ddp.register_comm_hook(kolo.size(), self.average)

    @staticmethod
    def average(size, bucket):
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda future: future.value()[0] / size)


class UnusedParameters(Feature):
    arguments = {"find_unused_parameters": True}

    class Heads(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = torch.nn.ModuleList([network(), network()])
            self.number = 0

        def forward(self, x):
            return self.heads[self.number % 2](x)

    def network(self):
        return self.Heads()

    def step(self, number, x, y):
        self.model.number = number
        super().step(number, x, y)


class StaticGraph(Feature):
    arguments = {"static_graph": True}

    class Recomputed(torch.nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.first, self.second, self.reentrant = torch.nn.Linear(6, 6), network(), reentrant

        def forward(self, x):
            return checkpoint(self.second, self.first(x).tanh(), use_reentrant=self.reentrant)

    def network(self):
        return self.Recomputed(True)


class Recomputation(Feature):
    def network(self):
        return StaticGraph.Recomputed(False)


class BucketViews(Feature):
    arguments = {"gradient_as_bucket_view": True, "bucket_cap_mb": 0.0001}

    def step(self, number, x, y):
        self.loss(x, y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)


class Accumulation(Feature):
    def step(self, number, x, y):
        self.optimizer.zero_grad()
        half = len(x) // 2
        with self.ddp.no_sync():
            (self.loss(x[:half], y[:half]) / 2).backward()
        (self.loss(x[half:], y[half:]) / 2).backward()
        self.optimizer.step()


class Collectives(Feature):
    """The sums are a tensor of the state. A newcomer gets another tensor, so the code always reads it from the state."""

    def __init__(self):
        super().__init__()
        self.more = {"total": torch.zeros(3)}

    def begin(self, state):
        super().begin(state)
        self.group = dist.new_group(list(range(kolo.size())))
        self.first = dist.new_group([0])

    def step(self, number, x, y):
        super().step(number, x, y)
        rank, size = kolo.rank(), kolo.size()
        assert (rank, size) == (dist.get_rank(), dist.get_world_size())
        own = x.sum()
        sums = [torch.zeros(()) for _ in range(size)]
        dist.all_gather(sums, own)
        total, grouped, of_first = own.clone(), own.clone(), torch.tensor(float(rank == 0))
        dist.all_reduce(total)
        dist.all_reduce(grouped, group=self.group)
        if rank == 0:
            dist.all_reduce(of_first, group=self.first)
        dist.broadcast(of_first, 0)
        dist.barrier()
        if size > 1:
            passed = torch.zeros(())
            receives = dist.irecv(passed, (rank - 1) % size)
            dist.send(own, (rank + 1) % size)
            receives.wait()
            assert torch.equal(passed, sums[(rank - 1) % size])
        said = [None] * size
        dist.all_gather_object(said, {"rank": rank})
        assert said == [{"rank": other} for other in range(size)]
        self.state.Collectives_total += torch.stack([sum(sums), grouped, of_first])
        assert torch.allclose(total, grouped)

    def close(self):
        return torch.cat([super().close(), self.state.Collectives_total])


class Quasinewton(Feature):
    """The closure returns the mean of the loss over the ranks, because LBFGS decides by it when to stop."""

    def make_optimizer(self):
        return torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=3, history_size=4)

    def step(self, number, x, y):
        def closure():
            self.optimizer.zero_grad()
            loss = self.loss(x, y)
            loss.backward()
            return mean(loss)

        self.optimizer.step(closure)


class SparseGradients(Feature):
    class Words(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = torch.nn.Embedding(10, 4, sparse=True), torch.nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.words((x[:, :3] * 5).long().abs().clamp(max=9)).mean(1))

    def __init__(self):
        super().__init__()
        self.dense = torch.optim.AdamW(self.model.head.parameters(), lr=0.01)
        self.more = {"dense": self.dense}

    def network(self):
        return self.Words()

    def make_optimizer(self):
        return torch.optim.SparseAdam(self.model.words.parameters(), lr=0.01)

    def step(self, number, x, y):
        self.dense.zero_grad()
        super().step(number, x, y)
        self.dense.step()


class BatchNorm(Feature):
    """Each rank normalizes its own part of the batch, so the weights differ from those of one process. The buffers are those of all steps."""

    def network(self):
        return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    close = lambda self: None

    def equal(self):
        return int(self.model[1].num_batches_tracked)


class Checkpoints(Feature):
    """Uses torch.distributed.checkpoint: each step reads the files that the ranks wrote a step before, with any number of ranks."""

    def step(self, number, x, y):
        if number:
            tree = {"model": {name: torch.zeros_like(value) for name, value in self.model.state_dict().items()}}
            torch.distributed.checkpoint.load(tree, checkpoint_id=directory("dcp-%d" % (number - 1)))
            assert all(torch.equal(tree["model"][name], value) for name, value in self.model.state_dict().items())
        super().step(number, x, y)
        torch.distributed.checkpoint.save({"model": self.model.state_dict()}, checkpoint_id=directory("dcp-%d" % number))


class UnevenInputs(Feature):
    """Commits are outside of the join context."""

    def make_optimizer(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, number, x, y):
        with Join([self.ddp]):
            for _ in range(1 + kolo.rank()):
                super().step(number, x, y)

    close = lambda self: None


class Compiled(Feature):
    """The module is compiled once."""

    class Net(torch.nn.Module):  # PyTorch 2.6 compiles no Sequential by itself
        def __init__(self):
            super().__init__()
            self.layers = network()

        def forward(self, x):
            return self.layers(x)

    def network(self):
        return self.Net()

    def __init__(self):
        super().__init__()
        self.compilations = 0
        self.backend = self.compiler
        self.compile()

    def compile(self):
        self.model.compile(backend=self.backend)

    def compiler(self, graph, inputs):
        self.compilations += 1
        return graph.forward

    def equal(self):
        assert 1 <= self.compilations <= 3, self.compilations  # for the batches of one rank and of two
        return True


class CompiledParallel(Compiled):
    """Each group's DistributedDataParallel is compiled. It reuses the code that was compiled for the previous one."""

    def compile(self):
        pass

    def begin(self, state):
        super().begin(state)
        self.compiled = torch.compile(self.ddp, backend=self.backend)

    def loss(self, x, y):
        return mse_loss(self.compiled(x), y)


class MixedPrecision(Feature):
    def __init__(self):
        super().__init__()
        self.scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=4)
        self.more = {"scaler": self.scaler}

    def step(self, number, x, y):
        self.optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = self.loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def equal(self):
        return self.scaler.get_scale()


class BFloat16(Feature):
    def network(self):
        return network().bfloat16()

    def make_optimizer(self):
        return torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.5)

    def loss(self, x, y):
        return mse_loss(self.ddp(x.bfloat16()).float(), y)


class MovingAverage(Feature):
    def __init__(self):
        super().__init__()
        self.average = swa_utils.AveragedModel(self.model, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.8))
        self.more = {"average": self.average}

    def step(self, number, x, y):
        super().step(number, x, y)
        self.average.update_parameters(self.model)

    def close(self):
        return torch.cat([parameter.detach().reshape(-1) for parameter in self.average.parameters()])

    def equal(self):
        return int(self.average.n_averaged)


class Schedule(Feature):
    def __init__(self):
        super().__init__()
        self.scheduler = self.make_scheduler(self.optimizer)
        self.more = {"scheduler": self.scheduler}

    def make_scheduler(self, optimizer):
        return lr_scheduler.SequentialLR(
            optimizer, [lr_scheduler.LinearLR(optimizer), lr_scheduler.CosineAnnealingLR(optimizer, 20)], [6])

    def step(self, number, x, y):
        super().step(number, x, y)
        self.scheduler.step()

    def equal(self):
        return self.optimizer.param_groups[0]["lr"]


class OneCycle(Schedule):
    def make_scheduler(self, optimizer):
        return lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=10000)


class LambdaRate(Schedule):
    def make_scheduler(self, optimizer):
        return lr_scheduler.LambdaLR(optimizer, lambda step: 0.95 ** step)


class Plateau(Schedule):
    """Follows the mean of the loss over the ranks, so that all ranks have the same rate."""

    def make_scheduler(self, optimizer):
        return lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)

    def step(self, number, x, y):
        Feature.step(self, number, x, y)
        self.scheduler.step(float(mean(self.loss(x, y))))


class Clipping(Feature):
    def step(self, number, x, y):
        self.optimizer.zero_grad()
        self.loss(x, y).backward()
        clip_grad_norm_(self.ddp.parameters(), 0.05)
        self.optimizer.step()


class Parametrizations(Feature):
    def network(self):
        return torch.nn.Sequential(parametrizations.weight_norm(torch.nn.Linear(6, 8)), torch.nn.Tanh(),
                                   parametrizations.spectral_norm(torch.nn.Linear(8, 2)))


class Adversarial(Feature):
    """Two models with two optimizers, which train each other."""

    def __init__(self):
        super().__init__()
        self.critic = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        self.criticism = torch.optim.RMSprop(self.critic.parameters(), lr=0.01)
        self.more = {"critic": self.critic, "criticism": self.criticism}

    def begin(self, state):
        super().begin(state)
        self.ddp_critic = kolo.wrap(self.critic)

    def step(self, number, x, y):
        self.criticism.zero_grad()
        (self.ddp_critic(self.ddp(x).detach()).square().mean() + self.ddp_critic(y).sub(1).square().mean()).backward()
        self.criticism.step()
        self.optimizer.zero_grad()
        (self.ddp_critic(self.ddp(x)).sub(1).square().mean() + self.loss(x, y)).backward()
        self.optimizer.step()

    def close(self):
        return torch.cat([super().close(), *(parameter.detach().reshape(-1) for parameter in self.critic.parameters())])


class Unfrozen(Feature):
    """A layer is trained only from a certain step on. That it has a gradient follows from the state, and DistributedDataParallel is made again."""

    def begin(self, state):
        self.model[0].requires_grad_(state.step >= UNFREEZE)
        super().begin(state)

    def step(self, number, x, y):
        if number == UNFREEZE:
            self.begin(self.state)
        super().step(number, x, y)


class Adapters(Feature):
    """A frozen network with layers of low rank. Only these are trained."""

    class Adapted(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.base = network().requires_grad_(False)
            self.down, self.up = torch.nn.Linear(6, 2, bias=False), torch.nn.Linear(2, 2, bias=False)

        def forward(self, x):
            return self.base(x) + self.up(self.down(x))

    def network(self):
        return self.Adapted()

    def make_optimizer(self):
        return torch.optim.AdamW([parameter for parameter in self.model.parameters() if parameter.requires_grad], lr=0.01)


class Metrics(Feature):
    """Counts, computes and resets between two commits. The result is that of the whole batch."""

    def __init__(self):
        super().__init__()
        self.metric = torchmetrics.MeanSquaredError()
        self.more = {"errors": []}

    def step(self, number, x, y):
        super().step(number, x, y)
        with torch.no_grad():
            self.metric.update(self.model(x), y.contiguous())
        self.state.Metrics_errors.append(float(self.metric.compute()))
        self.metric.reset()

    def close(self):
        return torch.tensor(self.state.Metrics_errors)


if torchmetrics is None:
    del Metrics
FEATURES = [kind for kind in list(globals().values()) if isinstance(kind, type) and issubclass(kind, Feature) and kind is not Feature]


def batch(number):
    """This rank's part of the global batch of a step."""
    generator = torch.Generator().manual_seed(number)
    x = torch.randn(GLOBAL_BATCH, 6, generator=generator)
    y = torch.stack([x[:, :3].sum(1), x[:, 3] - x[:, 4]], 1).tanh()
    return x[kolo.rank()::kolo.size()], y[kolo.rank()::kolo.size()]


def spread(features):
    """Returns how much the weights of each feature differ among the ranks."""
    sums = torch.stack([torch.cat([parameter.detach().double().reshape(-1) for parameter in feature.model.parameters()]).sum()
                        for feature in features])
    others = [torch.zeros_like(sums) for _ in range(kolo.size())]
    dist.all_gather(others, sums)
    return (torch.stack(others).max(0).values - torch.stack(others).min(0).values).tolist()


def ended(sizes):
    """Whether training is over: in a fixed run after a number of steps, otherwise some steps after the group has shrunk again."""
    if FIXED:
        return len(sizes) >= FIXED
    return len(sizes) > AFTER and 2 in sizes and sizes[-AFTER:] == [1] * AFTER


def directory(name):
    return arguments.records + "-%s%s" % ("fixed-" if FIXED else "", name)


def train():
    features = [kind() for kind in FEATURES]
    data = [torch.tensor(number) for number in range(60)]
    sampler = kolo.ElasticSampler(data)
    loader = DataLoader(data, 2, sampler=sampler, num_workers=2, persistent_workers=True, prefetch_factor=3, multiprocessing_context="fork",
                        generator=torch.Generator().manual_seed(1))
    values = {"%s_%s" % (type(feature).__name__, name): value for feature in features for name, value in feature.values().items()}
    state = kolo.State(step=0, epoch=0, samples=0, sizes=[], sampler=sampler, **values)
    ticks, signals = [], []
    threading.Thread(target=lambda: [(ticks.append(0), time.sleep(0.001)) for _ in iter(int, 1)], daemon=True).start()
    signal.signal(signal.SIGUSR1, lambda *_: signals.append(kolo.size()))

    with open(directory("%d.jsonl" % os.getpid()), "w", buffering=1) as file:
        def record(kind, **fields):
            file.write(json.dumps({"kind": kind, "rank": kolo.rank(), "size": kolo.size(), **fields}) + "\n")

        @kolo.elastic
        def run(state):
            for feature in features:
                feature.begin(state)
            started = len(ticks)
            with written(record):
                for _ in state.epochs(1000):
                    for indices in state.batches(loader):
                        for feature in features:
                            feature.step(state.step, *batch(state.step))
                        evaluate(data)
                        if kolo.rank() == 0:
                            record("written", step=state.step)  # as one writes to TensorBoard
                        record("step", step=state.step, epoch=state.epoch, indices=indices.tolist(), spread=spread(features),
                               ticks=len(ticks) - started, signals=signals)
                        state.step += 1
                        state.sizes.append(kolo.size())
                        if ended(state.sizes):
                            return
                        state.commit()

        first = [loss(feature) for feature in features]
        run(state)
        for feature, before in zip(features, first):
            close = feature.close()
            record("result", feature=type(feature).__name__, before=before, after=loss(feature),
                   close=None if close is None else close.tolist(), equal=feature.equal())


@contextlib.contextmanager
def written(record):
    """Returns what a writer of rank 0 has written when its process leaves."""
    try:
        yield
    finally:
        record("closed")


def evaluate(data):
    """Uses a sampler of PyTorch in an evaluation that begins and ends between two commits."""
    for _ in DataLoader(data[:6], 2, sampler=DistributedSampler(data[:6])):
        pass


def loss(feature):
    """Returns the loss on data that no step trains on."""
    x, y = torch.randn(64, 6, generator=torch.Generator().manual_seed(99)), None
    y = torch.stack([x[:, :3].sum(1), x[:, 3] - x[:, 4]], 1).tanh()
    model = copy.deepcopy(feature.model).float().eval() if isinstance(feature, BFloat16) else feature.model
    with torch.no_grad():
        model.eval()
        value = float(mse_loss(model(x), y))
        model.train()
    return value


def careless():
    """Trains with a sampler and optimizers that are not in the state."""
    data = [torch.randn(6) for _ in range(24)]
    model = network().append(torch.nn.Linear(2, 2))
    kept = torch.optim.AdamW(model[0].parameters())
    state = kolo.State(model=model, kept=kept, step=0)

    @kolo.elastic
    def run(state):
        ddp = kolo.wrap(model)
        lost = torch.optim.AdamW(model[2].parameters())
        zero = ZeroRedundancyOptimizer(model[3].parameters(), torch.optim.AdamW, lr=0.01)
        plain = torch.optim.SGD(model.parameters(), 0.01)  # keeps nothing of earlier steps
        elsewhere = network()  # which the state does not have either
        own = torch.optim.AdamW(elsewhere.parameters())
        loaders = [DataLoader(data, 2, sampler=DistributedSampler(data)), DataLoader(data, 2, shuffle=True)]
        for x, _, _ in zip(*loaders, RandomSampler(data, replacement=True)):  # the last has no epoch
            (ddp(x).square().mean() + elsewhere(x).square().mean()).backward()
            for optimizer in kept, lost, zero, plain, own:
                optimizer.step()
                optimizer.zero_grad()
            state.step += 1
            state.commit()

    run(state)


def frozen():
    """Freezes a layer on the members. A newcomer does not know that."""
    model = network()
    state = kolo.State(model=model, step=0)

    @kolo.elastic
    def run(state):
        kolo.wrap(model)
        model[0].requires_grad_(False)
        while state.step < 1000:
            state.step += 1
            time.sleep(0.01)
            state.commit()

    run(state)


parser = argparse.ArgumentParser()
parser.add_argument("--records", required=True)
arguments = parser.parse_args()
FIXED = int(os.environ.get("TEST_FIXED", "0"))  # steps
if os.environ.get("TEST_DEFERRED"):  # a thread copies tensors of any size
    snapshot.LARGE = snapshot.WORTHWHILE = 1
torch.set_num_threads(1)
globals()[os.environ.get("TEST_SCRIPT", "train")]()
