"""The host's scalars in C and in JavaScript: every operation on edge values, against NumPy and Python's integers."""

from __future__ import annotations

import math
import shutil

import numpy as np
import pytest

from quire.backends.export.host import Function, Leaf, Model, pool
from quire.backends.export.targets import export_target
from quire.export.folders import write_c
from quire.export.programs import Example
from quire.export.web import write_javascript
from quire.ir import dtypes

BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64}
INTEGERS = {k: sorted({0, 1, 3, (1 << b) - 1, 1 << (b - 1), (1 << (b - 1)) - 1, 7} & set(range(1 << b)) if b < 16
                      else {0, 1, 3, (1 << b) - 1, 1 << (b - 1), (1 << (b - 1)) - 1, 7}) for k, b in BITS.items()}  # fmt: skip
FLOATS = [0.0, -0.0, 1.5, -2.75, 100.25, math.inf, -math.inf, math.nan]
WIDE = ("i32", "i64", "index")


def signed(x: int, bits: int) -> int:
    return x - (1 << bits) if x >> (bits - 1) else x


def integer(op: str, kind: str, a: int, b: int) -> int | None:
    """A result in Python's integers, as bits; None where MLIR leaves it open."""
    n = BITS[kind]
    p, q = signed(a, n), signed(b, n)
    shift = b < n
    found = {
        "addi": lambda: a + b, "subi": lambda: a - b, "muli": lambda: a * b, "andi": lambda: a & b, "ori": lambda: a | b,
        "xori": lambda: a ^ b, "maxsi": lambda: max(p, q), "minsi": lambda: min(p, q), "maxui": lambda: max(a, b),
        "minui": lambda: min(a, b), "shli": lambda: a << b if shift else None, "shrui": lambda: a >> b if shift else None,
        "shrsi": lambda: p >> b if shift else None, "divui": lambda: a // b if b else None,
        "remui": lambda: a % b if b else None,
        "divsi": lambda: None if not q or (q == -1 and p == -(1 << (n - 1))) else int(math.copysign(1, p) * math.copysign(1, q)) * (abs(p) // abs(q)),
        "remsi": lambda: None if not q or (q == -1 and p == -(1 << (n - 1))) else int(math.copysign(1, p)) * (abs(p) % abs(q)),
    }[op]()  # fmt: skip
    return None if found is None else found & ((1 << n) - 1)


def compare(order: str, a: int, b: int, n: int) -> bool:
    if order[0] == "s":
        a, b = signed(a, n), signed(b, n)
    return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[order[-2:]]


def compare_floats(order: str, a: float, b: float) -> bool:
    nan = a != a or b != b
    if order in ("ord", "uno"):
        return nan == (order == "uno")
    return nan if nan and order[0] == "u" else not nan and compare(order[1:], a, b, 64)  # pyright: ignore


def bytes_of(x, kind: str) -> bytes:
    if kind in ("f32", "f64"):
        return np.array(x, {"f32": np.float32, "f64": np.float64}[kind]).tobytes()
    return int(x).to_bytes(max(1, BITS[kind] // 8), "little")


class Cases:
    """Steps that load operands, compute and store; and what they should store."""

    def __init__(self) -> None:
        self.given, self.expected = bytearray(), bytearray()
        self.variables: list[str] = []
        self.steps: list[list] = []

    def load(self, x, kind: str) -> str:
        name, data = f"v{len(self.variables)}", bytes_of(x, kind)
        self.variables.append(kind)
        self.steps.append(["load", name, kind, [0, len(self.given)]])
        self.given += data
        return name

    def add(self, op: str, kind: str, of: str, operands: list, result) -> None:
        kinds = ["i1", of, of] if op == "select" else [of] * len(operands)
        names = [self.load(x, k) for x, k in zip(operands, kinds)]
        made, data = f"v{len(self.variables)}", bytes_of(result, kind)
        self.variables.append(kind)
        self.steps.append(["let", made, kind, op, names, of])
        self.steps.append(["fill", [1, len(self.expected)], len(data), made, kind])
        self.expected += data

    def function(self, number: int) -> Function:
        host = {
            "kernels": [], "exports": 0, "arguments": 1, "results": [("result", 0)], "constants": [],
            "buffers": [("argument", 0, len(self.given)), ("result", 0, len(self.expected))], "arena": 0,
            "variables": self.variables, "steps": self.steps,
        }  # fmt: skip
        x, y = (Leaf(n, n, dtypes.uint8, (len(data),)) for n, data in (("x", self.given), ("y", self.expected)))
        return Function(f"f{number}", f"scalars_f{number}", (x,), (y,), (0,), (("result", 0),), host, b"")


class Functions:
    """Cases, so many to a function: C compilers take longer than linear."""

    def __init__(self) -> None:
        self.all = [Cases()]

    def add(self, *case) -> None:
        if len(self.all[-1].steps) > 300:
            self.all.append(Cases())
        self.all[-1].add(*case)


def cases() -> list[Cases]:
    out = Functions()
    for kind, n in BITS.items():
        values = INTEGERS[kind]
        for (
            op
        ) in "addi subi muli andi ori xori maxsi minsi maxui minui shli shrui shrsi divui remui divsi remsi".split():
            for a in values:
                for b in values:
                    found = integer(op, kind, a, b)
                    if found is not None:
                        out.add(op, kind, kind, [a, b], found)
        for order in "eq ne slt sle sgt sge ult ule ugt uge".split():
            for a, b in zip(values, values[1:] + values[:1]):
                out.add(f"cmpi {order}", "i1", kind, [a, b], compare(order, a, b, n))
                out.add(f"cmpi {order}", "i1", kind, [a, a], compare(order, a, a, n))
        out.add("select", kind, kind, [1, values[0], values[-1]], values[0])
        out.add("select", kind, kind, [0, values[0], values[-1]], values[-1])
        for to, m in BITS.items():
            for x in values:
                word = "index_cast" if "index" in (kind, to) else "trunci" if m < n else "extsi"
                out.add(word, to, kind, [x], signed(x, n) & ((1 << m) - 1))
                if m >= n:
                    out.add("index_castui" if "index" in (kind, to) else "extui", to, kind, [x], x)
        for x in values:
            for f, kind_of in ((np.float32, "f32"), (np.float64, "f64")):
                out.add("sitofp", kind_of, kind, [x], f(signed(x, n)))
                out.add("uitofp", kind_of, kind, [x], f(x))
        for x in (1.5, -2.75 if n > 1 else 0.0, 0.0):
            out.add("fptosi", kind, "f64", [x], int(x) & ((1 << n) - 1))
    for kind, t in (("f32", np.float32), ("f64", np.float64)):
        with np.errstate(all="ignore"):
            for a in FLOATS:
                for b in FLOATS:
                    x, y = t(a), t(b)
                    for op, f in (("addf", np.add), ("subf", np.subtract), ("mulf", np.multiply), ("divf", np.divide)):
                        if not np.isnan(f(x, y)):  # the bits of NaN are open
                            out.add(op, kind, kind, [a, b], f(x, y))
                    if a == a and b == b and a != b:
                        for op, f in (("maximumf", max), ("minimumf", min), ("maxnumf", max), ("minnumf", min)):
                            out.add(op, kind, kind, [a, b], f(a, b))
                    if a == a and b != b:
                        out.add("maxnumf", kind, kind, [a, b], a)
                        out.add("minnumf", kind, kind, [b, a], a)
                    for order in "oeq ogt oge olt ole one ord ueq ugt uge ult ule une uno".split():
                        out.add(f"cmpf {order}", "i1", kind, [a, b], compare_floats(order, a, b))
        for a in FLOATS[:-1]:
            out.add("negf", kind, kind, [a], t(-a))
            bits = "i32" if kind == "f32" else "i64"
            out.add("bitcast", bits, kind, [a], int.from_bytes(bytes_of(a, kind), "little"))
            out.add("bitcast", kind, bits, [int.from_bytes(bytes_of(a, kind), "little")], a)
            out.add("extf" if kind == "f32" else "truncf", "f64" if kind == "f32" else "f32", kind, [a], a)
    return out.all


@pytest.mark.parametrize("language", ["c", "javascript"])
def test_scalars(language, tmp_path):
    tool = "cc" if language == "c" else "node"
    if shutil.which(tool) is None:
        pytest.skip(f"there is no {tool} here")
    made = cases()
    functions = tuple(c.function(i) for i, c in enumerate(made))
    target = export_target("wasm32" if language == "javascript" else "x86-64-v2")
    model = Model("scalars", functions, pool(functions), 0, "0", target.name)
    example = [Example([bytes(c.given)], [bytes(c.expected)]) for c in made]
    if language == "c":
        assert write_c(tmp_path, [], example, model, target, True).checked
    else:
        assert write_javascript(tmp_path, example, model, target, True).checked
