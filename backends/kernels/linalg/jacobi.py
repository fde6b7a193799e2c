"""Eigenvalues of Hermitian matrices by Jacobi's rotations: Golub and Van Loan, "Matrix Computations" (4th ed., 2013), 8.5.

Cyclic by rows. A sweep rotates every pair once; sweeps end when nothing is left off the diagonal that would change it, of
all matrices that are computed at a time, or after `SWEEPS` of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quire.ir import dtypes

from ..core.values import Value
from ..elements.operations import Element
from .factors import Params
from .householder import identity
from .matrices import Matrix, Numbers, Place, Space

#: The most sweeps; some six are usual.
SWEEPS = 30


def eigh(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """Eigenvectors as columns, and eigenvalues, ascending; NaN for matrices that are not finite."""
    (source,), (vectors, values) = ins, outs
    n, b, dtype, lower = source.rows, s.b, source.array.dtype, params["lower"]
    x = s.numbers(dtype)
    r = x.real_numbers
    a, v = s.matrix(n, n, dtype), s.matrix(n, n, dtype)

    # The whole matrix from one triangle; its diagonal is real. 0 times all of it is 0, or NaN where it is not finite.
    def row(i: Place, bad: Value) -> Sequence[Value]:
        def element(j: Place, bad: Value) -> Sequence[Value]:
            item = source.get(i, j) if lower else source.get(j, i)
            a.put(item if lower else x.conj(item), i, j)
            a.put(x.conj(item) if lower else item, j, i)
            return [bad + x.size(item) * 0.0]

        (bad,) = s.each(0, i, element, [bad])
        diagonal = x.real(source.get(i, i))
        a.put(x.of_real(diagonal), i, i)
        return [bad + diagonal * 0.0]

    (bad,) = s.each(0, n, row, [r.const(0.0)])  # type: ignore[list-item]
    identity(s, v, x)
    _sweeps(s, a, v, x)
    eigenvalue = s.matrix(n, 1, dtypes.real_dtype(dtype))
    s.each(0, n, lambda i: eigenvalue.put(x.real(a.get(i, i)) + bad, i, 0))
    # How many come before each: its place. Row i of v is the conjugate of an eigenvector.
    place = s.matrix(n, 1, dtypes.int32)
    i32 = s.numbers(dtypes.int32)
    one, none = i32.const(1), i32.const(0)

    def ranked(i: Place) -> None:
        mine = eigenvalue.get(i, 0)

        def before(order: str) -> object:
            def count(j: Place, total: Element) -> Element:
                return i32.add(total, i32.choose(b.cmp(order, eigenvalue.get(j, 0), mine), one, none))

            return count

        total = s.folded(0, i, i32, none, before("ole"))  # type: ignore[arg-type]
        place.put(s.folded(i + 1, n, i32, total, before("olt")), i, 0)  # type: ignore[arg-type]

    s.each(0, n, ranked)
    start, stop = params["subset_by_index"] or (0, n)

    def result(k: Place) -> None:
        # The one whose place is k: chosen by comparing, since each lane has its own.
        at = s.b.cast(s.b.index(k) + start, "i32")
        wanted = s.e.lift(at, dtypes.int32, s.lanes)

        def pick(column: Matrix, numbers: Numbers, to: Place, j: Place, first: Element) -> Element:
            return s.folded(
                0, n, numbers, first,
                lambda i, found: numbers.choose(b.cmp("eq", place.get(i, 0), wanted), column.get(i, j), found),
            )  # fmt: skip

        values.put(pick(eigenvalue, r, k, 0, r.const(float("nan"))), k, 0)
        nan = x.const(float("nan"))
        failed = b.cmp("uno", bad, bad)
        s.each(
            0, n, lambda j: vectors.put(x.choose(failed, nan, x.conj(pick(v, x, k, j, x.const(0.0)))), j, k)
        )

    s.each(0, stop - start, result)


def _sweeps(s: Space, a: Matrix, v: Matrix, x: Numbers) -> None:
    n, b = a.rows, s.b
    if n == 1:
        return
    r = x.real_numbers
    # A rotation by an angle whose sine this is changes nothing on the diagonal, nor in the vectors.
    eps = float(np.finfo(r.dtype).eps)

    def off(i: Place, total: Value) -> Sequence[Value]:
        def element(j: Place, total: Value) -> Sequence[Value]:
            size = x.size(a.get(i, j))
            limit = b.math("sqrt", x.size(a.get(i, i))) * b.math("sqrt", x.size(a.get(j, j))) * (0.25 * eps)
            large = b.cmp("ogt", size, limit) & b.cmp("ogt", size, tiny)
            return [r.choose(large, 1.0, total)]

        return s.each(i + 1, n, element, [total])

    def norm(i: Place, most: Value) -> Sequence[Value]:
        return s.each(0, n, lambda j, most: [b.fmax(most, x.size(a.get(i, j)))], [most])

    (largest,) = s.each(0, n, norm, [r.const(0.0)])  # type: ignore[list-item]
    tiny = largest * (0.01 * eps * eps)
    with b.while_([b.index(0)]) as loop:
        (count,) = loop.before
        (left,) = s.each(0, n, off, [r.const(0.0)])  # type: ignore[list-item]
        some = b.reduce("maximumf", left) if s.lanes else left
        loop.condition(b.cmp("ogt", some, 0.0) & b.cmp("slt", count, SWEEPS), count)
        s.each(0, n, lambda p: s.each(p + 1, n, lambda q: _rotate(s, a, v, x, p, q)))
        loop.yield_(loop.after[0] + 1)


def _rotate(s: Space, a: Matrix, v: Matrix, x: Numbers, p: Place, q: Place) -> None:
    """Make a[p, q] 0 by a rotation of rows and columns p and q, and of v's rows."""
    b, r = s.b, x.real_numbers
    apq = a.get(p, q)
    app, aqq = x.real(a.get(p, p)), x.real(a.get(q, q))
    # |a[p, q]| without overflow, and its direction.
    if x.is_complex:
        most = b.fmax(b.math("absf", apq.re), b.math("absf", apq.im))
        safe = r.choose(b.cmp("oeq", most, 0.0), 1.0, most)
        size = safe * b.math("sqrt", x.square(x.shrunk(apq, safe)))
    else:
        size = x.size(apq)
    none = b.cmp("oeq", size, 0.0)
    divisor = r.choose(none, 1.0, size)
    direction = x.choose(none, 1.0, x.shrunk(apq, divisor))
    # t = tan of the angle, the smaller root of t^2 + 2 t tau - 1.
    tau = r.div((aqq - app) * 0.5, divisor)
    root = b.math("absf", tau) + b.math("sqrt", tau * tau + 1.0)
    t = r.div(r.const(1.0), root)  # 0 where tau is infinite
    t = r.choose(b.cmp("olt", tau, 0.0), b.negf(t), t)
    t = r.choose(none, 0.0, t)
    c = r.div(r.const(1.0), b.math("sqrt", t * t + 1.0))
    sine = t * c
    # Row p becomes c p - s d q, row q s conj(d) p + c q; columns with conjugates.
    up, down = x.scaled(direction, sine), x.scaled(x.conj(direction), sine)

    def rows(m: Matrix) -> None:
        def run(j: Place) -> None:
            first, second = m.run(p, j), m.run(q, j)
            m.put_run(x.sub(x.scaled(first, c), x.mul(up, second)), p, j)
            m.put_run(x.add(x.mul(down, first), x.scaled(second, c)), q, j)

        s.runs(m, 0, run)

    rows(a)

    def column(i: Place) -> None:
        first, second = a.get(i, p), a.get(i, q)
        a.put(x.sub(x.scaled(first, c), x.mul(down, second)), i, p)
        a.put(x.add(x.mul(up, first), x.scaled(second, c)), i, q)

    s.each(0, a.rows, column)
    # What is known exactly.
    zero = x.const(0.0)
    a.put(zero, p, q)
    a.put(zero, q, p)
    a.put(x.of_real(app - t * size), p, p)
    a.put(x.of_real(aqq + t * size), q, q)
    rows(v)
