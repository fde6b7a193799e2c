"""Batching rules of reductions: the same reduction beside a batch dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitive import Primitive
from quire.ir.primitives import reductions as rd

from .rules import Axis, Dim, Value, batching
from .structural import shifted, together


def _reduction(p: Primitive) -> None:
    def rule(
        lanes: Axis, operands: Sequence[Value], dims: Sequence[int], *, axes: tuple[int, ...], **params: Any
    ) -> tuple[Value, int]:
        (x,), (d,) = operands, dims
        inner = shifted(axes, d)
        return p.bind(x, axes=inner, **params), d - sum(a < d for a in inner)

    batching.add(p, rule)


for _p in (
    rd.reduce_sum_p, rd.reduce_prod_p, rd.reduce_max_p, rd.reduce_min_p, rd.reduce_and_p, rd.reduce_or_p,
    rd.reduce_xor_p, rd.argmax_p, rd.argmin_p,
):  # fmt: skip
    _reduction(_p)


def _cumulative(p: Primitive) -> None:
    def rule(
        lanes: Axis, operands: Sequence[Value], dims: Sequence[int], *, axis: int, reverse: bool
    ) -> tuple[Value, int]:
        (x,), (d,) = operands, dims
        return p.bind(x, axis=axis + (axis >= d), reverse=reverse), d

    batching.add(p, rule)


for _p in (rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p, rd.cumlogsumexp_p):
    _cumulative(_p)


def reducer_operands(
    name: str, operands: Sequence[Value], dims: Sequence[Dim], size: int
) -> tuple[list[Value], Sequence[Value], int]:
    """The arrays of a reduction with their batch dimensions at one place, and its initial values.

    Raises NotImplementedError where the initial values are batched too.
    """
    n = len(operands) // 2
    if any(d is not None for d in dims[n:]):
        raise NotImplementedError(
            f"{name}: the initial value differs between the lanes of vmap; it must be the neutral value of the "
            "function: "
            "combine such values after the reduction"
        )
    arrays, d = together(operands[:n], dims[:n], size)
    return arrays, operands[n:], d


@batching(rd.reduce_p)
def reduce(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]
) -> tuple[list[Value], list[int]]:
    arrays, inits, d = reducer_operands("reduce", operands, dims, lanes.size)
    inner = shifted(dimensions, d)
    out = rd.reduce_p.bind(*arrays, *inits, jaxpr=jaxpr, dimensions=inner)
    return out, [d - sum(a < d for a in inner)] * len(arrays)
