"""How the outer loops of a kernel are mapped: workgroups and vectors, or workgroups and threads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: Workgroups for each processor of a CPU.
GROUPS_A_WORKER = 4


@dataclass(frozen=True)
class KernelTarget:
    """What a template must know of the machine.

    ``vector_bytes`` is one vector register (16 for baseline x86-64 and aarch64, 32 for AVX2, 64 for AVX-512).
    ``workgroups`` bounds how many pieces a CPU kernel splits independent rows into: a few for each core, so
    that uneven rows even out, while scratch memory (one piece each) stays small. ``threads`` is the size of a
    GPU workgroup and ``shared_bytes`` the workgroup memory that most kernels take, so that several workgroups have room;
    ``most_shared_bytes`` is all that there is. ``matrix_units`` are the names of what its matrix units multiply
    ("tf32", "i8"). ``reassociates`` says that the driver takes sums of floats for
    sums of real numbers; the builder then hides from it what an error-free sum is made of.
    """

    kind: Literal["cpu", "gpu"] = "cpu"
    vector_bytes: int = 32
    workgroups: int = 16
    threads: int = 128
    shared_bytes: int = 16384
    most_shared_bytes: int = 16384
    matrix_units: tuple[str, ...] = ()
    reassociates: bool = False

    @property
    def workers(self) -> int:
        """Processors of a CPU that take workgroups: each takes several in turn."""
        return max(1, self.workgroups // GROUPS_A_WORKER)

    @property
    def registers(self) -> int:
        """Vector registers of a CPU: 32 with AVX-512, 16 with earlier x86 vectors."""
        return 32 if self.vector_bytes >= 64 else 16

    def groups(self, work: int, least: int, pieces: int | None = None) -> int:
        """How many workgroups share some work: each has ``least`` of it or more, and one of the ``pieces`` or more."""
        most = self.workgroups if pieces is None else min(pieces, self.workgroups)
        return max(1, min(most, work // least))

    def lanes(self, bits: int) -> int:
        """Elements of ``bits`` bits in one vector register."""
        return max(1, self.vector_bytes * 8 // bits)


def workgroups(count: int) -> str:
    """So many workgroups, in words."""
    return f"{count} workgroups" if count > 1 else "one workgroup"


CPU_BASELINE = KernelTarget(vector_bytes=16)
CPU_AVX2 = KernelTarget(vector_bytes=32)
CPU_AVX512 = KernelTarget(vector_bytes=64)
GPU = KernelTarget(kind="gpu", vector_bytes=16)
