"""How primitives that are not elementwise are done on tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import random as rn
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..core.errors import NoKernel
from ..core.values import Value
from ..elements.monoids import REDUCTIONS, start_of
from ..elements.operations import HALF, Element, bits_of, choose, is_number, precedes, threefry, width_of
from .interpreter import Array, Interpreter, RegisterArray, Stored, axis_of, moved, objects, rule

#: The most products of one contraction that are written out.
MOST_PRODUCTS = 1024


def _in_lane(d: int, lane: tuple[int, int] | None) -> bool:
    return lane is not None and lane[0] <= d < lane[0] + lane[1]


# -- structure --------------------------------------------------------------------------------------------------------


@rule(st.broadcast_in_dim_p)
def broadcast_in_dim(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
    """The same elements, with axes of one where they are repeated. Raises NoKernel for repeated lanes."""
    shape, where = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    t = it.in_registers(x)
    lane = None
    if t.lane is not None:
        first, count = t.lane
        lane = (where[first], count)
        if any(
            where[first + k] != where[first] + k or shape[where[first + k]] != t.shape[first + k] for k in range(count)
        ):
            raise NoKernel("an array is repeated within its lanes")
    sizes = [1] * (len(shape) - (lane[1] - 1 if lane else 0))
    for d, to in enumerate(where):
        sizes[axis_of(to, lane)] = t.data.shape[axis_of(d, t.lane)]
    return [RegisterArray(tuple(shape), t.dtype, t.data.reshape(sizes), lane)]


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


@rule(st.reshape_p)
def reshape(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
    """See :func:`reshaped`."""
    return [reshaped(it, it.in_registers(x), tuple(eqn.params["new_sizes"]))]


@rule(st.squeeze_p)
def squeeze(it: Interpreter, eqn: Eqn, x: Array) -> list[Any]:
    """The same elements without dimensions of one."""
    gone = eqn.params["dimensions"]
    if isinstance(x, Stored) and not any(_in_lane(d, x.lane) for d in gone):
        keep = [d for d in range(len(x.shape)) if d not in gone]
        lane = x.lane and (keep.index(x.lane[0]), x.lane[1])
        return [replace(x, shape=eqn.outputs[0].aval.shape, strides=tuple(x.strides[d] for d in keep), lane=lane)]
    return [reshaped(it, it.in_registers(x), eqn.outputs[0].aval.shape)]


@rule(st.transpose_p)
def transpose(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
    """The elements with their axes in another order; lanes stay neighbours."""
    order, t = eqn.params["permutation"], it.in_registers(x)
    shape = tuple(t.shape[d] for d in order)
    if t.lane is None:
        return [RegisterArray(shape, t.dtype, t.data.transpose(order))]
    first, count = t.lane
    at = order.index(first)
    if tuple(order[at : at + count]) != tuple(range(first, first + count)):
        raise NoKernel("the dimensions of the lanes are transposed")
    axes = [axis_of(d, t.lane) for d in order if not first < d < first + count]
    return [RegisterArray(shape, t.dtype, t.data.transpose(axes), (at, count))]


@rule(st.slice_p)
def slice_(it: Interpreter, eqn: Eqn, x: Array) -> list[Any]:
    """Some of the elements; lanes are taken whole."""
    start, stop = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * len(start)
    shape = eqn.outputs[0].aval.shape
    for d, (lo, hi, step) in enumerate(zip(start, stop, strides)):
        if _in_lane(d, x.lane) and (lo, hi, step) != (0, x.shape[d], 1):
            raise NoKernel("lanes are sliced")
    if isinstance(x, Stored):
        base = moved(it.b, x.base, sum(lo * s for lo, s in zip(start, x.strides)), 1)
        return [replace(x, shape=shape, base=base, strides=tuple(a * s for a, s in zip(x.strides, strides)))]
    data = x.data
    for d, (lo, hi, step) in enumerate(zip(start, stop, strides)):
        axis = axis_of(d, x.lane)
        if not _in_lane(d, x.lane) and data.shape[axis] > 1:
            data = data[(slice(None),) * axis + (slice(lo, hi, step),)]
    return [RegisterArray(shape, x.dtype, data, x.lane)]


@rule(st.split_p)
def split(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
    """The elements of each part; lanes are taken whole."""
    d, t = eqn.params["axis"], it.in_registers(x)
    if _in_lane(d, t.lane):
        raise NoKernel("lanes are split")
    ends = list(itertools.accumulate(eqn.params["sizes"]))
    pieces = np.split(it.full(t), ends[:-1], axis_of(d, t.lane))
    return [RegisterArray(v.aval.shape, t.dtype, p, t.lane) for v, p in zip(eqn.outputs, pieces)]


@rule(st.rev_p)
def rev(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
    """The elements in reverse order, but not along lanes."""
    t = it.in_registers(x)
    if any(_in_lane(d, t.lane) for d in eqn.params["dimensions"]):
        raise NoKernel("lanes are reversed")
    axes = tuple(axis_of(d, t.lane) for d in eqn.params["dimensions"])
    return [RegisterArray(t.shape, t.dtype, np.flip(t.data, axes), t.lane)]


@rule(st.concatenate_p)
def concatenate(it: Interpreter, eqn: Eqn, *xs: Array) -> list[RegisterArray]:
    """The elements of all operands side by side, but not along lanes."""
    tiles, lane = it.same_lanes([it.in_registers(x) for x in xs])
    d = eqn.params["dimension"]
    if _in_lane(d, lane):
        raise NoKernel("arrays are joined along the lanes")
    data = np.concatenate([it.full(t) for t in tiles], axis_of(d, lane))
    return [RegisterArray(eqn.outputs[0].aval.shape, tiles[0].dtype, data, lane)]


@rule(st.pad_p)
def pad(it: Interpreter, eqn: Eqn, x: Array, value: Array) -> list[RegisterArray]:
    """The elements with others around and between them, but not along lanes."""
    t, filler = it.in_registers(x), it.in_registers(value).scalar
    shape, data = list(t.shape), it.full(t)
    for d, (low, high, interior) in enumerate(eqn.params["padding_config"]):
        if (low, high, interior) == (0, 0, 0):
            continue
        if _in_lane(d, t.lane):
            raise NoKernel("lanes are padded")
        axis, n = axis_of(d, t.lane), t.shape[d]
        size = eqn.outputs[0].aval.shape[d]
        out = objects((*data.shape[:axis], size, *data.shape[axis + 1 :]))
        out.fill(filler)
        for i in range(n):
            at = low + i * (interior + 1)
            if 0 <= at < size:
                out[(slice(None),) * axis + (at,)] = data[(slice(None),) * axis + (i,)]
        data, shape[d] = out, size
    return [RegisterArray(tuple(shape), t.dtype, data, t.lane)]


@rule(st.tile_p)
def tile(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
    """The elements repeated, but not along lanes."""
    t = it.in_registers(x)
    reps = eqn.params["reps"]
    if any(r != 1 and _in_lane(d, t.lane) for d, r in enumerate(reps)):
        raise NoKernel("lanes are repeated")
    data = it.full(t)
    counts = [1] * data.ndim
    for d, r in enumerate(reps):
        if r != 1:
            counts[axis_of(d, t.lane)] = r
    return [RegisterArray(eqn.outputs[0].aval.shape, t.dtype, np.tile(data, counts), t.lane)]


@rule(st.optimization_barrier_p)
def optimization_barrier(it: Interpreter, eqn: Eqn, *xs: Array) -> list[Array]:
    """The operands: a kernel is one piece already."""
    return list(xs)


@rule(st.iota_p)
def iota(it: Interpreter, eqn: Eqn) -> list[RegisterArray]:
    """Numbers known while the kernel is built; along lanes, vectors of places. Raises NoKernel for many numbers."""
    shape, d, dtype = tuple(eqn.params["shape"]), eqn.params["dimension"], eqn.outputs[0].aval.dtype
    space = it.space
    count = 0 if space is None else len(space.shape)
    places = [] if space is None else [k for k in range(len(shape)) if shape[k : k + count] == space.shape]
    if places and shape[d] > 1 and any(k <= d < k + count for k in places):
        assert space is not None
        first = next(k for k in places if k <= d < k + count)
        inner = math.prod(shape[d + 1 : first + count])
        data = objects([1] * (len(shape) - count + 1))
        lane = (first, count)
        data = objects([len(space.chunks) if a == first else 1 for a in range(len(shape) - count + 1)])
        for index in np.ndindex(data.shape):
            number = it.b.urem(it.b.udiv(it.lane_numbers(space.chunks[index[first]], "i32"), inner), shape[d])
            data[index] = it.elements.convert(number, dtypes.int32, dtype)
        return [RegisterArray(shape, dtype, data, lane)]
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
    width = widest
    while width > 1:
        half = width // 2
        parts = it.elements.parts(total, dtype)
        low, high = (it.elements.joined([it.b.shuffle(p, p, range(k, k + half)) for p in parts]) for k in (0, half))
        total, width = combine(low, high), half
    if widest:
        total = it.elements.joined([it.b.extract(p, 0) for p in it.elements.parts(total, dtype)])
    scalars: list[Element] = [total]
    for x in out:
        scalars.append(x if not width_of(x) else _across(it, combine, [x], dtype))
    return _tree(combine, scalars)


def reduced(it: Interpreter, t: RegisterArray, axes: Sequence[int], dtype: DType, p: Primitive) -> RegisterArray:
    """An array combined over some dimensions by an elementwise primitive."""

    def combine(x: Element, y: Element) -> Element:
        return it.elements.apply(p, {}, (dtype, dtype), dtype, (x, y))

    lane = t.lane
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
    def apply(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
        t, axes, dtype = it.in_registers(x), eqn.params["axes"], eqn.outputs[0].aval.dtype
        wide = dtypes.float32 if dtype in HALF and p in (ew.add_p, ew.mul_p) else dtype
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
    def apply(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
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
    def apply(it: Interpreter, eqn: Eqn, x: Array) -> list[RegisterArray]:
        t, d = it.in_registers(x), eqn.params["axis"]
        if _in_lane(d, t.lane):
            raise NoKernel("a cumulative operation along the lanes")
        axis = axis_of(d, t.lane)
        data = np.moveaxis(it.full(t).copy(), axis, 0)
        steps = range(t.shape[d])
        order = list(reversed(steps)) if eqn.params["reverse"] else list(steps)
        wide = dtypes.float32 if t.dtype in HALF and p in (ew.add_p, ew.mul_p) else t.dtype
        for index in np.ndindex(data.shape[1:]):
            total = start_of(p, wide)
            for k in order:
                item = it.elements.convert(data[(k, *index)], t.dtype, wide)
                total = [it.elements.apply(p, {}, (wide, wide), wide, (total[0], item)) if total else item]
                data[(k, *index)] = it.elements.convert(total[0], wide, t.dtype)
        return [RegisterArray(t.shape, t.dtype, np.moveaxis(data, 0, axis), t.lane)]

    return apply


for _p in (rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p):
    if _p.combine is not None:
        rule(_p)(_cumulative(_p.combine))


# -- random bits ------------------------------------------------------------------------------------------------------


@rule(rn.threefry2x32_p)
def threefry2x32(it: Interpreter, eqn: Eqn, *xs: Array) -> list[RegisterArray]:
    """The hash of each element."""
    tiles = [it.in_registers(x) for x in xs]
    pairs: dict[Any, tuple[Element, Element]] = {}

    def half(k: int) -> Callable[..., Element]:
        def element(*values: Element) -> Element:
            return pairs.setdefault(values, threefry(it.elements, values))[k]

        return element

    return [it.map(half(k), tiles, dtypes.uint32) for k in range(2)]


@rule(rn.random_bits_p)
def random_bits(it: Interpreter, eqn: Eqn, k1: Array, k2: Array) -> list[RegisterArray]:
    """The hashes of the elements' flat places under one key, or a key for each of some dimensions."""
    shape, dtype = tuple(eqn.params["shape"]), eqn.outputs[0].aval.dtype
    counter = objects(())
    counter[()] = 0
    total = RegisterArray((), dtypes.uint32, counter)
    for d in range(len(shape)):
        aval = ShapedArray(shape, dtypes.uint32)
        (number,) = map(it.in_registers, iota(it, Eqn(st.iota_p, (), [Var(aval)], {"shape": shape, "dimension": d})))
        stride = math.prod(shape[d + 1 :])

        def step(n: Element, t: Element, stride: int = stride) -> Element:
            width = max(width_of(n), width_of(t))
            lifted, sum_ = it.elements.lift(n, dtypes.uint32, width), it.elements.lift(t, dtypes.uint32, width)
            assert isinstance(lifted, Value) and isinstance(sum_, Value)
            return lifted * stride + sum_

        total = it.map(step, [number, total], dtypes.uint32)
    whole, batch = eqn.outputs[0].aval.shape, len(k1.shape)

    def flattened(x: Array, first: int) -> RegisterArray:
        places = tuple(range(first, first + len(x.shape)))
        (out,) = broadcast_in_dim(it, eqn.replace(params={"shape": whole, "broadcast_dimensions": places}), x)
        return it.in_registers(out)

    operands = [flattened(k1, 0), flattened(k2, 0), flattened(total, batch)]
    return [it.map(lambda a, b, n: bits_of(it.elements, [a, b, 0, n], dtype), operands, dtype)]


