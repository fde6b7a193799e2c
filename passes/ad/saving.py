"""What a checkpoint policy keeps of values within loops, branches and calls.

A policy is asked of each equation. Where an equation that it names is in the body of a scan, the values of all iterations are
kept, stacked; where it is in a branch of a cond, in a place that the branches share. For such an equation `exposed` gives two:
one that also returns what is kept, and one that takes it instead of computing it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import NO_EFFECTS, Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_nested, map_nested
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import structural as st
from quire.ir.tracing import eval_jaxpr, trace_flat

from .rules import zeros

Policy = Callable[..., bool]


@dataclass(frozen=True)
class Exposed:
    """Equations of which some values are kept.

    Attributes:
        forward: the equations, which also define `kept`.
        again: the equations that define all but `kept`.
        kept: the values that the policy keeps.
    """

    forward: list[Eqn]
    again: list[Eqn]
    kept: list[Var]


def exposed(eqns: Sequence[Eqn], policy: Policy) -> Exposed:
    """What the policy keeps of some equations."""
    forward: list[Eqn] = []
    again: list[Eqn] = []
    kept: list[Var] = []
    for eqn in eqns:
        if policy(eqn.primitive, *[a.aval for a in eqn.inputs], **eqn.params):
            forward.append(eqn)
            kept.extend(eqn.outputs)
            continue
        rule = _rules.get(eqn.primitive)
        found = None if rule is None else rule(eqn, policy)
        forward.extend([eqn] if found is None else found.forward)
        again.extend([eqn] if found is None else found.again)
        kept.extend(() if found is None else found.kept)
    return Exposed(forward, again, kept)


def without_effects(eqns: Sequence[Eqn]) -> tuple[list[Eqn], list[Var]]:
    """Equations for a second computation, of which the first alone has the effects; and what is kept of the first.

    What an effect gives (a value that a callback returned) is not to be had again; what only has effects is left out, also of the
    bodies of loops and branches.
    """
    again: list[Eqn] = []
    kept: list[Var] = []
    for eqn in eqns:
        pure = _pure(eqn)
        if pure is None:
            kept.extend(eqn.outputs)
        else:
            again.append(pure)
    return again, kept


def _pure(eqn: Eqn) -> Eqn | None:
    """The equation without effects; None where it is one, or something is made of what one gives."""
    if not eqn.effects:
        return eqn
    if not has_nested(eqn.params):
        return None
    made_of_effects = False

    def pure(closed: ClosedJaxpr) -> ClosedJaxpr:
        nonlocal made_of_effects
        eqns, kept = without_effects(closed.eqns)
        made_of_effects |= bool(kept)
        j = closed.jaxpr
        return ClosedJaxpr(Jaxpr(j.constvars, j.invars, j.outvars, eqns), closed.consts)

    params = map_nested(eqn.params, pure)
    return None if made_of_effects else eqn.replace(params=params, effects=NO_EFFECTS)


def inline_calls(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr with its jit equations replaced by their bodies, so that a policy sees every operation."""
    if not any(e.primitive is calls.jit_p for e in closed.eqns):
        return closed
    eqns: list[Eqn] = []
    names: dict[Var, Any] = {}

    def rename(a: Any) -> Any:
        return names.get(a, a) if isinstance(a, Var) else a

    for eqn in closed.eqns:
        inputs = [rename(a) for a in eqn.inputs]
        if eqn.primitive is not calls.jit_p:
            eqns.append(eqn.replace(inputs=inputs))
            continue
        inner = inline_calls(eqn.params["jaxpr"]).jaxpr
        local: dict[Var, Any] = dict(zip(inner.invars, inputs, strict=True))
        for e in inner.eqns:
            outputs = [Var(v.aval) for v in e.outputs]
            eqns.append(
                e.replace(inputs=[local.get(a, a) if isinstance(a, Var) else a for a in e.inputs], outputs=outputs)
            )
            local.update(zip(e.outputs, outputs))
        for v, a in zip(eqn.outputs, inner.outvars, strict=True):
            names[v] = local.get(a, a) if isinstance(a, Var) else a
    return ClosedJaxpr(Jaxpr((), closed.jaxpr.invars, [rename(a) for a in closed.jaxpr.outvars], eqns))


def _body(closed: ClosedJaxpr, policy: Policy) -> tuple[Jaxpr, Exposed]:
    jaxpr = inline_calls(closed).jaxpr
    return jaxpr, exposed(jaxpr.eqns, policy)


