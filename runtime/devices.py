"""Devices: what programs run on.

    devices()            # the default platform's devices: [CpuDevice(id=0)]
    devices("vulkan")    # RuntimeError telling what to install where there is none

Everything is made at first use. HAL devices live until the process ends: a buffer that outlives the allocator of its
device crashes the process (seen with the caching allocator), and Python gives no order to what it destroys at exit.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from quire.backends.targets import (
    Target,
    VulkanFacts,
    available_cpus,
    get_target,
    processes_here,
    registered_targets,
    vulkan_target_of,
)
from quire.ir import environment
from quire.ir.config import config
from quire.ir.errors import size_text
from quire.runtime.compile_cache import parse_size
from quire.runtime.processes.current import process

Mode = Literal["sync", "task"]
"""How a CPU program runs: in the calling thread, or spread over worker threads."""

_DRIVERS: Mapping[str, Mapping[Mode, str]] = {
    "cpu": {"sync": "local-sync", "task": "local-task"},
    "vulkan": {"sync": "vulkan", "task": "vulkan"},
    "cuda": {"sync": "cuda", "task": "cuda"},
}
_CLASSES = {"cpu": "CpuDevice", "vulkan": "VulkanDevice", "cuda": "CudaDevice"}
_MISSING = {
    "vulkan": (
        "no Vulkan device: the loader (libvulkan1) and a driver are needed. For a GPU install its driver; for the "
        "software driver: apt install libvulkan1 mesa-vulkan-drivers"
    ),
    "cuda": "no CUDA device: an NVIDIA GPU with its driver (libcuda.so.1) is needed",
}
PLATFORMS = tuple(_DRIVERS)
_NOT_HERE = ("gpu", "tpu", "rocm")  # JAX's names, of which `_known` tells


def _immortal(handle: Any) -> Any:
    """Takes a reference that is never given back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))
    return handle


@functools.cache
def binding() -> Any:
    """IREE's runtime binding (``iree.runtime._binding``), without its report of live objects at exit."""
    from iree.runtime import _binding

    _binding.disable_leak_checker()
    return _binding


@functools.cache
def vm_instance() -> Any:
    """The process' one VmInstance."""
    return _immortal(binding().VmInstance())


@functools.cache
def _driver(name: str) -> Any:
    return _immortal(binding().get_cached_hal_driver(name))


POOL_SLOTS = 256


@functools.cache
def _host_pool() -> str:
    """IREE's caching allocator, as it is configured: the memory of freed results is kept, so that the next call of a
    program meets no page faults.

    Without parameters it would keep all memory for ever. With them a freed buffer is kept as long as live and kept
    memory together stay below the bound: QUIRE_POOL_SIZE, or a quarter of the machine's memory.
    """
    named = environment.POOL_SIZE.text()
    if named:
        size = parse_size(named, "QUIRE_POOL_SIZE")
    else:
        try:
            size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
        except (ValueError, OSError, AttributeError):
            size = 1 << 30
    return f"caching:device_local=*;{size};{POOL_SLOTS}"


