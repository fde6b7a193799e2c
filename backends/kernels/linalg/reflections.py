"""The numbers of one Householder reflection, in LAPACK's form (larfg): Golub and Van Loan, "Matrix Computations" (4th ed.), 5.1."""

from __future__ import annotations

from typing import Any

from ..core.values import Value
from ..elements.operations import Element
from .matrices import Numbers


def reflector(x: Numbers, alpha: Element, scale: Value, below: Value) -> tuple[Value, Any, Any, Any]:
    """What turns a vector that begins with `alpha` into a multiple of the first unit vector.

    `scale` is the size of its other elements, and `below` the sum of their squares over that of `scale`. Gives whether there
    is nothing to reflect, the factor tau, what stands in alpha's place, and what the other elements are divided by.
    """
    r = x.real_numbers
    b = x.e.b
    im, re = r.div(x.imag(alpha), scale), r.div(x.real(alpha), scale)
    rest = below + im * im if x.is_complex else below
    trivial = b.cmp("oeq", rest, 0.0)
    length = scale * b.math("sqrt", re * re + rest)
    real_beta = r.choose(b.cmp("olt", re, 0.0), length, b.negf(length))
    safe = r.choose(trivial, 1.0, real_beta)
    tau = x.choose(trivial, 0.0, x.shrunk(x.sub(x.of_real(safe), alpha), safe))
    divisor = x.choose(trivial, 1.0, x.sub(alpha, x.of_real(real_beta)))
    return trivial, tau, x.choose(trivial, alpha, x.of_real(real_beta)), divisor
