# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""kolo.launch: scripts for torchrun where PyTorch was built without libuv."""

import importlib.machinery
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import types
import unittest
from unittest import mock

import torch.distributed as dist

from kolo import imports, launch

from .agent import ROOT

PRINTS = """
import sys, os
print(__name__, __file__, sys.argv, sys.path[0], "torch" in sys.modules)
import helper
sys.exit(helper.code)
"""

GROUP = """
import datetime, os, torch, torch.distributed as dist
server = dist.TCPStore("127.0.0.1", 0, 1, True, use_libuv=False, wait_for_workers=False)
os.environ["MASTER_PORT"] = str(server.port)
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
x = torch.ones(1)
dist.all_reduce(x)
print("sum", x.item())
dist.destroy_process_group()
"""

# Prints whether the step file exists before the first step, and after a step of each of two optimizers.
STEPS = """
file = os.environ["KOLO_STEP_FILE"]
shown = [os.path.exists(file)]
p = torch.nn.Parameter(torch.ones(1))
for optimizer in (torch.optim.SGD([p], lr=0.1), torch.optim.AdamW([p])):
    p.grad = torch.ones(1)
    shown.append(os.path.exists(file))
    optimizer.step()
print("shown", shown + [os.path.exists(file)])
"""

# Is held before it looks for the checkpoint, and no longer in init_process_group.
READY = """
import os, sys
import kolo
print("built", "torch" in sys.modules, flush=True)
kolo.ready()
print("ready", "torch._dynamo" in sys.modules, os.path.exists("checkpoint"), flush=True)
import torch, torch.distributed as dist
dist.init_process_group("gloo")
x = torch.ones(1)
dist.all_reduce(x)
print("sum", x.item())
dist.destroy_process_group()
"""


class Holding:
    """A store that answers when it is released, as an agent's does when the process has a place."""

    def __init__(self, store):
        self._store = store
        self._released = threading.Event()
        self._asked = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def wait(self):
        """Waits until a process asks."""
        assert self._asked.wait(300)

    def release(self):
        self._released.set()

    def close(self):
        self._released.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._asked.set()
            self._released.wait()
            server = socket.create_connection(("127.0.0.1", self._store.port))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass(source, target):
        try:
            for data in iter(lambda: source.recv(65536), b""):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # one of them has ended


