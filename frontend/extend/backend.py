"""Where programs run, as libraries ask for it (`jax.extend.backend`)."""

from __future__ import annotations

from typing import Any

from quire.passes.cache import clear_transforms
from quire.runtime.devices import Device, default_platform, devices, first_cpu, local_devices

from ..absent_names import module_getattr
from ..arrays.placement import as_device
from ..compiling.compiled_function import clear_compiled_functions
from ..eager.evaluation import programs


class Backend:
    """The devices of one platform."""

    __slots__ = ("platform",)

    def __init__(self, platform: str) -> None:
        self.platform = platform

    @property
    def platform_version(self) -> str:
        """The compiler and the platform."""
        return f"IREE {self.platform}"

    @property
    def runtime_type(self) -> str:
        """What runs programs."""
        return "iree"

    def devices(self) -> list[Device]:
        """All devices."""
        return devices(self.platform)

    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return local_devices(backend=self.platform)

    def device_count(self) -> int:
        """The number of devices."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """The number of this process's devices."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """The number of this process."""
        return self.local_devices()[0].process_index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Backend) and self.platform == other.platform

    def __hash__(self) -> int:
        return hash(self.platform)

    def __repr__(self) -> str:
        return f"Backend({self.platform!r})"


def get_backend(platform: str | None = None) -> Backend:
    """The devices of a platform, by default the default one. Raises RuntimeError for one that there is not."""
    name = default_platform() if platform is None else platform
    devices(name)
    return Backend(name)


def backends() -> dict[str, Backend]:
    """The platforms that are in use, by name."""
    names = dict.fromkeys(("cpu", default_platform()))
    return {name: Backend(name) for name in names}


def get_default_device() -> Device:
    """The device on which arrays are made, and programs run, that say nothing else."""
    return as_device(None) or first_cpu()


def clear_in_memory_compilation_cache() -> None:
    """Forget what has been traced and compiled in this process."""
    clear_transforms()
    clear_compiled_functions()
    programs.clear()


def clear_backends() -> None:
    """As `clear_in_memory_compilation_cache`; devices stay."""
    clear_in_memory_compilation_cache()


def backend_xla_version(platform: Any = None) -> None:
    """None: there is no XLA."""
    return None


__all__ = [
    "Backend", "backend_xla_version", "backends", "clear_backends", "clear_in_memory_compilation_cache", "get_backend",
    "get_default_device",
]  # fmt: skip

__getattr__ = module_getattr("quire.extend.backend", globals())
