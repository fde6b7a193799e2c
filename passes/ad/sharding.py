"""Derivatives of sharding constraints: tangents and cotangents are divided as the values are."""

from __future__ import annotations

from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives.sharding import sharding_constraint, sharding_constraint_p
from quire.ir.sharding import NamedSharding

from .rules import define_linear, divided_as

Value = Any


def _constraint(ct: Value, aval: ShapedArray, *, sharding: NamedSharding) -> Value:
    if sharding.mesh.explicit_axes:
        return divided_as(ct, aval)
    return sharding_constraint(ct, sharding)


define_linear(sharding_constraint_p, _constraint)