class Device:
    """One device of a platform.

    Attributes:
        platform: "cpu", "vulkan" or "cuda"; also the name of its target.
        id: number within the process' platform.
        process_index: the process it belongs to.
        device_kind: the hardware's name.
        is_host: whether its memory is the process' own memory.
        base: the device whose memory and programs are its own: itself but for simulated devices, of which there are as many
            as one asks for on one CPU.
    """

    __slots__ = (
        "_hal", "_hal_id", "_hal_modules", "_lock", "_memory", "base", "device_kind", "id", "is_host", "platform",
        "process_index",
    )  # fmt: skip

    def __init__(
        self, platform: str, id: int, hal_id: int, device_kind: str, process_index: int = 0, base: Device | None = None
    ) -> None:
        self.base: Device = self if base is None else base
        self.platform = platform
        self.is_host = platform == "cpu"
        self.id = id
        self.process_index = process_index
        self.device_kind = device_kind
        self._hal_id = hal_id
        self._hal: dict[str, Any] = {}
        self._hal_modules: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._memory: tuple[Any, Any] | None = None

    @property
    def is_local(self) -> bool:
        """Whether it is a device of this process."""
        return self.process_index == process().rank

    @property
    def target(self) -> Target:
        """What programs for this device are compiled for: the target that is chosen by name, or the platform's own."""
        named = _target_named(_asked_platforms())
        if named is not None and named.runs_on == self.platform:
            return named
        if self.platform == "vulkan":
            return _vulkan_target(self._hal_id, environment.VULKAN_TARGET.text())
        return get_target(self.platform)

    @property
    def client(self) -> Client:
        """What runs this device's programs."""
        return Client(self.platform)

    @property
    def default_memory_kind(self) -> str:
        """The kind of the device's memory: there is one."""
        return "device"

    def default_memory(self) -> Memory:
        """The device's memory."""
        return Memory(self)

    def addressable_memories(self) -> list[Memory]:
        """The device's memory, alone in a list."""
        return [Memory(self)]

    def memory_by_kind(self, kind: str) -> Memory:
        """The device's memory. Raises ValueError for a kind that there is not."""
        return Memory(self, kind)

    def hal(self, mode: Mode = "sync") -> Any:
        """IREE's HalDevice. A CPU device has one for each mode; both accept the buffers of the other.

        Raises RuntimeError for a device of another process.
        """
        if self.base is not self:
            return self.base.hal(mode)
        if not self.is_local:
            raise RuntimeError(
                f"{self} is a device of process {self.process_index}, and this is process {process().rank}: only a process' "
                "own devices hold its arrays and run its programs; divide an array over a mesh of all devices instead"
            )
        driver = _DRIVERS[self.platform][mode]
        found = self._hal.get(driver)
        if found is None:
            with self._lock:
                found = self._hal.get(driver)
                if found is None:
                    with _without_launcher():
                        found = _immortal(_created(driver, self._hal_id))
                    self._hal[driver] = found
        return found

    def hal_module(self, mode: Mode = "sync") -> Any:
        """The VM module "hal" bound to this device, shared by all programs."""
        if self.base is not self:
            return self.base.hal_module(mode)
        driver = _DRIVERS[self.platform][mode]
        found = self._hal_modules.get(driver)
        if found is None:
            found = self._hal_modules[driver] = _immortal(
                binding().create_hal_module(vm_instance(), device=self.hal(mode))
            )
        return found

    @property
    def memory(self) -> tuple[Any, Any]:
        """The HalDevice and the HalAllocator that arrays of this device come from."""
        if self.base is not self:
            return self.base.memory
        if self._memory is None:
            hal = self.hal("sync")
            self._memory = hal, hal.allocator
        return self._memory

    @property
    def allocator(self) -> Any:
        """The HalAllocator that arrays of this device come from."""
        return self.memory[1]

    def memory_stats(self) -> dict[str, int]:
        """Bytes in use, at peak, and allocated in total by this device's allocators, cached memory included.

        Simulated devices have one memory, and each gives the whole of it.
        """
        in_use = peak = total = 0
        for hal in self.base._hal.values():
            statistics = hal.allocator.statistics
            for kind in ("host", "device"):
                allocated, freed = statistics[f"{kind}_bytes_allocated"], statistics[f"{kind}_bytes_freed"]
                in_use, total = in_use + allocated - freed, total + allocated
                peak += statistics[f"{kind}_bytes_peak"]
        return {"bytes_in_use": in_use, "peak_bytes_in_use": peak, "total_bytes_allocated": total}

    def trim(self) -> None:
        """Gives cached memory back to the system."""
        for hal in self.base._hal.values():
            hal.allocator.trim()

    def __repr__(self) -> str:
        return f"{_CLASSES[self.platform]}(id={self.id})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _device, (self.platform, self.id)


@dataclass(frozen=True)
class Client:
    """What runs programs for the devices of a platform, as JAX's clients tell it.

    Attributes:
        platform: "cpu", "vulkan" or "cuda".
    """

    platform: str
    runtime_type = "iree"

    @property
    def platform_version(self) -> str:
        """The version of the runtime."""
        from importlib.metadata import version

        return f"iree {version('iree-base-runtime')}"

    def devices(self) -> list[Device]:
        """All devices of the platform."""
        return devices(self.platform)

    def local_devices(self) -> list[Device]:
        """Those of this process."""
        return local_devices(None, self.platform)

    def device_count(self) -> int:
        """How many devices there are."""
        return len(self.devices())

    def process_index(self) -> int:
        """The number of this process."""
        return process().rank


