"""The host's steps in C (C99).

Integers are kept in unsigned variables of their width, whose arithmetic wraps as MLIR's does; signed operations convert. What
C leaves undefined (division by zero, shifts by the width, floats out of an integer's range) has a value here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from .host import Function
from .printing import Printer, Value, comment

_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
_FLOATS = {"f32": "float", "f64": "double"}
_PLAIN = {"addi": "+", "subi": "-", "muli": "*", "andi": "&", "ori": "|", "xori": "^"}
_FLOAT_PLAIN = {"addf": "+", "subf": "-", "mulf": "*", "divf": "/"}
_ORDER = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

HELPERS = """\
static inline float q_f32(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
static inline double q_f64(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }
static inline uint32_t q_u32(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }
static inline uint64_t q_u64(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }
static inline uint64_t q_divide(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? 0 - (uint64_t)a : (uint64_t)(a / b); }
static inline uint64_t q_rest(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : (uint64_t)(a % b); }
static inline int64_t q_shift(int64_t a, uint64_t b) { return b > 63 ? (a < 0 ? -1 : 0) : a < 0 ? ~(~a >> b) : a >> b; }
static inline int64_t q_signed(double x) { return x > -9.3e18 && x < 9.2e18 ? (int64_t)x : 0; }
static inline uint64_t q_unsigned(double x) { return x > -1 && x < 1.8e19 ? (uint64_t)x : 0; }
static inline double q_max(double a, double b) { return a != a || b != b ? a + b : a > b ? a : b; }
static inline double q_min(double a, double b) { return a != a || b != b ? a + b : a < b ? a : b; }
"""
"""Functions that the operations use."""


def c_type(kind: str) -> str:
    """The type of a variable."""
    return _FLOATS.get(kind) or f"uint{max(8, _BITS[kind])}_t"


class CPrinter(Printer):
    """Prints a function's steps in C.

    Kernels are numbered from `first_kernel` on; where one fails, the function returns `failed`.
    """

    def __init__(self, function: Function, offsets: Sequence[int], *, first_kernel: int, failed: str) -> None:
        super().__init__(function, offsets)
        self.first_kernel, self.failed = first_kernel, failed

    def index(self, value: Value) -> str:
        """An offset or a length."""
        return str(value) if isinstance(value, int) else f"(size_t){value}"

    def value(self, value: Value, kind: str) -> str:
        """A scalar of a type."""
        if isinstance(value, str):
            return value
        if kind == "f32":
            (bits,) = struct.unpack("<I", struct.pack("<f", value))
            return f"q_f32({bits:#x}u)" if not math.isfinite(value) else f"{float(value).hex()}f"
        if kind == "f64":
            (bits,) = struct.unpack("<Q", struct.pack("<d", value))
            return f"q_f64({bits:#x}ull)" if not math.isfinite(value) else float(value).hex()
        bits = _BITS[kind]
        number = int(value) & ((1 << bits) - 1)
        return f"UINT64_C({number})" if bits == 64 else f"(({c_type(kind)}){number}u)" if bits < 32 else f"{number}u"

    def declare(self, kind: str) -> str:
        """The beginning of a variable's declaration."""
        return c_type(kind)

    def truth_of(self, text: str) -> str:
        """The text of an i1 as a condition."""
        return text

    def signed(self, value: Value, kind: str) -> str:
        """An integer as the number that its bits are in two's complement."""
        text, bits = self.value(value, kind), _BITS[kind]
        return f"-(int32_t){text}" if bits == 1 else f"(int{bits}_t){text}"

    def operation(self, operation: str, kind: str, operands: Sequence[Value], of: str) -> str:
        """An operation of MLIR's `arith` on operands of type `of`."""
        xs = [self.value(x, of) for x in operands]
        word, _, order = operation.partition(" ")
        if word == "select":
            return f"{self.value(operands[0], 'i1')} ? {xs[1]} : {xs[2]}"
        if word == "cmpi":
            a, b = xs if order[0] != "s" else [self.signed(x, of) for x in operands]
            return f"({a} {_ORDER[order[-2:]]} {b})"
        if word == "cmpf":
            return self.compared(order, *xs)
        if kind in _FLOATS:
            return self.to_float(word, kind, operands, of, xs)
        return self.fitted(self.to_integer(word, kind, operands, of, xs), kind)

    def fitted(self, text: str, kind: str) -> str:
        """An expression as a value of its type."""
        return f"({c_type(kind)})({text})" if kind != "i1" else f"(uint8_t)(({text}) & 1)"

    def compared(self, order: str, a: str, b: str) -> str:
        """A comparison of floats: ordered ones are false of NaN, unordered ones true."""
        nan = f"({a} != {a} || {b} != {b})"
        if order in ("false", "true"):
            return str(int(order == "true"))
        if order in ("ord", "uno"):
            return f"!{nan}" if order == "ord" else nan
        test = f"{a} {_ORDER[order[1:]]} {b}"
        return f"(!{nan} && {test})" if order[0] == "o" else f"({nan} || {test})"

    def to_float(self, word: str, kind: str, operands: Sequence[Value], of: str, xs: Sequence[str]) -> str:
        """An operation that gives a float."""
        if word in _FLOAT_PLAIN:
            return f"{xs[0]} {_FLOAT_PLAIN[word]} {xs[1]}"
        if word == "bitcast":
            return f"q_{kind}({xs[0]})"
        if word == "negf":
            return f"-{xs[0]}"
        if word in ("maximumf", "minimumf"):
            return f"({c_type(kind)})q_{word[:3]}({xs[0]}, {xs[1]})"
        if word in ("maxnumf", "minnumf"):
            test = ">" if word == "maxnumf" else "<"
            return f"({xs[1]} != {xs[1]} || {xs[0]} {test} {xs[1]}) ? {xs[0]} : {xs[1]}"
        source = self.signed(operands[0], of) if word == "sitofp" else xs[0]
        return f"({c_type(kind)}){source}"

    def to_integer(self, word: str, kind: str, operands: Sequence[Value], of: str, xs: Sequence[str]) -> str:
        """An operation that gives an integer."""
        wide = "uint64_t" if _BITS[kind] == 64 else "uint32_t"
        if word in _PLAIN:
            return f"({wide}){xs[0]} {_PLAIN[word]} ({wide}){xs[1]}"
        if word in ("fptosi", "fptoui"):
            return f"q_{'signed' if word == 'fptosi' else 'unsigned'}({xs[0]})"
        if word == "bitcast":
            return f"q_u{_BITS[kind]}({xs[0]})" if of in _FLOATS else xs[0]
        if word in ("extui", "trunci", "index_castui"):
            return xs[0]
        signed = [self.signed(x, of) for x in operands]
        if word in ("extsi", "index_cast"):
            return signed[0]
        if word in ("divsi", "remsi"):
            return f"q_{'divide' if word == 'divsi' else 'rest'}({signed[0]}, {signed[1]})"
        if word in ("divui", "remui"):
            return f"{xs[1]} == 0 ? 0 : {xs[0]} {'/' if word == 'divui' else '%'} {xs[1]}"
        if word == "shrsi":
            return f"q_shift({signed[0]}, {xs[1]})"
        if word in ("shli", "shrui"):
            return f"{xs[1]} > {_BITS[kind] - 1} ? 0 : ({wide}){xs[0]} {'<<' if word == 'shli' else '>>'} {xs[1]}"
        test = ">" if word.startswith("max") else "<"
        a, b = signed if word.endswith("si") else xs
        return f"{a} {test} {b} ? {xs[0]} : {xs[1]}"

    def print_dispatch(self, kernel: int, scalars: Sequence[Value], bindings: Sequence[Any], where: str) -> None:
        """A kernel's launch."""
        told = self.host["kernels"][kernel]
        n = len(bindings)
        self.line(f"{{ /* {comment(told['name'])}{': ' + comment(files(where)) if where else ''} */")
        self.depth += 1
        if n:
            self.line(f"void *const b[{n}] = {{{', '.join(self.place(b[:2]) for b in bindings)}}};")
            constant = "static " if all(isinstance(b[2], int) for b in bindings) else ""
            self.line(f"{constant}const size_t n[{n}] = {{{', '.join(self.index(b[2]) for b in bindings)}}};")
        if scalars:
            self.line(f"const uint32_t s[{len(scalars)}] = {{{', '.join(self.value(x, 'i32') for x in scalars)}}};")
        counts = ", ".join(f"{x}u" for x in told["counts"])
        self.line(
            f"if (q_launch(c, {self.first_kernel + kernel}, {counts}, {len(scalars)}, {'s' if scalars else 'NULL'}, "
            f"{n}, {'b' if n else 'NULL'}, {'n' if n else 'NULL'})) return {self.failed};"
        )
        self.depth -= 1
        self.line("}")

    def print_copy(self, target: Sequence[Any], source: Sequence[Any], length: Value) -> None:
        """A range brought to another place."""
        self.line(f"memmove({self.place(target)}, {self.place(source)}, {self.index(length)});")

    def print_fill(self, target: Sequence[Any], length: Value, value: Value, kind: str) -> None:
        """A range filled with a scalar."""
        to, n, x = self.place(target), self.index(length), self.value(value, kind)
        if kind in _FLOATS:
            x = f"q_u{kind[1:]}({x})"
        width = _BITS[kind] // 8 if kind in _BITS else int(kind[1:]) // 8
        if width <= 1:
            self.line(f"memset({to}, {x}, {n});")
        else:
            self.line(f"q_fill{width}({to}, {n}, {x});")

    def print_load(self, variable: str, kind: str, place: Sequence[Any]) -> None:
        """A scalar that is read from memory."""
        self.line(f"memcpy(&{variable}, {self.place(place)}, sizeof {variable});")
        if kind == "i1":
            self.line(f"{variable} = {variable} != 0;")


def files(where: str) -> str:
    """The user's lines without the folders of their files: what is written does not tell where it was."""
    return "; ".join(part.rpartition("/")[2] for part in where.split("; "))
