# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Values of a State come back from a commit, a checkpoint and another process. Data from another process never runs code."""

import collections
import enum
import os
import pathlib
import pickle
import random
import struct
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import torch

import kolo.torch as kolo
from kolo.torch.group.group import Group
from kolo.torch.state import encoding, transfer, tree
from kolo.torch.state.values import Made, Malformed

try:
    import numpy
except ImportError:
    numpy = None

SCHEDULER = torch.optim.lr_scheduler
KINDS = {
    "none": None, "true": True, "large": 2 ** 200, "negative": -(2 ** 63), "below": -(2 ** 63) - 1, "nan": float("inf"),
    "text": "\u00fc\ud800\x00", "bytes": bytes(range(256)), "complex": 1 - 2j, "nested": [(1, [2.5, {"a": None}]), ()],
    "keys": {1: "a", 2.5: "b", None: "c", (1, ("x",)): "d"}, "odd_keys": {b"x": 1, frozenset([1]): 2, torch.int8: 3},
    "marked": {"kolo:kind": "Path", "parts": "/"}, "ordered": collections.OrderedDict(b=1, a=2),
    "set": {1, (2, "x")}, "frozenset": frozenset([b"1"]), "deque": collections.deque([1, [2]], 7), "unbounded": collections.deque(),
    "counts": collections.Counter("abca"), "default": collections.defaultdict(list, a=[1]), "path": pathlib.Path("/a/b"),
    "space": types.SimpleNamespace(a=1, b=[2]), "dtype": torch.bfloat16, "device": torch.device("cpu"), "size": torch.Size([2, 3]),
}
if numpy is not None:
    KINDS.update({
        "float64": numpy.float64(1.5), "int32": numpy.int32(-3), "bool": numpy.bool_(True), "str": numpy.str_("\u00fc"),
        "date": numpy.datetime64("2026-11-24"), "array": numpy.arange(6.0).reshape(2, 3).T, "empty": numpy.zeros((0, 3), "i2"),
        "scalar": numpy.array(3, ">u2"), "texts": numpy.array(["a", "bcd"]), "halves": numpy.ones(3, "f2"),
    })


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))


def schedulers(optimizer):
    """Returns one scheduler of each class of torch."""
    make = {
        "LambdaLR": lambda: SCHEDULER.LambdaLR(optimizer, lambda epoch: 0.9 ** epoch),
        "MultiplicativeLR": lambda: SCHEDULER.MultiplicativeLR(optimizer, lambda epoch: 0.9),
        "StepLR": lambda: SCHEDULER.StepLR(optimizer, 2), "MultiStepLR": lambda: SCHEDULER.MultiStepLR(optimizer, [1, 3]),
        "ConstantLR": lambda: SCHEDULER.ConstantLR(optimizer), "LinearLR": lambda: SCHEDULER.LinearLR(optimizer),
        "ExponentialLR": lambda: SCHEDULER.ExponentialLR(optimizer, 0.9), "PolynomialLR": lambda: SCHEDULER.PolynomialLR(optimizer),
        "CosineAnnealingLR": lambda: SCHEDULER.CosineAnnealingLR(optimizer, 9), "OneCycleLR": lambda: SCHEDULER.OneCycleLR(optimizer, 1, 99),
        "CosineAnnealingWarmRestarts": lambda: SCHEDULER.CosineAnnealingWarmRestarts(optimizer, 5),
        "CyclicLR": lambda: SCHEDULER.CyclicLR(optimizer, 0.1, 1, scale_fn=lambda x: 1.0),
        "SequentialLR": lambda: SCHEDULER.SequentialLR(optimizer, [SCHEDULER.ConstantLR(optimizer), SCHEDULER.StepLR(optimizer, 2)], [2]),
        "ChainedScheduler": lambda: SCHEDULER.ChainedScheduler([SCHEDULER.ConstantLR(optimizer), SCHEDULER.StepLR(optimizer, 2)]),
        "ReduceLROnPlateau": lambda: SCHEDULER.ReduceLROnPlateau(optimizer),
        "SWALR": lambda: torch.optim.swa_utils.SWALR(optimizer, 0.1),
    }
    return {name: made() for name, made in make.items()}


class Counter:
    def __init__(self):
        self.values = collections.deque([0], 9)


