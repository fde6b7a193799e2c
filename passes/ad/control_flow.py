"""Derivatives of control flow.

- cond: the branches' derivatives; the residuals of the branches share the operands of the backward cond.
- while: forward mode. `bounded_while` in reverse becomes a scan over checkpointed blocks.
- scan: forward, and in reverse a scan in the other direction over stacked residuals. Residuals that are the same in
  every iteration (consts, carries that don't change, what is computed from them) are not stacked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from quire.ir.primitives import calls
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.source import where
from quire.ir.tracing import eval_jaxpr, merge_captured, trace_flat

from ..cache import cached_transform
from ..dce import dce_jaxpr
from ..rebuild import needed, select, split, unused_inputs, with_io
from .calls import linear_mask, merge_outputs, nonzero_mask, spread_tangents, unknown_mask
from .jvp import Jvp, jvp_jaxpr
from .linearize import PartialTrace, Split, partial_eval, partial_eval_jaxpr
from .rules import Linear, Zero, instantiate, is_zero, jvp, transpose, zeros
from .transpose import Transposed, backward, transpose_jaxpr

Value = Any

# -- cond -----------------------------------------------------------------------------------------------------------


def _join_masks(masks: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    return tuple(any(flags) for flags in zip(*masks))


@jvp(cf.cond_p)
def _cond_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, branches: tuple[ClosedJaxpr, ...], **batching: str
) -> tuple[Any, Any]:
    index, *operands = primals
    nonzeros = nonzero_mask(tangents[1:])
    ds = [jvp_jaxpr(b, nonzeros) for b in branches]
    out_nz = _join_masks([d.nonzeros for d in ds])
    ds = [d if d.nonzeros == out_nz else jvp_jaxpr(b, nonzeros, out_nz) for b, d in zip(branches, ds)]
    captured, jaxprs = merge_captured([d.closed for d in ds], [d.captured for d in ds])
    out = cf.cond_p.bind(
        index, *captured, *operands, *select(tangents[1:], nonzeros), branches=tuple(jaxprs), **batching
    )
    n = len(branches[0].out_avals)
    return out[:n], spread_tangents(out[n:], out_nz, branches[0].out_avals)


@partial_eval(cf.cond_p)
def _cond_partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, branches: tuple[ClosedJaxpr, ...], **batching: str
) -> Sequence[Any]:
    index, *rest = operands
    if trace.is_unknown(index):
        return trace.record_unknown(cf.cond_p, operands, {"branches": branches, **batching})
    unknowns = unknown_mask(trace, rest)
    splits = [partial_eval_jaxpr(b, unknowns) for b in branches]
    out_unknowns = _join_masks([s.out_unknowns for s in splits])
    splits = [
        s if s.out_unknowns == out_unknowns else partial_eval_jaxpr(b, unknowns, out_unknowns)
        for b, s in zip(branches, splits)
    ]
    captured, knowns = merge_captured([s.known for s in splits], [s.captured for s in splits])
    known_in = [*captured, *select(rest, unknowns, False)]
    # Residuals that are operands go around the cond; the others of all branches share slots of one type.
    slots: list[ShapedArray] = []
    shared: list[int] = []  # operands of the known part that some branch's unknown part reads
    plans: list[list[tuple[str, int]]] = []
    for k, s in zip(knowns, splits):
        position = {v: i for i, v in enumerate(k.jaxpr.invars)}
        taken: set[int] = set()
        plan: list[tuple[str, int]] = []
        for a in k.jaxpr.outvars[s.num_known_out :]:
            if a in position:
                if position[a] not in shared:
                    shared.append(position[a])
                plan.append(("operand", position[a]))
                continue
            free = next((i for i, t in enumerate(slots) if i not in taken and t is a.aval.strong()), None)
            if free is None:
                free = len(slots)
                slots.append(a.aval.strong())
            taken.add(free)
            plan.append(("slot", free))
        plans.append(plan)
    known_branches = [
        _with_slots(k, s.num_known_out, plan, slots) for k, s, plan in zip(knowns, splits, plans, strict=True)
    ]
    n_known = splits[0].num_known_out
    known: list[Any] = []
    if n_known or slots or any(k.effects for k in knowns):
        known = cf.cond_p.bind(index, *known_in, branches=tuple(known_branches), **batching)
    unknown: Sequence[Any] = ()
    if any(out_unknowns):
        unknown_branches = tuple(
            _from_slots(s, plan, shared, [aval_of(x) for x in known_in], slots)
            for s, plan in zip(splits, plans, strict=True)
        )
        args = [index, *(known_in[i] for i in shared), *known[n_known:], *select(rest, unknowns)]
        unknown = trace.record_unknown(cf.cond_p, args, {"branches": unknown_branches, **batching})
    return merge_outputs(out_unknowns, known[:n_known], unknown)


def _with_slots(
    known: ClosedJaxpr, n_out: int, plan: Sequence[tuple[str, int]], slots: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """The known part of a branch with one output for each slot; zeros in those that the branch does not use."""
    residuals = known.jaxpr.outvars[n_out:]
    filled = {i: a for (kind, i), a in zip(plan, residuals, strict=True) if kind == "slot"}
    missing = [i for i in range(len(slots)) if i not in filled]

    def flat(*xs: Any) -> list[Any]:
        out = eval_jaxpr(known.jaxpr, (), xs)
        values = {i: out[n_out + k] for k, (kind, i) in enumerate(plan) if kind == "slot"}
        return [*out[:n_out], *(values[i] if i in values else zeros(a) for i, a in enumerate(slots))]

    if not missing:
        return with_io(known, outvars=[*known.jaxpr.outvars[:n_out], *(filled[i] for i in range(len(slots)))])
    return ClosedJaxpr(trace_flat(flat, known.in_avals, name="branch")[0])


def _from_slots(
    s: Split, plan: Sequence[tuple[str, int]], shared: Sequence[int], known_avals: Sequence[ShapedArray],
    slots: Sequence[ShapedArray],
) -> ClosedJaxpr:  # fmt: skip
    """The unknown part of a branch taking the shared operands, the slots and the unknown operands."""
    jaxpr = s.unknown.jaxpr
    by_place: dict[tuple[str, int], Var] = dict(zip(plan, jaxpr.invars))
    operands = [by_place.get(("operand", i)) or Var(known_avals[i]) for i in shared]
    values = [by_place.get(("slot", i)) or Var(a) for i, a in enumerate(slots)]
    return with_io(jaxpr, invars=[*operands, *values, *jaxpr.invars[s.num_res :]])


@transpose(cf.cond_p)
def _cond_transpose(
    cts: Sequence[Any], index: Any, *operands: Any, branches: tuple[ClosedJaxpr, ...], **batching: str
) -> Sequence[Any]:
    linear, nonzeros = linear_mask(operands), nonzero_mask(cts)
    ts = [transpose_jaxpr(b, linear, nonzeros) for b in branches]
    in_nz = _join_masks([t.nonzeros for t in ts])
    ts = [t if t.nonzeros == in_nz else transpose_jaxpr(b, linear, nonzeros, in_nz) for b, t in zip(branches, ts)]
    captured, jaxprs = merge_captured([t.closed for t in ts], [t.captured for t in ts])
    out: Sequence[Any] = ()
    if any(in_nz):
        out = cf.cond_p.bind(
            index, *captured, *select(operands, linear, False), *select(cts, nonzeros), branches=tuple(jaxprs),
            **batching,
        )  # fmt: skip
    given = iter(spread_tangents(out, in_nz, [x.aval for x in select(operands, linear)]))
    return [None, *(next(given) if l else None for l in linear)]


# -- while ----------------------------------------------------------------------------------------------------------


def _while_jvp(p: Any) -> Any:
    def rule(
        primals: Sequence[Value], tangents: Sequence[Any], *, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr,
        cond_nconsts: int, body_nconsts: int, **more: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        cond_consts, body_consts, init = split(primals, cond_nconsts, body_nconsts)
        _, body_ts, init_ts = split(tangents, cond_nconsts, body_nconsts)
        const_nz, carry_nz = nonzero_mask(body_ts), nonzero_mask(init_ts)
        while True:
            d = jvp_jaxpr(body_jaxpr, (*const_nz, *carry_nz), carry_nz)
            if d.nonzeros == carry_nz:
                break
            carry_nz = _join_masks((carry_nz, d.nonzeros))
        # The jaxpr takes captured, consts, carry, const tangents, carry tangents: tangents of consts go to the consts.
        n_captured, n_carry = len(d.captured), len(init)
        captured, consts, carry, const_ts, carry_ts = split(
            d.closed.jaxpr.invars, n_captured, body_nconsts, n_carry, sum(const_nz)
        )
        body = with_io(d.closed, invars=[*captured, *consts, *const_ts, *carry, *carry_ts])
        extra = unused_inputs(v.aval for v in carry_ts)
        cond = with_io(cond_jaxpr, invars=[*cond_jaxpr.jaxpr.invars, *extra])
        start = [instantiate(t) for t, nz in zip(init_ts, carry_nz) if nz]
        out = p.bind(
            *cond_consts, *d.captured, *body_consts, *select(body_ts, const_nz), *init, *start,
            cond_jaxpr=cond, body_jaxpr=body, cond_nconsts=cond_nconsts,
            body_nconsts=n_captured + body_nconsts + len(const_ts), **more,
        )  # fmt: skip
        return out[:n_carry], spread_tangents(out[n_carry:], carry_nz, body_jaxpr.out_avals)

    return rule


jvp.add(cf.while_p, _while_jvp(cf.while_p))
jvp.add(cf.bounded_while_p, _while_jvp(cf.bounded_while_p))


def _unknown_carry(
    trace: PartialTrace, operands: Sequence[Any], cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int,
    body_nconsts: int,
) -> tuple[bool, ...]:  # fmt: skip
    """Which carried values depend on unknown ones; all, if the condition does."""
    cond_uk, body_uk, carry_uk = (
        tuple(trace.is_unknown(x) for x in part) for part in split(operands, cond_nconsts, body_nconsts)
    )
    while True:
        s = partial_eval_jaxpr(body_jaxpr, (*body_uk, *carry_uk), carry_uk)
        if s.out_unknowns == carry_uk:
            break
        carry_uk = s.out_unknowns
    if any(partial_eval_jaxpr(cond_jaxpr, (*cond_uk, *carry_uk)).out_unknowns):
        return (True,) * len(carry_uk)
    return carry_uk


@partial_eval(cf.while_p)
def _while_partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr,
    cond_nconsts: int, body_nconsts: int,
) -> Sequence[Any]:  # fmt: skip
    params: dict[str, Any] = {
        "cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr, "cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts
    }  # fmt: skip
    carry_uk = _unknown_carry(trace, operands, **params)
    # There is no bound on the residuals, so the unknown part runs the whole loop: forward mode only.
    unknown = trace.record_unknown(cf.while_p, operands, params)
    if all(carry_uk):
        return unknown
    cond_consts, body_consts, init = split(operands, cond_nconsts, body_nconsts)
    known = _known_while(cond_consts, body_consts, init, carry_uk, cond_jaxpr, body_jaxpr)
    return merge_outputs(carry_uk, known, select(unknown, carry_uk))


def _known_while(
    cond_consts: Sequence[Any], body_consts: Sequence[Any], init: Sequence[Any], carry_uk: Sequence[bool],
    cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr,
) -> list[Any]:  # fmt: skip
    """The loop over the known carried values alone."""
    body, used = dce_jaxpr(body_jaxpr, tuple(not u for u in carry_uk))
    const_used, carry_used = split(used, len(body_consts))
    body_carry = iter(body.jaxpr.invars[sum(const_used) :])
    carry_vars = [next(body_carry) if used_here else None for used_here in carry_used]
    invars = [
        *body.jaxpr.invars[: sum(const_used)],
        *(v or Var(a) for v, a, u in zip(carry_vars, body_jaxpr.in_avals[len(body_consts) :], carry_uk) if not u),
    ]
    n = len(cond_consts)
    cond_vars = cond_jaxpr.jaxpr.invars
    cond = with_io(cond_jaxpr, invars=[*cond_vars[:n], *select(cond_vars[n:], carry_uk, False)])
    return cf.while_p.bind(
        *cond_consts, *select(body_consts, const_used), *select(init, carry_uk, False),
        cond_jaxpr=cond, body_jaxpr=with_io(body, invars=invars), cond_nconsts=n, body_nconsts=sum(const_used),
    )  # fmt: skip


@partial_eval(cf.bounded_while_p)
def _bounded_while_partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr,
    cond_nconsts: int, body_nconsts: int, max_steps: int,
) -> Sequence[Any]:  # fmt: skip
    params: dict[str, Any] = {
        "cond_jaxpr": cond_jaxpr, "body_jaxpr": body_jaxpr, "cond_nconsts": cond_nconsts, "body_nconsts": body_nconsts
    }  # fmt: skip
    if all(_unknown_carry(trace, operands, **params)) and operands[cond_nconsts + body_nconsts :]:
        return trace.record_unknown(cf.bounded_while_p, operands, {**params, "max_steps": max_steps})
    blocks = blocked_while(cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts, max_steps)
    carry = operands[cond_nconsts + body_nconsts :]
    consts = operands[: cond_nconsts + body_nconsts]
    out = cf.scan(consts, [*carry, np.int32(0)], [], blocks, length=block_length(max_steps)[0])
    return out[:-1]


def block_length(max_steps: int) -> tuple[int, int]:
    """How many blocks of how many iterations: about the square root of the bound."""
    length = max(1, math.isqrt(max_steps))
    return -(-max_steps // length), length


@cached_transform()
def blocked_while(
    cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int, max_steps: int
) -> ClosedJaxpr:
    """The body of a scan over blocks that does what a bounded while does: consts, carry and counter to the latter two.

    A block whose start is past the end of the loop, and an iteration past it, leave the carry as it is.
    """
    n_consts = cond_nconsts + body_nconsts
    avals = [
        *cond_jaxpr.in_avals[:cond_nconsts], *body_jaxpr.in_avals,
        ShapedArray((), dtypes.int32),
    ]  # fmt: skip
    _, length = block_length(max_steps)

    def active(consts: Sequence[Any], carry: Sequence[Any], i: Any) -> Any:
        (more,) = eval_jaxpr(cond_jaxpr.jaxpr, (), [*consts[:cond_nconsts], *carry])
        return ew.bitwise_and(more, ew.lt(i, np.int32(max_steps)))

    def keep(*xs: Any) -> list[Any]:
        return list(xs[n_consts:])

    def step(*xs: Any) -> list[Any]:
        new = eval_jaxpr(body_jaxpr.jaxpr, (), xs[cond_nconsts:-1])
        return [*new, ew.add(xs[-1], np.int32(1))]

    def closed(f: Any) -> ClosedJaxpr:
        jaxpr, captured, _ = trace_flat(f, avals, name="while loop in blocks")
        assert not captured, "the jaxprs of a loop take what they capture as operands"
        return ClosedJaxpr(jaxpr)

    def guarded(on_true: ClosedJaxpr, on_false: ClosedJaxpr) -> Any:
        def f(*xs: Any) -> list[Any]:
            pred = active(xs[:n_consts], xs[n_consts:-1], xs[-1])
            return cf.cond(pred, xs, (on_false, on_true))

        return f

    idle = closed(keep)
    iteration = closed(guarded(closed(step), idle))

    def run_block(*xs: Any) -> list[Any]:
        return cf.scan(xs[:n_consts], xs[n_consts:], [], iteration, length=length)

    whole = closed(guarded(closed(run_block), idle))

    def checkpointed(*xs: Any) -> list[Any]:
        return calls.checkpoint_p.bind(*xs, jaxpr=whole, prevent_cse=False, differentiated=False, policy=None)

    return closed(checkpointed)


def _while_transpose(cts: Sequence[Any], *operands: Any, **params: Any) -> Sequence[Any]:
    from quire.ir.source import current_source

    raise ValueError(
        f"while_loop cannot be differentiated in reverse{where(current_source())}: the number of its iterations, and "
        "so the memory needed, is not known. Give a bound, while_loop(..., max_steps=n), use scan or fori_loop with "
        "bounds known while tracing, or use forward mode (jvp, jacfwd)"
    )


transpose.add(cf.while_p, _while_transpose)
transpose.add(cf.bounded_while_p, _while_transpose)


# -- scan -----------------------------------------------------------------------------------------------------------


@jvp(cf.scan_p)
def _scan_jvp(
    primals: Sequence[Value], tangents: Sequence[Any], *, jaxpr: ClosedJaxpr, length: int, reverse: bool,
    linear: tuple[bool, ...], num_consts: int, num_carry: int, unroll: int,
) -> tuple[Any, Any]:  # fmt: skip
    const_nz, carry_nz, xs_nz = (nonzero_mask(part) for part in split(tangents, num_consts, num_carry))
    n_ys = len(jaxpr.out_avals) - num_carry
    while True:
        d = jvp_jaxpr(jaxpr, (*const_nz, *carry_nz, *xs_nz), (*carry_nz, *((False,) * n_ys)))
        if d.nonzeros[:num_carry] == carry_nz:
            break
        carry_nz = d.nonzeros[:num_carry]
    consts, init, xs = split(primals, num_consts, num_carry)
    const_ts, init_ts, xs_ts = split(tangents, num_consts, num_carry)
    body = _interleaved(d, (num_consts, num_carry, len(xs)), (sum(const_nz), sum(carry_nz)), num_carry)
    out = cf.scan(
        [*d.captured, *consts, *select(const_ts, const_nz)],
        [*init, *(instantiate(t) for t, nz in zip(init_ts, carry_nz) if nz)],
        [*xs, *select(xs_ts, xs_nz)],
        body, length=length, reverse=reverse, unroll=unroll,
    )  # fmt: skip
    carry, carry_ts, ys, ys_ts = split(out, num_carry, sum(carry_nz), n_ys)
    out_ts = spread_tangents([*carry_ts, *ys_ts], d.nonzeros, jaxpr.out_avals)
    # Tangents of stacked outputs have the stacked shape.
    full = [Zero(aval_of(y).tangent()) if is_zero(t) else t for y, t in zip([*carry, *ys], out_ts, strict=True)]
    return [*carry, *ys], full


def _interleaved(d: Jvp, sizes: tuple[int, int, int], n_ts: tuple[int, int], num_carry: int) -> ClosedJaxpr:
    """The derivative's jaxpr with tangents beside their primals: (consts, carry, xs) and (carry, ys) of both."""
    n = len(d.captured)
    captured, consts, carry, xs, const_ts, carry_ts, xs_ts = split(d.closed.jaxpr.invars, n, *sizes, *n_ts)
    outvars = d.closed.jaxpr.outvars
    n_out = len(d.nonzeros)
    carry_out, ys, carry_out_ts, ys_ts = split(outvars, num_carry, n_out - num_carry, sum(d.nonzeros[:num_carry]))
    return with_io(
        d.closed,
        invars=[*captured, *consts, *const_ts, *carry, *carry_ts, *xs, *xs_ts],
        outvars=[*carry_out, *carry_out_ts, *ys, *ys_ts],
    )


