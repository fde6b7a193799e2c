"""Reductions over dimensions, arg-reductions and cumulative reductions. Windowed ones are in `windows`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..dtypes import DType
from ..jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, subst_eqn
from ..primitive import Primitive, primitive
from ..tracing import Tracer, trace_flat
from . import elementwise as ew
from .common import ANY, BITS, INEXACT, NUMBER, canonical_axes, check_axes, check_dtype

Value = Any


def _reduced(name: str, x: ShapedArray, axes: tuple[int, ...]) -> ShapedArray:
    check_axes(name, x.ndim, axes)
    return x.update(shape=tuple(n for i, n in enumerate(x.shape) if i not in axes))


@primitive("reduce_sum", combine=ew.add_p)
def reduce_sum_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Sum over `axes`; 0 over no elements. f16 and bf16 accumulate in f32."""
    check_dtype("reduce_sum", x, NUMBER)
    return _reduced("reduce_sum", x, axes)


@primitive("reduce_prod", combine=ew.mul_p)
def reduce_prod_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Product over `axes`; 1 over no elements. f16 and bf16 accumulate in f32."""
    check_dtype("reduce_prod", x, NUMBER)
    return _reduced("reduce_prod", x, axes)


@primitive("reduce_max", combine=ew.max_p)
def reduce_max_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Maximum over `axes`; NaN if there is one; the least value of the dtype (-inf) over no elements.

    Complex numbers compare lexicographically.
    """
    check_dtype("reduce_max", x, ANY)
    return _reduced("reduce_max", x, axes)


@primitive("reduce_min", combine=ew.min_p)
def reduce_min_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Minimum over `axes`; NaN if there is one; the largest value of the dtype (inf) over no elements.

    Complex numbers compare lexicographically.
    """
    check_dtype("reduce_min", x, ANY)
    return _reduced("reduce_min", x, axes)


@primitive("reduce_and", combine=ew.and_p)
def reduce_and_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Bitwise (logical for bool) and over `axes`; all bits set (True) over no elements."""
    check_dtype("reduce_and", x, BITS)
    return _reduced("reduce_and", x, axes).strong()


