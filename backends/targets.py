"""Targets: a table of what IREE compiles for, with the flags, costs and limits of each.

A target is a declaration. `TARGETS` holds them by name; another package adds its own with `register_target`, or by an entry
point of the group `quire.targets`: the entry's name is the target's, its value a `Target` or a function that makes one.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import platform
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from quire.ir import environment
from quire.ir.dtypes import DType
from quire.ir.environment import Variable
from quire.ir.errors import UnsupportedError
from quire.ir.extensions import load_entry_points, warn_of
from quire.ir.primitive import Primitive

from . import kernel_forms

COMMON_FLAGS = (
    # Not "auto": that finds the same dialect in 25 ms more.
    "--iree-input-type=stablehlo",
    # IREE's default turns f64 into f32 without a word.
    "--iree-input-demote-f64-to-f32=false",
    # What depends on constants alone is computed at each call, or folded by quire's passes. IREE's initialisers of it get the
    # first result of a dispatch for each of several, crash the compiler where they branch, and are evaluated ahead of
    # time by pipelines with the faults that `backends/iree/pipelines.py` leaves out, which takes a third of a compile.
    *(f"--iree-opt-const-{what}=false" for what in ("expr-hoisting", "eval")),
)


COMMON_PASSES = (
    "drop-weak-types,inline,emulate-spmd,canonicalize-literals,simplify,cse,hoist,simplify{slices=true},join-sums,dce,"
    "store-compared"
)
"""The pipeline of a target without kernels of ours."""
CPU_PASSES = COMMON_PASSES + ",fuse,updates,merge-alike"
"""The pipeline for the CPU."""
GPU_PASSES = COMMON_PASSES + ",fuse-attention"
"""The pipeline for GPUs for which there are kernels: IREE forms the other clusters."""


@dataclasses.dataclass(frozen=True)
class Target:
    """What a program can be compiled for.

    Attributes:
        name: quire's name of the target and, where it can run, of the device's platform.
        backend: IREE's target backend.
        flags: all options of iree-compile for it.
        pipeline: the text of the passes that run before lowering, as `quire.passes.base.parse_pipeline` reads it.
        drivers: names of IREE's HAL drivers that run it; empty where programs are only compiled.
        vector_bytes: width of a vector register (CPU), 0 where vectors are no registers.
        workers: how many of its units (cores, compute units) a program is spread over, for cost estimates.
        bytes_per_second: rough memory bandwidth, for cost estimates.
        cached_bytes_per_second: that of one thread to what the caches hold.
        flops_per_second: rough peak of f32 arithmetic, for cost estimates.
        unsupported: dtype name to the reason why a program with it cannot be compiled.
        kernels: whether quire's own kernels (backends/kernels) exist for it.
        shared_bytes: workgroup memory that a kernel may have on it (GPU).
        matrix_units: what its matrix units multiply in quire's kernels: "tf32", "i8".
        host_functions: whether compiled code can call Python functions on it.
        system_link: whether programs are linked with `iree.system_link_flags()`.
        device_targets: the module's attribute `hal.device.targets`, where a device of its own is compiled for; it takes the
            place of the flags that name one.
        reassociates: whether its drivers take sums of floats for sums of real numbers: (x + y) - y for x.
        platform: whose devices run its programs; by default the one with the target's own name.
        stored_results: results of so many bytes are written to memory that the caller brings; None: IREE allocates all.
    """

    name: str
    backend: str
    flags: tuple[str, ...]
    pipeline: str = COMMON_PASSES
    drivers: tuple[str, ...] = ()
    vector_bytes: int = 0
    workers: int = 1
    bytes_per_second: float = 1e10
    flops_per_second: float = 1e11
    unsupported: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}), hash=False)
    kernels: bool = False
    shared_bytes: int = 0
    matrix_units: tuple[str, ...] = ()
    host_functions: bool = False
    system_link: bool = False
    reassociates: bool = False
    stored_results: int | None = None
    device_targets: str | None = None
    platform: str = ""
    cached_bytes_per_second: float = 4e10

    @property
    def runs_on(self) -> str:
        """The platform whose devices run its programs, if there are any."""
        return self.platform or self.name

    def derived(self, name: str, *flags: str, **fields: Any) -> Target:
        """Another target, run by the same devices.

        Args:
            name: its name.
            flags: options of iree-compile; ``--option=value`` takes the place of an older value of the option.
            fields: what else differs, such as ``vector_bytes=16`` for a CPU with shorter vectors than this one, or `pipeline`.

        Raises TypeError for a field that targets do not have.
        """
        set_anew = {f.partition("=")[0] for f in flags}
        kept = tuple(f for f in self.flags if f.partition("=")[0] not in set_anew)
        changed: dict[str, Any] = {"platform": self.runs_on, **fields}
        return dataclasses.replace(self, name=name, flags=(*kept, *flags), **changed)

    @property
    def spirv(self) -> bool:
        """Whether its programs are written as SPIR-V, in which some of IREE's forms cannot be written or are wrong."""
        return self.backend in ("vulkan-spirv", "metal-spirv")

    @property
    def on_gpu(self) -> bool:
        """Whether its programs are made by IREE's code generation for GPUs."""
        return self.spirv or self.backend in ("cuda", "rocm")

    def with_flags(self, *flags: str) -> Target:
        """The same target with more flags."""
        return dataclasses.replace(self, flags=(*self.flags, *flags))

    def has_form(self, p: Primitive, dtype: DType) -> bool:
        """Whether quire's kernels for it compute an elementwise primitive of operands of this dtype."""
        return self.kernels and kernel_forms.has_form(p, dtype)

    def fingerprint(self) -> str:
        """Text that tells programs for this target apart: its flags and passes, a CPU's features and workers."""
        parts = [self.name, self.backend, *self.flags, self.pipeline, self.device_targets or ""]
        if "--iree-llvmcpu-target-cpu=host" in self.flags:
            parts += [platform.machine(), *sorted(cpu_features()), f"{self.workers} workers"]
        return "\n".join(parts)


