"""How primitives that are not elementwise are done on lazy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

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
from ..elements.monoids import REDUCTIONS
from ..elements.operations import HALF
from ..elements.places import both, guarded, moved_inside
from .gathering import components, gathered
from .nests import product
from .nodes import ZERO, Array, Elementwise, Iota, Ix, Node, Number, Reader, View, view, without_ones
from .programs import KEEPS_BUILT, Built, Program, rule
from .views import clamped

# -- structure --------------------------------------------------------------------------------------------------------


@rule(st.reshape_p)
def reshape(program: Program, eqn: Eqn, x: Node) -> list[Node]:
    """The same elements in another shape; in memory where that is no view."""
    return [reshaped(program, x, tuple(eqn.params["new_sizes"]))]


@rule(st.squeeze_p)
def squeeze(program: Program, eqn: Eqn, x: Node) -> list[Node]:
    """The same elements without dimensions of one."""
    return [reshaped(program, x, eqn.outputs[0].aval.shape)]


def reshaped(program: Program, x: Node, shape: tuple[int, ...]) -> Node:
    """A node in another shape of the same size."""
    renamed = without_ones(x, shape)
    if renamed is not None:
        return program.computed(renamed)
    if isinstance(x, View) and not x.source.shape:
        return View(shape, x.dtype, x.source, (), (), ())
    array = program.in_memory(x)
    if not array.contiguous:
        to = program.temp(x.shape, x.dtype)
        program.write(array, to)
        array = to
    return array.viewed(shape)


@rule(st.iota_p)
def iota(program: Program, eqn: Eqn) -> list[Node]:
    """The index along a dimension, as a node."""
    aval = eqn.outputs[0].aval
    return [Iota(aval.shape, aval.dtype, eqn.params["dimension"])]


@rule(st.concatenate_p)
def concatenate(program: Program, eqn: Eqn, *xs: Node) -> list[Node]:
    """Memory that is written part by part, when it is known where."""
    d = eqn.params["dimension"]

    def fill(to: Array, reads: Sequence[Node]) -> None:
        at = 0
        for x in reads:
            starts = tuple(Ix((), at) if k == d else ZERO for k in range(len(to.shape)))
            program.nests.store([(x, to.part(starts, x.shape))])
            at += x.shape[d]

    aval = eqn.outputs[0].aval
    joined = xs if d == aval.ndim - 1 and all(x.shape[d] == 1 for x in xs) else ()
    return [Built(aval.shape, aval.dtype, None, tuple(xs), fill, joined=joined)]


@rule(st.pad_p)
def pad(program: Program, eqn: Eqn, x: Node, value: Node) -> list[Node]:
    """Memory that is filled with the value and then written; the operand may be cut (negative padding). Raises NoKernel for
    negative padding with gaps."""
    return [padded(program, x, value, eqn.params["padding_config"])]


def padded(program: Program, x: Node, value: Node, config: Sequence[tuple[int, int, int]]) -> Built:
    """A node with elements before, after and (in gaps) between its own along each dimension, in memory."""
    shape = tuple(max(0, low + high + n + gap * max(0, n - 1)) for n, (low, high, gap) in zip(x.shape, config))
    if any(low < 0 or high < 0 for low, high, _ in config):
        starts = [max(0, -(low // (gap + 1))) if low < 0 else 0 for low, _, gap in config]
        if any(gap for _, _, gap in config):
            raise NoKernel("pad with negative and interior padding")
        sizes = [n + min(low, 0) + min(high, 0) for n, (low, high, _) in zip(x.shape, config)]
        x = view(x, tuple(sizes), range(len(sizes)), None, [Ix((), s) for s in starts])
        config = tuple((max(low, 0), max(high, 0), 0) for low, high, _ in config)
    filler = View(shape, x.dtype, value, (), (), ())
    dense = all(gap == 0 or n == 1 for n, (_, _, gap) in zip(x.shape, config))
    first = tuple(low for low, _, _ in config)

    def fill(to: Array, reads: Sequence[Node]) -> None:
        strides = tuple(s * (gap + 1) for s, (_, _, gap) in zip(to.strides, config))
        part = to.part([Ix((), low) for low in first], x.shape)
        part = Array(x.shape, x.dtype, to.memory, strides, part.base, to.owner)
        program.nests.store([(reads[0], part)])

    return Built(shape, x.dtype, filler, (x,), fill, (first, x.shape) if dense else None)


# -- reductions -------------------------------------------------------------------------------------------------------


def _reduction(p: Primitive) -> Any:
    def apply(program: Program, eqn: Eqn, x: Node) -> list[Node]:
        v, axes = eqn.outputs[0], eqn.params["axes"]
        if not axes:
            return [x]
        if not v.aval.shape:
            element = program.nests.reduce(p, x, axes, None)
            assert element is not None
            return [Number((), x.dtype, element)]
        to = program.wanted(v)
        program.nests.reduce(p, x, axes, to)
        return [to]

    return apply


for _p, _op in REDUCTIONS.items():
    rule(_p)(_reduction(_op))


def _arg(order: Primitive) -> Any:
    def apply(program: Program, eqn: Eqn, x: Node) -> list[Node]:
        v, (axis,), index_dtype = eqn.outputs[0], eqn.params["axes"], eqn.params["index_dtype"]
        if dtypes.is_complex(x.dtype):
            raise NoKernel("the position of an extreme of complex numbers")
        if not v.aval.shape:
            element = program.nests.arg(order, x, axis, index_dtype, None)
            assert element is not None
            return [Number((), index_dtype, element)]
        to = program.wanted(v)
        program.nests.arg(order, x, axis, index_dtype, to)
        return [to]

    return apply


rule(rd.argmax_p)(_arg(ew.gt_p))
rule(rd.argmin_p)(_arg(ew.lt_p))


@rule(ct.dot_general_p)
def dot_general(program: Program, eqn: Eqn, x: Node, y: Node) -> list[Node]:
    """A reduction of products of rows, or a contraction in blocks, as the operands lie."""
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    v = eqn.outputs[0]
    dtype = v.aval.dtype
    free_x = [d for d in range(len(x.shape)) if d not in cx and d not in bx]
    free_y = [d for d in range(len(y.shape)) if d not in cy and d not in by]
    # Operands are read once for each row or column of the other: no arithmetic in between.
    if free_y:
        x = program.steady(x)
    if free_x:
        y = program.steady(y)

    def ordered(node: Node, dims: Sequence[int]) -> Node:
        out = view(node, tuple(node.shape[d] for d in dims), [list(dims).index(d) for d in range(len(dims))])
        return converted(out, dtype if dtype not in HALF else out.dtype)

    def multiplied(left: Node, right: Node) -> Node:
        if dtype in HALF:  # exactly: the sum alone is rounded
            left, right = converted(left, dtypes.float32), converted(right, dtypes.float32)
        return product(left, right)

    a, b = ordered(x, [*bx, *free_x, *cx]), ordered(y, [*by, *free_y, *cy])
    batch, fx, fy = len(bx), len(free_x), len(free_y)
    if not cx:
        left = view(a, v.aval.shape, range(batch + fx))
        right = view(b, v.aval.shape, [*range(batch), *range(batch + fx, batch + fx + fy)])
        return [converted(multiplied(left, right), dtype)]
    if not free_y and free_x:  # a matrix times a vector: rows are summed
        b_at = [*range(batch), *range(batch + fx, batch + fx + len(cx))]
        rows = multiplied(a, view(b, a.shape, b_at))
    elif not free_y:
        rows = multiplied(a, b)
    elif _along(b, batch + fy - 1) or not _along(b, len(b.shape) - 1):
        to = program.wanted(v)
        program.nests.contract(a, b, batch, fx, fy, to)
        return [to]
    else:  # both are contiguous along what is summed
        full = (*v.aval.shape, *(x.shape[d] for d in cx))
        inner = range(len(v.aval.shape), len(full))
        left = view(a, full, [*range(batch + fx), *inner])
        right = view(b, full, [*range(batch), *range(batch + fx, batch + fx + fy), *inner])
        rows = multiplied(left, right)
    axes = list(range(len(rows.shape) - len(cx), len(rows.shape)))
    if not v.aval.shape:
        element = program.nests.reduce(ew.add_p, rows, axes, None, dtype)
        assert element is not None
        return [Number((), dtype, element)]
    to = program.wanted(v)
    program.nests.reduce(ew.add_p, rows, axes, to, dtype)
    return [to]


def _along(node: Node, d: int) -> bool:
    """Whether neighbours along a dimension are neighbours in memory."""
    while not isinstance(node, Array):
        if isinstance(node, View):
            found = [k for k, a in enumerate(node.axis) if a == d]
            if not found:
                return True
            node, d = node.source, found[0]
        elif isinstance(node, Elementwise):
            same = [x for x in node.operands if x.shape]
            if not same:
                return True
            node = same[0]
        else:
            return True
    return node.strides[d] == 1


def converted(x: Node, dtype: DType) -> Node:
    """A node in another dtype."""
    if x.dtype == dtype:
        return x
    params = {"new_dtype": dtype, "weak_type": False}
    return Elementwise(x.shape, dtype, ew.convert_element_type_p, params, (x,))


# -- indexing ---------------------------------------------------------------------------------------------------------


@rule(ix.dynamic_update_slice_p)
def dynamic_update_slice(program: Program, eqn: Eqn, x: Node, update: Node, *starts: Node) -> list[Node]:
    """Memory of which a part, from clamped indices on, is written."""
    at = [clamped(program, s, n - m) for s, n, m in zip(starts, x.shape, update.shape)]
    update = program.lazy(update)

    def fill(to: Array, reads: Sequence[Node]) -> None:
        program.nests.store([(reads[0], to.part(at, update.shape))])

    known = all(not i.terms for i in at)
    region = (tuple(i.const for i in at), update.shape) if known else None
    return [Built(x.shape, x.dtype, x, (update,), fill, region)]


KEEPS_BUILT.add(ix.dynamic_update_slice_p)


@rule(ix.gather_p)
def gather(program: Program, eqn: Eqn, x: Node, indices: Node) -> list[Node]:
    """A node that reads at places which index vectors say. Raises NoKernel without index vectors."""
    p = eqn.params
    if math.prod(indices.shape) == 0:
        raise NoKernel("a gather of nothing")
    indices = program.steady(indices)
    fill = None
    if p["mode"] is ix.GatherScatterMode.FILL_OR_DROP:
        fill = ix.fill_scalar(p["fill_value"], x.dtype)
    if len(indices.shape) == 1 and dtypes.is_unsigned(indices.dtype):  # one place: a slice
        raise NoKernel("a gather at unsigned indices")
    shape = eqn.outputs[0].aval.shape
    node = gathered(program.lazy(x), components(indices), p["dimension_numbers"], p["slice_sizes"], shape, fill)
    return [program.computed(node)]


#: Elements that a turn of a scatter's loop combines.
UNROLLED = 4

_SCATTERS = (
    ix.scatter_p, ix.scatter_add_p, ix.scatter_sub_p, ix.scatter_mul_p, ix.scatter_min_p, ix.scatter_max_p,
)  # fmt: skip


@rule(*_SCATTERS)
def scatter(program: Program, eqn: Eqn, x: Node, indices: Node, updates: Node) -> list[Node]:
    """Memory in which windows are combined one after another. Raises NoKernel for functions of the program's."""
    p = eqn.params
    if p.get("update_jaxpr") is not None:
        raise NoKernel("a scatter with a function of its own")
    combine, d = eqn.primitive.combine, p["dimension_numbers"]
    # Each index vector is read once: its components need no memory.
    vectors = [c for x in indices.joined for c in components(program.lazy(x))] if isinstance(indices, Built) else []
    vectors = vectors or components(program.lazy(indices))
    updates = program.lazy(updates)
    if updates.size == 0:
        return [x]
    drop = p["mode"] is not ix.GatherScatterMode.CLIP
    batch = [k for k in range(len(updates.shape)) if k not in d.update_window_dims]
    window_of = dict(zip(ix.window_dims(len(x.shape), d), d.update_window_dims))
    sizes = [updates.shape[window_of[k]] if k in window_of else 1 for k in range(len(x.shape))]
    e, b = program.elements, program.b

    def combined(to: Array, reads: Sequence[Node], at: Sequence[Ix]) -> None:
        *places, new = reads
        offset: list[Ix] = [ZERO] * len(x.shape)
        inside: Value | None = None
        for place, target in zip(places, d.scatter_dims_to_operand_dims, strict=True):
            number = e.lift(Reader(e)(place, tuple(at), None), indices.dtype)
            assert isinstance(number, Value)
            limit = x.shape[target] - sizes[target]
            if drop:
                index, fits = guarded(e, number, indices.dtype, limit)
                inside = both(inside, fits)
            else:
                index = b.cast(moved_inside(e, number, indices.dtype, limit, False)[0], "index", signed=False)
            offset[target] = Ix.of(index)
        for target, k in zip(d.operand_batching_dims, d.scatter_indices_batching_dims):
            offset[target] = at[k]
        part = to.part(offset, tuple(sizes))
        axis: list[int | None] = []
        first: list[Ix] = []
        for k in range(len(updates.shape)):
            if k in batch:
                axis.append(None)
                first.append(at[batch.index(k)])
            else:
                axis.append(next(o for o, u in window_of.items() if u == k))
                first.append(ZERO)
        item = view(new, tuple(sizes), axis, None, first)
        if combine is not None:
            item = Elementwise(tuple(sizes), x.dtype, combine, {}, (part, item))
        if inside is None:
            program.nests.store([(item, part)])
        else:
            with b.if_(inside):
                program.nests.store([(item, part)])

    def fill(to: Array, reads: Sequence[Node]) -> None:
        shape = [updates.shape[k] for k in batch]
        step = UNROLLED if math.prod(sizes) == 1 else 1
        # What all processors could share counts as work: windows that do not meet.
        times = math.prod(shape) // step if p["unique_indices"] else 1
        with program.nests.loops(shape, range(len(shape) - 1)) as at, program.nests.repeated(times):

            def emit(first: Ix, count: int) -> None:
                for k in range(count):
                    combined(to, reads, [*at[:-1], first + k])

            if shape:
                program.nests.runs(0, shape[-1], step, emit)
            else:
                combined(to, reads, [])

    return [Built(x.shape, x.dtype, x, (*vectors, updates), fill)]


KEEPS_BUILT.update(_SCATTERS)
