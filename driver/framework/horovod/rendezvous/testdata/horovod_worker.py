# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""The notification side of a real Horovod process, without training.

Usage: horovod_worker.py RENDEZVOUS_PORT

Registers with the rendezvous endpoint as hvd.elastic.run does, then prints
every notice it gets as a line of JSON until its input ends.
"""
import json
import sys

from horovod.runner.elastic.worker import WorkerNotificationManager


class Listener:
    def on_hosts_updated(self, timestamp, update_res):
        print(json.dumps({"timestamp": timestamp, "res": int(update_res)}), flush=True)


manager = WorkerNotificationManager()
manager.register_listener(Listener())
manager.init("127.0.0.1", int(sys.argv[1]), None, "host", 0)
sys.stdin.read()