# -- contraction ------------------------------------------------------------------------------------------------------


@rule(ct.dot_general_p)
def dot_general(it: Interpreter, eqn: Eqn, x: Array, y: Array) -> list[RegisterArray]:
    """Sums of products, all written out. Raises NoKernel past :data:`MOST_PRODUCTS`."""
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    aval = eqn.outputs[0].aval
    wide = dtypes.float32 if aval.dtype in HALF else aval.dtype
    a, b = it.in_registers(x), it.in_registers(y)
    a, b = (it.out_of_lanes(t) if t.lane and any(_in_lane(d, t.lane) for d in c) else t for t, c in ((a, cx), (b, cy)))
    free_a = [d for d in range(len(a.shape)) if d not in cx and d not in bx]
    free_b = [d for d in range(len(b.shape)) if d not in cy and d not in by]
    shape = [a.shape[d] for d in bx] + [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]

    # Where each dimension of the operands is in the product: batch, free of a, free of b, contracted.
    to_a = {d: k for k, d in enumerate([*bx, *free_a])} | {d: len(shape) + k for k, d in enumerate(cx)}
    to_b = {d: k for k, d in enumerate(by)} | {d: len(bx) + len(free_a) + k for k, d in enumerate(free_b)}
    to_b |= {d: len(shape) + k for k, d in enumerate(cy)}
    sizes = (*shape, *(a.shape[d] for d in cx))

    def aligned(t: RegisterArray, to: dict[int, int]) -> RegisterArray:
        """The tile with its dimensions where they are in the product, and others repeated."""
        lane = None
        if t.lane is not None:
            lane = (to[t.lane[0]], t.lane[1])
            if any(to[t.lane[0] + k] != lane[0] + k for k in range(lane[1])):
                raise NoKernel("the dimensions of the lanes are parted")
        ordered = sorted((d for d in to if t.lane is None or not t.lane[0] < d < sum(t.lane)), key=lambda d: to[d])
        data = t.data.transpose([axis_of(d, t.lane) for d in ordered])
        rest = [1] * (len(sizes) - (lane[1] - 1 if lane else 0))
        for d, n in zip(ordered, data.shape):
            rest[axis_of(to[d], lane)] = n
        out = RegisterArray(sizes, t.dtype, data.reshape(rest), lane)
        return it.map(lambda e: it.elements.convert(e, t.dtype, wide), [out], wide)

    if math.prod(sizes) // (it.space.size if it.space and (a.lane or b.lane) else 1) > MOST_PRODUCTS:
        raise NoKernel("a contraction has too many products for registers")
    pair = (wide, wide)
    products = it.map(
        lambda p, q: it.elements.apply(ew.mul_p, {}, pair, wide, (p, q)), [aligned(a, to_a), aligned(b, to_b)], wide
    )
    axes = range(len(shape), len(sizes))
    if any(n == 0 for n in sizes):
        raise NoKernel("a contraction of no elements")
    out = reduced(it, products, list(axes), wide, ew.add_p)
    if wide != aval.dtype:
        out = it.map(lambda e: it.elements.convert(e, wide, aval.dtype), [out], aval.dtype)
    return [out]


