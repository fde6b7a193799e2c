"""Collectives have no reference rule: batching (or partitioning) removes them."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives import collectives as co

from .rules import reference

reference.absent(
    "a collective belongs to a named axis: vmap over the axis turns it into ordinary operations",
    co.psum_p, co.pmax_p, co.pmin_p, co.ppermute_p, co.all_gather_p, co.reduce_scatter_p, co.all_to_all_p,
    co.axis_index_p, co.pbroadcast_p,
)  # fmt: skip


@reference(co.pvary_p)
def pvary(x: Any, *, axes: tuple[Any, ...]) -> Any:
    return x


@reference(co.pcast_p)
def pcast(x: Any, *, axes: tuple[Any, ...], to: str) -> Any:
    return x
