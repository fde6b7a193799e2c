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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.jaxpr import Jaxpr, Var
from quire.ir.primitive import Primitive

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.target import KernelTarget, workgroups
from ..core.values import Value
from ..elements.operations import HALF, Expand
from .passes import folded, keep, keep_columns, over_a_row, passes_over, store_rows, unrolled
from .reduction_cluster import ARG, ReductionCluster, Space
from .reduction_values import Accumulator, Frame, ReductionEmitter

#: Rows shorter than this many vectors are left to IREE: most of their time would be the ends.
LEAST_VECTORS = 4
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
    return "+".join(dict.fromkeys(e.primitive.name for e in cluster.reductions))


def _rows(cluster: ReductionCluster, target: KernelTarget, expand: Expand) -> ReductionKernel:
    """Rows one by one, in vectors along each; rows that do not fill vectors, as many at once as there are lanes."""
    space = cluster.space
    width = vector_lanes(cluster, target, space.reduced, LEAST_VECTORS)
    across = space.reduced < LEAST_VECTORS * width
    wanted = target.groups(space.outer * space.reduced, WORK)
    if across:
        width = vector_lanes(cluster, target, space.outer, 1)
        if space.outer < width or space.reduced < 2:
            raise NoKernel(f"{space.outer} rows of {space.reduced} elements")
    elif space.outer == 1 and wanted > 1 and _is_single(cluster) and _may_share(cluster):
        return _long_row(cluster, target, expand, width, wanted)
    partial = (None,) * len(cluster.outvars)
    b = _builder(cluster, "short" if across else "rows", target, partial)
    emitter = ReductionEmitter(cluster, b, expand)
    if across:
        keep_columns(emitter, cluster, width)
    else:
        keep(emitter, cluster)
    blocks = -(-space.outer // width) if across else space.outer
    groups = min(wanted, blocks)
    with b.distributed(blocks, groups) as block:
        row = b.moved_inside(block * width, width, space.outer) if across else block
        passes_over(emitter, row, width, across=across)
        store_rows(emitter, row, width if across else 0)
    how = f"{cluster.levels} passes over each row" if cluster.levels > 1 else "one pass over each row"
    if across:
        how = f"{width} rows of {space.reduced} elements at once"
    reason = f"{_name(cluster)} with its neighbours: {how}, {workgroups(groups)}"
    return ReductionKernel(b.build((groups,), reason), partial)


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
    emitter = ReductionEmitter(cluster, b, expand)
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

        def frames(i: Value) -> Iterator[Frame]:
            for k in range(vectors):
                emitter.rows = {}
                yield Frame(outer, i, first + k * width, width, 0)

        starts = [[a.start(width) for a in accumulators] for _ in range(vectors)]
        for k, state in enumerate(folded(emitter, accumulators, (begin, end, 1), starts, frames)):
            place = (outer * shares + share) * space.inner + (first + k * width)
            for v, memory in zip(cluster.outvars, emitter.outputs):
                for a, s in zip(accumulators, state):
                    if a.e.outputs[0] is v:
                        memory.store(a.result(s), place, width)
    where = f"strips of {strip} columns" + (f", {shares} shares of the rows" if shares > 1 else "")
    return ReductionKernel(b.build((groups,), f"{_name(cluster)} with its neighbours: {where}"), partial)