@dataclass(frozen=True)
class Memory:
    """A device's memory. ValueError for a kind other than "device"."""

    device: Device
    kind: str = "device"

    def __post_init__(self) -> None:
        if self.kind != "device":
            raise ValueError(f"{self.device} has memory of the kind 'device' alone, got {self.kind!r}")

    @property
    def platform(self) -> str:
        """The device's platform."""
        return self.device.platform

    def addressable_by_devices(self) -> list[Device]:
        """The device."""
        return [self.device]


def free_memory(device: Device | None = None) -> str:
    """What is known of free memory, as the end of a message."""
    in_use = "" if device is None else f"{size_text(device.memory_stats()['bytes_in_use'])} are in use by arrays on it"
    if device is not None and not device.is_host:
        return in_use
    try:
        with open("/proc/meminfo", encoding="ascii") as f:
            found = re.search(r"MemAvailable:\s*(\d+) kB", f.read())
    except OSError:
        found = None
    free = f"{size_text(int(found[1]) * 1024)} are free on this machine" if found else "too little is free"
    return f"{free}, {in_use}" if in_use else free


def _created(driver: str, hal_id: int) -> Any:
    """IREE's HalDevice of a driver's device.

    The GPU drivers pool memory themselves, and Vulkan's cannot allocate through IREE's pool. Commands that are executed again
    Vulkan's keeps as they were recorded, where all dispatches among them read the arrays' addresses from a table; copies and
    fills of IREE 3.13 do not, and write into the arrays of an earlier call. With no room for them commands are recorded each time.
    """
    if driver == "local-task" and processes_here() > 1:
        # IREE would take all processors in each process that MPI's launcher started on this machine.
        binding().parse_flags(f"--task_topology_max_group_count={available_cpus()}")
    made = _driver(driver)
    if driver != "vulkan":
        return made.create_device(hal_id, allocators=[_host_pool()] if driver.startswith("local") else None)
    path = next(d["path"] for d in made.query_available_devices() if d["device_id"] == hal_id)
    return made.create_device_by_uri(f"vulkan://{path}?cached_bda_replay_instances=0")


@functools.cache
def _vulkan_target(hal_id: int, named: str | None) -> Target:
    """The target of a Vulkan device; `named` is the environment's choice, on which it depends."""
    return vulkan_target_of(VulkanFacts.of(_driver("vulkan").dump_device_info(hal_id)))


# With these variables in the environment IREE makes a channel provider of MPI with each device, which fails for MPICH.
_LAUNCHER = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


@contextmanager
def _without_launcher() -> Generator[None]:
    """Hide from IREE that a launcher of MPI started this process."""
    hidden = {name: os.environ.pop(name) for name in _LAUNCHER if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _device(platform: str, id: int) -> Device:
    if platform == "cpu":
        owner, number = divmod(id, MOST_OF_A_PROCESS)
        if owner == process().rank:
            return _cpu_devices(number + 1)[number]
        return next(d for d in _platform_devices(platform) if d.id == id)
    return devices(platform)[id]


def _cpu_kind() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            for line in f:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    import platform

    return platform.processor() or platform.machine() or "cpu"


def _cpu_count() -> int:
    """How many devices the CPU is: `config.num_cpu_devices`, or QUIRE_NUM_CPU_DEVICES, or 1."""
    if _of_processes:
        return _of_processes[process().rank]
    asked = config.options.num_cpu_devices
    return _cpu_count_of_environment() if asked is None else asked


@functools.cache
def _cpu_count_of_environment() -> int:
    text = environment.NUM_CPU_DEVICES.text() or "1"
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"QUIRE_NUM_CPU_DEVICES={text}: expected a number of devices, 1 or more")
    return int(text)


MOST_OF_A_PROCESS = 2048
"""The numbers of two processes' devices differ by this, as in JAX."""

_cpus: list[Device] = []
_cpus_lock = threading.Lock()
_of_processes: tuple[int, ...] = ()
_all_cpus: tuple[Device, ...] = ()


def first_cpu() -> Device:
    """The first CPU device: the one on which all others are simulated."""
    return _cpus[0] if _cpus else _cpu_devices(1)[0]


def _cpu_devices(count: int) -> tuple[Device, ...]:
    """So many devices on one CPU. They are made once: the first ones are the same however many are asked for."""
    with _cpus_lock:
        here = process().rank
        start = here * MOST_OF_A_PROCESS
        if not _cpus:
            _cpus.append(Device("cpu", start, 0, _cpu_kind(), here))
        first = _cpus[0]
        _cpus.extend(Device("cpu", start + i, 0, first.device_kind, here, first) for i in range(len(_cpus), count))
        return tuple(_cpus[:count])


