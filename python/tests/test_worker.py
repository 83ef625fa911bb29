# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The client of the worker protocol, with an agent of a few lines."""

import json
import os
import socket
import threading
import unittest

from kolo import worker
from kolo.worker import AgentError, Client, Place


class Agent:
    """Accepts one client and answers hello with the test's message."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.answer = answer
        self.hello = None
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        self.connection, _ = self.listener.accept()
        self.lines = self.connection.makefile("rb")
        self.hello = json.loads(self.lines.readline())
        self.send(self.answer) if self.answer is not None else self.close()

    def send(self, data):
        self.connection.sendall(data if isinstance(data, bytes) else json.dumps(data).encode() + b"\n")

    def next(self):
        return json.loads(self.lines.readline())

    def close(self):
        self.lines.close()
        self.connection.close()
        self.listener.close()


class Worker(unittest.TestCase):
    def client(self, answer={"type": "welcome", "version": 1}):
        self.agent = Agent(answer)
        self.addCleanup(self.agent.close)
        client = Client("127.0.0.1:%d" % self.agent.listener.getsockname()[1], "5ec", versions={"torch": "2.6"})
        self.addCleanup(client.close)
        self.agent.thread.join()
        return client

    def test_conversation(self):
        client = self.client()
        self.assertEqual((1, "5ec", "2.6"), tuple(self.agent.hello[name] for name in ("version", "secret", "torch")))
        place = {"type": "place", "generation": 3, "rank": 1, "size": 2, "newcomers": [1], "more": {}}
        self.agent.send({"type": "later", "x": 1})
        self.agent.send(place)  # it comes before the question, so it is not the answer
        self.assertTrue(client.wait(lambda: client._place is not None, 60))
        answers = []
        thread = threading.Thread(target=lambda: answers.append(client.ready(2, "commit")))
        thread.start()
        self.assertEqual({"type": "ready", "generation": 2, "reason": "commit"}, self.agent.next())
        self.agent.send({**place, "generation": 4})
        thread.join(60)
        self.assertEqual([Place(4, 1, 2, newcomers=(1,))], answers)
        client.formed(4)
        self.assertEqual({"type": "formed", "generation": 4, "round": 1}, self.agent.next())
        client.progress(4, {"step": 2})
        self.assertEqual({"type": "progress", "generation": 4, "step": 2}, self.agent.next())
        client.progress(4, {"slow": "evaluation"})
        self.assertEqual({"type": "progress", "generation": 4, "slow": "evaluation"}, self.agent.next())

    def test_there_is_no_next_place(self):
        client = self.client()
        self.assertIs(True, self.agent.hello["ends"])
        self.agent.send({"type": "end", "generation": 3})
        with self.assertRaises(worker.Retired):
            client.ready(3, "commit")

    def test_the_batch(self):
        client = self.client()
        place = {"type": "place", "generation": 1, "rank": 0, "size": 1}
        for message, keeps in (({**place, "keep_batch": True}, True), ({"type": "batch", "keep": False}, False),
                               ({"type": "batch", "keep": True}, True), ({**place, "generation": 2}, False)):
            self.assertEqual(not keeps, client.keeps_batch)
            self.agent.send(message)
            self.assertTrue(client.wait(lambda keeps=keeps: client.keeps_batch == keeps, 60))

    def test_replicas(self):
        place = {"generation": 1, "rank": 1, "size": 4}
        self.assertEqual(1, Place.parse(place).replica)
        self.assertEqual(2, Place.parse({**place, "replica": 2}).replica)
        with self.assertRaisesRegex(AgentError, "impossible"):
            Place.parse({**place, "replica": 3})

    def test_notices(self):
        client = self.client()
        broken = []
        client.on_broken = broken.append
        self.assertFalse(client.changing(1) or client.broken(1))
        self.agent.send({"type": "change", "generation": 1})
        self.assertTrue(client.wait(lambda: client.changing(1), 60))
        self.assertFalse(client.changing(2))
        self.agent.send({"type": "broken", "generation": 2})
        self.assertTrue(client.wait(lambda: client.broken(2), 60))
        self.assertFalse(client.broken(3))
        self.agent.send({"type": "change", "generation": 0})
        self.agent.send({"type": "broken", "generation": 2})
        self.agent.close()
        self.assertTrue(client.wait(lambda: client._end is not None, 60))
        self.assertEqual([2, 2], broken)
        self.assertTrue(client.changing(1))

    def test_refusals(self):
        for answer, text in (
            ({"type": "error", "message": "wrong secret"}, "refuses this process: wrong secret"),
            ({"type": "welcome", "version": 2}, "speaks version 1 of the worker protocol: install"),
            (b"HTTP/1.1 400 Bad Request\n", "does not answer in the worker protocol"),
            (b"[]\n", "no JSON object"),
            (b"x" * 70000 + b"\n", "more than 65536 bytes"),
            (None, "without an answer"),
        ):
            with self.subTest(answer=str(answer)[:40]), self.assertRaisesRegex(AgentError, text):
                self.client(answer)

    def test_no_agent(self):
        with self.assertRaisesRegex(AgentError, "cannot connect to the agent at KOLO_WORKER_ADDR=127.0.0.1:1:"):
            Client("127.0.0.1:1", "5ec")
        with self.assertRaisesRegex(AgentError, "KOLO_WORKER_ADDR=nonsense"):
            Client("nonsense", "5ec")
        os.environ[worker.ADDR] = "127.0.0.1:1"
        self.addCleanup(os.environ.pop, worker.ADDR)
        with self.assertRaisesRegex(AgentError, "KOLO_WORKER_SECRET is not"):
            Client.from_environment()

    def test_end_while_waiting(self):
        for last, text in (
            (b"", "the agent closed the connection while"),
            ({"type": "error", "message": "bye"}, "ended the connection: bye"),
            (b"nonsense\n", "the connection with the agent failed"),
            ({"type": "place", "generation": 1, "rank": 3, "size": 2}, "an impossible place"),
            ({"type": "place", "rank": 3}, "a place that cannot be read"),
        ):
            with self.subTest(last=last):
                client = self.client()
                self.agent.send(last)
                self.agent.close()
                with self.assertRaisesRegex(AgentError, text):
                    client.ready(0, "start")

    def test_a_busy_agent_delays_no_one(self):
        client = self.client()
        for step in range(100000):  # the agent does not read
            client.progress(1, {"step": step})
        self.assertLess(len(client._pending), 200)
        steps = [self.agent.next()["step"] for _ in range(100)]
        self.assertEqual(list(range(100)), steps)


if __name__ == "__main__":
    unittest.main()
