"""Calling quire's own kernels from lowering rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray

from ..kernels import Kernel, KernelChain, KernelTarget, Spec
from ..targets import Target
from .lowering import Ctx

Value = Any

_GPUS = ("vulkan-spirv", "cuda")


def kernel_target(target: Target) -> KernelTarget | None:
    """How kernels are formed for a target; None where there are none."""
    if not target.kernels:
        return None
    if target.backend in _GPUS:
        return KernelTarget(kind="gpu", vector_bytes=16)
    return KernelTarget(vector_bytes=target.vector_bytes or 16, workgroups=4 * target.workers)


def spec(aval: ShapedArray) -> Spec:
    """The shape and dtype of an aval as kernels take them."""
    return Spec.of(aval.shape, aval.dtype)


def call(ctx: Ctx, kernel: Kernel | KernelChain, operands: Sequence[Value]) -> list[Value]:
    """Put a kernel into the module and call it. Operands that it updates in place are copied if they are arguments."""
    kernel.insert(ctx.module.module)
    written = {operand for _, operand in kernel.tied}
    values = [ctx.writable(x) if i in written else x for i, x in enumerate(operands)]
    return kernel.call(values, ctx.module.location(ctx.source))
