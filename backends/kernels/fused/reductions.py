"""Reductions with what feeds them and what uses them, as one kernel.

The cluster is a jaxpr over one space of indices, whose neighbouring `axes` are reduced. Its values are full (one for
each index), rows (one for each index that is not reduced) or scalars. Two forms:

- rows: the reduced axes are the last ones. A workgroup takes rows one by one and goes over each several times, once
  for each level: a full value is at the level of the reductions that it needs (softmax: the maximum at 0, the sum of
  exponentials at 1, the quotients at 2). What a later pass needs is computed again where that is cheap, else it is
  kept in the row's place in a result, or in the stack. A single long row is shared among workgroups.
- columns: dimensions follow the reduced axes. A workgroup takes a strip of columns and goes down its rows.

Where several workgroups share a reduction, its result is of partial values, which the caller combines (`Partial`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.primitive import Primitive

from ..core.builder import STACK_BYTES, KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.target import KernelTarget
from ..core.values import Operand, Value
from ..elements.memory import Memory
from ..elements.operations import HALF, Expand
from .reduction_cluster import ARG, ReductionCluster, Space
from .reduction_values import Accumulator, Frame, Kept, ReductionEmitter
from .short_rows import keep_columns, several_rows

#: Rows shorter than this many vectors are left to IREE: most of their time would be the ends.
LEAST_VECTORS = 4
#: So many elements are worth a workgroup of their own.
WORK = 8192
#: Bytes of the stack that rows may be kept in.
ROW_BYTES = STACK_BYTES // 2


@dataclass(frozen=True)
class Partial:
    """A reduction whose result is made of parts: the kernel's result has this shape, to be reduced along axis 1."""

    primitive: Primitive
    shape: tuple[int, int, int]


@dataclass(frozen=True)
class ReductionKernel:
    """A kernel and, for each result, how its parts are combined (None: it is complete)."""

    kernel: Kernel
    partial: tuple[Partial | None, ...]


@memoized(256)
def reduction_kernel(
    jaxpr: Jaxpr, shape: tuple[int, ...], axes: tuple[int, ...], target: KernelTarget, expand: Expand
) -> ReductionKernel:
    """The kernel of a cluster whose full values have `shape` and whose reductions go over `axes`.

    Its operands are the jaxpr's inputs, its results the jaxpr's outputs. Raises :class:`NoKernel` with the reason
    where there is none.
    """
    if target.kind != "cpu":
        raise NoKernel("reduction kernels are for CPUs")
    cluster = ReductionCluster(jaxpr, Space.of(shape, axes))
    return (_columns if cluster.space.inner > 1 else _rows)(cluster, target, expand)


# -- rows ---------------------------------------------------------------------------------------------------------------


def vector_lanes(cluster: ReductionCluster, target: KernelTarget, neighbours: int, least: int) -> int:
    """Elements of a vector: of the widest dtype that is computed with.

    Half of the widest register, or a quarter, where `neighbours` elements do not fill `least` of them.
    """
    bits = 32
    for v in cluster.level:
        if cluster.full(v):
            d = dtypes.real_dtype(v.aval.dtype)
            bits = max(bits, 8 * d.itemsize)
    width, narrowest = target.lanes(bits), 128 // bits
    while width > narrowest and neighbours < least * width:
        width //= 2
    return width


def _unroll(cluster: ReductionCluster) -> int:
    """Vectors that one turn of the loop takes: more hide the latency of the accumulators."""
    n = sum(1 for e in cluster.jaxpr.eqns if e.outputs and cluster.full(e.outputs[0])) + 2 * len(cluster.reductions)
    return 4 if n <= 8 else 2 if n <= 24 else 1


def _builder(
    cluster: ReductionCluster, base: str, target: KernelTarget, partial: Sequence[Partial | None]
) -> KernelBuilder:
    jaxpr = cluster.jaxpr
    for v in (*jaxpr.invars, *jaxpr.outvars):
        if not isinstance(v, Var) or v.aval.size == 0 or v.aval.dtype not in dtypes.SHORT:
            raise NoKernel("an array without elements, or a dtype without a kernel form")
    results = [
        Spec.of(v.aval.shape if part is None else part.shape, v.aval.dtype) for v, part in zip(jaxpr.outvars, partial)
    ]
    return KernelBuilder(base, [Spec.of(v.aval.shape, v.aval.dtype) for v in jaxpr.invars], results, target)


