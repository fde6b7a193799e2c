"""Calling quire's own kernels from lowering rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray

from ..kernels import Kernel, KernelChain, KernelTarget, Spec
from ..kernels.copy import copy
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


def call(
    ctx: Ctx, kernel: Kernel | KernelChain, operands: Sequence[Value], scalars: Sequence[int] = (), copies: bool = True
) -> list[Value]:
    """Put a kernel into the module and call it. Operands that it updates in place are copied if they are arguments.

    `scalars` are the index numbers that it takes after its operands. Without `copies` nothing is copied: the caller
    knows that nobody else reads the operands afterwards.
    """
    for part in [step.kernel for step in kernel.steps] if isinstance(kernel, KernelChain) else [kernel]:
        _insert(ctx, part)
    written = {operand for _, operand in kernel.tied} if copies else set[int]()
    values = [_own(ctx, x, kernel.operands[i]) if i in written else x for i, x in enumerate(operands)]
    location = ctx.module.location(ctx.source)
    if isinstance(kernel, KernelChain):
        return kernel.call(values, location)
    return kernel.call(values, location, scalars)


def _insert(ctx: Ctx, kernel: Kernel) -> None:
    """Put a kernel's executable into the module, once."""
    if kernel.name not in ctx.module.kernels:
        ctx.module.kernels.add(kernel.name)
        kernel.insert(ctx.module.module)


def _own(ctx: Ctx, x: Value, operand: Spec) -> Value:
    """x, or a copy of it where it may not be written.

    IREE 3.13 lets two kernels that update one value in place do so on the same memory, and takes two transfers of one
    value for one: hence a copy by a kernel, each call with a number of its own.
    """
    target = kernel_target(ctx.target)
    if not ctx.is_shared(x) or target is None or target.kind != "cpu" or not operand.size:
        return ctx.writable(x)
    kernel = copy(operand, target)
    _insert(ctx, kernel)
    ctx.module.copies += 1
    return kernel.call([x], ctx.module.location(ctx.source), [ctx.module.copies])[0]
