"""`jax._src.distributed`: what orbax asks of the processes that work together."""

from __future__ import annotations

from typing import Any

from quire.runtime.processes.current import process


class _State:
    """The state of several processes. There is no service of JAX's: quire's processes speak MPI."""

    client: Any = None
    service: Any = None
    coordinator_address: str | None = None
    preemption_sync_manager: Any = None

    @property
    def process_id(self) -> int:
        """The number of this process."""
        return process().rank

    @property
    def num_processes(self) -> int:
        """How many processes work together."""
        return process().size


global_state = _State()
