# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Horovod's own rendezvous server, with its elastic handler, for measurement.

Prints its port, then reads one line of JSON per ring: a list of
[host, rank, size, local_rank, local_size, cross_rank, cross_size]. Starts the
ring with it (which empties the store) and answers "ready".
"""
import json
import sys

from horovod.runner.common.util.hosts import SlotInfo
from horovod.runner.elastic.rendezvous import create_rendezvous_handler
from horovod.runner.http.http_server import RendezvousServer


class Driver:
    """Stands in for the elastic driver. No process waits for another."""

    def __init__(self):
        self.slots = {}

    def record_ready(self, host, local_rank):
        pass

    def get_slot_info(self, host, local_rank):
        return self.slots[(host, local_rank)]

    def register_worker_server(self, host, local_rank, addresses, secret_key):
        pass


def main():
    driver = Driver()
    server = RendezvousServer(0)
    print(server.start(create_rendezvous_handler(driver)), flush=True)
    for line in sys.stdin:
        slots = [SlotInfo(hostname=h, rank=r, size=s, local_rank=lr, local_size=ls,
                          cross_rank=cr, cross_size=cs)
                 for h, r, s, lr, ls, cr, cs in json.loads(line)]
        driver.slots = {(s.hostname, s.local_rank): s for s in slots}
        server.init(slots)
        print("ready", flush=True)


main()
