"""Calls: equations that apply a nested jaxpr, or a Python function, as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from .. import dtypes
from ..avals import ShapedArray
from ..checks import Site
from ..jaxpr import NO_EFFECTS, ClosedJaxpr, Effects
from ..primitive import primitive

Value = Any

# The effects of host functions. An equation with any effect is never removed, and keeps its place among the others.
IO_EFFECT, ORDERED_IO_EFFECT = "io", "ordered io"
DEBUG_EFFECT, ORDERED_DEBUG_EFFECT = "debug", "ordered debug"


def nested_effects(params: Mapping[str, Any]) -> Effects:
    """The effects of the nested jaxpr of parameter `jaxpr`."""
    return params["jaxpr"].effects


def check_call(name: str, jaxpr: ClosedJaxpr, operands: tuple[ShapedArray, ...]) -> None:
    """Raise TypeError unless the operands fit the nested jaxpr's inputs (weak types aside)."""
    want = [a.strong() for a in jaxpr.in_avals]
    if [a.strong() for a in operands] != want:
        raise TypeError(
            f"{name}: the nested jaxpr takes ({', '.join(a.short() for a in want)}), "
            f"got ({', '.join(a.short() for a in operands)})"
        )


@primitive("jit", multiple_results=True, effects=nested_effects)
def jit_p(
    *operands: ShapedArray, name: str, jaxpr: ClosedJaxpr, inline: bool, donated_invars: tuple[bool, ...]
) -> tuple[ShapedArray, ...]:
    """Apply a compiled function's jaxpr; outside any trace the program is compiled and run."""
    check_call("jit", jaxpr, operands)
    return tuple(jaxpr.out_avals)


# -- rematerialisation ------------------------------------------------------------------------------------------------

# policy(primitive, *operand avals, **params) -> whether the results may be saved for the backward pass.
Policy: TypeAlias = Callable[..., bool]


@primitive("checkpoint", multiple_results=True, effects=nested_effects)
def checkpoint_p(
    *operands: ShapedArray, jaxpr: ClosedJaxpr, prevent_cse: bool, differentiated: bool, policy: Policy | None
) -> tuple[ShapedArray, ...]:
    """Apply a jaxpr whose intermediate values are computed again in the backward pass instead of being kept.

    `policy` says which results may be kept nevertheless. In the backward pass, `differentiated` is set, and with
    `prevent_cse` the computation is kept apart from the forward one (else it would be merged with it).
    """
    check_call("checkpoint", jaxpr, operands)
    return tuple(jaxpr.out_avals)


# -- clusters of the fusion pass ----------------------------------------------------------------------------------------


@primitive("fusion", multiple_results=True, effects=nested_effects)
def fusion_p(
    *operands: ShapedArray, kind: str, jaxpr: ClosedJaxpr, space: tuple[int, ...], axes: tuple[int, ...]
) -> tuple[ShapedArray, ...]:
    """Apply a cluster of equations that a backend should compute as one kernel, made by the fuse pass.

    `kind` names what it is. Of a ``"reduction"``, `space` is the shape of the values before reduction and `axes` are
    the dimensions that are reduced. A ``"contraction"`` is one dot_general or convolution of operands, and elementwise
    equations on values of its result's shape, which is `space`; it has no `axes`. An ``"attention"`` is a product, a
    reduction of its rows and the product that sums over these; `space` and `axes` are the reduction's. An
    ``"indexing"`` is light equations that compute index vectors, whose shape is `space`, and last the gather or scatter
    that reads them, whose array is the first operand; it has no `axes`.
    The values of an ``"elementwise"`` cluster have as many elements as `space`, or are scalars that it takes; it has no
    `axes` either. Nor has an ``"update"``: `space` is the shape of all values that are no scalars, and result i may take
    the memory of operand i, a donated argument. An ``"alike"`` has several of one of these two kinds inside, which compute
    the same but for their sizes, and none of which reads another's results; it has no `space` and no `axes`.
    """
    check_call("fusion", jaxpr, operands)
    return tuple(jaxpr.out_avals)


@primitive("name")
def name_p(x: ShapedArray, *, name: str) -> ShapedArray:
    """x itself, under a name that a checkpoint policy can select (`checkpoint_name`)."""
    return x


def name(x: Value, name: str) -> Value:
    """x under a name for checkpoint policies."""
    return name_p.bind(x, name=name)


# -- functions with derivatives of their own ---------------------------------------------------------------------------


def _call_effects(params: Mapping[str, Any]) -> Effects:
    return params["call_jaxpr"].effects


