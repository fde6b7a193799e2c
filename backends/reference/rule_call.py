"""Reference rules as functions that compiled programs call, and that a stored program can name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive

from .engine import evaluate


@dataclass(frozen=True)
class RuleCall:
    """One primitive with its parameters, as a function of NumPy arrays. Equal ones do the same; it can be pickled."""

    primitive: Primitive
    params: tuple[tuple[str, Any], ...]
    out_avals: tuple[ShapedArray, ...]

    def __call__(self, *operands: Any) -> list[Any]:
        return evaluate(self.primitive, operands, dict(self.params), self.out_avals)

    @property
    def __name__(self) -> str:
        return self.primitive.name
