# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

import ctypes
import sys


def retire(rank):
    """Ends the thread that is in Horovod's init when it has returned. Keeps no frame, which would keep a script's files from being closed."""
    for thread, frame in sys._current_frames().items():
        while frame is not None:
            if frame.f_code.co_name == "init" and frame.f_globals.get("__name__") == "horovod.common.basics":
                frame.f_locals["self"].MPI_LIB_CTYPES.horovod_rank = lambda: rank
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(SystemExit))
                return
            frame = frame.f_back
    raise RuntimeError("no thread waits in hvd.init")