@primitive("custom_jvp_call", multiple_results=True, effects=_call_effects)
def custom_jvp_call_p(
    *operands: ShapedArray,
    name: str,
    call_jaxpr: ClosedJaxpr,
    jvp_jaxpr_fun: Callable[..., Any],
    num_consts: int,
    symbolic_zeros: bool,
) -> tuple[ShapedArray, ...]:
    """Apply `call_jaxpr`; its derivative is the user's.

    The first `num_consts` operands are captured values. ``jvp_jaxpr_fun(primals, tangents)`` takes the others, flat,
    and one tangent for each (a value, or a `passes.ad.Zero` where `symbolic_zeros`), and returns the list of
    results and the list of their tangents (values or Zero). It is hashable; two equal ones do the same.
    """
    check_call(f"custom_jvp_call {name}", call_jaxpr, operands)
    return tuple(call_jaxpr.out_avals)


@primitive("custom_vjp_call", multiple_results=True, effects=_call_effects)
def custom_vjp_call_p(
    *operands: ShapedArray,
    name: str,
    call_jaxpr: ClosedJaxpr,
    fwd_jaxpr_thunk: Callable[..., Any],
    bwd: Callable[..., Any],
    num_consts: int,
    symbolic_zeros: bool,
) -> tuple[ShapedArray, ...]:
    """Apply `call_jaxpr`; its reverse derivative is the user's.

    The first `num_consts` operands are captured values. ``fwd_jaxpr_thunk(args, nonzeros)`` takes the others, flat,
    with one bool for each (whether it is differentiated), and returns the list of results and the list of residuals.
    ``bwd(residuals, cotangents)`` returns one cotangent for each argument (a value, a Zero or None for zero);
    cotangents are values, or `passes.ad.Zero` where `symbolic_zeros`.
    """
    check_call(f"custom_vjp_call {name}", call_jaxpr, operands)
    return tuple(call_jaxpr.out_avals)


@primitive("custom_lin", multiple_results=True)
def custom_lin_p(
    *operands: ShapedArray,
    name: str,
    bwd: Callable[..., Any],
    num_res: int,
    out_avals: tuple[ShapedArray, ...],
    in_tangents: tuple[ShapedArray | None, ...],
    symbolic_zeros: bool,
) -> tuple[ShapedArray, ...]:
    """The derivative of the `custom_vjp_call` of a name, of which only the transpose, `bwd`, is known.

    Operands: the residuals, then the tangents that are not zero; `in_tangents` tells for each argument of the
    function its tangent's aval where the tangent is an operand, else None.
    """
    return out_avals


@primitive("custom_vmap_call", multiple_results=True, effects=_call_effects)
def custom_vmap_call_p(
    *operands: ShapedArray, name: str, call_jaxpr: ClosedJaxpr, rule: Callable[..., Any], num_consts: int
) -> tuple[ShapedArray, ...]:
    """Apply `call_jaxpr`; its batching rule is the user's.

    The first `num_consts` operands are captured values. ``rule(axis_size, in_batched, args)`` takes the others, flat,
    with the lanes as dimension 0 of those that are batched, and returns the list of results and which are batched.
    """
    check_call(f"custom_vmap_call {name}", call_jaxpr, operands)
    return tuple(call_jaxpr.out_avals)


@primitive("custom_linear_solve", multiple_results=True)
def custom_linear_solve_p(
    *operands: ShapedArray,
    const_lengths: tuple[int, int, int, int],
    jaxprs: tuple[ClosedJaxpr, ClosedJaxpr | None, ClosedJaxpr, ClosedJaxpr | None],
) -> tuple[ShapedArray, ...]:
    """Solve ``matvec(x) = b`` for x by `solve`, differentiated through the equation instead of through `solve`.

    `jaxprs` are matvec, vecmat (its transpose), solve and transpose_solve (None where not given); `const_lengths`
    are the numbers of their consts. Operands: the consts of the four in this order, then b.

    Raises:
        TypeError: the operands do not fit `solve`, or its solution has not the types of b.
    """
    b = operands[sum(const_lengths) :]
    solve = jaxprs[2]
    start = const_lengths[0] + const_lengths[1]
    check_call("custom_linear_solve: solve", solve, (*operands[start : start + const_lengths[2]], *b))
    n = len(b)  # solve may return auxiliary values after the solution
    if [a.strong() for a in solve.out_avals[:n]] != [a.strong() for a in b]:
        raise TypeError(
            f"custom_linear_solve: the solution must have the types of b, ({', '.join(a.short() for a in b)}), "
            f"solve returned ({', '.join(a.short() for a in solve.out_avals)})"
        )
    return tuple(solve.out_avals)


# -- host functions ----------------------------------------------------------------------------------------------------