@partial_eval(cf.scan_p)
def _scan_partial_eval(
    trace: PartialTrace, operands: Sequence[Any], *, jaxpr: ClosedJaxpr, length: int, reverse: bool,
    linear: tuple[bool, ...], num_consts: int, num_carry: int, unroll: int,
) -> Sequence[Any]:  # fmt: skip
    const_uk, carry_uk, xs_uk = (unknown_mask(trace, part) for part in split(operands, num_consts, num_carry))
    n_ys = len(jaxpr.out_avals) - num_carry
    while True:
        s = partial_eval_jaxpr(jaxpr, (*const_uk, *carry_uk, *xs_uk), (*carry_uk, *((False,) * n_ys)))
        if s.out_unknowns[:num_carry] == carry_uk:
            break
        carry_uk = s.out_unknowns[:num_carry]
    consts, init, xs = split(operands, num_consts, num_carry)
    known_consts = [*s.captured, *select(consts, const_uk, False)]
    known_init, known_xs = select(init, carry_uk, False), select(xs, xs_uk, False)
    plan = _plan_residuals(s, len(known_consts), len(known_init))
    hoisted = eval_jaxpr(plan.hoisted, (), known_consts) if plan.hoisted.outvars else []
    known = cf.scan(
        [*known_consts, *hoisted], known_init, known_xs, plan.body, length=length, reverse=reverse, unroll=unroll
    )
    carry_out, ys, stacked = split(known, len(known_init), s.num_known_out - len(known_init))
    sources = {"const": [*known_consts, *hoisted], "carry": known_init, "xs": known_xs, "stacked": stacked}
    unknown: Sequence[Any] = ()
    if any(s.out_unknowns):
        fixed = [sources[kind][i] for kind, i in plan.residuals if kind in ("const", "carry")]
        moving = [sources[kind][i] for kind, i in plan.residuals if kind in ("xs", "stacked")]
        n_const_uk, n_carry_uk = sum(const_uk), sum(carry_uk)
        invars = s.unknown.jaxpr.invars
        residual_vars, const_vars, carry_vars, xs_vars = split(invars, s.num_res, n_const_uk, n_carry_uk)
        is_fixed = [kind in ("const", "carry") for kind, _ in plan.residuals]
        body = with_io(
            s.unknown,
            invars=[
                *select(residual_vars, is_fixed), *const_vars, *carry_vars, *select(residual_vars, is_fixed, False),
                *xs_vars,
            ],
        )  # fmt: skip
        args = [*fixed, *select(consts, const_uk), *select(init, carry_uk), *moving, *select(xs, xs_uk)]
        params = {
            "jaxpr": body, "length": length, "reverse": reverse, "linear": (False,) * len(args),
            "num_consts": len(fixed) + n_const_uk, "num_carry": n_carry_uk, "unroll": unroll,
        }  # fmt: skip
        unknown = trace.record_unknown(cf.scan_p, args, params)
    return merge_outputs(s.out_unknowns, [*carry_out, *ys], unknown)


