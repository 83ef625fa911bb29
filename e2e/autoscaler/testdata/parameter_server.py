# SPDX-License-Identifier: MPL-2.0
"""A training with TensorFlow's ParameterServerStrategy: a chief, workers and servers."""

import json
import os
import sys
import time

members = sys.argv[1]  # the file that Nomad's template writes, a line "role address" each
result = sys.argv[2]
wanted = {"chief": 1, "worker": 2, "ps": 1}
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


spec = cluster()
task = {"type": role, "index": spec[role].index(os.environ["NOMAD_ADDR_peer"])}  # noqa: SIM112  # Nomad's name
os.environ["TF_CONFIG"] = json.dumps({"cluster": spec, "task": task})
os.environ["GRPC_FAIL_FAST"] = "use_caller"

import tensorflow as tf  # noqa: E402  # reads the environment

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if role != "chief":
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=role, task_index=resolver.task_id, protocol="grpc", start=True)
    server.join()

strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(0.0)


@tf.function
def step() -> None:
    """Make one step of gradient descent towards 3."""
    with tf.GradientTape() as tape:
        error = tf.square(weight - 3.0)
    weight.assign_sub(0.1 * tape.gradient(error, weight))


for _ in range(200):
    coordinator.schedule(step)
coordinator.join()
with open(result, "w") as out:
    out.write(f"{weight.numpy():.2f} on {weight.device}")
