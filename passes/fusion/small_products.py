"""Many small products of a vector as multiplications and sums: rotations of points by a matrix each, inner products of pairs.

IREE computes one such product after the other. As elementwise equations and a reduction they are a cluster like any other: its
vectors go over many of them, and their neighbours are part of it. 10000 matrices of 3x3 by a vector each take 0.25 of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

#: Sums of so many products, at most; so many of them, at least; so many multiplications for each.
MOST_SUMMED, LEAST_PRODUCTS, MOST_WORK = 8, 256, 64
#: Dtypes in which a product is rounded as it is within a sum of products.
_DTYPES = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64)


def with_small_products(jaxpr: Jaxpr, least: int) -> Jaxpr:
    """The jaxpr with such products, of `least` multiplications or more, as multiplications and sums."""
    if not any(e.primitive is ct.dot_general_p for e in jaxpr.eqns):
        return jaxpr
    eqns = [new for e in jaxpr.eqns for new in _steps(e, least)]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns) if len(eqns) > len(jaxpr.eqns) else jaxpr


def _steps(e: Eqn, least: int) -> list[Eqn]:
    """The equations of a product; it itself where it is no such product."""
    if e.primitive is not ct.dot_general_p or (shape := _shape(e, least)) is None:
        return [e]
    full, lhs, rhs, summed = shape
    (out,), dtype = e.outputs, e.inputs[0].aval.dtype
    steps: list[Eqn] = []

    def emit(inputs: Sequence[Atom], primitive: object, **params: object) -> Var:
        to = Var(out.aval.update(shape=full, dtype=dtype))
        steps.append(Eqn(inputs, [to], primitive, params, source=e.source))  # type: ignore[arg-type]
        return to

    x, y = (
        a if a.aval.shape == full else emit([a], st.broadcast_in_dim_p, shape=full, broadcast_dimensions=dims)
        for a, dims in zip(e.inputs, (lhs, rhs))
    )
    product = emit([x, y], ew.mul_p)
    return [*steps, Eqn([product], [out], rd.reduce_sum_p, {"axes": (summed,)}, source=e.source)]


_Shape = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]


def _shape(e: Eqn, least: int) -> _Shape | None:
    """The shape of all multiplications, the dimensions of it that each operand has, in order, and the one that is summed.

    None where the product is another, or where an operand would have to be transposed.
    """
    numbers: tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]] = e.params[
        "dimension_numbers"
    ]
    (lc, rc), (lb, rb) = numbers
    x, y = (a.aval for a in e.inputs)
    n = len(lb)
    if x.dtype not in _DTYPES or e.outputs[0].aval.dtype != x.dtype or y.dtype != x.dtype:
        return None
    if len(lc) != 1 or not n or tuple(lb) != tuple(range(n)) or tuple(rb) != tuple(range(n)):
        return None
    size, many = x.shape[lc[0]], math.prod(x.shape[:n])
    left, right = (
        tuple(d for d in range(n, a.ndim) if d != c) for a, c in ((x, lc[0]), (y, rc[0]))
    )  # the free dimensions
    free, a, c = (left, x, lc[0]) if left else (right, y, rc[0])
    work = size * math.prod(a.shape[d] for d in free)
    if (
        left
        and right
        or not 1 < size <= MOST_SUMMED
        or many < LEAST_PRODUCTS
        or work > MOST_WORK
        or many * work < least
    ):
        return None
    # Of the matrices all dimensions are there, of the vectors all but the free ones.
    vectors = tuple(d for d in range(a.ndim) if d not in free)
    every = tuple(range(a.ndim))
    return a.shape, every if left else vectors, vectors if left else every, c
