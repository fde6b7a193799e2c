"""Reductions in two steps, where no kernel goes over all of their axes at once.

A kernel goes over axes that are neighbours. Over others, as the batch and the places of images (N, C, H, W) are, one group
of neighbours is reduced first and the rest of the few numbers that are left. Also over neighbours, where an array that was
repeated feeds the reduction and its elements would not lie in order there: in ``sum(abs(x[:, None, :] - y))`` the ``x`` of an
index (i, j, k) begins again with each j. There the first axes are reduced in columns, which read such arrays in any order.
Also over leading axes, where what is left are columns too few for vectors: ``sum(points, (0, 1))`` of points in the plane.

Also over all axes, where what is reduced is computed of reductions over the last ones (`_of_rows`).

Sums of halves are computed in f32 in between, as they are within one kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .clusters import along_rows, is_seed

#: The first step leaves an element of so many at most; of repeated arrays, which one step would not store, of so many.
LEAST_FIRST, LEAST_REPEATED = 2, 8
#: Rows of so many elements are reduced first, whatever the other axes are.
LONG = 64
#: Columns fill vectors if there are so many.
LEAST_COLUMNS = 16


def with_parted_axes(jaxpr: Jaxpr, least: int) -> Jaxpr:
    """The jaxpr with two equations for each such reduction of at least so many elements."""
    made: dict[Atom, Eqn] = {}
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        eqns += _parted(e, made, least)
        made.update(dict.fromkeys(e.outputs, e))
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns) if len(eqns) > len(jaxpr.eqns) else jaxpr


def _parted(e: Eqn, made: Mapping[Atom, Eqn], least: int) -> list[Eqn]:
    """The steps of a reduction; the equation itself where it needs none."""
    if not is_seed(e, least) or e.primitive.combine is None:
        return [e]
    units = tuple(d for d in e.params["axes"] if e.inputs[0].aval.shape[d] == 1)
    if units:
        return _without_units(e, units, made, least)
    if not (first := _first(e, made)):
        return [e]
    x, (out,) = e.inputs[0], e.outputs
    before: list[Eqn] = []
    after: list[Eqn] = []
    if dtypes.is_float(out.aval.dtype) and out.aval.dtype.itemsize < 4:
        wide = Var(x.aval.update(dtype=dtypes.float32))
        before = [_converted(e, x, wide)]
        x, out = wide, Var(out.aval.update(dtype=dtypes.float32))
        after = [_converted(e, out, e.outputs[0])]
    kept = [d for d in range(x.aval.ndim) if d not in first]
    part = Var(x.aval.update(shape=tuple(x.aval.shape[d] for d in kept)))
    rest = tuple(kept.index(d) for d in sorted(e.params["axes"]) if d not in first)
    one = Eqn([x], [part], e.primitive, {**e.params, "axes": first}, source=e.source)
    other = Eqn([part], [out], e.primitive, {**e.params, "axes": rest}, source=e.source)
    return [*before, one, *_parted(other, made, least), *after]


def _without_units(e: Eqn, units: Sequence[int], made: Mapping[Atom, Eqn], least: int) -> list[Eqn]:
    """The reduction over the axes of more than one element, if there are any; what is left loses the others by a reshape."""
    x, (out,) = e.inputs[0], e.outputs
    axes = tuple(d for d in e.params["axes"] if d not in units)
    part, steps = x, list[Eqn]()
    if axes:
        part = Var(out.aval.update(shape=tuple(n for d, n in enumerate(x.aval.shape) if d not in axes)))
        steps = _parted(Eqn([x], [part], e.primitive, {**e.params, "axes": axes}, source=e.source), made, least)
    return [*steps, Eqn([part], [out], st.reshape_p, {"new_sizes": out.aval.shape}, source=e.source)]


def _converted(e: Eqn, x: Atom, to: Var) -> Eqn:
    params = {"new_dtype": to.aval.dtype, "weak_type": to.aval.weak_type}
    return Eqn([x], [to], ew.convert_element_type_p, params, source=e.source)


def _first(e: Eqn, made: Mapping[Atom, Eqn]) -> tuple[int, ...]:
    """The axes that are reduced first; none where one step reduces all."""
    x = e.inputs[0].aval
    axes: tuple[int, ...] = tuple(sorted(e.params["axes"]))
    groups = _neighbours(axes)
    extents = [math.prod(x.shape[d] for d in group) for group in groups]
    if len(groups) > 1:
        last = groups[-1][-1] == x.ndim - 1 and extents[-1] >= min(LONG, max(extents))
        chosen = len(groups) - 1 if last else extents.index(max(extents))
        return groups[chosen] if extents[chosen] >= LEAST_FIRST else ()
    if len(axes) < 2:
        return ()
    if (known := _of_rows(e, axes, made)) is not None:
        return known
    rows = axes[-1] == x.ndim - 1
    if not _disordered(e, axes, made) if rows else e.outputs[0].aval.size >= LEAST_COLUMNS:
        return ()
    for k in range(1, len(axes)):
        if math.prod(x.shape[d] for d in axes[:k]) >= LEAST_REPEATED:
            return axes[:k]
    return ()


def _neighbours(axes: Sequence[int]) -> list[tuple[int, ...]]:
    """Sorted axes in groups of neighbours."""
    groups: list[list[int]] = []
    for d in axes:
        if groups and groups[-1][-1] == d - 1:
            groups[-1].append(d)
        else:
            groups.append([d])
    return [tuple(group) for group in groups]


def _of_rows(e: Eqn, axes: Sequence[int], made: Mapping[Atom, Eqn]) -> tuple[int, ...] | None:
    """The last of the axes, where what is reduced is computed of reductions over these: the mean of cross entropies over all rows.

    One kernel then goes over the rows, and what is reduced is never in memory.
    """
    shape, stack, seen = e.inputs[0].aval.shape, [e.inputs[0]], set[Atom]()
    while stack:
        a = stack.pop()
        maker = made.get(a)
        if maker is None or a in seen:
            continue
        seen.add(a)
        if is_seed(maker, 1):
            over = tuple(sorted(maker.params["axes"]))
            if maker.inputs[0].aval.shape == shape and over == tuple(axes[-len(over) :]) and len(over) < len(axes):
                return tuple(over)
        elif maker.primitive.family == "elementwise" or maker.primitive in (st.broadcast_in_dim_p, st.reshape_p):
            stack += [x for x in maker.inputs if isinstance(x, Var)]
    return None


def _disordered(e: Eqn, axes: Sequence[int], made: Mapping[Atom, Eqn]) -> bool:
    """Whether a reduction is fed, through elementwise equations, by an array that rows along the axes do not read in order."""
    shape, stack, seen = e.inputs[0].aval.shape, [e.inputs[0]], set[Atom]()
    while stack:
        a = stack.pop()
        maker = made.get(a)
        if maker is None or a in seen or a.aval.shape != shape:
            continue
        seen.add(a)
        if maker.primitive in (st.broadcast_in_dim_p, st.slice_p):
            if maker.inputs[0].aval.shape and not along_rows(maker, axes):
                return True
        elif maker.primitive.family == "elementwise":
            stack += [x for x in maker.inputs if isinstance(x, Var)]
    return False
