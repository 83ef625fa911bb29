# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A process waits until its agents have checked the connections of its group."""

import os
import threading
import time
import unittest
from datetime import timedelta
from unittest import mock

from kolo.torch import session
from kolo.worker import Client, Place


class Formed:
    """Stands in for a group that has formed after some time."""

    def __init__(self, seconds):
        self.group, self.error, self.abandoned = object(), None, False
        self._until = time.monotonic() + seconds

    @property
    def done(self):
        return time.monotonic() >= self._until

    def start(self):
        pass

    def listening(self):
        return ["10.0.0.1:3000"]

    def abandon(self):
        self.abandoned = True

    def finish(self):
        return self.group


def connected():
    """Returns a client whose agent does not answer, and the messages that it sends."""
    client, sent = Client.__new__(Client), []
    client._changed, client._broken, client._attested, client._end = threading.Condition(), 0, (0, 0), None
    client._send = lambda message, wait=True: sent.append(message)
    return client, sent


class Waits(unittest.TestCase):
    def form(self, client, formed):
        elastic = session.Elastic.__new__(session.Elastic)
        elastic.client, elastic._core, elastic.backend, elastic.timeout, elastic._background = client, None, "gloo", timedelta(hours=1), None
        elastic._connecting = mock.Mock(spent=False)
        with mock.patch.object(session, "Forming", lambda *_: formed), mock.patch.object(session, "FORMING", 0.05), \
                mock.patch.object(session, "ATTESTED", 0.2):
            return elastic._form(Place(generation=3, rank=0, size=2, attests=True))

    def test_a_group_that_takes_long_is_reported(self):
        client, sent = connected()
        client._attested = (3, 1)
        formed = Formed(0.3)
        self.assertIs(formed.group, self.form(client, formed))
        *forming, last = sent
        self.assertEqual({"type": "forming", "generation": 3, "round": 1, "listening": ["10.0.0.1:3000"]}, forming[0])
        self.assertEqual("formed", last["type"])

    def test_an_agent_that_never_attests_ends_the_group(self):
        client, _ = connected()
        formed = Formed(0)
        with self.assertRaisesRegex(RuntimeError, "have not compared its connections .* update all clients"):
            self.form(client, formed)
        self.assertTrue(formed.abandoned)

    def test_lazy_connections_are_refused(self):
        with mock.patch.dict(os.environ, {"TORCH_GLOO_LAZY_INIT": "1"}):
            with self.assertRaisesRegex(RuntimeError, "TORCH_GLOO_LAZY_INIT=1"):
                session.Elastic("gloo", timedelta(seconds=1))


if __name__ == "__main__":
    unittest.main()
