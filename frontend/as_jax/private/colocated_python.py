"""`jax.experimental.colocated_python`: Python beside the devices of other machines, which is JAX's Pathways.

orbax imports the names, and uses them where devices say that they are of that kind; quire's never do.
"""

from __future__ import annotations

from typing import Any, NoReturn

DeviceList = tuple


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"jax.experimental.colocated_python.{name}: quire's devices belong to processes that run Python themselves"
    )


def colocated_cpu_devices(devices: Any) -> NoReturn:
    """Refuse.

    Raises:
        NotImplementedError: always.
    """
    _refuse("colocated_cpu_devices")


def colocated_python(fun: Any) -> NoReturn:
    """Refuse.

    Raises:
        NotImplementedError: always.
    """
    _refuse("colocated_python")


def colocated_python_class(cls: Any) -> NoReturn:
    """Refuse.

    Raises:
        NotImplementedError: always.
    """
    _refuse("colocated_python_class")
