"""Loops and branches on tiles: carried arrays are values that go from iteration to iteration in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..core.errors import NoKernel
from ..core.values import Operand, Value
from ..lazy.nodes import Array, Ix, Node, row
from ..lazy.schedule import branches, chosen
from . import rules as rules  # imported for its rules
from .interpreter import MOST_ELEMENTS, Form, Interpreter, RegisterArray, lane_of, rule

#: Scans of so many steps inside a kernel are written out.
UNROLLED = 8


def flatten(it: Interpreter, tiles: Sequence[Node], forms: Sequence[Form]) -> list[Value]:
    """The values of carried arrays."""
    return [v for t, form in zip(tiles, forms) for v in it.values_of(it.in_registers(t), form.lane)]


def unflatten(it: Interpreter, values: Sequence[Value], forms: Sequence[Form]) -> list[RegisterArray]:
    """The arrays that are made of these values."""
    rest = iter(values)
    return [it.tile_of(rest, form) for form in forms]


def stable_forms(it: Interpreter, init: Sequence[Node], step: Any) -> list[Form]:
    """The forms of carried arrays: an array that is without lanes at first may come back with them.

    `step` maps carried arrays to the next ones.
    """
    forms = [_initial(it, x) for x in init]
    while it.space is not None and forms:
        with it.b.discarded():
            out = step([it.placeholder(f) for f in forms])
        new = [f if x.lane is None or f.lane is not None else Form.of(x) for f, x in zip(forms, out, strict=True)]
        if new == forms:
            break
        forms = new
    return forms


def _initial(it: Interpreter, x: Node) -> Form:
    """The form that an initial value would have: one number for more elements than registers hold goes into lanes."""
    if it.space is None or x.lane is not None or math.prod(x.shape) <= MOST_ELEMENTS:
        return Form.of(x)
    return Form(x.shape, x.dtype, lane_of(x.shape, it.space.shape))


@rule(cf.while_p, cf.bounded_while_p)
def while_loop(it: Interpreter, eqn: Eqn, *args: Node) -> list[RegisterArray]:
    """A loop whose carried arrays go from turn to turn in registers, with the number of turns where that is bounded."""
    n, m = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    test_consts, consts, init = args[:n], args[n : n + m], args[n + m :]
    test, body, most = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr, eqn.params.get("max_steps")
    own = most is None and ends_by_lane(test, n, body, m)
    it.any_of_own = False
    b, counted = it.b, 0 if most is None else 1

    def step(carry: Sequence[Node]) -> Sequence[Node]:
        return it.run(body, [*consts, *carry])

    forms = stable_forms(it, init, step)
    with b.while_([*[b.index(0)] * counted, *flatten(it, init, forms)]) as loop:
        it.any_of_own = own
        (going,) = it.run(test, [*test_consts, *unflatten(it, loop.before[counted:], forms)])
        it.any_of_own = False
        condition = it.elements.lift(it.element(going), dtypes.bool_)
        assert isinstance(condition, Value)
        if most is not None:
            condition = condition & b.cmp("slt", loop.before[0], most)
        loop.condition(condition, *loop.before)
        values = flatten(it, step(unflatten(it, loop.after[counted:], forms)), forms)
        loop.yield_(*(x + 1 for x in loop.after[:counted]), *values)
    return unflatten(it, loop.results[counted:], forms)


def ends_by_lane(test: Jaxpr, test_consts: int, body: Jaxpr, consts: int) -> bool:
    """Whether a loop goes on while any lane does, and changes nothing of lanes that have ended.

    This is what vectorisation makes of a loop: the condition is "any of a carried flag", and the body selects the old
    values where the flag is off. A workgroup may then look at its own lanes only.
    """
    if (
        len(test.eqns) != 1
        or test.eqns[0].primitive is not rd.reduce_or_p
        or test.outvars[0] not in test.eqns[0].outputs
    ):
        return False
    flag = test.eqns[0].inputs[0]
    carry = list(test.invars[test_consts:])
    if flag not in carry or not dtypes.is_bool(flag.aval.dtype):
        return False
    olds = body.invars[consts:]
    old_flag = olds[carry.index(flag)]  # type: ignore[arg-type]
    made = {v: eqn for eqn in body.eqns for v in eqn.outputs}
    for old, new in zip(olds, body.outvars):
        if new is old:
            continue
        eqn = made.get(new)  # type: ignore[arg-type]
        if eqn is None:
            return False
        if old is old_flag:
            if eqn.primitive is not ew.and_p or old_flag not in eqn.inputs:
                return False
        elif eqn.primitive is not ew.select_n_p or eqn.inputs[1] is not old:
            return False
        elif eqn.inputs[0] is not old_flag and not _repeats(made.get(eqn.inputs[0]), old_flag):  # type: ignore[arg-type]
            return False
    return True


def _repeats(eqn: Eqn | None, flag: Var) -> bool:
    """Whether an equation repeats a flag along dimensions after its own: several numbers of each lane."""
    return (
        eqn is not None
        and eqn.primitive is st.broadcast_in_dim_p
        and eqn.inputs[0] is flag
        and eqn.params["broadcast_dimensions"] == tuple(range(flag.aval.ndim))
        and eqn.params["shape"][: flag.aval.ndim] == flag.aval.shape
    )


@rule(cf.scan_p)
def scan(it: Interpreter, eqn: Eqn, *args: Node) -> list[RegisterArray]:
    """A scan inside a body: unrolled if short, or a loop if it neither reads rows of tiles nor stacks rows."""
    p = eqn.params
    n, length = p["num_consts"] + p["num_carry"], p["length"]
    consts, carry, xs = args[: p["num_consts"]], list(args[p["num_consts"] : n]), args[n:]
    stacks = len(eqn.outputs) > p["num_carry"]
    if length > UNROLLED and not stacks and all(isinstance(x, Array) for x in xs):
        return scan_into(it, eqn, args, [])
    if length > 4 * UNROLLED:
        raise NoKernel(f"a scan of {length} steps over arrays in registers")
    rows: list[list[Node]] = []
    order = range(length - 1, -1, -1) if p["reverse"] else range(length)
    for i in order:
        out = it.run(p["jaxpr"].jaxpr, [*consts, *carry, *(row(x, Ix((), i)) for x in xs)])
        carry, ys = list(out[: p["num_carry"]]), out[p["num_carry"] :]
        rows.append(list(ys))
    if p["reverse"]:
        rows.reverse()
    if stacks and not rows:
        raise NoKernel("a scan of no steps")
    stacked = [
        _stacked(it, [it.in_registers(row[k]) for row in rows]) for k in range(len(eqn.outputs) - p["num_carry"])
    ]
    return [*(it.in_registers(c) for c in carry), *stacked]


def _stacked(it: Interpreter, rows: Sequence[RegisterArray]) -> RegisterArray:
    tiles, lane = it.same_lanes(rows)
    if lane is not None:
        tiles = [it.in_lanes(t, lane) for t in tiles]
    data = np.stack([it.full(t) for t in tiles])
    return RegisterArray((len(rows), *rows[0].shape), rows[0].dtype, data, lane and (lane[0] + 1, lane[1]))


def scan_into(it: Interpreter, eqn: Eqn, args: Sequence[Node], ys_to: Sequence[Array]) -> list[RegisterArray]:
    """A scan as a loop: the final carry; rows of ys are stored in `ys_to`, rows of xs read from memory."""
    p = eqn.params
    n, length = p["num_consts"] + p["num_carry"], p["length"]
    consts, init, xs = args[: p["num_consts"]], args[p["num_consts"] : n], args[n:]
    body, b = p["jaxpr"].jaxpr, it.b

    def step(i: Operand, carry: Sequence[Node]) -> list[Node]:
        return it.run(body, [*consts, *carry, *(row(x, Ix.of(i)) for x in xs)])

    if not all(isinstance(x, Array) for x in xs):
        raise NoKernel("a scan over arrays in registers")
    forms = stable_forms(it, init, lambda carry: step(b.index(0), carry)[: p["num_carry"]])
    with b.for_(0, length, 1, flatten(it, init, forms)) as loop:
        i = b.index(length - 1) - loop.index if p["reverse"] else loop.index
        out = step(i, unflatten(it, loop.carried, forms))
        for y, to in zip(out[p["num_carry"] :], ys_to, strict=True):
            place = row(to, Ix.of(i))
            assert isinstance(place, Array)
            it.store(y, place)
        if forms:
            loop.yield_(*flatten(it, out[: p["num_carry"]], forms))
    return unflatten(it, loop.results, forms)


@rule(cf.cond_p)
def cond(it: Interpreter, eqn: Eqn, index: Node, *args: Node) -> Sequence[Node]:
    """The branch that a scalar chooses, as ``scf.if``. Raises NoKernel where lanes choose."""
    jaxprs, which = branches(it, eqn, index)
    if which is None:
        return it.run(jaxprs[0], args)
    forms: list[Form] = []
    for branch in jaxprs:
        with it.b.discarded():
            found = [Form.of(x) for x in it.run(branch, args)]
        forms = [b if a.lane is None else a for a, b in zip(forms or found, found)]
    types = [t for form in forms for t in it.types_of(form)]
    values = chosen(it.b, which, types, len(jaxprs) - 1, lambda k: flatten(it, it.run(jaxprs[k], args), forms))
    return unflatten(it, values, forms)
