# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A training whose processes have something to finish when they leave: buffered lines, uploads in a thread,
an exit handler. It trains until the file "stop" is in the directory that is its argument. Each process
records into its own directory there. With HANG, a process that leaves does not end.
"""

import atexit
import os
import sys
import threading
import time

import torch

RECORDS = sys.argv[1]
OWN = os.path.join(RECORDS, str(os.getpid()))
STOP = os.path.join(RECORDS, "stop")


def note(name, *values):
    with open(os.path.join(OWN, name), "a") as file:
        print("%.6f" % time.time(), *values, file=file)


def upload():
    for number in range(5):
        time.sleep(0.2)
        note("uploads", number)


os.makedirs(OWN)
lines = open(os.path.join(OWN, "lines"), "w", buffering=1 << 20)
for number in range(27):
    lines.write("line %d\n" % number)
atexit.register(note, "atexit")

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

if os.environ.get("KOLO_WORKER_ADDR"):
    import kolo.torch as library

    elastic, wrap = library.elastic, library.wrap
    state = library.State(model=model, optimizer=optimizer, step=0)
else:
    import horovod.torch as library

    library.init()
    elastic = library.elastic.run
    optimizer = library.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    state = library.elastic.TorchState(model=model, optimizer=optimizer, step=0)

    def wrap(model):
        return model


@elastic
def train(state):
    net = wrap(model)
    while not os.path.exists(STOP):
        time.sleep(0.02)
        optimizer.zero_grad()
        net(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        state.step += 1
        note("steps", state.step, library.rank(), library.size())
        state.commit()


try:
    train(state)
finally:
    note("finally", library.rank())
    threading.Thread(target=upload).start()
    if os.environ.get("HANG") and not os.path.exists(STOP):
        time.sleep(3600)
