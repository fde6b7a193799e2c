"""The host's steps in JavaScript.

Integers of up to 32 bits are numbers, kept as signed ones (`i1` as 0 or 1); `i64` and `index` are BigInts. Pointers are
offsets in the memory of the WebAssembly instance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .c_host import files
from .printing import Printer, Value, comment

_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
_PLAIN = {"addi": "+", "subi": "-", "andi": "&", "ori": "|", "xori": "^"}
_FLOAT_PLAIN = {"addf": "+", "subf": "-", "mulf": "*", "divf": "/"}
_ORDER = {"eq": "===", "ne": "!==", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_GET = {
    "i1": "getUint8", "i8": "getInt8", "i16": "getInt16", "i32": "getInt32", "i64": "getBigInt64", "index": "getBigInt64",
    "f32": "getFloat32", "f64": "getFloat64",
}  # fmt: skip

HELPERS = """\
const scratch = new DataView(new ArrayBuffer(8));
const bits32 = x => (scratch.setFloat32(0, x), scratch.getInt32(0));
const float32 = x => (scratch.setInt32(0, x), scratch.getFloat32(0));
const bits64 = x => (scratch.setFloat64(0, x), scratch.getBigInt64(0));
const float64 = x => (scratch.setBigInt64(0, x), scratch.getFloat64(0));
const wrap64 = x => BigInt.asIntN(64, x), unsigned64 = x => BigInt.asUintN(64, x);
const whole64 = x => Number.isFinite(x) ? wrap64(BigInt(Math.trunc(x))) : 0n;
"""


def zero(kind: str) -> str:
    """What a variable begins with."""
    return "0n" if _BITS.get(kind) == 64 else "0"


class JsPrinter(Printer):
    """Prints a function's steps in JavaScript; kernels are numbered from `first_kernel` on."""

    def __init__(self, *args: Any, first_kernel: int = 0) -> None:
        super().__init__(*args, indent="  ")
        self.depth = 2
        self.first_kernel = first_kernel

    def index(self, value: Value) -> str:
        """An offset or a length."""
        return str(value) if isinstance(value, int) else f"Number({value})"

    def value(self, value: Value, kind: str) -> str:
        """A scalar of a type."""
        if isinstance(value, str):
            return value
        if kind in ("f32", "f64"):
            if math.isfinite(value):
                return repr(float(value))
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        if kind == "i1":
            return str(int(value) & 1)
        return f"{int(value)}n" if _BITS[kind] == 64 else str(int(value))

    def declare(self, kind: str) -> str:
        """The beginning of a variable's declaration."""
        return "const"

    def truth_of(self, text: str) -> str:
        """The text of an i1 as a condition."""
        return text

    def wrap(self, text: str, kind: str) -> str:
        """A result brought to its type's range."""
        bits = _BITS[kind]
        if bits == 64:
            return f"wrap64({text})"
        if bits == 1:
            return f"({text}) & 1"
        return f"({text}) | 0" if bits == 32 else f"({text}) << {32 - bits} >> {32 - bits}"

    def unsigned(self, value: Value, kind: str) -> str:
        """The number that an integer's bits are without a sign."""
        text, bits = self.value(value, kind), _BITS[kind]
        if bits == 64:
            return f"unsigned64({text})"
        return f"({text} >>> 0)" if bits == 32 else f"({text} & {(1 << bits) - 1})"

    def signed(self, value: Value, kind: str) -> str:
        """The number that an integer's bits are in two's complement."""
        return f"({self.value(value, kind)} ? -1 : 0)" if kind == "i1" else self.value(value, kind)

    def operation(self, operation: str, kind: str, operands: Sequence[Value], of: str) -> str:
        """An operation of MLIR's `arith` on operands of type `of`."""
        xs = [self.value(x, of) for x in operands]
        word, _, order = operation.partition(" ")
        if word == "select":
            return f"{self.value(operands[0], 'i1')} ? {xs[1]} : {xs[2]}"
        if word == "cmpi":
            view = self.unsigned if order[0] == "u" else self.signed
            a, b = (view(x, of) for x in operands)
            return f"+({a} {_ORDER[order[-2:]]} {b})"
        if word == "cmpf":
            return self.compared(order, *xs)
        if kind in ("f32", "f64"):
            text = self.to_float(word, operands, of, xs)
            return f"Math.fround({text})" if kind == "f32" else text
        return self.to_integer(word, kind, operands, of, xs)

    def compared(self, order: str, a: str, b: str) -> str:
        """A comparison of floats: ordered ones are false of NaN, unordered ones true."""
        nan = f"({a} !== {a} || {b} !== {b})"
        if order in ("false", "true"):
            return str(int(order == "true"))
        if order in ("ord", "uno"):
            return f"+{'!' if order == 'ord' else ''}{nan}"
        test = f"{a} {_ORDER[order[1:]]} {b}"
        return f"+(!{nan} && {test})" if order[0] == "o" else f"+({nan} || {test})"

    def to_float(self, word: str, operands: Sequence[Value], of: str, xs: Sequence[str]) -> str:
        """An operation that gives a float."""
        if word in _FLOAT_PLAIN:
            return f"{xs[0]} {_FLOAT_PLAIN[word]} {xs[1]}"
        if word == "bitcast":
            return f"float{_BITS[of]}({xs[0]})"
        if word == "negf":
            return f"-{xs[0]}"
        if word in ("maximumf", "minimumf"):
            return f"Math.{word[:3]}({xs[0]}, {xs[1]})"
        if word in ("maxnumf", "minnumf"):
            test = ">" if word == "maxnumf" else "<"
            return f"({xs[1]} !== {xs[1]} || {xs[0]} {test} {xs[1]}) ? {xs[0]} : {xs[1]}"
        if word in ("sitofp", "uitofp"):
            return f"Number({(self.signed if word == 'sitofp' else self.unsigned)(operands[0], of)})"
        return xs[0]

    def to_integer(self, word: str, kind: str, operands: Sequence[Value], of: str, xs: Sequence[str]) -> str:
        """An operation that gives an integer."""
        bits = _BITS[kind]
        if word in ("fptosi", "fptoui"):
            return f"whole64({xs[0]})" if bits == 64 else self.wrap(f"Math.trunc({xs[0]})", kind)
        if word == "bitcast":
            return f"bits{bits}({xs[0]})" if of in ("f32", "f64") else xs[0]
        if word in ("extui", "extsi", "trunci", "index_cast", "index_castui"):
            return self.converted(word, kind, operands[0], of)
        if word in _PLAIN:
            return self.wrap(f"{xs[0]} {_PLAIN[word]} {xs[1]}", kind)
        if word == "muli":
            return self.wrap(f"{xs[0]} * {xs[1]}" if bits == 64 else f"Math.imul({xs[0]}, {xs[1]})", kind)
        nothing = zero(kind)
        if word in ("divsi", "divui", "remsi", "remui"):
            view = self.signed if word.endswith("si") else self.unsigned
            a, b = (view(x, of) for x in operands)
            rounded = (
                f"{a} % {b}" if word.startswith("rem") else f"{a} / {b}" if bits == 64 else f"Math.trunc({a} / {b})"
            )
            return f"{xs[1]} === {nothing} ? {nothing} : {self.wrap(rounded, kind)}"
        if word in ("shli", "shrui", "shrsi"):
            by = self.unsigned(operands[1], of)
            most = f"{bits - 1}n" if bits == 64 else str(bits - 1)
            if word == "shrsi":
                return self.wrap(f"{self.signed(operands[0], of)} >> ({by} > {most} ? {most} : {by})", kind)
            source = xs[0] if word == "shli" else self.unsigned(operands[0], of)
            sign = "<<" if word == "shli" else ">>" if bits == 64 else ">>>"
            return f"{by} > {most} ? {nothing} : {self.wrap(f'{source} {sign} {by}', kind)}"
        view = self.unsigned if word.endswith("ui") else self.signed
        a, b = (view(x, of) for x in operands)
        return f"{a} {'>' if word.startswith('max') else '<'} {b} ? {xs[0]} : {xs[1]}"

    def converted(self, word: str, kind: str, value: Value, of: str) -> str:
        """An integer as one of another width."""
        wide, bits = _BITS[of], _BITS[kind]
        text = (self.unsigned if word.endswith("ui") else self.signed)(value, of)
        if bits == 64:
            return self.value(value, of) if wide == 64 else f"BigInt({text})"
        if wide == 64:
            return f"Number(BigInt.asIntN({bits}, {self.value(value, of)}))" + (" & 1" if bits == 1 else "")
        return self.wrap(text, kind)

    def print_dispatch(self, kernel: int, scalars: Sequence[Value], bindings: Sequence[Any], where: str) -> None:
        """A kernel's launch."""
        told = self.host["kernels"][kernel]
        self.line(f"// {comment(told['name'])}{': ' + comment(files(where)) if where else ''}")
        places = ", ".join(self.place(b[:2]) for b in bindings)
        lengths = ", ".join(self.index(b[2]) for b in bindings)
        pushed = ", ".join(self.value(x, "i32") for x in scalars)
        counts = ", ".join(map(str, told["counts"]))
        self.line(f"this.launch({self.first_kernel + kernel}, {counts}, [{pushed}], [{places}], [{lengths}]);")

    def print_copy(self, target: Sequence[Any], source: Sequence[Any], length: Value) -> None:
        """A range brought to another place."""
        self.line(f"this.copy({self.place(target)}, {self.place(source)}, {self.index(length)});")

    def print_fill(self, target: Sequence[Any], length: Value, value: Value, kind: str) -> None:
        """A range filled with a scalar."""
        setter = _GET[kind].replace("get", "set")
        width = max(8, _BITS.get(kind) or int(kind[1:])) // 8
        self.line(
            f'this.fill({self.place(target)}, {self.index(length)}, {width}, "{setter}", {self.value(value, kind)});'
        )

    def print_load(self, variable: str, kind: str, place: Sequence[Any]) -> None:
        """A scalar that is read from memory."""
        read = f"this.view.{_GET[kind]}({self.place(place)}, true)"
        self.line(f"{variable} = {f'+({read} !== 0)' if kind == 'i1' else read};")
