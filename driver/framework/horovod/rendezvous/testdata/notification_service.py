# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0
"""A notification service with Horovod's framing, for an independent check of the
Go client. It uses only the standard library.

Usage: notification_service.py KEY_HEX BEHAVIOUR...

Prints its port. Serves one connection for each behaviour, in that order, and
prints one line of JSON for each: the request, as the real unpickler reads it.
"""
import hashlib
import hmac
import json
import pickle
import socket
import struct
import sys
import types


def module(name):
    m = types.ModuleType(name)
    sys.modules[name] = m
    return m


for name in ("horovod", "horovod.runner", "horovod.runner.common",
             "horovod.runner.common.util", "horovod.runner.elastic"):
    module(name)
network = module("horovod.runner.common.util.network")
worker = module("horovod.runner.elastic.worker")


def class_of(mod, name, init=None):
    cls = type(name, (object,), {"__module__": mod.__name__, **({"__init__": init} if init else {})})
    setattr(mod, name, cls)
    return cls


def init_hosts_updated(self, timestamp, res=0):
    self.timestamp, self.res = timestamp, res


Ack = class_of(network, "AckResponse")
HostsUpdated = class_of(worker, "HostsUpdatedRequest", init_hosts_updated)


def signed(key, body):
    return hmac.new(key, body, hashlib.sha256).digest() + struct.pack("i", len(body)) + body


def exactly(conn, n):
    data = b""
    while len(data) < n:
        more = conn.recv(n - len(data))
        if not more:
            raise EOFError("%d of %d bytes" % (len(data), n))
        data += more
    return data


def serve(conn, key, behaviour):
    digest = exactly(conn, 32)
    body = exactly(conn, struct.unpack("i", exactly(conn, 4))[0])
    if not hmac.compare_digest(digest, hmac.new(key, body, hashlib.sha256).digest()):
        return {"error": "digest"}
    request = pickle.loads(body)
    seen = {"class": type(request).__module__ + "." + type(request).__name__,
            "attributes": vars(request),
            "types": {k: type(v).__name__ for k, v in vars(request).items()},
            "is_known": isinstance(request, HostsUpdated)}
    reply = signed(key, pickle.dumps(Ack(), protocol=pickle.HIGHEST_PROTOCOL))
    if behaviour == "answers":
        conn.sendall(reply)
    elif behaviour == "answers-byte-by-byte":
        for i in range(len(reply)):
            conn.sendall(reply[i:i + 1])
    elif behaviour == "signs-with-another-key":
        conn.sendall(signed(b"x" * 32, reply[36:]))
    elif behaviour == "answers-something-else":
        conn.sendall(signed(key, pickle.dumps("no")))
    elif behaviour == "answers-half":
        conn.sendall(reply[:len(reply) // 2])
    elif behaviour == "claims-a-gigabyte":
        conn.sendall(reply[:32] + struct.pack("i", 1 << 30))
    elif behaviour == "claims-less-than-nothing":
        conn.sendall(reply[:32] + struct.pack("i", -1))
    elif behaviour == "says-nothing":
        conn.recv(1)  # until the client goes away
    elif behaviour != "closes":
        raise ValueError(behaviour)
    return seen


def main():
    key = bytes.fromhex(sys.argv[1])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        for behaviour in sys.argv[2:]:
            conn, _ = listener.accept()
            with conn:
                print(json.dumps(serve(conn, key, behaviour)), flush=True)


if __name__ == "__main__":
    main()
