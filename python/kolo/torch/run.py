# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""The decorator that makes a training function elastic."""

from __future__ import annotations

import atexit
import functools
import os
from datetime import timedelta
from typing import Any, Callable, Optional, TypeVar, overload

from .. import worker
from ..worker import AgentError
from .alone import Alone
from .context import context
from .group.roles import StateLost
from .session import Elastic, Session
from .state.state import State

TIMEOUT = "KOLO_TORCH_TIMEOUT"

Function = TypeVar("Function", bound=Callable[..., Any])


@overload
def elastic(function: Function) -> Function: ...


@overload
def elastic(*, backend: Optional[str] = ..., timeout: Optional[timedelta] = ...,
            background: Optional[bool] = ...) -> Callable[[Function], Function]: ...


def elastic(function: Any = None, *, backend: Optional[str] = None, timeout: Optional[timedelta] = None,
            background: Optional[bool] = None) -> Any:
    """Makes a training function elastic. Its first argument is the State.

    Under Kolo the function is called again for each group, so it must go on from the
    state. If the group is to change, the function is left at a commit. If a member is
    lost, the state goes back to the last commit before the next call. The result of
    the last call is returned. The function's own exceptions propagate and end the
    process.

    Without Kolo the function is called once: under torchrun in torchrun's group,
    with plain python in a group of one.

    backend is torch.distributed's. The default is KOLO_TORCH_BACKEND, else gloo,
    with CUDA "cpu:gloo,cuda:nccl".

    timeout is the timeout of collectives. The default is KOLO_TORCH_TIMEOUT
    seconds, else 30 minutes.

    background is whether newcomers receive the state while the others train. The
    default is KOLO_TORCH_BACKGROUND; without this variable, it is whether at least
    32 MiB can be sent in the background.
    """
    if function is None:
        return functools.partial(elastic, backend=backend, timeout=timeout, background=background)

    @functools.wraps(function)
    def run(state: State, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(state, State):
            raise TypeError("the first argument of %s must be a kolo.State, not a %s"
                            % (function.__name__, type(state).__name__))
        limit = timeout or timedelta(seconds=float(os.environ.get(TIMEOUT) or 1800))
        try:
            return _open(backend, limit, background).train(function, state, *args, **kwargs)
        except (AgentError, StateLost) as err:
            raise SystemExit("kolo: %s" % err) from err

    return run


def present() -> Optional[Session]:
    """Returns the session of this process, or None."""
    session: Optional[Session] = context.session
    return session


def _open(backend: Optional[str], timeout: timedelta, background: Optional[bool]) -> Session:
    session = present()
    if session is None:
        session = Elastic(backend, timeout, background) if os.environ.get(worker.ADDR) else Alone(backend, timeout)
        context.session = session
        atexit.register(session.close)
    elif isinstance(session, Elastic):
        raise RuntimeError("a script can have one elastic function, and call it once: newcomers begin with it")
    return session
