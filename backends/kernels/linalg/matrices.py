"""What algorithms of linear algebra are written on: numbers of a dtype, matrices in memory, loops.

A :class:`Space` is either of one matrix or of `lanes` of them. In the first an element is a scalar, and operations on rows
take vectors; in the second an element is a vector that holds an element of each matrix, and rows are gone over one by one.
An algorithm does not see which: it asks for elements (:meth:`Matrix.get`) and for runs of a row (:meth:`Matrix.run`).

Rows of a matrix of the workgroup's own are so far apart that a run may begin at any element: what it writes beyond the row's
end is never read as an element. So no loop over a row has a remainder or a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew

from ..core.builder import KernelBuilder
from ..core.values import Value
from ..elements.memory import Memory
from ..elements.operations import Cx, Element, Elements, choose
from ..lazy.nodes import ZERO, Array, Ix, Reader, Vec

Place = int | Value


class Numbers:
    """Arithmetic on elements of one dtype."""

    def __init__(self, e: Elements, dtype: DType, lanes: int) -> None:
        self.e, self.dtype, self.lanes = e, dtype, lanes
        self.is_complex = dtypes.is_complex(dtype)

    @property
    def real_numbers(self) -> Numbers:
        """The arithmetic of real and imaginary parts."""
        return Numbers(self.e, dtypes.real_dtype(self.dtype), self.lanes) if self.is_complex else self

    def const(self, number: float) -> Element:
        """A number, in each lane."""
        return self.e.lift(number, self.dtype, self.lanes)

    def _apply(self, p: Primitive, *xs: Element) -> Any:
        return self.e.apply(p, {}, [self.dtype] * len(xs), self.dtype, xs)

    def add(self, x: Element, y: Element) -> Any:
        """x + y."""
        return self._apply(ew.add_p, x, y)

    def sub(self, x: Element, y: Element) -> Any:
        """x - y."""
        return self._apply(ew.sub_p, x, y)

    def mul(self, x: Element, y: Element) -> Any:
        """x * y."""
        return self._apply(ew.mul_p, x, y)

    def div(self, x: Element, y: Element) -> Any:
        """x / y."""
        return self._apply(ew.div_p, x, y)

    def neg(self, x: Element) -> Any:
        """-x."""
        return self._apply(ew.neg_p, x)

    def conj(self, x: Element, wanted: bool = True) -> Any:
        """The conjugate of x, if it is wanted."""
        return self._apply(ew.conj_p, x) if self.is_complex and wanted else x

    def real(self, x: Element) -> Any:
        """The real part."""
        return x.re if isinstance(x, Cx) else x

    def imag(self, x: Element) -> Any:
        """The imaginary part; 0 of real numbers."""
        return x.im if isinstance(x, Cx) else self.real_numbers.const(0.0)

    def of_real(self, x: Element) -> Any:
        """A real number as one of the dtype."""
        return self.e.convert(x, dtypes.real_dtype(self.dtype), self.dtype) if self.is_complex else x

    def scaled(self, x: Element, by: Element) -> Any:
        """x times a real number."""
        r = self.real_numbers
        return Cx(r.mul(x.re, by), r.mul(x.im, by)) if isinstance(x, Cx) else r.mul(x, by)

    def shrunk(self, x: Element, by: Element) -> Any:
        """x over a real number."""
        r = self.real_numbers
        return Cx(r.div(x.re, by), r.div(x.im, by)) if isinstance(x, Cx) else r.div(x, by)

    def size(self, x: Element) -> Value:
        """|x|, of complex numbers the sum of the sizes of both parts, as LAPACK compares them."""
        b = self.e.b
        if isinstance(x, Cx):
            return b.math("absf", x.re) + b.math("absf", x.im)
        assert isinstance(x, Value)
        return b.math("absf", x)

    def square(self, x: Element) -> Value:
        """|x|^2."""
        if isinstance(x, Cx):
            return x.re * x.re + x.im * x.im
        assert isinstance(x, Value)
        return x * x

    def choose(self, condition: Value, x: Element, y: Element) -> Any:
        """x where the condition holds, else y."""
        return choose(
            self.e.b, condition, self.e.lift(x, self.dtype, self.lanes), self.e.lift(y, self.dtype, self.lanes)
        )


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix in memory: (rows, columns), and a third dimension of lanes in a space of several."""

    space: Space
    array: Array
    #: How many elements of a row :meth:`run` takes.
    step: int = 1

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.array.shape[0]

    @property
    def columns(self) -> int:
        """The number of columns."""
        return self.array.shape[1]

    @property
    def transposed(self) -> Matrix:
        """The same memory with rows for columns. Of runs it has none longer than an element."""
        a = self.array
        order = [1, 0, 2][: len(a.shape)]
        view = Array(tuple(a.shape[d] for d in order), a.dtype, a.memory, tuple(a.strides[d] for d in order), a.base)
        return Matrix(self.space, view)

    def _at(self, i: Place, j: Place) -> tuple[Ix, ...]:
        return (Ix.of(i), Ix.of(j), ZERO)[: len(self.array.shape)]

    def _vec(self, width: int) -> Vec | None:
        if self.space.lanes:
            return Vec(2, self.space.lanes)
        return Vec(1, width) if width > 1 else None

    def get(self, i: Place, j: Place) -> Any:
        """An element."""
        return self.array.read(Reader(self.space.e), self._at(i, j), self._vec(1))

    def put(self, x: Element, i: Place, j: Place) -> None:
        """Write an element."""
        self.array.write(self.space.e, x, self._at(i, j), self._vec(1))

    def run(self, i: Place, j: Place) -> Any:
        """The run of row i from element j on."""
        return self.array.read(Reader(self.space.e), self._at(i, j), self._vec(self.step))

    def put_run(self, x: Element, i: Place, j: Place) -> None:
        """Write a run of row i from element j on."""
        self.array.write(self.space.e, x, self._at(i, j), self._vec(self.step))


