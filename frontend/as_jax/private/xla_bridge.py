"""`jax._src.xla_bridge`: which devices there are."""

from __future__ import annotations

from typing import Any

from quire.arrays.environment import default_backend as default_backend
from quire.arrays.environment import process_count as process_count
from quire.arrays.environment import process_index as process_index
from quire.runtime.devices import PLATFORMS
from quire.runtime.devices import device_count as device_count
from quire.runtime.devices import devices as devices
from quire.runtime.devices import has_devices as backends_are_initialized
from quire.runtime.devices import local_devices as local_devices

#: Backends that are initialized; chex asks whether there is any, before it says how many devices the CPU is.
_backends: dict[str, Any] = {}

__all__ = ["PLATFORMS", "backends_are_initialized", "default_backend", "device_count", "devices", "local_devices",
           "process_count", "process_index"]  # fmt: skip