class CounterHandler(kolo.Handler):
    def tree(self):
        return {"values": self.value.values}

    def load(self, tree):
        self.value.values = tree["values"]


kolo.register_handler(Counter, CounterHandler)


def whole(steps):
    """Returns a State with each kind of value and handler, after some steps of training."""
    torch.manual_seed(steps)
    random.seed(steps)
    if numpy is not None:
        numpy.random.seed(steps)
    model = network()
    objects = {}
    for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad, torch.optim.RMSprop):
        objects[kind.__name__] = kind(model.parameters(), 0.01, **({"momentum": 0.9} if kind is torch.optim.SGD else {}))
    made = schedulers(objects["SGD"])
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(steps):
        model(torch.randn(6, 4)).square().mean().backward()
        for optimizer in list(objects.values()):
            optimizer.step()
        for name, scheduler in made.items():
            scheduler.step(*([1.0] if name == "ReduceLROnPlateau" else []))
        average.update_parameters(model)
    sampler, items, counter = kolo.ElasticSampler(range(9)), kolo.ElasticIterable(range(9)), Counter()
    for progress in (sampler, items):
        progress.record(steps)
    counter.values.append(steps)
    scaler = torch.amp.GradScaler("cpu") if hasattr(torch.amp, "GradScaler") else torch.cuda.amp.GradScaler(enabled=False)
    return kolo.State(model=model, average=average, sampler=sampler, items=items, counter=counter, rng=kolo.RNG(), scaler=scaler,
                      tensor=torch.full((3,), float(steps)), step=steps, kinds=dict(KINDS, steps=steps), **objects, **made)


def equal(a, b):
    """Whether two trees are equal, with the types of all that is in them."""
    (skeleton, tensors), (other, others) = tree.split(a), tree.split(b)
    return repr(skeleton) == repr(other) and len(tensors) == len(others) and all(map(torch.equal, tensors, others))


def pipe():
    """Returns a Move that keeps what is sent, and one that delivers it."""
    sent = collections.deque()
    return sent, lambda tensor: sent.append(tensor.clone()), lambda tensor: tensor.copy_(sent.popleft())


def shared(state):
    return {name: value for name, value in state.tree().items() if name != "rng"}


class Ways(unittest.TestCase):
    """Each handler and each kind of value comes back from a commit, a checkpoint and a transfer."""

    def test_commit(self):
        state = whole(3)
        state.commit()
        saved = whole(3).tree()
        state.load(whole(5).tree())
        self.assertFalse(equal(saved, state.tree()))
        state.restore()
        self.assertTrue(equal(saved, state.tree()))
        for name, value in KINDS.items():
            self.assertIs(type(value), type(state.kinds[name]), name)
        self.assertEqual((7, [2]), (state.kinds["deque"].maxlen, state.kinds["deque"][1]))

    def test_newcomer(self):
        state, newcomer = whole(3), whole(0)
        sent, send, receive = pipe()
        transfer.send(state.tree(shared=True), send)
        newcomer.load(transfer.receive(receive))
        self.assertFalse(sent)
        self.assertTrue(equal(shared(state), shared(newcomer)))

    def test_restart(self):
        state, other = whole(3), whole(0)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "c.pt")
            kolo.save_checkpoint(state, path)
            self.assertTrue(kolo.load_checkpoint(other, path))
            self.assertTrue(equal(state.tree(), other.tree()))
            self.assertTrue(torch.equal(state.model[0].weight, torch.load(path)["model"]["0.weight"]), "open to others")

    @unittest.skipIf(numpy is None, "there is no numpy")
    def test_without_numpy(self):
        """A process without numpy reads a file from one with numpy, because a file outlives the job's image."""
        state = whole(3)
        state.kinds = {}
        with tempfile.TemporaryDirectory() as directory:
            kolo.save_checkpoint(state, os.path.join(directory, "c.pt"))
            run = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", "import sys; sys.modules['numpy'] = None; import unittest; "
                 "unittest.main('tests.test_values', argv=['x', 'Ways', 'Wire.test_random_trees'])"],
                cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                env={**os.environ, "TEST_CHECKPOINT": os.path.join(directory, "c.pt")}, text=True, timeout=600)
        self.assertEqual(0, run.returncode, run.stdout)

    @unittest.skipUnless("TEST_CHECKPOINT" in os.environ, "is run by test_without_numpy")
    def test_file_of_a_process_with_numpy(self):
        state, other = whole(3), whole(0)
        self.assertTrue(kolo.load_checkpoint(other, os.environ["TEST_CHECKPOINT"]))
        self.assertEqual({}, other.kinds)
        self.assertEqual(3, other.step)
        self.assertTrue(all(equal(value, other.tree()[name]) for name, value in state.tree().items() if name not in ("kinds", "rng")))

    def test_generators_go_on(self):
        state = kolo.State(rng=kolo.RNG())
        draw = lambda: (torch.rand(1).item(), random.random(), numpy.random.rand() if numpy is not None else 0)
        with tempfile.TemporaryDirectory() as directory:
            kolo.save_checkpoint(state, directory + "/c")
            first = draw()
            kolo.load_checkpoint(kolo.State(rng=kolo.RNG()), directory + "/c")
            self.assertEqual(first, draw())


