"""Windowed reductions and convolutions on lazy arrays.

The windows of an array in memory are the same memory under other strides: a result's place steps by the windows' distance, a
place in the window by the gap between its elements. So a windowed reduction is a reduction of that array, and a convolution
a contraction of it with the filter. Padding, and the gaps of a dilated operand, are written out once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir.jaxpr import Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import windows as wd
from quire.ir.primitives.reductions import MONOIDS, monoid_of

from ..core.errors import NoKernel
from ..elements.monoids import accumulated, neutral
from .nests import product
from .nodes import Array, Node, Number
from .programs import Program, rule
from .rules import converted, padded

#: Windows of more elements are reduced along one dimension after the other.
ONE_PASS = 12
#: Convolutions over several features of more operations have kernels that block them.
MOST_OPERATIONS = 1 << 17


def _filled(program: Program, x: Node, value: Node, config: Sequence[tuple[int, int, int]]) -> Array:
    """An operand in memory, padded."""
    needed = any(low or high or (gap and n > 1) for n, (low, high, gap) in zip(x.shape, config))
    return program.in_memory(padded(program, x, value, config) if needed else program.lazy(x))


def _reduced(program: Program, eqn: Eqn, x: Node, combine: Primitive, value: Node) -> list[Node]:
    p = eqn.params
    if not x.shape:
        raise NoKernel("windows of a scalar")
    config = [(low, high, gap - 1) for (low, high), gap in zip(p["padding"], p["base_dilation"])]
    source = _filled(program, x, value, config)
    (v,) = eqn.outputs
    shape, rank = v.aval.shape, v.aval.ndim
    dims = [d for d in range(rank) if p["window_dimensions"][d] > 1]
    # Rows first: what is reduced along them is smaller for the dimensions that follow.
    passes = [[d] for d in dims] if math.prod(p["window_dimensions"]) > ONE_PASS else [dims]
    done: set[int] = {d for d in range(rank) if d not in dims}
    for number, group in enumerate(passes):
        done |= set(group)
        last = number == len(passes) - 1
        # Dimensions whose turn has not come are left as they are.
        now = tuple(shape[d] if d in done else source.shape[d] for d in range(rank))
        fresh = {d for d in (range(rank) if number == 0 else group) if d in done}
        places = [s * (p["window_strides"][d] if d in fresh else 1) for d, s in enumerate(source.strides)]
        inner = [source.strides[d] * p["window_dilation"][d] for d in group]
        lengths = [p["window_dimensions"][d] for d in group]
        windows = Array(
            (*lengths, *now), source.dtype, source.memory, (*inner, *places), source.base, source.owner, source.own_lane
        )
        to = program.wanted(v) if last else program.temp(now, x.dtype)
        program.nests.reduce(combine, windows, range(len(lengths)), to)
        source = to
    return [source]


def _monoid(p: Primitive) -> Any:
    assert p.combine is not None
    combine = p.combine

    def apply(program: Program, eqn: Eqn, x: Node) -> list[Node]:
        return _reduced(program, eqn, x, combine, Number((), x.dtype, neutral(combine, x.dtype)))

    return apply


for _p in (wd.reduce_window_sum_p, wd.reduce_window_max_p, wd.reduce_window_min_p):
    rule(_p)(_monoid(_p))


@rule(wd.reduce_window_p)
def reduce_window(program: Program, eqn: Eqn, *nodes: Node) -> list[Node]:
    """Windows combined by and, or, xor, mul. Raises NoKernel for other functions, several operands, and initial values that
    are not neutral."""
    monoid = monoid_of(eqn.params["jaxpr"])
    if monoid is None or len(nodes) != 2:
        raise NoKernel("windows reduced by a function of the program's")
    x, init = nodes
    combine = MONOIDS[monoid].combine
    start = Number((), x.dtype, neutral(combine, x.dtype))
    if not isinstance(init, Number) or init.element != start.element:
        raise NoKernel("windows with an initial value of their own")
    return _reduced(program, eqn, x, combine, start)


@rule(ct.conv_general_dilated_p)
def convolution(program: Program, eqn: Eqn, x: Node, y: Node) -> list[Node]:
    """A contraction of windows with filters. Raises NoKernel for groups of the batch, and where kernels of convolutions are
    quicker."""
    p, (v,) = eqn.params, eqn.outputs
    if p["batch_group_count"] > 1:
        raise NoKernel("a convolution with groups of the batch")
    spec: ct.ConvDimensionNumbers = p["dimension_numbers"]
    groups = p["feature_group_count"]
    if ct.operations(eqn) > MOST_OPERATIONS and y.shape[spec.rhs_spec[1]] > 1:
        raise NoKernel("a convolution that kernels of its own are quicker for")
    config = [(0, 0, 0)] * len(x.shape)
    for d, (low, high), gap in zip(spec.lhs_spec[2:], p["padding"], p["lhs_dilation"]):
        config[d] = (low, high, gap - 1)
    source = _filled(program, x, Number((), x.dtype, 0), config)
    filters = program.in_memory(program.lazy(y))
    if groups == filters.shape[spec.rhs_spec[0]] and filters.shape[spec.rhs_spec[1]] == 1:
        return [_by_itself(program, eqn, source, filters)]
    to = program.wanted(v)
    out_features = filters.shape[spec.rhs_spec[0]] // groups
    (feature, *at), inside, summed = _windows(eqn, source, filters)
    patches = _viewed(source, (groups, *_rows(eqn), *summed), (feature * summed[0], *at, *inside))
    step, *of_filter = (filters.strides[d] for d in spec.rhs_spec)
    kernel = _viewed(filters, (groups, out_features, *summed), (step * out_features, step, *of_filter))
    places = [to.strides[d] for d in (spec.out_spec[0], *spec.out_spec[2:])]
    step, rows = to.strides[spec.out_spec[1]], _rows(eqn)
    # Vectors run along the features, or along the last spatial dimension.
    if step == 1 and out_features >= min(program.b.target.lanes(32), rows[-1]):
        out = _viewed(to, (groups, *rows, out_features), (step * out_features, *places, step))
        program.nests.contract(patches, kernel, 1, len(rows), 1, out)
    else:
        out = _viewed(to, (groups, out_features, *rows), (step * out_features, step, *places))
        program.nests.contract(kernel, patches, 1, 1, len(rows), out)
    return [to]


def _by_itself(program: Program, eqn: Eqn, source: Array, filters: Array) -> Node:
    """A convolution of each feature by itself: a sum of products over the window, with vectors along what lies together."""
    spec: ct.ConvDimensionNumbers = eqn.params["dimension_numbers"]
    (v,) = eqn.outputs
    (feature, *at), inside, summed = _windows(eqn, source, filters)
    order = (spec.out_spec[0], *spec.out_spec[2:], spec.out_spec[1])
    back = [order.index(d) for d in range(len(order))]
    patches = _viewed(source, (*summed, *v.aval.shape), (*inside, *([*at, feature][k] for k in back)))
    step, *of_filter = (filters.strides[d] for d in spec.rhs_spec)
    of_result = [*[0] * len(at), step]
    kernel = _viewed(filters, patches.shape, (*of_filter, *(of_result[k] for k in back)))
    wide = accumulated(ew.add_p, v.aval.dtype)
    total = program.wanted(v) if wide == v.aval.dtype else program.temp(v.aval.shape, wide)
    products = product(converted(patches, wide), converted(kernel, wide))
    program.nests.reduce(ew.add_p, products, range(len(summed)), total)
    return converted(total, v.aval.dtype)


def _viewed(a: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    return Array(tuple(shape), a.dtype, a.memory, tuple(strides), a.base, a.owner)


def _rows(eqn: Eqn) -> list[int]:
    """The sizes of the batch and of the places of a convolution's result."""
    spec: ct.ConvDimensionNumbers = eqn.params["dimension_numbers"]
    shape = eqn.outputs[0].aval.shape
    return [shape[d] for d in (spec.out_spec[0], *spec.out_spec[2:])]


def _windows(eqn: Eqn, source: Array, filters: Array) -> tuple[list[int], list[int], list[int]]:
    """Of a convolution's operand in memory: the strides of its features, batch and places; of what is summed; its sizes."""
    p = eqn.params
    spec: ct.ConvDimensionNumbers = p["dimension_numbers"]
    batch, feature, *spatial = (source.strides[d] for d in spec.lhs_spec)
    at = [s * k for s, k in zip(spatial, p["window_strides"])]
    inside = [s * k for s, k in zip(spatial, p["rhs_dilation"])]
    return [feature, batch, *at], [feature, *inside], [filters.shape[d] for d in spec.rhs_spec[1:]]
