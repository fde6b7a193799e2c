"""A random program as data: statements, each a line of Python that runs with quire and with JAX."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as onp

from . import prelude

Shape = tuple[int, ...]
Aval = tuple[Shape, str]  # shape and the dtype's name


@dataclass(frozen=True)
class Arg:
    """An argument: its type inside all vmaps, how its value is made, and whether it is donated."""

    name: str
    aval: Aval
    kind: str
    seed: int
    donated: bool = False


@dataclass(frozen=True)
class Block:
    """A nested function: a loop's body, a branch.

    Attributes:
        params, results: names; a group of several names is a tuple of values.
    """

    name: str
    params: tuple[str | tuple[str, ...], ...]
    statements: tuple[Statement, ...]
    results: tuple[str | tuple[str, ...], ...]


@dataclass(frozen=True)
class Statement:
    """``targets = text``, where ``{0}``, ``{1}`` stand for operands and ``{f0}``, ``{f1}`` for blocks.

    Attributes:
        avals: types of the targets; empty where no library has accepted the statement.
        several: its value is a tuple or list of the targets, though there may be only one.
    """

    targets: tuple[str, ...]
    text: str
    operands: tuple[str, ...]
    avals: tuple[Aval, ...]
    blocks: tuple[Block, ...] = ()
    several: bool = False


@dataclass(frozen=True)
class Transform:
    """One transformation of the stack.

    Attributes:
        numbers: the arguments that are differentiated.
        in_axes, out_axes, size: of vmap.
        option: text of further options.
    """

    name: str
    numbers: tuple[int, ...] = ()
    in_axes: tuple[int | None, ...] = ()
    out_axes: int = 0
    size: int = 0
    option: str = ""

    def text(self) -> str:
        """The line that applies it to `f`."""
        if self.name == "vmap":
            return f"f = api.vmap(f, in_axes={self.in_axes}, out_axes={self.out_axes})"
        if self.name in ("jit", "checkpoint"):
            return f"f = api.{self.name}(f{self.option})"
        return f"f = {self.name}(api, f, {self.numbers})"


@dataclass(frozen=True)
class Program:
    """Arguments, statements, names of the results, and transformations from the innermost to the outermost."""

    args: tuple[Arg, ...]
    statements: tuple[Statement, ...]
    results: tuple[str, ...]
    stack: tuple[Transform, ...] = ()
    x64: bool = False
    seed: int = 0

    def lanes(self, number: int) -> tuple[tuple[int, int], ...]:
        """The axes (axis, size) that vmaps add to an argument, innermost first."""
        return tuple(
            (t.in_axes[number], t.size) for t in self.stack if t.name == "vmap" and t.in_axes[number] is not None
        )  # pyright: ignore[reportReturnType]

    def values(self) -> list[onp.ndarray[Any, Any]]:
        """Fresh arrays for the arguments."""
        return [prelude.argument(a.aval[0], a.aval[1], a.kind, a.seed, self.lanes(i)) for i, a in enumerate(self.args)]

    def text(self, name: str = "f") -> str:
        """The function's source, without its transformations."""
        lines = [f"def {name}({', '.join(a.name for a in self.args)}):"]
        for s in self.statements:
            lines += ["    " + line for line in statement_lines(s)]
        return "\n".join([*lines, f"    return {_tuple(self.results)}"])

    def function(self, library: Mapping[str, Any]) -> Callable[..., Any]:
        """The transformed function under a library's names (see `library_names`)."""
        names = dict(library)
        lines = [self.text(), *(t.text() for t in self.stack)]
        exec(_compiled("\n".join(lines)), names)
        return names["f"]


@functools.lru_cache(4096)
def _compiled(text: str) -> Any:
    return compile(text, "<random program>", "exec")


def _tuple(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"


def _group(group: str | tuple[str, ...]) -> str:
    return group if isinstance(group, str) else _tuple(group)


def statement_lines(s: Statement) -> list[str]:
    """The statement as source, its blocks before it."""
    lines: list[str] = []
    for b in s.blocks:
        heads = [p if isinstance(p, str) else f"p{i}" for i, p in enumerate(b.params)]
        lines.append(f"def {b.name}({', '.join(heads)}):")
        for head, p in zip(heads, b.params):
            if not isinstance(p, str) and p:
                lines.append(f"    {_tuple(p)} = {head}")
        for inner in b.statements:
            lines += ["    " + line for line in statement_lines(inner)]
        lines.append("    return " + ", ".join(map(_group, b.results)))
    text = s.text.format(*s.operands, **{f"f{i}": b.name for i, b in enumerate(s.blocks)})
    return [*lines, f"{_tuple(s.targets) if s.several else s.targets[0]} = {text}"]


def flat(groups: Sequence[str | tuple[str, ...]]) -> Iterator[str]:
    """The names in groups."""
    for g in groups:
        if isinstance(g, str):
            yield g
        else:
            yield from g


def read_names(s: Statement) -> set[str]:
    """The names a statement reads from outside: its operands and what its blocks capture."""
    names = set(s.operands)
    for b in s.blocks:
        inner = set(flat(b.results))
        own = set(flat(b.params))
        for t in b.statements:
            inner |= read_names(t)
            own |= set(t.targets)
        names |= inner - own
    return names


def renamed(s: Statement, names: Mapping[str, str]) -> Statement:
    """The statement with other names for what it reads."""

    def group(g: str | tuple[str, ...]) -> str | tuple[str, ...]:
        return names.get(g, g) if isinstance(g, str) else tuple(names.get(n, n) for n in g)

    blocks = tuple(
        dataclasses.replace(
            b,
            statements=tuple(renamed(t, names) for t in b.statements),
            results=tuple(group(g) for g in b.results),
        )
        for b in s.blocks
    )
    return dataclasses.replace(s, operands=tuple(names.get(n, n) for n in s.operands), blocks=blocks)


def pruned(program: Program) -> Program:
    """The program without the statements and blocks' statements that nothing reads."""

    def live(statements: Sequence[Statement], wanted: set[str]) -> tuple[Statement, ...]:
        kept: list[Statement] = []
        for s in reversed(statements):
            if wanted & set(s.targets):
                blocks = tuple(
                    dataclasses.replace(b, statements=live(b.statements, set(flat(b.results)))) for b in s.blocks
                )
                s = dataclasses.replace(s, blocks=blocks)
                wanted |= read_names(s)
                kept.append(s)
        return tuple(reversed(kept))

    return dataclasses.replace(program, statements=live(program.statements, set(program.results)))


def with_references(program: Program) -> Program:
    """The program whose loops and branches keep what they carry, or return, in references (`prelude.Places`)."""

    def one(s: Statement) -> Statement:
        blocks = tuple(dataclasses.replace(b, statements=tuple(map(one, b.statements))) for b in s.blocks)
        text = s.text
        for name in ("scan", "fori_loop", "while_loop", "cond"):
            text = text.replace(f"lax.{name}(", f"places.{name}(")
        return dataclasses.replace(s, text=text, blocks=blocks)

    return dataclasses.replace(program, statements=tuple(map(one, program.statements)))


def library_names(which: str) -> dict[str, Any]:
    """The names that programs use, of quire or jax."""
    if which == "quire":
        import quire as api
        from quire import lax, random
        from quire import numpy as np
    else:
        import jax as api
        from jax import lax, random
        from jax import numpy as np
    helpers = {n: getattr(prelude, n) for n in ("gradient", "value_and_gradient", "pushforward", "pullback")}
    return {"api": api, "np": np, "lax": lax, "random": random, "places": prelude.Places(api), **helpers}
