"""StableHLO lowering of calls: nested jaxprs are emitted in place, Python functions become imports of the module."""

from __future__ import annotations

from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import calls
from quire.ir.source import where

from . import hlo
from .fusions import as_kernel
from .host_calls import emit_host_call
from .inserted_modules import insert_module
from .kernel_calls import call, chosen
from .loop_kernels import update_as_kernel
from .lowering import Ctx, lower_jaxpr, lowering


@lowering(calls.jit_p)
def jit(ctx: Ctx, *operands: Any, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]) -> Any:
    return lower_jaxpr(ctx.module, jaxpr.jaxpr, (), operands, ctx.source)


@lowering(calls.checkpoint_p)
def checkpoint(
    ctx: Ctx, *operands: Any, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool, policy: Any
) -> Any:
    if differentiated and prevent_cse and operands:
        # Without the barrier IREE would merge the second computation with the first and keep its results.
        operands = tuple(hlo.optimization_barrier(*operands))
    return lower_jaxpr(ctx.module, jaxpr.jaxpr, (), operands, ctx.source)


@lowering(calls.fusion_p)
def fusion(ctx: Ctx, *operands: Any, kind: str, jaxpr: ClosedJaxpr, **_: Any) -> Any:
    make = update_as_kernel if kind == "update" else as_kernel
    results = chosen(ctx, lambda target: make(ctx, operands, target))
    if results is not None:
        return results
    return lower_jaxpr(ctx.module, jaxpr.jaxpr, (), operands, ctx.source)


@lowering(calls.name_p)
def name(ctx: Ctx, x: Any, *, name: str) -> Any:
    return x


@lowering(calls.custom_jvp_call_p, calls.custom_vjp_call_p, calls.custom_vmap_call_p)
def custom_call(ctx: Ctx, *operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Any:
    return lower_jaxpr(ctx.module, call_jaxpr.jaxpr, (), operands, ctx.source)


@lowering(calls.custom_linear_solve_p)
def custom_linear_solve(
    ctx: Ctx, *operands: Any, const_lengths: tuple[int, int, int, int], jaxprs: tuple[Any, ...]
) -> Any:
    start = const_lengths[0] + const_lengths[1]
    args = (*operands[start : start + const_lengths[2]], *operands[sum(const_lengths) :])
    return lower_jaxpr(ctx.module, jaxprs[2].jaxpr, (), args, ctx.source)


lowering.absent(
    "it is the derivative of a custom_vjp function, which has no forward mode: it exists only until it is transposed",
    calls.custom_lin_p,
)

# -- host functions ----------------------------------------------------------------------------------------------------


@lowering(calls.pure_callback_p)
def pure_callback(
    ctx: Ctx, *operands: Any, callback: Any, result_avals: tuple[ShapedArray, ...], vmap_method: str | None
) -> Any:
    return emit_host_call(ctx, callback, operands, result_avals, name="pure_callback")


@lowering(calls.ffi_call_p)
def ffi_call(
    ctx: Ctx, *operands: Any, function: Any, result_avals: tuple[ShapedArray, ...], has_side_effect: bool,
    vmap_method: str | None,
) -> Any:  # fmt: skip
    function.check(ctx.target.runs_on)
    return emit_host_call(ctx, function, operands, result_avals, name=f"ffi_{function.name}", fills=bool(result_avals))


@lowering(calls.stablehlo_call_p)
def stablehlo_call(
    ctx: Ctx, *operands: Any, name: str, module: str, callbacks: tuple[Any, ...], result_avals: tuple[ShapedArray, ...]
) -> Any:
    return insert_module(ctx, operands, name, module, callbacks, result_avals)


@lowering(calls.kernel_call_p)
def kernel_call(
    ctx: Ctx, *operands: Any, kernel: Any, reference: ClosedJaxpr | None, result_avals: tuple[ShapedArray, ...]
) -> Any:
    ctx.chose(kernel.kernel.reason)
    return call(ctx, kernel.kernel, operands)


@lowering(calls.io_callback_p)
def io_callback(ctx: Ctx, *operands: Any, callback: Any, result_avals: tuple[ShapedArray, ...], ordered: bool) -> Any:
    return _with_effect(ctx, callback, operands, result_avals, "io_callback")


@lowering(calls.check_p)
def check(ctx: Ctx, code: Any, *payload: Any, sites: tuple[Any, ...], debug: bool) -> Any:
    if debug:
        return []
    raise ValueError(
        f"checkify.check: a check was compiled that nothing collects{where(ctx.source)}: apply checkify.checkify to the "
        "function inside compile, quire.compile(checkify.checkify(f)), which returns the error beside the result"
    )


@lowering(calls.debug_callback_p)
def debug_callback(ctx: Ctx, *operands: Any, callback: Any, ordered: bool) -> Any:
    return _with_effect(ctx, callback, operands, (), "debug_callback")


def _with_effect(ctx: Ctx, callback: Any, operands: Any, result_avals: tuple[ShapedArray, ...], name: str) -> list[Any]:
    return emit_host_call(ctx, callback, operands, result_avals, name=name)
