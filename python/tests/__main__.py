# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""python3 -m tests [arguments of python3 -m unittest]: a test that hangs prints where, and ends the run."""

import faulthandler
import unittest

LIMIT = 25 * 60  # seconds, of one test: all of them take as long as the machine's load makes them


class Result(unittest.TextTestResult):
    def startTest(self, test):
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        super().startTest(test)

    def stopTest(self, test):
        super().stopTest(test)
        faulthandler.cancel_dump_traceback_later()


class Runner(unittest.TextTestRunner):
    resultclass = Result


unittest.main(module=None, testRunner=Runner)
