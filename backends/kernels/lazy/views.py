"""Primitives that are other views of an array, in any schedule."""

from __future__ import annotations

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st

from ..core.values import Value
from ..elements.operations import is_number
from .nodes import ZERO, Ix, Node, view
from .schedule import Rules, Schedule

VIEWS = Rules()


@VIEWS.of(st.broadcast_in_dim_p)
def broadcast_in_dim(schedule: Schedule, eqn: Eqn, x: Node) -> list[Node]:
    """A view whose new dimensions all read the same element."""
    shape, where = tuple(eqn.params["shape"]), eqn.params["broadcast_dimensions"]
    axis = [None if n == 1 and shape[d] != 1 else d for n, d in zip(x.shape, where)]
    return [view(x, shape, axis)]


@VIEWS.of(st.transpose_p)
def transpose(schedule: Schedule, eqn: Eqn, x: Node) -> list[Node]:
    """A view with the dimensions in another order."""
    order = eqn.params["permutation"]
    return [view(x, tuple(x.shape[d] for d in order), [order.index(d) for d in range(len(order))])]


@VIEWS.of(st.slice_p)
def slice_(schedule: Schedule, eqn: Eqn, x: Node) -> list[Node]:
    """A view from the start indices on, by the strides."""
    start = eqn.params["start_indices"]
    offset = [Ix((), s) for s in start]
    return [view(x, eqn.outputs[0].aval.shape, range(len(start)), eqn.params["strides"], offset)]


@VIEWS.of(st.split_p)
def split(schedule: Schedule, eqn: Eqn, x: Node) -> list[Node]:
    """One view for each part."""
    d, at = eqn.params["axis"], 0
    out: list[Node] = []
    for v in eqn.outputs:
        offset = [Ix((), at) if k == d else ZERO for k in range(len(x.shape))]
        out.append(view(x, v.aval.shape, range(len(x.shape)), None, offset))
        at += v.aval.shape[d]
    return out


@VIEWS.of(st.rev_p)
def rev(schedule: Schedule, eqn: Eqn, x: Node) -> list[Node]:
    """A view that goes backwards along some dimensions."""
    turned = eqn.params["dimensions"]
    step = [-1 if d in turned else 1 for d in range(len(x.shape))]
    offset = [Ix((), n - 1) if d in turned else ZERO for d, n in enumerate(x.shape)]
    return [view(x, x.shape, range(len(x.shape)), step, offset)]


@VIEWS.of(st.optimization_barrier_p)
def optimization_barrier(schedule: Schedule, eqn: Eqn, *xs: Node) -> list[Node]:
    """The operands, computed here once: what reads them reads the same numbers."""
    return [schedule.steady(x) for x in xs]


# -- slices at indices known at run time ------------------------------------------------------------------------------


def clamped(schedule: Schedule, x: Node, limit: int) -> Ix:
    """A scalar index clamped to [0, limit]."""
    e = schedule.element(x)
    if is_number(e):
        return Ix((), min(max(int(e), 0), limit))  # type: ignore[arg-type]
    assert isinstance(e, Value)
    if limit == 0:
        return ZERO
    b = schedule.b
    if dtypes.is_unsigned(x.dtype):
        return Ix.of(b.cast(b.umin(b.cast(e, "i64", signed=False), limit), "index"))
    return Ix.of(b.cast(b.smin(b.smax(b.cast(e, "i64"), 0), limit), "index"))


@VIEWS.of(ix.dynamic_slice_p)
def dynamic_slice(schedule: Schedule, eqn: Eqn, x: Node, *starts: Node) -> list[Node]:
    """A view from clamped indices on."""
    sizes = tuple(eqn.params["slice_sizes"])
    offset = [clamped(schedule, s, n - m) for s, n, m in zip(starts, x.shape, sizes)]
    return [view(x, sizes, range(len(sizes)), None, offset)]
