# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""A stand-in for Kolo's agent: starts workers, forms groups of them, serves their store.

It knows one rule: when all living members of the present group are ready, the next
group consists of all workers that are ready and not to leave. If a group has lost a
member and another one hangs in it, the latter is started again; see hangs.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import torch.distributed as dist

from .hangs import Watch
from .launch import Forked

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCRIPT = os.path.join(ROOT, "e2e", "train", "torch_train.py")
PATIENCE = 300  # seconds; on a busy machine processes take a minute to come up


class AllHang(AssertionError):
    """All members that hold the state hang in gloo, so the state is lost and the test cannot go on."""


class Worker:
    """One training process, as the agent sees it."""

    def __init__(self, name):
        self.name = name
        self.command = self.environment = None
        self.secret = None
        self.process = None
        self.connection = None
        self.ready = False  # waits for a place
        self.synced = False  # has been in a group that has formed
        self.keeps = False  # and held the state when its group formed
        self.formed = 0
        self.leaving = False
        self.progress = []
        self.forming = []
        self.reasons = []
        self.killed = False
        self.retired = False  # was told that it has no next place
        self.held = True  # not to be in a group yet
        self.watch = None  # since its group has lost a member

    def send(self, **message):
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            pass  # it has ended

    def lives(self):
        return not self.killed and self.process.poll() is None