class _ResidualPlan:
    """Where each residual of a scan's body comes from.

    residuals: ("const", i): the i-th const (hoisted values come after the consts); ("carry", i): the initial value of
        a carry that does not change; ("xs", i): an array scanned over; ("stacked", i): a further output of `body`.
    hoisted: computes from the consts what is the same in every iteration.
    body: the known part, taking hoisted values after its consts, with the stacked residuals as last outputs.
    """

    def __init__(self, residuals: list[tuple[str, int]], hoisted: Jaxpr, body: ClosedJaxpr) -> None:
        self.residuals = residuals
        self.hoisted = hoisted
        self.body = body


def _plan_residuals(s: Split, n_consts: int, n_carry: int) -> _ResidualPlan:
    known = s.known.jaxpr
    consts, carry, xs = split(known.invars, n_consts, n_carry)
    n_out = s.num_known_out
    place: dict[Any, tuple[str, int]] = {v: ("const", i) for i, v in enumerate(consts)}
    fixed = {v: ("carry", i) for i, v in enumerate(carry) if known.outvars[i] is v}
    place |= fixed | {v: ("xs", i) for i, v in enumerate(xs)}
    invariant: set[Any] = set(consts)
    for eqn in known.eqns:
        if not eqn.effects and all(not isinstance(a, Var) or a in invariant for a in eqn.inputs):
            invariant.update(eqn.outputs)
    wanted: list[Any] = list(dict.fromkeys(a for a in known.outvars[n_out:] if a in invariant and a not in place))
    eqns, _ = needed([e for e in known.eqns if not e.effects and set(e.outputs) <= invariant], wanted)
    hoisted = Jaxpr((), consts, wanted, eqns)
    for v in wanted:
        place[v] = ("const", n_consts)
        n_consts += 1
    stacked: list[Any] = []
    residuals: list[tuple[str, int]] = []
    for a in known.outvars[n_out:]:
        if a not in place:
            place[a] = ("stacked", len(stacked))
            stacked.append(a)
        residuals.append(place[a])
    outvars = [*known.outvars[:n_out], *stacked]
    kept, _ = needed(known.eqns, outvars, wanted)
    body = ClosedJaxpr(Jaxpr((), (*consts, *wanted, *carry, *xs), outvars, kept))
    return _ResidualPlan(residuals, hoisted, body)