@primitive("pure_callback", multiple_results=True)
def pure_callback_p(
    *operands: ShapedArray,
    callback: Callable[..., Any],
    result_avals: tuple[ShapedArray, ...],
    vmap_method: str | None,
) -> tuple[ShapedArray, ...]:
    """Call a Python function without side effects on the host: ``callback(*arrays)`` returns a list of arrays.

    It may be called any number of times, or not at all when the results are not used.
    """
    _check_results("pure_callback", result_avals)
    return result_avals


def _io_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((ORDERED_IO_EFFECT if params["ordered"] else IO_EFFECT,))


@primitive("io_callback", multiple_results=True, effects=_io_effects)
def io_callback_p(
    *operands: ShapedArray,
    callback: Callable[..., Any],
    result_avals: tuple[ShapedArray, ...],
    ordered: bool,
) -> tuple[ShapedArray, ...]:
    """Call a Python function with side effects on the host, exactly once each time the program comes to it."""
    _check_results("io_callback", result_avals)
    return result_avals


def _ffi_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((IO_EFFECT,)) if params["has_side_effect"] else NO_EFFECTS


@primitive("ffi_call", multiple_results=True, effects=_ffi_effects)
def ffi_call_p(
    *operands: ShapedArray,
    function: Callable[..., Any],
    result_avals: tuple[ShapedArray, ...],
    has_side_effect: bool,
    vmap_method: str | None,
) -> tuple[ShapedArray, ...]:
    """Call a function of a shared library on the host: ``function(*arrays, *results)`` writes the results.

    `function` is compared by the library's function and its attributes. Without `has_side_effect` it may be called any
    number of times, or not at all when the results are not used.
    """
    _check_results("ffi_call", result_avals)
    return result_avals


@primitive("stablehlo_call", multiple_results=True)
def stablehlo_call_p(
    *operands: ShapedArray,
    name: str,
    module: str,
    callbacks: tuple[Any, ...],
    result_avals: tuple[ShapedArray, ...],
) -> tuple[ShapedArray, ...]:
    """Apply the function `main` of a StableHLO module, given as text: what another package's primitive is lowered to.

    `name` is that primitive's. `callbacks` are the Python functions that the module calls: each with its symbol and types.
    """
    return result_avals


@primitive("kernel_call", multiple_results=True)
def kernel_call_p(
    *operands: ShapedArray, kernel: Any, reference: ClosedJaxpr | None, result_avals: tuple[ShapedArray, ...]
) -> tuple[ShapedArray, ...]:
    """Run a kernel of `quire.kernel`, finished for one target: what its equation is lowered to.

    `kernel` holds the text; its printed form is a digest of it. `reference` computes the same from ordinary operations.
    """
    return result_avals


def _debug_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((ORDERED_DEBUG_EFFECT if params["ordered"] else DEBUG_EFFECT,))


@primitive("debug_callback", multiple_results=True, effects=_debug_effects)
def debug_callback_p(*operands: ShapedArray, callback: Callable[..., Any], ordered: bool) -> tuple[ShapedArray, ...]:
    """Call a Python function on the host for its side effect; under transformations it sees what is computed."""
    return ()


# -- checks ------------------------------------------------------------------------------------------------------------

CHECK_EFFECT = "check"


def _check_effects(params: Mapping[str, Any]) -> Effects:
    return frozenset((CHECK_EFFECT,))


@primitive("check", multiple_results=True, effects=_check_effects)
def check_p(code: ShapedArray, *payload: ShapedArray, sites: tuple[Site, ...], debug: bool) -> tuple[ShapedArray, ...]:
    """Fail if `code` (int32) is not 0: ``sites[code - 1]`` says with what error, made of that site's payload.

    The payload holds the arrays of all sites in order. Under vmap all operands have the lanes as leading dimensions.
    Evaluated outside `compile` it raises; the pass `passes.checkify` makes it a result. One with `debug` does nothing
    where that pass is not applied.

    Raises:
        TypeError: the code is not int32, the number of arrays is not that of the sites, or an array has not the lanes
            as leading dimensions.
    """
    if code.dtype != dtypes.int32 or len(payload) != sum(s.arity for s in sites):
        raise TypeError(
            f"check: expected an int32 code and the arrays of its sites, got {code.short()} and {len(payload)}"
        )
    if any(x.shape[: code.ndim] != code.shape for x in payload):
        raise TypeError("check: all operands must have the lanes of the code as leading dimensions")
    return ()


def _check_results(name: str, result_avals: Sequence[ShapedArray]) -> None:
    for i, a in enumerate(result_avals):
        if dtypes.canonicalize(a.dtype) != a.dtype:
            raise TypeError(
                f"{name}: result {i} is declared {a.short()}, but 64-bit dtypes are off: declare "
                f"{dtypes.canonicalize(a.dtype)} or turn on config.enable_x64"
            )