@primitive("reduce_or", combine=ew.or_p)
def reduce_or_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Bitwise (logical for bool) or over `axes`; 0 (False) over no elements."""
    check_dtype("reduce_or", x, BITS)
    return _reduced("reduce_or", x, axes).strong()


@primitive("reduce_xor", combine=ew.xor_p)
def reduce_xor_p(x: ShapedArray, *, axes: tuple[int, ...]) -> ShapedArray:
    """Bitwise (logical for bool) exclusive or over `axes`; 0 (False) over no elements."""
    check_dtype("reduce_xor", x, BITS)
    return _reduced("reduce_xor", x, axes).strong()


@primitive("reduce", multiple_results=True)
def reduce_p(*operands: ShapedArray, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]) -> tuple[ShapedArray, ...]:
    """Reduce arrays of one shape together with an associative scalar function.

    The operands are n arrays followed by n scalars, the function's neutral values. `jaxpr` takes n accumulators and n
    elements and returns n accumulators. Since the function is associative, the order of evaluation is not defined.

    Raises:
        TypeError: the shapes of the arrays differ, or operands and function do not fit (`check_reducer`).
    """
    n = check_reducer("reduce", operands, jaxpr)
    for x in operands[1:n]:
        if x.shape != operands[0].shape:
            given = ", ".join(a.short() for a in operands[:n])
            raise TypeError(f"reduce: the operands must have one shape, got {given}")
    return tuple(_reduced("reduce", x, dimensions).strong() for x in operands[:n])


def check_reducer(name: str, operands: Sequence[ShapedArray], jaxpr: ClosedJaxpr) -> int:
    """Check arrays followed by as many initial scalars, and the function that combines them; returns how many.

    Raises:
        TypeError: there are not as many initial values as arrays, one is no scalar of its array's dtype, or the
            function does not take and return scalars of these dtypes.
    """
    n, odd = divmod(len(operands), 2)
    if odd or not n:
        raise TypeError(f"{name}: expected as many initial values as arrays, got {len(operands)} operands")
    for x, init in zip(operands[:n], operands[n:]):
        if init.shape or init.dtype != x.dtype:
            raise TypeError(
                f"{name}: the initial value {init.short()} must be a scalar of dtype {x.dtype}, as {x.short()}"
            )
    want = [ShapedArray((), x.dtype) for x in operands[:n]]
    if [a.strong() for a in jaxpr.in_avals] != want * 2 or [a.strong() for a in jaxpr.out_avals] != want:
        each = ", ".join(a.short() for a in want)
        got = ", ".join(a.short() for a in jaxpr.out_avals)
        raise TypeError(f"{name}: the computation must return ({each}) for ({each}, {each}), it returns ({got})")
    return n


# -- arg-reductions ---------------------------------------------------------------------------------------------


def _arg_reduced(name: str, x: ShapedArray, axes: tuple[int, ...], index_dtype: DType) -> ShapedArray:
    if len(axes) != 1:
        raise ValueError(f"{name}: expected one axis, got axes {axes}")
    out = _reduced(name, x, axes)
    if x.shape[axes[0]] == 0:
        raise ValueError(f"{name}: dimension {axes[0]} of the operand {x.short()} must not be empty")
    if not dtypes.is_integer(index_dtype):
        raise TypeError(f"{name}: index_dtype must be an integer dtype, got {index_dtype}")
    return ShapedArray(out.shape, index_dtype)


@primitive("argmax")
def argmax_p(x: ShapedArray, *, axes: tuple[int, ...], index_dtype: DType) -> ShapedArray:
    """The index of the maximum along the one axis of `axes`: the first of equal ones; NaN counts as the maximum.

    Complex numbers compare lexicographically.
    """
    return _arg_reduced("argmax", x, axes, index_dtype)


@primitive("argmin")
def argmin_p(x: ShapedArray, *, axes: tuple[int, ...], index_dtype: DType) -> ShapedArray:
    """The index of the minimum along the one axis of `axes`: the first of equal ones; NaN counts as the minimum.

    Complex numbers compare lexicographically.
    """
    return _arg_reduced("argmin", x, axes, index_dtype)


# -- cumulative -------------------------------------------------------------------------------------------------


@primitive("cumsum", combine=ew.add_p)
def cumsum_p(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
    """Sums of the elements up to each one along `axis`, itself included; from the end if `reverse`."""
    check_dtype("cumsum", x, NUMBER)
    check_axes("cumsum", x.ndim, (axis,))
    return x


@primitive("cumprod", combine=ew.mul_p)
def cumprod_p(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
    """Products of the elements up to each one along `axis`, itself included; from the end if `reverse`."""
    check_dtype("cumprod", x, NUMBER)
    check_axes("cumprod", x.ndim, (axis,))
    return x


@primitive("cummax", combine=ew.max_p)
def cummax_p(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
    """Maxima of the elements up to each one along `axis`, itself included; from the end if `reverse`. NaN stays."""
    check_dtype("cummax", x, NUMBER)
    check_axes("cummax", x.ndim, (axis,))
    return x


@primitive("cummin", combine=ew.min_p)
def cummin_p(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
    """Minima of the elements up to each one along `axis`, itself included; from the end if `reverse`. NaN stays."""
    check_dtype("cummin", x, NUMBER)
    check_axes("cummin", x.ndim, (axis,))
    return x


@primitive("cumlogsumexp")
def cumlogsumexp_p(x: ShapedArray, *, axis: int, reverse: bool) -> ShapedArray:
    """log of the cumulative sum of exp(x) along `axis`, without overflow; from the end if `reverse`."""
    check_dtype("cumlogsumexp", x, INEXACT)
    check_axes("cumlogsumexp", x.ndim, (axis,))
    return x


# -- thin functions ---------------------------------------------------------------------------------------------


def _reduction(p: Primitive) -> Callable[[Value, Sequence[int]], Value]:
    def apply(x: Value, axes: Sequence[int]) -> Value:
        if not len(axes) and hasattr(x, "aval"):
            return x
        return p.bind(x, axes=canonical_axes(p.name, axes, aval_of(x).ndim))

    apply.__name__ = apply.__qualname__ = p.name
    apply.__doc__ = p.doc
    return apply


reduce_sum, reduce_prod, reduce_max, reduce_min = map(
    _reduction, (reduce_sum_p, reduce_prod_p, reduce_max_p, reduce_min_p)
)
reduce_and, reduce_or, reduce_xor = map(_reduction, (reduce_and_p, reduce_or_p, reduce_xor_p))


def argmax(x: Value, axis: int, index_dtype: Any = dtypes.int32) -> Value:
    """Index of the maximum along `axis`; the first of equal ones; NaN counts as the maximum."""
    axes = canonical_axes("argmax", (axis,), aval_of(x).ndim)
    return argmax_p.bind(x, axes=axes, index_dtype=dtypes.explicit(dtypes.as_dtype(index_dtype)))


def argmin(x: Value, axis: int, index_dtype: Any = dtypes.int32) -> Value:
    """Index of the minimum along `axis`; the first of equal ones; NaN counts as the minimum."""
    axes = canonical_axes("argmin", (axis,), aval_of(x).ndim)
    return argmin_p.bind(x, axes=axes, index_dtype=dtypes.explicit(dtypes.as_dtype(index_dtype)))


def _cumulative(p: Primitive) -> Callable[..., Value]:
    def apply(x: Value, axis: int = 0, reverse: bool = False) -> Value:
        (axis,) = canonical_axes(p.name, (axis,), aval_of(x).ndim)
        return p.bind(x, axis=axis, reverse=bool(reverse))

    apply.__name__ = apply.__qualname__ = p.name
    apply.__doc__ = p.doc
    return apply


cumsum, cumprod, cummax, cummin, cumlogsumexp = map(
    _cumulative, (cumsum_p, cumprod_p, cummax_p, cummin_p, cumlogsumexp_p)
)


# Identities of the reductions that have primitives of their own.


def lowest(dtype: DType) -> Any:
    """The neutral value of max: -inf, the least integer, False."""
    if dtypes.is_inexact(dtype):
        return np.asarray(-np.inf, dtypes.real_dtype(dtype)).astype(dtype)[()]
    return np.bool_(False) if dtypes.is_bool(dtype) else np.asarray(np.iinfo(dtype).min, dtype)[()]


def highest(dtype: DType) -> Any:
    """The neutral value of min: inf, the largest integer, True."""
    if dtypes.is_inexact(dtype):
        return np.asarray(np.inf, dtypes.real_dtype(dtype)).astype(dtype)[()]
    return np.bool_(True) if dtypes.is_bool(dtype) else np.asarray(np.iinfo(dtype).max, dtype)[()]


def identity_of(monoid: str, dtype: DType) -> Any:
    """The neutral value of add, mul, max, min, and, or, xor as a NumPy scalar of the dtype.

    Of add it is 0 and not -0, as in JAX: a sum of several -0 is 0.
    """
    if monoid == "max":
        return lowest(dtype)
    if monoid == "min":
        return highest(dtype)
    if monoid == "and":
        return np.bool_(True) if dtypes.is_bool(dtype) else np.asarray(-1).astype(dtype)[()]
    return np.asarray(1 if monoid == "mul" else 0).astype(dtype)[()]


@dataclass(frozen=True)
class Monoid:
    """An associative operation with a neutral value, which reductions, scans, windows and scatters combine elements by.

    Attributes:
        reduction: the operation along axes.
        dtypes: of the elements.
    """

    reduction: Primitive
    dtypes: tuple[DType, ...]

    @property
    def combine(self) -> Primitive:
        """The operation on two elements; its name is the monoid's."""
        assert self.reduction.combine is not None
        return self.reduction.combine

    @property
    def name(self) -> str:
        """add, mul, max, min, and, or, xor."""
        return self.combine.name

    def neutral(self, dtype: DType) -> Any:
        """What an empty reduction is, and each reduction starts with, as a NumPy scalar."""
        return identity_of(self.name, dtype)