@transpose(cf.scan_p)
def _scan_transpose(
    cts: Sequence[Any], *operands: Any, jaxpr: ClosedJaxpr, length: int, reverse: bool, linear: tuple[bool, ...],
    num_consts: int, num_carry: int, unroll: int,
) -> Sequence[Any]:  # fmt: skip
    given = linear_mask(operands)
    const_lin, carry_lin, xs_lin = split(given, num_consts, num_carry)
    # A carry that starts from a known value, zeros, and is added to is linear too.
    while True:
        out_lin = dependent_outputs(jaxpr.jaxpr, (*const_lin, *carry_lin, *xs_lin))[:num_carry]
        new = [a or b for a, b in zip(carry_lin, out_lin)]
        if new == carry_lin:
            break
        carry_lin = new
    if not all(carry_lin):
        params: dict[str, Any] = {
            "jaxpr": jaxpr, "length": length, "reverse": reverse, "linear": linear, "num_consts": num_consts,
            "num_carry": num_carry, "unroll": unroll,
        }  # fmt: skip
        return _split_then_transpose(cf.scan_p, cts, operands, params)
    is_linear = (*const_lin, *carry_lin, *xs_lin)
    consts, _, xs = split(operands, num_consts, num_carry)
    ct_carry, ct_ys = split(cts, num_carry)
    ys_nz = nonzero_mask(ct_ys)
    carry_nz = nonzero_mask(ct_carry)
    n_const, n_xs = sum(const_lin), sum(xs_lin)
    # The body's cotangents: of the carry to a fixed point; of the consts they are summed up.
    while True:
        force = (*((False,) * n_const), *carry_nz, *((False,) * n_xs))
        t = transpose_jaxpr(jaxpr, is_linear, (*carry_nz, *ys_nz), force)
        const_nz, new_nz, xs_nz = split(t.nonzeros, n_const, num_carry)
        if tuple(new_nz) == carry_nz:
            break
        carry_nz = tuple(new_nz)
    const_avals = [x.aval for x in select(consts, const_lin)]
    sums = [a for a, nz in zip(const_avals, const_nz) if nz]
    body = _accumulating(t, sums, num_consts - n_const, len(xs) - n_xs, sum(carry_nz))
    out = cf.scan(
        [*t.captured, *select(consts, const_lin, False)],
        [*map(zeros, sums), *(instantiate(c) for c, nz in zip(ct_carry, carry_nz) if nz)],
        [*select(xs, xs_lin, False), *select(ct_ys, ys_nz)],
        body, length=length, reverse=not reverse, unroll=unroll,
    )  # fmt: skip
    ct_consts, ct_init, ct_xs = split(out, len(sums), sum(carry_nz))
    values = iter(
        [
            *spread_tangents(ct_consts, const_nz, const_avals),
            *spread_tangents(ct_init, carry_nz, [c.aval if is_zero(c) else aval_of(c) for c in ct_carry]),
            *spread_tangents(ct_xs, xs_nz, [x.aval for x in select(xs, xs_lin)]),
        ]
    )
    cts_in = [next(values) if l else None for l in is_linear]
    return [c if l else None for c, l in zip(cts_in, given)]


