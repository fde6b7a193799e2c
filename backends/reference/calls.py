"""Reference rules of calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.checks import Site, exception_of
from quire.ir.errors import CallbackResultError
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import calls

from .engine import eval_jaxpr
from .rules import reference


@reference(calls.jit_p)
def jit(*operands: Any, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]) -> Any:
    return eval_jaxpr(jaxpr, *operands)


@reference(calls.checkpoint_p)
def checkpoint(*operands: Any, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool, policy: Any) -> Any:
    return eval_jaxpr(jaxpr, *operands)


@reference(calls.fusion_p)
def fusion(*operands: Any, jaxpr: ClosedJaxpr, **_: Any) -> Any:
    return eval_jaxpr(jaxpr, *operands)


@reference(calls.name_p)
def name(x: Any, *, name: str) -> Any:
    return x


@reference(calls.custom_jvp_call_p, calls.custom_vjp_call_p, calls.custom_vmap_call_p)
def custom_call(*operands: Any, call_jaxpr: ClosedJaxpr, **_: Any) -> Any:
    return eval_jaxpr(call_jaxpr, *operands)


@reference(calls.custom_lin_p)
def custom_lin(*operands: Any, name: str, **_: Any) -> Any:
    raise TypeError(
        f"custom_vjp {name}: a function with a reverse rule has no forward derivative: use custom_jvp, or reverse mode (grad, vjp)"
    )


@reference(calls.custom_linear_solve_p)
def custom_linear_solve(*operands: Any, const_lengths: tuple[int, int, int, int], jaxprs: tuple[Any, ...]) -> Any:
    start = const_lengths[0] + const_lengths[1]
    args = (*operands[start : start + const_lengths[2]], *operands[sum(const_lengths) :])
    return eval_jaxpr(jaxprs[2], *args)


def _call_python(callback: Callable[..., Any], operands: Sequence[Any], result_avals: Sequence[ShapedArray]) -> Any:
    with np.errstate(**_DEFAULT_ERRSTATE):  # the engine's own settings are not the user's
        out = callback(*operands)
    if not result_avals:
        return []
    for i, (x, want) in enumerate(zip(out, result_avals)):
        if np.shape(x) != want.shape:
            raise CallbackResultError(
                f"host function {getattr(callback, '__name__', callback)} returned an array of shape {list(np.shape(x))} as "
                f"result {i}; {want.short()} was declared (dimensions of vmap included)"
            )
    return list(out)


_DEFAULT_ERRSTATE: Any = np.geterr()


@reference(calls.pure_callback_p)
def pure_callback(*operands: Any, callback: Any, result_avals: tuple[ShapedArray, ...], vmap_method: str | None) -> Any:
    return _call_python(callback, operands, result_avals)


@reference(calls.ffi_call_p)
def ffi_call(
    *operands: Any, function: Any, result_avals: tuple[ShapedArray, ...], has_side_effect: bool, vmap_method: str | None
) -> Any:
    results = [np.zeros(a.shape, a.dtype) for a in result_avals]
    function(*map(np.ascontiguousarray, operands), *results)
    return results


@reference(calls.kernel_call_p)
def kernel_call(
    *operands: Any, kernel: Any, reference: ClosedJaxpr | None, result_avals: tuple[ShapedArray, ...]
) -> Any:
    if reference is None:
        raise TypeError(
            f"kernel {kernel!r} has no reference that is made of quire's operations, by which it could be evaluated"
        )
    return eval_jaxpr(reference, *operands)


reference.absent("what it computes is StableHLO: it is compiled", calls.stablehlo_call_p)


@reference(calls.io_callback_p)
def io_callback(*operands: Any, callback: Any, result_avals: tuple[ShapedArray, ...], ordered: bool) -> Any:
    return _call_python(callback, operands, result_avals)


@reference(calls.debug_callback_p)
def debug_callback(*operands: Any, callback: Any, ordered: bool) -> Any:
    return _call_python(callback, operands, ())


@reference(calls.check_p)
def check(code: Any, *payload: Any, sites: tuple[Site, ...], debug: bool) -> Any:
    error = None if debug else exception_of(sites, code, payload)
    if error is not None:
        raise error
    return []
