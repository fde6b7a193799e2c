"""The host's scalars, and the ends of its blocks, as text of LLVM's dialect.

Imported by the worker, beside which it lies.
"""

from __future__ import annotations

import mlir_c

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` takes longer to import than all else here
    from host_programs import HostTypes

_BINARY = {
    b"arith.addi": "add", b"arith.subi": "sub", b"arith.muli": "mul", b"arith.divsi": "sdiv", b"arith.divui": "udiv",
    b"arith.remsi": "srem", b"arith.remui": "urem", b"arith.andi": "and", b"arith.ori": "or", b"arith.xori": "xor",
    b"arith.shli": "shl", b"arith.shrsi": "ashr", b"arith.shrui": "lshr", b"arith.addf": "fadd", b"arith.subf": "fsub",
    b"arith.mulf": "fmul", b"arith.divf": "fdiv",
}  # fmt: skip
_EXTREMES = {b"arith.maxsi": "smax", b"arith.minsi": "smin", b"arith.maxui": "umax", b"arith.minui": "umin"}
_CASTS = {
    b"arith.extui": "zext", b"arith.extsi": "sext", b"arith.trunci": "trunc", b"arith.sitofp": "sitofp",
    b"arith.uitofp": "uitofp", b"arith.fptosi": "fptosi", b"arith.fptoui": "fptoui", b"arith.extf": "fpext",
    b"arith.truncf": "fptrunc", b"arith.bitcast": "bitcast",
}  # fmt: skip
_INDEX_CASTS = {b"arith.index_cast": "sext", b"arith.index_castui": "zext"}
_ORDER = "eq ne slt sle sgt sge ult ule ugt uge".split()
_FLOAT_ORDER = "_false oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno _true".split()
"""Predicates by their numbers, which are the same in both dialects."""


class NotNative(Exception):
    """A host's function that stays one, with the reason."""


class Scalars:
    """Text of a function, in the making.

    Attributes:
        entry: lines before all others.
        body: lines.
        names: each value that the function computes with, as the text names it.
        numbers: those that are known.
        constants: the name of each number of a type.
        labels: of the blocks.
    """

    def __init__(self, mlir: mlir_c.Mlir, types: HostTypes) -> None:
        self.mlir, self.host_types = mlir, types
        self.entry: list[str] = []
        self.body: list[str] = []
        self.names: dict[int, str] = {}
        self.numbers: dict[int, int] = {}
        self.constants: dict[tuple[int, str], str] = {}
        self.labels: dict[int, str] = {}
        self.types: dict[int, str] = {}
        self.count = 0

    def name(self, value: int) -> str:
        """A new name for a value."""
        self.count += 1
        out = self.names[value] = f"%v{self.count}"
        return out

    def fresh(self) -> str:
        """A name for something that IREE has no value for."""
        self.count += 1
        return f"%t{self.count}"

    def value(self, value: int) -> str:
        """A scalar, as the text names it. Raises NotNative for one that the text has not made."""
        found = self.names.get(value)
        if found is None:
            raise NotNative("a scalar of the host's own")
        return found

    def known(self, value: int) -> int:
        """A number that must be known now. Raises NotNative for others."""
        found = self.numbers.get(value)
        if found is None:
            raise NotNative("a size that is not known before the program runs")
        return found

    def scalar(self, value: int) -> bool:
        """Whether a value is a number: neither a resource nor a time."""
        mlir, kind = self.mlir, self.mlir.mlirValueGetType(value)
        return mlir.mlirTypeIsAInteger(kind) or mlir.mlirTypeIsAIndex(kind) or self.type(value) in ("f32", "f64")

    def type(self, value: int) -> str:
        """The type of a scalar, an index being 64 bits."""
        kind = self.mlir.mlirValueGetType(value)
        known = self.types.get(kind)
        if known is None:
            known = self.mlir.printed(self.mlir.mlirTypePrint, kind).decode()
            known = self.types[kind] = "i64" if known == "index" else known
        return known

    def constant(self, number: int, kind: str) -> str:
        """A number, defined once."""
        found = self.constants.get((number, kind))
        if found is None:
            found = self.constants[number, kind] = f"%c{len(self.constants)}"
        return found

    def number(self, op: int) -> None:
        """The value of an `arith.constant`."""
        mlir, result = self.mlir, self.mlir.mlirOperationGetResult(op, 0)
        attribute = mlir.attribute(op, b"value")
        if mlir.mlirAttributeIsAInteger(attribute):
            number = mlir.mlirIntegerAttrGetValueInt(attribute)
            self.numbers[result] = number
            self.names[result] = self.constant(number, self.type(result))
        elif self.scalar(result):
            self.entry.append(
                f"{self.name(result)} = llvm.mlir.constant({mlir.printed(mlir.mlirAttributePrint, attribute or 0).decode()})"
                f" : {self.type(result)}"
            )

    def arithmetic(self, op: int, name: bytes) -> None:
        """An operation on scalars. Raises NotNative for one that is not in the tables."""
        mlir = self.mlir
        xs = [self.value(x) for x in mlir.operands(op)]
        first, result = mlir.operands(op)[0], mlir.mlirOperationGetResult(op, 0)
        of, to = self.type(first), self.type(result)
        if name in _BINARY:
            text = f"llvm.{_BINARY[name]} {xs[0]}, {xs[1]} : {to}"
        elif name in _EXTREMES:
            text = f"llvm.intr.{_EXTREMES[name]}({xs[0]}, {xs[1]}) : ({to}, {to}) -> {to}"
        elif name in _CASTS:
            text = f"llvm.{_CASTS[name]} {xs[0]} : {of} to {to}"
        elif name in _INDEX_CASTS:
            wide, narrow = (int(kind[1:]) for kind in (to, of))
            if wide == narrow:
                self.names[result] = xs[0]
                return
            text = f"llvm.{_INDEX_CASTS[name] if wide > narrow else 'trunc'} {xs[0]} : {of} to {to}"
        elif name == b"arith.select":
            text = f"llvm.select {xs[0]}, {xs[1]}, {xs[2]} : i1, {to}"
        elif name in (b"arith.cmpi", b"arith.cmpf"):
            predicate = mlir.mlirIntegerAttrGetValueInt(mlir.attribute(op, b"predicate"))
            kind, order = ("icmp", _ORDER) if name == b"arith.cmpi" else ("fcmp", _FLOAT_ORDER)
            text = f'llvm.{kind} "{order[predicate]}" {xs[0]}, {xs[1]} : {of}'
        else:
            raise NotNative(name.decode())
        self.body.append(f"{self.name(result)} = {text}")

    def branch(self, op: int, name: bytes) -> None:
        """The end of a block. Raises NotNative where memory is handed on, and for ends other than branches."""
        mlir = self.mlir
        operands = mlir.operands(op)
        targets = [mlir.mlirOperationGetSuccessor(op, i) for i in range(mlir.mlirOperationGetNumSuccessors(op))]
        chosen = [] if name == b"cf.br" else [operands.pop(0)]
        ends: list[str] = []
        for target in targets:
            given = [operands.pop(0) for _ in range(mlir.mlirBlockGetNumArguments(target))]
            scalars = [x for x in given if self.scalar(x)]
            if any(map(self.host_types.is_resource, given)):
                raise NotNative("memory that is chosen while the program runs")
            handed = (
                f"({', '.join(map(self.value, scalars))} : {', '.join(map(self.type, scalars))})" if scalars else ""
            )
            ends.append(self.labels[target] + handed)
        if name == b"cf.br":
            self.body.append(f"llvm.br {ends[0]}")
        elif name == b"cf.cond_br":
            self.body.append(f"llvm.cond_br {self.value(chosen[0])}, {ends[0]}, {ends[1]}")
        elif name == b"cf.switch":
            kind = self.type(chosen[0])
            cases = mlir.printed(mlir.mlirAttributePrint, mlir.attribute(op, b"case_values") or 0).decode()
            numbers = cases[cases.index("<") + 1 : cases.index(">")].strip("[]").split(",") if "<" in cases else []
            listed = ", ".join(f"{n.strip()}: {end}" for n, end in zip(numbers, ends[1:]))
            self.body.append(f"llvm.switch {self.value(chosen[0])} : {kind}, {ends[0]} [{listed}]")
        else:
            raise NotNative(name.decode())
