"""Batching rules of windowed reductions: windows of size 1 along the batch dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import windows as wd

from .reductions import reducer_operands, results_in_lanes
from .rules import Axis, Dim, Value, batching
from .structural import together, with_entry


def _beside(params: dict[str, Any], d: int) -> dict[str, Any]:
    """The window's parameters with a batch dimension."""
    entries = {k: (0, 0) if k == "padding" else 1 for k, v in params.items() if isinstance(v, tuple)}
    return params | {k: with_entry(params[k], d, e) for k, e in entries.items()}


def _windowed(p: Primitive) -> None:
    def rule(lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Value, int]:
        arrays, d = together(operands, dims, lanes.size)
        return p.bind(*arrays, **_beside(params, d)), d

    batching.add(p, rule)


for _p in (
    wd.reduce_window_sum_p, wd.reduce_window_max_p, wd.reduce_window_min_p, wd.select_and_scatter_add_p,
    wd.select_and_gather_add_p,
):  # fmt: skip
    _windowed(_p)


@batching(wd.reduce_window_p)
def reduce_window(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, jaxpr: ClosedJaxpr, **params: Any
) -> tuple[list[Value], list[Dim]]:
    arrays, inits, d = reducer_operands("reduce_window", operands, dims, lanes.size)
    out = wd.reduce_window_p.bind(*arrays, *inits, jaxpr=jaxpr, **_beside(params, d))
    return results_in_lanes(wd.reduce_window_p, operands, dims, jaxpr, out, d, **params)


@batching(wd.select_and_scatter_p)
def select_and_scatter(lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Value, int]:
    if dims[2] is not None:
        raise NotImplementedError("select_and_scatter: init_value must be the same for all lanes of vmap")
    (x, source), d = together(operands[:2], dims[:2], lanes.size)
    return wd.select_and_scatter_p.bind(x, source, operands[2], **_beside(params, d)), d
