# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Client of the worker protocol: how a training process talks to its agent.

    process                            agent
       | hello(version, secret) ------>  |
       | <------ welcome                 |
       | ready(generation left) ------>  |   waits until there is a group
       | <------ place(generation, rank) |
       | forming(generation, where) -->  |   again and again if it takes long
       | formed(generation, where) --->  |
       | <------ attested(generation)    |   only members are connected
       | progress(step, ...) --------->  |   as often as it likes
       | <------ change(generation)      |   leave at the next commit
       | <------ broken(generation)      |   a member is gone
       | <------ batch(keep)             |   whether it must not adapt its batch
       | <------ end(generation)         |   instead of a place: there is none

The connection is TCP on loopback, with one JSON object per line. The protocol's
reference is docs/reference/worker-protocol.md.
"""

from __future__ import annotations

import json
import math
import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from . import __version__

VERSION = 1
MAX_LINE = 64 * 1024
_HANDLERS = 1.0  # longest wait in seconds; a signal that came just before it is handled after it

ADDR = "KOLO_WORKER_ADDR"
SECRET = "KOLO_WORKER_SECRET"


class AgentError(RuntimeError):
    """The agent refuses this process, or is gone."""


class Retired(Exception):
    """The agent has no next place for this process, which must end."""


@dataclass(frozen=True)
class Place:
    """The place of one process in one group."""

    generation: int
    rank: int
    size: int
    local_rank: int = 0
    local_size: int = 1
    cross_rank: int = 0
    cross_size: int = 1
    newcomers: Tuple[int, ...] = ()
    replica: int = 1  # members with consecutive ranks that share one copy of a sharded model
    attests: bool = False  # the agents check the connections of a group before it may be used

    @classmethod
    def parse(cls, message: Mapping[str, Any]) -> "Place":
        """Reads a place message. Raises AgentError if it is malformed or contradicts itself."""
        try:
            place = cls(
                generation=int(message["generation"]),
                rank=int(message["rank"]),
                size=int(message["size"]),
                local_rank=int(message.get("local_rank", 0)),
                local_size=int(message.get("local_size", 1)),
                cross_rank=int(message.get("cross_rank", 0)),
                cross_size=int(message.get("cross_size", 1)),
                newcomers=tuple(int(rank) for rank in message.get("newcomers") or ()),
                replica=int(message.get("replica") or 1),
                attests=bool(message.get("attests")),
            )
        except (KeyError, TypeError, ValueError) as err:
            raise AgentError("the agent sent a place that cannot be read: %r (%s)" % (message, err)) from err
        if place.generation < 1 or not 0 <= place.rank < place.size or place.replica < 1 or place.size % place.replica:
            raise AgentError("the agent sent an impossible place: %r" % (message,))
        return place


class Client:
    """The connection of this process to its agent.

    A separate thread reads the messages. It calls `on_broken` when the current
    group has lost a member. `on_broken` can then end a collective in which the main
    thread waits.
    """

    def __init__(self, addr: str, secret: str, client: str = "kolo-python " + __version__,
                 versions: Optional[Mapping[str, str]] = None) -> None:
        self.on_broken: Optional[Callable[[int], None]] = None
        self.keeps_batch = False  # the job must not adapt its batch
        self._changed = threading.Condition()
        self._place: Optional[Place] = None
        self._change = 0  # the highest generation that is to change
        self._broken = 0  # the highest generation that has lost a member
        self._attested = (0, 0)  # the highest generation, and its round, to which only members are connected
        self._retired = -1  # the generation after which this process gets no place
        self._end: Optional[str] = None  # why the connection ended
        self._write = threading.Lock()
        self._pending = b""  # bytes that are not sent yet

        host, _, port = addr.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=30)
        except (OSError, ValueError) as err:
            raise AgentError("cannot connect to the agent at %s=%s: %s" % (ADDR, addr, err)) from err
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lines = self._socket.makefile("rb")
        try:
            self._send({"type": "hello", "version": VERSION, "secret": secret, "client": client, "ends": True, **(versions or {})})
            self._greet()
        except BaseException:
            self.close()
            raise
        self._socket.settimeout(None)
        threading.Thread(target=self._read, name="kolo-worker", daemon=True).start()

    @classmethod
    def from_environment(cls, **arguments: Any) -> "Client":
        """Connects to the agent that the environment names."""
        secret = os.environ.get(SECRET)
        if not secret:
            raise AgentError("%s is set, but %s is not: start the script with Kolo's driver" % (ADDR, SECRET))
        return cls(os.environ[ADDR], secret, **arguments)

    def ready(self, generation: int, reason: str) -> Place:
        """Asks for a place in the next group and waits for it, without limit.

        generation is the number of the group that this process has left, or 0 the first
        time. Raises Retired if this process gets no place, and AgentError if the
        connection ends.
        """
        with self._changed:
            self._place = None
        self._send({"type": "ready", "generation": generation, "reason": reason})

        def placed() -> bool:
            return self._place is not None and self._place.generation > generation

        self.wait(lambda: placed() or self._retired >= generation or self.ended())
        with self._changed:
            if self._place is not None and placed():
                return self._place
            if self._retired >= generation:
                raise Retired("the agent has no place for this process in the next group, so it must end")
            raise AgentError("%s while this process waited for a place; without an agent it has none" % self._end)

    def forming(self, generation: int, round_: int, listening: Sequence[str]) -> None:
        """Reports where this process listens for the members of a group that has not formed yet."""
        self._send({"type": "forming", "generation": generation, "round": round_, "listening": list(listening)})

    def formed(self, generation: int, round_: int = 1, listening: Optional[Sequence[str]] = None) -> None:
        """Reports that a process group is connected.

        Rounds count the groups of one generation. listening is the list of addresses at
        which this process listens for members; None if they are unknown.
        """
        message: Dict[str, Any] = {"type": "formed", "generation": generation, "round": round_}
        if listening is not None:
            message["listening"] = list(listening)
        self._send(message)

    def attested(self, generation: int, round_: int) -> bool:
        """Whether the agents have found that only members are connected to a group."""
        return self._attested >= (generation, round_)

    def progress(self, generation: int, fields: Mapping[str, Any]) -> None:
        """Reports progress. Does not wait: a report is dropped while the agent is too busy to read, unless it states that a step is slow."""
        self._send({"type": "progress", "generation": generation, **fields}, wait="slow" in fields)

    def changing(self, generation: int) -> bool:
        """Whether the agent wants the group to change."""
        return self._change >= generation

    def broken(self, generation: int) -> bool:
        """Whether the group has lost a member."""
        return self._broken >= generation

    def ended(self) -> bool:
        """Whether the connection has ended: the agent is gone, or refuses this process."""
        return self._end is not None

    def wait(self, condition: Callable[[], bool], timeout: Optional[float] = None) -> bool:
        """Waits until condition is true. It is evaluated after each message and each wake()."""
        with self._changed:
            end = math.inf if timeout is None else time.monotonic() + timeout
            while not self._changed.wait_for(condition, max(0.0, min(_HANDLERS, end - time.monotonic()))):
                if time.monotonic() >= end:
                    return False
            return True

    def wake(self) -> None:
        """Makes wait() evaluate its condition again."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Ends the connection."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._lines.close()
        self._socket.close()

    def _greet(self) -> None:
        """Waits for the answer to hello."""
        try:
            message = self._next()
        except (OSError, ValueError) as err:
            raise AgentError("the agent does not answer in the worker protocol: %s" % err) from err
        if message is None:
            raise AgentError("the agent closed the connection without an answer: is this process one of the task?")
        if message.get("type") == "error":
            raise AgentError("the agent refuses this process: %s" % message.get("message"))
        if message.get("type") != "welcome" or message.get("version") != VERSION:
            raise AgentError(
                "the agent answers %r; this package (kolo %s) speaks version %d of the worker protocol: "
                "install the package that belongs to the driver" % (message, __version__, VERSION))

    def _next(self) -> Optional[Dict[str, Any]]:
        """Returns the next message, or None at the end of the connection."""
        line = self._lines.readline(MAX_LINE + 1)
        if not line:
            return None
        if len(line) > MAX_LINE:
            raise ValueError("a line of more than %d bytes" % MAX_LINE)
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("a line that is no JSON object")
        return message

    def _read(self) -> None:
        """Reads messages until the connection ends."""
        end = "the agent closed the connection"
        try:
            while True:
                message = self._next()
                if message is None:
                    break
                if message.get("type") == "error":
                    end = "the agent ended the connection: %s" % message.get("message")
                self._receive(message)
        except (OSError, ValueError, TypeError, AgentError) as err:
            end = "the connection with the agent failed: %s" % err
        with self._changed:
            self._end = end
            self._changed.notify_all()

    def _receive(self, message: Mapping[str, Any]) -> None:
        kind = message.get("type")
        broken = 0
        with self._changed:
            if kind == "place":
                self._place = Place.parse(message)
                self.keeps_batch = bool(message.get("keep_batch"))
            elif kind == "batch":
                self.keeps_batch = bool(message.get("keep"))
            elif kind == "change":
                self._change = max(self._change, int(message.get("generation", 0)))
            elif kind == "attested":
                self._attested = max(self._attested, (int(message.get("generation", 0)), int(message.get("round", 1))))
            elif kind == "end":
                self._retired = max(self._retired, int(message.get("generation", 0)))
            elif kind == "broken":
                broken = int(message.get("generation", 0))
                self._broken = max(self._broken, broken)
            self._changed.notify_all()
        if broken and self.on_broken:
            self.on_broken(broken)

    def _send(self, message: Mapping[str, Any], wait: bool = True) -> None:
        line = json.dumps(message).encode() + b"\n"
        with self._write:
            if not wait and self._pending:
                self._flush(wait)
                if self._pending:
                    return
            self._pending += line
            self._flush(wait)

    def _flush(self, wait: bool) -> None:
        """Sends the pending bytes. Ignores the end of the connection, because _read reports it."""
        while self._pending:
            try:
                sent = self._socket.send(self._pending, 0 if wait else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError:
                self._pending = b""
                return
            self._pending = self._pending[sent:]
