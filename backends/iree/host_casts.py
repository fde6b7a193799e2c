"""Conversions of numbers in the host's functions that IREE's virtual machine lacks, by those that it has.

A loop's counter lies with the host, and so does what is computed of it: ``i.astype("float64")`` in a loop over arrays is an
operation of the host's, for integers of 64 bits only. One of 16 bits is taken for a float32.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

from collections.abc import Sequence

import mlir_c

_TO_FLOAT = frozenset((b"arith.sitofp", b"arith.uitofp"))
_SIGNED = b"arith.sitofp"


def by_known_ones(mlir: mlir_c.Mlir, module: int) -> None:
    """Integers become float64 by their halves, each of which is a float32, and float16 as float32, by its bits."""
    for op in mlir.in_hosts(module, _TO_FLOAT):
        result, x = mlir.mlirOperationGetResult(op, 0), mlir.mlirOperationGetOperand(op, 0)
        emit = _Emitter(mlir, op)
        kind = mlir.printed(mlir.mlirTypePrint, mlir.mlirValueGetType(result))
        name = mlir.name(op)
        width = mlir.mlirIntegerTypeGetWidth(mlir.mlirValueGetType(x))
        if kind == b"f64" and width < 64:
            if width < 32:
                x = emit(b"arith.extsi" if name == _SIGNED else b"arith.extui", b"i32", x)
            made = _double(emit, x, b"shrsi" if name == _SIGNED else b"shrui")
        elif kind == b"f16":
            made = _half(emit, emit(name, b"f32", x))
        else:
            continue
        mlir.mlirValueReplaceAllUsesOfWith(result, made)
        mlir.take_away(op)


class _Emitter:
    """Makes operations of one result before another one."""

    def __init__(self, mlir: mlir_c.Mlir, before: int) -> None:
        self.mlir, self.before = mlir, before
        self.context = mlir.mlirLocationGetContext(mlir.mlirOperationGetLocation(before))

    def __call__(self, name: bytes, kind: bytes, *operands: int, value: bytes = b"") -> int:
        mlir = self.mlir
        attributes: dict[bytes, int | None] = {}
        if value:
            key = b"predicate" if name == b"arith.cmpi" else b"value"
            attributes[key] = mlir.mlirAttributeParseGet(self.context, mlir_c.text(value))
        types = [mlir.mlirTypeParseGet(self.context, mlir_c.text(kind))]
        made = mlir.create(name, list(operands), types, attributes, before=self.before)
        return mlir.mlirOperationGetResult(made, 0)

    def number(self, n: int) -> int:
        """A constant of 32 bits."""
        return self(b"arith.constant", b"i32", value=b"%d : i32" % n)

    def of_bits(self, name: bytes, operands: Sequence[int]) -> int:
        """An operation on integers of 32 bits."""
        return self(b"arith." + name, b"i32", *operands)


def _double(emit: _Emitter, x: int, shift: bytes) -> int:
    """An integer of 32 bits as float64. From 64 bits on it would be a conversion, but IREE takes the extension away again."""
    halves = emit.of_bits(shift, [x, emit.number(16)]), emit.of_bits(b"andi", [x, emit.number(0xFFFF)])
    high, low = (emit(b"arith.extf", b"f64", emit(_SIGNED, b"f32", half)) for half in halves)
    scale = emit(b"arith.constant", b"f64", value=b"65536.0 : f64")
    return emit(b"arith.addf", b"f64", emit(b"arith.mulf", b"f64", high, scale), low)


def _half(emit: _Emitter, x: int) -> int:
    """A float32 that is an integer, rounded to even, as float16: 0, a normal number, or infinity from 65520 on."""
    do, number = emit.of_bits, emit.number
    bits = emit(b"arith.bitcast", b"i32", x)
    sign = do(b"andi", [do(b"shrui", [bits, number(16)]), number(0x8000)])
    size = do(b"andi", [bits, number(0x7FFFFFFF)])
    even = do(b"andi", [do(b"shrui", [size, number(13)]), number(1)])
    rounded = do(b"shrui", [do(b"addi", [do(b"addi", [size, even]), number(0xFFF)]), number(13)])
    normal = do(b"subi", [rounded, number(112 << 10)])  # from the exponent's bias of float32 to that of float16
    large = emit(b"arith.cmpi", b"i1", size, number(0x477FF000), value=b"9 : i64")  # unsigned, at least
    none = emit(b"arith.cmpi", b"i1", size, number(0), value=b"0 : i64")
    found = do(b"select", [none, size, do(b"select", [large, number(0x7C00), normal])])
    word = emit(b"arith.trunci", b"i16", do(b"ori", [found, sign]))
    return emit(b"arith.bitcast", b"f16", word)
