"""Derivatives of functions: each traces its function to a jaxpr and applies the passes of `quire.passes.ad`.

Outside `compile` the trace knows the values of its arguments, so Python may branch on them. Arguments that are not
differentiated are passed on as they are.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn, Jaxpr, nested_jaxprs
from quire.ir.primitive import Primitive
from quire.ir.primitives.calls import custom_lin_p
from quire.ir.primitives.elementwise import convert_element_type
from quire.ir.references import Ref
from quire.ir.source import current_source, where
from quire.ir.tracing import eval_jaxpr, trace_flat
from quire.passes.ad.calls import no_forward_mode
from quire.passes.ad.jvp import jvp_eval
from quire.passes.ad.linearize import Linear, linearize_eval
from quire.passes.ad.rules import Linear as LinearInput
from quire.passes.ad.rules import Zero, instantiate, zeros
from quire.passes.ad.transpose import NotLinearError, backward, pullback

from .. import tree_util
from ..arrays import references as ref_ops
from ..arrays.key_array import is_keys
from ..arrays.operands import as_array
from ..arrays.references import refuse_refs
from ..arrays.shape_struct import as_typed
from ..arrays.tangents import flatten_tangents, structure_of_tangents
from ..watching import key_reuse
from ..watching.tracebacks import wraps
from ..watching.transformations import appended
from .functions import check_callable, name_of, partial_positions
from .pullbacks import Pullback
from .references import Opened, open_refs, refuse_differentiated, write_of


@dataclass(frozen=True)
class _Traced:
    """A function of pytrees, traced for its leaves."""

    jaxpr: Jaxpr
    captured: list[Any]
    out_tree: Any
    aux: Any
    aux_tree: Any
    n_aux: int
    opened: Opened
    before: Jaxpr

    def finish(self, outs: Sequence[Any], nonzeros: Sequence[bool], what: str) -> None:
        """Write what references hold at the end, which the last results say."""
        if self.opened.places:
            refuse_differentiated(self.opened, nonzeros, self.before, what)
            self.opened.store(outs)


def _trace(
    f: Callable[..., Any],
    leaves: Sequence[Any],
    tree: Any,
    what: str,
    has_aux: bool,
    names: Sequence[str] | None = None,
) -> _Traced:
    """Trace ``f(*args)`` for the leaves of args; with `has_aux` f returns (out, aux), and aux's leaves come last."""
    found: list[Any] = []

    def flat(*xs: Any) -> list[Any]:
        out = f(*tree_util.tree_unflatten(tree, xs))
        aux: Any = None
        if has_aux:
            if not isinstance(out, tuple) or len(out) != 2:
                raise TypeError(
                    f"{what}: with has_aux=True the function must return a pair (output, aux), it returned {out!r}"
                )
            out, aux = out
        out_leaves, out_tree = tree_util.flatten_arrays(out)
        aux_leaves, aux_tree = tree_util.flatten_arrays(aux)
        refuse_refs([*out_leaves, *aux_leaves], what)
        for x in out_leaves:
            _check_array(x, what)
        arrays = [x for x in aux_leaves if _is_array(x)]
        found.extend((out_tree, aux_leaves, aux_tree, len(arrays)))
        return [*out_leaves, *arrays]

    jaxpr, captured, _ = trace_flat(
        flat, [aval_of(x) for x in leaves], name=what, staging=False, values=list(leaves), arg_names=names
    )
    opened = open_refs(jaxpr, captured, leaves, what=what, derivatives=True)
    key_reuse.check_call(opened.jaxpr, [*opened.captured, *leaves])
    found[-1] += len(opened.places)  # what references hold at the end comes after aux
    out_tree, aux, aux_tree, n_aux = found
    return _Traced(opened.jaxpr, opened.captured, out_tree, aux, aux_tree, n_aux, opened, jaxpr)


def application(eqns: Sequence[Eqn], p: Primitive) -> Eqn | None:
    """The first equation, or one nested in it, that applies the primitive."""
    for eqn in eqns:
        if eqn.primitive is p:
            return eqn
        for inner in nested_jaxprs(eqn.params):
            found = application(inner.eqns, p)
            if found is not None:
                return found
    return None