class Color(enum.IntEnum):
    RED = 1


class Text(str):
    pass


Pair = collections.namedtuple("Pair", "a b")


class Refusals(unittest.TestCase):
    def test_when_the_state_is_made(self):
        deep = []
        for _ in range(70):
            deep = [deep]
        loop = []
        loop.append(loop)
        for value, reason in (
            (object(), "builtins.object could not be read back"), (Color.RED, "Color"), (Text("x"), "Text"), (Pair(1, 2), "Pair"),
            (lambda: 0, "function"), (torch.nn.Linear, "type"), (deep, "nested more than 64"), (loop, "nested more than 64"),
            (collections.defaultdict(lambda: 0), "defaultdict"), ({torch.ones(1): 1}, "tensors as keys"), ({torch.ones(1)}, "tensors as keys"),
            (torch.zeros(2, 2).to_sparse(), "kolo.register_handler"), (torch.empty(2, device="meta"), "kolo.register_handler"),
            *([(numpy.array([object()]), "numpy's type object"), (numpy.ma.array([1]), "MaskedArray"),
               (numpy.zeros(1, [("a", "f4")]), "numpy's type"), (numpy.random.default_rng(), "Generator")] if numpy is not None else []),
        ):
            with self.assertRaisesRegex(TypeError, r"state\.best\['a'\]\[1\].* cannot be part of the state: .*%s" % reason):
                kolo.State(step=0, best={"a": (0, value)})
            state = kolo.State(best=None)
            with self.assertRaisesRegex(TypeError, r"state\.best cannot|state\.best\["):
                state.best = value
            self.assertIsNone(state.best)

    def test_of_what_a_handler_returns(self):
        class Odd:
            def state_dict(self):
                return {"inner": [object()]}

            def load_state_dict(self, state):
                pass

        with self.assertRaisesRegex(TypeError, r"state\.odd\['inner'\]\[0\]"):
            kolo.State(odd=Odd())

    def test_at_a_commit(self):
        state = kolo.State(history=[])
        state.history.append(object())
        with self.assertRaisesRegex(TypeError, r"state\.history\[0\]"):
            state.commit()

    def test_of_what_is_too_large(self):
        with self.assertRaisesRegex(TypeError, "put long lists of numbers into tensors"):
            transfer.send(["x" * (encoding.LIMIT + 1)], self.fail)


class Attack:
    """An object whose pickle runs code when it is read."""

    ran = []

    def __reduce__(self):
        return Attack.ran.append, ("code of a stranger",)


def parcel(text):
    """Returns the messages of a peer that does not use transfer.send()."""
    sent, _, receive = pipe()
    sent.extend([torch.tensor([len(text)]), torch.frombuffer(bytearray(text), dtype=torch.uint8)])
    return receive