# -- slices at indices known at run time ------------------------------------------------------------------------------


def start_index(it: Interpreter, x: Array, limit: int) -> Value | int:
    """A scalar index clamped to [0, limit]: a number, or an index value."""
    t = it.in_registers(x)
    if t.lane is not None:
        raise NoKernel("an index differs between lanes")
    e = t.scalar
    if is_number(e):
        return min(max(int(e), 0), limit)  # type: ignore[arg-type]
    assert isinstance(e, Value)
    if limit == 0:
        return 0
    b = it.b
    if dtypes.is_unsigned(t.dtype):
        return b.cast(b.umin(b.cast(e, "i64", signed=False), limit), "index")
    return b.cast(b.smin(b.smax(b.cast(e, "i64"), 0), limit), "index")


@rule(ix.dynamic_slice_p)
def dynamic_slice(it: Interpreter, eqn: Eqn, x: Array, *starts: Array) -> list[Any]:
    """Elements picked by comparisons, or a part of an array in memory. Raises NoKernel for parts of lanes."""
    sizes = tuple(eqn.params["slice_sizes"])
    for d, n in enumerate(sizes):
        if _in_lane(d, x.lane) and n != x.shape[d]:
            raise NoKernel("lanes are sliced")
    if isinstance(x, Stored):
        base = x.base
        for d, (s, n) in enumerate(zip(starts, sizes)):
            base = moved(it.b, base, start_index(it, s, x.shape[d] - n), x.strides[d])
        return [replace(x, shape=sizes, base=base)]
    data = x.data
    for d, (s, n) in enumerate(zip(starts, sizes)):
        axis = axis_of(d, x.lane)
        if n == x.shape[d] or data.shape[axis] == 1:
            continue
        at = start_index(it, s, x.shape[d] - n)
        items = np.moveaxis(data, axis, 0)
        if isinstance(at, int):
            items = items[at : at + n]
        else:
            items = _picked(it, items, at, n, x.shape[d] - n + 1, x)
        data = np.moveaxis(items, 0, axis)
    return [RegisterArray(sizes, x.dtype, data, x.lane)]


