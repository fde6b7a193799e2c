"""How many operations one element of an equation takes, roughly: a formula of polynomials counts each step.

The declarations of the primitives say it; cost models use it: which equations are worth a kernel of their own, over how
many workgroups a kernel is spread, what is computed before a loop, and the estimate of a program's time.
"""

from __future__ import annotations

from . import dtypes
from .jaxpr import Eqn

#: From this weight on, computing an element again is dearer than reading it from the first-level cache.
DEARER_THAN_A_READ = 4
#: From this weight on a primitive is a function like exp, whose result is worth its memory however often it is read.
FUNCTION = 12


def weight(eqn: Eqn) -> int:
    """The operations of one element."""
    p = eqn.primitive
    return p.complex_weight if eqn.inputs and dtypes.is_complex(eqn.inputs[-1].aval.dtype) else p.weight


__all__ = ["DEARER_THAN_A_READ", "FUNCTION", "weight"]
