"""QR decomposition by Householder reflections, in LAPACK's form: Golub and Van Loan, "Matrix Computations" (4th ed.), 5.1-5.2."""

from __future__ import annotations

from collections.abc import Sequence

from ..elements.operations import Element
from . import long
from .factors import Params
from .matrices import Matrix, Numbers, Place, Space
from .reflections import reflector


def geqrf(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """R, the reflections' vectors below the diagonal, and their factors."""
    (source,), (out, taus) = ins, outs
    a = _copy(s, source, source.columns)
    reflect(s, a, taus)
    s.fill(out, a.get)


def householder_product(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """The reflections applied to the identity."""
    (a, taus), (out,) = ins, outs
    applied(s, a, taus, out)


def qr(s: Space, ins: Sequence[Matrix], outs: Sequence[Matrix], params: Params) -> None:
    """q and r."""
    (source,), (q, r) = ins, outs
    k, x = min(source.rows, source.columns), s.numbers(source.array.dtype)
    if q.columns == k and long.is_long(s, source.rows, source.columns, x):
        _long_qr(s, source, q, r, x)
        return
    a = _copy(s, source, source.columns)
    taus = s.matrix(k, 1, a.array.dtype)
    reflect(s, a, taus)
    zero = x.const(0.0)

    def upper(i: Place) -> None:
        s.each(0, _least(s, i, r.columns), lambda j: r.put(zero, i, j))
        s.each(i, r.columns, lambda j: r.put(a.get(i, j), i, j))

    s.each(0, k, upper)
    if r.rows > k:
        s.each(k, r.rows, lambda i: s.each(0, r.columns, lambda j: r.put(zero, i, j)))
    applied(s, a, taus, q)


def _long_qr(s: Space, source: Matrix, q: Matrix, r: Matrix, x: Numbers) -> None:
    n = source.columns
    a = long.columns_of(s, source.rows, n, x, source.get)
    taus = s.matrix(n, 1, x.dtype)
    long.reflect(s, a, taus, x)
    s.fill(r, lambda i, j: x.const(0.0))
    s.each(0, n, lambda i: s.each(i, n, lambda j: r.put(a.get(j, i), i, j)))
    rows = long.applied(s, a, taus, x)
    s.fill(q, lambda i, j: rows.get(j, i))


def _least(s: Space, i: Place, n: int) -> Place:
    return min(i, n) if isinstance(i, int) else s.b.smin(i, s.b.index(n))


def _copy(s: Space, source: Matrix, columns: int) -> Matrix:
    a = s.matrix(source.rows, columns, source.array.dtype)
    s.fill(a, source.get)
    return a


def reflect(s: Space, a: Matrix, taus: Matrix) -> None:
    """One reflection for each column, applied to those to the right of it."""
    m, n, b = a.rows, a.columns, s.b
    x = s.numbers(a.array.dtype)
    r = x.real_numbers

    def step(k: Place) -> None:
        alpha = a.get(k, k)
        # Squares of numbers that are at most 1 neither overflow nor vanish where they matter.
        largest = s.folded(k + 1, m, r, x.size(alpha), lambda i, most: b.fmax(most, x.size(a.get(i, k))))  # type: ignore[arg-type]
        scale = r.choose(b.cmp("oeq", largest, 0.0), 1.0, largest)
        below = s.folded(k + 1, m, r, r.const(0.0), lambda i, t: r.add(t, x.square(x.shrunk(a.get(i, k), scale))))
        trivial, tau, beta, divisor = reflector(x, alpha, scale, below)
        taus.put(tau, k, 0)
        a.put(beta, k, k)
        s.each(k + 1, m, lambda i: a.put(x.choose(trivial, 0.0, x.div(a.get(i, k), divisor)), i, k))
        _reflection(s, a, x, x.conj(tau), a, k, k + 1)

    s.each(0, min(m, n), step)


def _reflection(s: Space, a: Matrix, x: Numbers, tau: Element, to: Matrix, k: Place, start: Place) -> None:
    """``to -= tau v (v^H to)`` for the columns from `start` on; v is 1 at k, and a's column k below."""

    def run(j: Place) -> None:
        product = s.folded(
            k + 1, a.rows, x, to.run(k, j), lambda i, t: x.add(t, x.mul(x.conj(a.get(i, k)), to.run(i, j))), to.step
        )
        product = x.mul(tau, product)
        to.put_run(x.sub(to.run(k, j), product), k, j)
        s.each(k + 1, a.rows, lambda i: to.put_run(x.sub(to.run(i, j), x.mul(a.get(i, k), product)), i, j))

    s.runs(to, start, run)


def applied(s: Space, a: Matrix, taus: Matrix, out: Matrix) -> None:
    """The first columns of the product of a's reflections, the last one first."""
    x = s.numbers(a.array.dtype)
    q = s.matrix(out.rows, out.columns, out.array.dtype)
    identity(s, q, x)
    s.each(0, taus.rows, lambda k: _reflection(s, a, x, taus.get(k, 0), q, k, k), down=True)
    s.fill(out, q.get)


def identity(s: Space, to: Matrix, x: Numbers) -> None:
    """Write the identity, or its first columns."""
    zero, one = x.const(0.0), x.const(1.0)
    s.fill(to, lambda i, j: zero)
    s.each(0, min(to.rows, to.columns), lambda i: to.put(one, i, i))
