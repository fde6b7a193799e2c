"""Eigenvalues of Hermitian matrices by Jacobi's rotations: Golub and Van Loan, "Matrix Computations" (4th ed., 2013), 8.5.

Cyclic by rows. A sweep rotates every pair once; sweeps end when nothing is left off the diagonal that would change it, of
all matrices that are computed at a time, or after `SWEEPS` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from quire.ir import dtypes

from ..core.values import Value
from ..elements.operations import Cx, Element
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
    place = ranks(s, eigenvalue, ascending=True)
    start, stop = params["subset_by_index"] or (0, n)

    def result(k: Place) -> None:
        chosen = Choice(s, place, k + start)
        values.put(chosen(r, lambda i: eigenvalue.get(i, 0)), k, 0)
        nan, failed = x.const(float("nan")), b.cmp("uno", bad, bad)
        # Row i of v is the conjugate of an eigenvector.
        s.each(0, n, lambda j: vectors.put(x.choose(failed, nan, x.conj(chosen(x, lambda i: v.get(i, j)))), j, k))

    s.each(0, stop - start, result)


def ranks(s: Space, values: Matrix, *, ascending: bool) -> Matrix:
    """The place of each of a column of numbers in their order; equal ones, and NaN, stay in theirs."""
    n, b, i32 = values.rows, s.b, s.numbers(dtypes.int32)
    place = s.matrix(n, 1, dtypes.int32)
    one, none = i32.const(1), i32.const(0)

    def ranked(i: Place) -> None:
        mine = values.get(i, 0)

        def counting(order: str) -> Callable[[Place, Element], Element]:
            return lambda j, total: i32.add(total, i32.choose(b.cmp(order, values.get(j, 0), mine), one, none))

        # "not greater": what cannot be compared counts, so that all places differ.
        total = s.folded(0, i, i32, none, counting("ule" if ascending else "uge"))
        place.put(s.folded(i + 1, n, i32, total, counting("olt" if ascending else "ogt")), i, 0)

    s.each(0, n, ranked)
    return place


@dataclass(frozen=True)
class Choice:
    """What belongs to the one whose place is k: chosen by comparing, since each lane has its own."""

    space: Space
    place: Matrix
    k: Place

    def __call__(self, x: Numbers, item: Callable[[Place], Element]) -> Any:
        s, b = self.space, self.space.b
        wanted = s.e.lift(b.cast(b.index(self.k), "i32"), dtypes.int32, s.lanes)
        assert isinstance(wanted, Value)

        def turn(i: Place, found: Element) -> Element:
            return x.choose(b.cmp("eq", self.place.get(i, 0), wanted), item(i), found)

        return s.folded(0, self.place.rows, x, x.const(0.0), turn)


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


@dataclass(frozen=True)
class Rotation:
    """Rows p and q become ``c p - up q`` and ``down p + c q``; `t` is the tangent of the angle, `size` that of a[p, q]."""

    x: Numbers
    c: Value
    up: Element
    down: Element
    t: Value
    size: Value

    @staticmethod
    def of(x: Numbers, app: Value, aqq: Value, apq: Element, leave: Value | None = None) -> Rotation:
        """What makes a[p, q] of a Hermitian matrix 0; nothing where it is 0, or where `leave` holds."""
        b, r = x.e.b, x.real_numbers
        # |a[p, q]| without overflow, and its direction.
        size = x.size(apq)
        if isinstance(apq, Cx):
            safe = r.choose(b.cmp("oeq", size, 0.0), 1.0, size)
            size = safe * b.math("sqrt", x.square(x.shrunk(apq, safe)))
        none = b.cmp("oeq", size, 0.0)
        divisor = r.choose(none, 1.0, size)
        direction = x.choose(none, 1.0, x.shrunk(apq, divisor))
        # The smaller root of t^2 + 2 t tau - 1.
        tau = r.div((aqq - app) * 0.5, divisor)
        t = r.div(r.const(1.0), b.math("absf", tau) + b.math("sqrt", tau * tau + 1.0))  # 0 where tau is infinite
        t = r.choose(b.cmp("olt", tau, 0.0), b.negf(t), t)
        t = r.choose(none if leave is None else none | leave, 0.0, t)
        c = r.div(r.const(1.0), b.math("sqrt", t * t + 1.0))
        sine = t * c
        return Rotation(x, c, x.scaled(direction, sine), x.scaled(x.conj(direction), sine), t, size)

    def rows(self, m: Matrix, p: Place, q: Place) -> None:
        """Rotate two rows of a matrix."""
        x = self.x

        def run(j: Place) -> None:
            first, second = m.run(p, j), m.run(q, j)
            m.put_run(x.sub(x.scaled(first, self.c), x.mul(self.up, second)), p, j)
            m.put_run(x.add(x.mul(self.down, first), x.scaled(second, self.c)), q, j)

        m.space.runs(m, 0, run)

    def columns(self, m: Matrix, p: Place, q: Place) -> None:
        """Rotate two columns of a matrix, by the conjugates."""
        replace(self, up=self.down, down=self.up).rows(m.transposed, p, q)


def _rotate(s: Space, a: Matrix, v: Matrix, x: Numbers, p: Place, q: Place) -> None:
    """Make a[p, q] 0 by a rotation of rows and columns p and q, and of v's rows."""
    app, aqq = x.real(a.get(p, p)), x.real(a.get(q, q))
    rotation = Rotation.of(x, app, aqq, a.get(p, q))
    rotation.rows(a, p, q)
    rotation.columns(a, p, q)
    # What is known exactly.
    zero, moved = x.const(0.0), rotation.t * rotation.size
    a.put(zero, p, q)
    a.put(zero, q, p)
    a.put(x.of_real(app - moved), p, p)
    a.put(x.of_real(aqq + moved), q, q)
    rotation.rows(v, p, q)
