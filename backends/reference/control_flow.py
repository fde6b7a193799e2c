"""Reference rules of control flow: the nested jaxprs are interpreted."""

from __future__ import annotations

from typing import Any

import numpy as np

from quire.ir.jaxpr import ClosedJaxpr
from quire.ir.primitives import control_flow as cf

from .engine import eval_jaxpr
from .rules import reference


@reference(cf.cond_p)
def cond(index: Any, *operands: Any, branches: tuple[ClosedJaxpr, ...], **_: str) -> Any:
    return eval_jaxpr(branches[min(max(int(index), 0), len(branches) - 1)], *operands)


@reference(cf.while_p)
def while_(
    *operands: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int
) -> Any:
    return bounded_while(
        *operands, cond_jaxpr=cond_jaxpr, body_jaxpr=body_jaxpr, cond_nconsts=cond_nconsts,
        body_nconsts=body_nconsts, max_steps=None,
    )  # fmt: skip


@reference(cf.bounded_while_p)
def bounded_while(
    *operands: Any,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    max_steps: int | None,
) -> Any:
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    body_consts, carry = rest[:body_nconsts], list(rest[body_nconsts:])
    steps = 0
    while steps != max_steps and eval_jaxpr(cond_jaxpr, *cond_consts, *carry)[0]:
        carry = eval_jaxpr(body_jaxpr, *body_consts, *carry)
        steps += 1
    return carry


@reference(cf.scan_p)
def scan(
    *operands: Any,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    linear: tuple[bool, ...],
    num_consts: int,
    num_carry: int,
    unroll: int,
) -> Any:
    n = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], list(operands[num_consts:n]), operands[n:]
    ys = [np.zeros((length, *a.shape), a.dtype) for a in jaxpr.out_avals[num_carry:]]
    for i in reversed(range(length)) if reverse else range(length):
        out = eval_jaxpr(jaxpr, *consts, *carry, *(x[i] for x in xs))
        carry = out[:num_carry]
        for y, value in zip(ys, out[num_carry:], strict=True):
            y[i] = value
    return [*carry, *ys]
