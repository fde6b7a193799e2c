"""How many operations one element of an elementwise primitive takes, roughly: a formula of polynomials counts each step.

Cost models use it: which equations are worth a kernel of their own, over how many workgroups a kernel is spread.
"""

from __future__ import annotations

from . import dtypes
from .jaxpr import Eqn

# 1 where nothing is said.
_OF_REALS = {
    "div": 3, "rem": 8, "sqrt": 3, "rsqrt": 4, "exp": 12, "exp2": 30, "expm1": 20, "log": 18, "log1p": 20,
    "logistic": 16, "sin": 40, "cos": 40, "tan": 60, "asin": 20, "acos": 20, "atan": 25, "atan2": 40, "sinh": 40,
    "cosh": 30, "tanh": 16, "asinh": 40, "acosh": 40, "atanh": 25, "cbrt": 40, "pow": 60, "erf": 20, "erfc": 30,
    "erf_inv": 45, "lgamma": 60, "digamma": 80, "bessel_i0e": 60, "bessel_i1e": 60, "zeta": 2000, "polygamma": 2000,
    "igamma": 2000, "igammac": 2000, "igamma_grad_a": 2000, "random_gamma_grad": 2000,
    "regularized_incomplete_beta": 2000, "nextafter": 10, "integer_pow": 3, "round": 2, "mulhi": 4,
    "reduce_precision": 8,
}  # fmt: skip
_OF_COMPLEX = {"mul": 6, "square": 5, "div": 30, "abs": 15, "sign": 20, "neg": 2, "add": 2, "sub": 2, "select_n": 2}
_MOVES = frozenset(("broadcast_in_dim", "reshape", "iota", "real", "imag", "complex", "conj", "copy", "stop_gradient"))


def weight(eqn: Eqn) -> int:
    """The operations of one element."""
    name = eqn.primitive.name
    if name in _MOVES:
        return 0
    if not eqn.inputs or not dtypes.is_complex(eqn.inputs[-1].aval.dtype):
        return _OF_REALS.get(name, 1)
    # Other functions of complex numbers are made of several of reals, with much care for their special values.
    return _OF_COMPLEX.get(name) or 3 * _OF_REALS.get(name, 1)


__all__ = ["weight"]
