"""Lowering of control flow. A loop becomes one kernel where `loop_kernels` says so, otherwise ``stablehlo.while``.

Consts of loops and branches are captured by the regions, not carried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import ClosedJaxpr, Jaxpr, Var
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives.calls import fusion_p

from ..kernels import NoKernel
from . import hlo
from .loop_kernels import as_kernel, explained
from .lowering import SOME_TRIPS, Ctx, lower_jaxpr, lowering

INDEX = dtypes.int32
Body = Callable[..., Sequence[Any]]


def emit_while(
    init: Sequence[Any], cond: Callable[..., Any], body: Body, *, some_trips: bool = False, reason: str = ""
) -> list[Any]:
    """A ``stablehlo.while`` over these values; `cond` and `body` build their regions from the block's arguments.

    `some_trips` promises that the body runs at least once. `reason`: why it is no kernel.
    """
    types = [x.type for x in init]
    attributes = {SOME_TRIPS: mlir.UnitAttr.get()} if some_trips else {}
    operation = hlo.op("stablehlo.while", init, types, regions=2, **attributes)
    if reason:
        explained(operation, reason)
    hlo.add_block(operation.regions[0], types, lambda *carry: [cond(*carry)])
    hlo.add_block(operation.regions[1], types, body)
    return list(operation.results)


def emit_branches(pred: Any, types: Sequence[Any], on_true: Body, on_false: Body) -> list[Any]:
    """A ``stablehlo.if``."""
    operation = hlo.op("stablehlo.if", [pred], types, regions=2)
    hlo.add_block(operation.regions[0], [], on_true)
    hlo.add_block(operation.regions[1], [], on_false)
    return list(operation.results)


# -- cond -----------------------------------------------------------------------------------------------------------


@lowering(cf.cond_p)
def cond(ctx: Ctx, index: Any, *operands: Any, branches: tuple[ClosedJaxpr, ...], **_: str) -> Any:
    def branch(closed: ClosedJaxpr) -> Body:
        return lambda: lower_jaxpr(ctx.module, closed.jaxpr, (), operands, ctx.source)

    if len(branches) == 1:
        return branch(branches[0])()
    types = [hlo.types.aval_type(a) for a in ctx.avals_out]
    if len(branches) == 2:
        return emit_branches(_as_pred(index), types, branch(branches[1]), branch(branches[0]))
    low, high = hlo.constant(0, INDEX), hlo.constant(len(branches) - 1, INDEX)
    operation = hlo.op("stablehlo.case", [hlo.clamp(low, index, high)], types, regions=len(branches))
    for region, closed in zip(operation.regions, branches, strict=True):
        hlo.add_block(region, [], branch(closed))
    return list(operation.results)


def _as_pred(index: Any) -> Any:
    """index > 0; the bool that the index was converted from, where it was."""
    owner = index.owner
    if not isinstance(owner, mlir.Block) and owner.name == "stablehlo.convert":
        source = owner.operands[0]
        if source.type == hlo.with_dtype(index, dtypes.bool_):
            return source
    return hlo.compare(index, hlo.constant(0, INDEX), "GT")


# -- while ----------------------------------------------------------------------------------------------------------


def _hidden_from_iree(body_jaxpr: Jaxpr, body_nconsts: int) -> set[int]:
    """The carried values whose new value does not depend on the old one.

    Where the body does not read a carried value IREE's compiler drops it from one of the loop's two regions and crashes.
    What the body reads for other values alone is among them: IREE may find that it does not need these either.
    """
    carried = len(body_jaxpr.invars) - body_nconsts
    new = _dependences(body_jaxpr, [*[0] * body_nconsts, *(1 << k for k in range(carried))])
    return {k for k, bits in enumerate(new) if not bits >> k & 1}


def _dependences(jaxpr: Jaxpr, given: Sequence[int]) -> list[int]:
    """What each result depends on, as bits, from the same of the inputs. A fusion may be lowered as what is in it."""
    depends = dict(zip(jaxpr.invars, given, strict=True))
    for eqn in jaxpr.eqns:
        bits = [depends.get(a, 0) if isinstance(a, Var) else 0 for a in eqn.inputs]
        if eqn.primitive is fusion_p:
            depends.update(zip(eqn.outputs, _dependences(eqn.params["jaxpr"].jaxpr, bits), strict=True))
        elif (together := reduce(or_, bits, 0)) != 0:
            depends.update(dict.fromkeys(eqn.outputs, together))
    return [depends.get(a, 0) if isinstance(a, Var) else 0 for a in jaxpr.outvars]


@lowering(cf.while_p)
def while_(
    ctx: Ctx, *operands: Any, cond_jaxpr: ClosedJaxpr, body_jaxpr: ClosedJaxpr, cond_nconsts: int, body_nconsts: int
) -> Any:
    kernel = as_kernel(ctx, operands)
    if not isinstance(kernel, NoKernel):
        return kernel
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    body_consts, init = rest[:body_nconsts], rest[body_nconsts:]
    module, source = ctx.module, ctx.source
    hidden = _hidden_from_iree(body_jaxpr.jaxpr, body_nconsts)
    counter = [hlo.constant(0, INDEX)] if hidden else []
    n = len(counter)

    def test(*carry: Any) -> Any:
        return lower_jaxpr(module, cond_jaxpr.jaxpr, (), (*cond_consts, *carry[n:]), source)[0]

    def body(*carry: Any) -> list[Any]:
        new = lower_jaxpr(module, body_jaxpr.jaxpr, (), (*body_consts, *carry[n:]), source)
        if not hidden:
            return new
        # The new value is made to depend on the old one: selected by a test of a counter, which is always true.
        step = hlo.add(carry[0], hlo.constant(1, INDEX))
        step = hlo.and_(step, hlo.constant(np.iinfo(np.int32).max, INDEX))
        always = hlo.compare(carry[0], hlo.constant(0, INDEX), "GE")
        for k in hidden:
            new[k] = hlo.select(always, new[k], carry[n + k])
        return [step, *new]

    module.host_loops.add(id(ctx.eqn))
    return emit_while([*counter, *init], test, body, reason=kernel.reason)[n:]


@lowering(cf.bounded_while_p)
def bounded_while(
    ctx: Ctx,
    *operands: Any,
    cond_jaxpr: ClosedJaxpr,
    body_jaxpr: ClosedJaxpr,
    cond_nconsts: int,
    body_nconsts: int,
    max_steps: int,
) -> Any:
    kernel = as_kernel(ctx, operands)
    if not isinstance(kernel, NoKernel):
        return kernel
    cond_consts, rest = operands[:cond_nconsts], operands[cond_nconsts:]
    body_consts, init = rest[:body_nconsts], rest[body_nconsts:]
    module, source = ctx.module, ctx.source
    hidden = _hidden_from_iree(body_jaxpr.jaxpr, body_nconsts)

    def test(i: Any, *carry: Any) -> Any:
        more = hlo.compare(i, hlo.constant(max_steps, INDEX), "LT")
        return hlo.and_(more, lower_jaxpr(module, cond_jaxpr.jaxpr, (), (*cond_consts, *carry), source)[0])

    def body(i: Any, *carry: Any) -> list[Any]:
        new = lower_jaxpr(module, body_jaxpr.jaxpr, (), (*body_consts, *carry), source)
        always = hlo.compare(i, hlo.constant(0, INDEX), "GE")
        for k in hidden:
            new[k] = hlo.select(always, new[k], carry[k])
        return [hlo.add(i, hlo.constant(1, INDEX)), *new]

    module.host_loops.add(id(ctx.eqn))
    return emit_while([hlo.constant(0, INDEX), *init], test, body, reason=kernel.reason)[1:]


# -- scan -----------------------------------------------------------------------------------------------------------


@lowering(cf.scan_p)
def scan(
    ctx: Ctx,
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
    if not length:
        return [*operands[num_consts:n], *(hlo.aval_full(a, 0) for a in ctx.avals_out[num_carry:])]
    kernel = as_kernel(ctx, operands)
    if not isinstance(kernel, NoKernel):
        return kernel
    consts, carry, xs = operands[:num_consts], list(operands[num_consts:n]), operands[n:]
    y_avals = jaxpr.out_avals[num_carry:]

    def apply(carry: Sequence[Any], rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        out = lower_jaxpr(ctx.module, jaxpr.jaxpr, (), (*consts, *carry, *rows), ctx.source)
        return out[:num_carry], out[num_carry:]

    unroll = max(1, min(unroll, length))
    looped = length // unroll * unroll
    if looped == unroll:  # one trip: no loop
        looped = 0
    ys: list[list[Any]] = [[] for _ in y_avals]
    if looped:
        ctx.module.host_loops.add(id(ctx.eqn))
        carry, stacked = _scan_loop(apply, carry, xs, y_avals, length, looped, unroll, reverse, kernel.reason)
        for pieces, y in zip(ys, stacked):
            pieces.append(y)
    order = range(looped, length)
    for i in (length - 1 - k for k in order) if reverse else order:
        carry, rows = apply(carry, [_static_row(x, i) for x in xs])
        for pieces, row in zip(ys, rows):
            pieces.append(hlo.reshape(row, (1, *hlo.shape_of(row))))
    return [*carry, *(_join(pieces, aval, reverse) for pieces, aval in zip(ys, y_avals))]


def _scan_loop(
    apply: Callable[..., tuple[list[Any], list[Any]]],
    carry: Sequence[Any],
    xs: Sequence[Any],
    y_avals: Sequence[ShapedArray],
    length: int,
    looped: int,
    unroll: int,
    reverse: bool,
    reason: str,
) -> tuple[list[Any], list[Any]]:
    """The first `looped` iterations as a loop of `unroll` steps a trip; ys hold the rows of these iterations."""
    n = len(carry)
    buffers = [hlo.full(0, (looped, *a.shape), a.dtype) for a in y_avals]
    offset = length - looped if reverse else 0  # the ys' first row is row `offset` of the xs

    def test(i: Any, *_: Any) -> Any:
        return hlo.compare(i, hlo.constant(looped, INDEX), "LT")

    def body(i: Any, *state: Any) -> list[Any]:
        carry, ys = list(state[:n]), list(state[n:])
        for k in range(unroll):
            step = i if k == 0 else hlo.add(i, hlo.constant(k, INDEX))
            row = hlo.subtract(hlo.constant(looped - 1, INDEX), step) if reverse else step
            source = hlo.add(row, hlo.constant(offset, INDEX)) if offset else row
            carry, rows = apply(carry, [dynamic_row(x, source) for x in xs])
            ys = [update_row(y, r, row) for y, r in zip(ys, rows)]
        return [hlo.add(i, hlo.constant(unroll, INDEX)), *carry, *ys]

    out = emit_while([hlo.constant(0, INDEX), *carry, *buffers], test, body, some_trips=True, reason=reason)[1:]
    return out[:n], out[n:]


def _static_row(x: Any, i: int) -> Any:
    shape = hlo.shape_of(x)
    zeros = [0] * (len(shape) - 1)
    return hlo.reshape(hlo.slice(x, [i, *zeros], [i + 1, *shape[1:]]), shape[1:])


def dynamic_row(x: Any, i: Any) -> Any:
    """``x[i]`` for a scalar index within bounds."""
    shape = hlo.shape_of(x)
    starts = [i, *([hlo.constant(0, INDEX)] * (len(shape) - 1))]
    row = hlo.op1(
        "stablehlo.dynamic_slice", [x, *starts], hlo.with_shape(x, (1, *shape[1:])),
        slice_sizes=hlo.i64_array((1, *shape[1:])),
    )  # fmt: skip
    return hlo.reshape(row, shape[1:])


def update_row(x: Any, row: Any, i: Any) -> Any:
    """x with row i replaced."""
    shape = hlo.shape_of(x)
    starts = [i, *([hlo.constant(0, INDEX)] * (len(shape) - 1))]
    return hlo.dynamic_update_slice(x, hlo.reshape(row, (1, *shape[1:])), starts)


def _join(pieces: Sequence[Any], aval: ShapedArray, reverse: bool) -> Any:
    if not pieces:
        return hlo.full(0, (0, *aval.shape), aval.dtype)
    pieces = pieces[::-1] if reverse else pieces
    return pieces[0] if len(pieces) == 1 else hlo.concatenate(pieces, 0)
