"""Control flow in the function of a `shard_map` with check_vma: types that agree in what they vary along.

Where the predicate varies along a mesh axis, devices take different ways, so all that the ways take and give varies too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import NO_AXES, AxisNames, ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives.collectives import pvary
from quire.ir.tracing import eval_jaxpr, trace_flat


def cast(values: Sequence[Any], vma: AxisNames) -> list[Any]:
    """The values, cast so that each varies along these axes."""
    axes = sorted(vma, key=str)
    return [pvary(x, axes) for x in values]


def alike(index: Any, operands: Sequence[Any], branches: Sequence[ClosedJaxpr]) -> tuple[list[Any], list[ClosedJaxpr]]:
    """Operands and branches of a cond: results vary along all axes along which the index or one branch's do."""
    if not ShapedArray.any_varies:
        return list(operands), list(branches)
    vma = aval_of(index).vma
    outs = [NO_AXES.union(*(a.vma for a in column)) | vma for column in zip(*(b.out_avals for b in branches))]
    if not vma and all(a.vma == v for b in branches for a, v in zip(b.out_avals, outs)):
        return list(operands), list(branches)
    operands = cast(operands, vma)

    def varying(b: ClosedJaxpr) -> ClosedJaxpr:
        def flat(*xs: Any) -> list[Any]:
            return [cast([x], v)[0] for x, v in zip(eval_jaxpr(b.jaxpr, (), xs), outs, strict=True)]

        return ClosedJaxpr(trace_flat(flat, [aval_of(x) for x in operands], name="branch")[0])

    return operands, [varying(b) for b in branches]