def _scan(eqn: Eqn, policy: Policy) -> Exposed | None:
    body, parts = _body(eqn.params["jaxpr"], policy)
    if not parts.kept:
        return None
    n = eqn.params["num_carry"]
    kept = set(parts.kept)
    # A result that is kept anyway is where its stacked values are.
    is_kept = [i >= n and isinstance(a, Var) and a in kept for i, a in enumerate(body.outvars)]
    place: dict[Var, Var] = {a: v for a, v, here in zip(body.outvars, eqn.outputs, is_kept) if here}  # type: ignore[misc]
    length = eqn.params["length"]
    more = [v for v in parts.kept if v not in place]
    place |= {v: Var(v.aval.update(shape=(length, *v.aval.shape))) for v in more}
    given = [place[v] for v in parts.kept]
    linear = eqn.params["linear"]
    forward = eqn.replace(
        outputs=(*eqn.outputs, *(place[v] for v in more)),
        params={**eqn.params, "jaxpr": ClosedJaxpr(Jaxpr((), body.invars, (*body.outvars, *more), parts.forward))},
    )
    others = [a for a, here in zip(body.outvars, is_kept) if not here]
    again = eqn.replace(
        inputs=(*eqn.inputs, *given),
        outputs=[v for v, here in zip(eqn.outputs, is_kept) if not here],
        params={
            **eqn.params,
            "jaxpr": ClosedJaxpr(Jaxpr((), (*body.invars, *parts.kept), others, parts.again)),
            "linear": (*linear, *(False,) * len(given)) if linear else linear,
        },
    )
    return Exposed([forward], [again], given)


def _cond(eqn: Eqn, policy: Policy) -> Exposed | None:
    branches = [_body(b, policy) for b in eqn.params["branches"]]
    if not any(parts.kept for _, parts in branches):
        return None
    # A result that each branch keeps anyway, or fills for the others, is a place.
    at_result = [
        any(_is_kept(body.outvars[i], parts) for body, parts in branches)
        and all(_is_kept(body.outvars[i], parts) or _is_filled(body, body.outvars[i]) for body, parts in branches)
        for i in range(len(eqn.outputs))
    ]
    results = [v for v, here in zip(eqn.outputs, at_result) if here]
    slots: list[ShapedArray] = []
    in_slots: list[dict[int, Var]] = []
    for body, parts in branches:
        there = {a for a, here in zip(body.outvars, at_result) if here and isinstance(a, Var)}
        filled: dict[int, Var] = {}
        for v in parts.kept:
            if v in there:
                continue
            free = next((i for i, t in enumerate(slots) if i not in filled and t is v.aval.strong()), len(slots))
            if free == len(slots):
                slots.append(v.aval.strong())
            filled[free] = v
        in_slots.append(filled)
    values = [Var(a) for a in slots]
    forward = [
        _with_more(Jaxpr((), body.invars, body.outvars, parts.forward), filled, slots)
        for (body, parts), filled in zip(branches, in_slots)
    ]
    again: list[ClosedJaxpr] = []
    for (body, parts), filled in zip(branches, in_slots):
        named = [a if _is_kept(a, parts) else None for a, here in zip(body.outvars, at_result) if here]
        taken = [*_distinct(named, [v.aval for v in results]), *(filled.get(i) or Var(a) for i, a in enumerate(slots))]
        others = [a for a, here in zip(body.outvars, at_result) if not here]
        again.append(ClosedJaxpr(Jaxpr((), (*body.invars, *taken), others, parts.again)))
    return Exposed(
        [eqn.replace(outputs=(*eqn.outputs, *values), params={**eqn.params, "branches": tuple(forward)})],
        [
            eqn.replace(
                inputs=(*eqn.inputs, *results, *values),
                outputs=[v for v, here in zip(eqn.outputs, at_result) if not here],
                params={**eqn.params, "branches": tuple(again)},
            )
        ],
        [*results, *values],
    )


def _distinct(named: Sequence[Any], avals: Sequence[ShapedArray]) -> list[Var]:
    """The variables as inputs of a jaxpr: a second time, or where there is none, a fresh one that nothing reads."""
    seen: set[Var] = set()
    out: list[Var] = []
    for v, aval in zip(named, avals, strict=True):
        out.append(Var(aval) if v is None or v in seen else v)
        seen.add(out[-1])
    return out


def _is_kept(a: Atom, parts: Exposed) -> bool:
    return isinstance(a, Var) and a in parts.kept


def _is_filled(body: Jaxpr, a: Atom) -> bool:
    """Whether a result is a number, or an array of one: what a branch gives in the place of another's residual."""
    if isinstance(a, Literal):
        return True
    made = next((e for e in body.eqns if a in e.outputs), None)
    return made is not None and made.primitive is st.broadcast_in_dim_p and isinstance(made.inputs[0], Literal)


def _with_more(jaxpr: Jaxpr, filled: dict[int, Var], slots: Sequence[ShapedArray]) -> ClosedJaxpr:
    """A branch that also returns what is kept, with zeros in places that it does not use."""
    names = list(filled)
    whole = Jaxpr((), jaxpr.invars, (*jaxpr.outvars, *(filled[i] for i in names)), jaxpr.eqns)
    n = len(jaxpr.outvars)

    def flat(*xs: Any) -> list[Any]:
        out = eval_jaxpr(whole, (), xs)
        return [*out[:n], *(out[n + names.index(i)] if i in filled else zeros(a) for i, a in enumerate(slots))]

    return ClosedJaxpr(trace_flat(flat, [v.aval for v in jaxpr.invars], name="branch")[0])


_rules: dict[Any, Callable[[Eqn, Policy], Exposed | None]] = {cf.scan_p: _scan, cf.cond_p: _cond}
