"""quire.distributed: processes that work together (`jax.distributed`)."""

from __future__ import annotations

import atexit
from collections.abc import Sequence

from quire.runtime import devices as _devices
from quire.runtime.processes import current, mpi, waiting


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: int = 300,
    heartbeat_timeout_seconds: int = 100,
    shutdown_timeout_seconds: int = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
) -> None:
    """Make the processes that a launcher of MPI has started work together: ``mpiexec -n 4 python train.py``.

    Everything is found out from the launcher; a process that none has started stays the only one. Afterwards
    `quire.devices()` gives the devices of all processes, as many of each as it had (QUIRE_NUM_CPU_DEVICES). An exception
    that nobody catches in one process ends all of them, and so does the end of one for which another waits.

    Args:
        coordinator_address: as all others but the next two for programs written for JAX; MPI needs none of them.
        num_processes: None, or the number of processes that there are.
        process_id: None, or the number of this one.

    Raises:
        RuntimeError: it was called before, or after the first device was used; a launcher has started this process, and
            mpi4py is not installed.
        ValueError: `num_processes` or `process_id` is not what the launcher says.

    Example:
        >>> import quire
        >>> quire.distributed.is_initialized()
        False
    """
    if is_initialized():
        raise RuntimeError("distributed.initialize should only be called once.")
    if _devices.has_devices():
        raise RuntimeError(
            "quire.distributed.initialize() must be called before any quire calls that use a device. This includes any "
            "computation, but also calls to quire.devices, quire.device_put, and others."
        )
    world = mpi.world() if mpi.launched() else None
    size, rank = (1, 0) if world is None else (world.size, world.rank)
    started = "" if world is not None else ": start the program with mpiexec"
    for name, given, found in (("num_processes", num_processes, size), ("process_id", process_id, rank)):
        if given is not None and given != found:
            raise ValueError(f"distributed.initialize: {name}={given}, and the launcher of MPI says {found}{started}")
    _State.initialized = True
    if world is None or size == 1:
        return
    mpi.end_all_on_errors()
    waiting.watch(world)
    atexit.register(world.depart)
    count = _devices.local_device_total()
    current.set_process(world)
    _devices.set_processes(world.exchange(count, "distributed.initialize"))


def is_initialized() -> bool:
    """Whether `initialize` was called (`jax.distributed.is_initialized`)."""
    return _State.initialized


def shutdown() -> None:
    """End the work together, after all processes have come here (`jax.distributed.shutdown`).

    Arrays of several processes cannot be used any more. Nothing happens in a process that works alone.
    """
    if current.process().size > 1:
        current.process().barrier("distributed.shutdown")
        current.set_process(None)
        _devices.set_processes(())
    _State.initialized = False


class _State:
    initialized = False


__all__ = ["initialize", "is_initialized", "shutdown"]
