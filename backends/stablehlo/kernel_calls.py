"""Calling quire's own kernels from lowering rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from quire.ir.avals import ShapedArray
from quire.ir.primitives.calls import fusion_p

from ..kernels import Kernel, KernelChain, KernelTarget, NoKernel, Spec
from ..kernels.core.packing import Packing
from ..kernels.core.target import GROUPS_A_WORKER
from ..targets import Target
from . import hlo
from .choices import KernelUse
from .lowering import Ctx

Value = Any
T = TypeVar("T")

_GPUS = ("vulkan-spirv", "cuda")


def attempt(ctx: Ctx, make: Callable[[KernelTarget], T]) -> T | NoKernel:
    """What `make` makes for the equation's target, or why it makes no kernel.

    Here, and in `chosen`, the choice between a kernel and StableHLO is made: nobody else catches `NoKernel`.
    """
    return made_for(kernel_target, ctx.target, make)


def made_for(form: Callable[[Target], KernelTarget], target: Target, make: Callable[[KernelTarget], T]) -> T | NoKernel:
    """What `make` makes for a target, of which `form` says how kernels are formed; or why it makes no kernel."""
    try:
        return make(form(target))
    except NoKernel as no:
        return no


def chosen(ctx: Ctx, make: Callable[[KernelTarget], T], otherwise: str = "no kernel") -> T | None:
    """As `attempt`, but None where there is no kernel, with the reason recorded beside the equation."""
    made = attempt(ctx, make)
    if isinstance(made, NoKernel):
        ctx.chose(f"{otherwise}: {made.reason}")
        return None
    return made


def kernel_target(target: Target) -> KernelTarget:
    """How kernels are formed for a target. Raises NoKernel where there are none."""
    if not target.kernels:
        raise NoKernel("the target has no kernels")
    if target.backend in _GPUS:
        most = target.shared_bytes or KernelTarget.shared_bytes
        return KernelTarget(
            "gpu", 16, most_shared_bytes=most, matrix_units=target.matrix_units, reassociates=target.reassociates
        )
    return KernelTarget(vector_bytes=target.vector_bytes or 16, workgroups=GROUPS_A_WORKER * target.workers)


def spec(aval: ShapedArray) -> Spec:
    """The shape and dtype of an aval as kernels take them."""
    return Spec.of(aval.shape, aval.dtype)


def call(ctx: Ctx, kernel: Kernel | KernelChain, operands: Sequence[Value], scalars: Sequence[int] = ()) -> list[Value]:
    """Put a kernel into the module and call it; `scalars` are the index numbers that it takes after its operands.

    Operands that it updates in place are values all the same: the plan of the program copies what is needed later.
    """
    path = ctx.path
    for part in [step.kernel for step in kernel.steps] if isinstance(kernel, KernelChain) else [kernel]:
        _insert(ctx, part)
        ctx.module.kernel_uses.append(KernelUse(path, ctx.source, part.name, part.reason, len(part.text)))
    whole = next((e for e in path if e.primitive is fusion_p), ctx.eqn)
    location = ctx.module.location_of(whole, ctx.source)
    if isinstance(kernel, KernelChain):
        return kernel.call(list(operands), location)
    if kernel.packing is None:
        return kernel.call(list(operands), location, scalars)
    return _apart(kernel.packing, kernel.call(_together(kernel.packing, operands), location, scalars))


def _together(packing: Packing, operands: Sequence[Value]) -> list[Value]:
    """The kernel's operands, made of the caller's."""
    flat = [hlo.reshape(x, (spec.size,)) for x, spec in zip(operands, packing.operands, strict=True)]
    return [operands[g[0]] if len(g) == 1 else hlo.concatenate([flat[i] for i in g], 0) for g in packing.operand_groups]


def _apart(packing: Packing, results: Sequence[Value]) -> list[Value]:
    """The caller's results, of those of the kernel."""
    out: list[Value] = []
    for (number, at), spec in zip(packing.places(results=True), packing.results):
        x = results[number]
        if len(packing.result_groups[number]) > 1:
            x = hlo.reshape(hlo.slice(x, (at,), (at + spec.size,)), spec.shape)
        out.append(x)
    return out


def _insert(ctx: Ctx, kernel: Kernel) -> None:
    """Put a kernel's executable into the module, once."""
    if kernel.name not in ctx.module.kernels:
        ctx.module.kernels.add(kernel.name)
        kernel.insert(ctx.module.module)
