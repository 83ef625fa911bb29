# Copyright (c) Kolo authors
# SPDX-License-Identifier: MPL-2.0

"""Access to private names of PyTorch, and to names that differ between its releases.

tests/test_compat.py tests each function. make runs these tests with the oldest
PyTorch that works, with Debian's and with the newest.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import sys
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple, Type

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.nn.parallel import DistributedDataParallel, distributed

# Tensors.


def version(tensor: torch.Tensor) -> int:
    """Returns the tensor's version, which grows with each in-place operation that autograd sees."""
    return tensor._version


def copy_all(targets: List[torch.Tensor], sources: List[torch.Tensor]) -> None:
    """Copies each source into its target, in a single call if PyTorch has one for it."""
    if targets and hasattr(torch, "_foreach_copy_"):
        torch._foreach_copy_(targets, sources, non_blocking=True)
        return
    for target, source in zip(targets, sources):
        target.copy_(source, non_blocking=True)


def is_dtensor(value: Any) -> bool:
    """Whether a value is a DTensor, by the name of its class: importing the class takes a second, and its module differs by release."""
    return type(value).__name__ == "DTensor"


def local_part(dtensor: Any) -> torch.Tensor:
    """Returns this process's part of a DTensor, in the same memory."""
    part: torch.Tensor = dtensor._local_tensor
    return part


# Modules and optimizers.


def registered(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    """Yields the parameters and buffers of a module and its submodules. A tensor that is registered twice is yielded twice."""
    return (tensor for part in module.modules() for kind in (part._parameters, part._buffers)
            for tensor in kind.values() if tensor is not None)


def metadata(tree: Any) -> Optional[Any]:
    """Returns the module versions that a state dict contains besides its values (_metadata); None without them."""
    return getattr(tree, "_metadata", None)


def set_metadata(tree: Any, value: Any) -> None:
    """Sets what metadata() returns."""
    tree._metadata = value


def is_scaler(value: Any) -> bool:
    """Whether a value is a GradScaler, whose module differs by release."""
    return "_per_optimizer_states" in getattr(value, "__dict__", ())


def forget_unscaled(scaler: Any) -> None:
    """Lets a GradScaler repeat a step that failed between unscale_() and update()."""
    scaler._per_optimizer_states.clear()


def has_post_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Whether functions run after each step of an optimizer."""
    return bool(optimizer._optimizer_step_post_hooks)


@contextlib.contextmanager
def without_pre_hooks(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Disables the hooks that run before each step of an optimizer."""
    hooks = optimizer._optimizer_step_pre_hooks
    optimizer._optimizer_step_pre_hooks = type(hooks)()
    try:
        yield
    finally:
        optimizer._optimizer_step_pre_hooks = hooks


def in_persistent_worker() -> bool:
    """Whether this is a worker process of a DataLoader with persistent_workers=True.

    WorkerInfo does not contain this setting, so it is read from the frame of the
    worker's loop. If a release of PyTorch renames the loop, this returns False, and
    ElasticIterable notices the setting only when it is read for the second time.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_worker_loop":
        frame = frame.f_back
    return frame is not None and bool(frame.f_locals.get("persistent_workers"))


# DistributedDataParallel.


def wrap_equal(wrapped: DistributedDataParallel, module: torch.nn.Module, **arguments: Any) -> None:
    """Constructs a DistributedDataParallel that does not send the module, because it is equal on all members.

    The constructor still compares which parameters the members train. Newer releases
    have init_sync=False, which would leave this comparison out, too.
    """
    with _without_sync():
        DistributedDataParallel.__init__(wrapped, module, **arguments)


@contextlib.contextmanager
def _without_sync() -> Iterator[None]:
    """Keeps the constructor from sending the module, except in releases without the function that is replaced here."""
    name = "_sync_module_states"
    sync = getattr(distributed, name, None)
    if sync is None:
        yield
        return
    setattr(distributed, name, lambda *_, **__: None)
    try:
        yield
    finally:
        setattr(distributed, name, sync)


def unhook(wrapped: torch.nn.Module) -> None:
    """Removes the hooks of a DistributedDataParallel from the parameters of its module."""
    for name in ("reducer", "logger"):
        wrapped.__dict__.pop(name, None)


def after_backward(function: Callable[[], None]) -> None:
    """Runs a function at the end of the current backward pass, after the functions that were registered before.

    DistributedDataParallel registers its wait for other processes when its last gradient is ready.
    """
    torch.autograd.Variable._execution_engine.queue_callback(function)


# Process groups.

# Types of communication errors; releases before 2.3 lack some.
ERRORS: Tuple[Type[BaseException], ...] = tuple(
    getattr(dist, name) for name in ("DistBackendError", "DistNetworkError") if hasattr(dist, name))


def connect(host: str, port: int, timeout: timedelta) -> Any:
    """Connects a client to a TCPStore.

    Clients work the same with and without libuv, but some builds of PyTorch, such
    as Debian's, refuse the default.
    """
    arguments: Dict[str, Any] = {"is_master": False, "wait_for_workers": False, "timeout": timeout}
    try:
        return dist.TCPStore(host, port, use_libuv=False, **arguments)
    except TypeError:  # a release without libuv
        return dist.TCPStore(host, port, **arguments)


@contextlib.contextmanager
def same_excepthook() -> Iterator[None]:
    """Keeps sys.excepthook, which PyTorch would wrap once more for each default group."""
    hook = sys.excepthook
    try:
        yield
    finally:
        sys.excepthook = hook


def default_store() -> Any:
    """The store of the default group."""
    return c10d._get_default_store()


def devices(group: Any) -> Set[str]:
    """Returns the types of devices whose tensors a group can send."""
    return {device.type for device in group._device_types}


def has_nccl() -> bool:
    """Whether the default group uses NCCL."""
    return torch.cuda.is_available() and dist.is_initialized() and "nccl" in str(dist.get_backend_config())


def let_nccl_fail() -> None:
    """Keeps NCCL's watchdog from ending this process when a collective fails."""
    prefix = "" if str(torch.__version__).startswith("2.1.") else "TORCH_"
    os.environ.setdefault(prefix + "NCCL_ASYNC_ERROR_HANDLING", "0")


def gloo_backends() -> List[Any]:
    """Returns the gloo backends of all groups. Dropping the last reference to a backend closes its connections."""
    backends = []
    for group in c10d._world.pg_map:
        try:
            backends.append(group._get_backend(torch.device("cpu")))
        except RuntimeError:
            pass  # a group for GPUs only
    return backends


def abort_nccl() -> None:
    """Aborts NCCL's communicators, if there are any. Not tested on GPUs."""
    group = dist.group.WORLD if dist.is_initialized() else None
    if group is None or not torch.cuda.is_available():
        return
    try:
        if hasattr(c10d, "_abort_process_group"):
            c10d._abort_process_group(group)
        else:
            backend: Any = group._get_backend(torch.device("cuda"))
            backend._abort()
    except (AttributeError, RuntimeError, ValueError):
        pass  # a group without NCCL, or one that is gone already


def clear_groups() -> None:
    """Clears PyTorch's globals after an initialization that was given up."""
    world = getattr(c10d, "_world", None)
    if dist.is_initialized() or world is None:
        return
    for name in ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag",
                 "pg_coalesce_state"):
        registered_ = getattr(world, name, None)
        if registered_:
            registered_.clear()
    world.group_count = 0  # it is part of keys in the store, so it must be equal on all members
    unregister = getattr(c10d, "_unregister_all_process_groups", None)
    if unregister:
        unregister()
