"""Batching rules of reductions: the same reduction beside a batch dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import reductions as rd

from ..dce import dce_jaxpr
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


def results_in_lanes(
    p: Primitive, operands: Sequence[Value], dims: Sequence[Dim], jaxpr: ClosedJaxpr, batched: list[Value], at: int,
    **params: Any,
) -> tuple[list[Value], list[Dim]]:  # fmt: skip
    """The results of a reduction and their batch dimensions: `at`, but for those that read no array which is batched.

    These are reduced without a batch dimension: who reads them alone, as positions beside tangents, is not batched.
    """
    n = len(batched)
    alone = _same_in_all_lanes(jaxpr, dims[:n])
    if not alone:
        return batched, [at] * n
    mine = [*alone, *(n + i for i in alone)]
    out = p.bind(*(operands[i] for i in mine), jaxpr=_of_results(jaxpr, alone, mine), **params)
    found = dict(zip(alone, out, strict=True))
    return [found.get(i, x) for i, x in enumerate(batched)], [None if i in found else at for i in range(n)]


def _same_in_all_lanes(jaxpr: ClosedJaxpr, dims: Sequence[Dim]) -> list[int]:
    """Which results of a reducer are computed only from arrays that are not batched."""
    n = len(dims)
    differ = {i for i, d in enumerate(dims) if d is not None}
    if len(differ) == n:
        return []
    reads = [
        {k % n for k, used in enumerate(dce_jaxpr(jaxpr, tuple(i == j for j in range(n)))[1]) if used} for i in range(n)
    ]
    while more := {i for i in range(n) if i not in differ and reads[i] & differ}:
        differ |= more
    return [i for i in range(n) if i not in differ]


def _of_results(jaxpr: ClosedJaxpr, kept: Sequence[int], inputs: Sequence[int]) -> ClosedJaxpr:
    """The reducer with the results `kept` only, and with these inputs, the only ones that they read."""
    pruned, used = dce_jaxpr(jaxpr, tuple(i in kept for i in range(len(jaxpr.jaxpr.outvars))))
    read = iter(pruned.jaxpr.invars)
    invars = [next(read) if used[i] else Var(jaxpr.in_avals[i]) for i in inputs]
    return ClosedJaxpr(Jaxpr((), invars, pruned.jaxpr.outvars, pruned.jaxpr.eqns))


@batching(rd.reduce_p)
def reduce(
    lanes: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, jaxpr: ClosedJaxpr, dimensions: tuple[int, ...]
) -> tuple[list[Value], list[Dim]]:
    arrays, inits, d = reducer_operands("reduce", operands, dims, lanes.size)
    inner = shifted(dimensions, d)
    out = rd.reduce_p.bind(*arrays, *inits, jaxpr=jaxpr, dimensions=inner)
    at = d - sum(a < d for a in inner)
    return results_in_lanes(rd.reduce_p, operands, dims, jaxpr, out, at, dimensions=dimensions)
