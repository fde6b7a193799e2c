"""Rebuilding of jaxprs without tracing: reordering, dropping and splitting of inputs, outputs and equations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var

T = TypeVar("T")


def split(items: Sequence[T], *sizes: int) -> list[list[T]]:
    """Consecutive pieces of these sizes, and the rest."""
    out: list[list[T]] = []
    start = 0
    for n in sizes:
        out.append(list(items[start : start + n]))
        start += n
    out.append(list(items[start:]))
    return out


def select(items: Sequence[T], mask: Sequence[bool], value: bool = True) -> list[T]:
    """The items whose mask is `value`."""
    return [x for x, m in zip(items, mask, strict=True) if m == value]


def merge(mask: Sequence[bool], false: Iterable[Any], true: Iterable[Any]) -> list[Any]:
    """Interleave: the next of `true` where the mask is set, else the next of `false`."""
    no, yes = iter(false), iter(true)
    return [next(yes) if m else next(no) for m in mask]


def with_io(
    closed: ClosedJaxpr | Jaxpr, invars: Sequence[Var] | None = None, outvars: Sequence[Atom] | None = None
) -> ClosedJaxpr:
    """The jaxpr with other inputs (reordered, more) or outputs."""
    jaxpr = closed.jaxpr if isinstance(closed, ClosedJaxpr) else closed
    return ClosedJaxpr(
        Jaxpr((), jaxpr.invars if invars is None else invars, jaxpr.outvars if outvars is None else outvars, jaxpr.eqns)
    )


def unused_inputs(avals: Iterable[ShapedArray]) -> list[Var]:
    """Fresh variables, for inputs that a jaxpr takes and does not read."""
    return [Var(a) for a in avals]


def needed(eqns: Sequence[Eqn], outputs: Iterable[Any], stop: Iterable[Var] = ()) -> tuple[list[Eqn], set[Var]]:
    """The equations that some outputs need, with those that have effects, and the variables they read from outside.

    Variables in `stop` are taken as given.
    """
    given = set(stop)
    live = {a for a in outputs if isinstance(a, Var)} - given
    kept: list[Eqn] = []
    read: set[Var] = {a for a in outputs if isinstance(a, Var)} & given
    for eqn in reversed(eqns):
        if eqn.effects or not live.isdisjoint(eqn.outputs):
            kept.append(eqn)
            live.difference_update(eqn.outputs)
            for a in eqn.inputs:
                if isinstance(a, Var):
                    (read if a in given else live).add(a)
    kept.reverse()
    return kept, live | read


def prune(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without equations that nothing needs (nested jaxprs as they are)."""
    kept, _ = needed(jaxpr.eqns, jaxpr.outvars)
    if len(kept) == len(jaxpr.eqns):
        return jaxpr
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, kept)
