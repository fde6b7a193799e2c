"""Transposition of linear jaxprs: the backward pass.

- ``backward(jaxpr, inputs, cts) -> input cts``: binds the transposed equations in the current context.
- ``transpose_jaxpr(closed, linear, ct_nonzeros) -> Transposed``: from jaxpr to jaxpr, cached.
- ``vjp_eval(jaxpr, primals, nonzeros) -> (outs, Linear)`` is `linearize_eval`; ``pullback(linear, cts)`` transposes.
- ``vjp_jaxpr(closed, nonzeros)``: results and cotangents as one jaxpr.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.source import SourceSetter, where
from quire.ir.tracing import rebind, trace_flat
from quire.ir.wide import keeps_wide

from ..cache import cached_transform
from ..dce import dce_eqns
from ..rebuild import needed
from . import linearize
from .rules import Linear, Zero, add_tangents, divided_as, instantiate, transpose


class NotLinearError(TypeError):
    """An equation of a program that was to be transposed is not linear in what is transposed."""


_BILINEAR = frozenset(("mul", "dot_general", "conv_general_dilated"))


def _check_linear(eqn: Eqn, operands: Sequence[Any]) -> None:
    """Raise NotLinearError for an equation that is not: its rule would take a linear operand for a value."""
    if eqn.primitive.foreign:
        return
    found = [x for x in operands if type(x) is Linear]
    if len(found) > 1 and eqn.primitive.name in _BILINEAR:
        raise NotLinearError(f"{eqn.primitive.name}{where(eqn.source)} multiplies two values that depend on them")
    if eqn.primitive.name == "select_n" and type(operands[0]) is Linear:
        raise NotLinearError(f"{eqn.primitive.name}{where(eqn.source)} chooses by a value that depends on them")
    if eqn.primitive.name == "div" and type(operands[1]) is Linear:
        raise NotLinearError(f"{eqn.primitive.name}{where(eqn.source)} divides by a value that depends on them")


@keeps_wide
def backward(jaxpr: Jaxpr, inputs: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
    """The cotangents of the linear inputs of a jaxpr without constants.

    Args:
        inputs: `Linear` for each input in which the jaxpr is linear, a value for the others.
        cts: the cotangent of each output, a value or a Zero.

    Returns one entry an input: None for inputs that are not linear, else a value or a Zero.

    Raises:
        NotLinearError: an equation is not linear in a linear operand.
        NotImplementedError: a linear equation's primitive has no transpose rule, or its rule refuses the parameters.
    """
    linear: set[Var] = set()
    env: dict[Var, Any] = {}
    for v, x in zip(jaxpr.invars, inputs, strict=True):
        if type(x) is Linear:
            linear.add(v)
        else:
            env[v] = x
    forward: list[Eqn] = []
    linear_eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        if any(type(a) is Var and a in linear for a in eqn.inputs):
            linear_eqns.append(eqn)
            linear.update(eqn.outputs)
        else:
            forward.append(eqn)
    ct: dict[Var, Any] = {}

    def accumulate(a: Any, value: Any) -> None:
        if value is None or type(value) is Zero or type(a) is not Var or a not in linear:
            return
        if ShapedArray.any_divided:
            value = divided_as(value, a.aval)
        old = ct.get(a)
        ct[a] = value if old is None else add_tangents(old, value)

    with SourceSetter() as at:
        if forward:
            wanted = [a for eqn in linear_eqns for a in eqn.inputs if type(a) is Var and a not in linear]
            for eqn in needed(forward, wanted, jaxpr.invars)[0]:
                at(eqn.source)
                values = [a.python_value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
                env.update(zip(eqn.outputs, rebind(eqn, values)))
        for a, value in zip(jaxpr.outvars, cts, strict=True):
            accumulate(a, value)
        for eqn in reversed(linear_eqns):
            given = [ct.pop(v, None) for v in eqn.outputs]
            if all(c is None for c in given):
                continue
            at(eqn.source)
            p = eqn.primitive
            operands = [
                a.python_value if isinstance(a, Literal) else Linear(a.aval) if a in linear else env[a]
                for a in eqn.inputs
            ]
            _check_linear(eqn, operands)
            rule = transpose.get(p)
            if rule is None:
                why = transpose.reasons.get(p, "no transpose rule has been written")
                raise NotImplementedError(f"{p.name} cannot be differentiated in reverse{where(eqn.source)}: {why}")
            if p.multiple_results:
                full = [Zero(v.aval.cotangent()) if c is None else c for v, c in zip(eqn.outputs, given)]
                out = rule(full, *operands, **eqn.params)
            else:
                out = rule(given[0], *operands, **eqn.params)
            for a, value in zip(eqn.inputs, out, strict=True):
                accumulate(a, value)
    return [ct.get(v, Zero(v.aval.cotangent())) if v in linear else None for v in jaxpr.invars]


@dataclass(frozen=True)
class Transposed:
    """A transposed jaxpr.

    `closed` takes the captured values, the inputs that are not linear and the cotangents that are not zero; it
    returns the cotangents of the linear inputs for which `nonzeros` is set.
    """

    closed: ClosedJaxpr
    nonzeros: tuple[bool, ...]
    captured: tuple[Any, ...]


@cached_transform()
def transpose_jaxpr(
    closed: ClosedJaxpr,
    linear: tuple[bool, ...],
    ct_nonzeros: tuple[bool, ...],
    instantiate_in: tuple[bool, ...] | None = None,
) -> Transposed:
    """Transpose a jaxpr (without constants) that is linear in the inputs marked in `linear`.

    `ct_nonzeros` marks the outputs a cotangent is given for; `instantiate_in` marks the linear inputs (counted among
    the linear ones) whose cotangent is returned even if it is zero.
    """
    jaxpr = closed.jaxpr
    values = [a for a, l in zip(closed.in_avals, linear, strict=True) if not l]
    ct_avals = [a.cotangent() for a, nz in zip(closed.out_avals, ct_nonzeros, strict=True) if nz]
    nonzeros: tuple[bool, ...] = ()

    def flat(*xs: Any) -> list[Any]:
        nonlocal nonzeros
        known, given = iter(xs[: len(values)]), iter(xs[len(values) :])
        inputs = [Linear(a) if l else next(known) for a, l in zip(closed.in_avals, linear)]
        cts = [next(given) if nz else Zero(a.cotangent()) for a, nz in zip(closed.out_avals, ct_nonzeros)]
        out = [c for c, l in zip(backward(jaxpr, inputs, cts), linear) if l]
        force = instantiate_in or (False,) * len(out)
        nonzeros = tuple(type(c) is not Zero or f for c, f in zip(out, force, strict=True))
        return [instantiate(c) for c, nz in zip(out, nonzeros) if nz]

    traced, captured, _ = trace_flat(flat, [*values, *ct_avals], name="transposition")
    return Transposed(ClosedJaxpr(dce_eqns(traced)), nonzeros, tuple(captured))


def pullback(linear: linearize.Linear, cts: Sequence[Any]) -> list[Any]:
    """Apply the transpose of a linearised function in the current context.

    `cts` are the cotangents of all its outputs (values or Zero); returns those of its tangents (values or Zero).
    """
    jaxpr = linear.closed.jaxpr
    n = len(linear.residuals)
    inputs = [*linear.residuals, *(Linear(v.aval) for v in jaxpr.invars[n:])]
    given = [c for c, nz in zip(cts, linear.nonzeros, strict=True) if nz]
    return backward(jaxpr, inputs, given)[n:]


def vjp_jaxpr(closed: ClosedJaxpr, nonzeros: tuple[bool, ...]) -> Transposed:
    """Results and cotangents of a jaxpr as one jaxpr.

    It takes the inputs and a cotangent for each output with a tangent (inexact outputs); it returns the results and
    the cotangents of the inputs marked in `nonzeros`, zeros instantiated.
    """
    avals = closed.in_avals
    ct_avals = [a.cotangent() for a in closed.out_avals]
    inexact = [ct.dtype == a.dtype for ct, a in zip(ct_avals, closed.out_avals)]

    def flat(*xs: Any) -> list[Any]:
        primals, given = xs[: len(avals)], iter(xs[len(avals) :])
        outs, linear = linearize.linearize_eval(closed.jaxpr, primals, nonzeros)
        cts = [next(given) if ok else Zero(a) for a, ok in zip(ct_avals, inexact)]
        return [*outs, *(instantiate(c) for c in pullback(linear, cts))]

    given_avals = [a for a, ok in zip(ct_avals, inexact) if ok]
    traced, captured, _ = trace_flat(flat, [*avals, *given_avals], name="reverse derivative")
    return Transposed(ClosedJaxpr(dce_eqns(traced)), tuple(nonzeros), tuple(captured))
