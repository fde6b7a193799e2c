"""Factors of windowed reductions: the dimensions along which a window is one element and moves none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives import windows as wn

from .rules import Builder, Factors, factors

Avals = Sequence[ShapedArray]


def _trivial(ndim: int, params: dict[str, Any]) -> list[bool]:
    """The dimensions along which windows are single elements, one after the other."""
    ones = [params[n] for n in ("window_dimensions", "window_strides", "base_dilation") if n in params]
    return [all(v[d] == 1 for v in ones) and tuple(params["padding"][d]) == (0, 0) for d in range(ndim)]


def _windows(in_avals: Avals, out_avals: Avals, **params: Any) -> Factors:
    ndim = max(a.ndim for a in in_avals)
    same = _trivial(ndim, params)
    b = Builder()
    shared = [(b.new(n, whole=not same[d]),) for d, n in enumerate(in_avals[0].shape)]

    def one(a: ShapedArray) -> list[tuple[int, ...]]:
        if a.ndim < ndim:  # an initial value
            return []
        return [x if same[d] else (b.new(a.shape[d], whole=True),) for d, x in enumerate(shared)]

    return b.done([one(a) for a in in_avals], [one(a) for a in out_avals])


for _p in (
    wn.reduce_window_p, wn.reduce_window_sum_p, wn.reduce_window_max_p, wn.reduce_window_min_p,
    wn.select_and_scatter_p, wn.select_and_scatter_add_p, wn.select_and_gather_add_p,
):  # fmt: skip
    factors.add(_p, _windows)