@functools.cache
def cpu_features() -> frozenset[str]:
    """The processor's feature names as the system tells them (x86: "avx2", ...); empty where it does not."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
            match = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", f.read(1 << 16), re.MULTILINE)
    except OSError:
        return frozenset()
    return frozenset(match[1].split()) if match else frozenset()


def vector_bytes(features: frozenset[str] | None = None) -> int:
    """Width of the processor's widest vectors: 64 with AVX-512, 32 with AVX2, otherwise 16."""
    features = cpu_features() if features is None else features
    if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= features:
        return 64
    return 32 if "avx2" in features else 16


# Set by MPI's launchers (Hydra of MPICH, Open MPI): how many of their processes are on this machine.
_PROCESSES_HERE = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE")


def available_cpus() -> int:
    """Processors for this process: those it may run on, shared with the processes that MPI's launcher started beside it.

    A launcher that binds its processes has shared them out itself; then they are fewer than its own.
    """
    if not hasattr(os, "sched_getaffinity"):
        ours = os.cpu_count() or 1
    else:
        ours = len(os.sched_getaffinity(0))
        try:
            if ours < len(os.sched_getaffinity(os.getppid())):
                return ours
        except OSError:  # a parent of somebody else's
            pass
    return max(1, ours // processes_here())


def processes_here() -> int:
    """How many processes MPI's launcher started on this machine; 1 where there is none."""
    counts = (os.environ.get(name, "") for name in _PROCESSES_HERE)
    return next((max(1, int(count)) for count in counts if count.isdigit()), 1)


def _backend(name: str) -> str:
    return f"--iree-hal-target-backends={name}"


def _cpu() -> Target:
    width, cores = vector_bytes(), available_cpus()
    return Target(
        name="cpu",
        backend="llvm-cpu",
        flags=(
            *(_backend("llvm-cpu"), "--iree-llvmcpu-target-cpu=host", *COMMON_FLAGS, "--iree-opt-level=O3"),
            # They are for forms of IREE's that quire does not use, and are read and linked into each module.
            "--iree-llvmcpu-enable-ukernels=none",
        ),
        # What is alike is merged when it is known of each leaf whether it is updated in place.
        pipeline=environment.CPU_PIPELINE.text() or CPU_PASSES,
        drivers=("local-sync", "local-task"),
        vector_bytes=width,
        workers=cores,
        bytes_per_second=1.2e10,
        # two multiply-adds of a vector a cycle at 3 GHz
        flops_per_second=3e9 * 2 * 2 * (width // 4) * cores,
        kernels=True,
        host_functions=True,
        system_link=sys.platform.startswith("linux"),
        # IREE's own pool for local-task (slabs of 64 MB) loses what is freed: of slabs in which results are dropped
        # between two calls it looks into the last one only. What it loses is a thousandth of that for each result.
        stored_results=64 << 10,
    )


# IREE gives "missing GPU target" for sm_90 and later, and *crashes* for a name it does not know: only these pass.
CUDA_TARGETS = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "ampere", "ada", "a100")
VULKAN_TARGETS = (
    "ampere",
    "turing",
    "pascal",
    "ada",
    "rdna2",
    "rdna3",
    "rdna4",
    "adreno",
    "valhall4",
    "vp_android_baseline_2022",
)
ROCM_TARGETS = ("gfx942", "gfx90a", "gfx1100")


def _chosen(variable: Variable, default: str, allowed: tuple[str, ...]) -> str:
    """The GPU named by an environment variable; ValueError for one the compiler does not know (it would crash)."""
    name = variable.text() or default
    if name not in allowed:
        raise ValueError(f"{variable.name}={name}: unknown GPU; IREE knows {', '.join(allowed)}")
    return name


_NO_I128 = MappingProxyType({"complex128": "IREE's SPIR-V backend has no 128-bit elements"})


def vulkan_target(gpu: str | None = None) -> Target:
    """The Vulkan target for a GPU family: `gpu`, QUIRE_VULKAN_TARGET, or "ampere"; for a device that is there see
    `vulkan_target_of`.

    A family is always named: IREE's default is a small Android baseline without f64 that computes i8 and f16 wrongly.

    Raises ValueError for a family that is not among `VULKAN_TARGETS`.
    """
    gpu = gpu or _chosen(environment.VULKAN_TARGET, "ampere", VULKAN_TARGETS)
    if gpu not in VULKAN_TARGETS:
        raise ValueError(f"unknown Vulkan GPU {gpu!r}; IREE knows {', '.join(VULKAN_TARGETS)}")
    return Target(
        name="vulkan",
        backend="vulkan-spirv",
        flags=(_backend("vulkan-spirv"), f"--iree-vulkan-target={gpu}", *COMMON_FLAGS),
        drivers=("vulkan",),
        workers=32,
        bytes_per_second=3e11,
        flops_per_second=1e13,
        unsupported=_NO_I128,
        pipeline=GPU_PASSES,
        kernels=True,
        # The driver's limit is not told; every GPU of these families has so much, what Android demands is the least of Vulkan.
        shared_bytes=16384 if gpu.startswith("vp_android") else 32768,
        host_functions=True,
        reassociates=True,
    )


_NAMED_SUBGROUPS = MappingProxyType(
    {
        "ampere": (32,), "turing": (32,), "pascal": (32,), "ada": (32,), "rdna2": (32, 64), "rdna3": (32, 64),
        "rdna4": (32, 64), "adreno": (64,), "valhall4": (16,), "vp_android_baseline_2022": (64,),
    }
)  # fmt: skip
"""The lanes of a subgroup that IREE takes each family to have."""

# As the family "ampere", without what Vulkan does not promise: matrix units, more than 32 KiB of workgroup memory.
_DEVICE_TARGETS = (
    '[#hal.device.target<"vulkan", [#hal.executable.target<"vulkan-spirv", "vulkan-spirv-fb", {{iree_codegen.target_info = '
    '#iree_gpu.target<arch = "", features = "spirv:v1.6,cap:Shader", wgp = <compute = {compute}, '
    "storage = b64|b32|b16|b8, subgroup = shuffle|arithmetic, dot = {dot}, mma = [], subgroup_size_choices = [{lanes}], "
    "max_workgroup_sizes = [1024, 1024, 1024], max_thread_count_per_workgroup = 1024, "
    "max_workgroup_memory_bytes = 32768, max_workgroup_counts = [65535, 65535, 65535]>>}}>]>]"
)


@dataclasses.dataclass(frozen=True)
class VulkanFacts:
    """What programs for a Vulkan device depend on.

    Attributes:
        name: the device's name.
        subgroup: how many lanes a subgroup has; 0 where the driver does not say.
        features: names of the features that the device has, such as "shaderInt8".
    """

    name: str
    subgroup: int
    features: frozenset[str]

    @classmethod
    def of(cls, text: str) -> VulkanFacts:
        """From IREE's description of a device."""
        name = re.search(r"^name: (.*)$", text, re.MULTILINE)
        size = re.search(r"^subgroup: size=(\d+)", text, re.MULTILINE)
        return cls(
            name[1] if name else "a Vulkan device",
            int(size[1]) if size else 0,
            frozenset(re.findall(r"(\w+)=yes", text)),
        )


def vulkan_target_of(facts: VulkanFacts) -> Target:
    """The target for a device that is there.

    IREE's reductions are written for subgroups of one size and do not check it: on another they are wrong without a word.
    A device with the 32 lanes of the default family is compiled for by that family, any other by its own size.

    Raises:
        UnsupportedError: QUIRE_VULKAN_TARGET names a family with subgroups of another size.
    """
    named = environment.VULKAN_TARGET.text()
    family = named or "ampere"
    target = vulkan_target(family)
    if facts.subgroup in (0, *_NAMED_SUBGROUPS[family]):
        return target
    if named:
        sizes = " or ".join(map(str, _NAMED_SUBGROUPS[family]))
        right = [f for f, choices in _NAMED_SUBGROUPS.items() if facts.subgroup in choices]
        instead = f", or name one of {', '.join(right)}" if right else ""
        raise UnsupportedError(
            f"QUIRE_VULKAN_TARGET={named}: its programs need subgroups of {sizes} lanes, and {facts.name} has "
            f"{facts.subgroup}: sums, maxima and products would be wrong. Unset the variable, and programs are compiled for "
            f"the device itself{instead}"
        )
    compute = ["fp64", "fp32", *(["fp16"] if "shaderFloat16" in facts.features else []), "int64", "int32", "int16"]
    compute += ["int8"] if "shaderInt8" in facts.features else []
    dot = "dp4xi8toi32" if "shaderIntegerDotProduct" in facts.features else "none"
    text = _DEVICE_TARGETS.format(compute="|".join(compute), dot=dot, lanes=facts.subgroup)
    return dataclasses.replace(target, device_targets=text)


def cuda_target(gpu: str | None = None) -> Target:
    """The CUDA target: `gpu`, QUIRE_CUDA_TARGET, or sm_80, whose PTX newer GPUs translate too.

    Raises ValueError for a GPU that is not among `CUDA_TARGETS`.
    """
    gpu = gpu or _chosen(environment.CUDA_TARGET, "sm_80", CUDA_TARGETS)
    if gpu not in CUDA_TARGETS:
        raise ValueError(f"unknown CUDA GPU {gpu!r}; IREE knows {', '.join(CUDA_TARGETS)}")
    return Target(
        name="cuda",
        backend="cuda",
        flags=(_backend("cuda"), f"--iree-cuda-target={gpu}", *COMMON_FLAGS),
        pipeline=GPU_PASSES,
        drivers=("cuda",),
        kernels=True,
        shared_bytes=49152,
        matrix_units=() if gpu in ("sm_60", "sm_70") else ("i8",) if gpu == "sm_75" else ("tf32", "i8"),
        workers=108,
        bytes_per_second=1.5e12,
        flops_per_second=2e13,
    )


def _compile_only() -> tuple[Target, ...]:
    rocm = _chosen(environment.ROCM_TARGET, "gfx942", ROCM_TARGETS)
    return (
        Target(
            "rocm",
            "rocm",
            (_backend("rocm"), f"--iree-rocm-target={rocm}", *COMMON_FLAGS),
            workers=100,
            bytes_per_second=1.5e12,
            flops_per_second=2e13,
        ),
        Target(
            "metal",
            "metal-spirv",
            (_backend("metal-spirv"), *COMMON_FLAGS),
            workers=32,
            bytes_per_second=2e11,
            flops_per_second=5e12,
            reassociates=True,
            unsupported=MappingProxyType(
                {"float64": "Metal has no 64-bit floats", "complex128": "Metal has no 64-bit floats"}
            ),
        ),
        Target("vmvx", "vmvx", (_backend("vmvx"), *COMMON_FLAGS), bytes_per_second=1e9, flops_per_second=1e9),
    )


TARGETS: dict[str, Target] = {}
"""The targets by name."""


def register_target(target: Target) -> Target:
    """Adds a target; ValueError when its name is taken."""
    if target.name in TARGETS:
        raise ValueError(f"a target named {target.name!r} exists")
    TARGETS[target.name] = target
    return target


for _target in (_cpu(), vulkan_target(), cuda_target(), *_compile_only()):
    register_target(_target)


ENTRY_POINTS = "quire.targets"


@functools.cache
def _load_entry_points() -> None:
    """Register the targets of other packages, once. One that is none is warned of."""
    for entry, value in load_entry_points(ENTRY_POINTS):
        try:
            target = value if isinstance(value, Target) else value()
            if not isinstance(target, Target):
                raise TypeError(f"it gives {target!r}, which is not a Target")
            if target.name != entry.name:
                raise ValueError(f"it gives the target {target.name!r}: an entry is named as its target")
            if TARGETS.get(target.name) != target:
                register_target(target)
        except Exception as error:  # whatever a package of somebody's raises
            warn_of(entry, ENTRY_POINTS, f"{type(error).__name__}: {error}")


def registered_targets() -> dict[str, Target]:
    """All targets by name, also those of other packages."""
    _load_entry_points()
    return dict(TARGETS)


def get_target(name: str) -> Target:
    """The target of that name; ValueError listing the names otherwise."""
    found = TARGETS.get(name)
    if found is None:  # the metadata of all packages is read when a name is asked for that quire does not have
        known = registered_targets()
        found = known.get(name)
        if found is None:
            raise ValueError(f"unknown target {name!r}; there are {', '.join(known)}")
    return found
