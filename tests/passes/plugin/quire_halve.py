"""A package outside quire that adds a pass through an entry point."""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir.jaxpr import ClosedJaxpr
from quire.passes.base import Pass, PassContext


@dataclass(frozen=True)
class Halve(Pass):
    """Change the numbers: every 2.0 becomes `value` (to try --compare)."""

    name = "halve"
    value: float = 1.0

    def apply(self, program: ClosedJaxpr, context: PassContext) -> ClosedJaxpr:
        from quire.ir.jaxpr import Jaxpr, Literal

        def atom(a):
            return Literal(self.value, a.aval) if isinstance(a, Literal) and a.value == 2 else a

        j = program.jaxpr
        eqns = [e.replace(inputs=[atom(a) for a in e.inputs]) for e in j.eqns]
        return ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.outvars, eqns), program.consts)
