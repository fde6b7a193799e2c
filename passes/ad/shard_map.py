"""Derivatives of shard_map: those of its jaxpr, on each device.

Residuals leave as parts of an array with one new leading dimension, divided along all axes along which they may vary.
With `check_vma` the jaxpr holds the sums over axes along which an operand does not vary (the transposes of its casts).
Without, the cotangent of a result counts once for each device that holds the result, so it is divided by their number;
and that of an operand is summed over the axes that its spec lacks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import AxisNames, ShapedArray, aval_of
from quire.ir.axes import mesh_axes
from quire.ir.jaxpr import ClosedJaxpr, Var
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.shard_map import shard_aval, shard_map, shard_map_p, unmentioned
from quire.ir.sharding import AbstractMesh, Mesh, PartitionSpec
from quire.ir.tracing import eval_jaxpr, trace_flat

from ..rebuild import select
from .calls import linear_mask, merge_outputs, nonzero_mask, spread_tangents, unknown_mask
from .jvp import jvp_jaxpr
from .linearize import PartialTrace, partial_eval, partial_eval_jaxpr
from .rules import jvp, transpose
from .transpose import transpose_jaxpr

Value = Any
Specs = Sequence[PartitionSpec]
WHOLE = PartitionSpec()


class _Map:
    """What the equations of one shard_map's derivatives have in common."""

    def __init__(self, mesh: Mesh | AbstractMesh, check_vma: bool, manual_axes: AxisNames) -> None:
        self.mesh, self.check, self.manual = mesh, check_vma, manual_axes

    def sizes(self) -> dict[Any, int]:
        return {a: self.mesh.shape[a] for a in self.mesh.axis_names if a in self.manual}

    def local(self, spec: PartitionSpec, aval: ShapedArray) -> ShapedArray:
        return shard_aval(self.mesh, spec, aval, self.check)

    def spread(self, aval: ShapedArray) -> PartitionSpec:
        """The spec of a residual: all axes along which it may vary, on a leading dimension."""
        varies = aval.vma if self.check else self.manual
        axes = tuple(a for a in self.mesh.axis_names if a in self.manual and a in varies)
        return PartitionSpec(axes) if axes else WHOLE

    def varying(self, x: Value, spec: PartitionSpec) -> Value:
        """A result of the jaxpr, of a type that varies along all axes that its spec names."""
        return co.pvary(x, [a for a in spec.axes if a in self.manual]) if self.check else x

    def trace(self, f: Callable[..., Sequence[Any]], avals: Sequence[ShapedArray]) -> tuple[ClosedJaxpr, list[Any]]:
        with mesh_axes(self.sizes(), self.check):
            jaxpr, captured, _ = trace_flat(f, avals, name="shard_map")
        return ClosedJaxpr(jaxpr), captured

    def bind(self, closed: ClosedJaxpr, operands: Sequence[Value], in_specs: Specs, out_specs: Specs) -> list[Value]:
        return shard_map(operands, **self.params(closed, in_specs, out_specs))

    def params(self, closed: ClosedJaxpr, in_specs: Specs, out_specs: Specs) -> dict[str, Any]:
        return {
            "mesh": self.mesh, "in_specs": tuple(in_specs), "out_specs": tuple(out_specs), "jaxpr": closed,
            "check_vma": self.check, "manual_axes": self.manual,
        }  # fmt: skip


def _leaving(x: Value) -> Value:
    """A residual as it leaves: what is unreduced as its sum, what is reduced as what is the same everywhere."""
    mat = aval_of(x).mat
    if mat.unreduced:
        x = co.psum(x, sorted(mat.unreduced, key=str))
    return co.pcast_p.bind(x, axes=tuple(sorted(mat.reduced, key=str)), to="invarying") if mat.reduced else x


def _entering(x: Value, aval: ShapedArray) -> Value:
    """A residual that left so, of its type again."""
    return x if aval.manual is aval.vma else co.cast_as(x, aval)


def _outside(aval: ShapedArray) -> ShapedArray:
    return aval.update(vma=aval.vma)


@jvp(shard_map_p)
def _jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, mesh: Any, in_specs: Specs, out_specs: Specs,
    jaxpr: ClosedJaxpr, check_vma: bool, manual_axes: AxisNames,
) -> tuple[Any, Any]:  # fmt: skip
    m = _Map(mesh, check_vma, manual_axes)
    nonzeros = nonzero_mask(tangents)
    with mesh_axes(m.sizes(), check_vma):
        d = jvp_jaxpr(jaxpr, nonzeros)
    n = len(jaxpr.out_avals)
    specs = [*out_specs, *select(list(out_specs), d.nonzeros)]

    def whole(*xs: Any) -> list[Any]:
        return [m.varying(x, s) for x, s in zip(eval_jaxpr(d.closed.jaxpr, (), xs), specs, strict=True)]

    closed, captured = m.trace(whole, d.closed.in_avals)
    out = m.bind(
        closed, [*captured, *d.captured, *primals, *select(tangents, nonzeros)],
        [*[WHOLE] * (len(captured) + len(d.captured)), *in_specs, *select(list(in_specs), nonzeros)], specs,
    )  # fmt: skip
    avals = [aval_of(x) for x in out[:n]]
    return out[:n], spread_tangents(out[n:], d.nonzeros, avals)


