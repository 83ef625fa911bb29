# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""A process that waits in Horovod's init, or elsewhere, and handles one request.

Usage: retired.py KEY_HEX init|elsewhere

Prints its port, then the request, and in its last line its rank in Horovod.
"""
import json
import socket
import sys
import threading
import time

import notification_service as service

service.module("horovod.common")
basics = service.module("horovod.common.basics")
basics.time = time
exec("""
class Library:
    def horovod_rank(self):
        return 0


class Basics:
    MPI_LIB_CTYPES = Library()

    def init(self):
        while True:
            time.sleep(0.01)
""", basics.__dict__)


def serve(listener):
    conn, _ = listener.accept()
    with conn:
        print(json.dumps(service.serve(conn, bytes.fromhex(sys.argv[1]), "answers")), flush=True)


with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    horovod = basics.Basics()
    try:
        if sys.argv[2] == "init":
            horovod.init()
        sys.stdin.read()
    finally:
        print("rank", horovod.MPI_LIB_CTYPES.horovod_rank(), flush=True)
