# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Measures what an AdaptiveBatch costs, and what training with it reaches. Prints tables; asserts nothing.

    python3 -m tests.measure_adaptive norms 100                                # MB of parameters
    python3 -m tests.measure_adaptive cost 100 8                               # MB of parameters, rounds
    python3 -m tests.measure_adaptive training 5 32 256 adaptive progress      # seeds, ways

norms: processor time of the norms of a sampled step, which does not depend on the machine's load.

cost: two processes on this machine train in turns with plain DistributedDataParallel and with an AdaptiveBatch
whose size stays the same, so that only the measuring differs.

training: each model is trained with a fixed batch of 32 or 256 samples by one process, and with an AdaptiveBatch
by one to three processes whose number changes at random while they train: "adaptive" for as many epochs, "progress"
until its progress is that of the smaller fixed batch.
"""

import json
import os
import random
import statistics
import sys
import time

RESIZE = 40  # mean number of steps between two changes of the group
TRAIN, TEST = 2048, 2048


def mlp():
    """Classes that a random network gives to random inputs, a tenth of them wrong. SGD with momentum and AdaScale."""
    import torch

    teacher = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 8))
    x = torch.randn(TRAIN + TEST, 20)
    with torch.no_grad():
        y = (3 * teacher(2 * x)).argmax(1)
    wrong = torch.rand(TRAIN) < 0.1
    y[:TRAIN][wrong] = torch.randint(0, 8, (int(wrong.sum()),))
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    return x, y, model, torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), "adascale"


def cnn():
    """Images with one of ten random patterns at a random place, and noise. AdamW and the square-root rule."""
    import torch

    patterns = torch.randn(10, 4, 4)
    y = torch.randint(0, 10, (TRAIN + TEST,))
    x = 0.7 * torch.randn(TRAIN + TEST, 1, 8, 8)
    for number, (row, column) in enumerate(torch.randint(0, 5, (TRAIN + TEST, 2)).tolist()):
        x[number, 0, row:row + 4, column:column + 4] += patterns[y[number]]
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 4), torch.nn.ReLU(), torch.nn.AdaptiveMaxPool2d(1), torch.nn.Flatten(), torch.nn.Linear(32, 10))
    return x, y, model, torch.optim.AdamW(model.parameters(), 0.003), "sqrt"


EPOCHS = {"mlp": 12, "cnn": 8}
INITIAL, LARGEST, LOCAL = 32, 512, 128
ADAPTIVE = ("adaptive", "progress")


def train_once():
    """What each process of a training runs."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    import kolo.torch as kolo

    name, way = os.environ["TEST_MODEL"], os.environ["TEST_BATCH"]
    torch.manual_seed(int(os.environ["TEST_SEED"]))
    x, y, model, optimizer, rule = globals()[name]()
    data = TensorDataset(x[:TRAIN], y[:TRAIN])
    adaptive = way in ADAPTIVE
    most = LARGEST if adaptive else int(way)
    goal = EPOCHS[name] * TRAIN // INITIAL
    rates = [group["lr"] for group in optimizer.param_groups]
    batch = kolo.AdaptiveBatch(initial=min(INITIAL, most), max=most, local_max=min(LOCAL, most), lr=rule, every=10)
    state = kolo.State(model=model, optimizer=optimizer, sampler=kolo.ElasticSampler(data), batch=batch, step=0, epoch=0, samples=0, groups=0)
    if not adaptive:  # the same learning rate and the same size from the first step to the last
        batch = kolo.AdaptiveBatch(initial=most, max=most, local_max=min(LOCAL, most), lr=lambda _: 1.0, every=10)
        state.batch = batch

    @kolo.elastic
    def train(state):
        ddp = kolo.wrap(state.model)
        state.groups += 1
        for epoch in state.epochs(EPOCHS[name] if way != "progress" else 1000):
            if batch.progress >= goal and way == "progress":
                break
            for group, rate in zip(optimizer.param_groups, rates):
                late = batch.progress / goal if way == "progress" else epoch / EPOCHS[name]
                group["lr"] = rate * (0.1 if late >= 0.6 else 1)
            for inputs, targets in state.batches(lambda local: DataLoader(data, local, sampler=state.sampler)):
                with batch.accumulate(ddp):
                    torch.nn.functional.cross_entropy(ddp(inputs), targets).backward()
                if batch.step(optimizer):
                    state.step += 1
                    state.commit()
        with torch.no_grad():
            outputs = state.model(x[TRAIN:])
            loss = torch.nn.functional.cross_entropy(outputs, y[TRAIN:]).item()
            right = (outputs.argmax(1) == y[TRAIN:]).float().mean().item()
        print("result", json.dumps({"loss": loss, "right": right, "steps": state.step, "progress": batch.progress, "groups": state.groups,
                                    "samples": state.samples, "batch": state.samples / state.step}), flush=True)

    train(state)


