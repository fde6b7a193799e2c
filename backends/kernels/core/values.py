"""Typed values and memory views of the kernel builder, with the operators Python gives them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    from .builder import KernelBuilder

Operand = Union["Value", int, float]

# Types are text, and few: what is asked of one is kept.
_VECTOR = re.compile(r"vector<(\d+)x(.+)>")


@cache
def element(mlir_type: str) -> str:
    """The element of a vector type; a scalar type is its own element."""
    m = _VECTOR.fullmatch(mlir_type)
    return m.group(2) if m else mlir_type


@cache
def lanes(mlir_type: str) -> int:
    """The number of lanes of a vector type, 0 for a scalar."""
    m = _VECTOR.fullmatch(mlir_type)
    return int(m.group(1)) if m else 0


@cache
def like(mlir_type: str, elem: str) -> str:
    """``mlir_type`` (scalar or vector) with another element."""
    n = lanes(mlir_type)
    return vector(n, elem) if n else elem


@cache
def vector(n: int, elem: str) -> str:
    """The type ``vector<n x elem>``."""
    return f"vector<{n}x{elem}>"


@cache
def is_float(mlir_type: str) -> bool:
    """Whether the type, or its element, is a float."""
    return element(mlir_type)[0] in "fb"


@cache
def width(mlir_type: str) -> int:
    """Bits of the element (an index counts as 64)."""
    e = element(mlir_type)
    return 64 if e == "index" else 16 if e == "bf16" else int(e[1:])


class Value:
    """One SSA value. Operators take another value of the same type or a Python number.

    ``>>`` is the logical shift, ``/`` is float division only; signed forms have named methods on the builder.
    """

    __slots__ = ("builder", "name", "type")

    def __init__(self, builder: KernelBuilder, name: str, mlir_type: str) -> None:
        self.builder = builder
        self.name = name
        self.type = mlir_type

    def __str__(self) -> str:
        return self.name

    def __add__(self, other: Operand) -> Value:
        return self.builder.add(self, other)

    def __radd__(self, other: Operand) -> Value:
        return self.builder.add(other, self)

    def __sub__(self, other: Operand) -> Value:
        return self.builder.sub(self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self.builder.sub(other, self)

    def __mul__(self, other: Operand) -> Value:
        return self.builder.mul(self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self.builder.mul(other, self)

    def __and__(self, other: Operand) -> Value:
        return self.builder.and_(self, other)

    def __or__(self, other: Operand) -> Value:
        return self.builder.or_(self, other)

    def __xor__(self, other: Operand) -> Value:
        return self.builder.xor(self, other)

    def __lshift__(self, other: Operand) -> Value:
        return self.builder.shl(self, other)

    def __rshift__(self, other: Operand) -> Value:
        return self.builder.shrl(self, other)

    def __bool__(self) -> bool:
        raise TypeError("the value of a kernel is not known while it is built; use if_ or select")


@dataclass(frozen=True, eq=False)
class Buffer:
    """A memory view: shape, element type, row-major.

    A dimension of -1 is known at run time only. ``space`` is what the memref type has besides: a layout, an address space or ''.
    """

    name: str
    shape: tuple[int, ...]
    elem: str
    space: str = ""

    @property
    def type(self) -> str:
        """The memref type."""
        space = f", {self.space}" if self.space else ""
        dims = "".join("?x" if d < 0 else f"{d}x" for d in self.shape)
        return f"memref<{dims}{self.elem}{space}>"


def index_list(indices: Sequence[Value]) -> str:
    """Index operands as they are written between brackets."""
    return ", ".join(str(i) for i in indices)
