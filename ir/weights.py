"""How many operations one element of an equation takes, roughly: a formula of polynomials counts each step.

The declarations of the primitives say it; cost models use it: which equations are worth a kernel of their own, over how
many workgroups a kernel is spread, what is computed before a loop, and the estimate of a program's time.
"""

from __future__ import annotations

from . import dtypes
from .jaxpr import Eqn


def weight(eqn: Eqn) -> int:
    """The operations of one element."""
    p = eqn.primitive
    return p.complex_weight if eqn.inputs and dtypes.is_complex(eqn.inputs[-1].aval.dtype) else p.weight


__all__ = ["weight"]
