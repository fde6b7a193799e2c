"""One walk over what the host does between kernels; a printer for each language says how a step looks.

Blocks, branches and loops look alike in C and JavaScript and are printed here. A printer says how memory is read and written,
how a kernel is launched, and what scalars are.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .host import Function

Value = int | float | str


def filled(template: str, words: Mapping[str, object]) -> str:
    """A template with a text or a number for each of its words; what is put in is not searched for words."""
    longest = sorted(words, key=len, reverse=True)
    return re.sub("|".join(longest), lambda match: str(words[match[0]]), template)


def comment(text: str) -> str:
    """Text that may stand in a comment, of one line or of several."""
    return " ".join(text.splitlines()).replace("*/", "* /").replace("/*", "/ *")


class Printer(abc.ABC):
    """Prints one function's steps; `lines` grows."""

    def __init__(self, function: Function, offsets: Sequence[int], indent: str = "    ") -> None:
        self.function, self.host, self.offsets = function, function.host, offsets
        self.indent = indent
        self.depth = 1
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        """One more line."""
        self.lines.append(self.indent * self.depth + text if text else "")

    def place(self, place: Sequence[Any]) -> str:
        """A pointer to an offset in a buffer."""
        number, offset = place
        kind, of, _ = self.host["buffers"][number]
        base = {"argument": f"a{of}", "result": f"r{of}"}.get(kind)
        if base is None:
            start = self.offsets[of] if kind == "constant" else of
            base = "weights" if kind == "constant" else "arena"
            if isinstance(offset, int):
                return self.sum(base, start + offset)
            base = self.sum(base, start)
        return self.sum(base, offset)

    def sum(self, base: str, offset: Value) -> str:
        """A pointer and an offset."""
        return base if offset == 0 else f"{base} + {self.index(offset)}"

    def steps(self, steps: Sequence[Any]) -> None:
        """Print all of them."""
        for step in steps:
            getattr(self, "print_" + step[0])(*step[1:])

    def inside(self, steps: Sequence[Any]) -> None:
        """Print steps one level deeper."""
        self.depth += 1
        self.steps(steps)
        self.depth -= 1

    # -- what looks alike

    def print_if(self, condition: Value, then: Sequence[Any], other: Sequence[Any]) -> None:
        """A branch."""
        self.line(f"if ({self.truth(condition)}) {{")
        self.inside(then)
        if other:
            self.line("} else {")
            self.inside(other)
        self.line("}")

    def print_switch(self, chosen: Value, cases: Sequence[Any], other: Sequence[Any]) -> None:
        """One of several lists of steps."""
        for i, (number, steps) in enumerate(cases):
            test = self.operation("cmpi eq", "i1", [chosen, number], "index")
            self.line(("} else " if i else "") + f"if ({self.truth_of(test)}) {{")
            self.inside(steps)
        self.line("} else {" if cases else "{")
        self.inside(other)
        self.line("}")

    def print_for(
        self, variable: str, kind: str, order: str, low: Value, high: Value, by: Value, body: Sequence[Any]
    ) -> None:
        """A loop over numbers."""
        more = self.truth_of(self.operation(f"cmpi {order}", "i1", [variable, high], kind))
        following = self.operation("addi", kind, [variable, by], kind)
        self.line(f"for ({variable} = {self.value(low, kind)}; {more}; {variable} = {following}) {{")
        self.inside(body)
        self.line("}")

    def print_while(self, before: Sequence[Any], condition: Value, after: Sequence[Any]) -> None:
        """A loop that the data decides about."""
        self.line("for (;;) {")
        self.inside(before)
        self.depth += 1
        self.line(f"if (!({self.truth(condition)})) break;")
        self.steps(after)
        self.depth -= 1
        self.line("}")

    def print_let(self, variable: str, kind: str, operation: str, operands: Sequence[Value], of: str) -> None:
        """A scalar."""
        self.line(f"{variable} = {self.operation(operation, kind, operands, of)};")

    def print_set(self, changes: Sequence[Any]) -> None:
        """Variables, all at the same time."""
        targets = {target for target, _, _ in changes}
        if len(changes) == 1 or not any(value in targets for _, value, _ in changes):
            for target, value, kind in changes:
                self.line(f"{target} = {self.value(value, kind)};")
            return
        self.line("{")
        self.depth += 1
        for target, value, kind in changes:
            self.line(f"{self.declare(kind)} new_{target} = {self.value(value, kind)};")
        for target, _, _ in changes:
            self.line(f"{target} = new_{target};")
        self.depth -= 1
        self.line("}")

    def truth(self, condition: Value) -> str:
        """A value of type i1 as a condition."""
        return self.truth_of(self.value(condition, "i1"))

    # -- what a language says

    @abc.abstractmethod
    def index(self, value: Value) -> str:
        """An offset or a length."""

    @abc.abstractmethod
    def value(self, value: Value, kind: str) -> str:
        """A scalar of a type."""

    @abc.abstractmethod
    def declare(self, kind: str) -> str:
        """The beginning of a variable's declaration."""

    @abc.abstractmethod
    def truth_of(self, text: str) -> str:
        """The text of an i1 as a condition."""

    @abc.abstractmethod
    def operation(self, operation: str, kind: str, operands: Sequence[Value], of: str) -> str:
        """An operation of MLIR's `arith` on operands of type `of`."""

    @abc.abstractmethod
    def print_dispatch(self, kernel: int, scalars: Sequence[Value], bindings: Sequence[Any], where: str) -> None:
        """A kernel's launch."""

    @abc.abstractmethod
    def print_copy(self, target: Sequence[Any], source: Sequence[Any], length: Value) -> None:
        """A range brought to another place."""

    @abc.abstractmethod
    def print_fill(self, target: Sequence[Any], length: Value, value: Value, kind: str) -> None:
        """A range filled with a scalar."""

    @abc.abstractmethod
    def print_load(self, variable: str, kind: str, place: Sequence[Any]) -> None:
        """A scalar that is read from memory."""
