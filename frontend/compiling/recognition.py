"""Recognisers: functions generated for one structure of arguments, the shortest way from a call to its leaves.

Flattening a nested dict of 100 arrays by a general routine costs several times what running a small program does.
Once a structure has been seen twice, a function is generated that takes it apart directly: it checks the type and the
length of each container on its way, so that any other structure is noticed, and returns the leaves with the key of
their signatures. Its counterpart puts results together. Structures that hold other containers than tuples, lists,
dicts, named tuples and typed keys take the general way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.runtime.array import Array

from ..arrays.key_array import PRNGKeyArray

Recogniser = Callable[[tuple[Any, ...], dict[str, Any]], tuple[Sequence[Any], tuple[Any, ...]]]

MISMATCH = (TypeError, ValueError, KeyError, AttributeError, IndexError, OverflowError)
"""What a recogniser raises for a structure that is not its own."""

MOST_LEAVES = 1000
DEEPEST = 60
"""Python's compiler takes no more than 100 brackets within each other."""
_KEYS = (str, int, bool)


class _TooComplex(Exception):
    """The structure holds something that a recogniser does not check."""


def signature_of_leaf(x: Any) -> Any:
    """What the variants of a compiled function are told apart by; TypeError for what is no array."""
    return x._signature if type(x) is Array else aval_of(x)


def _other() -> TypeError:
    return TypeError("another structure")


class _Writer:
    """Writes the statements that take one call's arguments apart."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.leaves: list[str] = []
        self.found: list[Any] = []
        self.names: dict[str, Any] = {"other": _other, "signature": signature_of_leaf}
        self.count = 0
        self.depth = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def kind(self, value: Any) -> str:
        """The name under which the generated code knows the type of a container."""
        kind = type(value)
        if kind in (tuple, list, dict):
            return kind.__name__
        if kind is PRNGKeyArray or isinstance(value, tuple) and hasattr(kind, "_fields"):
            name = f"K{len(self.names)}"
            self.names[name] = kind
            return name
        raise _TooComplex

    def take(self, value: Any, name: str) -> None:
        """Statements that check the value named `name` to be like `value`, and name its leaves."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise _TooComplex
        self._take(value, name)
        self.depth -= 1

    def _take(self, value: Any, name: str) -> None:
        if value is None:
            self.lines.append(f"if {name} is not None: raise other()")
        elif isinstance(value, dict):
            kind = self.kind(value)
            self.lines.append(f"if type({name}) is not {kind} or len({name}) != {len(value)}: raise other()")
            for key in _sorted(value):
                part = self.name()
                self.lines.append(f"{part} = {name}[{key!r}]")
                self.take(value[key], part)
        elif isinstance(value, tuple | list):
            self.lines.append(f"if type({name}) is not {self.kind(value)}: raise other()")
            self.unpack(value, name)
        elif type(value) is PRNGKeyArray:
            part = self.name()
            self.lines += [
                f"if type({name}) is not {self.kind(value)} or {name}.impl != {value.impl!r}: raise other()",
                f"{part} = {name}.base",
            ]
            self.take(value.base, part)
        else:
            self.leaves.append(name)
            self.found.append(value)
            if len(self.leaves) > MOST_LEAVES:
                raise _TooComplex

    def unpack(self, values: Sequence[Any], name: str) -> None:
        """Statements that name the items of a sequence, and take each apart."""
        parts = [self.name() for _ in values]
        self.lines.append(f"{', '.join(parts)}{',' if len(parts) == 1 else ''} = {name}" if parts
                          else f"if {name}: raise other()")  # fmt: skip
        for part, value in zip(parts, values):
            self.take(value, part)


def _sorted(value: dict[Any, Any]) -> list[Any]:
    """The keys in the order of their leaves; only keys that can be written as literals."""
    if any(type(k) not in _KEYS for k in value):
        raise _TooComplex
    try:
        return sorted(value)
    except TypeError:
        raise _TooComplex from None


