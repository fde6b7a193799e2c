"""The textual form of jaxprs: the notation of JAX's ``make_jaxpr``, complete enough to be parsed back.

``parse(to_text(j)) == j`` for every closed jaxpr. What is added to JAX's notation: a star after a weak type
(``f32[]*``), the values of constants (``a:f32[2]=[1.0 2.0]``), and ``let @name = ... in`` for a nested jaxpr that is
used several times. The grammar is in docs/ir-grammar.md.
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from . import dtypes
from .avals import AbstractValue, ShapedArray
from .jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var, nested_jaxprs
from .primitive import Primitive
from .references import Ref
from .sharding import UNCONSTRAINED, AbstractMesh, Mesh, NamedSharding, PartitionSpec

# Words that no variable is called and that a string parameter is quoted for.
RESERVED = frozenset(("in", "let", "lambda", "inf", "nan", "infj", "nanj", "True", "False", "None", "UNCONSTRAINED"))
DTYPE_NAMES: Mapping[str, dtypes.DType] = {("float0" if d == dtypes.float0 else d.name): d for d in dtypes.SHORT}
_WORD = re.compile(r"[A-Za-z_]\w*|<lambda>")


@dataclasses.dataclass(frozen=True)
class PrintOptions:
    """How a jaxpr is printed.

    Attributes:
        source: add each equation's position in the user's program as a comment; one equation a line.
        width: lines are wrapped beyond it where the notation allows.
        max_const: constants with more elements are left out (then the text cannot be parsed); None prints all.
    """

    source: bool = False
    width: int = 100
    max_const: int | None = None


COMPLETE = PrintOptions()

# The primitives that are written with an index of a reference.
_AT_INDEX = frozenset(("get", "swap", "addupdate"))
_NUMBER = ShapedArray((), dtypes.int32, True)


class Names:
    """Names of variables, given in order of appearance: a, b, ..., z, ba, ...

    One object used for several prints keeps the names of variables that occur again, so that the texts of a program
    before and after a pass can be compared.
    """

    def __init__(self) -> None:
        self._names: dict[Var, str] = {}
        self._next = 0

    def __getitem__(self, v: Var) -> str:
        name = self._names.get(v)
        if name is None:
            name = self._names[v] = self._fresh()
        return name

    def _fresh(self) -> str:
        while True:
            n, name = self._next, ""
            self._next += 1
            while n >= 26:
                n, digit = divmod(n, 26)
                name = chr(97 + digit) + name
            name = chr(97 + n) + name
            if name not in RESERVED:
                return name


def to_text(j: ClosedJaxpr, options: PrintOptions = COMPLETE, names: Names | None = None) -> str:
    """The closed jaxpr as text that `quire.ir.parser.parse` reads back."""
    return closed_jaxpr_to_str(j, options, names)


def closed_jaxpr_to_str(j: ClosedJaxpr, options: PrintOptions = COMPLETE, names: Names | None = None) -> str:
    """The text of a closed jaxpr, with the values of its constants."""
    return _Printer(options, names or Names()).program(j.jaxpr, j.consts)


def jaxpr_to_str(j: Jaxpr, options: PrintOptions = COMPLETE, names: Names | None = None) -> str:
    """The text of a jaxpr; its constvars have no values."""
    return _Printer(options, names or Names()).program(j, None)


def eqn_to_str(eqn: Eqn, options: PrintOptions = COMPLETE, names: Names | None = None) -> str:
    """The text of one equation, for messages: its inputs get the first names."""
    names = names or Names()
    for a in eqn.inputs:
        if isinstance(a, Var):
            names[a]
    return "\n".join(_Printer(options, names).eqn(eqn, set(eqn.outputs), options.width))


def value_to_str(value: Any) -> str:
    """A parameter's value on one line."""
    return " ".join(_Printer(COMPLETE, Names()).value(value, 10**9))


# -- values ---------------------------------------------------------------------------------------------------------


@functools.cache
def aval_to_str(aval: AbstractValue) -> str:
    """``f32[8,3]``, with a star if weak: ``f32[]*``; ``f32[8]{V:x}`` if it varies along a mesh axis."""
    if isinstance(aval, ShapedArray):
        return aval.short() + ("*" if aval.weak_type else "")
    return getattr(aval, "short", aval.__repr__)()


def scalar_to_str(x: np.ndarray[Any, Any]) -> str:
    """A scalar array's value, such that reading it as the same dtype gives the same bits."""
    d = x.dtype
    if d == dtypes.float0:
        return "0"
    if dtypes.is_bool(d):
        return str(bool(x))
    if dtypes.is_integer(d):
        return str(int(x))
    if dtypes.is_complex(d):
        parts = x.reshape(1).view(dtypes.real_dtype(d))
        imag = _float_to_str(parts[1:].reshape(()))
        return f"({_float_to_str(parts[:1].reshape(()))}{imag if imag[0] in '+-' else '+' + imag}j)"
    return _float_to_str(x)


