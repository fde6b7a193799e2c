"""Solution of tridiagonal systems: elimination with exchanges of neighbouring rows, as LAPACK's ``gtsv``.

Source: Golub and Van Loan, "Matrix Computations" (4th ed., 2013), 4.3: an exchange fills one more diagonal above.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..core.values import Value
from .factors import Params
from .matrices import Matrix, Place, Space


def tridiagonal_solve(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """The solutions of one matrix for all columns; NaN where it is singular."""
    (lower, diagonal, upper, right), (out,) = ins, outs
    n, b, x = right.rows, s.b, s.numbers(right.array.dtype)
    r, zero = x.real_numbers, x.const(0.0)
    # The rows of U: pivots and two diagonals above, which end with zeros; two more rows of the solution, which they meet.
    pivots, first, second = (s.matrix(n, 1, right.array.dtype) for _ in range(3))
    solution = s.matrix(n + 2, right.columns, right.array.dtype)

    def begin(i: Place) -> None:
        pivots.put(diagonal.get(i, 0), i, 0)
        s.each(0, right.columns, lambda j: solution.put(right.get(i, j), i, j))

    s.each(0, n, begin)
    s.each(0, n - 1, lambda i: first.put(upper.get(i, 0), i, 0))
    first.put(zero, n - 1, 0)
    second.put(zero, n - 1, 0)
    for i in (n, n + 1):
        s.each(0, right.columns, lambda j, i=i: solution.put(zero, i, j))

    def eliminate(k: Place, least: Value) -> Sequence[Value]:
        below = lower.get(k + 1, 0)
        pivot, above = pivots.get(k, 0), first.get(k, 0)
        next_pivot, next_above = pivots.get(k + 1, 0), first.get(k + 1, 0)
        exchanged = b.cmp("ult", x.size(pivot), x.size(below))
        top = x.choose(exchanged, below, pivot)
        factor = x.div(x.choose(exchanged, pivot, below), top)
        filled = x.choose(exchanged, next_above, zero)
        up = x.choose(exchanged, next_pivot, above)
        pivots.put(top, k, 0)
        first.put(up, k, 0)
        second.put(filled, k, 0)
        pivots.put(x.sub(x.choose(exchanged, above, next_pivot), x.mul(factor, up)), k + 1, 0)
        first.put(x.sub(x.choose(exchanged, zero, next_above), x.mul(factor, filled)), k + 1, 0)

        def run(j: Place) -> None:
            here, there = solution.run(k, j), solution.run(k + 1, j)
            upper_one = x.choose(exchanged, there, here)
            solution.put_run(upper_one, k, j)
            solution.put_run(x.sub(x.choose(exchanged, here, there), x.mul(factor, upper_one)), k + 1, j)

        s.runs(solution, 0, run)
        return [_smaller(s, least, x.size(top))]

    (least,) = s.each(0, n - 1, eliminate, [r.const(1.0)])  # type: ignore[list-item]
    if n > 1:
        least = _smaller(s, least, x.size(pivots.get(n - 1, 0)))
    singular, nan = b.cmp("oeq", least, 0.0), x.const(float("nan"))

    def row(i: Place) -> None:
        def run(j: Place) -> None:
            known = x.mul(first.get(i, 0), solution.run(i + 1, j))
            known = x.add(known, x.mul(second.get(i, 0), solution.run(i + 2, j)))
            solution.put_run(x.div(x.sub(solution.run(i, j), known), pivots.get(i, 0)), i, j)

        s.runs(solution, 0, run)

    s.each(0, n, row, down=True)
    s.fill(out, lambda i, j: x.choose(singular, nan, solution.get(i, j)))


def _smaller(s: Space, x: Value, y: Value) -> Value:
    """The smaller of two numbers, x where y is NaN."""
    return s.b.select(s.b.cmp("olt", y, x), y, x)
