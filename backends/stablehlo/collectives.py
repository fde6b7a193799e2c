"""Collectives have no stablehlo rule: batching (or partitioning) removes them."""

from __future__ import annotations

from quire.ir.primitives import collectives as co

from .lowering import lowering

lowering.absent(
    "a collective belongs to a named axis: vmap over the axis turns it into ordinary operations",
    co.psum_p, co.pmax_p, co.pmin_p, co.ppermute_p, co.all_gather_p, co.reduce_scatter_p, co.all_to_all_p,
    co.axis_index_p, co.pbroadcast_p, co.pvary_p,
)  # fmt: skip