def _is_array(x: Any) -> bool:
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def _check_array(x: Any, what: str) -> None:
    if not _is_array(x):
        raise TypeError(f"{what}: the function returned {x!r} of type {type(x).__name__}, expected arrays or numbers")


def _with_aux(traced: _Traced, values: Sequence[Any]) -> Any:
    """The aux tree with its arrays replaced by their values."""
    given = map(as_array, values)
    return tree_util.tree_unflatten(traced.aux_tree, [next(given) if _is_array(x) else x for x in traced.aux])


# -- grad ---------------------------------------------------------------------------------------------------------------


def _check_input(what: str, x: Any, holomorphic: bool, allow_int: bool) -> None:
    dtype = dtype_of(x)
    if holomorphic:
        if not dtypes.is_complex(dtype):
            raise TypeError(f"{what} with holomorphic=True requires inputs with complex dtype, got {dtype}")
        return
    if (is_keys(x) or not dtypes.is_inexact(dtype)) and not allow_int:
        advice = NO_DERIVATIVE_BY_KEYS if is_keys(x) else "convert the argument with .astype(float)"
        raise TypeError(
            f"{what} requires real- or complex-valued inputs (float or complex dtype), got {dtype}"
            f"{where(current_source())}: {advice}, or pass allow_int=True for a gradient of dtype float0"
        )


#: What to do instead of differentiating by a key, in messages.
NO_DERIVATIVE_BY_KEYS = "nothing has a derivative by a key, choose other arguments with argnums"


def dtype_of(x: Any) -> Any:
    """The dtype of an array, a number or an array of keys, of which `aval_of` sees the words only."""
    return x.dtype if is_keys(x) else aval_of(x).dtype


def _check_scalar(what: str, avals: Sequence[ShapedArray], tree: Any, holomorphic: bool) -> None:
    if any(structure_of_tangents(tree)[1]):
        raise TypeError(f"{what} requires real-valued outputs (float dtype), the function returned an array of keys")
    if not tree_util.is_single_leaf(tree):
        raise TypeError(f"Gradient only defined for scalar-output functions. Output was a container: {tree}.")
    (aval,) = avals
    if aval.shape:
        raise TypeError(
            f"Gradient only defined for scalar-output functions. Output had shape: {aval.shape}. "
            "Reduce it, for example with .sum(), or use quire.jacrev"
        )
    if holomorphic:
        if not dtypes.is_complex(aval.dtype):
            raise TypeError(f"{what} with holomorphic=True requires outputs with complex dtype, got {aval.dtype}")
    elif not dtypes.is_float(aval.dtype):
        raise TypeError(
            f"{what} requires real-valued outputs (output dtype that is a sub-dtype of float), got {aval.dtype}. "
            + ("For holomorphic differentiation, pass holomorphic=True. " if dtypes.is_complex(aval.dtype) else "")
            + "For other differentiation of functions with other outputs, use quire.vjp directly"
        )


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """A function that returns both `fun`'s value and its gradient; the forward pass is computed once.

    Args:
        fun: returns a real scalar (complex with `holomorphic`), or with `has_aux` a pair of it and anything.
        argnums: the positional arguments to differentiate: an int, or a sequence for a tuple of gradients.
        has_aux: `fun` returns (value, aux).
        holomorphic: `fun` is holomorphic: complex in, complex out.
        allow_int: integer arguments get a gradient of dtype float0.
        reduce_axes: must be empty.

    Returns:
        A function of the same arguments that returns (value, gradient), or ((value, aux), gradient).

    Raises:
        TypeError: the output is not a real scalar, or an argument cannot be differentiated.
        NotImplementedError: `reduce_axes` names axes.
    """
    _no_reduced_axes("value_and_grad", reduce_axes)
    return _differentiated(fun, argnums, has_aux, holomorphic, allow_int, with_value=True)


def _no_reduced_axes(what: str, reduce_axes: Sequence[Any]) -> None:
    """Raise NotImplementedError for axes over which JAX once summed gradients: it takes none any more."""
    if tuple(reduce_axes):
        raise NotImplementedError(
            f"{what}: reduce_axes must be empty, got {reduce_axes!r}: use lax.psum on the gradient"
        )


