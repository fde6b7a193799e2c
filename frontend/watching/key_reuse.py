"""`config.debug_key_reuse`: a typed key that two functions use up is reported, with both lines.

A sampler marks its key with a `use_key` equation. In a traced function the marks are found in its jaxpr, those of nested
functions included; a key outside of any trace is remembered by its array. Slices of an array of keys are told apart by
their indices; a slice and the whole array are not used both.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.config import config
from quire.ir.errors import KeyReuseError
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from quire.ir.primitives import random as rn
from quire.ir.source import Source, current_source, where
from quire.ir.tracing import current_trace
from quire.runtime.array import Array


@dataclass(frozen=True)
class Use:
    """Where a key was used up, and by which function."""

    by: str
    source: Source | None

    def __str__(self) -> str:
        return f"quire.random.{self.by}{where(self.source)}"


def _reused(first: Use, second: Use, note: str = "") -> KeyReuseError:
    return KeyReuseError(
        f"a random key is used twice{note}: first by {first}, then by {second}. The same key gives the same numbers: "
        "split it (key, subkey = quire.random.split(key)) and use each part once; quire.random.clone(key) allows "
        "another use on purpose"
    )


# -- outside of any trace -------------------------------------------------------------------------------------------------


class _Remembered:
    """What is known of the array of one key: how it was used up, and the slices taken of it."""

    def __init__(self, parent: _Remembered | None = None) -> None:
        self.use: Use | None = None
        self.parent = parent
        self.slices: dict[Any, Any] = {}
        self.children: list[_Remembered] = []

    def found(self) -> Use | None:
        """A use of this array, of the one that it is part of, or of a part."""
        up: _Remembered | None = self
        while up is not None:
            if up.use is not None:
                return up.use
            up = up.parent
        return self._below()

    def _below(self) -> Use | None:
        for child in self.children:
            use = child.use or child._below()
            if use is not None:
                return use
        return None


class _Memory:
    """The arrays of keys that have been used or sliced while the option was on, by identity."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._known: dict[int, tuple[Any, _Remembered]] = {}

    def of(self, array: Array, parent: _Remembered | None = None) -> _Remembered:
        with self._lock:
            entry = self._known.get(id(array))
            if entry is None or entry[0]() is not array:
                number = id(array)
                entry = weakref.ref(array, lambda _: self._known.pop(number, None)), _Remembered(parent)
                self._known[number] = entry
                if parent is not None:
                    parent.children.append(entry[1])
            return entry[1]

    def mark(self, array: Array, use: Use) -> None:
        with self._lock:
            entry = self.of(array)
            first = entry.found()
            if first is not None:
                raise _reused(first, use)
            entry.use = use


# What a process knows of its keys while the option is on; weak, so that it keeps no array alive.
_memory = _Memory()


def used(raw: Any, by: str) -> Any:
    """The key's words, marked as used up by the function `by`. KeyReuseError if they were already."""
    if _staging() or not isinstance(raw, Array):
        return rn.use_key_p.bind(raw, by=by)
    _memory.mark(raw, Use(by, current_source()))
    return raw


def _staging() -> bool:
    trace = current_trace()
    return trace is not None and trace.staging


def sliced(base: Any, index: Any, value: Any) -> Any:
    """The slice of an array of keys at a constant index: the same array for the same index."""
    if not config.options.debug_key_reuse or not isinstance(base, Array):
        return value
    try:
        hash(index)
    except TypeError:
        return value
    entry = _memory.of(base)
    known = entry.slices.setdefault(index, value)
    _memory.of(known, entry)
    return known


# -- traced functions -----------------------------------------------------------------------------------------------------

_MOVES = frozenset(("slice", "squeeze", "reshape", "copy", "broadcast_in_dim", "dynamic_slice", "gather", "transpose"))


