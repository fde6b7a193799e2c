"""The most bytes that a device holds at one time, if every equation's results are arrays: from where they are made to their
last use. What a compiler fuses is never held; so it is an upper bound, before donation and rematerialization by plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_nested, nested_jaxprs


@dataclass(frozen=True)
class Peak:
    """The most that is held.

    Attributes:
        bytes: arguments and results included.
        arguments: of the arguments, which are held throughout.
        eqn: the equation during which it is; None where it is the arguments alone.
    """

    bytes: int
    arguments: int
    eqn: Eqn | None


def peak(jaxpr: Jaxpr) -> Peak:
    """The most bytes that are held while the program runs."""
    arguments = sum(v.aval.nbytes for v in (*jaxpr.constvars, *jaxpr.invars))
    most, at = _peak(jaxpr)
    return Peak(arguments + most, arguments, at)


def _peak(jaxpr: Jaxpr) -> tuple[int, Eqn | None]:
    """The same beside the arguments of a jaxpr."""
    given = {*jaxpr.constvars, *jaxpr.invars}
    last: dict[Var, int] = {}
    for i, eqn in enumerate(jaxpr.eqns):
        for v in eqn.outputs:
            last[v] = i
        for a in eqn.inputs:
            if not isinstance(a, Literal) and a not in given:
                last[a] = i
    end = len(jaxpr.eqns)
    last.update((a, end) for a in jaxpr.outvars if not isinstance(a, Literal) and a not in given)
    dying: dict[int, list[Var]] = {}
    for v, i in last.items():
        dying.setdefault(i, []).append(v)
    held, most, at = 0, 0, None
    for i, eqn in enumerate(jaxpr.eqns):
        held += sum(v.aval.nbytes for v in eqn.outputs)
        inner = 0
        if eqn.params and has_nested(eqn.params):
            inner = max(_peak(j.jaxpr if isinstance(j, ClosedJaxpr) else j)[0] for j in nested_jaxprs(eqn.params))
        if held + inner > most:
            most, at = held + inner, eqn
        held -= sum(v.aval.nbytes for v in dying.get(i, ()))
    return most, at
