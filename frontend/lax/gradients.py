"""What derivatives pass by: stop_gradient."""

from __future__ import annotations

import functools
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.tree_util import tree_flatten, tree_unflatten

from ..custom_derivatives import SymbolicZero, custom_jvp


def stop_gradient(x: Any) -> Any:
    """x, whose derivative is taken to be zero. x may be a pytree; leaves without derivatives stay as they are.

    Example: ``grad(lambda x: lax.stop_gradient(x) * x)(2.0)`` is 2, not 4.
    """
    leaves, tree = tree_flatten(x)
    return tree_unflatten(tree, [_stop(leaf) if dtypes.is_inexact(aval_of(leaf).dtype) else leaf for leaf in leaves])


def _identity(x: Any) -> Any:
    return x


_identity.__name__ = "stop_gradient"
_stop = custom_jvp(_identity)


@functools.partial(_stop.defjvp, symbolic_zeros=True)
def _stop_jvp(primals: tuple[Any], tangents: tuple[Any]) -> tuple[Any, Any]:
    return _stop(primals[0]), SymbolicZero.from_primal_value(primals[0])