def local_device_total() -> int:
    """How many devices the CPU of this process is to be."""
    return _cpu_count()


def has_devices() -> bool:
    """Whether some device of this process has been made."""
    return bool(_cpus)


def set_processes(counts: Sequence[int]) -> None:
    """Say how many CPU devices each process has; none: there is one process."""
    global _of_processes, _all_cpus
    _of_processes = tuple(counts)
    _all_cpus = ()
    _cpus.clear()
    if not counts:
        return
    here = process().rank
    found: list[Device] = []
    for rank, count in enumerate(counts):
        if rank == here:
            found += _cpu_devices(count)
        else:
            found += (Device("cpu", rank * MOST_OF_A_PROCESS + i, 0, "cpu", rank) for i in range(count))
    _all_cpus = tuple(found)


def _platform_devices(platform: str) -> tuple[Device, ...]:
    """The devices of a platform; RuntimeError where there is none."""
    if platform == "cpu":
        return _all_cpus or _cpu_devices(_cpu_count())
    return _accelerators(platform)


@functools.cache
def _accelerators(platform: str) -> tuple[Device, ...]:
    try:
        found = _driver(_DRIVERS[platform]["sync"]).query_available_devices()
    except Exception as error:
        reason = str(error).strip().splitlines()
        raise RuntimeError(f"{_MISSING[platform]} (IREE: {reason[0][:200] if reason else 'no reason'})") from None
    if not found:
        raise RuntimeError(_MISSING[platform])
    return tuple(Device(platform, i, entry["device_id"], entry["name"]) for i, entry in enumerate(found))


def default_platform() -> str:
    """`config.platform`, or QUIRE_PLATFORM, or "cuda" where there is a CUDA device, or "cpu".

    Of several names with commas between them, as JAX takes them, it is the first; "gpu" is "cuda".
    A Vulkan device is used when it is asked for: it may be a software driver, slower than the CPU itself. The name of a target
    (`quire.backends.targets`) stands for the platform that runs its programs, which are then compiled for that target.
    """
    return _platform_of(_asked_platforms())


def _asked_platforms() -> str:
    return config.options.platform or environment.PLATFORM.text() or ""


@functools.cache
def _target_named(names: str) -> Target | None:
    """The target that the choice of a platform names, where it is no platform's name."""
    first = names.split(",")[0].strip()
    if not first or first in _DRIVERS or first in _NOT_HERE:
        return None
    target = registered_targets().get(first)
    return target if target is not None and target.runs_on in _DRIVERS else None


@functools.cache
def _platform_of(names: str) -> str:
    first = names.split(",")[0].strip()
    if first:
        target = _target_named(names)
        named = _known(first) if target is None else target.runs_on
        _platform_devices(named)
        return named
    try:
        _platform_devices("cuda")
    except RuntimeError:
        return "cpu"
    return "cuda"


def _known(platform: str) -> str:
    platform = {"gpu": "cuda"}.get(platform, platform)  # JAX's name
    if platform in ("tpu", "rocm"):  # programs ask for these, and expect the answer of a machine without them
        raise RuntimeError(f"no {platform} device: quire has none; there are {', '.join(PLATFORMS)}")
    if platform not in _DRIVERS:
        raise ValueError(f"unknown platform {platform!r}; there are {', '.join(PLATFORMS)}")
    return platform


def devices(backend: str | None = None) -> list[Device]:
    """The devices of a platform ("cpu", "vulkan", "cuda"); default: `default_platform()`.

    Raises:
        RuntimeError: there is no such device; the message tells what is missing.
        ValueError: there is no such platform.
    """
    return list(_platform_devices(_known(backend) if backend is not None else default_platform()))


def device_of(target: Target) -> Device:
    """The first device that runs programs for a target.

    Raises:
        RuntimeError: none is here, or quire runs no programs for the target; the message tells which.
    """
    if target.runs_on not in PLATFORMS:
        raise RuntimeError(f"target {target.name} has no devices: programs for it are compiled only")
    return local_devices(None, target.runs_on)[0]


def local_devices(process_index: int | None = None, backend: str | None = None) -> list[Device]:
    """The devices of this process (or of `process_index`)."""
    index = process().rank if process_index is None else process_index
    return [device for device in devices(backend) if device.process_index == index]


def device_count(backend: str | None = None) -> int:
    """How many devices the platform has."""
    return len(devices(backend))
