"""How primitives that are not elementwise are done on tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..core.errors import NoKernel
from ..core.values import Value
from ..elements.monoids import REDUCTIONS, accumulated, start_of
from ..elements.operations import Element, across, choose, precedes, width_of
from ..lazy.nodes import ZERO, Array, Lane, Node, view, without_ones
from ..lazy.views import clamped
from .interpreter import Interpreter, RegisterArray, axis_of, full_shape, objects, rule

#: The most products of one contraction that are written out.
MOST_PRODUCTS = 1024


def _in_lane(d: int, lane: Lane) -> bool:
    return lane is not None and lane[0] <= d < lane[0] + lane[1]


# -- structure --------------------------------------------------------------------------------------------------------


def reshaped(it: Interpreter, t: RegisterArray, new: tuple[int, ...]) -> RegisterArray:
    """A tile in another shape of the same size."""
    if t.lane is None:
        if t.data.size == 1:
            return RegisterArray(new, t.dtype, t.data.reshape((1,) * len(new)))
        return RegisterArray(new, t.dtype, it.full(t).reshape(new))
    assert it.space is not None
    before = math.prod(t.shape[: t.lane[0]])
    for first, last in itertools.combinations(range(len(new) + 1), 2):
        if math.prod(new[:first]) == before and math.prod(new[first:last]) == it.space.size:
            data = it.full(t).reshape((*new[:first], -1, *new[last:]))
            return RegisterArray(new, t.dtype, data, (first, last - first))
    raise NoKernel("a reshape mixes lanes and other dimensions")


@rule(st.reshape_p, st.squeeze_p)
def reshape(it: Interpreter, eqn: Eqn, x: Node) -> list[Node]:
    """The same elements; of memory a view, where only dimensions of one come or go."""
    shape = eqn.outputs[0].aval.shape
    if isinstance(x, Array) and not any(n == 1 and _in_lane(d, x.lane) for d, n in enumerate(x.shape)):
        renamed = without_ones(x, shape)
        if renamed is not None:
            return [renamed]
    return [reshaped(it, it.in_registers(x), shape)]


@rule(st.concatenate_p)
def concatenate(it: Interpreter, eqn: Eqn, *xs: Node) -> list[RegisterArray]:
    """The elements of all operands side by side, but not along lanes."""
    tiles, lane = it.same_lanes([it.in_registers(x) for x in xs])
    d = eqn.params["dimension"]
    if _in_lane(d, lane):
        raise NoKernel("arrays are joined along the lanes")
    data = np.concatenate([it.full(t) for t in tiles], axis_of(d, lane))
    return [RegisterArray(eqn.outputs[0].aval.shape, tiles[0].dtype, data, lane)]


@rule(st.pad_p)
def pad(it: Interpreter, eqn: Eqn, x: Node, value: Node) -> list[RegisterArray]:
    """The elements with others around and between them, but not along lanes."""
    t, filler = it.in_registers(x), it.in_registers(value).scalar
    config, shape = eqn.params["padding_config"], eqn.outputs[0].aval.shape
    if any(c != (0, 0, 0) and _in_lane(d, t.lane) for d, c in enumerate(config)):
        raise NoKernel("lanes are padded")
    data, out = it.full(t), objects(full_shape(shape, t.lane, it.space))
    out.fill(filler)
    by_axis = {axis_of(d, t.lane): (low, interior + 1) for d, (low, _, interior) in enumerate(config)}
    for index in np.ndindex(data.shape):
        to = tuple(by_axis[axis][0] + i * by_axis[axis][1] for axis, i in enumerate(index))
        if all(0 <= i < n for i, n in zip(to, out.shape)):
            out[to] = data[index]
    return [RegisterArray(shape, t.dtype, out, t.lane)]


@rule(st.tile_p)
def tile(it: Interpreter, eqn: Eqn, x: Node) -> list[RegisterArray]:
    """The elements repeated, but not along lanes."""
    t, reps = it.in_registers(x), eqn.params["reps"]
    if any(r != 1 and _in_lane(d, t.lane) for d, r in enumerate(reps)):
        raise NoKernel("lanes are repeated")
    counts = [
        math.prod(reps[d] for d in range(len(t.shape)) if axis_of(d, t.lane) == axis) for axis in range(t.data.ndim)
    ]
    return [RegisterArray(eqn.outputs[0].aval.shape, t.dtype, np.tile(it.full(t), counts), t.lane)]


@rule(st.iota_p)
def iota(it: Interpreter, eqn: Eqn) -> list[RegisterArray]:
    """Numbers known while the kernel is built; along lanes, vectors of places. Raises NoKernel for many numbers."""
    shape, d, dtype = tuple(eqn.params["shape"]), eqn.params["dimension"], eqn.outputs[0].aval.dtype
    space = it.space
    if space is not None and shape[d] > 1:
        count = len(space.shape)
        lanes = [(k, count) for k in range(d + 1) if k + count > d and shape[k : k + count] == space.shape]
        if lanes:
            data = objects([len(space.chunks) if k == lanes[0][0] else 1 for k in range(len(shape) - count + 1)])
            for number, chunk in zip(np.ndindex(data.shape), space.chunks):
                place = it.b.udiv(it.lane_numbers(chunk, "i32"), math.prod(shape[d + 1 : sum(lanes[0])]))
                data[number] = it.elements.convert(it.b.urem(place, shape[d]), dtypes.int32, dtype)
            return [RegisterArray(shape, dtype, data, lanes[0])]
    if shape[d] > 256:
        raise NoKernel(f"iota of {shape[d]} numbers")
    data = objects([n if k == d else 1 for k, n in enumerate(shape)])
    number = float if dtypes.is_float(dtype) else int
    for i in range(shape[d]):
        data[(0,) * d + (i,)] = number(i)
    return [RegisterArray(shape, dtype, data)]


# -- reductions -------------------------------------------------------------------------------------------------------

Combine = Callable[[Element, Element], Element]


def _tree(combine: Combine, xs: Sequence[Element]) -> Element:
    """All combined, pairwise: short chains of dependent operations."""
    items = list(xs)
    while len(items) > 1:
        items = [combine(items[i], items[i + 1]) if i + 1 < len(items) else items[i] for i in range(0, len(items), 2)]
    return items[0]


def _across(it: Interpreter, combine: Combine, chunks: Sequence[Element], dtype: DType) -> Element:
    """All lanes of some chunks combined: chunks of one width first, then halves of vectors."""
    widest = max(width_of(x) for x in chunks)
    out = [x for x in chunks if width_of(x) != widest]
    total = _tree(combine, [x for x in chunks if width_of(x) == widest])
    total = across(it.elements, total, dtype, combine)
    scalars: list[Element] = [total]
    for x in out:
        scalars.append(x if not width_of(x) else _across(it, combine, [x], dtype))
    return _tree(combine, scalars)


def reduced(it: Interpreter, t: RegisterArray, axes: Sequence[int], dtype: DType, p: Primitive) -> RegisterArray:
    """An array combined over some dimensions by an elementwise primitive."""

    combine, lane = partial(it.elements.binary, p, dtype), t.lane
    inner = [d for d in axes if not _in_lane(d, lane)]
    over = [d for d in axes if _in_lane(d, lane)]
    data = t.data
    for number, d in enumerate(sorted(inner, reverse=True)):
        axis, start = axis_of(d, lane), number == 0
        items = np.moveaxis(np.broadcast_to(data, (*data.shape[:axis], t.shape[d], *data.shape[axis + 1 :])), axis, 0)
        out = objects(items.shape[1:])
        for index in np.ndindex(out.shape):
            out[index] = _tree(
                combine, [*(items[(k, *index)] for k in range(t.shape[d])), *(start_of(p, dtype) if start else ())]
            )
        data = out
    rest = [d for d in range(len(t.shape)) if d not in axes]
    shape = tuple(t.shape[d] for d in rest)
    if not over:
        lane = lane and (lane[0] - sum(d < lane[0] for d in inner), lane[1])
        return RegisterArray(shape, dtype, data, lane)
    assert lane is not None and it.space is not None
    if len(over) != lane[1]:
        raise NoKernel("a reduction over some of the lanes' dimensions")
    if it.space.partial and not it.any_of_own:
        raise NoKernel("a reduction over the elements that are spread")
    axis = lane[0] - sum(d < lane[0] for d in inner)
    chunks = [k.width for k in it.space.chunks]
    items = np.moveaxis(np.broadcast_to(data, (*data.shape[:axis], len(chunks), *data.shape[axis + 1 :])), axis, 0)
    out = objects(items.shape[1:])
    for index in np.ndindex(out.shape):
        lifted = [it.elements.lift(items[(k, *index)], dtype, w) for k, w in enumerate(chunks)]
        total = _across(it, combine, lifted, dtype)
        out[index] = total if inner else _tree(combine, [total, *start_of(p, dtype)])
    return RegisterArray(shape, dtype, out)


def _reduction(p: Primitive) -> Any:
    def apply(it: Interpreter, eqn: Eqn, x: Node) -> list[RegisterArray]:
        t, axes, dtype = it.in_registers(x), eqn.params["axes"], eqn.outputs[0].aval.dtype
        wide = accumulated(p, dtype)
        if wide != dtype:
            t = it.map(lambda e: it.elements.convert(e, dtype, wide), [t], wide)
        if any(t.shape[d] == 0 for d in axes):
            raise NoKernel("a reduction of no elements")
        out = reduced(it, t, axes, wide, p)
        if wide != dtype:
            out = it.map(lambda e: it.elements.convert(e, wide, dtype), [out], dtype)
        return [out]

    return apply


for _p, _op in REDUCTIONS.items():
    rule(_p)(_reduction(_op))


def _arg(order: Primitive) -> Any:
    def apply(it: Interpreter, eqn: Eqn, x: Node) -> list[RegisterArray]:
        t, (d,), index_dtype = it.in_registers(x), eqn.params["axes"], eqn.params["index_dtype"]
        if dtypes.is_complex(t.dtype) or _in_lane(d, t.lane):
            raise NoKernel("the position of an extreme of complex numbers, or among lanes")
        axis = axis_of(d, t.lane)
        items = np.moveaxis(it.full(t), axis, 0)
        out = objects(items.shape[1:])
        e = it.elements
        for index in np.ndindex(out.shape):
            best, place = items[(0, *index)], e.lift(0, index_dtype, width_of(items[(0, *index)]))
            for k in range(1, t.shape[d]):
                candidate = items[(k, *index)]
                width = max(width_of(candidate), width_of(best))
                wins = precedes(it.elements, t.dtype, order, candidate, best)
                lifted = e.lift(candidate, t.dtype, width)
                best = choose(it.b, wins, lifted, e.lift(best, t.dtype, width))
                place = choose(it.b, wins, e.lift(k, index_dtype, width), e.lift(place, index_dtype, width))
            out[index] = place
        lane = t.lane and (t.lane[0] - (d < t.lane[0]), t.lane[1])
        return [RegisterArray(eqn.outputs[0].aval.shape, index_dtype, out, lane)]

    return apply


rule(rd.argmax_p)(_arg(ew.gt_p))
rule(rd.argmin_p)(_arg(ew.lt_p))


def _cumulative(p: Primitive) -> Any:
    def apply(it: Interpreter, eqn: Eqn, x: Node) -> list[RegisterArray]:
        t, d = it.in_registers(x), eqn.params["axis"]
        if _in_lane(d, t.lane):
            raise NoKernel("a cumulative operation along the lanes")
        axis = axis_of(d, t.lane)
        data = np.moveaxis(it.full(t).copy(), axis, 0)
        steps = range(t.shape[d])
        order = list(reversed(steps)) if eqn.params["reverse"] else list(steps)
        wide = accumulated(p, t.dtype)
        for index in np.ndindex(data.shape[1:]):
            total = start_of(p, wide)
            for k in order:
                item = it.elements.convert(data[(k, *index)], t.dtype, wide)
                total = [it.elements.binary(p, wide, total[0], item) if total else item]
                data[(k, *index)] = it.elements.convert(total[0], wide, t.dtype)
        return [RegisterArray(t.shape, t.dtype, np.moveaxis(data, 0, axis), t.lane)]

    return apply


for _p in (rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p):
    if _p.combine is not None:
        rule(_p)(_cumulative(_p.combine))


# -- contraction ------------------------------------------------------------------------------------------------------


@rule(ct.dot_general_p)
def dot_general(it: Interpreter, eqn: Eqn, x: Node, y: Node) -> list[RegisterArray]:
    """Sums of products, all written out. Raises NoKernel past :data:`MOST_PRODUCTS`."""
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    aval = eqn.outputs[0].aval
    wide = accumulated(ew.add_p, aval.dtype)
    a, b = (
        it.out_of_lanes(it.in_registers(t)) if any(_in_lane(d, t.lane) for d in c) else t for t, c in ((x, cx), (y, cy))
    )
    free_a = [d for d in range(len(a.shape)) if d not in cx and d not in bx]
    free_b = [d for d in range(len(b.shape)) if d not in cy and d not in by]
    shape = [a.shape[d] for d in bx] + [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]

    # Where each dimension of the operands is in the product: batch, free of a, free of b, contracted.
    to_a = {d: k for k, d in enumerate([*bx, *free_a])} | {d: len(shape) + k for k, d in enumerate(cx)}
    to_b = {d: k for k, d in enumerate(by)} | {d: len(bx) + len(free_a) + k for k, d in enumerate(free_b)}
    to_b |= {d: len(shape) + k for k, d in enumerate(cy)}
    sizes = (*shape, *(a.shape[d] for d in cx))

    def aligned(t: Node, to: dict[int, int]) -> RegisterArray:
        """The array with its dimensions where they are in the product, and others repeated."""
        spread = it.in_registers(view(t, sizes, [to[d] for d in range(len(t.shape))]))
        return it.map(lambda e: it.elements.convert(e, t.dtype, wide), [spread], wide)

    if math.prod(sizes) // (it.space.size if it.space and (a.lane or b.lane) else 1) > MOST_PRODUCTS:
        raise NoKernel("a contraction has too many products for registers")
    products = it.map(partial(it.elements.binary, ew.mul_p, wide), [aligned(a, to_a), aligned(b, to_b)], wide)
    axes = range(len(shape), len(sizes))
    if any(n == 0 for n in sizes):
        raise NoKernel("a contraction of no elements")
    out = reduced(it, products, list(axes), wide, ew.add_p)
    if wide != aval.dtype:
        out = it.map(lambda e: it.elements.convert(e, wide, aval.dtype), [out], aval.dtype)
    return [out]


# -- slices at indices known at run time ------------------------------------------------------------------------------


@rule(ix.dynamic_slice_p)
def dynamic_slice(it: Interpreter, eqn: Eqn, x: Node, *starts: Node) -> list[Node]:
    """A view of memory, or from a number on; else elements picked by comparisons. Raises NoKernel for parts of lanes."""
    sizes = tuple(eqn.params["slice_sizes"])
    at = [clamped(it, s, n - m) for s, n, m in zip(starts, x.shape, sizes)]
    picked = [] if isinstance(x, Array) else [d for d, i in enumerate(at) if i.terms and x.varies(d)]
    shape = tuple(x.shape[d] if d in picked else m for d, m in enumerate(sizes))
    out = view(x, shape, range(len(shape)), None, [ZERO if d in picked else i for d, i in enumerate(at)])
    for d in picked:
        t = it.in_registers(out)
        if _in_lane(d, t.lane):
            raise NoKernel("lanes are sliced")
        axis, index = axis_of(d, t.lane), at[d].emit(it.b)
        assert isinstance(index, Value)
        items = _picked(it, np.moveaxis(t.data, axis, 0), index, sizes[d], x.shape[d] - sizes[d] + 1, t.dtype)
        shape = (*shape[:d], sizes[d], *shape[d + 1 :])
        out = RegisterArray(shape, t.dtype, np.moveaxis(items, 0, axis), t.lane)
    return [out]


def _picked(it: Interpreter, items: Any, at: Value, n: int, choices: int, dtype: DType) -> Any:
    """``items[at : at + n]`` of the first axis, by a chain of selects."""
    if choices > 32:
        raise NoKernel("a slice at a variable index of an array in registers")
    out = objects((n, *items.shape[1:]))
    tests = [it.b.cmp("eq", at, k) for k in range(1, choices)]
    for index in np.ndindex(out.shape):
        candidates = [items[(index[0] + k, *index[1:])] for k in range(choices)]
        width = max(map(width_of, candidates))
        lifted = [it.elements.lift(c, dtype, width) for c in candidates]
        chosen = lifted[0]
        for test, candidate in zip(tests, lifted[1:]):
            chosen = choose(it.b, test, candidate, chosen)
        out[index] = chosen
    return out


@rule(ix.dynamic_update_slice_p)
def dynamic_update_slice(it: Interpreter, eqn: Eqn, x: Node, update: Node, *starts: Node) -> list[RegisterArray]:
    """Elements replaced by comparisons. Raises NoKernel for parts of lanes, and for too many places."""
    (t, u), lane = it.same_lanes([it.in_registers(x), it.in_registers(update)])
    for d in range(len(t.shape)):
        if _in_lane(d, lane) and u.shape[d] != t.shape[d]:
            raise NoKernel("lanes are updated in part")
    data, new = it.full(t).copy(), it.full(u)
    by_axis: list[Value | int] = [0] * data.ndim
    for d, (start, n, m) in enumerate(zip(starts, t.shape, u.shape)):
        index = clamped(it, start, n - m).emit(it.b)
        if not _in_lane(d, lane):
            by_axis[axis_of(d, lane)] = index
    places = [[p] if isinstance(p, int) else range(n - m + 1) for p, n, m in zip(by_axis, data.shape, new.shape)]
    if math.prod(map(len, places)) * new.size > 4 * MOST_PRODUCTS:
        raise NoKernel("an update at a variable index of an array in registers")
    for place in itertools.product(*places):
        test: Value | None = None
        for p, index in zip(place, by_axis):
            if isinstance(index, Value):
                same = it.b.cmp("eq", index, p)
                test = same if test is None else test & same
        for index in np.ndindex(new.shape):
            to = tuple(p + i for p, i in zip(place, index))
            if test is None:
                data[to] = new[index]
            else:
                width = max(width_of(data[to]), width_of(new[index]))
                data[to] = choose(
                    it.b, test, it.elements.lift(new[index], t.dtype, width), it.elements.lift(data[to], t.dtype, width)
                )
    return [RegisterArray(t.shape, t.dtype, data, lane)]