MONOIDS: dict[str, Monoid] = {
    m.name: m
    for m in (
        Monoid(reduce_sum_p, NUMBER), Monoid(reduce_prod_p, NUMBER), Monoid(reduce_max_p, ANY),
        Monoid(reduce_min_p, ANY), Monoid(reduce_and_p, BITS), Monoid(reduce_or_p, BITS), Monoid(reduce_xor_p, BITS),
    )
}  # fmt: skip
"""All monoids by name."""


def monoid_by(p: Primitive) -> str:
    """The name of the monoid that a reduction, scan, window or scatter combines elements by.

    Raises:
        ValueError: the primitive combines no elements.
    """
    if p.combine is None:
        raise ValueError(f"{p.name} combines no elements")
    return p.combine.name


def scalar_jaxpr(
    name: str, f: Callable[..., Sequence[Value]], avals: Sequence[ShapedArray], what: str = "the computation"
) -> ClosedJaxpr:
    """Trace a function of scalars that becomes a nested jaxpr without operands of its own.

    Captured concrete scalars become literals. Raises ValueError when the function uses another traced value or an
    array from outside.
    """
    jaxpr, captured, _ = trace_flat(f, avals, name=f"{what} of {name}")
    if captured:
        literals: dict[Var, Any] = {}
        for var, value in zip(jaxpr.invars, captured):
            if isinstance(value, Tracer) or var.aval.shape:
                kind = "a traced value" if isinstance(value, Tracer) else "an array"
                raise ValueError(
                    f"{name}: {what} uses {kind} {var.aval.short()} from outside: it may use its arguments and "
                    "scalar constants only"
                )
            literals[var] = Literal(np.asarray(value), var.aval)
        eqns: list[Eqn] = [subst_eqn(e, literals) for e in jaxpr.eqns]
        outvars = [literals.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars]
        jaxpr = Jaxpr((), jaxpr.invars[len(captured) :], outvars, eqns)
    return ClosedJaxpr(jaxpr)


