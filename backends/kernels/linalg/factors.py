"""Cholesky and LU factors, and solution with triangular matrices: row by row.

Sources: Golub and Van Loan, "Matrix Computations" (4th ed., 2013): outer-product Cholesky 4.2, Gaussian elimination with
partial pivoting 3.4, substitution 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quire.ir import dtypes

from ..core.values import Value
from ..elements.operations import Element
from .matrices import Matrix, Numbers, Place, Space

Params = Mapping[str, Any]


def cholesky(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """The lower factor, NaN on and below the diagonal where the matrix is not positive definite."""
    (a,), (out,) = ins, outs
    n, b, dtype = a.rows, s.b, a.array.dtype
    x = s.numbers(dtype)
    r = x.real_numbers
    # The upper factor: its rows are what lies together. Only the lower triangle of a is read.
    u = s.matrix(n, n, dtype)
    s.fill(u, lambda i, j: x.conj(a.get(j, i)), lambda i: i)

    def step(k: Place, state: Value) -> Sequence[Value]:
        pivot = x.real(u.get(k, k))
        root = b.math("sqrt", pivot)
        s.runs(u, k, lambda j: u.put_run(x.shrunk(u.run(k, j), root), k, j))
        u.put(x.of_real(root), k, k)  # exactly real

        def below(i: Place) -> None:
            factor = x.conj(u.get(k, i))
            s.runs(u, i, lambda j: u.put_run(x.sub(u.run(i, j), x.mul(factor, u.run(k, j))), i, j))

        s.each(k + 1, n, below)
        return [r.choose(b.cmp("ole", pivot, 0.0), -1.0, state)]  # as LAPACK: NaN goes on

    (state,) = s.each(0, n, step, [r.const(1.0)])  # type: ignore[list-item]
    failed, nan, zero = b.cmp("olt", state, 0.0), x.const(float("nan")), x.const(0.0)

    def row(i: Place) -> None:
        s.each(0, i + 1, lambda j: out.put(x.choose(failed, nan, x.conj(u.get(j, i))), i, j))
        s.each(i + 1, n, lambda j: out.put(zero, i, j))

    s.each(0, n, row)


def lu(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """Elimination with exchanges of rows: the factors, the row that each was exchanged with, the order of the rows."""
    (source,), (out, pivots, order) = ins, outs
    m, n, b, dtype = source.rows, source.columns, s.b, source.array.dtype
    x, places = s.numbers(dtype), s.numbers(dtypes.int32)
    r = x.real_numbers
    a = s.matrix(m, n, dtype)
    s.fill(a, source.get)
    number = s.matrix(m, 1, dtypes.int32)
    s.each(0, m, lambda i: number.put(_number(s, i), i, 0))

    def step(k: Place) -> None:
        def larger(i: Place, best: Value, where: Value) -> list[Value]:
            size = x.size(a.get(i, k))
            wins = b.cmp("ogt", size, best)  # a NaN never does
            return [r.choose(wins, size, best), places.choose(wins, _number(s, i), where)]

        init = [r.const(-1.0), _number(s, k)]
        _, p = s.each(k, m, larger, init)  # type: ignore[arg-type]
        pivots.put(p, k, 0)
        _exchange(s, a, x, k, p)
        _exchange(s, number, places, k, p)
        pivot = a.get(k, k)
        zero = b.cmp("oeq", x.size(pivot), 0.0)
        divisor = x.choose(zero, 1.0, pivot)

        def below(i: Place) -> None:
            factor = x.div(a.get(i, k), divisor)
            a.put(factor, i, k)
            s.runs(a, k + 1, lambda j: a.put_run(x.sub(a.run(i, j), x.mul(factor, a.run(k, j))), i, j))

        s.each(k + 1, m, below)

    s.each(0, min(m, n), step)
    s.fill(out, a.get)
    s.each(0, m, lambda i: order.put(number.get(i, 0), i, 0))


def _number(s: Space, i: Place) -> Element:
    """An index as int32, in each lane."""
    return s.e.lift(i if isinstance(i, int) else s.b.cast(i, "i32"), dtypes.int32, s.lanes)


def _exchange(s: Space, a: Matrix, x: Numbers, k: Place, p: Value) -> None:
    """Exchange row k with row p >= k."""
    if s.by_selection(a.rows):

        def column(j: Place) -> None:
            old = a.get(k, j)

            def row(i: Place, new: Element) -> Element:
                item, hit = a.get(i, j), s.b.cmp("eq", p, _number(s, i))  # type: ignore[arg-type]
                a.put(x.choose(hit, old, item), i, j)
                return x.choose(hit, item, new)

            a.put(s.folded(k + 1, a.rows, x, old, row), k, j)

        s.each(0, a.columns, column)
        return
    to = s.b.cast(p, "index")

    def run(j: Place) -> None:
        upper, lower = a.run(k, j), a.run(to, j)
        a.put_run(lower, k, j)
        a.put_run(upper, to, j)

    s.runs(a, 0, run)


def pivots_to_permutation(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """The order of rows after exchanges, one after another."""
    (pivots,), (out,) = ins, outs
    places = s.numbers(dtypes.int32)
    number = s.matrix(out.rows, 1, dtypes.int32)
    s.each(0, out.rows, lambda i: number.put(_number(s, i), i, 0))
    s.each(0, pivots.rows, lambda k: _exchange(s, number, places, k, pivots.get(k, 0)))
    s.each(0, out.rows, lambda i: out.put(number.get(i, 0), i, 0))


def triangular_solve(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """Substitution, a row of the solution after the other."""
    (a, b), (out,) = ins, outs
    transposed, lower = params["transpose_a"], params["lower"]
    if not params["left_side"]:  # x op(a) = b is op(a)^T x^T = b^T
        b, out, transposed = b.transposed, out.transposed, not transposed
    if transposed:
        a, lower = a.transposed, not lower
    n, x = b.rows, s.numbers(b.array.dtype)
    solution = s.matrix(n, b.columns, b.array.dtype)
    s.fill(solution, b.get)
    if s.lanes and b.columns > 1:  # its elements are read once for each column
        copy = s.matrix(n, n, a.array.dtype)
        s.fill(copy, a.get)
        a = copy

    def row(i: Place) -> None:
        def run(j: Place) -> None:
            def known(k: Place, total: Element) -> Element:
                factor = x.conj(a.get(i, k), params["conjugate_a"])
                return x.sub(total, x.mul(factor, solution.run(k, j)))

            start, stop = (0, i) if lower else (i + 1, n)
            total = s.folded(start, stop, x, solution.run(i, j), known, solution.step)
            if not params["unit_diagonal"]:
                total = x.div(total, x.conj(a.get(i, i), params["conjugate_a"]))
            solution.put_run(total, i, j)

        s.runs(solution, 0, run)

    s.each(0, n, row, down=not lower)
    s.fill(out, solution.get)
