"""Removal of what is not used: equations, and inputs and outputs of nested jaxprs (dead carries included).

``dce_jaxpr(closed, used_outputs) -> (closed, used_inputs)``: the jaxpr with only the used outputs and only the inputs
that it then reads. Equations with effects stay. A primitive with a nested jaxpr takes part by a rule of `dce`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Var
from quire.ir.primitive import RuleTable
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf

from .cache import cached_transform
from .rebuild import select, split, with_io

# rule(eqn, used outputs) -> (equation with only these outputs, used inputs as flags of the old equation's inputs).
DceRule: TypeAlias = Callable[[Eqn, list[bool]], tuple[Eqn, list[bool]]]
dce: RuleTable[DceRule] = RuleTable("dce", "removal of unused inputs and outputs of nested jaxprs")


@cached_transform()
def dce_jaxpr(closed: ClosedJaxpr, used_outputs: tuple[bool, ...]) -> tuple[ClosedJaxpr, tuple[bool, ...]]:
    """The jaxpr (without constants) with the used outputs only, and which inputs it reads (the others are dropped)."""
    jaxpr = dce_eqns(closed.jaxpr, select(closed.jaxpr.outvars, used_outputs))
    read = {a for eqn in jaxpr.eqns for a in eqn.inputs if isinstance(a, Var)} | set(jaxpr.outvars)
    used = tuple(v in read for v in jaxpr.invars)
    return with_io(jaxpr, invars=select(jaxpr.invars, used)), used


def dce_eqns(jaxpr: Jaxpr, outvars: Sequence[Any] | None = None) -> Jaxpr:
    """The jaxpr with these outputs (by default its own), all its inputs, and only the equations that they need."""
    outvars = jaxpr.outvars if outvars is None else outvars
    live: set[Any] = {a for a in outvars if isinstance(a, Var)}
    eqns: list[Eqn] = []
    for eqn in reversed(jaxpr.eqns):
        used = [v in live for v in eqn.outputs]
        if not any(used) and not eqn.effects:
            continue
        rule = dce.get(eqn.primitive)
        if rule is not None:
            eqn, _ = rule(eqn, used)
        live.update(a for a in eqn.inputs if isinstance(a, Var))
        eqns.append(eqn)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns[::-1], outvars)


def _changed(eqn: Eqn, used: list[bool], used_in: list[bool], **params: Any) -> tuple[Eqn, list[bool]]:
    new = eqn.replace(
        inputs=select(eqn.inputs, used_in), outputs=select(eqn.outputs, used), params={**eqn.params, **params}
    )
    return new, used_in


@dce(calls.jit_p)
def _jit(eqn: Eqn, used: list[bool]) -> tuple[Eqn, list[bool]]:
    closed, used_in = dce_jaxpr(eqn.params["jaxpr"], tuple(used))
    donated = tuple(select(eqn.params["donated_invars"], used_in))
    return _changed(eqn, used, list(used_in), jaxpr=closed, donated_invars=donated)


@dce(calls.checkpoint_p)
def _checkpoint(eqn: Eqn, used: list[bool]) -> tuple[Eqn, list[bool]]:
    closed, used_in = dce_jaxpr(eqn.params["jaxpr"], tuple(used))
    return _changed(eqn, used, list(used_in), jaxpr=closed)


@dce(cf.cond_p)
def _cond(eqn: Eqn, used: list[bool]) -> tuple[Eqn, list[bool]]:
    branches = eqn.params["branches"]
    reduced = [dce_jaxpr(b, tuple(used)) for b in branches]
    used_in = [any(flags) for flags in zip(*(u for _, u in reduced))]
    new: list[ClosedJaxpr] = []
    for b, (closed, own) in zip(branches, reduced):
        given = iter(closed.jaxpr.invars)
        places = [next(given) if u else Var(a) for u, a in zip(own, b.in_avals)]
        new.append(with_io(closed, invars=select(places, used_in)))
    return _changed(eqn, used, [True, *used_in], branches=tuple(new))


def _while_rule(eqn: Eqn, used: list[bool]) -> tuple[Eqn, list[bool]]:
    p = eqn.params
    n_cond, n_body = p["cond_nconsts"], p["body_nconsts"]
    cond, body = p["cond_jaxpr"], p["body_jaxpr"]
    _, cond_used = dce_jaxpr(cond, (True,))
    keep = [a or b for a, b in zip(used, cond_used[n_cond:], strict=True)]
    while True:
        _, body_used = dce_jaxpr(body, tuple(keep))
        new = [a or b for a, b in zip(keep, body_used[n_body:], strict=True)]
        if new == keep:
            break
        keep = new
    reduced = dce_eqns(body.jaxpr, select(body.jaxpr.outvars, keep))
    body_vars, cond_vars = body.jaxpr.invars, cond.jaxpr.invars
    consts_in = list(body_used[:n_body])
    new_body = with_io(reduced, invars=[*select(body_vars[:n_body], consts_in), *select(body_vars[n_body:], keep)])
    new_cond = with_io(cond, invars=[*cond_vars[:n_cond], *select(cond_vars[n_cond:], keep)])
    return _changed(
        eqn, keep, [*([True] * n_cond), *consts_in, *keep], cond_jaxpr=new_cond, body_jaxpr=new_body,
        body_nconsts=sum(consts_in),
    )  # fmt: skip


dce.add(cf.while_p, _while_rule)
dce.add(cf.bounded_while_p, _while_rule)


@dce(cf.scan_p)
def _scan(eqn: Eqn, used: list[bool]) -> tuple[Eqn, list[bool]]:
    p = eqn.params
    n_consts, n_carry, closed = p["num_consts"], p["num_carry"], p["jaxpr"]
    carry, ys = split(used, n_carry)
    while True:
        _, used_in = dce_jaxpr(closed, (*carry, *ys))
        new = [a or b for a, b in zip(carry, used_in[n_consts : n_consts + n_carry], strict=True)]
        if new == carry:
            break
        carry = new
    reduced = dce_eqns(closed.jaxpr, select(closed.jaxpr.outvars, [*carry, *ys]))
    keep_in = [*used_in[:n_consts], *carry, *used_in[n_consts + n_carry :]]
    body = with_io(reduced, invars=select(closed.jaxpr.invars, keep_in))
    linear = tuple(select(p["linear"], keep_in)) if p["linear"] else ()
    return _changed(
        eqn, [*carry, *ys], keep_in, jaxpr=body, linear=linear, num_consts=sum(used_in[:n_consts]), num_carry=sum(carry)
    )


@dce(calls.custom_jvp_call_p, calls.custom_vjp_call_p)
def _whole(eqn: Eqn, used: list[bool]) -> tuple[Eqn, list[bool]]:
    return eqn, [True] * len(eqn.inputs)  # the user's rules know all arguments and results
