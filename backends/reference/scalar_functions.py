"""Nested jaxprs of scalars (reducers, update functions) applied to whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir.jaxpr import ClosedJaxpr, Literal, Var

from .engine import eval_jaxpr, evaluate

Array = np.ndarray[Any, Any]


def apply_scalar(jaxpr: ClosedJaxpr, *args: Array) -> list[Array]:
    """The results of a function of scalars for each element of some arrays of one shape."""
    if all(eqn.primitive.family == "elementwise" for eqn in jaxpr.eqns):
        return _vectorised(jaxpr, args)
    shape = args[0].shape
    outs = [np.empty(shape, a.dtype) for a in jaxpr.out_avals]
    for index in np.ndindex(shape):
        for out, value in zip(outs, eval_jaxpr(jaxpr, *(a[index] for a in args)), strict=True):
            out[index] = value
    return outs


def _vectorised(jaxpr: ClosedJaxpr, args: Sequence[Array]) -> list[Array]:
    shape = args[0].shape
    env: dict[Var, Array] = dict(zip(jaxpr.jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        operands = [np.broadcast_to(a.value, shape) if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        avals = [v.aval.update(shape=shape) for v in eqn.outputs]
        env.update(zip(eqn.outputs, evaluate(eqn.primitive, operands, eqn.params, avals), strict=True))
    return [np.broadcast_to(a.value, shape) if isinstance(a, Literal) else env[a] for a in jaxpr.jaxpr.outvars]