def _name(cluster: ReductionCluster) -> str:
    return "+".join(dict.fromkeys(e.primitive.name for e in cluster.reductions))


def _rows(cluster: ReductionCluster, target: KernelTarget, expand: Expand) -> ReductionKernel:
    space = cluster.space
    width = vector_lanes(cluster, target, space.reduced, LEAST_VECTORS)
    if space.reduced < LEAST_VECTORS * width:
        return _short_rows(cluster, target, expand)
    wanted = target.groups(space.outer * space.reduced, WORK)
    if space.outer == 1 and wanted > 1 and _is_single(cluster) and _may_share(cluster):
        return _long_row(cluster, target, expand, width, wanted)
    partial = (None,) * len(cluster.outvars)
    b = _builder(cluster, "rows", target, partial)
    emitter = ReductionEmitter(cluster, b, expand)
    keep(emitter, cluster)
    groups = min(wanted, space.outer)
    with b.distributed(space.outer, groups) as row:
        passes_over(emitter, row, width)
        last = Frame(row, 0, 0, 0, cluster.levels)
        for v, memory in zip(cluster.outvars, emitter.outputs):
            if not cluster.full(v):
                memory.store(emitter.value(v, last), row)
    passes = f"{cluster.levels} passes over each row" if cluster.levels > 1 else "one pass over each row"
    where = f"{groups} workgroups" if groups > 1 else "one workgroup"
    return ReductionKernel(b.build((groups,), f"{_name(cluster)} with its neighbours: {passes}, {where}"), partial)


