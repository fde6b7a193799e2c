"""The first NaN or infinity that a program makes: at which equation, in which turn of which loops.

The program runs on the reference backend, and every equation is looked at as it is evaluated. What counts is where a value
is made: an equation with such a result and none among its operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, nested_jaxprs
from quire.ir.source import where
from quire.passes.base import PassContext
from quire.passes.discharge import Discharge

from .value_checks import without_debug_callbacks

Host = np.ndarray[Any, Any]
LOOPS = ("scan", "while")


@dataclass(frozen=True)
class Turn:
    """One turn of a loop: its equation, and the number of the turn from 0."""

    eqn: Eqn
    number: int

    def __str__(self) -> str:
        return f"in turn {self.number} of the {self.eqn.primitive.name}{where(self.eqn.source)}"


@dataclass(frozen=True)
class Found:
    """Where the first NaN or infinity is made.

    Attributes:
        kind: "nan" or "inf".
        eqn: the equation; None where an argument holds it already.
        argument: its number then.
        turns: the turns of loops that it is within, the outermost first.
        element: the first such element, as text, with the operands' elements that it came from.
        reaches: whether a result holds one: a NaN may be masked.
        kernels: of a compiled program, the kernels of quire's own that compute the equation.
        result: of a compiled program that makes none where all its values are results, the number of the result that holds one.
    """

    kind: str
    eqn: Eqn | None
    argument: int | None
    turns: tuple[Turn, ...]
    element: str
    reaches: bool
    kernels: tuple[str, ...] = ()
    result: int | None = None


class _Loops:
    """Counts turns: a body begins with its first equation, and is over when the loop's equation is seen."""

    def __init__(self, jaxpr: Jaxpr) -> None:
        self.within: dict[int, tuple[Eqn, ...]] = {}  # of each equation, the equations around it
        self.first: dict[int, Eqn] = {}  # of each loop's body, by the id of its first equation
        self.begun: dict[int, int] = {}  # of each loop, the turns whose first equation has been seen
        self.alive: list[Any] = []
        self.walk(jaxpr, ())

    def walk(self, jaxpr: Jaxpr, around: tuple[Eqn, ...]) -> None:
        self.alive.append(jaxpr)
        for e in jaxpr.eqns:
            self.within[id(e)] = around
            for name, j in _bodies(e):
                if e.primitive.name in LOOPS and name != "cond_jaxpr" and j.eqns:
                    self.first[id(j.eqns[0])] = e
                self.walk(j, (*around, e))

    def see(self, eqn: Eqn) -> None:
        loop = self.first.get(id(eqn))
        if loop is not None:
            self.begun[id(loop)] = self.begun.get(id(loop), 0) + 1
        if eqn.primitive.name in LOOPS:
            self.begun.pop(id(eqn), None)

    def turns(self, eqn: Eqn) -> tuple[Turn, ...]:
        around = self.within.get(id(eqn), ())
        chain = {id(e) for e in (*around, eqn)}
        out: list[Turn] = []
        for e in around:
            if e.primitive.name not in LOOPS:
                continue
            begun = self.begun.get(id(e), 0)
            # The first equation of the body is counted when it has been evaluated: not yet, if this one is within it.
            inside = next((k for k, loop in self.first.items() if loop is e and k in chain and k != id(eqn)), None)
            out.append(Turn(e, begun if inside is not None else max(begun - 1, 0)))
        return tuple(out)


def _bodies(eqn: Eqn) -> list[tuple[str, Jaxpr]]:
    found: list[tuple[str, Jaxpr]] = []
    for name, value in eqn.params.items():
        for j in nested_jaxprs({name: value}):
            found.append((name, j.jaxpr if isinstance(j, ClosedJaxpr) else j))
    return found


def bad(x: Host, infinities: bool) -> Host | None:
    """Where an array holds a NaN or, if wanted, an infinity; None if nowhere."""
    if not dtypes.is_inexact(x.dtype):
        return None
    found = ~np.isfinite(x) if infinities else np.isnan(x)
    return found if found.any() else None


def search(closed: ClosedJaxpr, args: Sequence[Any], *, infinities: bool = True) -> Found | None:
    """The first NaN or infinity that a program makes for some arguments; None where it makes none.

    An infinity that a literal or a constant holds (the start of a maximum) is none that is made.
    """
    from quire.backends.reference.engine import eval_jaxpr, observing

    jaxpr = without_debug_callbacks(Discharge().apply(closed, PassContext()).jaxpr)
    values = [np.asarray(x, v.aval.dtype) for x, v in zip((*closed.consts, *args), (*jaxpr.constvars, *jaxpr.invars))]
    for i, x in enumerate(values[len(closed.consts) :]):
        where_bad = bad(x, infinities)
        if where_bad is not None:
            at = _index(where_bad)
            return Found(kind_of(x, where_bad), None, i, (), f"{x[at]}{_place(at)}", True)
    loops = _Loops(jaxpr)
    found: list[Found] = []

    def observe(eqn: Eqn, operands: Sequence[Host], results: Sequence[Host]) -> None:
        loops.see(eqn)
        if found or _bodies(eqn):
            return
        for r in results:
            where_bad = bad(r, infinities)
            if where_bad is not None and all(bad(x, infinities) is None for x in operands):
                text = bad_element(eqn.primitive.name, operands, r, where_bad)
                found.append(Found(kind_of(r, where_bad), eqn, None, loops.turns(eqn), text, False))
                return

    whole = Jaxpr((), (*jaxpr.constvars, *jaxpr.invars), jaxpr.outvars, jaxpr.eqns)
    with observing(observe), np.errstate(all="ignore"):
        outs = eval_jaxpr(whole, *values)
    if not found:
        return None
    first = found[0]
    reaches = any(bad(np.asarray(o), infinities) is not None for o in outs)
    return Found(first.kind, first.eqn, None, first.turns, first.element, reaches)


def kind_of(x: Host, where_bad: Host) -> str:
    """Whether there are NaNs among the elements that are bad: "nan", or else "inf"."""
    return "nan" if np.isnan(x[where_bad]).any() else "inf"


def _index(where_bad: Host) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(where_bad)[0])


def _place(at: tuple[int, ...]) -> str:
    return f" at index {str(at).replace(',)', ')')}" if at else ""


def bad_element(name: str, operands: Sequence[Host], value: Host, where_bad: Host) -> str:
    """The first bad element of an equation's result and, where the operands have its shape, what it came from."""
    at = _index(where_bad)
    count = (
        f"{int(where_bad.sum())} of {value.size} elements, the first{_place(at)}" if value.size > 1 else "the result"
    )
    if operands and all(x.shape in ((), value.shape) for x in operands):
        given = ", ".join(str(x[at] if x.shape else x[()]) for x in operands)
        return f"{count} is {name}({given}) = {value[at]}"
    return f"{count} is {value[at]}"