def train_all(seeds, ways):
    """Prints a table of trainings."""
    from .agent import Agent

    print("| model | batch | held-out loss | held-out accuracy, % | steps | progress | mean batch | groups |\n|---|---|---|---|---|---|---|---|")
    for name in EPOCHS:
        for way in ways:
            results = []
            for seed in range(seeds):
                agent = Agent(script=os.path.abspath(__file__))
                try:
                    environment = {"TEST_SCRIPT": "train_once", "TEST_MODEL": name, "TEST_BATCH": way, "TEST_SEED": str(seed)}
                    workers = agent.start(3 if way in ADAPTIVE else 1, **environment)
                    agent.arrived(workers)
                    agent.go(*workers[:1])
                    if way in ADAPTIVE:
                        disturb(agent, environment, random.Random(seed))
                    codes = agent.complete()
                    if any(code for worker, code in zip(agent.workers, codes) if not worker.killed):
                        raise SystemExit(agent.report())
                    lines = [line for worker in agent.workers for line in agent.output(worker).splitlines() if line.startswith("result ")]
                    results.append(json.loads(lines[0][7:]))
                    print(name, way, seed, lines[0][7:], file=sys.stderr, flush=True)
                finally:
                    agent.close()

            def spread(key, form, factor=1, results=results):
                values = [result[key] * factor for result in results]
                return (form + " ± " + form) % (statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0)

            print("| %s | %s | %s | %s | %s | %s | %s | %.0f |" % (
                name, way if way in ADAPTIVE else "fixed, " + way, spread("loss", "%.3f"), spread("right", "%.1f", 100), spread("steps", "%.0f"),
                spread("progress", "%.0f"), spread("batch", "%.0f"), statistics.mean(result["groups"] for result in results)), flush=True)


def disturb(agent, environment, rng):
    """Changes the number of processes at random until training ends, and ends those that are spare then."""
    def step():
        with agent.lock:
            return max((worker.progress[-1].get("step", 0) for worker in agent.workers if worker.progress), default=0)

    while True:
        aim = step() + rng.expovariate(1 / RESIZE)
        while step() < aim:
            if any(worker.process.poll() == 0 and not worker.retired for worker in agent.workers):
                for worker in agent.workers:
                    if worker not in agent.members:
                        agent.kill(worker)
                return
            time.sleep(0.02)
        with agent.lock:
            members = list(agent.members)
            spare = [worker for worker in agent.workers if worker not in members and worker.ready and worker.held]
        if len(members) > 1 and (rng.random() < 0.5 or len(members) == 3):
            agent.shrink([members[-1]])
            agent.start(1, **environment)
        elif spare:
            agent.go(*spare[:1])


