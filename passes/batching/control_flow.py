"""Batching of control flow.

- cond: with a predicate that is the same for all lanes the branches are batched; otherwise all branches are computed
  and each lane selects.
- while: carried values are batched to a fixed point. With a predicate that differs, the loop runs until all lanes
  are done; finished lanes keep their values.
- scan: consts, carry and xs are batched to a fixed point of the carry.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.jaxpr import ClosedJaxpr, Var
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.primitives.calls import CHECK_EFFECT
from quire.ir.source import Source, current_source, where
from quire.ir.tracing import eval_jaxpr, merge_captured, trace_flat

from ..cost import estimate
from ..rebuild import split
from .batch import batch_jaxpr, force_dim, one_by_one
from .rules import Axis, Dim, batching

Value = Any
logger = logging.getLogger("quire")
COSTLY_FLOPS = 1e6
"""A branch of more work than this, paid for on every lane, is reported."""


@batching(cf.cond_p)
def _cond(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, branches: tuple[ClosedJaxpr, ...],
    batching: str = "select",
) -> tuple[Any, Any]:  # fmt: skip
    index, *args = operands
    index_dim, *arg_dims = dims
    how = {"batching": batching} if batching != "select" else {}
    if index_dim is not None and how:
        return one_by_one(axis, operands, dims, lambda *xs: cf.cond_p.bind(*xs, branches=branches, **how), "cond")
    if index_dim is not None:
        return _select_branch(axis, index, index_dim, args, arg_dims, branches)
    parts = [batch_jaxpr(b, axis, tuple(arg_dims), (False,) * len(b.out_avals)) for b in branches]
    out_batched = tuple(any(flags) for flags in zip(*(p.out_batched for p in parts)))
    parts = [
        p if p.out_batched == out_batched else batch_jaxpr(b, axis, tuple(arg_dims), out_batched)
        for b, p in zip(branches, parts)
    ]
    captured, jaxprs = merge_captured([p.closed for p in parts], [p.captured for p in parts])
    out = cf.cond_p.bind(index, *captured, *args, branches=tuple(jaxprs), **how)
    return out, [0 if b else None for b in out_batched]


def _select_branch(
    axis: Axis, index: Value, index_dim: int, args: Sequence[Value], dims: Sequence[Dim],
    branches: tuple[ClosedJaxpr, ...],
) -> tuple[Any, Any]:  # fmt: skip
    if any("io" in effect for b in branches for effect in b.effects):
        raise NotImplementedError(
            "vmap of cond with a batched predicate computes all branches, but one has a side effect (io_callback)"
            f"{where(current_source())}: use pure_callback, or keep the predicate the same for all lanes"
        )
    _refuse_checks("cond", branches)
    _report_costly(branches, axis.size)
    index = st.reshape(index, (axis.size,))
    passed = [_passed(outs, [b.jaxpr.invars for b in branches]) for outs in zip(*(b.jaxpr.outvars for b in branches))]
    which = ew.clamp(np.int32(0), index, np.int32(len(branches) - 1))
    results: list[list[Any]] = []
    for i, b in enumerate(branches):
        p = batch_jaxpr(b, axis, tuple(dims), (True,) * len(b.out_avals))
        taken = ew.eq(which, np.int32(i))
        operands = [_differentiable_in(taken, x, d) for x, d in zip(args, dims, strict=True)]
        results.append(eval_jaxpr(p.closed.jaxpr, (), [*p.captured, *operands]))
    if len(branches) == 2:
        which = ew.gt(index, np.int32(0))
    # What every branch passes on is the operand itself, as much batched as it is.
    out = [args[k] if k is not None else _select(which, cases) for k, cases in zip(passed, zip(*results, strict=True))]
    return out, [0 if k is None else dims[k] for k in passed]


def _passed(outs: Sequence[Any], inputs: Iterable[Sequence[Var]]) -> int | None:
    """The number of the operand that is this result in every branch; None where there is none."""
    found = {invars.index(x) if isinstance(x, Var) and x in invars else None for x, invars in zip(outs, inputs)}
    return found.pop() if len(found) == 1 else None


def _differentiable_in(taken: Value, x: Value, dim: Dim) -> Value:
    """x, without derivatives in the lanes that do not take the branch.

    What ``log`` gives at the zero for which another branch was chosen would come back to x as 0 times infinity.
    """
    aval = aval_of(x)
    if dim is None or not dtypes.is_inexact(aval.dtype):
        return x
    return ew.select_n(st.broadcast_in_dim(taken, aval.shape, (dim,)), ew.stop_gradient(x), x)


def _select(which: Value, cases: Sequence[Value]) -> Value:
    """The case each lane selects; the lanes are dimension 0."""
    if all(c is cases[0] for c in cases):
        return cases[0]
    shape = aval_of(cases[0]).shape
    return ew.select_n(st.broadcast_in_dim(which, shape, (0,)), *cases)


def _refuse_checks(name: str, jaxprs: Sequence[ClosedJaxpr]) -> None:
    """Lanes that do not take a branch, or have left a loop, compute it all the same: their checks would fail."""
    if any(CHECK_EFFECT in j.effects for j in jaxprs):
        raise NotImplementedError(
            f"vmap of {name} with a predicate that differs between lanes, around a checkify.check{where(current_source())}: "
            "lanes that do not come to the check would fail it. Apply checkify inside vmap: vmap(checkify.checkify(f))"
        )


_reported: set[Source] = set()


def _report_costly(branches: Sequence[ClosedJaxpr], lanes: int) -> None:
    """Log, once for a line, that costly branches are computed by every lane."""
    source = current_source()
    if source is None or source in _reported:
        return
    flops = max(estimate(b.jaxpr).flops for b in branches)
    if flops > COSTLY_FLOPS:
        _reported.add(source)
        logger.warning(
            "cond under vmap%s: the predicate differs between lanes, so all %d branches are computed by all %d lanes "
            "(the largest costs %.2g operations a lane). Move the condition out of vmap, or take lane after lane with "
            "cond(..., batching=\"loop\"), to keep the branch lazy.",
            where(source), len(branches), lanes, flops,
        )  # fmt: skip


# -- while ----------------------------------------------------------------------------------------------------------


def _while_rule(p: Any) -> Any:
    def rule(
        axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, cond_jaxpr: ClosedJaxpr,
        body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int, **more: Any,
    ) -> tuple[Any, Any]:  # fmt: skip
        cond_consts, body_consts, init = split(operands, cond_nconsts, body_nconsts)
        cond_dims, body_dims, init_dims = split(dims, cond_nconsts, body_nconsts)
        batched = [d is not None for d in init_dims]

        def carry_dims() -> list[Dim]:
            return [0 if b else None for b in batched]

        while True:
            test = batch_jaxpr(cond_jaxpr, axis, (*cond_dims, *carry_dims()), (False,))
            if test.out_batched[0]:  # lanes end at different times
                batched = [True] * len(batched)
            body = batch_jaxpr(body_jaxpr, axis, (*body_dims, *carry_dims()), tuple(batched))
            if list(body.out_batched) == batched:
                break
            batched = [a or b for a, b in zip(batched, body.out_batched)]
        test = batch_jaxpr(cond_jaxpr, axis, (*cond_dims, *carry_dims()), (False,))
        init = [force_dim(x, d, axis.size) if b else x for x, d, b in zip(init, init_dims, batched)]
        if test.out_batched[0]:
            _refuse_checks("while_loop", (cond_jaxpr, body_jaxpr))
        else:
            out = p.bind(
                *test.captured, *cond_consts, *body.captured, *body_consts, *init,
                cond_jaxpr=test.closed, body_jaxpr=body.closed, cond_nconsts=len(test.captured) + cond_nconsts,
                body_nconsts=len(body.captured) + body_nconsts, **more,
            )  # fmt: skip
            return out, carry_dims()
        out = _while_all(p, test, body, [*test.captured, *cond_consts], [*body.captured, *body_consts], init, more)
        return out, carry_dims()

    return rule


def _while_all(
    p: Any, test: Any, body: Any, cond_consts: list[Value], body_consts: list[Value], init: list[Value],
    more: dict[str, Any],
) -> list[Value]:  # fmt: skip
    """The loop that runs until the predicate, which is carried, holds for no lane."""
    (active,) = eval_jaxpr(test.closed.jaxpr, (), [*cond_consts, *init])
    n, m = len(cond_consts), len(body_consts)

    def any_active(active: Value, *_: Value) -> list[Value]:
        return [rd.reduce_or(active, (0,))]

    def step(*xs: Value) -> list[Value]:
        consts, more_consts, (active,), carry = split(xs, n, m, 1)
        new = eval_jaxpr(body.closed.jaxpr, (), [*more_consts, *carry])
        new = [_select(active, (old, x)) for old, x in zip(carry, new)]
        (still,) = eval_jaxpr(test.closed.jaxpr, (), [*consts, *new])
        return [ew.bitwise_and(active, still), *new]

    state = [aval_of(active), *map(aval_of, init)]
    consts = [*cond_consts, *body_consts]
    cond_jaxpr, _, _ = trace_flat(any_active, state, name="while")
    body_jaxpr, _, _ = trace_flat(step, [*map(aval_of, consts), *state], name="while")
    out = p.bind(
        *consts, active, *init, cond_jaxpr=ClosedJaxpr(cond_jaxpr), body_jaxpr=ClosedJaxpr(body_jaxpr),
        cond_nconsts=0, body_nconsts=n + m, **more,
    )  # fmt: skip
    return out[1:]


batching.add(cf.while_p, _while_rule(cf.while_p))
batching.add(cf.bounded_while_p, _while_rule(cf.bounded_while_p))


# -- scan -----------------------------------------------------------------------------------------------------------


@batching(cf.scan_p)
def _scan(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, jaxpr: ClosedJaxpr, length: int, reverse: bool,
    linear: tuple[bool, ...], num_consts: int, num_carry: int, unroll: int,
) -> tuple[Any, Any]:  # fmt: skip
    consts, init, xs = split(operands, num_consts, num_carry)
    const_dims, init_dims, xs_dims = split(dims, num_consts, num_carry)
    # Rows of xs are taken along dimension 0, so a batch dimension there moves behind it.
    xs = [force_dim(x, d, axis.size, 1) if d == 0 else x for x, d in zip(xs, xs_dims)]
    row_dims = [None if d is None else max(d - 1, 0) for d in xs_dims]
    carry = [d is not None for d in init_dims]
    n_ys = len(jaxpr.out_avals) - num_carry
    while True:
        in_dims = (*const_dims, *(0 if b else None for b in carry), *row_dims)
        body = batch_jaxpr(jaxpr, axis, in_dims, (*carry, *((False,) * n_ys)))
        if list(body.out_batched[:num_carry]) == carry:
            break
        carry = [a or b for a, b in zip(carry, body.out_batched)]
    init = [force_dim(x, d, axis.size) if b else x for x, d, b in zip(init, init_dims, carry)]
    out = cf.scan([*body.captured, *consts], init, xs, body.closed, length=length, reverse=reverse, unroll=unroll)
    ys_dims = [1 if b else None for b in body.out_batched[num_carry:]]
    return out, [*(0 if b else None for b in carry), *ys_dims]