def recogniser(
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    leaves: Sequence[Any],
    static_numbers: frozenset[int],
    static_names: frozenset[str],
) -> Recogniser | None:
    """The recogniser of calls like this one; None where the structure is beyond it.

    The key that it returns tells apart all calls of the structure that need another variant: the leaves' signatures,
    and the type and value of each static argument. It raises one of `MISMATCH` for other structures.
    """
    writer = _Writer()
    static: list[str] = []
    n = len(args)
    try:
        parts = [writer.name() for _ in args]
        writer.lines.append(f"{', '.join(parts)}{',' if n == 1 else ''} = args" if parts else "if args: raise other()")
        writer.lines.append(f"if len(kwargs) != {len(kwargs)}: raise other()" if kwargs else "if kwargs: raise other()")
        for i, (part, value) in enumerate(zip(parts, args)):
            if i in static_numbers or i - n in static_numbers:
                static.append(part)
            else:
                writer.take(value, part)
        for key in sorted(kwargs):
            part = writer.name()
            writer.lines.append(f"{part} = kwargs[{key!r}]")
            if key in static_names:
                static.append(part)
            else:
                writer.take(kwargs[key], part)
    except _TooComplex:
        return None
    if len(writer.found) != len(leaves) or any(a is not b for a, b in zip(writer.found, leaves)):
        return None  # it would not agree with the general way
    keys = [f"{v}._signature" if type(x) is Array else f"signature({v})" for v, x in zip(writer.leaves, writer.found)]
    keys += [f"type({v}), {v}" for v in static]
    writer.lines.append(f"return ({_items(writer.leaves)}), ({_items(keys)})")
    return _define("recognise", "args, kwargs", writer.lines, writer.names)


def assembler(example: Any, count: int) -> Callable[[Sequence[Any]], Any] | None:
    """A function from `count` leaves to a tree like `example`, whose leaves are the numbers from 0."""
    names: dict[str, Any] = {}

    def write(value: Any, depth: int = 0) -> str:
        kind = type(value)
        if depth > DEEPEST:
            raise _TooComplex
        depth += 1
        if value is None:
            return "None"
        if kind is dict:
            return "{" + ", ".join(f"{key!r}: {write(value[key], depth)}" for key in _literals(value)) + "}"
        if kind is list:
            return f"[{', '.join([write(x, depth) for x in value])}]"
        if kind is tuple:
            return f"({_items([write(x, depth) for x in value])})"
        if kind is int:
            return f"v{value}"
        if isinstance(value, PRNGKeyArray) or isinstance(value, tuple) and hasattr(kind, "_fields"):
            name = f"K{len(names)}"
            names[name] = kind
            if isinstance(value, PRNGKeyArray):
                return f"{name}({write(value.base, depth)}, {value.impl!r})"
            return f"{name}({', '.join([write(x, depth) for x in value])})"
        raise _TooComplex

    if count > MOST_LEAVES:
        return None
    try:
        expression = write(example)
    except _TooComplex:
        return None
    unpack = f"{_items([f'v{i}' for i in range(count)])} = leaves" if count else "if leaves: raise ValueError"
    return _define("assemble", "leaves", [unpack, f"return {expression}"], names)


def _literals(value: dict[Any, Any]) -> list[Any]:
    if any(type(k) not in _KEYS for k in value):
        raise _TooComplex
    return list(value)


def _items(parts: Sequence[str]) -> str:
    return ", ".join(parts) + ("," if len(parts) == 1 else "")


def _define(name: str, parameters: str, lines: Sequence[str], names: dict[str, Any]) -> Any:
    """The function of these statements. They hold our own names and literals of keys only."""
    source = f"def {name}({parameters}):\n" + "".join(f"    {line}\n" for line in lines)
    exec(compile(source, "<quire recogniser>", "exec"), names)
    return names[name]