def _differentiated(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    with_value: bool,
) -> Callable[..., Any]:
    """`value_and_grad`, or without value `grad`."""
    check_callable(fun, "value_and_grad" if with_value else "grad")
    argnums = _checked_argnums(argnums, "value_and_grad" if with_value else "grad")
    what = f"grad of {name_of(fun)}"

    @wraps(fun)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        positions = partial_positions(argnums, len(args), what, TypeError)
        rest = with_rest(fun, args, kwargs, positions)
        leaves, tree = tree_util.flatten_arrays(tuple(args[i] for i in positions))
        for x in tree_util.flatten_arrays([args[i] for i in positions], is_keys)[0]:
            _check_argument(x, what)
            _check_input("grad", x, holomorphic, allow_int)
        traced = _trace(rest, leaves, tree, what, has_aux)
        n_out = len(traced.jaxpr.outvars) - traced.n_aux
        _check_scalar("grad", traced.jaxpr.out_avals[:n_out], traced.out_tree, holomorphic)
        with appended(what, traced.jaxpr, traced.captured) as keep:
            outs, gradients = _gradient(traced, leaves, n_out)
            keep([*(outs if with_value else outs[1:]), *gradients])
        grads = tree_util.tree_unflatten(tree, gradients)
        found = grads[0] if isinstance(argnums, int) else grads
        aux = _with_aux(traced, outs[1:]) if has_aux else None
        if not with_value:
            return (found, aux) if has_aux else found
        value = as_array(outs[0])
        return ((value, aux) if has_aux else value), found

    return gradient


def _checked_argnums(argnums: Any, what: str) -> int | tuple[int, ...]:
    try:
        if isinstance(argnums, tuple | list):
            return tuple(operator.index(a) for a in argnums)
        return operator.index(argnums)
    except TypeError:
        raise TypeError(f"{what}: argnums must be an int or a sequence of ints, got {argnums!r}") from None


def _check_argument(x: Any, what: str) -> None:
    if is_keys(x):
        return
    if isinstance(x, Ref):
        raise TypeError(
            f"{what}: a differentiated argument holds a reference {x.aval.short()}{where(current_source())}: differentiate by "
            "its value, ref[...], or make it an argument that is not differentiated"
        )
    if not _is_array(x):
        raise TypeError(
            f"{what}: a differentiated argument holds {x!r} of type {type(x).__name__}, expected arrays or numbers"
        )


def _gradient(traced: _Traced, leaves: Sequence[Any], n_out: int) -> tuple[list[Any], list[Any]]:
    differentiable = [dtypes.is_inexact(aval_of(x).dtype) for x in leaves]
    outs, linear = _linearized(traced, leaves, differentiable)
    aval = aval_of(outs[0])
    one: Any = np.ones((), aval.dtype)[()]
    if aval.weak_type:
        one = one.item()
    cotangents = _pull(linear, [one], differentiable, [aval_of(x) for x in leaves])
    return outs, [ct if d else float0_zeros(aval_of(x).shape) for ct, d, x in zip(cotangents, differentiable, leaves)]


def _linearized(traced: _Traced, leaves: Sequence[Any], nonzeros: Sequence[bool]) -> tuple[list[Any], Linear]:
    """Evaluate the function once; returns its results (aux last) and its derivative."""
    k = len(traced.captured)
    outs, linear = linearize_eval(traced.jaxpr, [*traced.captured, *leaves], [*[False] * k, *nonzeros])
    traced.finish(outs, linear.nonzeros, "a derivative")
    return outs, linear


def _pull(
    linear: Linear, cotangents: Sequence[Any], nonzeros: Sequence[bool], avals: Sequence[ShapedArray]
) -> list[Any]:
    """The cotangents of all arguments, of these types, from those of the results (the aux results have none)."""
    given = [*cotangents, *(Zero(a) for a in linear.out_avals[len(cotangents) :])]
    found = iter(pullback(linear, given))
    return [_like(instantiate(next(found)), a) if nz else Zero(a.tangent()) for a, nz in zip(avals, nonzeros)]