def _float_to_str(x: np.ndarray[Any, Any]) -> str:
    value = float(x)
    if value != value:
        if x.tobytes() == np.asarray(np.nan, x.dtype).tobytes():
            return "nan"
        return hex(int.from_bytes(x.tobytes(), "little"))  # another NaN: its bits
    if value in (float("inf"), float("-inf")):
        return str(value)
    short = str(x[()])
    if "." not in short and "e" not in short:
        short += ".0"
    # The shortest text of a narrow float is read through a double: take the double's own text if that rounds twice.
    return short if np.asarray(float(short)).astype(x.dtype).tobytes() == x.tobytes() else repr(value)


def array_to_str(x: np.ndarray[Any, Any], max_size: int | None = None) -> str:
    """An array's elements in row-major order: values if few, one value if all are the same, otherwise base64."""
    flat = np.ascontiguousarray(x).reshape(-1)
    if flat.size <= 16 or x.dtype == dtypes.float0:
        size = 0 if x.dtype == dtypes.float0 else flat.size
        return f"[{' '.join(scalar_to_str(flat[i : i + 1].reshape(())) for i in range(size))}]"
    data = flat.astype(flat.dtype.newbyteorder("<"), copy=False).tobytes()
    if data == data[: flat.itemsize] * flat.size:
        return f"splat({scalar_to_str(flat[:1].reshape(()))})"
    if max_size is not None and flat.size > max_size:
        return "..."
    return f'base64"{base64.b64encode(data).decode()}"'


def string_to_str(text: str) -> str:
    """A string parameter: bare if it is one plain word, as in JAX, otherwise quoted."""
    if _WORD.fullmatch(text) and text not in RESERVED and text not in DTYPE_NAMES and text not in dtypes.FROM_SHORT:
        return text
    return repr(text)


def _qualified(x: Any) -> str:
    name = getattr(x, "__qualname__", None) or getattr(x, "__name__", None)
    return f"{type(x).__name__} {name}" if isinstance(name, str) else type(x).__name__


# -- layout -----------------------------------------------------------------------------------------------------------


def _indent(lines: Sequence[str], by: int) -> list[str]:
    pad = " " * by
    return [pad + line for line in lines]


def _fill(first: str, words: Iterable[str], width: int, indent: int = 6) -> list[str]:
    """The words after `first`, separated by blanks, continued on further lines beyond the width."""
    lines: list[str] = []
    line = first
    for word in words:
        if line.strip() and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = " " * indent + word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