class Wire(unittest.TestCase):
    def test_a_pickle_is_refused(self):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            for text in (pickle.dumps(Attack(), protocol), pickle.dumps((Attack(), []), protocol)):
                with self.assertRaisesRegex(Malformed, "no tag|too early|after the end"):
                    transfer.receive(parcel(text))
        self.assertEqual([], Attack.ran)

    def test_what_is_refused_breaks_the_group_only(self):
        self.assertTrue(Group(mock.Mock(size=1), None, None, None).is_failure(Malformed("x")))

    def test_messages(self):
        good = encoding.dumps((tree.Hole(0), ["float32 cpu 2"]))
        huge = "float32 cpu " + "99999999 " * 3
        for text, reason in (
            (good + b"N", "after the end"), (good[:-1], "too early"), (encoding.dumps([]), "a skeleton"),
            *((encoding.dumps((tree.Hole(at), [what])), reason) for at, what, reason in (
                (1, "float32 cpu 0", "no tensor number 1"), (0, "float32", "describes no tensor"), (0, "os cpu 1", "no dtype"),
                (0, "load cpu 1", "no dtype"), (0, "float32 cpu -1", "describes no tensor"), (0, huge.strip(), "could have"),
                (0, "float32 meta 1", "could have"), (0, "float32 x:y 1", "a tensor on"), (0, 7, "describes no tensor"),
                (0, "float32 cpu \u0663", "describes no tensor"))),
            *((encoding.dumps((Made(kind, parts), [])), reason) for kind, parts, reason in (
                ("eval", "1", "no values of kind"), (7, "1", "no values of kind"), ("set", [[]], "cannot be made"),
                ("defaultdict", ("eval", {}), "cannot be made"), ("int", 5, "cannot be made"), ("complex", "1 + x", "cannot be made"),
                ("SimpleNamespace", {1: 2}, "cannot be made"), ("dtype", "nn", "no dtype"), ("Path", 5, "cannot be made"),
                ("ndarray", ("|O8", (1,), 5), "cannot be made|numpy"), ("scalar", ("|O8", Made("bytes", "12345678")), "numpy"),
                ("scalar", ("<f8,(2)f4", Made("bytes", "12345678")), "numpy"))),
        ):
            with self.subTest(text=text[:60]), self.assertRaisesRegex(Malformed, reason):
                transfer.receive(parcel(text))
        for length in (-1, 0, encoding.LIMIT + 1, 2 ** 62):
            with self.assertRaisesRegex(Malformed, "no message"):
                transfer.receive(lambda tensor: tensor.fill_(length))

    def test_random_trees(self):
        def make(r, depth=0):
            if depth > 5 or r.random() < 0.3:
                return r.choice([*KINDS.values(), torch.randn(r.randint(0, 3), 2), r.random(), r.getrandbits(r.randint(1, 99))])
            parts = [make(r, depth + 1) for _ in range(r.randint(0, 4))]
            keys = [r.choice([1, "a", None, 2.5, (1, "b"), b"c", 2 ** 70]) for _ in parts]
            return r.choice([parts, tuple(parts), dict(zip(keys, parts)), collections.OrderedDict(zip(keys, parts)),
                             collections.deque(parts), types.SimpleNamespace(a=parts)])

        for seed in range(300):
            tree_ = make(random.Random(seed))
            sent, send, receive = pipe()
            transfer.send(tree_, send)
            self.assertTrue(equal(tree_, transfer.receive(receive)), seed)

    def test_random_bytes(self):
        """Random data only ever raises Malformed. Most of it is a message with a few bytes changed."""
        values = [value for name, value in KINDS.items() if name != "large"]
        good = encoding.dumps((tree.split([values, whole(1).tree()])[0], ["float32 cpu 2"] * 3))
        starts = [good, encoding.dumps((tree.split(values)[0], [])), b"t\x02\0\0\0l\0\0\0\0l\0\0\0\0"]
        refused = 0
        for seed in range(3000):
            r = random.Random(seed)
            text = bytearray(r.choice(starts))[:r.choice([20, 200, None])]
            for _ in range(r.randint(1, 4)):
                at = r.randrange(len(text))
                text[at:at + r.randint(0, 4)] = r.choice([r.randbytes(2), b"\xff" * 4, r.choice(b"NTFifshltdom").to_bytes(1, "little"),
                                                          struct.pack("<I", r.getrandbits(r.randint(1, 32)))])
            try:
                skeleton = encoding.loads(bytes(text))
                tree.join(skeleton, lambda number: torch.zeros(2))
            except Malformed:
                refused += 1
        self.assertGreater(refused, 1500)

    def test_depth(self):
        for text in (b"l\x01\0\0\0" * 100000 + b"N", b"m" * 100000, b"t\x01\0\0\0" * 90 + b"N", b"d\x01\0\0\0" * 100000):
            with self.assertRaisesRegex(Malformed, "levels|early|key"):
                encoding.loads(text)


if __name__ == "__main__":
    unittest.main()
