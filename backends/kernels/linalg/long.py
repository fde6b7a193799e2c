"""QR decomposition of matrices with far more rows than columns: each column lies in memory as a row, in vectors.

The reflections are those of `householder.py`; what goes down a column there is a loop over vectors here.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.values import Value
from ..elements.operations import Element, across
from .matrices import Matrix, Numbers, Place, Space
from .reflections import reflector

#: So many times as many rows as columns are worth vectors down the columns; and so many vectors.
FACTOR, VECTORS = 2, 4


def is_long(s: Space, rows: int, columns: int, x: Numbers) -> bool:
    """Whether the columns of a matrix are computed with in vectors."""
    lanes = s.b.target.lanes(8 * x.real_numbers.dtype.itemsize)
    return not s.lanes and rows >= FACTOR * columns and rows >= VECTORS * lanes


def columns_of(s: Space, rows: int, columns: int, x: Numbers, get: Callable[[Place, Place], Element]) -> Matrix:
    """The columns of a matrix whose elements (i, j) are `get(i, j)`, each as a row with zeros after its end."""
    to = s.matrix(columns, rows, x.dtype)
    zeros = s.e.lift(0.0, x.dtype, to.step)

    def column(j: Place) -> None:
        s.each(0, to.array.strides[0], lambda i: to.put_run(zeros, j, i), step=to.step)
        s.each(0, rows, lambda i: to.put(get(i, j), j, i))

    s.each(0, columns, column)
    return to


def reflect(s: Space, a: Matrix, taus: Matrix, x: Numbers) -> None:
    """One reflection for each column, applied to those after it: R, and the reflections' vectors, as `householder.reflect`."""
    b, r = s.b, x.real_numbers

    def step(k: Place) -> None:
        alpha = a.get(k, k)
        # Squares of numbers that are at most 1 neither overflow nor vanish where they matter.
        largest = _along(s, a, k + 1, r, b.fmax, lambda i: x.size(a.run(k, i)))  # type: ignore[arg-type]
        scale = r.choose(b.cmp("oeq", largest, 0.0), 1.0, largest)
        below = _along(s, a, k + 1, r, r.add, lambda i: x.square(x.shrunk(a.run(k, i), _spread(s, scale, r, a.step))))
        _, tau, beta, divisor = reflector(x, alpha, scale, below)
        taus.put(tau, k, 0)
        a.put(beta, k, k)
        # Where there is nothing to reflect, all that is divided is 0.
        wide = _spread(s, divisor, x, a.step)
        s.each(k + 1, a.columns, lambda i: a.put_run(x.div(a.run(k, i), wide), k, i), step=a.step)
        s.each(k + 1, a.rows, lambda j: _reflection(s, a, x, x.conj(tau), a, k, j))

    s.each(0, a.rows, step)


def applied(s: Space, a: Matrix, taus: Matrix, x: Numbers) -> Matrix:
    """The first columns of the product of a's reflections, each as a row."""
    q = columns_of(s, a.columns, a.rows, x, lambda i, j: x.const(0.0))
    s.each(0, a.rows, lambda k: q.put(x.const(1.0), k, k))

    def step(k: Place) -> None:
        s.each(k, a.rows, lambda j: _reflection(s, a, x, taus.get(k, 0), q, k, j))

    s.each(0, a.rows, step, down=True)
    return q


def _reflection(s: Space, a: Matrix, x: Numbers, tau: Element, to: Matrix, k: Place, j: Place) -> None:
    """``to[j] -= tau v (v^H to[j])``; v is 1 at k, and a's row k after it."""
    product = _along(s, a, k + 1, x, x.add, lambda i: x.mul(x.conj(a.run(k, i)), to.run(j, i)))
    product = x.mul(tau, x.add(to.get(j, k), product))
    to.put(x.sub(to.get(j, k), product), j, k)
    wide = _spread(s, product, x, a.step)
    s.each(k + 1, a.columns, lambda i: to.put_run(x.sub(to.run(j, i), x.mul(a.run(k, i), wide)), j, i), step=a.step)


def _along(
    s: Space, a: Matrix, start: Place, x: Numbers, combine: Callable[[Element, Element], Element],
    item: Callable[[Place], Element],
) -> Value:  # fmt: skip
    """The runs of a row from element `start` on combined: 0 and all of them."""
    e = s.e

    def turn(i: Place, *parts: Value) -> list[Value]:
        return e.parts(combine(e.joined(parts), item(i)), x.dtype, a.step)

    total = e.joined(s.each(start, a.columns, turn, e.parts(0.0, x.dtype, a.step), step=a.step))
    return across(e, total, x.dtype, combine)  # type: ignore[return-value]


def _spread(s: Space, number: Element, x: Numbers, width: int) -> Element:
    return s.e.lift(number, x.dtype, width)
