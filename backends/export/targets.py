"""What programs can be exported for: processors by names that say what they can do, not by what this machine is."""

from __future__ import annotations

import dataclasses
import platform
import sys
from collections.abc import Mapping
from types import MappingProxyType

from quire.ir.errors import ExportError

from ..targets import COMMON_FLAGS, TARGETS, Target, vector_bytes


@dataclasses.dataclass(frozen=True)
class ExportTarget:
    """A processor, and the tools for it.

    Attributes:
        name: as users say it.
        triple: LLVM's name of the machine.
        cpu, features: what code may use, as LLVM names it.
        vector_bytes: the width of its vectors.
        compiler: the C compiler of the Makefile.
        emulator: what runs its programs elsewhere.
        language: "c" or "javascript".
        unsupported: dtype name to the reason why a program with it cannot be compiled.
    """

    name: str
    triple: str
    cpu: str = ""
    features: str = ""
    vector_bytes: int = 16
    compiler: str = "cc"
    emulator: str = ""
    language: str = "c"
    unsupported: Mapping[str, str] = dataclasses.field(default_factory=lambda: MappingProxyType({}), hash=False)

    def flags(self) -> tuple[str, ...]:
        """The options of iree-compile."""
        return (
            "--iree-hal-target-backends=llvm-cpu",
            f"--iree-llvmcpu-target-triple={self.triple}",
            *([f"--iree-llvmcpu-target-cpu={self.cpu}"] if self.cpu else []),
            *([f"--iree-llvmcpu-target-cpu-features={self.features}"] if self.features else []),
            *COMMON_FLAGS,
            "--iree-opt-level=O3",
            "--iree-llvmcpu-enable-ukernels=none",
            "--iree-llvmcpu-link-embedded=false",
            "--iree-llvmcpu-link-static",
            "--iree-hal-executable-debug-level=0",  # no paths of this machine in the library
        )

    def target(self, threads: int) -> Target:
        """What programs are lowered for; the passes are those of the CPU.

        For this machine kernels are divided as quire's own are, which decides the order of some sums.
        """
        workers = threads or (TARGETS["cpu"].workers if self.name == "host" else 1)
        return dataclasses.replace(
            TARGETS["cpu"], name=self.name, platform="cpu", flags=self.flags(), drivers=(),
            vector_bytes=self.vector_bytes, workers=workers, host_functions=False, stored_results=None,
            system_link=False, unsupported=self.unsupported,
        )  # fmt: skip


_NO_HALF = "LLVM gives conversions of half floats two types in WebAssembly; use float32, or bfloat16 in memory"
_X86 = "x86_64-unknown-linux-gnu"
EXPORT_TARGETS = MappingProxyType(
    {
        t.name: t
        for t in (
            ExportTarget("x86-64-v2", _X86, "x86-64-v2", vector_bytes=16),
            ExportTarget("x86-64-v3", _X86, "x86-64-v3", vector_bytes=32),
            ExportTarget("x86-64-v4", _X86, "x86-64-v4", vector_bytes=64),
            ExportTarget(
                "aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon", compiler="aarch64-linux-gnu-gcc",
                emulator="qemu-aarch64",
            ),
            ExportTarget(
                "riscv64", "riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c",
                compiler="riscv64-linux-gnu-gcc", emulator="qemu-riscv64",
            ),
            ExportTarget(
                "wasm32", "wasm32-unknown-unknown", "", "+simd128,+bulk-memory,+nontrapping-fptoint",
                language="javascript", unsupported=MappingProxyType({"float16": _NO_HALF}),
            ),
        )
    }
)  # fmt: skip
"""The targets by name; ``host`` besides is this machine's own processor."""
DEFAULT = "x86-64-v3"


def export_target(name: str) -> ExportTarget:
    """The target of that name; ``host`` is this machine.

    Raises:
        ExportError: there is none, or this machine's processor is none for which objects can be linked.
    """
    if name == "host":
        machine = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
            platform.machine()
        )
        if machine is None or not sys.platform.startswith("linux"):
            raise ExportError(
                f"target 'host' is for Linux on x86-64 and aarch64, and this is {sys.platform} on {platform.machine()}; "
                f"name one of {', '.join(EXPORT_TARGETS)}"
            )
        return ExportTarget("host", f"{machine}-unknown-linux-gnu", "host", vector_bytes=vector_bytes())
    found = EXPORT_TARGETS.get(name)
    if found is None:
        raise ExportError(f"unknown target {name!r} of an export; there are host, {', '.join(EXPORT_TARGETS)}")
    return found
