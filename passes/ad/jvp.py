"""Forward derivatives of jaxprs, with symbolic zeros.

- ``jvp_eval(jaxpr, primals, tangents) -> (outs, out_tangents)``: evaluates a jaxpr and its derivative by binding the
  equations of both in the current context (a trace, or concrete values). Tangents are values or `Zero`.
- ``jvp_jaxpr(closed, nonzeros, instantiate) -> Jvp``: the same as a function from jaxpr to jaxpr, cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from quire.ir.source import SourceSetter
from quire.ir.tracing import rebind, trace_flat
from quire.ir.wide import keeps_wide

from ..cache import cached_transform
from ..dce import dce_eqns
from .rules import Zero, instantiate, jvp


@keeps_wide
def jvp_eval(jaxpr: Jaxpr, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Evaluate a jaxpr without constants and its derivative.

    Args:
        primals: a value for each input.
        tangents: for each input a value of the tangent's aval, or a Zero.

    Returns the results and their tangents (values or Zero). Equations whose tangents are all zero are only evaluated.
    """
    env: dict[Var, Any] = dict(zip(jaxpr.invars, primals, strict=True))
    tan: dict[Var, Any] = {v: t for v, t in zip(jaxpr.invars, tangents, strict=True) if type(t) is not Zero}
    rules = jvp
    with SourceSetter() as at:
        for eqn in jaxpr.eqns:
            values = [a.python_value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
            at(eqn.source)
            if not any(a in tan for a in eqn.inputs if type(a) is Var):
                env.update(zip(eqn.outputs, rebind(eqn, values)))
                continue
            ts = [tan[a] if a in tan else Zero(a.aval.tangent()) for a in eqn.inputs]  # pyright: ignore[reportArgumentType]
            out, out_ts = rules[eqn.primitive](values, ts, **eqn.params)
            if not eqn.primitive.multiple_results:
                out, out_ts = (out,), (out_ts,)
            for v, x, t in zip(eqn.outputs, out, out_ts, strict=True):
                env[v] = x
                if type(t) is not Zero:
                    tan[v] = t
    outs: list[Any] = []
    out_tangents: list[Any] = []
    for a in jaxpr.outvars:
        if isinstance(a, Literal):
            outs.append(a.python_value)
            out_tangents.append(Zero(a.aval.tangent()))
        else:
            outs.append(env[a])
            out_tangents.append(tan[a] if a in tan else Zero(a.aval.tangent()))
    return outs, out_tangents


@dataclass(frozen=True)
class Jvp:
    """The derivative of a jaxpr.

    `closed` takes the captured values, the primals and the tangents that are not zero; it returns the results and
    the tangents for which `nonzeros` is set.
    """

    closed: ClosedJaxpr
    nonzeros: tuple[bool, ...]
    captured: tuple[Any, ...]


@cached_transform()
def jvp_jaxpr(closed: ClosedJaxpr, nonzeros: tuple[bool, ...], instantiate_out: tuple[bool, ...] | None = None) -> Jvp:
    """The forward derivative of a jaxpr (without constants) in the inputs for which `nonzeros` is set.

    `instantiate_out` marks the outputs whose tangents are returned even where they are zero. Outputs without
    tangents (integers) are never returned a tangent for.
    """
    jaxpr = closed.jaxpr
    avals = closed.in_avals
    tangent_avals = [a.tangent() for a, nz in zip(avals, nonzeros, strict=True) if nz]
    out_nonzeros: tuple[bool, ...] = ()

    def flat(*xs: Any) -> list[Any]:
        nonlocal out_nonzeros
        primals, given = xs[: len(avals)], iter(xs[len(avals) :])
        tangents = [next(given) if nz else Zero(a.tangent()) for a, nz in zip(avals, nonzeros)]
        outs, ts = jvp_eval(jaxpr, primals, tangents)
        force = instantiate_out or (False,) * len(outs)
        out_nonzeros = tuple(type(t) is not Zero or f for t, f in zip(ts, force, strict=True))
        return [*outs, *(instantiate(t) for t, nz in zip(ts, out_nonzeros) if nz)]

    traced, captured, _ = trace_flat(flat, [*avals, *tangent_avals], name="forward derivative")
    return Jvp(ClosedJaxpr(dce_eqns(traced)), out_nonzeros, tuple(captured))


def tangent_avals(avals: Sequence[ShapedArray]) -> list[ShapedArray]:
    """The avals of tangents."""
    return [a.tangent() for a in avals]
