"""Cumulative operations on lazy arrays: a running total goes along the dimension, vectors run along another one."""

from __future__ import annotations

from typing import Any

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives import reductions as rd

from ..core.errors import NoKernel
from ..elements.monoids import accumulated, neutral
from ..elements.operations import Element, width_of
from .nodes import Ix, Node, Reader, Vec
from .programs import Program, rule


def _cumulative(combine: Primitive) -> Any:
    def apply(program: Program, eqn: Eqn, x: Node) -> list[Node]:
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        if dtypes.is_bool(x.dtype) or dtypes.is_complex(x.dtype) and combine.name in ("max", "min"):
            raise NoKernel(f"{eqn.primitive.name} of {x.dtype}")
        e, b, to = program.elements, program.b, program.wanted(eqn.outputs[0])
        wide = accumulated(combine, x.dtype)

        def column(at: list[Ix], vec: Vec | None, width: int) -> None:
            init = e.parts(neutral(combine, wide), wide, width)
            with b.for_(0, x.shape[axis], 1, init) as loop:
                i = b.index(x.shape[axis] - 1) - loop.index if reverse else loop.index
                here = tuple(Ix.of(i) if d == axis else place for d, place in enumerate(at))
                item: Element = e.lift(Reader(e)(x, here, vec), x.dtype, width)
                item = e.convert(item, x.dtype, wide)
                total = e.binary(combine, wide, e.joined(loop.carried), item)
                to.write(e, e.convert(e.lift(total, wide, width_of(total)), wide, x.dtype), here, vec)
                loop.yield_(*e.parts(total, wide, width))

        program.nests.columns(x, axis, column)
        return [to]

    return apply


for _p in (rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p):
    assert _p.combine is not None
    rule(_p)(_cumulative(_p.combine))
