"""Kernels that users write (`quire.kernel`): how they are finished for a target, and called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.errors import UnsupportedError

from ..kernels import Kernel, KernelTarget, NoKernel
from ..kernels.blocks.building import Lanes, build
from ..targets import Target
from .kernel_calls import kernel_target, made_for
from .loop_kernels import expander

_GPUS = ("vulkan-spirv", "cuda")


@dataclass(frozen=True)
class FinishedKernel:
    """A kernel as the parameter of an equation, printed by its name, which has a digest of its text.

    Attributes:
        kernel: the text.
        again: finishes it for lanes that have one more dimension: their number, and which operands have it.
    """

    kernel: Kernel
    again: Callable[[int, tuple[bool, ...]], FinishedKernel] = field(compare=False, repr=False)

    def batched(self, size: int, operands: tuple[bool, ...]) -> FinishedKernel:
        """The kernel of so many lanes, for operands of which some have them as a first dimension."""
        return self.again(size, operands)

    def __repr__(self) -> str:
        return self.kernel.name


def finished(
    name: str, function: Callable[..., None], options: tuple[tuple[str, Any], ...], operands: Sequence[ShapedArray],
    results: Sequence[ShapedArray], grid: tuple[int, ...], lanes: Lanes, target: Target,
) -> FinishedKernel:  # fmt: skip
    """A user's kernel for some shapes and a target.

    Raises:
        KernelError: the kernel's function makes a mistake; the message has its line.
        UnsupportedError: kernels have no form of something that it does, or the target has no kernels.
    """

    def make(form: KernelTarget) -> Kernel:
        return build(name, function, dict(options), operands, results, grid, lanes, form, expander(target))

    kernel = made_for(block_target, target, make)
    if isinstance(kernel, NoKernel):
        raise UnsupportedError(f"kernel {name} for the target {target.name}: {kernel.reason}")

    def again(size: int, has: tuple[bool, ...]) -> FinishedKernel:
        more = Lanes((size, *lanes.sizes), (has, *lanes.operands))
        return finished(name, function, options, operands, results, grid, more, target)

    return FinishedKernel(kernel, again)


def block_target(target: Target) -> KernelTarget:
    """How kernels of blocks are formed for a target: GPUs have them where quire has no others. Raises NoKernel elsewhere."""
    if target.backend in _GPUS:
        return KernelTarget(kind="gpu", vector_bytes=16)
    if target.backend != "llvm-cpu":
        raise NoKernel("there are kernels of blocks for CPUs, Vulkan and CUDA")
    return kernel_target(target)


__all__ = ["FinishedKernel", "block_target", "finished"]
