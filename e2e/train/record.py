# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""What a training script reports: one JSON line for each thing worth measuring.

  {"kolo": "start", "t": …, "pid": …}                    Python is up
  {"kolo": "ring",  "t": …, "rank": …, "size": …, …}     a ring begins to train
  {"kolo": "step",  "t": …, "step": …, "rank": …, "size": …, "pid": …,
   "epoch": …, "loss": …}                                one step is done
  {"kolo": "epoch", "t": …, "epoch": …, "unused": …, "again": …, …}
                                        an epoch is complete; samples that its
                                        weights say were not used, and uses too many (--audit)
  {"kolo": "signal", …}                                  SIGUSR1 has arrived
  {"kolo": "done",  "t": …, "step": …, "samples": …, "epoch": …, …}
                                        training is complete, as are all epochs before this

t is time.time(), which all processes of one machine share. The package train
in Go reads the lines.
"""

import json
import os
import sys
import time


class Record:
    """Writes lines to stdout and, with the indices of samples, to a file of this process."""

    def __init__(self, directory):
        self.file = None
        if directory:
            os.makedirs(directory, exist_ok=True)
            host = os.environ.get("HOROVOD_HOSTNAME") or os.environ.get("NOMAD_SHORT_ALLOC_ID", "host")
            self.file = open(os.path.join(directory, "%s-%d.jsonl" % (host, os.getpid())), "a", buffering=1)

    def write(self, what, indices=None, **fields):
        line = {"kolo": what, "t": round(time.time(), 6), "pid": os.getpid(), **fields}
        # One write per line: the streams of several ranks share a terminal.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        if self.file:
            if indices is not None:
                line["indices"] = indices
            self.file.write(json.dumps(line) + "\n")
