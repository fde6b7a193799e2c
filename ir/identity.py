"""What a program is, as bytes for a digest: equal for programs that are equal up to the names of their variables.

It says what the printed form says (`quire.ir.printer`), in a third of the time: variables are numbers, literals are
their bits, and nothing is laid out. Source positions are no part of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, Var
from .printer import array_to_str, aval_to_str, value_to_str

# Of these types `repr` says all; bool is apart from int.
_PLAIN = frozenset((int, bool, type(None)))


def identity(jaxpr: Jaxpr) -> bytes:
    """The bytes of a jaxpr; its constvars have no values."""
    writer = _Writer()
    writer.jaxpr(jaxpr)
    return "\n".join(writer.lines).encode()


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._numbers: dict[Var, int] = {}
        self._seen: dict[int, int] = {}  # id of a nested jaxpr: which one it is

    def jaxpr(self, j: Jaxpr) -> None:
        write = self.lines.append
        write(f"{self._bound(j.constvars)};{self._bound(j.invars)}")
        for e in j.eqns:
            params = "".join(f" {name}={self._value(e.params[name])}" for name in sorted(e.params)) if e.params else ""
            write(f"{self._bound(e.outputs)}={e.primitive.name}[{params}]{self._atoms(e.inputs)}")
        write(f"->{self._atoms(j.outvars)}")

    def _bound(self, variables: Iterable[Var]) -> str:
        """The types of new variables; their numbers follow from their places."""
        numbers = self._numbers
        text: list[str] = []
        for v in variables:
            numbers[v] = len(numbers)
            text.append(aval_to_str(v.aval))
        return " ".join(text)

    def _atoms(self, atoms: Iterable[Atom]) -> str:
        numbers = self._numbers
        return " ".join(
            f"{a.value.tobytes().hex()}:{aval_to_str(a.aval)}" if isinstance(a, Literal) else str(numbers[a])
            for a in atoms
        )

    def _value(self, x: Any) -> str:
        """A parameter's value; nested jaxprs are written on lines of their own, once each."""
        if type(x) in _PLAIN:
            return repr(x)
        if type(x) is tuple:
            return f"({','.join(map(self._value, x))},)"  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(x, ClosedJaxpr | Jaxpr):
            number = self._seen.get(id(x))
            if number is None:
                number = self._seen[id(x)] = len(self._seen)
                self.lines.append(f"{{ {number} {type(x).__name__}")
                self.jaxpr(x.jaxpr if isinstance(x, ClosedJaxpr) else x)
                if isinstance(x, ClosedJaxpr):
                    self.lines += [array_to_str(np.asarray(c)) for c in x.consts]
                self.lines.append("}")
            return f"@{number}"
        return value_to_str(x)


__all__ = ["identity"]
