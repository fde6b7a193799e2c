"""Cumulative operations on lazy arrays: a running total goes along the dimension, vectors run along another one."""

from __future__ import annotations

from typing import Any

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.primitive import Primitive
from quire.ir.primitives import reductions as rd

from ..core.errors import NoKernel
from ..elements.monoids import neutral
from ..elements.operations import HALF, Element, width_of
from .nests import Piece
from .nodes import Ix, Node, Reader, Vec
from .programs import Program, rule


def _cumulative(combine: Primitive) -> Any:
    def apply(program: Program, eqn: Eqn, x: Node) -> list[Node]:
        axis, reverse = eqn.params["axis"], eqn.params["reverse"]
        if dtypes.is_bool(x.dtype) or dtypes.is_complex(x.dtype) and combine.name in ("max", "min"):
            raise NoKernel(f"{eqn.primitive.name} of {x.dtype}")
        e, b, nests, to = program.elements, program.b, program.nests, program.wanted(eqn.outputs[0])
        wide = dtypes.float32 if x.dtype in HALF else x.dtype
        others = [d for d in range(len(x.shape)) if d != axis]
        along = others[-1] if others and x.shape[others[-1]] > 1 else None
        size = 1 if along is None else x.shape[along]
        lanes = min(nests.lanes([x]), 1 << (size.bit_length() - 1))
        nests.work += nests.trips * (x.cost + 4) * x.size / lanes

        def column(at: list[Ix], vec: Vec | None) -> None:
            width = vec.width if vec is not None else 0
            init = e.parts(neutral(combine, wide), wide, width)
            with b.for_(0, x.shape[axis], 1, init) as loop:
                i = b.index(x.shape[axis] - 1) - loop.index if reverse else loop.index
                here = tuple(Ix.of(i) if d == axis else place for d, place in enumerate(at))
                item: Element = e.lift(Reader(e)(x, here, vec), x.dtype, width)
                item = e.convert(item, x.dtype, wide)
                total = e.apply(combine, {}, (wide, wide), wide, (e.joined(loop.carried), item))
                to.write(e, e.convert(e.lift(total, wide, width_of(total)), wide, x.dtype), here, vec)
                loop.yield_(*e.parts(total, wide, width))

        with nests.loops(x.shape, [d for d in others if d != along]) as index:

            def emit(piece: Piece) -> None:
                for k in range(piece.count):
                    at = list(index)
                    if along is not None:
                        at[along] = piece.start + k * piece.width
                    column(at, Vec(along, piece.width) if along is not None and piece.width else None)

            nests.pieces(size, lanes, 1, emit)
        return [to]

    return apply


for _p in (rd.cumsum_p, rd.cumprod_p, rd.cummax_p, rd.cummin_p):
    assert _p.combine is not None
    rule(_p)(_cumulative(_p.combine))
