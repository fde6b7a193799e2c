"""Arrays in memory as elements: flat, row-major, of any dtype of the IR.

A bool is a byte, a complex number two reals. Vectors are of neighbouring elements or, with a stride, gathered one by
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType

from ..core.values import Buffer, Operand, Value, vector
from .operations import Cx, Element, Elements, value_type

#: Elements up to so far apart are taken out of vectors of neighbours.
MOST_SPREAD = 4


@dataclass(frozen=True, eq=False)
class Memory:
    """A flat view of one array: a bool's elements are ``i8``, a complex array has two numbers an element."""

    elements: Elements
    buffer: Buffer
    dtype: DType

    @staticmethod
    def element(dtype: DType) -> str:
        """The MLIR type under which an array of a dtype is viewed."""
        return "i8" if dtypes.is_bool(dtype) else value_type(dtype)

    @staticmethod
    def numbers(dtype: DType) -> int:
        """Stored numbers of one element."""
        return 2 if dtypes.is_complex(dtype) else 1

    @staticmethod
    def of(elements: Elements, number: int, aval: ShapedArray, *, result: bool = False) -> Memory:
        """An operand of the kernel, or a result."""
        view = elements.b.result if result else elements.b.operand
        size = aval.size * Memory.numbers(aval.dtype)
        return Memory(elements, view(number, (size,), Memory.element(aval.dtype)), aval.dtype)

    @staticmethod
    def on_stack(elements: Elements, count: int, dtype: DType) -> Memory:
        """New memory of the workgroup's own for so many elements."""
        return Memory(elements, elements.b.stack((count * Memory.numbers(dtype),), Memory.element(dtype)), dtype)

    def load(self, at: Operand, width: int = 0, stride: int = 1) -> Element:
        """The element at a flat place; with a width, a vector of elements ``stride`` apart."""
        b = self.elements.b
        if width and 1 < stride <= MOST_SPREAD and not dtypes.is_complex(self.dtype):
            return self._spread(b.index(at), width, stride)
        if width and stride != 1:
            return self.each([b.index(at) + l * stride for l in range(width)])
        if dtypes.is_complex(self.dtype):
            at = b.index(at) * 2
            if not width:
                return Cx(b.load(self.buffer, at), b.load(self.buffer, at + 1))
            raw = b.vload(2 * width, self.buffer, at)
            re, im = (b.shuffle(raw, raw, range(p, 2 * width, 2)) for p in range(2))
            return Cx(re, im)
        raw = b.vload(width, self.buffer, at) if width else b.load(self.buffer, at)
        return b.cmp("ne", raw, 0) if dtypes.is_bool(self.dtype) else raw

    def gathered(self, places: Value, width: int) -> Element:
        """The element at a place; with a width, those at a vector of places, read one by one."""
        b = self.elements.b
        if not width:
            return self.load(b.cast(places, "index"))
        return self.each([b.cast(b.extract(places, l), "index", signed=False) for l in range(width)])

    def each(self, places: Sequence[Value]) -> Element:
        """A vector of the elements at these places, read one by one."""
        single = [self.elements.parts(self.load(place), self.dtype) for place in places]
        return self.elements.joined([self.elements.b.from_elements(column) for column in zip(*single)])

    def _spread(self, at: Value, width: int, stride: int) -> Element:
        """Elements a small stride apart: vectors of neighbours, the last of which ends with the last one, and shuffles."""
        b, last = self.elements.b, (width - 1) * stride
        starts = [*range(0, last + 1 - width, width), last + 1 - width]
        out: Value | None = None
        for start in starts:
            x = b.vload(width, self.buffer, at + start)
            fits = [start <= k * stride < start + width for k in range(width)]
            # What is not in this vector stays as it is.
            mask = [width + k * stride - start if fits[k] else k for k in range(width)]
            out = b.shuffle(x if out is None else out, x, mask)
        assert out is not None
        return b.cmp("ne", out, 0) if dtypes.is_bool(self.dtype) else out

    def store(self, x: Element, at: Operand, width: int = 0, stride: int = 1) -> None:
        """Write an element, or a vector of elements ``stride`` apart."""
        b = self.elements.b
        parts = self.elements.parts(x, self.dtype, width)
        if width and stride != 1:
            for l in range(width):
                single = self.elements.joined([b.extract(p, l) for p in parts])
                self.store(single, b.index(at) + l * stride)
            return
        if dtypes.is_bool(self.dtype):
            parts = [self._byte(parts[0], width)]
        if dtypes.is_complex(self.dtype):
            at = b.index(at) * 2
            if width:
                b.vstore(b.interleave(*parts), self.buffer, at)
            else:
                b.store(parts[0], self.buffer, at)
                b.store(parts[1], self.buffer, at + 1)
            return
        if width:
            b.vstore(parts[0], self.buffer, at)
        else:
            b.store(parts[0], self.buffer, at)

    def _byte(self, x: Value, width: int) -> Value:
        to = vector(width, "i8") if width else "i8"
        return self.elements.b.emit(f"arith.extui {x} : {x.type} to {to}", to)
