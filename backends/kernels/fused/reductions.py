"""Reductions with what feeds them and what uses them, as one kernel.

The cluster is a jaxpr over one space of indices, whose neighbouring `axes` are reduced. Its values are full (one for
each index), rows (one for each index that is not reduced) or scalars. Two forms:

- rows: the reduced axes are the last ones. A workgroup takes rows one by one and goes over each several times, once
  for each level: a full value is at the level of the reductions that it needs (softmax: the maximum at 0, the sum of
  exponentials at 1, the quotients at 2). What a later pass needs is computed again where that is cheap, else it is
  kept in the stack, or in the row's place in a result. Short rows are gone over in blocks of as many as vectors have lanes, the
  shortest by vectors across them. A single long row is shared among workgroups.
- columns: dimensions follow the reduced axes. A workgroup takes a strip of columns and goes down its rows.

Where several workgroups share a reduction, its result is of partial values, which the caller combines (`Partial`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from quire.ir import dtypes
from quire.ir.jaxpr import Jaxpr, Var
from quire.ir.primitive import Primitive
from quire.ir.weights import DEARER_THAN_A_READ

from ..core.builder import LONGEST_CHAIN, STACK_BYTES, KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.target import KernelTarget, workgroups
from ..core.values import Operand, Value, element
from ..elements.monoids import REDUCTIONS
from ..elements.operations import HALF, Expand
from .accumulator import Accumulator
from .cluster import ARG, ReductionCluster, Space
from .passes import (
    ROW_BYTES,
    States,
    added,
    folded,
    keep,
    keep_columns,
    over_a_row,
    passes_over,
    passes_over_block,
    store_rows,
    unrolled,
)
from .values import Frame, Values

#: Rows of at most so many vectors are gone over in blocks.
MOST_IN_BLOCKS = 16
#: So many elements are worth a workgroup of their own.
WORK = 8192


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
    return "+".join(dict.fromkeys(e.primitive.name for e in cluster.reductions)) or "gathered rows"


def _rows(cluster: ReductionCluster, target: KernelTarget, expand: Expand) -> ReductionKernel:
    """Rows one by one, in vectors along each; rows that do not fill vectors, as many at once as there are lanes."""
    space = cluster.space
    width = vector_lanes(cluster, target, space.reduced, 1)
    across = space.reduced < max(width, _least_along(cluster, target, width))
    wanted = target.groups(space.outer * space.reduced, WORK)
    if across:
        width = vector_lanes(cluster, target, space.outer, 1)
        if space.outer < width or space.reduced < 2:
            raise NoKernel(f"{space.outer} rows of {space.reduced} elements")
    elif space.outer == 1 and wanted > 1 and _is_single(cluster) and _may_share(cluster):
        return _long_row(cluster, target, expand, width, wanted)
    together = width if not across and _in_blocks(cluster, width) else 1
    partial = (None,) * len(cluster.outvars)
    b = _builder(cluster, "short" if across else "rows", target, partial)
    run = _run(cluster.run(lambda numbers: numbers[: space.first]), width, space.outer)
    emitter = Values(cluster, b, expand, run=run if across else 0)
    if across:
        keep_columns(emitter, cluster, width)
    else:
        keep(emitter, cluster, rows=together)
    blocks = space.outer // run * -(-run // width) if across else -(-space.outer // together)
    groups = min(wanted, blocks)
    with b.distributed(blocks, groups) as block:
        if together > 1:
            row = b.moved_inside(block * together, together, space.outer)
            passes_over_block(emitter, row, width)
            store_rows(emitter, row, together)
        else:
            row = _start(b, block, width, run) if across else block
            passes_over(emitter, row, width, across=across)
            store_rows(emitter, row, width if across else 0)
    how = f"{cluster.levels} passes over each row" if cluster.levels > 1 else "one pass over each row"
    if together > 1:
        how += f", {together} rows at a time"
    if across:
        how = f"{width} rows of {space.reduced} elements at once"
    reason = f"{_name(cluster)} with its neighbours: {how}, {workgroups(groups)}"
    return ReductionKernel(b.build((groups,), reason), partial)


def _least_along(cluster: ReductionCluster, target: KernelTarget, width: int) -> int:
    """Of how few elements rows are gone over one by one: what is left of their vectors is computed for nothing. Shorter rows are
    computed across, which reads, and would write, an element a lane."""
    if not cluster.reductions:
        return width
    dear = any(
        e.primitive in ARG
        or (
            e.primitive.family == "elementwise"
            and cluster.full(e.outputs[0])
            and e.primitive.weight >= DEARER_THAN_A_READ
        )
        for e in cluster.jaxpr.eqns
    )
    widest = vector_lanes(cluster, target, cluster.space.size, 1)
    return widest if dear else widest // 2


def _in_blocks(cluster: ReductionCluster, width: int) -> bool:
    """Whether rows are short and what they have one of is worth to be computed for as many rows at once as there are lanes."""
    space = cluster.space
    rows = cluster.levels > 1 or any(
        e.primitive in ARG or not (cluster.full(e.outputs[0]) or e.primitive in REDUCTIONS) for e in cluster.jaxpr.eqns
    )
    if (
        not rows
        or not cluster.reductions
        or space.outer < width
        or not width <= space.reduced <= MOST_IN_BLOCKS * width
    ):
        return False
    kept = (v for v in cluster.kept() if v not in cluster.outvars)
    return sum(v.aval.dtype.itemsize for v in kept) * space.reduced * width <= ROW_BYTES


def _run(run: int, width: int, size: int) -> int:
    """Of how many neighbours no vector leaves the part that it is in; all, where parts are too short for vectors."""
    return run if run >= width else size


def _start(b: KernelBuilder, piece: Value, width: int, run: int) -> Value:
    """Where the elements of a piece begin: pieces of a width in parts of ``run`` elements, the last of each moved inside."""
    part, piece = b.divmod(piece, -(-run // width))
    return part * run + b.moved_inside(piece * width, width, run)


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
    turn = width * unrolled(cluster)
    share = -(-n // groups // turn) * turn
    groups = -(-(n // turn * turn) // share) if n >= turn else 1
    partial = _partials(cluster, (1, groups, 1))
    b = _builder(cluster, "row", target, partial)
    emitter = Values(cluster, b, expand)
    group = b.workgroup_id()
    start = group * share
    stop = b.smin(start + share, b.index(n // turn * turn))
    last = b.cmp("eq", group, groups - 1)
    at = Frame(0, 0, 0, 0, 0)
    emitter.prepare(at)
    over_a_row(emitter, cluster.reductions, at, width, (start, stop), last)
    for v, memory in zip(cluster.outvars, emitter.outputs):
        if not cluster.full(v):
            memory.store(emitter.rows[v], group)
    reason = f"{_name(cluster)} with its neighbours: one pass, {groups} workgroups share the elements"
    return ReductionKernel(b.build((groups,), reason), partial)


# -- columns ------------------------------------------------------------------------------------------------------------

#: Vectors side by side in a strip of columns whose accumulators are registers; where elements are read one by one.
STRIP, GATHERED = 8, 2
#: Bytes of a row from which strips are wide: narrow ones would read a few cache lines of each page.
FAR = 4096
#: Bytes of the operands' rows in a wide strip, and of the stack that its accumulators may take.
WIDE, WIDE_STACK = 16384, STACK_BYTES // 2


def _columns(cluster: ReductionCluster, target: KernelTarget, expand: Expand) -> ReductionKernel:
    if not _is_single(cluster):
        raise NoKernel("several passes over columns")
    width = vector_lanes(cluster, target, cluster.space.inner, 1)
    if cluster.space.inner < width:
        cluster = ReductionCluster(cluster.jaxpr, replace(cluster.space, flat=True))
        width = vector_lanes(cluster, target, cluster.space.inner, 1)
        if cluster.space.inner < width or any(map(cluster.full, cluster.outvars)):
            raise NoKernel(f"columns of {cluster.space.inner} neighbours, or results like the operands")
    space = cluster.space
    numbers = sum(
        2 if e.primitive in ARG or dtypes.is_complex(e.inputs[0].aval.dtype) else 1 for e in cluster.reductions
    )
    wanted = target.groups(space.outer * space.reduced * space.inner, WORK)
    least = cluster.run(space.of_inner)
    run = _run(least, width, space.inner)
    wide = _wide_strip(cluster, width, numbers, wanted) if least == space.inner else 0
    strip = wide or max(1, min((STRIP if least >= width else GATHERED) // numbers, run // width)) * width
    if not wide:
        strip = -(-run // -(-run // strip) // width) * width
    strips = space.inner // run * -(-run // strip)
    pieces = space.outer * strips
    shares = wanted // math.gcd(pieces, wanted) if wide and pieces < 4 * wanted else wanted // pieces
    shares = max(1, min(shares, space.reduced // 32)) if _may_share(cluster) else 1
    if wide and _may_share(cluster):  # whose sums are chains along all rows of a share
        shares = max(shares, -(-space.reduced // LONGEST_CHAIN))
    rows = -(-space.reduced // shares)
    shares = -(-space.reduced // rows)
    partial = _partials(cluster, (space.outer, shares, space.inner)) if shares > 1 else (None,) * len(cluster.outvars)
    b = _builder(cluster, "columns", target, partial)
    emitter = Values(cluster, b, expand, run=run)
    groups = max(1, min(wanted, pieces * shares))
    with b.distributed(pieces * shares, groups) as piece:
        # Neighbouring pieces are strips of the same rows.
        column = b.urem(piece, strips) if strips > 1 else b.index(0)
        rest = b.udiv(piece, strips)
        share = b.urem(rest, shares) if shares > 1 else b.index(0)
        outer = b.udiv(rest, shares)
        # The last strip is moved back inside: some columns are computed twice, none needs a mask.
        first = _start(b, column, strip, run)
        begin = share * rows
        end = b.smin(begin + rows, b.index(space.reduced))
        accumulators = [Accumulator(emitter, e) for e in cluster.reductions]

        def store(states: States, column: Operand) -> None:
            place = (outer * shares + share) * space.inner + (first + column)
            for v, memory in zip(cluster.outvars, emitter.outputs):
                for a, s in zip(accumulators, states):
                    if a.e.outputs[0] is v:
                        memory.store(a.result(s), place, width)

        down = _down_wide if wide else _down_narrow
        down(emitter, accumulators, (begin, end), strip, lambda i, k: Frame(outer, i, first + k, width, 0), store)
    turn = f", {_rows_a_turn(cluster)} rows a turn" if wide else ""
    where = f"strips of {strip} columns{turn}" + (f", {shares} shares of the rows" if shares > 1 else "")
    return ReductionKernel(b.build((groups,), f"{_name(cluster)} with its neighbours: {where}"), partial)


def _rows_a_turn(cluster: ReductionCluster) -> int:
    """Rows that are added to the accumulators of a wide strip between reading and writing them."""
    return 2 * unrolled(cluster)


def _wide_strip(cluster: ReductionCluster, width: int, numbers: int, groups: int) -> int:
    """Columns of a strip whose accumulators are kept on the stack; 0 where they are better kept in registers."""
    space, rows = cluster.space, _rows_a_turn(cluster)
    read = [r for r in cluster.read() if any(r.strides[space.first : space.last]) and any(space.of_inner(r.strides))]
    sizes = [r.array.aval.dtype.itemsize for r in read]
    masks = any(dtypes.is_bool(e.inputs[0].aval.dtype) for e in cluster.reductions)  # these are not stored
    if masks or rows < 4 or not sizes or space.inner * min(sizes) < FAR or space.reduced < 4 * rows:
        return 0
    most = min(WIDE // max(sizes), WIDE_STACK // (8 * numbers))
    strips = -(-space.inner // most)
    if space.outer * strips < 4 * groups and not _may_share(cluster):
        # As many for each workgroup, unless they become narrow.
        even = math.lcm(groups, space.outer) // space.outer
        even *= -(-strips // even)
        strips = even if space.inner // even * max(sizes) >= FAR // 4 else strips
    return min(-(-space.inner // (strips * width)), space.inner // width) * width


def _down_narrow(
    emitter: Values[ReductionCluster], todo: Sequence[Accumulator], rows: tuple[Value, Value], strip: int,
    frame: Callable[[Value, Operand], Frame], store: Callable[[States, Operand], None],
) -> None:  # fmt: skip
    """Down the rows of a strip, its accumulators in registers."""
    width = frame(rows[0], 0).width
    places = range(0, strip, width)
    columns = [frame(rows[0], k) for k in places]
    for column in columns:
        emitter.locate(column)

    def frames(i: Value) -> Iterator[Frame]:
        for column in columns:
            emitter.rows = {}
            yield column.along(i, width)

    starts = [[a.start(width) for a in todo] for _ in places]
    for k, states in zip(places, folded(emitter, todo, (*rows, 1), starts, frames, emitter.cluster.space.reduced)):
        store(states, k)


def _down_wide(
    emitter: Values[ReductionCluster], todo: Sequence[Accumulator], rows: tuple[Value, Value], strip: int,
    frame: Callable[[Value, Operand], Frame], store: Callable[[States, Operand], None],
) -> None:  # fmt: skip
    """Down the rows of a strip, its accumulators on the stack: some rows a turn, vector by vector along them."""
    b, width, some = emitter.b, frame(rows[0], 0).width, _rows_a_turn(emitter.cluster)
    starts = [a.start(width) for a in todo]
    kept = [[b.stack((strip,), element(x.type)) for x in start] for start in starts]

    def write(states: States, k: Value) -> None:
        for buffers, state in zip(kept, states):
            for buffer, x in zip(buffers, state):
                b.vstore(x, buffer, k)

    def read(k: Value) -> States:
        return [[b.vload(width, buffer, k) for buffer in buffers] for buffers in kept]

    def add(i: Value, count: int) -> None:
        with b.for_(0, strip, width) as loop:
            states = read(loop.index)
            for row in range(count):
                emitter.rows = {}
                states = added(emitter, todo, states, frame(i + row, loop.index))
            write(states, loop.index)

    with b.for_(0, strip, width) as loop:
        write(starts, loop.index)
    begin, end = rows
    whole = begin + b.udiv(end - begin, some) * some
    with b.for_(begin, whole, some) as loop:
        add(loop.index, some)
    with b.for_(whole, end) as loop:
        add(loop.index, 1)
    with b.for_(0, strip, width) as loop:
        store(read(loop.index), loop.index)
