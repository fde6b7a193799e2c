"""Singular values by one-sided Jacobi rotations: Golub and Van Loan, "Matrix Computations" (4th ed., 2013), 8.6.3.

The rows of the matrix (of its conjugate transpose, where it has more rows than columns) are rotated until all are orthogonal:
then their lengths are the singular values and their directions the vectors of one side, while the rotations make up those of
the other. Rows that are nothing but rounding errors have no direction: a QR decomposition of the others' completes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from quire.ir import dtypes

from ..core.values import Value
from ..elements.operations import Element
from . import long
from .factors import Params
from .householder import applied, identity, reflect
from .jacobi import SWEEPS, Choice, Rotation, ranks
from .matrices import Matrix, Numbers, Place, Space


def svd(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """Singular values, descending, and the vectors where they are asked for; NaN for matrices that are not finite."""
    (source,), (values, *vectors) = ins, outs
    wide = source.rows <= source.columns
    m, n = sorted((source.rows, source.columns))
    b, dtype = s.b, source.array.dtype
    x = s.numbers(dtype)
    r = x.real_numbers
    most = s.folded(
        0, source.rows, r, r.const(0.0),
        lambda i, top: s.folded(0, source.columns, r, top, lambda j, top: b.fmax(top, x.size(source.get(i, j)))),  # type: ignore[arg-type]
    )  # fmt: skip
    bad = most * 0.0  # NaN where not all is finite
    scale = r.choose(b.cmp("oeq", most, 0.0), 1.0, most)
    turns = s.matrix(m, m, dtype)

    def scaled(i: Place, j: Place) -> Element:
        """An element of the matrix of rows that are made orthogonal."""
        return x.shrunk(source.get(i, j) if wide else x.conj(source.get(j, i)), scale)

    spread = None
    if not (vectors and params["full_matrices"]) and long.is_long(s, n, m, x):
        # Its rows are those of a square matrix, times orthonormal rows.
        g, spread = _square_of_long(s, scaled, m, n, x)
    else:
        g = s.matrix(m, n, dtype)
        s.fill(g, scaled)
    identity(s, turns, x)
    _orthogonal_rows(s, g, turns, x)

    length = s.matrix(m, 1, r.dtype)
    s.each(0, m, lambda i: length.put(b.math("sqrt", _square(s, g, x, i)) + bad, i, 0))
    place = ranks(s, length, ascending=False)
    start, stop = params["subset_by_index"] or (0, m)
    s.each(
        0, stop - start, lambda k: values.put(Choice(s, place, k + start)(r, lambda i: length.get(i, 0)) * scale, k, 0)
    )
    if not vectors:
        return
    u, vh = vectors
    nan, failed = x.const(float("nan")), b.cmp("uno", bad, bad)

    def written(to_u: bool, size: int, of: Callable[[Place], Callable[[Place], Element]]) -> None:
        """The vectors of one side: columns of u, or rows of vh. Those of the other way round are conjugated."""

        def vector(k: Place) -> None:
            item = of(k)

            def element(j: Place) -> None:
                value = x.conj(x.choose(failed, nan, item(j)), wide)
                if to_u:
                    u.put(value, j, k)
                else:
                    vh.put(value, k, j)

            s.each(0, size, element)

        s.each(0, stop - start, vector)

    def rotated(k: Place) -> Callable[[Place], Element]:
        chosen = Choice(s, place, k + start)
        return lambda j: chosen(x, lambda i: turns.get(i, j))

    written(wide, m, rotated)
    if params["full_matrices"]:
        start, stop = 0, n
    q = _directions(s, g, length, place, x, n if params["full_matrices"] else m)
    if spread is not None:
        q = spread(q)
    written(not wide, n, lambda k: lambda j: q.get(j, k + start))


def _square_of_long(
    s: Space, row: Callable[[Place, Place], Element], m: int, n: int, x: Numbers
) -> tuple[Matrix, Callable[[Matrix], Matrix]]:
    """A matrix of long rows as (square matrix, function): the singular values of both are the same, and the function gives
    the vectors of length n of those of length m."""
    a = long.columns_of(s, n, m, x, lambda i, j: x.conj(row(j, i)))
    taus = s.matrix(m, 1, x.dtype)
    long.reflect(s, a, taus, x)
    g = s.matrix(m, m, x.dtype)
    s.fill(g, lambda i, j: x.const(0.0))
    s.each(0, m, lambda i: s.each(0, i + 1, lambda j: g.put(x.conj(a.get(i, j)), i, j)))

    def spread(vectors: Matrix) -> Matrix:
        q = long.applied(s, a, taus, x)
        out = s.matrix(m, n, x.dtype)

        def vector(k: Place) -> None:
            def run(i: Place) -> None:
                def turn(j: Place, total: Element) -> Element:
                    return x.add(total, x.mul(s.e.lift(vectors.get(j, k), x.dtype, q.step), q.run(j, i)))

                out.put_run(s.folded(0, m, x, s.e.lift(0.0, x.dtype, q.step), turn, q.step), k, i)

            s.runs(out, 0, run)

        s.each(0, m, vector)
        return out.transposed

    return g, spread


def _square(s: Space, g: Matrix, x: Numbers, i: Place) -> Value:
    r = x.real_numbers
    return s.folded(0, g.columns, r, r.const(0.0), lambda j, total: r.add(total, x.square(g.get(i, j))))


def _orthogonal_rows(s: Space, g: Matrix, turns: Matrix, x: Numbers) -> None:
    """Rotate pairs of rows until a sweep finds none that are not orthogonal to working precision."""
    m, n, b, r = g.rows, g.columns, s.b, x.real_numbers
    if m == 1:
        return
    eps = float(np.finfo(r.dtype).eps)

    def pair(p: Place, q: Place, changed: Value) -> Sequence[Value]:
        # The rows' own products, and the one of both.
        def product(j: Place, *parts: Value) -> Sequence[Value]:
            first, second = g.get(p, j), g.get(q, j)
            cross = s.e.parts(x.mul(first, x.conj(second)), x.dtype, s.lanes)
            both = [x.square(first), x.square(second), *cross]
            return [total + item for total, item in zip(parts, both)]

        zero = r.const(0.0)
        assert isinstance(zero, Value)
        pp, qq, *cross = s.each(0, n, product, [zero, zero, *s.e.parts(0.0, x.dtype, s.lanes)])
        pq = s.e.joined(cross)
        limit = b.math("sqrt", pp) * b.math("sqrt", qq) * (eps * n**0.5)
        least = b.fmin(pp, qq)
        large = b.cmp("ogt", x.size(pq), limit) & b.cmp("ogt", least, (0.1 * eps) ** 2)
        small = b.cmp("eq", large, 0)
        rotation = Rotation.of(x, pp, qq, pq, small)
        rotation.rows(g, p, q)
        rotation.rows(turns, p, q)
        return [r.choose(large, 1.0, changed)]

    def sweep(p: Place, changed: Value) -> Sequence[Value]:
        return s.each(p + 1, m, lambda q, changed: pair(p, q, changed), [changed])

    with b.while_([b.index(0), b.const(1.0, "f64" if r.dtype == dtypes.float64 else "f32")]) as loop:
        count, some = loop.before
        loop.condition(b.cmp("ogt", some, 0.0) & b.cmp("slt", count, SWEEPS), count, some)
        (changed,) = s.each(0, m, sweep, [r.const(0.0)])  # type: ignore[list-item]
        loop.yield_(loop.after[0] + 1, b.reduce("maximumf", changed) if s.lanes else changed)


def _directions(s: Space, g: Matrix, length: Matrix, place: Matrix, x: Numbers, columns: int) -> Matrix:
    """Orthonormal columns: conjugates of the rows' directions in their order, completed to so many."""
    m, n, b, r = g.rows, g.columns, s.b, x.real_numbers
    eps = float(np.finfo(r.dtype).eps)
    largest = s.folded(0, m, r, r.const(0.0), lambda i, top: b.fmax(top, length.get(i, 0)))  # type: ignore[arg-type]
    least = b.fmax(largest * eps, r.const(float(np.finfo(r.dtype).tiny)))  # type: ignore[arg-type]
    a = s.matrix(n, m, g.array.dtype)

    def column(k: Place) -> None:
        chosen = Choice(s, place, k)
        size = chosen(r, lambda i: length.get(i, 0))
        small = b.cmp("ule", size, least)
        divisor = r.choose(small, 1.0, size)

        def element(j: Place) -> None:
            item: Element = x.shrunk(x.conj(chosen(x, lambda i: g.get(i, j))), divisor)
            a.put(x.choose(small, 0.0, item), j, k)

        s.each(0, n, element)

    s.each(0, m, column)
    taus = s.matrix(m, 1, g.array.dtype)
    reflect(s, a, taus)
    q = s.matrix(n, columns, g.array.dtype)
    applied(s, a, taus, q)

    # A reflection turns some of them round: r's diagonal is 1 or -1, or 0 where there was no direction.
    def turned(k: Place) -> None:
        backwards = b.cmp("olt", x.real(a.get(k, k)), 0.0)
        s.each(0, n, lambda j: q.put(x.choose(backwards, x.neg(q.get(j, k)), q.get(j, k)), j, k))

    s.each(0, m, turned)
    return q