def monoid_of(jaxpr: ClosedJaxpr) -> str | None:
    """add, mul, max, min, and, or, xor when the jaxpr is that operation on its two inputs; else None."""
    inner = jaxpr.jaxpr
    if len(inner.eqns) != 1 or len(inner.invars) != 2:
        return None
    (eqn,) = inner.eqns
    if eqn.primitive.name not in MONOIDS or list(inner.outvars) != list(eqn.outputs):
        return None
    if set(eqn.inputs) != set(inner.invars) or inner.in_avals[0].dtype not in MONOIDS[eqn.primitive.name].dtypes:
        return None
    return eqn.primitive.name


def is_identity(monoid: str, value: Value, dtype: DType) -> bool:
    """Whether a value is known to be the neutral value of the monoid."""
    if isinstance(value, Tracer) or aval_of(value).shape:
        return False
    return bool(np.asarray(value).astype(dtype) == identity_of(monoid, dtype))


def reducer_jaxpr(name: str, computation: Callable[..., Any], avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The jaxpr of a function from n accumulators and n elements, as flat arguments, to n accumulators."""
    scalars = [ShapedArray((), a.dtype) for a in avals]

    def flat(*args: Value) -> list[Value]:
        out = computation(*args)
        return list(out) if isinstance(out, list | tuple) else [out]  # pyright: ignore[reportUnknownArgumentType]

    return scalar_jaxpr(name, flat, scalars * 2)


def reduce(
    operands: Sequence[Value],
    init_values: Sequence[Value],
    computation: Callable[..., Any],
    dimensions: Sequence[int],
) -> list[Value]:
    """Reduce some arrays of one shape together over `dimensions`.

    `computation(*accumulators, *elements)` returns the new accumulators. A single operand with a computation that is
    add, mul, max, min, and, or or xor, and that operation's neutral value, becomes reduce_sum and so on.
    """
    avals = [aval_of(x) for x in operands]
    dims = canonical_axes("reduce", dimensions, avals[0].ndim if avals else 0)
    jaxpr = reducer_jaxpr("reduce", computation, avals)
    monoid = monoid_of(jaxpr) if len(operands) == 1 else None
    inits = [like_scalar(i, a.dtype) for i, a in zip(init_values, avals)]
    if (
        monoid is not None
        and aval_of(inits[0]).dtype == avals[0].dtype
        and is_identity(monoid, inits[0], avals[0].dtype)
    ):
        return [MONOIDS[monoid].reduction.bind(operands[0], axes=dims)]
    return reduce_p.bind(*operands, *inits, jaxpr=jaxpr, dimensions=dims)


def like_scalar(value: Value, dtype: DType) -> Value:
    """A Python scalar as a NumPy scalar of the dtype, where its kind allows; other values unchanged."""
    if type(value) in (bool, int, float, complex):
        kinds = (bool, int, float, complex)
        of_dtype = 0 if dtypes.is_bool(dtype) else 1 if dtypes.is_integer(dtype) else 2 if dtypes.is_float(dtype) else 3
        if kinds.index(type(value)) <= of_dtype:
            return np.asarray(value).astype(dtype)[()]
    return value
