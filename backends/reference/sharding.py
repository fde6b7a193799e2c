"""Reference rules of what concerns shardings: values are whole here."""

from __future__ import annotations

from typing import Any

from quire.ir.primitives.sharding import sharding_constraint_p
from quire.ir.sharding import NamedSharding

from .rules import reference


@reference(sharding_constraint_p)
def sharding_constraint(x: Any, *, sharding: NamedSharding) -> Any:
    return x
