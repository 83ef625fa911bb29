# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Runs an unchanged elastic script, and changes its ring at chosen commits.

    changes.py --framework=torch --changes='[{"epoch": 1, "at": "last", "size": 2}]' train.py

The script runs under Kolo's launcher, which reads the list of hosts from a
file. At a commit for which a change is planned, rank 0 rewrites that file, and
the commit lasts until an agent has announced the change. So the ring
changes at exactly that commit. A change is planned for the commit after the
first batch of an epoch, after the batch that completes half of the samples, or
after the last batch. "between" is a commit before the first batch.

The script must commit after each batch, and record the batch in its sampler
before that. The record (see record.py) has the samples of each batch as
"step", and each change as "change" with the epoch and the size of the next ring.
"""

import argparse
import json
import os
import runpy
import sys
import time

from record import Record


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--framework", choices=("horovod", "torch"), required=True)
    parser.add_argument("--changes", type=json.loads, required=True, help="JSON list of epoch, at and size")
    parser.add_argument("--hosts", default="hosts", help="file with the hosts, a:1 first")
    parser.add_argument("--records", default="", help="directory of the record")
    parser.add_argument("script")
    return parser.parse_known_args()[0]  # the script has no flags; those of train.py are left out


class Course:
    """Records what a sampler gives out, so that each rank knows the position of a commit."""

    def __init__(self, sampler_class, recording, changes, record, rank, size):
        self.changes, self.record, self.rank, self.size = changes, record, rank, size
        self.sampler = None
        self.indices, self.used = [], 0  # of this rank, from the present iteration
        self.batch = None  # epoch, and samples done before and after it, of a batch without a commit yet
        self._watch(sampler_class, recording)

    def _watch(self, sampler_class, recording):
        course, iterate, record = self, sampler_class.__iter__, getattr(sampler_class, recording)

        def iterate_watched(sampler):
            course.indices, course.used = list(iterate(sampler)), 0
            return iter(course.indices)

        def record_watched(sampler, *args):
            course.begin(sampler)
            record(sampler, *args)
            course.end(sampler, args[-1])

        sampler_class.__iter__ = iterate_watched
        setattr(sampler_class, recording, record_watched)

    def begin(self, sampler):
        self.batch = (sampler.epoch, done(sampler))

    def end(self, sampler, count):
        self.sampler = sampler
        self.batch += (done(sampler),)
        indices = self.indices[self.used:self.used + count]
        self.used += count
        self.record.write("step", indices, epoch=sampler.epoch, rank=self.rank(), size=self.size())

    def due(self):
        """Returns the change that is planned for this commit, if there is one."""
        if self.sampler is None:
            return None
        batch, self.batch = self.batch, None
        if batch is None:
            epoch, at = self.sampler.epoch, {"between"}
        else:
            epoch, before, after = batch
            total = len(self.sampler.dataset)
            at = {name for name, here in (
                ("first", before == 0), ("middle", before < total / 2 <= after), ("last", after >= total)) if here}
        return next((change for change in self.changes if change["epoch"] == epoch and change["at"] in at), None)

    def make(self, change, hosts):
        """Makes a change: rank 0 lists as many hosts as the next ring is to have ranks."""
        if self.rank() != 0:
            return
        self.record.write("change", epoch=change["epoch"], rank=0, size=change["size"])
        with open(hosts + ".part", "w") as file:
            file.writelines("%s:1\n" % chr(ord("a") + i) for i in range(change["size"]))
        os.replace(hosts + ".part", hosts)


def done(sampler):
    """Returns how many samples of the epoch all ranks together have done. Horovod's name for it differs from Kolo's."""
    return sampler.processed_num if hasattr(sampler, "processed_num") else sampler.processed


def with_horovod(args, record):
    import horovod.torch as hvd
    from horovod.common.elastic import State

    course = Course(hvd.elastic.ElasticSampler, "record_batch", args.changes, record, hvd.rank, hvd.size)
    commit = State.commit

    def commit_here(state):
        change = course.due()
        if change:
            course.make(change, args.hosts)
        while change and hvd.rank() == 0 and state._host_messages.empty():  # which decides for all
            time.sleep(0.01)
        commit(state)

    State.commit = commit_here
    return course


def with_torch(args, record):
    import kolo.torch as kolo

    course = Course(kolo.ElasticSampler, "record", args.changes, record, kolo.rank, kolo.size)
    commit = kolo.State.commit

    def commit_here(state):
        change = course.due()
        if change:
            course.make(change, args.hosts)
        commit(state)
        while change:  # all ranks look equally often, until one that was informed lets all leave
            time.sleep(0.01)
            state.check()

    kolo.State.commit = commit_here
    return course


def main():
    args = parse()
    record = Record(args.records)
    record.write("start")
    course = {"horovod": with_horovod, "torch": with_torch}[args.framework](args, record)
    sys.argv = [args.script]
    runpy.run_path(args.script, run_name="__main__")
    record.write("done", epoch=course.sampler.epoch if course.sampler else 0)


if __name__ == "__main__":
    main()
