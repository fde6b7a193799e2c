"""Lowering of sort and top_k: to quire's kernels, and to StableHLO for targets that have none.

IREE's own sort is quadratic and unstable. In StableHLO rows are sorted by a bitonic network: a loop over
log2(n)^2 / 2 steps, in each of which every element is compared with a partner. What is compared are integers whose
order is that of the keys, then the elements' places, so that no two elements are equal and the order is stable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitives import sorting as so

from .. import kernels
from . import hlo
from .kernel_calls import call, chosen, spec
from .lowering import Ctx, lowering

Value = Any


def order_key(x: Value, dtype: DType, *, total: bool = False) -> tuple[Value, DType]:
    """Integers ordered as real numbers: -0 equal to 0 and NaN last, or IEEE's total order if `total`.

    Made of the bits, since comparing floats would take denormals for zero.
    """
    if dtypes.is_bool(dtype):
        return hlo.convert(x, dtypes.int32), dtypes.int32
    if not dtypes.is_float(dtype):
        return x, dtype
    signed = np.dtype(f"int{8 * dtype.itemsize}")
    top = int(np.iinfo(signed).max)
    bits = hlo.bitcast(x, signed)
    zero, mask = hlo.full_like(bits, 0, signed), hlo.full_like(bits, top, signed)
    key = hlo.select(hlo.compare(bits, zero, "LT"), hlo.xor(bits, mask), bits)
    if total:
        return key, signed
    magnitude = hlo.and_(bits, mask)
    infinity = int(np.asarray(np.inf, dtype).view(signed))
    key = hlo.select(hlo.compare(magnitude, zero, "EQ"), zero, key)
    return hlo.select(hlo.compare(magnitude, hlo.full_like(bits, infinity, signed), "GT"), mask, key), signed


def order_keys(x: Value, dtype: DType) -> list[tuple[Value, DType]]:
    """The keys of `order_key`; those of the real and of the imaginary part for complex numbers."""
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        return [order_key(hlo.real(x), part), order_key(hlo.imag(x), part)]
    return [order_key(x, dtype)]


def _less(a: Sequence[Value], b: Sequence[Value]) -> Value:
    """Whether a comes before b, lexicographically."""
    result = hlo.compare(a[-1], b[-1], "LT")
    for x, y in zip(reversed(a[:-1]), reversed(b[:-1])):
        result = hlo.or_(hlo.compare(x, y, "LT"), hlo.and_(hlo.compare(x, y, "EQ"), result))
    return result


def _columns(x: Value, at: Value) -> Value:
    """The columns of a matrix at positions known to be inside."""
    rows, n = hlo.shape_of(x)
    numbers = "offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1"
    return hlo.gather(x, at, numbers, [rows, 1], [rows, n])


def sorted_places(keys: Sequence[tuple[Value, DType]]) -> Value:
    """The int32 places that sort the rows of matrices of keys, lexicographically and stably."""
    rows, n = hlo.shape_of(keys[0][0])
    width = 1 << max(n - 1, 0).bit_length()
    levels = width.bit_length() - 1
    state: list[Value] = []
    for key, dtype in keys:  # rows are filled up with the largest keys, whose places are beyond all others
        last = hlo.constant(np.iinfo(dtype).max, dtype)
        state.append(hlo.pad(key, last, [0, 0], [0, width - n], [0, 0]))
    state.append(hlo.iota([rows, width], 1, dtypes.int32))
    steps = [(1 << level + 1, 1 << j) for level in range(levels) for j in range(level, -1, -1)]
    if steps:
        state = _network(state, width, steps)
    return hlo.slice(state[-1], [0, 0], [rows, n])


def _network(state: Sequence[Value], width: int, steps: Sequence[tuple[int, int]]) -> list[Value]:
    i32 = dtypes.int32
    blocks = hlo.constant(np.asarray([k for k, _ in steps], i32), i32)
    distances = hlo.constant(np.asarray([j for _, j in steps], i32), i32)

    def cond(i: Value, *_: Value) -> Sequence[Value]:
        return [hlo.compare(i, hlo.constant(len(steps), i32), "LT")]

    def body(i: Value, *old: Value) -> Sequence[Value]:
        rows = hlo.shape_of(old[0])[0]
        place, zero = hlo.iota([width], 0, i32), hlo.full(0, [width], i32)
        block = hlo.broadcast(hlo.reshape(hlo.dynamic_slice(blocks, [i], [1]), []), [width], [])
        distance = hlo.broadcast(hlo.reshape(hlo.dynamic_slice(distances, [i], [1]), []), [width], [])
        partner = hlo.xor(place, distance)
        ascending = hlo.compare(hlo.and_(place, block), zero, "EQ")
        lower = hlo.compare(hlo.and_(place, distance), zero, "EQ")
        wants_less = hlo.broadcast(hlo.compare(ascending, lower, "EQ"), [rows, width], [1])
        other = [_columns(x, partner) for x in old]
        keep = hlo.compare(wants_less, _less(old, other), "EQ")
        new = [hlo.select(keep, x, y) for x, y in zip(old, other)]
        return [hlo.add(i, hlo.constant(1, i32)), *new]

    return hlo.while_([hlo.constant(0, i32), *state], cond, body)[1:]


class Rows:
    """An array seen as a matrix whose rows run along one dimension."""

    def __init__(self, shape: Sequence[int], dimension: int) -> None:
        self.shape = tuple(shape)
        self.n = shape[dimension]
        self.others = [i for i in range(len(shape)) if i != dimension]
        self.order = [*self.others, dimension]
        self.back = [self.order.index(i) for i in range(len(shape))]
        self.count = math.prod(shape[i] for i in self.others)

    def matrix(self, x: Value) -> Value:
        """The rows of an array of this shape."""
        return hlo.reshape(hlo.transpose(x, self.order), [self.count, self.n])

    def array(self, rows: Value) -> Value:
        """The array whose rows these are; they may be shorter."""
        k = hlo.shape_of(rows)[1]
        return hlo.transpose(hlo.reshape(rows, [*(self.shape[i] for i in self.others), k]), self.back)


def take_places(x: Value, places: Value) -> Value:
    """Each row of a matrix at its places, which are known to be inside."""
    rows, n = hlo.shape_of(x)
    k = hlo.shape_of(places)[1]
    offset = hlo.multiply(hlo.iota([rows, k], 0, dtypes.int32), hlo.full(n, [rows, k], dtypes.int32))
    return hlo.take(hlo.reshape(x, [rows * n]), hlo.add(places, offset))


def _check_size(ctx: Ctx) -> None:
    if ctx.avals_in[0].size >= 2**31:
        raise ctx.unsupported(f"a sort of {ctx.avals_in[0].short()}", "it is limited to 2^31 elements")


@lowering(so.sort_p)
def sort(ctx: Ctx, *operands: Value, dimension: int, is_stable: bool, num_keys: int) -> list[Value]:
    aval = ctx.avals_in[0]
    if aval.size == 0 or aval.shape[dimension] == 1:
        return list(operands)
    _check_size(ctx)
    specs = [spec(a) for a in ctx.avals_in]
    kernel = chosen(ctx, lambda target: kernels.sort(specs, dimension, num_keys, target))
    if kernel is not None:
        return call(ctx, kernel, operands)
    rows = Rows(aval.shape, dimension)
    matrices = [rows.matrix(x) for x in operands]
    keys = [k for x, a in zip(matrices[:num_keys], ctx.avals_in) for k in order_keys(x, a.dtype)]
    places = sorted_places(keys)
    return [rows.array(take_places(x, places)) for x in matrices]


@lowering(so.top_k_p)
def top_k(ctx: Ctx, x: Value, *, k: int, axis: int) -> list[Value]:
    aval = ctx.avals_in[0]
    if ctx.avals_out[0].size == 0:
        return [hlo.aval_full(a, 0) for a in ctx.avals_out]
    _check_size(ctx)
    rows = Rows(aval.shape, axis)
    matrix = rows.matrix(x)
    operand = kernels.Spec.of((rows.count, rows.n), aval.dtype)
    kernel = chosen(ctx, lambda target: kernels.top_k(operand, k, target))
    if kernel is not None:
        return [rows.array(out) for out in call(ctx, kernel, [matrix])]
    key, dtype = order_key(matrix, aval.dtype, total=True)
    if dtypes.is_bool(aval.dtype):
        key = hlo.negate(key)
    else:
        key = hlo.not_(key)
    places = hlo.slice(sorted_places([(key, dtype)]), [0, 0], [rows.count, k])
    return [rows.array(take_places(matrix, places)), rows.array(places)]