def _short_rows(cluster: ReductionCluster, target: KernelTarget, expand: Expand) -> ReductionKernel:
    """Rows that do not fill vectors, as many at once as there are lanes."""
    space = cluster.space
    width = vector_lanes(cluster, target, space.outer, 1)
    if space.outer < width or space.reduced < 2:
        raise NoKernel(f"{space.outer} rows of {space.reduced} elements")
    partial = (None,) * len(cluster.outvars)
    b = _builder(cluster, "short", target, partial)
    emitter = ReductionEmitter(cluster, b, expand)
    keep_columns(emitter, cluster, width)
    blocks = -(-space.outer // width)
    groups = target.groups(space.outer * space.reduced, WORK, blocks)
    with b.distributed(blocks, groups) as block:
        several_rows(emitter, b.moved_inside(block * width, width, space.outer), width)
    where = f"{groups} workgroups" if groups > 1 else "one workgroup"
    reason = f"{_name(cluster)} with its neighbours: {width} rows of {space.reduced} elements at once, {where}"
    return ReductionKernel(b.build((groups,), reason), partial)


def passes_over(emitter: ReductionEmitter, row: Operand, width: int) -> None:
    """All passes over one row, by vectors of this width."""
    cluster = emitter.cluster
    emitter.rows = {}
    for level in range(cluster.levels):
        todo = [e for e in cluster.reductions if cluster.level[e.outputs[0]] == level + 1]
        writes = any(cluster.full(v) and cluster.level[v] == level for v in (*cluster.outvars, *emitter.saved))
        if todo or writes:
            emitter.prepare(Frame(row, 0, 0, 0, level))
            _pass(emitter, todo, row, level, width)


def keep(emitter: ReductionEmitter, cluster: ReductionCluster) -> None:
    """Choose the memory of values that later passes read: a result that is written later, or the stack."""
    free = [(v, memory) for v, memory in zip(cluster.outvars, emitter.outputs) if cluster.full(v)]
    bytes_left = ROW_BYTES
    kept = cluster.kept()
    last = _last_uses(cluster, kept)
    for v in kept:
        own = next((m for o, m in free if o is v), None)
        later = next(
            (
                (o, m) for o, m in free
                if o.aval.dtype == v.aval.dtype and cluster.level[o] >= last.get(v, 0) > cluster.level[v]
            ),
            None,
        )  # fmt: skip
        if own is not None:
            memory, on_stack = own, False
        elif later is not None:
            free.remove(later)
            memory, on_stack = later[1], False
        else:
            nbytes = cluster.space.reduced * v.aval.dtype.itemsize
            if nbytes > bytes_left:
                raise NoKernel("its rows are too long to be kept between passes")
            bytes_left -= nbytes
            memory, on_stack = Memory.on_stack(emitter.elements, cluster.space.reduced, v.aval.dtype), True
        emitter.saved[v] = Kept(memory, on_stack, own is not None)


def _last_uses(cluster: ReductionCluster, kept: Sequence[Var]) -> dict[Any, int]:
    """The last pass that reads each value: what is made of it and not kept itself is computed again where it is read."""
    last: dict[Any, int] = {}
    for e in reversed(cluster.jaxpr.eqns):
        (made, *_) = e.outputs
        if cluster.full(made):
            until = max(cluster.level[made], 0 if made in kept else last.get(made, 0))
            last.update({a: max(until, last.get(a, 0)) for a in e.inputs if isinstance(a, Var)})
    return last


def _pass(
    emitter: ReductionEmitter,
    todo: Sequence[Eqn],
    row: Operand,
    level: int,
    width: int,
    span: Any = None,
    last: Any = None,
) -> list[list[Value]]:
    """One pass over a row: its reductions' values (kept as the row's), and what is written.

    `span` is the (start, stop) of this workgroup's whole vectors, `last` whether it takes what is beyond them.
    """
    cluster, b = emitter.cluster, emitter.b
    n = cluster.space.reduced
    accumulators = [Accumulator(emitter, e) for e in todo]
    unroll = _unroll(cluster)
    whole = n // (width * unroll) * (width * unroll)
    start, stop = span if span is not None else (0, whole)

    def step(states: list[list[Value]], i: Operand, lanes_: int) -> list[list[Value]]:
        at = Frame(row, i, 0, lanes_, level)
        out = [a.add(s, at, i) for a, s in zip(accumulators, states)]
        emitter.store_full(at)
        return out

    sizes = [len(a.start(0)) for a in accumulators]
    init = [[a.start(width) for a in accumulators] for _ in range(unroll)]
    states = init
    if not (isinstance(stop, int) and isinstance(start, int) and stop <= start):
        with b.for_(start, stop, width * unroll, _joined(init)) as loop:
            carried = _parted(loop.carried, sizes, unroll)
            loop.yield_(*_joined([step(s, loop.index + k * width, width) for k, s in enumerate(carried)]))
        states = _parted(loop.results, sizes, unroll)
    at = whole
    if span is None:
        while n - at >= width:
            k = (at - whole) // width
            states[k % unroll] = step(states[k % unroll], b.index(at), width)
            at += width
    merged = states[0]
    for other in states[1:]:
        merged = [a.merge(x, y) for a, x, y in zip(accumulators, merged, other)]
    totals = [a.across(s) for a, s in zip(accumulators, merged)]
    if at < n:
        first: Operand = at if last is None else b.select(last, b.index(at), b.index(n))
        with b.for_(first, n, 1, _joined([totals])) as loop:
            loop.yield_(*_joined([step(_parted(loop.carried, sizes, 1)[0], loop.index, 0)]))
        totals = _parted(loop.results, sizes, 1)[0]
    for a, state in zip(accumulators, totals):
        emitter.rows[a.e.outputs[0]] = a.result(state)
    return totals


def _joined(states: Sequence[Sequence[Sequence[Value]]]) -> list[Value]:
    return [x for group in states for state in group for x in state]


def _parted(values: Sequence[Value], sizes: Sequence[int], groups: int) -> list[list[list[Value]]]:
    rest = iter(values)
    return [[[next(rest) for _ in range(n)] for n in sizes] for _ in range(groups)]


def _is_single(cluster: ReductionCluster) -> bool:
    """Whether one pass computes everything, each other result being a reduction."""
    made = {e.outputs[0] for e in cluster.reductions}
    return cluster.levels == 1 and all(cluster.full(v) or v in made for v in cluster.outvars)


def _may_share(cluster: ReductionCluster) -> bool:
    """Whether parts of a reduction can be combined later without a loss."""
    return not any(e.primitive in ARG or e.inputs[0].aval.dtype in HALF for e in cluster.reductions)


def _partials(cluster: ReductionCluster, shape: tuple[int, int, int]) -> tuple[Partial | None, ...]:
    return tuple(None if cluster.full(v) else Partial(cluster.producer[v].primitive, shape) for v in cluster.outvars)


def _long_row(
    cluster: ReductionCluster, target: KernelTarget, expand: Expand, width: int, groups: int
) -> ReductionKernel:
    """One row, its elements shared among workgroups."""
    n = cluster.space.reduced
    turn = width * _unroll(cluster)
    share = -(-n // groups // turn) * turn
    groups = -(-(n // turn * turn) // share) if n >= turn else 1
    partial = _partials(cluster, (1, groups, 1))
    b = _builder(cluster, "row", target, partial)
    emitter = ReductionEmitter(cluster, b, expand)
    group = b.workgroup_id()
    start = group * share
    stop = b.smin(start + share, b.index(n // turn * turn))
    last = b.cmp("eq", group, groups - 1)
    emitter.prepare(Frame(0, 0, 0, 0, 0))
    _pass(emitter, cluster.reductions, 0, 0, width, (start, stop), last)
    for v, memory in zip(cluster.outvars, emitter.outputs):
        if not cluster.full(v):
            memory.store(emitter.rows[v], group)
    reason = f"{_name(cluster)} with its neighbours: one pass, {groups} workgroups share the elements"
    return ReductionKernel(b.build((groups,), reason), partial)


# -- columns ------------------------------------------------------------------------------------------------------------

#: Vectors side by side in a strip of columns.
STRIP = 8


def _columns(cluster: ReductionCluster, target: KernelTarget, expand: Expand) -> ReductionKernel:
    space = cluster.space
    if not _is_single(cluster):
        raise NoKernel("several passes over columns")
    width = vector_lanes(cluster, target, space.inner, 1)
    if space.inner < width:
        raise NoKernel(f"columns of {space.inner} neighbours")
    numbers = sum(
        2 if e.primitive in ARG or dtypes.is_complex(e.inputs[0].aval.dtype) else 1 for e in cluster.reductions
    )
    vectors = max(1, min(STRIP // numbers, space.inner // width))
    strip = vectors * width
    strips = -(-space.inner // strip)
    pieces = space.outer * strips
    wanted = target.groups(space.outer * space.reduced * space.inner, WORK)
    shares = max(1, min(wanted // pieces, space.reduced // 32)) if _may_share(cluster) else 1
    rows = -(-space.reduced // shares)
    shares = -(-space.reduced // rows)
    partial = _partials(cluster, (space.outer, shares, space.inner)) if shares > 1 else (None,) * len(cluster.outvars)
    b = _builder(cluster, "columns", target, partial)
    emitter = ReductionEmitter(cluster, b, expand)
    groups = max(1, min(wanted, pieces * shares))
    with b.distributed(pieces * shares, groups) as piece:
        # Neighbouring pieces are strips of the same rows.
        column = b.urem(piece, strips) if strips > 1 else b.index(0)
        rest = b.udiv(piece, strips)
        share = b.urem(rest, shares) if shares > 1 else b.index(0)
        outer = b.udiv(rest, shares)
        # The last strip is moved back inside: some columns are computed twice, none needs a mask.
        first = b.smin(column * strip, b.index(space.inner - strip))
        begin = share * rows
        end = b.smin(begin + rows, b.index(space.reduced))
        accumulators = [Accumulator(emitter, e) for e in cluster.reductions]
        sizes = [len(a.start(0)) for a in accumulators]
        with b.for_(begin, end, 1, _joined([[a.start(width) for a in accumulators] for _ in range(vectors)])) as loop:
            states = _parted(loop.carried, sizes, vectors)
            after = []
            for k, state in enumerate(states):
                at = Frame(outer, loop.index, first + k * width, width, 0)
                emitter.rows = {}
                after.append([a.add(s, at, loop.index) for a, s in zip(accumulators, state)])
                emitter.store_full(at)
            loop.yield_(*_joined(after))
        for k, state in enumerate(_parted(loop.results, sizes, vectors)):
            place = (outer * shares + share) * space.inner + (first + k * width)
            for v, memory in zip(cluster.outvars, emitter.outputs):
                for a, s in zip(accumulators, state):
                    if a.e.outputs[0] is v:
                        memory.store(a.result(s), place, width)
    where = f"strips of {strip} columns" + (f", {shares} shares of the rows" if shares > 1 else "")
    return ReductionKernel(b.build((groups,), f"{_name(cluster)} with its neighbours: {where}"), partial)
