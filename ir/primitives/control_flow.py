"""Control flow: equations that hold jaxprs and apply one of them, or apply one many times.

Nested jaxprs are closed jaxprs without constants: what they capture from outside are the first operands ("consts"),
which are the same in every iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..avals import AxisNames, ShapedArray, aval_of
from ..jaxpr import ClosedJaxpr, Effects, all_eqns, join_effects
from ..primitive import primitive
from ..source import where
from . import elementwise as ew
from .calls import check_call

Value = Any


def same_types(a: Sequence[ShapedArray], b: Sequence[ShapedArray]) -> bool:
    """Whether two lists of avals agree, weak types aside."""
    return len(a) == len(b) and all(x.strong() is y.strong() for x, y in zip(a, b))


def show(avals: Sequence[ShapedArray]) -> str:
    """Avals for messages: ``(f32[3], i32[])``."""
    return f"({', '.join(a.short() for a in avals)})"


def _check_meeting(what: str, vma: AxisNames, jaxprs: Sequence[ClosedJaxpr]) -> None:
    """Raise ValueError for a collective over axes along which devices take different ways: some would wait for ever."""
    for jaxpr in jaxprs:
        for eqn in all_eqns(jaxpr.jaxpr):
            if eqn.primitive.family != "collectives" or eqn.primitive.name in ("pvary", "axis_index"):
                continue
            named = eqn.params.get("axes", eqn.params.get("axis_name"))
            axes = vma.intersection(named if isinstance(named, tuple) else (named,))  # pyright: ignore[reportUnknownArgumentType]
            if axes:
                over = ", ".join(sorted(map(repr, axes)))
                raise ValueError(
                    f"{what} varies along mesh axis {over}, so devices take different ways, but {eqn.primitive.name} over "
                    f"{over}{where(eqn.source)} needs all of them: decide by a value that is equal there, as by lax.pmax of "
                    "the predicate, or take the collective out"
                )


# -- cond -----------------------------------------------------------------------------------------------------------


def _cond_effects(params: Mapping[str, Any]) -> Effects:
    return join_effects(params["branches"])


@primitive("cond", multiple_results=True, effects=_cond_effects)
def cond_p(
    index: ShapedArray, *operands: ShapedArray, branches: tuple[ClosedJaxpr, ...], batching: str = "select"
) -> tuple[ShapedArray, ...]:
    """Apply the branch that `index` (int32, clamped to the branches there are) selects; no other branch is run.

    All branches take `operands` and return the same types. `batching` says what vectorisation does where the index
    differs between lanes: "select" computes all branches for all lanes, "loop" (the only value that is written down)
    takes lane after lane and runs its branch alone.

    Raises:
        TypeError: there is no branch, the index is no int32 scalar, or a branch does not take the operands or returns
            other types than the first.
    """
    if not branches:
        raise TypeError("cond: expected at least one branch")
    if index.shape or index.dtype != dtypes.int32:
        raise TypeError(f"cond: the index must be i32[], got {index.short()}")
    if index.vma:
        _check_meeting("cond: the predicate", index.vma, branches)
    for i, branch in enumerate(branches):
        check_call(f"cond: branch {i}", branch, operands)
        if not same_types(branch.out_avals, branches[0].out_avals):
            raise TypeError(
                f"cond: all branches must return the same types, branch 0 returns {show(branches[0].out_avals)}, "
                f"branch {i} returns {show(branch.out_avals)}"
            )
    return tuple(branches[0].out_avals)  # weak where the first branch's are, as in JAX


def cond(index: Value, operands: Sequence[Value], branches: Sequence[ClosedJaxpr]) -> list[Value]:
    """Bind `cond_p`; a bool index becomes an int32 one."""
    if dtypes.is_bool(aval_of(index).dtype):
        index = ew.convert_element_type(index, np.int32)
    return cond_p.bind(index, *operands, branches=tuple(branches))


# -- while ----------------------------------------------------------------------------------------------------------


def _while_effects(params: Mapping[str, Any]) -> Effects:
    return join_effects((params["cond_jaxpr"], params["body_jaxpr"]))


def _check_while(
    name: str,
    operands: tuple[ShapedArray, ...],
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
) -> tuple[ShapedArray, ...]:
    cond_consts = operands[:cond_nconsts]
    body_consts = operands[cond_nconsts : cond_nconsts + body_nconsts]
    carry = operands[cond_nconsts + body_nconsts :]
    check_call(f"{name}: the condition", cond_jaxpr, (*cond_consts, *carry))
    check_call(f"{name}: the body", body_jaxpr, (*body_consts, *carry))
    out = cond_jaxpr.out_avals
    if len(out) != 1 or out[0].shape or not dtypes.is_bool(out[0].dtype):
        raise TypeError(f"{name}: the condition must return one bool scalar, got {show(out)}")
    if out[0].vma:
        _check_meeting(f"{name}: the condition", out[0].vma, (cond_jaxpr, body_jaxpr))
    if not same_types(body_jaxpr.out_avals, carry):
        raise TypeError(
            f"{name}: the body must return the types of the carry it takes, {show(carry)}, "
            f"got {show(body_jaxpr.out_avals)}"
        )
    return tuple(_carried(carry, body_jaxpr.out_avals))


def _carried(carry: Sequence[ShapedArray], out: Sequence[ShapedArray]) -> list[ShapedArray]:
    """The types of a final carry: weak only where the carry both starts and comes back weak."""
    return [b.update(weak_type=a.weak_type and b.weak_type) for a, b in zip(carry, out)]


@primitive("while", multiple_results=True, effects=_while_effects)
def while_p(
    *operands: ShapedArray, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int
) -> tuple[ShapedArray, ...]:
    """``while cond(*cond_consts, *carry): carry = body(*body_consts, *carry)``; the final carry.

    Operands: the condition's consts, the body's consts, the initial carry.
    """
    return _check_while("while", operands, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)


@primitive("bounded_while", multiple_results=True, effects=_while_effects)
def bounded_while_p(
    *operands: ShapedArray,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    max_steps: int,
) -> tuple[ShapedArray, ...]:
    """`while` that ends after `max_steps` iterations at the latest.

    It can be differentiated in reverse: the derivative pass turns it into blocks of about ``sqrt(max_steps)``
    checkpointed iterations, so that memory grows as the square root of the bound.

    Raises:
        ValueError: `max_steps` is negative.
    """
    if max_steps < 0:
        raise ValueError(f"bounded_while: max_steps must not be negative, got {max_steps}")
    return _check_while("bounded_while", operands, cond_jaxpr, body_jaxpr, cond_nconsts, body_nconsts)


# -- scan -----------------------------------------------------------------------------------------------------------


def _scan_effects(params: Mapping[str, Any]) -> Effects:
    return params["jaxpr"].effects


@primitive("scan", multiple_results=True, effects=_scan_effects)
def scan_p(
    *operands: ShapedArray,
    jaxpr: ClosedJaxpr,
    length: int,
    reverse: bool,
    linear: tuple[bool, ...],
    num_consts: int,
    num_carry: int,
    unroll: int,
) -> tuple[ShapedArray, ...]:
    """Apply the body `length` times: ``carry, y[i] = body(*consts, *carry, x[i])``; the final carry, then the ys.

    Operands: consts, the initial carry, then the xs, arrays whose first dimension is `length`. `reverse` goes from
    the last index to the first; ys keep the index of their iteration. `unroll` iterations are made one loop step.
    `linear` marks operands in which the equation is linear (informative).

    Raises:
        ValueError: `length` is negative or `unroll` below 1.
        TypeError: `linear` has not one entry for each operand, the leading dimension of an xs is not `length`, or the
            body does not take the operands or returns a carry of other types.
    """
    n = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:n], operands[n:]
    if length < 0:
        raise ValueError(f"scan: length must not be negative, got {length}")
    if unroll < 1:
        raise ValueError(f"scan: unroll must be at least 1, got {unroll}")
    if linear and len(linear) != len(operands):
        raise TypeError(f"scan: linear has {len(linear)} entries for {len(operands)} operands")
    for x in xs:
        if not x.shape or x.shape[0] != length:
            raise TypeError(f"scan: every xs must have the leading dimension {length}, got {x.short()}")
    check_call("scan: the body", jaxpr, (*consts, *carry, *(x.update(shape=x.shape[1:]) for x in xs)))
    carry_out, ys = jaxpr.out_avals[:num_carry], jaxpr.out_avals[num_carry:]
    if not same_types(carry_out, carry):
        raise TypeError(
            f"scan: the body must return the types of the carry it takes, {show(carry)}, got {show(carry_out)}"
        )
    return (*_carried(carry, carry_out), *(y.update(shape=(length, *y.shape)) for y in ys))


def scan(
    consts: Sequence[Value],
    init: Sequence[Value],
    xs: Sequence[Value],
    jaxpr: ClosedJaxpr,
    *,
    length: int,
    reverse: bool = False,
    unroll: int = 1,
) -> list[Value]:
    """Bind `scan_p`: the final carry, then the stacked ys."""
    n = len(consts) + len(init) + len(xs)
    return scan_p.bind(
        *consts, *init, *xs, jaxpr=jaxpr, length=length, reverse=reverse, linear=(False,) * n,
        num_consts=len(consts), num_carry=len(init), unroll=unroll,
    )  # fmt: skip
