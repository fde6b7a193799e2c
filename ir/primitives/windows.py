"""Windowed reductions (pooling) and the operations that their derivatives need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..avals import ShapedArray, aval_of
from ..jaxpr import ClosedJaxpr
from ..primitive import Primitive, primitive
from ..tracing import eval_jaxpr
from . import elementwise as ew
from . import structural as st
from .common import ANY, NUMBER, check_dtype, check_same_dtype
from .reductions import (
    MONOIDS,
    check_reducer,
    identity_of,
    is_identity,
    like_scalar,
    monoid_of,
    reducer_jaxpr,
    scalar_jaxpr,
)

Value = Any
Padding = tuple[tuple[int, int], ...]


def window_shape(
    name: str,
    x: ShapedArray,
    dimensions: tuple[int, ...],
    strides: tuple[int, ...],
    padding: Padding,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> tuple[int, ...]:
    """The shape of a windowed reduction: how often the window fits along each dimension.

    Raises:
        ValueError: a tuple has not one value for each dimension of x.
        TypeError: a value other than padding is not positive.
    """
    for what, values in (
        ("window_dimensions", dimensions), ("window_strides", strides), ("padding", padding),
        ("base_dilation", base_dilation), ("window_dilation", window_dilation),
    ):  # fmt: skip
        if len(values) != x.ndim:
            raise ValueError(f"{name}: {what} {values} must hold one value for each dimension of {x.short()}")
        if what != "padding" and any(int(v) < 1 for v in values):  # pyright: ignore[reportArgumentType]
            raise TypeError(f"{name}: {what} {values} must be positive")
    out: list[int] = []
    for n, w, s, (lo, hi), b, d in zip(x.shape, dimensions, strides, padding, base_dilation, window_dilation):
        padded = (0 if n == 0 else (n - 1) * b + 1) + lo + hi
        reach = (w - 1) * d + 1
        out.append(0 if padded < reach else (padded - reach) // s + 1)
    return tuple(out)


@primitive("reduce_window", multiple_results=True)
def reduce_window_p(
    *operands: ShapedArray,
    jaxpr: ClosedJaxpr,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> tuple[ShapedArray, ...]:
    """Reduce each window of some arrays of one shape with an associative scalar function.

    The operands are n arrays followed by n scalars, which also fill the padding and the gaps of `base_dilation`: where
    there are such, the function `reduce_window` below gives it neutral ones. `jaxpr` takes n accumulators and n
    elements and returns n accumulators.

    Raises:
        TypeError: the shapes of the arrays differ, or operands and function do not fit (`check_reducer`).
        ValueError: the windows do not fit x (`window_shape`).
    """
    n = check_reducer("reduce_window", operands, jaxpr)
    for x in operands[1:n]:
        if x.shape != operands[0].shape:
            given = ", ".join(a.short() for a in operands[:n])
            raise TypeError(f"reduce_window: the operands must have one shape, got {given}")
    shape = window_shape(
        "reduce_window", operands[0], window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    return tuple(ShapedArray(shape, x.dtype) for x in operands[:n])


@primitive("reduce_window_sum", combine=ew.add_p)
def reduce_window_sum_p(
    x: ShapedArray,
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> ShapedArray:
    """The sum of each window. f16 and bf16 accumulate in f32."""
    check_dtype("reduce_window_sum", x, NUMBER)
    return x.update(
        shape=window_shape(
            "reduce_window_sum", x, window_dimensions, window_strides, padding, base_dilation, window_dilation
        )
    )


@primitive("reduce_window_max", combine=ew.max_p)
def reduce_window_max_p(
    x: ShapedArray,
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> ShapedArray:
    """The maximum of each window; padding counts as the least value."""
    check_dtype("reduce_window_max", x, ANY)
    return x.update(
        shape=window_shape(
            "reduce_window_max", x, window_dimensions, window_strides, padding, base_dilation, window_dilation
        )
    )


@primitive("reduce_window_min", combine=ew.min_p)
def reduce_window_min_p(
    x: ShapedArray,
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> ShapedArray:
    """The minimum of each window; padding counts as the largest value."""
    check_dtype("reduce_window_min", x, ANY)
    return x.update(
        shape=window_shape(
            "reduce_window_min", x, window_dimensions, window_strides, padding, base_dilation, window_dilation
        )
    )


def _check_select(name: str, select_prim: str) -> None:
    if select_prim not in ("ge", "le"):
        raise ValueError(f"{name}: select_prim must be 'ge' or 'le', got {select_prim!r}")


def _ones(ndim: int) -> tuple[int, ...]:
    return (1,) * ndim


def _check_source(name: str, source: ShapedArray, x: ShapedArray, shape: tuple[int, ...]) -> None:
    check_same_dtype(name, source, x)
    if source.shape != shape:
        raise TypeError(
            f"{name}: source {source.short()} must have shape {shape}, one value for each window of {x.short()}"
        )


@primitive("select_and_scatter")
def select_and_scatter_p(
    x: ShapedArray,
    source: ShapedArray,
    init_value: ShapedArray,
    *,
    select_jaxpr: ClosedJaxpr,
    scatter_jaxpr: ClosedJaxpr,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
) -> ShapedArray:
    """For each window of x, combine its value of `source` into the position that the window's selection picks.

    `select_jaxpr(a, b)` tells whether a stays selected against b; `scatter_jaxpr` combines two values; positions that
    no window selects hold `init_value`.

    Raises:
        TypeError: `init_value` is no scalar of x's dtype, or `source` has another dtype than x or not one value for
            each window.
        ValueError: the windows do not fit x (`window_shape`).
    """
    shape = window_shape(
        "select_and_scatter", x, window_dimensions, window_strides, padding, _ones(x.ndim), _ones(x.ndim)
    )
    _check_source("select_and_scatter", source, x, shape)
    if init_value.shape or init_value.dtype != x.dtype:
        raise TypeError(f"select_and_scatter: init_value {init_value.short()} must be a scalar of dtype {x.dtype}")
    return x.strong()


@primitive("select_and_scatter_add", combine=ew.add_p)
def select_and_scatter_add_p(
    source: ShapedArray,
    x: ShapedArray,
    *,
    select_prim: str,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
) -> ShapedArray:
    """Add each value of `source` to the position of the largest (select_prim ge) or smallest (le) element of its
    window of x. The first one wins a tie. This is the transpose of `select_and_gather_add`."""
    name = "select_and_scatter_add"
    _check_select(name, select_prim)
    shape = window_shape(name, x, window_dimensions, window_strides, padding, _ones(x.ndim), _ones(x.ndim))
    _check_source(name, source, x, shape)
    return x.strong()


@primitive("select_and_gather_add")
def select_and_gather_add_p(
    tangents: ShapedArray,
    x: ShapedArray,
    *,
    select_prim: str,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Padding,
    base_dilation: tuple[int, ...],
    window_dilation: tuple[int, ...],
) -> ShapedArray:
    """The element of `tangents` at the position of the largest (select_prim ge) or smallest (le) element of each
    window of x; 0 where the window holds padding only. The first one wins a tie.

    Raises:
        TypeError: the dtypes or shapes of `tangents` and x differ.
        ValueError: `select_prim` is another name, or the windows do not fit x (`window_shape`).
    """
    name = "select_and_gather_add"
    _check_select(name, select_prim)
    check_same_dtype(name, tangents, x)
    if tangents.shape != x.shape:
        raise TypeError(f"{name}: tangents {tangents.short()} must have the shape of {x.short()}")
    shape = window_shape(name, x, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return tangents.update(shape=shape)


# -- thin functions ---------------------------------------------------------------------------------------------


def padding_of(
    padding: str | Sequence[Sequence[int]],
    shape: Sequence[int],
    dimensions: Sequence[int],
    strides: Sequence[int],
    window_dilation: Sequence[int],
) -> Padding:
    """(low, high) of each dimension from "SAME", "SAME_LOWER", "VALID" or such pairs.

    SAME gives ceil(n / stride) windows of an array that is not dilated, the odd padding at the end (SAME_LOWER: at the
    start); a dilated one is padded as much, as in JAX.

    Raises:
        ValueError: `padding` is another name.
    """
    if not isinstance(padding, str):
        return tuple((int(lo), int(hi)) for lo, hi in padding)
    kind = padding.upper()
    if kind == "VALID":
        return ((0, 0),) * len(shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise ValueError(f"padding must be 'SAME', 'SAME_LOWER', 'VALID' or (low, high) pairs, got {padding!r}")
    out: list[tuple[int, int]] = []
    for n, w, s, d in zip(shape, dimensions, strides, window_dilation):
        reach = (w - 1) * d + 1
        total = max((-(-n // s) - 1) * s + reach - n, 0)
        small = total // 2
        out.append((small, total - small) if kind == "SAME" else (total - small, small))
    return tuple(out)


def _window_params(
    ndim: int,
    shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: str | Sequence[Sequence[int]],
    base_dilation: Sequence[int] | None,
    window_dilation: Sequence[int] | None,
) -> dict[str, Any]:
    ones = _ones(ndim)
    dims = tuple(map(int, window_dimensions))
    strides = ones if window_strides is None else tuple(map(int, window_strides))
    base = ones if base_dilation is None else tuple(map(int, base_dilation))
    dilation = ones if window_dilation is None else tuple(map(int, window_dilation))
    pads = padding_of(padding, shape, dims, strides, dilation)
    return {
        "window_dimensions": dims, "window_strides": strides, "padding": pads,
        "base_dilation": base, "window_dilation": dilation,
    }  # fmt: skip


_MONOID_WINDOWS: dict[str, Primitive] = {
    p.combine.name: p for p in (reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p) if p.combine is not None
}


def reduce_window(
    operands: Sequence[Value],
    init_values: Sequence[Value],
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: str | Sequence[Sequence[int]] = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> list[Value]:
    """Reduce each window of some arrays of one shape: `init_values` once, and the elements that the window has there.

    Padding and the gaps of `base_dilation` are no elements, as in JAX, whatever the initial values are. Where these
    are not known to be neutral, `reduce_window_p` is given neutral ones (add, mul, max, min, and, or, xor), or
    marks beside the elements (any other function).

    A single operand reduced by add, max or min becomes reduce_window_sum, _max or _min.
    """
    avals = [aval_of(x) for x in operands]
    jaxpr = reducer_jaxpr("reduce_window", computation, avals)
    params = _window_params(
        avals[0].ndim, avals[0].shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
    )
    inits = [like_scalar(i, a.dtype) for i, a in zip(init_values, avals)]
    fits = [aval_of(i).update(weak_type=False) for i in inits] == [ShapedArray((), a.dtype) for a in avals]
    if not fits:  # the type rule says so
        return reduce_window_p.bind(*operands, *inits, jaxpr=jaxpr, **params)
    monoid = monoid_of(jaxpr) if len(operands) == 1 else None
    if monoid is not None:
        return [_monoid_windows(monoid, operands[0], inits[0], jaxpr, params)]
    if _has_holes(avals[0].shape, params):
        return _marked_windows(operands, inits, jaxpr, params)
    return reduce_window_p.bind(*operands, *inits, jaxpr=jaxpr, **params)


def _has_holes(shape: Sequence[int], params: dict[str, Any]) -> bool:
    """Whether a window may hold a place where there is no element."""
    sides = zip(shape, params["padding"], params["base_dilation"])
    return any(lo > 0 or hi > 0 or (base > 1 and n > 1) for n, (lo, hi), base in sides)


def _monoid_windows(monoid: str, x: Value, init: Value, jaxpr: ClosedJaxpr, params: dict[str, Any]) -> Value:
    dtype = aval_of(x).dtype
    neutral = identity_of(monoid, dtype)
    if monoid in _MONOID_WINDOWS:
        out = _MONOID_WINDOWS[monoid].bind(x, **params)
    else:
        (out,) = reduce_window_p.bind(x, neutral, jaxpr=jaxpr, **params)
    return out if is_identity(monoid, init, dtype) else MONOIDS[monoid].combine.bind(init, out)


def _marked_windows(
    operands: Sequence[Value], inits: Sequence[Value], jaxpr: ClosedJaxpr, params: dict[str, Any]
) -> list[Value]:
    """Windows of elements and marks: a hole, which has no mark, changes nothing."""
    n = len(operands)
    config = [(lo, hi, base - 1) for (lo, hi), base in zip(params["padding"], params["base_dilation"])]
    padded = [st.pad(x, init, config) for x, init in zip(operands, inits)]
    marks = st.pad(st.broadcast(np.True_, aval_of(operands[0]).shape), np.False_, config)

    def combine(*values: Value) -> list[Value]:
        (*before, started), (*elements, there) = values[: n + 1], values[n + 1 :]
        both = eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, [*before, *elements])
        one = [ew.select_n(started, e, b) for b, e in zip(before, elements)]
        return [
            *(ew.select_n(ew.bitwise_and(started, there), o, t) for o, t in zip(one, both)),
            ew.bitwise_or(started, there),
        ]

    avals = [aval_of(x) for x in (*padded, marks)]
    reducer = reducer_jaxpr("reduce_window", combine, avals)
    plain = params | {"padding": ((0, 0),) * avals[0].ndim, "base_dilation": _ones(avals[0].ndim)}
    return reduce_window_p.bind(*padded, marks, *inits, np.True_, jaxpr=reducer, **plain)[:n]


def _window_reduction(p: Primitive) -> Callable[..., Value]:
    def apply(
        x: Value,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int] | None = None,
        padding: str | Sequence[Sequence[int]] = "VALID",
        base_dilation: Sequence[int] | None = None,
        window_dilation: Sequence[int] | None = None,
    ) -> Value:
        aval = aval_of(x)
        return p.bind(
            x,
            **_window_params(
                aval.ndim, aval.shape, window_dimensions, window_strides, padding, base_dilation, window_dilation
            ),
        )

    apply.__name__ = apply.__qualname__ = p.name
    apply.__doc__ = p.doc
    return apply


reduce_window_sum, reduce_window_max, reduce_window_min = map(
    _window_reduction, (reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p)
)


def select_and_scatter(
    x: Value,
    source: Value,
    init_value: Value,
    select: Callable[[Value, Value], Value],
    scatter: Callable[[Value, Value], Value],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: str | Sequence[Sequence[int]],
) -> Value:
    """For each window of x, combine its value of `source` into the position that `select` picks."""
    aval = aval_of(x)
    params = _window_params(aval.ndim, aval.shape, window_dimensions, window_strides, padding, None, None)
    scalars = [ShapedArray((), aval.dtype)] * 2

    def select_scalars(a: Value, b: Value) -> list[Value]:
        return [select(a, b)]

    def scatter_scalars(a: Value, b: Value) -> list[Value]:
        return [scatter(a, b)]

    return select_and_scatter_p.bind(
        x, source, like_scalar(init_value, aval.dtype),
        select_jaxpr=scalar_jaxpr("select_and_scatter", select_scalars, scalars, "the selection"),
        scatter_jaxpr=scalar_jaxpr("select_and_scatter", scatter_scalars, scalars, "the combination"),
        window_dimensions=params["window_dimensions"], window_strides=params["window_strides"],
        padding=params["padding"],
    )  # fmt: skip


def select_and_scatter_add(
    source: Value,
    x: Value,
    select_prim: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[Sequence[int]],
) -> Value:
    """Add each value of `source` at the extreme position of its window of x; see `select_and_scatter_add_p`."""
    pads = tuple((int(lo), int(hi)) for lo, hi in padding)
    return select_and_scatter_add_p.bind(
        source, x, select_prim=select_prim, window_dimensions=tuple(window_dimensions),
        window_strides=tuple(window_strides), padding=pads,
    )  # fmt: skip


def select_and_gather_add(
    tangents: Value,
    x: Value,
    select_prim: str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[Sequence[int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> Value:
    """The element of `tangents` at the extreme position of each window of x; see `select_and_gather_add_p`."""
    pads = tuple((int(lo), int(hi)) for lo, hi in padding)
    return select_and_gather_add_p.bind(
        tangents, x, select_prim=select_prim, window_dimensions=tuple(window_dimensions),
        window_strides=tuple(window_strides), padding=pads, base_dilation=tuple(base_dilation),
        window_dilation=tuple(window_dilation),
    )  # fmt: skip
