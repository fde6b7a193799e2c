"""Reading the textual form of jaxprs: ``parse(to_text(j)) == j``. The grammar is in docs/ir-grammar.md.

White space and line ends separate words and mean nothing else. Comments (``# ...`` and ``// ...``) are skipped, but
one of the form ``# file:line (function)`` right after an equation is the equation's source.
"""

from __future__ import annotations

import ast
import base64
import binascii
import dataclasses
import difflib
import enum
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from . import dtypes
from .avals import NO_AXES, AbstractValue, AxisNames, Reduced, ShapedArray, Unreduced, token
from .errors import ParseError
from .jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from .primitive import PRIMITIVES, Primitive
from .primitives.refs import Indexer, Slice
from .printer import DTYPE_NAMES, RESERVED
from .references import AbstractRef
from .sharding import UNCONSTRAINED, AbstractMesh, AxisType, NamedSharding, PartitionSpec
from .source import Source

PARAM_CLASSES: dict[str, type] = {
    "AbstractMesh": AbstractMesh, "AxisType": AxisType, "NamedSharding": NamedSharding, "P": PartitionSpec,
}  # fmt: skip
"""Classes of parameters by the name under which they are printed, besides those a primitive's module knows."""


def register_param_class(cls: type) -> type:
    """Decorator: let the parser make objects of this class (dataclass, named tuple, enum) from their printed form.

    Needed only for a class that the module of the primitive's declaration does not name.

    Raises:
        ValueError: another class of that name is registered already.
    """
    if PARAM_CLASSES.setdefault(cls.__name__, cls) is not cls:
        raise ValueError(f"a parameter class named {cls.__name__} is registered already")
    return cls


def parse(text: str, filename: str = "<text>") -> ClosedJaxpr:
    """The closed jaxpr that a text describes.

    Raises ParseError with line, column and what was expected. Nothing is checked beyond the notation (names defined
    before use, primitives known): `quire.ir.verifier.verify` does the rest.
    """
    return _Parser(text, filename).program()


def parse_aval(text: str) -> ShapedArray:
    """A type: ``f32[8,3]``, ``bool[]``, ``f32[]*``. Raises ParseError."""
    p = _Parser(text, "<type>")
    aval = p.aval()
    p.expect_end()
    if not isinstance(aval, ShapedArray):
        raise ParseError(f"{text!r} is not the type of an array, expected for example f32[8,3]")
    return aval


# -- words ----------------------------------------------------------------------------------------------------------

_MARKS: Mapping[str, Callable[[Any], Any]] = {"V": lambda axis: axis, "U": Unreduced, "R": Reduced}
_LEXER = re.compile(
    r"""
      (?P<space>\s+)
    | (?P<comment>(?:\#|//)[^\n]*)
    | (?P<number>[-+]?(?:0x[0-9a-fA-F]+|(?:inf|nan)(?=j?\b)|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?:j(?!\w))?)
    | (?P<write><-(?=\s)|\+=)
    | (?P<opaque><(?!lambda>)[^>\n]*(?:>[^>\s\]\[(){},=]*)*>)
    | (?P<word><lambda>|[A-Za-z_]\w*(?:-[A-Za-z_]\w*)*)
    | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<mark>\.\.\.|[{}()\[\];:.,=*@])
    """,
    re.VERBOSE,
)
_SOURCE = re.compile(r"#\s*(?P<file>.+):(?P<line>\d+) \((?P<function>[^\[\]]*)\)(?: \[(?P<scope>.*)\])?\s*$")
_WORDS: Mapping[str, Any] = {"None": None, "True": True, "False": False, "UNCONSTRAINED": UNCONSTRAINED}
_NUMBER = ShapedArray((), dtypes.int32, True)
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(slots=True)
class _Token:
    kind: str  # number, word, string, mark, opaque, end
    text: str
    start: int
    end: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else repr(self.text)


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