def _like(cotangent: Any, primal: ShapedArray) -> Any:
    """A cotangent as an array, of weak type where its primal is."""
    if primal.weak_type and not aval_of(cotangent).weak_type:
        cotangent = convert_element_type(cotangent, aval_of(cotangent).dtype, weak_type=True)
    return as_array(cotangent)


def float0_zeros(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The gradient by an integer: an array without information."""
    return np.zeros(shape, dtypes.float0)


def with_rest(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], positions: Sequence[int]
) -> Callable[..., Any]:
    """`fun` as a function of the arguments at `positions`, the rest being these; it has `fun`'s name, for messages."""

    def of_chosen(*chosen: Any) -> Any:
        full = list(args)
        for i, x in zip(positions, chosen, strict=True):
            full[i] = x
        return fun(*full, **kwargs)

    of_chosen.__name__ = name_of(fun)
    return of_chosen


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[..., Any]:
    """The gradient of a scalar function, as a function of the same arguments.

    The arguments are those of `value_and_grad`; with `has_aux` it returns (gradient, aux). For a real function of a
    complex argument the result is the conjugate of the direction of steepest ascent, as in JAX.

    Example:
        >>> import quire
        >>> float(quire.grad(lambda x: x ** 3)(2.0))
        12.0
    """
    _no_reduced_axes("grad", reduce_axes)
    return _differentiated(fun, argnums, has_aux, holomorphic, allow_int, with_value=False)


# -- jvp, vjp, linearize ------------------------------------------------------------------------------------------------


def _check_tangents(
    what: str, primals: Sequence[Any], tangents: Sequence[Any], primal_tree: Any, tangent_tree: Any,
    error: type[Exception] = TypeError,
) -> None:  # fmt: skip
    if primal_tree != tangent_tree:
        raise TypeError(
            f"{what}: primal and tangent arguments must have the same tree structure, got {primal_tree} and {tangent_tree}"
        )
    for p, t in zip(primals, tangents):
        want, got = p if isinstance(p, ShapedArray) else aval_of(p), aval_of(t)
        if isinstance(p, Ref) and isinstance(t, Ref):
            want, got = p.aval.inner_aval, t.aval.inner_aval
        expected = want.tangent()
        if got.dtype != expected.dtype or got.shape != want.shape:
            kind = error if got.shape == want.shape else ValueError
            raise kind(
                f"{what}: primal and tangent must have the same shape and corresponding dtypes: the tangent of "
                f"{want.short()} is {expected.short()}, got {got.short()}{where(current_source())}"
            )


def jvp(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The value of `fun` at `primals` and its directional derivative along `tangents` (forward mode).

    Args:
        fun: a function of arrays and pytrees.
        primals, tangents: tuples or lists of the same structure; a tangent has its primal's shape and dtype (float0
            for integers).
        has_aux: `fun` returns (output, aux).

    Returns:
        (output, output tangent), and aux last with `has_aux`.

    Raises:
        TypeError: `primals` or `tangents` is no tuple or list; their structures differ; a tangent has not its primal's
            shape and tangent dtype; or `fun` has a derivative for reverse mode only.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise TypeError(
            "jvp: primal and tangent arguments must be tuples or lists, got "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    leaves, tree = tree_util.flatten_arrays(tuple(primals))
    tangent_leaves, tangent_tree = flatten_tangents(tuple(tangents), tree, [aval_of(x) for x in leaves])
    what = f"jvp of {name_of(fun)}"
    _check_tangents("jvp", leaves, tangent_leaves, tree, tangent_tree)
    traced = _trace(fun, leaves, tree, what, has_aux)
    references, tangent_references = leaves, tangent_leaves
    if any(isinstance(x, Ref) for x in leaves):  # their values, and what the references of the tangents hold
        leaves = [ref_ops.get(x) if isinstance(x, Ref) else x for x in leaves]
        tangent_leaves = [ref_ops.get(t) if isinstance(t, Ref) else t for t in tangent_leaves]
    ts = [
        t if dtypes.is_inexact(aval_of(p).dtype) else Zero(aval_of(p).tangent()) for p, t in zip(leaves, tangent_leaves)
    ]
    captured = [Zero(aval_of(c).tangent()) for c in traced.captured]
    with appended(what, traced.jaxpr, traced.captured) as keep:
        outs, out_ts = jvp_eval(traced.jaxpr, [*traced.captured, *leaves], [*captured, *ts])
        _store_jvp(traced, outs, out_ts, references, tangent_references)
        keep([*outs, *out_ts])
    if (reverse_only := application(keep.equations, custom_lin_p)) is not None:
        raise TypeError(no_forward_mode(reverse_only.params["name"]) + where(reverse_only.source))
    n = len(outs) - traced.n_aux
    out = tree_util.tree_unflatten(traced.out_tree, [as_array(x) for x in outs[:n]])
    out_tangent = tree_util.tree_unflatten(traced.out_tree, [_tangent_value(t) for t in out_ts[:n]])
    return (out, out_tangent, _with_aux(traced, outs[n:])) if has_aux else (out, out_tangent)


def _store_jvp(
    traced: _Traced, outs: Sequence[Any], tangents: Sequence[Any], leaves: Sequence[Any], given: Sequence[Any]
) -> None:
    """Write what references hold at the end, and into those of the tangents the derivative of that."""
    n = len(outs) - len(traced.opened.places)
    nonzeros = [type(t) is not Zero for t in tangents]
    k = len(traced.before.invars) - len(leaves)
    for j, position in enumerate(traced.opened.positions):
        if position >= k:
            nonzeros[n + j] = False
            ref_ops.set(given[position - k], None, instantiate(tangents[n + j]))
    traced.finish(outs, nonzeros, "jvp")


def _tangent_value(t: Any) -> Any:
    """A tangent as a value; float0 zeros for integers."""
    if type(t) is Zero and t.aval.dtype == dtypes.float0:
        return float0_zeros(t.aval.shape)
    return as_array(instantiate(t))


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun` and its pullback: a function from the output's cotangent to a tuple of the arguments'.

    With `has_aux`, `fun` returns (output, aux), and aux is returned last.
    """
    leaves, tree = tree_util.flatten_arrays(primals)
    what = f"vjp of {name_of(fun)}"
    for x in leaves:
        _check_argument(x, what)
    traced = _trace(fun, leaves, tree, what, has_aux)
    n = len(traced.jaxpr.outvars) - traced.n_aux
    differentiable = [dtypes.is_inexact(aval_of(x).dtype) for x in leaves]
    with appended(what, traced.jaxpr, traced.captured) as keep:
        outs, linear = _linearized(traced, leaves, differentiable)
        keep([*outs, *linear.residuals])
    out_avals = [aval_of(x) for x in outs[:n]]

    avals = [aval_of(x) for x in leaves]
    out_tree, without_residuals = (
        traced.out_tree,
        replace(linear, residuals=()),
    )  # what the pullback keeps holds no arrays

    def transposed(residuals: Sequence[Any], cotangent: Any) -> list[Any]:
        cts, ct_tree = flatten_tangents(cotangent, out_tree, out_avals)
        if ct_tree != out_tree:
            raise ValueError(f"{what}: the cotangent must have the output's tree structure {out_tree}, got {ct_tree}")
        for i, (ct, aval) in enumerate(zip(cts, out_avals)):
            got, want = aval_of(ct), aval.tangent()
            # A result without derivatives (integers) takes anything of its shape, which is not looked at.
            if got.shape != want.shape or got.dtype != want.dtype and dtypes.is_inexact(aval.dtype):
                raise ValueError(
                    f"{what}: the cotangent of output {i} must be {want.short()}, got {got.short()}"
                    f"{where(current_source(2))}"
                )
        given = [ct if dtypes.is_inexact(a.dtype) else Zero(a.tangent()) for ct, a in zip(cts, out_avals)]
        with appended(f"transpose of {name_of(fun)}", without_residuals.closed.jaxpr) as keep:
            found = _pull(replace(without_residuals, residuals=tuple(residuals)), given, differentiable, avals)
            keep(found)
        return [ct if d else float0_zeros(a.shape) for ct, d, a in zip(found, differentiable, avals)]

    pullback = Pullback(transposed, linear.residuals, avals, tree, out_tree, what, leaves)
    out = tree_util.tree_unflatten(traced.out_tree, [as_array(x) for x in outs[:n]])
    return (out, pullback, _with_aux(traced, outs[n:])) if has_aux else (out, pullback)


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of `fun` at `primals`, and its derivative there as a function of tangents.

    The linear function holds what the derivative needs, so applying it many times costs no more primal work. It is a pytree,
    whose leaves are these values: a compiled function may return it and take it. It raises TypeError for tangents of another
    structure than the arguments', ValueError for one of another shape or dtype.
    """
    leaves, tree = tree_util.flatten_arrays(primals)
    what = f"linearize of {name_of(fun)}"
    traced = _trace(fun, leaves, tree, what, has_aux)
    n = len(traced.jaxpr.outvars) - traced.n_aux
    differentiable = [dtypes.is_inexact(aval_of(x).dtype) for x in leaves]
    with appended(what, traced.jaxpr, traced.captured) as keep:
        outs, linear = _linearized(traced, leaves, differentiable)
        keep([*outs, *linear.residuals])

    without_residuals, avals = replace(linear, residuals=()), tuple(aval_of(x) for x in leaves)
    push = functools.partial(_push, linear.closed, without_residuals, avals, tree, traced.out_tree, n)
    f_jvp = tree_util.Partial(push, linear.residuals)
    out = tree_util.tree_unflatten(traced.out_tree, [as_array(x) for x in outs[:n]])
    return (out, f_jvp, _with_aux(traced, outs[n:])) if has_aux else (out, f_jvp)


def _push(
    jaxpr: Any, linear: Linear, avals: Sequence[ShapedArray], in_tree: Any, out_tree: Any, n: int,
    residuals: Sequence[Any], *tangents: Any,
) -> Any:  # fmt: skip
    """The function that `linearize` returns: the first `n` results' tangents, from those of the arguments.

    The jaxpr comes first, where libraries that print it look (``f_jvp.func.args[0]``).
    """
    ts, tangent_tree = flatten_tangents(tangents, in_tree, avals)
    _check_tangents("linearize", avals, ts, in_tree, tangent_tree, ValueError)
    given = [t for t, a in zip(ts, avals) if dtypes.is_inexact(a.dtype)]
    found = _apply_linear(replace(linear, residuals=tuple(residuals)), given)
    return tree_util.tree_unflatten(out_tree, [_tangent_value(t) for t in found[:n]])


def saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapedArray, str]]:
    """The values that the derivative of ``fun(*args, **kwargs)`` keeps: the type and the origin of each.

    `fun` is traced, not run. Follows `jax.ad_checkpoint.print_saved_residuals`, which prints them.
    """
    leaves, tree = tree_util.tree_flatten((args, kwargs))

    def flat(*xs: Any) -> list[Any]:
        def call(*ys: Any) -> Any:
            positional, keywords = tree_util.tree_unflatten(tree, ys)
            return fun(*positional, **keywords)

        inner, inner_tree = tree_util.tree_flatten(xs)
        traced = _trace(call, inner, inner_tree, f"saved_residuals of {name_of(fun)}", False)
        return list(_linearized(traced, inner, [dtypes.is_inexact(aval_of(x).dtype) for x in inner])[1].residuals)

    jaxpr, captured, _ = trace_flat(flat, [aval_of(x) for x in leaves], name=f"saved_residuals of {name_of(fun)}")
    origin: dict[Any, str] = {v: "from a constant" for v in jaxpr.invars[: len(captured)]}
    for i, v in enumerate(jaxpr.invars[len(captured) :]):
        origin[v] = f"from argument {i}"
    for e in jaxpr.eqns:
        at = f" from {e.source}" if e.source is not None else ""
        origin.update((v, f"output of {e.primitive.name}{at}") for v in e.outputs)
    kept = dict.fromkeys(a for a in jaxpr.outvars)
    return [(a.aval, origin.get(a, "from a literal")) for a in kept]


def print_saved_residuals(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the values that the derivative of ``fun(*args, **kwargs)`` keeps, each with the line that computed it.

    >>> quire.ad_checkpoint.print_saved_residuals(lambda x: quire.numpy.exp(x), 1.0)  # doctest: +ELLIPSIS
    f32[] output of exp from ...
    """
    for aval, origin in saved_residuals(fun, *args, **kwargs):
        print(f"{aval.short()} {origin}")


def _apply_linear(linear: Linear, tangents: Sequence[Any]) -> list[Any]:
    found = iter(eval_jaxpr(linear.closed.jaxpr, (), [*linear.residuals, *tangents]))
    return [next(found) if nz else Zero(a) for nz, a in zip(linear.nonzeros, linear.out_avals)]


def linear_transpose(fun: Callable[..., Any], *primals: Any, reduce_axes: Sequence[Any] = ()) -> Callable[..., Any]:
    """The transpose of a linear function, given the types of its arguments (arrays or `ShapeDtypeStruct`s).

    Returns a function from the output's cotangent to a tuple of the arguments' cotangents. `fun` is not run.

    Raises:
        NotImplementedError: `reduce_axes` is not empty.
        TypeError: the arguments and results of `fun` are neither all float or complex nor all integers. The returned
            function raises it for a cotangent unlike the output, and where `fun` is not linear.
        ValueError: `fun` writes to a reference from outside.
    """
    check_callable(fun, "linear_transpose")
    if tuple(reduce_axes):
        raise NotImplementedError("linear_transpose: reduce_axes is not supported, expected ()")
    leaves, tree = tree_util.flatten_arrays(primals)
    leaves = [as_typed(x) for x in leaves]
    what = f"linear_transpose of {name_of(fun)}"
    out_tree: Any = None

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_tree
        out, out_tree = tree_util.flatten_arrays(fun(*tree_util.tree_unflatten(tree, xs)))
        return out

    avals = [aval_of(x) for x in leaves]
    jaxpr, captured, _ = trace_flat(flat, avals, name=what)
    opened = open_refs(jaxpr, captured, what=what, derivatives=True)
    if opened.places:
        raise ValueError(
            f"{what}: the function writes to a reference from outside{where(write_of(jaxpr, opened.positions[0]))}, which "
            "is not linear: make the reference within the function"
        )
    jaxpr, captured = opened.jaxpr, opened.captured
    types = (*avals, *jaxpr.out_avals)
    if not (all(dtypes.is_inexact(a.dtype) for a in types) or all(dtypes.is_integer(a.dtype) for a in types)):
        given, made = (", ".join(a.short() for a in group) for group in (avals, jaxpr.out_avals))
        raise TypeError(
            "linear_transpose only supports float and complex inputs and outputs, or integer ones, got "
            f"{given} -> {made}"
        )
    return tree_util.Partial(
        functools.partial(_transposed, jaxpr, tuple(avals), tree, out_tree, name_of(fun)), captured
    )


def _transposed(
    jaxpr: Jaxpr, avals: Sequence[ShapedArray], in_tree: Any, out_tree: Any, name: str, captured: Sequence[Any],
    cotangent: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """The function that `linear_transpose` returns."""
    what = f"linear_transpose of {name}"
    cts, ct_tree = tree_util.flatten_arrays(cotangent)
    if ct_tree != out_tree:
        raise TypeError(f"{what}: the cotangent must have the tree structure {out_tree}, got {ct_tree}")
    for ct, want in zip(cts, jaxpr.out_avals, strict=True):
        got = aval_of(ct)
        if (got.shape, got.dtype) != (want.shape, want.dtype):
            raise TypeError(f"{what}: the cotangent of an output {want.short()} must be like it, got {got.short()}")
    with appended(what, jaxpr, captured) as keep:
        try:
            found = backward(jaxpr, [*captured, *(LinearInput(a) for a in avals)], cts)
        except NotLinearError as error:
            raise TypeError(f"{what}: {name} is not linear in its arguments: {error}") from None
        keep(found)
    values = [zeros(a) if type(ct) is Zero else ct for a, ct in zip(avals, found[len(captured) :])]
    return tree_util.tree_unflatten(in_tree, [as_array(ct) for ct in values])


__all__ = ["grad", "jvp", "linear_transpose", "linearize", "value_and_grad", "vjp"]