class _Printer:
    def __init__(self, options: PrintOptions, names: Names) -> None:
        self.options = options
        self.names = names
        self.shared: dict[int, str] = {}  # id of a jaxpr used several times: its name

    def program(self, j: Jaxpr, consts: Sequence[Any] | None) -> str:
        lines: list[str] = []
        for name, inner in self.find_shared(j):
            prefix = "let @" + name + " = "
            body = self.nested(inner, self.options.width - 2)
            lines += [prefix + body[0], *_indent(body[1:], 2)]
            lines[-1] += " in"
        return "\n".join([*lines, *self.jaxpr(j, consts, self.options.width)])

    def find_shared(self, j: Jaxpr) -> list[tuple[str, ClosedJaxpr | Jaxpr]]:
        """Nested jaxprs that occur several times, which get a name; innermost first."""
        counts: dict[int, int] = {}
        order: list[tuple[str, ClosedJaxpr | Jaxpr]] = []

        def visit(jaxpr: Jaxpr) -> None:
            for eqn in jaxpr.eqns:
                for inner in nested_jaxprs(eqn.params):
                    counts[id(inner)] = counts.get(id(inner), 0) + 1
                    if counts[id(inner)] == 1:
                        visit(inner.jaxpr if isinstance(inner, ClosedJaxpr) else inner)
                        order.append((str(eqn.params.get("name", eqn.primitive.name)), inner))

        visit(j)
        result: list[tuple[str, ClosedJaxpr | Jaxpr]] = []
        taken: set[str] = set()
        for name, inner in order:
            if counts[id(inner)] < 2:
                continue
            base = re.sub(r"\W+", "", name) or "jaxpr"
            base = base if not base[0].isdigit() else "_" + base
            unique, n = base, 1
            while unique in taken:
                unique, n = f"{base}_{n}", n + 1
            taken.add(unique)
            self.shared[id(inner)] = unique
            result.append((unique, inner))
        return result

    def nested(self, j: ClosedJaxpr | Jaxpr, width: int) -> list[str]:
        if isinstance(j, ClosedJaxpr):
            return self.jaxpr(j.jaxpr, j.consts, width)
        lines = self.jaxpr(j, None, width)
        return ["Jaxpr" + lines[0], *lines[1:]]

    def jaxpr(self, j: Jaxpr, consts: Sequence[Any] | None, width: int) -> list[str]:
        names = self.names
        binders: list[str] = []
        for i, v in enumerate(j.constvars):
            text = f"{names[v]}:{aval_to_str(v.aval)}"
            if consts is not None and not isinstance(consts[i], Ref):  # what a reference holds is no part of a program
                text += "=" + array_to_str(np.asarray(consts[i]), self.options.max_const)
            binders.append(text)
        binders.append(";")
        binders += [f"{names[v]}:{aval_to_str(v.aval)}" for v in j.invars]
        binders[-1] += "." if j.invars else " ."
        used: set[Var] = {a for a in j.outvars if isinstance(a, Var)}
        for eqn in j.eqns:
            used.update(a for a in eqn.inputs if isinstance(a, Var))
        header = _fill("{ lambda", [*binders, "let"], width)
        body = [line for eqn in j.eqns for line in self.eqn(eqn, used, width - 4)]
        out = [self.atom(a) for a in j.outvars]
        items = [a + "," for a in out[:-1]] + out[-1:] if len(out) != 1 else [out[0] + ","]
        footer = _fill("in", ["(" + items[0], *items[1:]] if items else ["("], width - 2)
        footer[-1] += ") }"
        if len(header) == len(footer) == 1 and len(body) <= 1 and not self.options.source:
            line = " ".join([header[0], *body, footer[0]])
            if len(line) <= width:
                return [line]
        return [*header, *_indent(body, 4), *_indent(footer, 2)]

    def eqn(self, eqn: Eqn, used: set[Var], width: int) -> list[str]:
        outs = [f"{self.names[v] if v in used else '_'}:{aval_to_str(v.aval)}" for v in eqn.outputs] or ["()"]
        inputs = [self.atom(a) for a in eqn.inputs]
        blocks = [self.param(name, eqn.params[name], width - 2) for name in sorted(eqn.params)]
        comment = f"  # {eqn.source}" if self.options.source and eqn.source is not None else ""
        name = eqn.primitive.name
        if name in _AT_INDEX:
            return [self.at_index(eqn, outs[0], used) + comment]
        if all(len(b) == 1 for b in blocks):
            params = f"[{' '.join(b[0] for b in blocks)}]" if blocks else ""
            line = " ".join([*outs, "=", name + params, *inputs])
            if len(line) <= width:
                return [line + comment]
        if not blocks:
            lines = _fill("", [*outs, "=", name, *inputs], width)
        else:
            lines = _fill("", [*outs, "=", name + "["], width)
            lines += [line for b in blocks for line in _indent(b, 2)]
            lines += _fill("]", inputs, width, indent=4)
        lines[-1] += comment
        return lines

    def at_index(self, eqn: Eqn, out: str, used: set[Var]) -> str:
        """What reads or writes a reference: ``a:f32[] <- r[i]``, ``r[i] <- b``, ``a:f32[], r[i] <- r[i], b``, ``r[i] += b``."""
        ref, *operands = eqn.inputs
        value = None if eqn.primitive.name == "get" else self.atom(operands.pop(0))
        place = self.names_of(ref) + self.index(eqn.params["indexers"], ref.aval.shape, operands)
        if eqn.primitive.name == "get":
            return f"{out} <- {place}"
        if eqn.primitive.name == "addupdate":
            return f"{place} += {value}"
        return f"{out}, {place} <- {place}, {value}" if eqn.outputs[0] in used else f"{place} <- {value}"

    def names_of(self, a: Atom) -> str:
        assert isinstance(a, Var), "a reference is a variable"
        return self.names[a]

    def index(self, indexers: Sequence[Any], shape: tuple[int, ...], operands: Sequence[Atom]) -> str:
        """``[1:, i]``, one bracket for each indexer; ``[...]`` for the whole."""
        given = list(operands)
        text: list[str] = []
        for indexer in indexers:
            entries: list[str] = []
            own = [a.aval for a in given[: indexer.count]]
            for e, n in zip(indexer.entries, shape, strict=True):
                entries.append(self.position(given.pop(0)) if e is None else e.text(n))
            text.append(f"[{','.join(entries)}]")
            shape = indexer.shape(own)
        return "".join(text) or "[...]"

    def position(self, a: Atom) -> str:
        """An operand of an index; the type of a Python number goes without saying."""
        return scalar_to_str(a.value) if isinstance(a, Literal) and a.aval is _NUMBER else self.atom(a)

    def atom(self, a: Atom) -> str:
        if isinstance(a, Literal):
            return f"{scalar_to_str(a.value)}:{aval_to_str(a.aval)}"
        return self.names[a]

    def param(self, name: str, value: Any, width: int) -> list[str]:
        lines = self.value(value, width - len(name) - 1)
        return [f"{name}={lines[0]}", *lines[1:]]

    def value(self, x: Any, width: int) -> list[str]:
        if isinstance(x, ClosedJaxpr | Jaxpr):
            name = self.shared.get(id(x))
            return [f"@{name}"] if name else self.nested(x, width)
        if isinstance(x, tuple) and not hasattr(type(x), "_fields"):  # pyright: ignore[reportUnknownArgumentType]
            items: Sequence[Any] = x  # pyright: ignore[reportUnknownVariableType]
            blocks = [self.value(item, width - 2) for item in items]  # pyright: ignore[reportUnknownVariableType]
            if all(len(b) == 1 for b in blocks):
                return [_tuple([b[0] for b in blocks])]
            lines = ["("]
            for b in blocks:
                lines += _indent(b, 2)
                lines[-1] += ","
            return [*lines, ")"]
        return [self.flat_value(x)]

    def flat_value(self, value: Any) -> str:
        x: Any = value
        if x is None or isinstance(x, bool):
            return str(x)
        if isinstance(x, enum.Enum):
            return f"{type(x).__name__}.{x.name}"
        if isinstance(x, np.generic):
            scalar: np.ndarray[Any, Any] = np.asarray(value)
            return f"{scalar_to_str(scalar)}:{dtypes.SHORT[scalar.dtype]}[]"
        if isinstance(x, int):
            return str(int(x))
        if isinstance(x, float | complex):
            return scalar_to_str(np.asarray(value))
        if isinstance(x, str):
            return string_to_str(x)
        if isinstance(x, np.dtype) and value in dtypes.SHORT:
            return "float0" if value == dtypes.float0 else value.name
        if isinstance(x, AbstractValue):
            return aval_to_str(value)
        if isinstance(x, np.ndarray):
            array: np.ndarray[Any, Any] = value
            shape = ",".join(map(str, array.shape))
            return f"array({dtypes.SHORT[array.dtype]}[{shape}]={array_to_str(array, self.options.max_const)})"
        if isinstance(x, Primitive):
            return f"primitive({x.name})"
        if isinstance(x, frozenset):
            members: Iterable[Any] = value
            return f"set({', '.join(sorted(map(self.flat_value, members)))})"
        if isinstance(x, PartitionSpec | NamedSharding | AbstractMesh | Mesh):
            return self.sharding(x)
        if x is UNCONSTRAINED:
            return "UNCONSTRAINED"
        fields = _fields(value)
        if fields is not None:
            inside = ", ".join(f"{k}={' '.join(self.value(v, 10**9))}" for k, v in fields.items())
            return f"{type(value).__name__}({inside})"
        return f"<{_qualified(value)}>"

    def sharding(self, x: PartitionSpec | NamedSharding | AbstractMesh | Mesh) -> str:
        """A mesh is shown without its devices: programs that differ in them only are one program."""
        if isinstance(x, PartitionSpec):
            parts = [self.flat(p) for p in x.partitions]
            parts += [f"{n}={self.flat(s)}" for n, s in (("unreduced", x.unreduced), ("reduced", x.reduced)) if s]
            return f"P({', '.join(parts)})"
        if isinstance(x, NamedSharding):
            return f"NamedSharding(mesh={self.sharding(x.mesh)}, spec={self.sharding(x.spec)})"
        axes = (x.axis_sizes, x.axis_names, x.axis_types)
        return f"AbstractMesh({', '.join(map(self.flat, axes))})"

    def flat(self, x: Any) -> str:
        """A value on one line, tuples among them."""
        return " ".join(self.value(x, 10**9))


def _fields(x: Any) -> Params | None:
    """The fields of a dataclass or of a named tuple by name; None for other objects."""
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return {f.name: getattr(x, f.name) for f in dataclasses.fields(x) if f.init and f.repr}
    names: Sequence[str] | None = getattr(x, "_fields", None)
    if isinstance(x, tuple) and names is not None:
        return {name: getattr(x, name) for name in names}  # pyright: ignore[reportUnknownArgumentType]
    return None
