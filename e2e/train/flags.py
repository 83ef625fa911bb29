# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The flags of the training scripts.

Each rank takes --batch samples a step. The default is a multiple of 12, and
--samples should be one, too. Then the rest of an epoch always divides among 1,
2, 3 or 4 ranks, so elastic samplers repeat no samples, and a test can check
that each sample was used exactly once.

With --global-batch, a step takes that many samples of all ranks together. So
with more ranks, a step is shorter, not larger, because the ranks share its
--sample-time. A multiple of 60 divides among 1 to 6 ranks.
"""

import argparse
import contextlib
import os
import time


def parse(description, **more):
    """Reads flags. The default of each comes from TRAIN_<NAME> if that is set. A script may add flags with their defaults."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])

    def option(name, default, help):
        env = os.environ.get("TRAIN_" + name.upper().replace("-", "_"))
        kind = type(default)
        parser.add_argument("--" + name, type=kind, default=default if env is None else kind(env), help=help)

    option("epochs", 2, "passes over the data")
    option("samples", 2400, "samples in the data set")
    option("batch", 12, "samples per rank and step")
    option("global-batch", 0, "samples per step of all ranks, in place of --batch")
    option("step-time", 0.05, "seconds a step takes at least")
    option("sample-time", 0.0, "seconds that each sample of a rank adds to --step-time")
    option("commit-every", 1, "steps between commits (0: never)")
    option("import-time", 0.0, "extra seconds of start-up, as a slow import takes")
    option("import-time-file", "", "file that holds the extra seconds, if it exists: later processes may differ")
    option("stop-file", "", "file that ends training with the epoch in which it appears")
    option("records", "", "directory for one file per process of what it trained on")
    option("checkpoint", "", "file to start from and to write at each epoch's end")
    option("checkpoint-every", 0, "steps between checkpoints within an epoch (0: none)")
    option("ballast", 0, "megabytes of trained parameters that make the state larger")
    option("frozen", 0, "megabytes of parameters that are not trained, but are part of the state")
    option("audit", 0, "1: count in the model's weights how often each sample is used")
    option("fault", "", "import, exit, raise, hang, kill, evaluate, slow (each step from --fault-step on), init (init_process_group by the script; PyTorch) or not-elastic")
    option("fault-step", 0, "step after which exit, raise, hang, kill or evaluate happen, before its commit")
    option("fault-rank", -1, "rank that they happen to (-1: all)")
    option("fault-once", "", "file that marks that the fault has happened and will not again")
    option("fault-end", "", "file that ends evaluate and slow when it is there")
    option("slow-time", 0.15, "seconds that the fault slow adds to a step")
    option("exit-code", 3, "status for the fault exit")
    for name, default in more.items():
        option(name, default, "of this script")
    return parser.parse_args()


def start_slowly(args):
    """Takes as long as a slow import, or fails like one."""
    if os.path.exists(args.import_time_file):
        with open(args.import_time_file) as f:
            args.import_time = float(f.read())
    time.sleep(args.import_time)
    if args.fault == "import":
        raise ImportError("--fault=import asks for a failing import")


def rank_batch(args, size):
    """Returns the samples of one rank in one step of a ring of this size."""
    return args.global_batch // size if args.global_batch else args.batch


class Pace:
    """Gives each step its length. The length includes the script's own work between steps, such as reading a
    batch, but not the time in excluded().
    """

    def __init__(self, args):
        self._args = args
        self._begun = time.monotonic()

    def end_step(self, samples):
        """Sleeps for the rest of a step with so many samples."""
        rest = self._begun + self._args.step_time + self._args.sample_time * samples - time.monotonic()
        if rest > 0:
            time.sleep(rest)
        self._begun = time.monotonic()

    @contextlib.contextmanager
    def excluded(self):
        """Makes steps longer by the time that the block takes."""
        before = time.monotonic()
        try:
            yield
        finally:
            self._begun += time.monotonic() - before