@partial_eval(shard_map_p)
def _partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, mesh: Any, in_specs: Specs, out_specs: Specs, jaxpr: ClosedJaxpr,
    check_vma: bool, manual_axes: AxisNames,
) -> Sequence[Any]:  # fmt: skip
    m = _Map(mesh, check_vma, manual_axes)
    unknowns = unknown_mask(trace, operands)
    with mesh_axes(m.sizes(), check_vma):
        s = partial_eval_jaxpr(jaxpr, unknowns)
    known_specs = [*[WHOLE] * len(s.captured), *select(list(in_specs), unknowns, False)]
    known_in = [*s.captured, *select(operands, unknowns, False)]
    n = s.num_known_out
    known_jaxpr = s.known.jaxpr
    residuals = known_jaxpr.outvars[n:]
    # A residual that is an operand stays that operand; the others leave, each once.
    given: dict[Any, int] = {v: i for i, v in enumerate(known_jaxpr.invars)}
    leaving = list(dict.fromkeys(a for a in residuals if isinstance(a, Var) and a not in given))
    leaving_specs = [m.spread(v.aval) for v in leaving]
    place = {v: i for i, v in enumerate(leaving)}
    specs = [*(sp for sp, u in zip(out_specs, s.out_unknowns) if not u), *leaving_specs]
    index = {a: i for i, a in enumerate(known_jaxpr.outvars[n:]) if isinstance(a, Var)}

    def known(*xs: Any) -> list[Any]:
        outs = eval_jaxpr(known_jaxpr, (), xs)
        found = [m.varying(x, sp) for x, sp in zip(outs[:n], specs)]
        for v, sp in zip(leaving, leaving_specs):
            x = _leaving(outs[n + index[v]])
            found.append(st.reshape(x, (1, *aval_of(x).shape)) if sp.axes else x)
        return found

    known_out: list[Any] = []
    if specs or known_jaxpr.effects:
        closed, captured = m.trace(known, s.known.in_avals)
        known_out = m.bind(closed, [*captured, *known_in], [*[WHOLE] * len(captured), *known_specs], specs)
    unknown_out: Sequence[Any] = ()
    if any(s.out_unknowns):
        values: list[Any] = []
        value_specs: list[PartitionSpec] = []
        stacked: list[bool] = []
        for a in residuals:
            if not isinstance(a, Var):
                values.append(a.python_value)
                value_specs.append(WHOLE)
                stacked.append(False)
            elif a in given:
                values.append(known_in[given[a]])
                value_specs.append(known_specs[given[a]])
                stacked.append(False)
            else:
                values.append(known_out[n + place[a]])
                value_specs.append(leaving_specs[place[a]])
                stacked.append(bool(leaving_specs[place[a]].axes))
        unknown_specs = [sp for sp, u in zip(out_specs, s.out_unknowns) if u]
        unknown_jaxpr = s.unknown.jaxpr

        def unknown(*xs: Any) -> list[Any]:
            opened = [st.reshape(x, aval_of(x).shape[1:]) if k else x for x, k in zip(xs, stacked)]
            opened = [_entering(x, a.aval) if isinstance(a, Var) else x for x, a in zip(opened, residuals, strict=True)]
            outs = eval_jaxpr(unknown_jaxpr, (), [*opened, *xs[len(stacked) :]])
            return [m.varying(x, sp) for x, sp in zip(outs, unknown_specs, strict=True)]

        avals = [
            _outside(a).update(shape=(1, *a.shape)) if k else _outside(a)
            for a, k in zip(s.unknown.in_avals, [*stacked, *[False] * len(unknowns)])
        ]
        closed, captured = m.trace(unknown, avals)
        args = [*captured, *values, *select(operands, unknowns)]
        arg_specs = [*[WHOLE] * len(captured), *value_specs, *select(list(in_specs), unknowns)]
        unknown_out = trace.record_unknown(shard_map_p, args, m.params(closed, arg_specs, unknown_specs))
    return merge_outputs(s.out_unknowns, known_out[:n], unknown_out)


@transpose(shard_map_p)
def _transpose(
    cts: Sequence[Any], *operands: Any, mesh: Any, in_specs: Specs, out_specs: Specs, jaxpr: ClosedJaxpr,
    check_vma: bool, manual_axes: AxisNames,
) -> Sequence[Any]:  # fmt: skip
    m = _Map(mesh, check_vma, manual_axes)
    linear, nonzeros = linear_mask(operands), nonzero_mask(cts)
    with mesh_axes(m.sizes(), check_vma):
        t = transpose_jaxpr(jaxpr, linear, nonzeros)
    values = select(operands, linear, False)
    ct_specs = select(list(out_specs), nonzeros)
    specs = [*[WHOLE] * len(t.captured), *select(list(in_specs), linear, False), *ct_specs]
    linear_specs = select(list(in_specs), linear)
    wanted = select(linear_specs, t.nonzeros)
    first = len(t.captured) + len(values)

    def body(*xs: Any) -> list[Any]:
        given = list(xs)
        if not check_vma:
            for i, spec in enumerate(ct_specs, first):
                copies = math.prod(mesh.shape[a] for a in unmentioned(mesh, spec, manual_axes))
                if copies > 1:
                    given[i] = ew.div(given[i], copies)
        outs = eval_jaxpr(t.closed.jaxpr, (), given)
        if check_vma:
            return [m.varying(x, spec) for x, spec in zip(outs, wanted, strict=True)]
        found: list[Any] = []
        for x, spec in zip(outs, wanted, strict=True):
            axes = unmentioned(mesh, spec, manual_axes)
            found.append(co.psum_p.bind(x, axes=axes) if axes else x)
        return found

    closed, captured = m.trace(body, t.closed.in_avals)
    args = [*captured, *t.captured, *values, *select(cts, nonzeros)]
    out = m.bind(closed, args, [*[WHOLE] * len(captured), *specs], wanted)
    given = iter(spread_tangents(out, t.nonzeros, [x.aval for x in select(operands, linear)]))
    return [next(given) if l else None for l in linear]