class _Parser:
    def __init__(self, text: str, filename: str) -> None:
        self.text = text
        self.filename = filename
        self.tokens: list[_Token] = []
        self.comments: dict[int, str] = {}  # number of words before it: the comment
        self.position = 0
        self.shared: dict[str, ClosedJaxpr | Jaxpr] = {}
        self.split()

    def split(self) -> None:
        at, size = 0, len(self.text)
        while at < size:
            m = _LEXER.match(self.text, at)
            if m is None:
                self.fail(f"unexpected character {self.text[at]!r}", _Token("mark", self.text[at], at, at + 1))
            kind = m.lastgroup or ""
            if kind == "comment":
                # Only a comment behind a word of its own line can be the source of an equation.
                if self.tokens and "\n" not in self.text[self.tokens[-1].end : at]:
                    self.comments[len(self.tokens)] = m.group()
            elif kind != "space":
                self.tokens.append(_Token(kind, m.group(), at, m.end()))
            at = m.end()
        self.tokens.append(_Token("end", "", size, size))

    # -- helpers

    @property
    def next(self) -> _Token:
        return self.tokens[self.position]

    def peek(self, ahead: int = 1) -> _Token:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def take(self) -> _Token:
        t = self.tokens[self.position]
        if t.kind != "end":
            self.position += 1
        return t

    def at(self, text: str) -> bool:
        return self.next.text == text and self.next.kind in ("mark", "word")

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str, context: str) -> _Token:
        if not self.at(text):
            self.fail(f"expected {text!r} {context}, found {self.next}")
        return self.take()

    def expect_end(self) -> None:
        if self.next.kind != "end":
            self.fail(f"expected the end of the text, found {self.next}")

    def fail(self, message: str, t: _Token | None = None) -> NoReturn:
        t = t or self.next
        before = self.text[: t.start]
        line = before.count("\n") + 1
        start = before.rfind("\n") + 1
        end = self.text.find("\n", t.start)
        shown = self.text[start : len(self.text) if end < 0 else end]
        column = t.start - start
        lead, shown = (f"{line:>5} | ", shown)
        if len(shown) > 160:  # base64 constants make long lines
            cut = max(0, column - 60)
            shown, column = shown[cut : cut + 140], column - cut
        pad = "".join("\t" if c == "\t" else " " for c in shown[:column])
        length = max(1, min(t.end - t.start, max(1, len(shown) - column)))
        caret = " " * (len(lead) - 2) + "| " + pad + "^" * length
        raise ParseError(f"{self.filename}:{line}:{t.start - start + 1}: {message}\n{lead}{shown}\n{caret}")

    # -- programs

    def program(self) -> ClosedJaxpr:
        while self.accept("let"):
            self.expect("@", "before the name of a shared jaxpr")
            name = self.take()
            self.expect("=", "after the name of a shared jaxpr")
            self.shared[name.text] = self.nested_jaxpr()
            self.expect("in", "after a shared jaxpr")
        start = self.next
        jaxpr, consts = self.jaxpr()
        self.expect_end()
        if None in [c if c is None else 0 for c in consts]:
            self.fail("a constant of the program has no value: write it as name:type=[values]", start)
        return ClosedJaxpr(jaxpr, consts)

    def nested_jaxpr(self) -> ClosedJaxpr | Jaxpr:
        open_ = self.accept("Jaxpr")
        start = self.next
        jaxpr, consts = self.jaxpr()
        if open_:
            return jaxpr
        if any(c is None for c in consts):
            self.fail("a constant of a nested jaxpr has no value", start)
        return ClosedJaxpr(jaxpr, consts)

    def jaxpr(self) -> tuple[Jaxpr, list[Any]]:
        self.expect("{", "at the start of a jaxpr")
        self.expect("lambda", "after '{'")
        scope: dict[str, Var] = {}
        constvars: list[Var] = []
        consts: list[Any] = []
        while not self.accept(";"):
            if self.next.kind != "word":
                self.fail(f"expected a constant name:type, or ';' before the arguments, found {self.next}")
            v = self.binder(scope)
            constvars.append(v)
            consts.append(self.constant(v.aval) if self.accept("=") else None)
        invars: list[Var] = []
        while not self.accept("."):
            if self.next.kind != "word" or self.at("let"):
                self.fail(f"expected an argument name:type, or '. let' after the arguments, found {self.next}")
            invars.append(self.binder(scope))
        self.expect("let", "after the arguments")
        eqns: list[Eqn] = []
        while not self.accept("in"):
            eqns.append(self.eqn(scope))
            while self.accept(";"):
                pass
        outvars: list[Atom] = []
        self.expect("(", "before the results")
        while not self.accept(")"):
            outvars.append(self.atom(scope))
            if not self.at(")"):
                self.expect(",", "or ')' after a result")
        self.expect("}", "at the end of a jaxpr")
        return Jaxpr(constvars, invars, outvars, eqns), consts

    def binder(self, scope: dict[str, Var]) -> Var:
        name = self.take()
        if name.kind != "word" or not _VARIABLE.fullmatch(name.text) or name.text in RESERVED:
            self.fail(f"expected the name of a variable, found {name}", name)
        self.expect(":", f"and a type after the name {name.text}")
        v = Var(self.aval())
        if name.text != "_":
            if name.text in scope:
                self.fail(f"variable {name.text} is defined twice", name)
            scope[name.text] = v
        return v

    def aval(self) -> AbstractValue:
        t = self.take()
        if t.text == "Ref":
            return self.reference()
        if t.text == "token":
            self.expect("[", "after token")
            self.expect("]", "after token[")
            return token
        dtype = dtypes.FROM_SHORT.get(t.text)
        if dtype is None:
            hint = _near(t.text, dtypes.FROM_SHORT) or f"; the dtypes are {', '.join(dtypes.FROM_SHORT)}"
            self.fail(f"expected a type such as f32[8,3], found {t}{hint}", t)
        shape: list[int] = []
        self.expect("[", f"and the shape after {t.text}")
        while not self.accept("]"):
            shape.append(self.integer("a dimension"))
            if self.at("@"):
                self.fail(
                    "a type that is divided along an explicit mesh axis cannot be read: text does not say what the mesh is. "
                    "Write the types without (f32[8,4] for f32[8@x,4]); sharding_constraint says how values are divided"
                )
            if not self.at("]"):
                self.expect(",", "or ']' after a dimension")
        return ShapedArray(tuple(shape), dtype, self.accept("*"), self.manual_axes())

    def manual_axes(self) -> AxisNames:
        """``{V:x,y, U:z}`` after a shape: along which manual axes the value varies, is unreduced, is reduced; or nothing."""
        found: set[Any] = set()
        if not self.accept("{"):
            return NO_AXES
        mark = ""
        while not self.accept("}"):
            if not mark or self.next.text in _MARKS and self.peek().text == ":":
                t = self.take()
                mark = t.text
                if mark not in _MARKS:
                    self.fail(
                        f"expected V, U or R after '{{' of a type, as in {{V:x}}: along x it varies, found {mark}", t
                    )
                self.expect(":", f"after {mark}")
            found.add(_MARKS[mark](self.take().text))
            if not self.at("}"):
                self.expect(",", "or '}' after a mesh axis")
        return frozenset(found)

    def reference(self) -> AbstractRef:
        """``Ref{f32[3]}``, from the brace on."""
        self.expect("{", "after Ref")
        start = self.next
        inner = self.aval()
        if not isinstance(inner, ShapedArray):
            self.fail("a reference is one to an array", start)
        kind = self.take().text if self.accept(",") else None
        self.expect("}", "after the type that a reference is to")
        return AbstractRef(inner, kind)

    def integer(self, what: str) -> int:
        t = self.take()
        if t.kind != "number" or not re.fullmatch(r"-?\d+", t.text):
            self.fail(f"expected {what} (an integer), found {t}", t)
        return int(t.text)

    # -- equations

    def eqn(self, scope: dict[str, Var]) -> Eqn:
        # The outputs are visible only after the equation.
        outputs: list[Var] = []
        new: dict[str, Var] = {}
        start = self.next
        if self.accept("("):
            self.expect(")", "after '(': an equation without results begins with () =")
        elif self.next.kind == "word" and self.peek().text == "[" and self.next.text in scope:
            return self.written(scope, [])
        elif self.next.kind != "word" or self.peek().text != ":":
            self.fail(f"expected an equation name:type = primitive ..., or 'in', found {self.next}")
        while not self.accept("="):
            if len(outputs) == 1 and self.next.text in ("<-", ","):
                eqn = self.written(scope, outputs)
                scope.update(new)
                return eqn
            if self.next.kind != "word":
                self.fail(f"expected another result name:type, or '=', found {self.next}")
            name = self.next
            v = self.binder(new)
            if name.text in scope and name.text != "_":
                self.fail(f"variable {name.text} is defined twice", name)
            outputs.append(v)
        p = self.primitive()
        params: dict[str, Any] = {}
        if self.accept("["):
            while not self.accept("]"):
                name = self.take()
                if name.kind != "word":
                    self.fail(f"expected a parameter name=value of {p.name}, or ']', found {name}", name)
                if name.text in params:
                    self.fail(f"parameter {name.text} of {p.name} is given twice", name)
                if name.text not in p.params and not _takes_any(p):
                    hint = _near(name.text, p.params) or f"; it has {', '.join(p.params) or 'none'}"
                    self.fail(f"primitive {p.name} has no parameter {name.text}{hint}", name)
                self.expect("=", f"after the parameter name {name.text}")
                params[name.text] = self.value(p)
                self.accept(",")
        inputs: list[Atom] = []
        while self.starts_operand():
            inputs.append(self.atom(scope))
        params = {k: params[k] for k in [*p.params, *params] if k in params}
        try:
            effects = p.effects(params)
        except Exception as error:
            self.fail(f"the parameters of {p.name} are wrong: {type(error).__name__}: {error}", start)
        source = self.source()
        scope.update(new)
        return Eqn(inputs, outputs, p, params, effects, source)

    # -- equations that read and write references, from the mark after their result on

    def written(self, scope: dict[str, Var], outputs: list[Var]) -> Eqn:
        """``a:f32[] <- r[i]``, ``r[i] <- b``, ``a:f32[], r[i] <- r[i], b`` or ``r[i] += b``."""
        if outputs and self.accept_mark("<-"):
            ref, indexers, operands = self.place(scope)
            return self.at_index("get", [ref, *operands], outputs, indexers)
        exchanged = bool(outputs) and self.accept(",")
        start = self.next
        ref, indexers, operands = self.place(scope)
        if not exchanged and self.accept_mark("+="):
            return self.at_index("addupdate", [ref, self.atom(scope), *operands], [], indexers)
        if not self.accept_mark("<-"):
            self.fail(f"expected '<-' or '+=' after the place that is written, found {self.next}")
        if exchanged:
            if self.place(scope) != (ref, indexers, operands):
                self.fail("the place that is read must be the one that is written", start)
            self.expect(",", "and the new value after the place that is read")
        value = self.atom(scope)
        if not exchanged:
            (aval,) = self.inferred("swap", [ref, value, *operands], indexers, start)
            outputs = [Var(aval)]
        return self.at_index("swap", [ref, value, *operands], outputs, indexers)

    def accept_mark(self, text: str) -> bool:
        if self.next.kind == "write" and self.next.text == text:
            self.position += 1
            return True
        return False

    def at_index(self, name: str, inputs: list[Atom], outputs: list[Var], indexers: Any) -> Eqn:
        p, params = PRIMITIVES[name], {"indexers": indexers}
        return Eqn(inputs, outputs, p, params, p.effects(params), self.source())

    def inferred(self, name: str, inputs: list[Atom], indexers: Any, start: _Token) -> Sequence[Any]:
        try:
            return PRIMITIVES[name].infer([a.aval for a in inputs], {"indexers": indexers})
        except (TypeError, ValueError) as error:
            self.fail(str(error), start)

    def place(self, scope: Mapping[str, Var]) -> tuple[Atom, Any, list[Atom]]:
        """A reference with an index: the variable, the indexers and their operands."""
        start = self.next
        ref = self.atom(scope)
        if not isinstance(ref.aval, AbstractRef):
            self.fail(f"expected a reference, {start.text} is {ref.aval.short()}", start)
        shape = ref.aval.shape
        indexers: list[Any] = []
        operands: list[Atom] = []
        if self.at("[") and self.peek().text == "...":
            self.position += 2
            self.expect("]", "after [...")
            return ref, (), []
        while self.accept("["):
            entries: list[Any] = []
            own: list[Atom] = []
            while not self.accept("]"):
                if len(entries) == len(shape):
                    self.fail(f"the index has more entries than there are dimensions, {len(shape)}", start)
                entry = self.entry(scope, shape[len(entries)])
                entries.append(entry if isinstance(entry, Slice) else None)
                own += [] if isinstance(entry, Slice) else [entry]
                if not self.at("]"):
                    self.expect(",", "or ']' in an index")
            if len(entries) < len(shape):
                self.fail(f"the index has {len(entries)} entries for {len(shape)} dimensions", start)
            indexers.append(Indexer(tuple(entries)))
            operands += own
            try:
                shape = indexers[-1].shape([a.aval for a in own])
            except ValueError as error:
                self.fail(str(error), start)
        if not indexers:
            self.fail(f"expected '[' and an index after the reference, found {self.next}")
        return ref, tuple(indexers), operands

    def entry(self, scope: Mapping[str, Var], n: int) -> Any:
        """One entry of an index: a slice, a number, or an operand with its type."""
        if self.next.kind != "number" and not self.at(":"):
            return self.atom(scope)
        after = self.peek()
        if self.next.kind == "number":
            typed = after.text == ":" and self.peek(2).kind == "word"
            if typed:
                return self.atom(scope)
            if after.text != ":":
                return Literal(self.integer("a position"), _NUMBER)
        parts: list[int | None] = []
        while True:
            parts.append(self.integer("a bound of a slice") if self.next.kind == "number" else None)
            if not self.accept(":"):
                break
        start, stop, stride = [*parts, None, None][:3]
        return Slice.written(start, stop, stride, n)

    def source(self) -> Source | None:
        comment = self.comments.get(self.position)
        match = _SOURCE.match(comment) if comment else None
        return Source(match["file"], int(match["line"]), match["function"], match["scope"] or "") if match else None

    def primitive(self) -> Primitive:
        t = self.take()
        if t.kind != "word":
            self.fail(f"expected the name of a primitive, found {t}", t)
        p = PRIMITIVES.get(t.text)
        if p is None:
            self.fail(f"no primitive is named {t.text}{_near(t.text, PRIMITIVES)}", t)
        return p

    def starts_operand(self) -> bool:
        t = self.next
        if t.kind == "number" or t.text in ("True", "False"):
            return True
        if t.text == "(":  # a complex literal, or () = of an equation without results
            return self.peek().kind == "number"
        return t.kind == "word" and t.text != "in" and self.peek().text not in (":", "[")  # the next equation

    def atom(self, scope: Mapping[str, Var]) -> Atom:
        t = self.next
        if t.kind == "number" or t.text in ("True", "False", "("):
            text = self.scalar_text()
            self.expect(":", "and a type after a literal, as in 2.0:f32[],")
            aval = self.aval()
            if not isinstance(aval, ShapedArray) or aval.shape:
                self.fail("a literal is a scalar: its type has the shape []", t)
            return Literal(self.scalar(text, aval.dtype, t), aval)
        if t.kind != "word" or t.text in RESERVED:
            self.fail(f"expected a variable or a literal, found {t}")
        v = scope.get(t.text)
        if v is None:
            self.fail(f"variable {t.text} is not defined here{_near(t.text, scope)}", t)
        self.position += 1
        return v

    # -- numbers

    def scalar_text(self) -> str | tuple[str, str]:
        """A number as written; the two parts of a complex one."""
        t = self.take()
        if t.text != "(":
            if t.kind != "number" and t.text not in ("True", "False"):
                self.fail(f"expected a number, found {t}", t)
            return t.text
        re_, im = self.take(), self.take()
        if re_.kind != "number" or im.kind != "number" or not im.text.endswith("j") or im.text[0] not in "+-":
            self.fail("expected a complex number such as (1.0+2.0j)", t)
        self.expect(")", "after a complex number")
        return re_.text, im.text[:-1]

    def scalar(self, text: str | tuple[str, str], d: dtypes.DType, t: _Token) -> np.ndarray[Any, Any]:
        """The value of the written number in a dtype, as a 0-d array."""
        if isinstance(text, tuple) != dtypes.is_complex(d):
            self.fail(f"expected a value of dtype {d}, found {t}", t)
        if isinstance(text, tuple):
            real = dtypes.real_dtype(d)
            return np.stack([self.scalar(x, real, t) for x in text]).view(d).reshape(())
        if d == dtypes.float0:
            return np.zeros((), d)
        if dtypes.is_bool(d):
            if text not in ("True", "False"):
                self.fail(f"expected True or False, found {text}", t)
            return np.asarray(text == "True")
        try:
            if dtypes.is_integer(d):
                if not _fits(int(text), d):
                    self.fail(f"{text} does not fit dtype {d}", t)
                return np.asarray(int(text), d)
            if "x" in text:  # the bits, of an unusual NaN
                sign, bits = (1, text.lstrip("+")) if text[0] != "-" else (-1, text[1:])
                if sign < 0:
                    raise ValueError
                return np.frombuffer(int(bits, 16).to_bytes(d.itemsize, "little"), d).reshape(()).copy()
            return np.asarray(float(text)).astype(d)
        except ParseError:
            raise
        except (ValueError, OverflowError):
            self.fail(f"{text} is not a value of dtype {d}", t)

    def constant(self, aval: AbstractValue) -> np.ndarray[Any, Any]:
        if not isinstance(aval, ShapedArray):
            self.fail("a constant is an array")
        return self.array(aval.dtype, aval.size).reshape(aval.shape)

    def array(self, d: dtypes.DType, size: int) -> np.ndarray[Any, Any]:
        """The elements of an array: ``[values]``, ``splat(value)`` or ``base64"..."``."""
        t = self.take()
        if t.text == "[":
            items: list[np.ndarray[Any, Any]] = []
            while not self.accept("]"):
                first = self.next
                items.append(self.scalar(self.scalar_text(), d, first))
                self.accept(",")
            if d == dtypes.float0:
                return np.zeros(size, d)
            if len(items) != size:
                self.fail(f"expected {size} elements, found {len(items)}", t)
            return np.stack(items) if items else np.zeros(0, d)
        if t.text == "splat":
            self.expect("(", "after splat")
            first = self.next
            value = self.scalar(self.scalar_text(), d, first)
            self.expect(")", "after the value of splat")
            return np.full(size, value, d)
        if t.text == "base64":
            content = self.take()
            try:
                data = base64.b64decode(ast.literal_eval(content.text), validate=True)
            except (ValueError, SyntaxError, TypeError, binascii.Error):
                self.fail('expected base64"..." with the elements\' bytes', content)
            if len(data) != size * d.itemsize:
                self.fail(f"expected {size * d.itemsize} bytes for {size} elements, found {len(data)}", content)
            return np.frombuffer(data, d.newbyteorder("<")).astype(d)
        if t.text == "...":
            self.fail("the value of this constant was left out when the program was printed", t)
        self.fail(f'expected the elements of an array: [values], splat(value) or base64"...", found {t}', t)

    # -- parameters

    def value(self, p: Primitive) -> Any:
        t = self.next
        if t.text == "{" or (t.text == "Jaxpr" and self.peek().text == "{"):
            return self.nested_jaxpr()
        if t.kind == "number":
            return self.number_value()
        if t.kind == "string":
            return ast.literal_eval(self.take().text)
        if t.kind == "opaque":
            self.fail(f"{t.text} is printed by its name only and cannot be read back", t)
        if self.accept("@"):
            name = self.take()
            if name.text not in self.shared:
                self.fail(f"no jaxpr is named @{name.text}{_near(name.text, self.shared)}", name)
            return self.shared[name.text]
        if self.accept("("):
            return self.tuple_or_complex(p, t)
        if t.kind == "word":
            return self.word_value(p)
        self.fail(f"expected the value of a parameter, found {t}")

    def number_value(self) -> Any:
        """A Python number, or a NumPy scalar if a type follows."""
        t = self.take()
        if self.at(":"):
            self.take()
            aval = self.aval()
            assert isinstance(aval, ShapedArray)
            return self.scalar(t.text, aval.dtype, t)[()]
        if re.fullmatch(r"[-+]?\d+", t.text):
            return int(t.text)
        return float(self.scalar(t.text, dtypes.float64, t))

    def tuple_or_complex(self, p: Primitive, start: _Token) -> Any:
        if self.next.kind == "number" and self.peek().text.endswith("j") and self.peek().kind == "number":
            self.position -= 1
            text = self.scalar_text()
            if self.accept(":"):
                aval = self.aval()
                assert isinstance(aval, ShapedArray)
                return self.scalar(text, aval.dtype, start)[()]
            return complex(self.scalar(text, dtypes.complex128, start))
        items: list[Any] = []
        while not self.accept(")"):
            items.append(self.value(p))
            if not self.at(")"):
                self.expect(",", "or ')' in a tuple")
        return tuple(items)

    def word_value(self, p: Primitive) -> Any:
        t = self.take()
        word = t.text
        if word in ("True", "False") and self.at(":"):
            self.take()
            self.aval()
            return np.bool_(word == "True")
        if word in _WORDS:
            return _WORDS[word]
        after = self.next.text if self.next.start == t.end else ""  # directly behind the word
        if after == "." and self.peek().kind == "word":
            return self.enum_value(p, t)
        if (
            word == "Ref"
            and after == "{"
            or word == "token"
            and after == "["
            or word in dtypes.FROM_SHORT
            and after == "["
        ):
            self.position -= 1
            return self.aval()
        if word == "array" and after == "(":
            return self.array_value()
        if after == "(":
            return self.call_value(p, t)
        if word in DTYPE_NAMES:
            return DTYPE_NAMES[word]
        return word

    def array_value(self) -> np.ndarray[Any, Any]:
        """``array(f32[2]=[1.0 2.0])``."""
        self.expect("(", "after array")
        aval = self.aval()
        self.expect("=", "after the array's type")
        array = self.constant(aval)
        self.expect(")", "after the array's elements")
        return array

    def find_class(self, p: Primitive, t: _Token) -> type:
        """The class of that name: registered, or named in the module of the primitive's declaration."""
        found = PARAM_CLASSES.get(t.text) or getattr(sys.modules.get(p.type_rule.__module__), t.text, None)
        if not isinstance(found, type):
            self.fail(f"no parameter class is named {t.text}{_near(t.text, PARAM_CLASSES)}", t)
        return found

    def enum_value(self, p: Primitive, t: _Token) -> Any:
        cls = self.find_class(p, t)
        self.expect(".", "after an enum's name")
        member = self.take()
        if not issubclass(cls, enum.Enum) or member.text not in cls.__members__:
            names: list[str] = list(cls.__members__) if issubclass(cls, enum.Enum) else []
            self.fail(f"{t.text} has no member {member.text}{_near(member.text, names)}", member)
        return cls[member.text]

    def call_value(self, p: Primitive, t: _Token) -> Any:
        """``ClassName(value, ..., field=value, ...)``, ``set(...)`` or ``primitive(name)``."""
        self.expect("(", "after a class name")
        if t.text == "primitive":
            inner = self.primitive()
            self.expect(")", "after the name of a primitive")
            return inner
        if t.text == "set":
            return frozenset(self.tuple_or_complex(p, t))
        cls = self.find_class(p, t)
        values: list[Any] = []
        fields: dict[str, Any] = {}
        while not self.accept(")"):
            if self.next.kind == "word" and self.peek().text == "=":
                name = self.take()
                self.take()
                fields[name.text] = self.value(p)
            elif fields:
                self.fail(f"expected a field name=value of {t.text}, found {self.next}")
            else:
                values.append(self.value(p))
            if not self.at(")"):
                self.expect(",", "or ')' after a field")
        make: Callable[..., Any] = cls
        try:
            return make(*values, **fields)
        except (TypeError, ValueError) as error:
            self.fail(f"{t.text} cannot be made of these fields: {error}", t)


def _takes_any(p: Primitive) -> bool:
    """Whether the type rule takes any keyword."""
    return p.type_rule.__code__.co_flags & 0x08 != 0 if hasattr(p.type_rule, "__code__") else False


def _fits(value: int, d: dtypes.DType) -> bool:
    info = np.iinfo(d)
    return int(info.min) <= value <= int(info.max)
