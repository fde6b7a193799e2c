"""Factors of structural primitives; iota counts from where its part begins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .halos import Slide, Window, dilated, extended, spread_out
from .rules import Builder, Factors, Params, Shapes, emission, factors

Avals = Sequence[ShapedArray]


@factors(st.broadcast_in_dim_p)
def _broadcast(in_avals: Avals, out_avals: Avals, *, broadcast_dimensions: Sequence[int], **_: Any) -> Factors:
    b = Builder()
    result = b.dims(out_avals[0].shape)
    operand = [
        result[d] if n == out_avals[0].shape[d] else (b.new(n, whole=True),)
        for n, d in zip(in_avals[0].shape, broadcast_dimensions)
    ]
    return b.done([operand], [result], lambda ins, outs: {"shape": outs[0]})


def reshape_factors(old: Sequence[int], new: Sequence[int]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """The sizes of the factors of a reshape, and those of each dimension of both shapes, the major one first.

    Dimensions are taken apart from the left; what the next ones of both shapes have in common is a factor.
    """
    sizes: list[int] = []
    left: list[list[int]] = [[] for _ in old]
    right: list[list[int]] = [[] for _ in new]
    i = j = 0
    m, n = (old[0] if old else 1), (new[0] if new else 1)
    while i < len(old) or j < len(new):
        if i < len(old) and m == 1:
            i += 1
            m = old[i] if i < len(old) else 1
        elif j < len(new) and n == 1:
            j += 1
            n = new[j] if j < len(new) else 1
        elif max(m, n) % min(m, n):
            return _apart(old, new)
        else:
            f = min(m, n)
            sizes.append(f)
            left[i].append(len(sizes) - 1)
            right[j].append(len(sizes) - 1)
            m, n = m // f, n // f
    return sizes, left, right


def _apart(old: Sequence[int], new: Sequence[int]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """The factors where neither of two dimensions divides the other: the equal ones before, then whole ones.

    What cannot be divided is marked by size -1; its own size is that of the dimension.
    """
    sizes: list[int] = []
    left: list[list[int]] = []
    right: list[list[int]] = []
    k = 0
    while k < min(len(old), len(new)) and old[k] == new[k]:
        sizes.append(old[k])
        left.append([k])
        right.append([k])
        k += 1
    for shape, dims in ((old, left), (new, right)):
        for _ in shape[k:]:
            sizes.append(-1)
            dims.append([len(sizes) - 1])
    return sizes, left, right


@factors(st.reshape_p)
def _reshape(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    old, new = in_avals[0].shape, out_avals[0].shape

    def local(ins: Shapes, outs: Shapes) -> Params:
        return {"new_sizes": outs[0]}

    b = Builder()
    if not in_avals[0].size:
        return b.done([b.dims(old, whole=True)], [b.dims(new, whole=True)], local)
    sizes, left, right = reshape_factors(old, new)
    dims = [(shape[d], i) for shape, side in ((old, left), (new, right)) for d, ids in enumerate(side) for i in ids]
    for i, n in enumerate(sizes):
        b.new(n if n > 0 else next(size for size, k in dims if k == i), whole=n < 0)
    # Dimensions of size 1 are factors of their own.
    operand = [tuple(ids) or (b.new(1, whole=True),) for ids in left]
    result = [tuple(ids) or (b.new(1, whole=True),) for ids in right]
    return b.done([operand], [result], local)


@factors(st.transpose_p)
def _transpose(in_avals: Avals, out_avals: Avals, *, permutation: Sequence[int]) -> Factors:
    b = Builder()
    dims = b.dims(in_avals[0].shape)
    return b.done([dims], [[dims[d] for d in permutation]])


@factors(st.squeeze_p)
def _squeeze(in_avals: Avals, out_avals: Avals, *, dimensions: Sequence[int]) -> Factors:
    b = Builder()
    dims = [(b.new(n, whole=d in dimensions),) for d, n in enumerate(in_avals[0].shape)]
    return b.done([dims], [[x for d, x in enumerate(dims) if d not in dimensions]])


@factors(st.rev_p)
def _rev(in_avals: Avals, out_avals: Avals, *, dimensions: Sequence[int]) -> Factors:
    b = Builder()
    dims = b.dims(in_avals[0].shape)
    # The r-th part goes to the r-th device from the end, if all are full.
    b.even.update(dims[d][0] for d in dimensions)
    b.exchanged.update((0, d) for d in dimensions)
    return b.done([dims], [dims])


@emission(st.rev_p)
def _emit_rev(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x = operands[0]
    for d in eqn.params["dimensions"]:
        axes = place.operand_specs[0][d]
        if axes:
            k = place.emitter_count(axes)
            x = place.emitter.ppermute(x, axes, [(r, k - 1 - r) for r in range(k)], "rev: the part at the other end")
    return place.bind(x)


@factors(st.concatenate_p)
def _concatenate(in_avals: Avals, out_avals: Avals, *, dimension: int) -> Factors:
    return _along(in_avals, out_avals, dimension)


@factors(st.split_p)
def _split(in_avals: Avals, out_avals: Avals, *, axis: int, **_: Any) -> Factors:
    return _along(in_avals, out_avals, axis)


def _along(in_avals: Avals, out_avals: Avals, dimension: int) -> Factors:
    """All dimensions but one are the same everywhere."""
    b = Builder()
    shared = b.dims(in_avals[0].shape)

    def one(a: ShapedArray) -> list[tuple[int, ...]]:
        return [x if d != dimension else (b.new(a.shape[d], whole=True),) for d, x in enumerate(shared)]

    return b.done([one(a) for a in in_avals], [one(a) for a in out_avals])


def untouched(
    x: ShapedArray, y: ShapedArray, same: Sequence[bool], params: Any = None, others: Sequence[ShapedArray] = ()
) -> Factors:
    """An operand and a result whose dimensions are the same where `same` says so; `others` are operands not divided."""
    b = Builder()
    operand: list[tuple[int, ...]] = []
    result: list[tuple[int, ...]] = []
    for m, n, equal in zip(x.shape, y.shape, same, strict=True):
        first = b.new(m, whole=not equal)
        operand.append((first,))
        result.append((first,) if equal else (b.new(n, whole=True),))
    return b.done([operand, *(b.dims(a.shape, whole=True) for a in others)], [result], params)


# Pads and slices without gaps are assembled (`assembly`); those that are left have gaps.


@factors(st.pad_p)
def _pad(in_avals: Avals, out_avals: Avals, *, padding_config: Sequence[tuple[int, int, int]]) -> Factors:
    b = Builder()
    operand: list[tuple[int, ...]] = []
    result: list[tuple[int, ...]] = []
    for d, (n, m, c) in enumerate(zip(in_avals[0].shape, out_avals[0].shape, padding_config)):
        result.append((b.new(m),))
        if c == (0, 0, 0):
            operand.append(result[d])
        elif 1 < n and 1 < m and n * (c[2] + 1) <= 2 * m and m <= 2 * n * (c[2] + 1):
            operand.append(result[d])
            b.slides.append(Slide(0, d, result[d][0], 0, n, _padded(m, c)))
        else:
            operand.append((b.new(n, whole=True),))
            b.whole.add(result[d][0])
    return b.done([operand, []], [result])


def _padded(m: int, config: tuple[int, int, int]) -> Callable[[int], tuple[Window, int]]:
    def spans(count: int) -> tuple[Window, int]:
        part = -(-m // count)
        return dilated(count, part, -config[0], part, config[2] + 1)

    return spans


@emission(st.pad_p)
def _emit_pad(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x, fill = operands
    config = list(eqn.params["padding_config"])
    for s in place.slides(0):
        lo, _, interior = config[s.dim]
        part = place.result_shapes[0][s.dim]
        x = spread_out(place, x, s, (part, -lo, part), interior + 1, fill)
        config[s.dim] = (0, 0, 0)
    return [st.pad(x, fill, config)]


@factors(st.slice_p)
def _slice(
    in_avals: Avals, out_avals: Avals, *, start_indices: Sequence[int], limit_indices: Sequence[int], strides: Any
) -> Factors:
    b = Builder()
    operand: list[tuple[int, ...]] = []
    result: list[tuple[int, ...]] = []
    steps = strides or (1,) * in_avals[0].ndim
    for d, (n, m) in enumerate(zip(in_avals[0].shape, out_avals[0].shape)):
        result.append((b.new(m),))
        if n == m:
            operand.append(result[d])
        elif 1 < m and n <= 2 * m * steps[d]:
            operand.append(result[d])
            b.slides.append(Slide(0, d, result[d][0], 0, n, _strided(m, start_indices[d], steps[d])))
        else:
            operand.append((b.new(n, whole=True),))
            b.whole.add(result[d][0])
    return b.done([operand], [result])


def _strided(m: int, start: int, step: int) -> Callable[[int], tuple[Window, int]]:
    def spans(count: int) -> tuple[Window, int]:
        part = -(-m // count)
        return Window(part * step, start), (part - 1) * step + 1

    return spans


@emission(st.slice_p)
def _emit_slice(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    x = operands[0]
    read = {s.dim: s for s in place.slides(0)}
    for s in read.values():
        x = extended(place, x, s)
    starts, limits = list(eqn.params["start_indices"]), list(eqn.params["limit_indices"])
    for d, n in enumerate(aval_of(x).shape):
        if d in read or place.operand_specs[0][d]:  # what is read already, or a dimension that is not cut
            starts[d], limits[d] = 0, n
    return [st.slice(x, starts, limits, eqn.params["strides"])]


@factors(st.iota_p)
def _iota(in_avals: Avals, out_avals: Avals, **_: Any) -> Factors:
    b = Builder()
    return b.done([], [b.dims(out_avals[0].shape)], lambda ins, outs: {"shape": outs[0]})


@emission(st.iota_p)
def _emit_iota(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    dtype, dimension = eqn.params["dtype"], eqn.params["dimension"]
    out = place.bind()[0]
    if not place.result_specs[0][dimension]:
        return [out]
    start = place.start(0, dimension)
    if dtype != dtypes.int32:
        start = ew.convert_element_type(start, dtype)
    return [ew.add(out, start)]


@factors(st.tile_p)
def _tile(in_avals: Avals, out_avals: Avals, *, reps: Sequence[int]) -> Factors:
    return untouched(in_avals[0], out_avals[0], [r == 1 for r in reps])


@factors(st.optimization_barrier_p)
def _barrier(in_avals: Avals, out_avals: Avals) -> Factors:
    b = Builder()
    dims = [b.dims(a.shape) for a in in_avals]
    return b.done(dims, dims)
