# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Shared by the scripts with a framework: options from the environment, and the records that tests check."""

import argparse
import json
import os
import time

parser = argparse.ArgumentParser()
parser.add_argument("--records", required=True)
directory = parser.parse_args().records
os.makedirs(directory, exist_ok=True)
file = open(os.path.join(directory, "%d" % os.getpid()), "a", buffering=1)


def option(name, default):
    """Returns an option of the test, of the type of its default."""
    return type(default)(os.environ.get("TEST_" + name, default))


def record(kind, **fields):
    file.write(json.dumps({"kolo": kind, "t": time.time(), **fields}) + "\n")
