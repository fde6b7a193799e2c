"""Reference rules of windowed reductions: a loop over the window's positions, each a strided view of the operand."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import windows as wd

from .elementwise import extremum
from .engine import eval_jaxpr
from .reductions import widened
from .rules import reference
from .scalar_functions import apply_scalar
from .structural import pad

Params = dict[str, Any]


def _full(p: Params) -> Params:
    ones = (1,) * len(p["window_dimensions"])
    return {"base_dilation": ones, "window_dilation": ones} | p


def _views(x: Any, fill: Any, out_shape: tuple[int, ...], p: Params) -> Iterator[Any]:
    """For each position of the window, in row-major order, the elements that all windows have there."""
    p = _full(p)
    config = tuple((lo, hi, b - 1) for (lo, hi), b in zip(p["padding"], p["base_dilation"]))
    padded = pad(x, np.asarray(fill, x.dtype), padding_config=config)
    for offsets in itertools.product(*map(range, p["window_dimensions"])):
        yield padded[
            tuple(
                slice(o * d, o * d + (m - 1) * s + 1 if m else o * d, s)
                for o, d, m, s in zip(offsets, p["window_dilation"], out_shape, p["window_strides"])
            )
        ]


def _out_shape(x: Any, p: Params) -> tuple[int, ...]:
    from quire.ir.avals import ShapedArray

    q = _full(p)
    return wd.window_shape(
        "window", ShapedArray(x.shape, x.dtype), q["window_dimensions"], q["window_strides"], q["padding"],
        q["base_dilation"], q["window_dilation"],
    )  # fmt: skip


@reference(wd.reduce_window_p)
def reduce_window(*operands: Any, jaxpr: ClosedJaxpr, **params: Any) -> Any:
    n = len(operands) // 2
    shape = _out_shape(operands[0], params)
    accumulators = [np.broadcast_to(init, shape) for init in operands[n:]]
    views = zip(*(_views(x, init, shape, params) for x, init in zip(operands[:n], operands[n:])))
    for elements in views:
        accumulators = apply_scalar(jaxpr, *accumulators, *elements)
    return accumulators


def _windowed(ufunc: Callable[..., Any], monoid: str) -> Callable[..., Any]:
    def rule(x: Any, **params: Any) -> Any:
        wide = widened(x)
        shape = _out_shape(x, params)
        fill = rd.identity_of(monoid, wide.dtype)
        out = np.full(shape, fill, wide.dtype)
        for view in _views(wide, fill, shape, params):
            out = ufunc(out, view)
        return out

    return rule


reference.add(wd.reduce_window_sum_p, _windowed(np.add, "add"))
reference.add(wd.reduce_window_max_p, _windowed(extremum(np.maximum, np.greater), "max"))
reference.add(wd.reduce_window_min_p, _windowed(extremum(np.minimum, np.less), "min"))


def _picked(x: Any, better: Callable[[Any, Any], Any], params: Params) -> Any:
    """The flat position in x that each window picks; -1 for a window without elements.

    ``better(candidate, best)`` tells where the candidate replaces the best so far.
    """
    shape = _out_shape(x, params)
    positions = np.arange(x.size).reshape(x.shape)
    best, at = np.zeros(shape, x.dtype), np.full(shape, -1)
    for value, position in zip(_views(x, 0, shape, params), _views(positions, -1, shape, params)):
        take = (position >= 0) & ((at < 0) | better(value, best))
        best, at = np.where(take, value, best), np.where(take, position, at)
    return at


def _extreme(x: Any, select_prim: str, params: Params) -> Any:
    wide = widened(x)

    def better(a: Any, b: Any) -> Any:
        if dtypes.is_inexact(wide.dtype):
            return np.where(np.isnan(b), False, (a > b if select_prim == "ge" else a < b) | np.isnan(a))
        return a > b if select_prim == "ge" else a < b

    return _picked(wide, better, params)


@reference(wd.select_and_scatter_add_p)
def select_and_scatter_add(source: Any, x: Any, *, select_prim: str, **params: Any) -> Any:
    at = _extreme(x, select_prim, params)
    out = np.zeros(x.size, widened(x).dtype)
    np.add.at(out, at[at >= 0], widened(source)[at >= 0])
    return out.reshape(x.shape)


@reference(wd.select_and_gather_add_p)
def select_and_gather_add(tangents: Any, x: Any, *, select_prim: str, **params: Any) -> Any:
    at = _extreme(x, select_prim, params)
    zero = np.zeros(1, tangents.dtype)
    return np.concatenate([tangents.reshape(-1), zero])[at]


@reference(wd.select_and_scatter_p)
def select_and_scatter(
    x: Any, source: Any, init_value: Any, *, select_jaxpr: ClosedJaxpr, scatter_jaxpr: ClosedJaxpr, **params: Any
) -> Any:
    def better(candidate: Any, best: Any) -> Any:
        (stays,) = apply_scalar(select_jaxpr, best, candidate)
        return ~stays

    at = _picked(x, better, params)
    out = np.full(x.size, init_value, x.dtype)
    for position, value in zip(at.reshape(-1), source.reshape(-1)):
        if position >= 0:
            (out[position],) = eval_jaxpr(scatter_jaxpr, out[position], value)
    return out.reshape(x.shape)
