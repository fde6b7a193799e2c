"""Reference rules as functions that compiled programs call, and that a stored program can name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive

from .engine import evaluate
from .rules import sparing


@dataclass(frozen=True)
class RuleCall:
    """One primitive with its parameters, as a function of NumPy arrays. Equal ones do the same; it can be pickled.

    Nothing reads the results whose numbers are `unread`: they may be any numbers.
    """

    primitive: Primitive
    params: tuple[tuple[str, Any], ...]
    out_avals: tuple[ShapedArray, ...]
    unread: frozenset[int] = frozenset()

    def __call__(self, *operands: Any) -> list[Any]:
        rule = sparing.get(self.primitive) if self.unread else None
        if rule is not None:
            rule = partial(rule, unread=self.unread)
        return evaluate(self.primitive, operands, dict(self.params), self.out_avals, rule)

    @property
    def __name__(self) -> str:
        return self.primitive.name