class Launch(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = os.path.realpath(directory.name)

    def write(self, name, text):
        path = os.path.join(self.directory, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        return path

    def environment(self, **more):
        env = {name: value for name, value in os.environ.items() if not name.startswith("KOLO_")}
        return {**env, "PYTHONPATH": os.path.join(ROOT, "python"), **more}

    def run_python(self, *args, **environment):
        return subprocess.run([sys.executable, *args], env=self.environment(**environment), cwd=self.directory, capture_output=True, text=True,
                              timeout=300)

    def test_a_script_runs_as_with_python(self):
        script = self.write("scripts/train.py", PRINTS)
        self.write("scripts/helper.py", "code = 7")
        plain, launched = (self.run_python(*start, script, "-m", "--lr", "1") for start in ((), ("-m", "kolo.launch")))
        self.assertEqual((7, plain.stdout), (launched.returncode, launched.stdout), launched.stderr)
        self.assertIn("__main__", plain.stdout)
        self.assertIn("False", plain.stdout, "it imports torch itself")

    def test_a_module_runs_as_with_python(self):
        self.write("package/__init__.py", "")
        self.write("package/train.py", PRINTS.replace("import helper", "from . import helper"))
        self.write("package/helper.py", "code = 8")
        plain, launched = (self.run_python(*start, "-m", "package.train", "x") for start in ((), ("-m", "kolo.launch")))
        self.assertEqual((8, plain.stdout), (launched.returncode, launched.stdout), launched.stderr)

    def test_a_script_ends_as_with_python(self):
        ends = {
            "import sys; sys.exit('a word')": 1,
            "import sys; sys.exit(300)": 300 & 0xFF,
            "import sys; sys.exit(None)": 0,
            "raise ValueError('wrong')": 1,
            "import atexit, threading, time; atexit.register(print, 'at exit'); "
            "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start(); print('last')": 0,
        }
        for text, status in ends.items():
            script = self.write("end.py", text)
            plain, launched = (self.run_python(*start, script) for start in ((), ("-m", "kolo.launch")))
            self.assertEqual((status, plain.stdout), (launched.returncode, launched.stdout), text)
            self.assertEqual(plain.stderr.splitlines()[-1:], launched.stderr.splitlines()[-1:])

    def test_what_is_in_the_buffers_of_open_files_is_written(self):
        text = "binary = open('binary', 'wb'); text = open('text', 'w'); other = open('other', 'w+b')\n" \
               "def main():\n    binary.write(b'binary'); text.write('text'); other.write(b'other')\n" \
               "main()"
        self.assertEqual(0, self.run_python("-m", "kolo.launch", self.write("end.py", text)).returncode)
        for name in "binary", "text", "other":
            with open(os.path.join(self.directory, name)) as file:
                self.assertEqual(name, file.read())

    def test_wrong_use(self):
        for args in ((), ("-m",), ("--lr", "1")):
            result = self.run_python("-m", "kolo.launch", *args)
            self.assertEqual(1, result.returncode)
            self.assertIn("usage: python3 -m kolo.launch", result.stderr)
        missing = self.run_python("-m", "kolo.launch", "missing.py")
        self.assertIn("missing.py", missing.stderr)
        self.assertNotEqual(0, missing.returncode)

    def test_a_group_forms_with_the_store_of_an_agent(self):
        script = self.write("group.py", GROUP)
        result = self.run_python("-m", "kolo.launch", script, MASTER_ADDR="127.0.0.1", RANK="0",
                                 WORLD_SIZE="1", TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("sum 1.0", result.stdout)

    def test_the_steps_of_rank_0_show(self):
        script = self.write("group.py", GROUP.replace("dist.destroy", STEPS + "dist.destroy"))
        result = self.run_python("-m", "kolo.launch", script, MASTER_ADDR="127.0.0.1", RANK="0", WORLD_SIZE="1",
                                 KOLO_STEP_FILE=os.path.join(self.directory, "steps"),
                                 TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertIn("shown [False, False, True, True]", result.stdout)

        optimizer = types.ModuleType("optimizer")
        hooks = optimizer._global_optimizer_post_hooks = {}
        optimizer.register_optimizer_step_post_hook = lambda hook: hooks.update({len(hooks): hook})
        with mock.patch.dict(sys.modules, {"torch.optim.optimizer": optimizer}):
            for environment in ({"RANK": "1", "KOLO_STEP_FILE": "steps"}, {"RANK": "0"}, {"RANK": "1", "KOLO_STEP_FILE": "steps"}):
                with mock.patch.dict(os.environ, environment):
                    launch._show_steps()
        self.assertNotIn(launch._touch, hooks.values())
        self.assertEqual(1, len(hooks), "rank 1 remembers its imports, once though it makes another store client")

    def test_late_imports_happen_while_a_process_waits(self):
        """The first process imports modules after the group has formed. The second one, in another slot,
        imports those that are installed before its group forms.
        """
        os.makedirs(os.path.join(self.directory, "site-packages"))
        mark = "open(__name__ + '-' + str(__import__('os').getpid()), 'w').close()\n"
        self.write("site-packages/late.py", mark)
        self.write("site-packages/broken.py", mark + "import sys\nif sys.argv[1:]: sys.exit(3)\n")
        self.write("own.py", mark)
        script = self.write("group.py", GROUP.replace("dist.destroy", "import own, broken, late\n" + STEPS + "dist.destroy"))
        env = {"MASTER_ADDR": "127.0.0.1", "RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0",
               "PYTHONPATH": os.pathsep.join((os.path.join(ROOT, "python"), os.path.join(self.directory, "site-packages")))}
        result = self.run_python("-m", "kolo.launch", script, KOLO_STEP_FILE=os.path.join(self.directory, "0.step"), **env)
        self.assertEqual(0, result.returncode, result.stderr)

        store = Holding(dist.TCPStore("127.0.0.1", 0, 1, True, use_libuv=False, wait_for_workers=False))
        self.addCleanup(store.close)
        env.update(KOLO_STEP_FILE=os.path.join(self.directory, "1.step"), MASTER_PORT=str(store.port))
        with subprocess.Popen([sys.executable, "-m", "kolo.launch", self.write("ready.py", READY), "second"], env=self.environment(**env),
                              cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            store.wait()
            seen = {name: os.path.exists(os.path.join(self.directory, "%s-%d" % (name, process.pid))) for name in ("late", "broken", "own")}
            self.assertEqual({"late": True, "broken": True, "own": False}, seen)
            store.release()
            output, errors = process.communicate(timeout=300)
        self.assertEqual(0, process.returncode, errors)
        self.assertIn("sum 1.0", output)

    def test_names_of_imports_are_checked(self):
        file = os.path.join(self.directory, "0.step")
        with mock.patch.dict(os.environ, {"KOLO_STEP_FILE": file}):
            self.assertEqual([], imports._remembered())
            for text in ("", "{", '{"a": 1}', "[" * 100000, '"' + "x" * (1 << 20) + '"'):
                with self.subTest(text=text[:10]):
                    self.write("0.step.modules", text)
                    self.assertEqual([], imports._remembered())
            self.write("0.step.modules", json.dumps(["json", 7, "", "../x", "os;x", "a.b", "a..b", None]))
            self.assertEqual(["json", "a.b"], imports._remembered())

    def test_which_imports_are_remembered(self):
        """The script that -m has started is not remembered, even if it is installed, nor is any name that is
        no module. A lazy module is not loaded.
        """
        class Lazy(types.ModuleType):
            def __getattribute__(self, name):
                raise ImportError("loaded by a look at its " + name)

        def installed(name):
            module = types.ModuleType(name)
            module.__file__ = json.__file__
            return module

        main = types.ModuleType("__main__")
        main.__spec__ = importlib.machinery.ModuleSpec("train.__main__", None)
        modules = {"__main__": main, "lazy": Lazy("lazy"), "object": object(), "none": None,
                   **{name: installed(name) for name in ("train", "train.data", "trainer")}}
        file = os.path.join(self.directory, "0.step")
        with mock.patch.dict(os.environ, {"KOLO_STEP_FILE": file}), mock.patch.dict(sys.modules, modules):
            imports.remember()
            names = imports._remembered()
        self.assertEqual({"json", "trainer"}, {*modules, "json"} & set(names))

    def test_a_script_is_held_where_it_is_ready(self):
        store = Holding(dist.TCPStore("127.0.0.1", 0, 1, True, use_libuv=False, wait_for_workers=False))
        self.addCleanup(store.close)
        env = self.environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(store.port), RANK="0", WORLD_SIZE="1",
                               TORCHELASTIC_USE_AGENT_STORE="True", TORCHELASTIC_RESTART_COUNT="0")
        with subprocess.Popen([sys.executable, "-m", "kolo.launch", self.write("ready.py", READY)], env=env, cwd=self.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            self.addCleanup(process.kill)
            self.assertEqual("built False\n", process.stdout.readline())
            store.wait()
            self.assertEqual([], select.select([process.stdout], [], [], 0)[0], "it is held")
            self.write("checkpoint", "of the processes that have ended meanwhile")
            store.release()
            output, errors = process.communicate(timeout=300)
        self.assertEqual((0, "ready True True\nsum 1.0\n"), (process.returncode, output), errors)

    def test_a_script_without_an_agent_is_ready_at_once(self):
        result = self.run_python(self.write("ready.py", READY.replace("import torch, ", "sys.exit()\nimport torch, ")))
        self.assertEqual((0, "built False\nready False False\n"), (result.returncode, result.stdout), result.stderr)

    def test_only_clients_are_changed(self):
        calls = []

        class Store:
            def __init__(self, *args, **kwargs):
                calls.append((args, kwargs))

        module = types.ModuleType("rendezvous")
        module.TCPStore = Store
        launch._without_libuv(module)
        module.TCPStore(host_name="h", port=1, is_master=False)
        module.TCPStore("h", 1, 2, False)
        module.TCPStore("h", 1, 2, True)
        module.TCPStore(host_name="h", port=1, is_master=False, use_libuv=True)
        self.assertIsInstance(module.TCPStore("h", 1, 2, is_master=True), Store)
        self.assertEqual([False, False, None, True, None], [kwargs.get("use_libuv") for _, kwargs in calls])

    def test_a_torch_without_libuv_at_all(self):
        calls = []

        class Store:
            def __init__(self, host_name, port, is_master):
                calls.append(is_master)

        module = types.ModuleType("rendezvous")
        module.TCPStore = Store
        launch._without_libuv(module)
        module.TCPStore(host_name="h", port=1, is_master=False)
        self.assertEqual([False], calls)
        launch._without_libuv(types.ModuleType("rendezvous"))


if __name__ == "__main__":
    unittest.main()
