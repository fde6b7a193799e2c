"""simplify: algebra, structure and constants, by tables of rules.

`algebra` holds identities as data, `structure`, `slices` and `values` rules as functions; `rewriter` applies them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.jaxpr import ClosedJaxpr, Var

from ..base import Pass, PassContext, register_pass

from . import values  # first: folding before algebra  # isort: skip
from . import algebra, slices, structure
from .algebra import add_identities
from .rewriter import RULES, Rewriter, Rule, add_rule, rule

# Constants up to this many elements can take part in folding.
_KNOWN_SIZE = 1024


@register_pass
@dataclass(frozen=True)
class Simplify(Pass):
    """Apply algebraic identities, join chains of conversions, broadcasts, reshapes and transposes, fold constants.

    Every rule is exact, NaN, infinities and signed zeros included. The rules that fired are counted by name.

    Attributes:
        slices: whether what is read by a slice alone is computed in the slice alone: after cse, when equal equations that
            other slices read are one.
    """

    name = "simplify"
    slices: bool = False

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        known: dict[Var, Any] = {}
        for v, value in zip(program.jaxpr.constvars, program.consts):
            on_host: bool = isinstance(value, np.ndarray)
            if on_host and v.aval.size <= _KNOWN_SIZE:
                known[v] = value
        jaxpr = Rewriter(program.jaxpr, context, known, self.slices).run()
        return program if jaxpr is program.jaxpr else ClosedJaxpr(jaxpr, program.consts)


__all__ = [
    "RULES",
    "Rewriter",
    "Rule",
    "Simplify",
    "add_identities",
    "add_rule",
    "algebra",
    "rule",
    "slices",
    "structure",
    "values",
]
