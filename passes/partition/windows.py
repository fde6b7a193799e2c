"""Factors of windowed reductions: a device reads the borders of its neighbours' parts (`halos`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.primitives import windows as wn

from .halos import Slide, Window, dilated, extended, spread_out
from .rules import Builder, Factors, Params, emission, factors

Avals = Sequence[ShapedArray]


@dataclass(frozen=True)
class Along:
    """Windows along one dimension: how many, their reach, their step, the padding before, the dilation of what is read."""

    count: int
    reach: int
    step: int
    low: int
    dilation: int

    def reads(self, devices: int) -> tuple[int, int, int]:
        """What the r-th device reads of the dilated operand: (step, first, length)."""
        part = -(-self.count // devices)
        return part * self.step, -self.low, (part - 1) * self.step + self.reach

    def spans(self, devices: int) -> tuple[Window, int]:
        """The same of the operand itself."""
        return dilated(devices, *self.reads(devices), self.dilation)


def _along(d: int, m: int, params: Params) -> Along:
    reach = (params["window_dimensions"][d] - 1) * params.get("window_dilation", (1,) * (d + 1))[d] + 1
    base = params.get("base_dilation", (1,) * (d + 1))[d]
    return Along(m, reach, params["window_strides"][d], params["padding"][d][0], base)


def _trivial(d: int, params: Params) -> bool:
    """Whether windows along a dimension are single elements, one after the other."""
    ones = [params[n] for n in ("window_dimensions", "window_strides", "base_dilation") if n in params]
    return all(v[d] == 1 for v in ones) and tuple(params["padding"][d]) == (0, 0)


def _windows(in_avals: Avals, out_avals: Avals, **params: Any) -> Factors:
    shape, found = in_avals[0].shape, out_avals[0].shape
    b = Builder()
    result = b.dims(found)
    operand: list[tuple[int, ...]] = []
    arrays = [k for k, a in enumerate(in_avals) if a.ndim]
    for d, (n, m) in enumerate(zip(shape, found)):
        if _trivial(d, params):
            operand.append(result[d])
        elif n > 1 and m > 1:
            operand.append(result[d])
            axis = _along(d, m, params)
            b.slides += [Slide(k, d, result[d][0], 0, n, axis.spans) for k in arrays]
        else:
            operand.append((b.new(n, whole=True),))
            b.whole.add(result[d][0])
    return b.done([operand if a.ndim else [] for a in in_avals], [result for _ in out_avals])


for _p in (
    wn.reduce_window_p, wn.reduce_window_sum_p, wn.reduce_window_max_p, wn.reduce_window_min_p, wn.select_and_gather_add_p,
):  # fmt: skip
    factors.add(_p, _windows)


def _read(place: Any, operands: Sequence[Any], eqn: Eqn, fills: Sequence[Any]) -> Sequence[Any]:
    """The primitive on what a device reads, in which padding along divided dimensions is there already."""
    p = eqn.params
    operands = list(operands)
    padding, base = list(p["padding"]), list(p["base_dilation"])
    found = eqn.outputs[0].aval.shape
    for k, fill in enumerate(fills):
        for s in place.slides(k):
            axis = _along(s.dim, found[s.dim], p)
            spans = axis.reads(place.count(s.factor))
            operands[k] = spread_out(place, operands[k], s, spans, axis.dilation, fill)
            padding[s.dim], base[s.dim] = (0, 0), 1
    return place.bind(*operands, padding=tuple(padding), base_dilation=tuple(base))


@emission(wn.reduce_window_p)
def _emit_window(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    return _read(place, operands, eqn, operands[len(operands) // 2 :])


@emission(wn.reduce_window_sum_p, wn.reduce_window_max_p, wn.reduce_window_min_p)
def _emit_monoid(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    return _read(place, operands, eqn, [rd.identity_of(rd.monoid_by(eqn.primitive), aval_of(operands[0]).dtype)])


def _worst(select_prim: str, dtype: Any) -> Any:
    """What is selected last."""
    return rd.identity_of("max" if select_prim == "ge" else "min", dtype)


@emission(wn.select_and_gather_add_p)
def _emit_gather_add(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    dtype = aval_of(operands[1]).dtype
    return _read(place, operands, eqn, [dtype.type(0), _worst(eqn.params["select_prim"], dtype)])


# -- what windows select is added to ------------------------------------------------------------------------------------


@factors(wn.select_and_scatter_p)
def _select_and_scatter(in_avals: Avals, out_avals: Avals, **params: Any) -> Factors:
    b = Builder()
    x, source, _ = in_avals
    dims = [(b.new(n, whole=not _trivial(d, params)),) for d, n in enumerate(x.shape)]
    other = [f if _trivial(d, params) else (b.new(source.shape[d], whole=True),) for d, f in enumerate(dims)]
    return b.done([dims, other, []], [dims])


@dataclass(frozen=True)
class Touching:
    """The windows that hold elements of a part, along one dimension: of `size` elements, in `count` windows."""

    size: int
    reach: int
    step: int
    low: int

    def windows(self, devices: int) -> tuple[Window, int]:
        """The first window that the r-th device looks at, and how many."""
        part = -(-self.size // devices)
        first = Window(part, self.low - self.reach + self.step, self.step)
        return first, max((part * (r + 1) - 1 + self.low) // self.step - first.start(r) + 1 for r in range(devices))

    def elements(self, devices: int) -> tuple[Window, int]:
        """The first element of these windows, and how many."""
        first, count = self.windows(devices)
        return Window(first.step, first.first, self.step, self.step, -self.low), (count - 1) * self.step + self.reach


def _touching(d: int, n: int, params: Params) -> Touching:
    return Touching(n, params["window_dimensions"][d], params["window_strides"][d], params["padding"][d][0])


@factors(wn.select_and_scatter_add_p)
def _select_and_scatter_add(in_avals: Avals, out_avals: Avals, **params: Any) -> Factors:
    source, x = in_avals
    b = Builder()
    dims = b.dims(x.shape)
    other: list[tuple[int, ...]] = []
    for d, (n, m) in enumerate(zip(x.shape, source.shape)):
        if _trivial(d, params):
            other.append(dims[d])
        elif n > 1 and m > 1:
            other.append(dims[d])
            touching = _touching(d, n, params)
            b.slides.append(Slide(0, d, dims[d][0], 0, m, touching.windows))
            b.slides.append(Slide(1, d, dims[d][0], 0, n, touching.elements))
        else:
            other.append((b.new(m, whole=True),))
            b.whole.add(dims[d][0])
    return b.done([other, dims], [dims])


@emission(wn.select_and_scatter_add_p)
def _emit_scatter_add(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    """The windows that touch a part, of which the part is cut."""
    source, x = operands
    dtype = aval_of(x).dtype
    padding = list(eqn.params["padding"])
    for s in place.slides(0):
        source = extended(place, source, s, dtype.type(0))
    slides = place.slides(1)
    for s in slides:
        x = extended(place, x, s, _worst(eqn.params["select_prim"], dtype))
        padding[s.dim] = (0, 0)
    out = place.bind(source, x, padding=tuple(padding))[0]
    for s in slides:
        out = _cut(place, out, s, place.result_shapes[0][s.dim])
    return [out]


def _cut(place: Any, x: Any, s: Slide, part: int) -> Any:
    """A device's part of what it has from its window's start on."""
    count = place.count(s.factor)
    window = s.spans(count)[0]
    shape = aval_of(x).shape
    offsets = [part * r - window.start(r) for r in range(count)]
    before, after = max(0, -min(offsets)), max(0, max(offsets) + part - shape[s.dim])
    x = st.pad(
        x, aval_of(x).dtype.type(0), [(before, after, 0) if d == s.dim else (0, 0, 0) for d in range(len(shape))]
    )
    shape = aval_of(x).shape
    if len(set(offsets)) == 1:
        start = offsets[0] + before
        return st.slice(
            x,
            [start if d == s.dim else 0 for d in range(len(shape))],
            [start + part if d == s.dim else n for d, n in enumerate(shape)],
        )
    r = place.block(s.factor)
    start = ew.sub(ew.add(ew.mul(r, np.int32(part)), np.int32(before)), window.traced(r, count))
    starts = [start if d == s.dim else np.int32(0) for d in range(len(shape))]
    return ix.dynamic_slice_p.bind(x, *starts, slice_sizes=(*shape[: s.dim], part, *shape[s.dim + 1 :]))