class _Analysis:
    """The uses in one jaxpr: each variable is a path of moves from where it came from."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.paths: dict[Var, tuple[Any, ...]] = {v: (v,) for v in jaxpr.invars}
        self.uses: dict[tuple[Any, ...], Use] = {}
        for eqn in jaxpr.eqns:
            self._visit(eqn)
        self.inputs: list[Use | None] = [self._use_below((v,)) for v in jaxpr.invars]

    def path(self, atom: Any) -> tuple[Any, ...]:
        return self.paths.get(atom, (atom,)) if isinstance(atom, Var) else (id(atom),)

    def _use_below(self, path: tuple[Any, ...]) -> Use | None:
        return next((use for p, use in self.uses.items() if p[: len(path)] == path), None)

    def mark(self, atom: Any, use: Use) -> None:
        if not isinstance(atom, Var):
            return
        path = self.path(atom)
        first = self._use_below(path) or next(
            (self.uses[path[:n]] for n in range(1, len(path)) if path[:n] in self.uses), None
        )
        if first is not None:
            raise _reused(first, use)
        self.uses[path] = use

    def _visit(self, eqn: Eqn) -> None:
        name = eqn.primitive.name
        if name == "use_key":
            self.mark(eqn.inputs[0], Use(eqn.params["by"], eqn.source))
        elif name in _MOVES and name != "copy":
            rest = tuple(x.value if isinstance(x, Literal) else x for x in eqn.inputs[1:])
            move = (name, tuple(sorted((k, repr(v)) for k, v in eqn.params.items())), rest)
            self.paths[eqn.outputs[0]] = (*self.path(eqn.inputs[0]), move)
        else:
            for atom, use in _uses_of_call(name, eqn.params, eqn.inputs):
                self.mark(atom, use)


def _uses_of_call(name: str, params: Mapping[str, Any], operands: Sequence[Any]) -> list[tuple[Any, Use]]:
    """The operands that an equation's functions use up."""
    inner = {k: v for k, v in params.items() if isinstance(v, ClosedJaxpr)}
    if name == "scan":
        again = params["length"] > 1
        consts, carried = (params["num_consts"], params["num_carry"]) if again else (0, 0)
        return _loop_uses(inner["jaxpr"], operands, consts, carried, True)
    if name in ("while", "bounded_while"):
        n, m = params["cond_nconsts"], params["body_nconsts"]
        carried = len(operands) - n - m
        return [
            *_loop_uses(inner["cond_jaxpr"], [*operands[:n], *operands[n + m :]], n, carried, False),
            *_loop_uses(inner["body_jaxpr"], operands[n:], m, carried, True),
        ]
    if name == "cond":
        found: dict[int, Use] = {}
        for branch in params["branches"]:
            for i, use in enumerate(_Analysis(branch.jaxpr).inputs):
                if use is not None:
                    found.setdefault(i, use)
        return [(operands[1 + i], use) for i, use in found.items()]
    for closed in inner.values():
        uses = _Analysis(closed.jaxpr).inputs
        if len(uses) == len(operands):
            return [(atom, use) for atom, use in zip(operands, uses) if use is not None]
    return []


def _loop_uses(
    body: ClosedJaxpr, operands: Sequence[Any], consts: int, carried: int, returns_carry: bool
) -> list[tuple[Any, Use]]:
    """The uses of a loop's body: a constant, or a carry that is handed on as it came, is used in every step."""
    analysis = _Analysis(body.jaxpr)
    for i, use in enumerate(analysis.inputs):
        again = use is not None and (
            i < consts
            or (consts <= i < consts + carried and not returns_carry)
            or (consts <= i < consts + carried and body.jaxpr.outvars[i - consts] is body.jaxpr.invars[i])
        )
        if again and use is not None:
            raise _reused(use, use, " (in every step of a loop)")
    return [(atom, use) for atom, use in zip(operands, analysis.inputs) if use is not None]


def check_call(jaxpr: Jaxpr, values: Sequence[Any]) -> None:
    """Check a traced function, and remember the keys among `values` (its inputs, in order) that it uses up."""
    if config.options.debug_key_reuse:
        _remember(zip(values, _Analysis(jaxpr).inputs))


def check_equation(name: str, params: Mapping[str, Any], values: Sequence[Any]) -> None:
    """`check_call`, for the functions of a loop or a branch."""
    if config.options.debug_key_reuse:
        _remember(_uses_of_call(name, params, values))


def _remember(uses: Iterable[tuple[Any, Use | None]]) -> None:
    if _staging():
        return  # found again when that trace is checked
    for value, use in uses:
        if use is not None and isinstance(value, Array):
            _memory.mark(value, use)
