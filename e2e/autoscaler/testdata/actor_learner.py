# SPDX-License-Identifier: MPL-2.0
"""A small reinforcement learning with PyTorch's rpc: a learner, and actors that it calls."""

import os
import sys
import time

import torch
from torch.distributed import rpc

members, result = sys.argv[1:]
wanted = {"learner": 1, "actor": 3}
role = os.environ["ROLE"]


def cluster() -> dict[str, list[str]]:
    """Wait until every task is registered, and return their addresses by role."""
    while True:
        found: dict[str, list[str]] = {name: [] for name in wanted}
        with open(members) as lines:
            for name, address in (line.split() for line in lines if line.strip()):
                found[name].append(address)
        if {name: len(at) for name, at in found.items()} == wanted:
            return {name: sorted(at) for name, at in found.items()}
        time.sleep(0.2)


def play(weight: torch.Tensor) -> torch.Tensor:
    """Return an actor's gradient of the distance to 3."""
    weight = weight.clone().requires_grad_()
    torch.square(weight - 3.0).backward()
    return weight.grad


spec = cluster()
everyone = spec["learner"] + spec["actor"]
rank = everyone.index(os.environ["NOMAD_ADDR_peer"])  # noqa: SIM112  # Nomad's name
options = rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://{everyone[0]}?use_libuv=0")
rpc.init_rpc(f"task{rank}", rank=rank, world_size=len(everyone), rpc_backend_options=options)
if role == "learner":
    weight = torch.zeros(())
    for _ in range(100):
        answers = [rpc.rpc_async(f"task{n}", play, args=(weight,)) for n in range(1, len(everyone))]
        weight = weight - 0.1 * torch.stack(torch.futures.wait_all(answers)).mean()
    with open(result, "w") as out:
        out.write(f"{weight.item():.2f} by {len(everyone) - 1} actors")
rpc.shutdown()