def _picked(it: Interpreter, items: Any, at: Value, n: int, choices: int, x: RegisterArray) -> Any:
    """``items[at : at + n]`` of the first axis, by a chain of selects."""
    if choices > 32:
        raise NoKernel("a slice at a variable index of an array in registers")
    out = objects((n, *items.shape[1:]))
    tests = [it.b.cmp("eq", at, k) for k in range(1, choices)]
    for index in np.ndindex(out.shape):
        candidates = [items[(index[0] + k, *index[1:])] for k in range(choices)]
        width = max(map(width_of, candidates))
        lifted = [it.elements.lift(c, x.dtype, width) for c in candidates]
        chosen = lifted[0]
        for test, candidate in zip(tests, lifted[1:]):
            chosen = choose(it.b, test, candidate, chosen)
        out[index] = chosen
    return out


@rule(ix.dynamic_update_slice_p)
def dynamic_update_slice(it: Interpreter, eqn: Eqn, x: Array, update: Array, *starts: Array) -> list[RegisterArray]:
    """Elements replaced by comparisons. Raises NoKernel for parts of lanes, and for too many places."""
    (t, u), lane = it.same_lanes([it.in_registers(x), it.in_registers(update)])
    for d in range(len(t.shape)):
        if _in_lane(d, lane) and u.shape[d] != t.shape[d]:
            raise NoKernel("lanes are updated in part")
    data, new = it.full(t).copy(), it.full(u)
    at = [start_index(it, s, n - m) for s, n, m in zip(starts, t.shape, u.shape)]
    by_axis: list[Value | int] = [0] * data.ndim
    for d, index in enumerate(at):
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


__all__ = ["start_index"]