class Agent:
    """Runs workers with a script. All attributes are guarded by lock."""

    def __init__(self, *arguments, script=SCRIPT, version=1, fork=True, replica=1):
        self.arguments = arguments
        self.fork = fork
        self.replica = replica  # members of a replica; see _whole
        self.script = script
        self.version = version
        self.directory = tempfile.TemporaryDirectory(prefix="kolo-test-")
        self.records = os.path.join(self.directory.name, "records")
        self.lock = threading.RLock()
        self.workers = []
        self.members = []
        self.generation = 0
        self.hung = 0  # workers that were started again
        self.lost = False  # all that hold the state hang
        self.on_formed = None  # called with (worker, message); whether the group is attested
        self.on_place = None  # called with (worker, is newcomer) before its place is sent
        self.log = []  # (time, text)
        self.threads = []
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, use_libuv=False)
        self.ended = False
        for target in (self._accept, self._watch):
            self._run(target)

    # What a test does.

    def start(self, count, script=None, **environment):
        """Starts workers; they wait for a place when they have come up."""
        return [self._start(script or self.script, environment) for _ in range(count)]

    def arrived(self, workers, timeout=PATIENCE):
        """Waits until workers are ready."""

        def ready():
            for worker in workers:
                if not worker.ready and worker.process.poll() is not None:
                    raise AssertionError("%s ended with %d before it was ready\n%s" % (worker.name, worker.process.returncode, self.report()))
            return all(worker.ready for worker in workers)

        self.until(ready, timeout, "workers are ready")

    def go(self, *workers):
        """Forms a group of all workers that are ready, or only of these, in place of the present one. Returns the time."""
        with self.lock:
            for worker in workers or self.workers:
                worker.held = False
            self._change()
            self._form()
            return time.time()

    def up(self, count, script=None, **environment):
        """Starts workers that join later, and waits until they are up, which may take long. Training goes on meanwhile."""
        workers = self.start(count, script, **environment)
        self.arrived(workers)
        return workers

    def grow(self, count, **environment):
        """Starts workers, waits until they are up, and takes them in."""
        workers = self.up(count, **environment)
        self.go(*workers)
        return workers

    def shrink(self, workers):
        """Lets workers leave at the next commit."""
        with self.lock:
            for worker in workers:
                worker.leaving = True
            self._change()

    def kill(self, worker):
        with self.lock:
            worker.killed = True
            worker.process.kill()
            return time.time()

    def next_step(self, after):
        """Waits for the first step of a group that was formed after a time, and returns the time of the step."""
        self.until(lambda: any(e["kolo"] == "ring" and e["t"] > after for e in self.entries()), what="a new group")
        ring = next(e for e in self.entries() if e["kolo"] == "ring" and e["t"] > after)
        steps = lambda: [e["t"] for e in self.entries() if e["kolo"] == "step" and e["generation"] >= ring["generation"]]
        self.until(steps, what="a step of the new group")
        return steps()[0]

    def until(self, condition, timeout=PATIENCE, what="it"):
        deadline = time.monotonic() + timeout
        while not condition():
            if self.lost:
                raise AllHang(self.report())
            if time.monotonic() > deadline:
                raise AssertionError("not within %d s: %s\n%s" % (timeout, what, self.report()))
            time.sleep(0.01)

    def formed(self, size, timeout=PATIENCE):
        """Waits until a group of this size has formed."""
        self.until(lambda: len(self.members) == size and all(m.formed == self.generation for m in self.members),
                   timeout, "a group of %d" % size)

    def stepped(self, more=5, timeout=PATIENCE):
        """Waits until the present group has done more steps."""
        begin = self.step()
        self.until(lambda: self.step() >= begin + more, timeout, "%d more steps" % more)

    def step(self):
        with self.lock:
            steps = [message.get("step", 0) for worker in self.workers for message in worker.progress]
            return max(steps, default=0)

    def complete(self, timeout=PATIENCE):
        """Waits until all workers have ended; returns their exit codes."""
        self.until(lambda: all(worker.process.poll() is not None for worker in self.workers), timeout, "all end")
        return [worker.process.returncode for worker in self.workers]

    def close(self):
        """Ends the workers, and closes all files. A process that runs out of descriptors is aborted by gloo."""
        with self.lock:
            self.ended = True
        self.listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts, which closing does not
        for worker in self.workers:
            worker.process.kill()
            worker.process.wait()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it has ended
        for thread in self.threads:
            thread.join()
        self.listener.close()
        for worker in self.workers:
            if self.fork:
                worker.process.close()
        self.store = None  # its server ends
        self.directory.cleanup()

    def report(self):
        lines = ["%.3f %s" % entry for entry in self.log]
        for worker in self.workers:
            lines.append("--- %s: exit %s" % (worker.name, worker.process.poll()))
            lines.extend(line for line in self.output(worker).splitlines()[-30:] if '"step"' not in line)
        return "\n".join(lines)

    def output(self, worker):
        try:
            with open(self._output(worker), errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def entries(self):
        """All records of all workers, by time."""
        entries = []
        if os.path.isdir(self.records):
            for name in os.listdir(self.records):
                with open(os.path.join(self.records, name)) as file:
                    entries.extend(json.loads(line) for line in file if line.endswith("\n"))
        return sorted(entries, key=lambda entry: entry["t"])

    def digests(self):
        """Returns, by step, the digests of the full state that scripts.sharded prints at the start of each group and at the end."""
        digests = {}
        for worker in self.workers:
            for line in self.output(worker).splitlines():
                if line.startswith(("begin", "end")):
                    _, _, step, digest, total = line.split()
                    digests.setdefault(int(step), set()).add((digest, float(total)))
        return digests

    # What an agent does.

    def _output(self, worker):
        return os.path.join(self.directory.name, worker.name + ".log")

    def _start(self, script, environment):
        with self.lock:
            worker = Worker("worker%d" % len(self.workers))
            env = {
                **os.environ, "PYTHONPATH": os.path.join(ROOT, "python"), "OMP_NUM_THREADS": "1",
                "KOLO_WORKER_ADDR": "127.0.0.1:%d" % self.listener.getsockname()[1],
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.store.port), **environment}
            worker.command, worker.environment = [script, *self.arguments, "--records", self.records], env
            self._launch(worker)
            self.workers.append(worker)
            return worker

    def _launch(self, worker):
        """Starts the process of a worker."""
        worker.secret = uuid.uuid4().hex
        environment = {**worker.environment, "KOLO_WORKER_SECRET": worker.secret}
        if self.fork:
            worker.process = Forked(worker.command, environment, self._output(worker))
            return
        with open(self._output(worker), "ab") as output:
            worker.process = subprocess.Popen(
                [sys.executable, *worker.command], env=environment, stdout=output, stderr=subprocess.STDOUT)

    def _run(self, target, *arguments):
        """Starts a thread, which ends when the agent does."""
        self.threads.append(threading.Thread(target=target, args=arguments, daemon=True))
        self.threads[-1].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self._run(self._serve, connection)

    def _serve(self, connection):
        try:
            with connection, connection.makefile("rb") as lines:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                hello = json.loads(lines.readline())
                with self.lock:  # a process may be faster than the code that has started it
                    worker = next((w for w in self.workers if w.secret == hello.get("secret")), None)
                if worker is None or hello.get("version") != self.version:
                    reason = "wrong secret" if worker is None else "this agent speaks version %d" % self.version
                    connection.sendall(json.dumps({"type": "error", "message": reason}).encode() + b"\n")
                    return
                worker.connection = connection
                worker.send(type="welcome", version=self.version, unknown="is ignored")
                worker.send(type="unknown")
                for line in lines:
                    self._receive(worker, json.loads(line))
        except (OSError, ValueError):
            pass

    def _receive(self, worker, message):
        with self.lock:
            if message["type"] == "ready":
                self._note("%s ready, left %d (%s)" % (worker.name, message["generation"], message.get("reason")))
                worker.ready = True
                worker.watch = None
                worker.reasons.append(message.get("reason"))
                self._form()
            elif message["type"] == "forming":
                worker.forming.append(message)
            elif message["type"] == "formed":
                self._note("%s formed %d" % (worker.name, message["generation"]))
                worker.formed = message["generation"]
                if self.on_formed and not self.on_formed(worker, message):
                    return
                worker.synced = True
                worker.send(type="attested", generation=message["generation"], round=message["round"])
            elif message["type"] == "progress":
                worker.progress.append(message)

    def _watch(self):
        """Notices workers that end or hang."""
        seen = set()
        while not self.ended:
            time.sleep(0.005)
            with self.lock:
                if self.ended:
                    return
                for worker in self.workers:
                    if worker not in seen and worker.process.poll() is not None:
                        seen.add(worker)
                        self._end(worker)
                self._restart()

    def _end(self, worker):
        self._note("%s ended: %d" % (worker.name, worker.process.returncode))
        worker.ready = False
        if worker in self.members and worker.process.returncode != 0:
            self.break_()
        self._form()

    def break_(self):
        """Informs the members that their group has lost one."""
        with self.lock:
            for member in self.members:
                member.send(type="broken", generation=self.generation)
                member.watch = Watch(member.process.pid)

    def _restart(self):
        """Restarts members that hang in a group that has lost one, once a process outside of that group holds the state."""
        alive = [member for member in self.members if member.lives()]
        hanging = [member for member in alive if member.watch and not member.ready and member.watch.hangs()]
        holders = [member for member in alive if member.keeps and member not in hanging]
        self.lost = self.lost or bool(hanging) and not holders
        if not any(member.ready for member in holders):
            return
        for member in hanging:
            self._note("%s hangs in %d" % (member.name, self.generation))
            self.hung += 1
            member.watch, member.synced = None, False
            member.process.kill()
            member.process.wait()
            self._launch(member)

    def _change(self):
        if self.members:
            self._note("change %d" % self.generation)
            self.members[0].send(type="change", generation=self.generation)

    def _form(self):
        """Forms the next group if all living members of the present one are ready."""
        alive = [member for member in self.members if member.lives()]
        if not all(member.ready for member in alive):
            return
        if any(member.process.poll() == 0 for member in self.members):
            return  # training is complete
        for worker in [worker for worker in self.workers if worker.ready and worker.leaving]:
            worker.ready = False
            worker.killed = worker.retired = True
            worker.send(type="end", generation=self.generation)
        newcomers = [w for w in self.workers if w.ready and not w.held and w.lives() and w not in self.members]
        members = self._whole([m for m in self.members if m.ready and m.lives()] + newcomers)
        if not members:
            return
        if self.replica == 1:
            members.sort(key=lambda member: not member.synced)  # a member that was restarted does not have the state
        self.generation += 1
        self.members = members
        self._note("group %d: %s" % (self.generation, " ".join(m.name for m in members)))
        lacking = [rank for rank, member in enumerate(members) if not member.synced]
        for rank, member in enumerate(members):
            member.ready, member.watch = False, None
            member.keeps = rank not in lacking or len(lacking) == len(members)
            if self.on_place:
                self.on_place(member, rank in lacking)
            member.send(type="place", generation=self.generation, rank=rank, size=len(members), local_rank=rank,
                        local_size=len(members), cross_rank=0, cross_size=1, newcomers=lacking, replica=self.replica, attests=len(members) > 1)

    def _whole(self, members):
        """Returns members that form whole replicas. Replicas of the present group stay as they are."""
        old = [self.members[n:n + self.replica] for n in range(0, len(self.members), self.replica)]
        kept = [member for replica in old if all(member in members and member.synced for member in replica) for member in replica]
        more = [member for member in members if member not in kept]
        if self.replica > 1 and kept:
            for member in more:
                member.synced = False  # its part may be another now
        return kept + more[:len(more) - len(more) % self.replica]

    def _note(self, text):
        self.log.append((time.time(), text))