@dataclass(frozen=True, eq=False)
class Space:
    """Where matrices are computed with: one, or `lanes` of them at a time.

    `memory` gives memory of the workgroup's own. Loops of at most `unrolled` turns are written out, their indices being numbers.
    """

    e: Elements
    lanes: int
    memory: Callable[[int, DType], Memory]
    unrolled: int

    @property
    def b(self) -> KernelBuilder:
        """The builder."""
        return self.e.b

    def numbers(self, dtype: DType) -> Numbers:
        """The arithmetic of a dtype."""
        return Numbers(self.e, dtype, self.lanes)

    def by_selection(self, rows: int) -> bool:
        """Whether a row whose number is known at run time is chosen by comparing: lanes differ, or indices are numbers."""
        return bool(self.lanes) or rows <= self.unrolled

    def matrix(self, rows: int, columns: int, dtype: DType) -> Matrix:
        """Memory for a matrix."""
        if self.lanes:
            shape, strides, step = (rows, columns, self.lanes), (columns * self.lanes, self.lanes, 1), 1
            count = rows * columns * self.lanes
        else:
            wide = self.b.target.lanes(8 * (4 if dtypes.is_bool(dtype) else dtypes.real_dtype(dtype).itemsize))
            # What is written out stays in registers, where elements are scalars.
            step = (
                1 if max(rows, columns) <= self.unrolled or columns == 1 else min(wide, 1 << (columns - 1).bit_length())
            )
            pitch = columns if step == 1 else -(-(columns + step - 1) // step) * step
            shape, strides, count = (rows, columns), (pitch, 1), rows * pitch
        return Matrix(self, Array(shape, dtype, self.memory(count, dtype), strides), step)

    def within(self, array: Array, at: Place) -> Matrix:
        """The matrix `at` of an array (batch, rows, columns), or as many as there are lanes from there on."""
        batch, *strides = array.strides
        base = array.base + Ix.of(at) * batch
        if self.lanes:
            return Matrix(
                self, Array((*array.shape[1:], self.lanes), array.dtype, array.memory, (*strides, batch), base)
            )
        return Matrix(self, Array(array.shape[1:], array.dtype, array.memory, tuple(strides), base))

    def each(
        self, start: Place, stop: Place, body: Callable[..., Sequence[Value] | None], init: Sequence[Value] = (),
        step: int = 1, down: bool = False,
    ) -> list[Value]:  # fmt: skip
        """``for i in range(start, stop, step)``, or from the last to the first: `body(i, *values)` gives the next values."""
        values = list(init)
        if isinstance(start, int) and isinstance(stop, int) and len(range(start, stop, step)) <= self.unrolled:
            for i in range(start, stop, step)[:: -1 if down else 1]:
                values = list(body(i, *values) or ())
            return values
        with self.b.for_(start, stop, step, values) as loop:
            i: Place = loop.index
            if down:
                assert isinstance(start, int) and isinstance(stop, int)
                i = self.b.index(start + stop - 1) - loop.index
            new = list(body(i, *loop.carried) or ())
            if values:
                loop.yield_(*new)
        return loop.results

    def runs(self, m: Matrix, start: Place, body: Callable[[Place], None]) -> None:
        """`body(j)` for the runs of a row from element `start` to the end."""
        self.each(start, m.columns, lambda j: body(j), step=m.step)

    def folded(
        self, start: Place, stop: Place, numbers: Numbers, init: Element, body: Callable[[Place, Element], Element],
        width: int = 0, down: bool = False,
    ) -> Any:  # fmt: skip
        """``for i in range(start, stop): total = body(i, total)``: the last total, of so many lanes."""
        e, width = self.e, self.lanes or (width if width > 1 else 0)

        def turn(i: Place, *parts: Value) -> list[Value]:
            return e.parts(body(i, e.joined(parts)), numbers.dtype, width)

        return e.joined(self.each(start, stop, turn, e.parts(init, numbers.dtype, width), down=down))

    def fill(
        self, to: Matrix, element: Callable[[Place, Place], Element], first: Callable[[Place], Place] | None = None
    ) -> None:
        """Write all elements, or those of each row i from `first(i)` on."""

        def row(i: Place) -> None:
            self.each(0 if first is None else first(i), to.columns, lambda j: to.put(element(i, j), i, j))

        self.each(0, to.rows, row)