def cost_once():
    """What each process of the comparison runs."""
    import torch

    import kolo.torch as kolo

    width, layers = 1024, max(1, int(os.environ["TEST_MB"]) * 1000 * 1000 // (4 * 1024 * 1024))
    models = [torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers))) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), 1e-6) for model in models]
    every, count = 5, 10
    batch = kolo.AdaptiveBatch(initial=16, max=16, local_max=8, lr="adascale", every=every)
    state = kolo.State(step=0)

    @kolo.elastic
    def train(state):
        ddp = [kolo.wrap(model) for model in models]
        batch.reset()
        x = torch.randn(8, width)
        plain, quiet, sampled = [], [], []
        for round_ in range(int(os.environ["TEST_ROUNDS"]) + 1):
            for _ in range(count):
                begin = time.monotonic()
                ddp[0](x).mean().backward()
                optimizers[0].step()
                optimizers[0].zero_grad()
                plain.append(time.monotonic() - begin)
            for number in range(count):
                begin = time.monotonic()
                with batch.accumulate(ddp[1]):
                    ddp[1](x).mean().backward()
                batch.step(optimizers[1])
                (sampled if (number + 1) % every == 0 else quiet).append(time.monotonic() - begin)
            if round_ == 0:  # warming up
                for times in plain, quiet, sampled:
                    times.clear()
        if kolo.rank() == 0:
            print("result", json.dumps([plain, quiet, sampled]), flush=True)

    train(state)


def norms(megabytes):
    """Prints the processor time of the norms of a sampled step."""
    import torch

    from kolo.torch.adaptive.measure import Scale, scaled_squared

    torch.set_num_threads(1)
    buckets = [torch.randn(25 * 1000 * 1000 // 4) for _ in range(max(1, megabytes // 25))]
    scales = [Scale(torch.rand_like(bucket), 0.9, 1e-8) for bucket in buckets]
    for what, norm in (("SGD", lambda: [torch.linalg.vector_norm(bucket) for bucket in buckets]),
                       ("Adam", lambda: [scaled_squared(*pair) for pair in zip(buckets, scales)])):
        times = []
        for _ in range(15):
            begin = time.process_time()
            norm()
            times.append(1000 * (time.process_time() - begin))
        middle = statistics.median(times)
        print("%s: norm of %d MB: %.1f ms [%.1f, %.1f] of one core; before and after the reduction, with every=100: %.2f ms a step" % (
            what, megabytes, middle, min(times), max(times), 2 * middle / 100))


def cost(megabytes, rounds):
    """Prints a table of step times."""
    from .agent import Agent

    agent = Agent(script=os.path.abspath(__file__))
    try:
        workers = agent.start(2, TEST_SCRIPT="cost_once", TEST_MB=str(megabytes), TEST_ROUNDS=str(rounds))
        agent.arrived(workers)
        agent.go()
        if any(agent.complete(3600)):
            raise SystemExit(agent.report())
        line, = (line for worker in workers for line in agent.output(worker).splitlines() if line.startswith("result "))
    finally:
        agent.close()
    plain, quiet, sampled = json.loads(line[7:])
    print("| %d MB, 2 processes | step, ms: median [quartiles] |\n|---|---|" % megabytes)
    for what, times in (("plain DistributedDataParallel", plain), ("AdaptiveBatch, step that is not sampled", quiet), ("AdaptiveBatch, sampled step", sampled)):
        low, middle, high = statistics.quantiles([1000 * seconds for seconds in times], n=4)
        print("| %s | %.1f [%.1f, %.1f] |" % (what, middle, low, high))
    surplus = statistics.median(sampled) - statistics.median(quiet)
    print("a sampled step takes %.1f ms longer: %.2f ms a step with every=100" % (1000 * surplus, 1000 * surplus / 100))


if __name__ == "__main__":
    if "TEST_SCRIPT" in os.environ:
        globals()[os.environ["TEST_SCRIPT"]]()
    elif sys.argv[1] == "norms":
        norms(int(sys.argv[2]))
    elif sys.argv[1] == "cost":
        cost(*map(int, sys.argv[2:4]))
    else:
        train_all(int(sys.argv[2]), sys.argv[3:])
