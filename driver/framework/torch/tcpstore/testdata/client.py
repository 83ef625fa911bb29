# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Uses a store through PyTorch's own client, and reports answers that differ from those of PyTorch's own server."""

import sys
import threading
import time
from datetime import timedelta

import torch.distributed as dist

port, libuv = int(sys.argv[1]), sys.argv[2] == "1"


def connect():
    return dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=30), use_libuv=libuv)


def fails(what, *kinds):
    began = time.monotonic()
    try:
        what()
    except kinds or Exception as e:
        return time.monotonic() - began
    raise AssertionError("no error")


def basics(s):
    s.set("key", "value")
    assert s.get("key") == b"value"
    s.set("empty", "")
    assert s.get("empty") == b""
    s.set("binary", b"\x00\xff\n".decode("latin-1"))
    s.set("big", "x" * (4 << 20))
    assert len(s.get("big")) == 4 << 20
    assert s.add("n", 3) == 3 and s.add("n", -5) == -2 and s.get("n") == b"-2"
    assert s.compare_set("cas", "", "first") == b"first"
    assert s.compare_set("cas", "other", "second") == b"first"
    assert s.compare_set("cas", "first", "second") == b"second"
    assert s.compare_set("nothing", "expected", "new") == b"expected"
    assert s.check(["key", "n"]) and not s.check(["key", "missing"])
    before = s.num_keys()
    assert s.delete_key("cas") and not s.delete_key("cas")
    assert s.num_keys() == before - 1
    s.append("log", "a")
    s.append("log", "b")
    assert s.get("log") == b"ab"
    s.multi_set(["m1", "m2"], ["one", "two"])
    assert s.multi_get(["m1", "m2"]) == [b"one", b"two"]
    assert s.has_extended_api()


def waits(s):
    took = fails(lambda: s.wait(["never"], timedelta(milliseconds=300)))
    assert 0.2 < took < 10, took
    s.set_timeout(timedelta(milliseconds=300))
    fails(lambda: s.get("never"))
    s.set_timeout(timedelta(seconds=30))
    assert s.get("key") == b"value"  # the connection is still in step
    setter = threading.Timer(0.2, lambda: connect().set("later", "now"))
    setter.start()
    s.wait(["key", "later"])
    assert s.get("later") == b"now"
    setter.join()


def prefixes(s):
    p = dist.PrefixStore("outer", dist.PrefixStore("inner", s))
    p.set("k", "v")
    assert p.get("k") == b"v" and p.add("c", 2) == 2 and p.check(["k"]) and not s.check(["k"])
    fails(lambda: p.wait(["never"], timedelta(milliseconds=100)))


def queues(s):
    if not hasattr(s, "queue_push") or not libuv:
        return
    s.queue_push("q", "1")
    s.queue_push("q", "2")
    assert s.queue_len("q") == 2 and s.queue_pop("q") == b"1" and s.queue_pop("q") == b"2"
    fails(lambda: s.queue_pop("q", block=False))
    pusher = threading.Timer(0.2, lambda: connect().queue_push("q", "3"))
    pusher.start()
    assert s.queue_pop("q") == b"3"
    pusher.join()


def newest(s):
    if hasattr(s, "list_keys"):
        assert "key" in s.list_keys()
    if hasattr(s, "clone"):
        assert s.clone().get("key") == b"value"


try:
    store = connect()
except RuntimeError as e:
    if "without libuv" not in str(e):
        raise
    print("no libuv")
    sys.exit(0)
for test in basics, waits, prefixes, queues, newest:
    test(store)
store.set("done", "yes")
print("ok", flush=True)
