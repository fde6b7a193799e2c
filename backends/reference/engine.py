"""Evaluation of primitives and jaxprs with NumPy: the oracle of tests, the eager engine, the debugger's stepper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.tracing import hooks, last_uses

from .rules import reference

Array = np.ndarray[Any, Any]


def evaluate(p: Primitive, operands: Sequence[Array], params: Params, out_avals: Sequence[ShapedArray]) -> list[Array]:
    """Apply one primitive. Operands and results are NumPy arrays of exactly the avals' shapes and dtypes."""
    rule = reference[p]
    with np.errstate(all="ignore"):
        out = rule(*operands, **params)
        results = out if p.multiple_results else (out,)
        return [_exact(p, r, a) for r, a in zip(results, out_avals, strict=True)]


def _exact(p: Primitive, value: Any, aval: ShapedArray) -> Array:
    array = np.asarray(value)
    if array.dtype != aval.dtype:
        array = array.astype(aval.dtype)
    if array.shape != aval.shape:
        raise AssertionError(
            f"reference rule of {p.name} returned shape {array.shape}, the type rule says {aval.short()}"
        )
    return array


def eval_jaxpr(jaxpr: ClosedJaxpr | Jaxpr, *args: Any, observe: Callable[..., None] | None = None) -> list[Array]:
    """Run a jaxpr equation by equation. `observe(eqn, operands, results)` is called after each (debuggers)."""
    consts: Sequence[Any] = ()
    if isinstance(jaxpr, ClosedJaxpr):
        jaxpr, consts = jaxpr.jaxpr, jaxpr.consts
    env: dict[Var, Array] = {}
    for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True):
        env[v] = np.asarray(x, dtype=v.aval.dtype)
    last = last_uses(jaxpr)
    for i, eqn in enumerate(jaxpr.eqns):
        operands = [a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
        results = evaluate(eqn.primitive, operands, eqn.params, [v.aval for v in eqn.outputs])
        if observe is not None:
            observe(eqn, operands, results)
        env.update(zip(eqn.outputs, results, strict=True))
        for v in last[i]:
            env.pop(v, None)
    return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]


hooks.reference = evaluate
