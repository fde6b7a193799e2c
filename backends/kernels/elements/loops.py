"""Loops inside the formulas of elementwise primitives (series, continued fractions), on the lanes of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from quire.ir.jaxpr import Eqn

from ..core.values import Value, lanes

if TYPE_CHECKING:
    from .operations import Element, Elements


def while_loop(e: Elements, eqn: Eqn, args: Sequence[Element], width: int) -> list[Element]:
    """A ``while`` of single elements: it goes on while any lane does.

    So do the formulas outside of kernels, with all elements in the place of lanes: their steps keep what has converged.
    """
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    test_consts, consts, init = args[:n], args[n : n + m], args[n + m :]
    test, body = p["cond_jaxpr"].jaxpr, p["body_jaxpr"].jaxpr
    types = [v.aval.dtype for v in eqn.outputs]
    sizes = [len(e.parts(x, d, width)) for x, d in zip(init, types)]

    def joined(values: Sequence[Value]) -> list[Element]:
        rest = iter(values)
        return [e.joined([next(rest) for _ in range(k)]) for k in sizes]

    def parted(xs: Sequence[Element]) -> list[Value]:
        return [part for x, d in zip(xs, types) for part in e.parts(x, d, width)]

    with e.b.while_(parted(init)) as loop:
        (going,) = e.evaluate(test, [*test_consts, *joined(loop.before)])
        going = e.parts(going, test.outvars[0].aval.dtype)[0]
        loop.condition(e.b.reduce("or", going) if lanes(going.type) else going, *loop.before)
        loop.yield_(*parted(e.evaluate(body, [*consts, *joined(loop.after)])))
    return joined(loop.results)
