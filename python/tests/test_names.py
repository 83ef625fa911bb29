# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Names of checkpoints that another process sends lead only to checkpoints."""

import unittest

from kolo.torch.state import sharded

HEX = "0123456789abcdef" * 2


class Names(unittest.TestCase):
    def load(self, run, *names):
        handler = sharded.ShardedHandler(sharded.Sharded(None, "/shared"))
        handler.load({"run": run, "names": names, "stepped": True})
        return handler.value

    def test_own_names(self):
        value = self.load("kolo-a1_b2c3d", "kolo-a1_b2c3d/" + HEX, "/data/model.pt.shards/" + HEX)
        self.assertEqual(["kolo-a1_b2c3d/" + HEX, "/data/model.pt.shards/" + HEX], value._names)
        self.load(None)

    def test_names_elsewhere(self):
        for run in ("..", "../kolo-a", "/kolo-a", "kolo-a/..", "kolo-", "", "kolo-a\n", "kolo-\u00e9"):
            with self.subTest(run=run), self.assertRaisesRegex(ValueError, "is no directory of a run"):
                self.load(run)
        for name in ("../" + HEX, "/etc/" + HEX, "kolo-a/../../" + HEX, "kolo-a/" + HEX + "/..", "/x/../etc.shards/" + HEX, "//x.shards/../" + HEX,
                     "kolo-a/" + HEX + "\n", HEX, "kolo-a/x/" + HEX, "x.shards/" + HEX, "../x.shards/" + HEX, "/x.shards/" + HEX[1:], "/x.shards/..", ""):
            with self.subTest(name=name), self.assertRaisesRegex(ValueError, "is no checkpoint of a commit"):
                self.load("kolo-a", name)


if __name__ == "__main__":
    unittest.main()
