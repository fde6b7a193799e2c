"""Sharding: what a program says of where the parts of its values lie."""

from __future__ import annotations

from typing import Any

from ..avals import ShapedArray
from ..primitive import primitive
from ..sharding import NamedSharding

Value = Any


@primitive("sharding_constraint", weight=0)
def sharding_constraint_p(x: ShapedArray, *, sharding: NamedSharding) -> ShapedArray:
    """x itself, divided over the devices of a mesh as `sharding` says; dimensions need not divide evenly.

    Raises:
        ValueError: the spec has more entries than x dimensions.
    """
    if x.ndim < len(sharding.spec):
        raise ValueError(
            f"sharding_constraint: {sharding.spec} divides {len(sharding.spec)} dimensions, got {x.short()}: give an "
            "entry for each leading dimension, at most"
        )
    return x.update(sharding=sharding) if sharding.mesh.explicit_axes else x


def sharding_constraint(x: Value, sharding: NamedSharding) -> Value:
    """x divided as `sharding` says."""
    return sharding_constraint_p.bind(x, sharding=sharding)