def dependent_outputs(jaxpr: Jaxpr, inputs: Sequence[bool]) -> list[bool]:
    """Which outputs depend on the marked inputs, equation by equation."""
    marked: set[Any] = set(select(jaxpr.invars, inputs))
    for eqn in jaxpr.eqns:
        if not marked.isdisjoint(eqn.inputs):
            marked.update(eqn.outputs)
    return [a in marked for a in jaxpr.outvars]


def _split_then_transpose(p: Any, cts: Sequence[Any], operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Transpose an equation that also computes values that are not linear: these are split off and computed first."""
    with PartialTrace("transposition") as trace:
        args = [trace.new_input(x.aval) if type(x) is Linear else x for x in operands]
        outs = partial_eval[p](trace, args, **params)
        unknown = [trace.is_unknown(x) for x in outs]
        jaxpr = trace.to_jaxpr(select(outs, unknown))
    found = iter(
        backward(jaxpr, [*trace.captured, *(x for x in operands if type(x) is Linear)], select(cts, unknown))[
            len(trace.captured) :
        ]
    )
    return [next(found) if type(x) is Linear else None for x in operands]


def _accumulating(t: Transposed, sums: Sequence[ShapedArray], n_consts: int, n_xs: int, n_carry: int) -> ClosedJaxpr:
    """The transposed body, adding the cotangents of consts to sums that are carried.

    `t.closed` takes captured, consts, xs, cts of the carry, cts of the ys; it returns cts of consts, carry, xs.
    """
    avals = t.closed.in_avals
    fixed, xs, carry, ys = split(avals, len(t.captured) + n_consts, n_xs, n_carry)

    def flat(*values: Any) -> list[Any]:
        fixed_v, sums_v, carry_v, xs_v, ys_v = split(values, len(fixed), len(sums), n_carry, n_xs)
        out = eval_jaxpr(t.closed.jaxpr, (), [*fixed_v, *xs_v, *carry_v, *ys_v])
        return [*map(ew.add, sums_v, out), *out[len(sums) :]]

    jaxpr, captured, _ = trace_flat(flat, [*fixed, *sums, *carry, *xs, *ys], name="transposed loop body")
    assert not captured
    return ClosedJaxpr(jaxpr)
