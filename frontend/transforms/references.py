"""References under transformations: a function is transformed on values, which are taken out before and put back after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.jaxpr import Jaxpr, all_eqns
from quire.ir.primitives import refs
from quire.ir.references import ADD_EFFECT, WRITE_EFFECT, Ref
from quire.ir.source import Source, current_source, where
from quire.passes.discharge import discharged, live_refs, uses_refs, written_refs

from ..arrays.references import check_references


@dataclass(frozen=True)
class Opened:
    """A traced function on values.

    Attributes:
        jaxpr: takes `captured`, then the arguments; it gives the function's results, then what `places` hold at the end.
        captured: the captured values, of references what they hold; then the references that only rules of derivatives see.
        places: the references that are written.
        positions: of each the number of the input that it is, before the references among `captured`.
    """

    jaxpr: Jaxpr
    captured: list[Any]
    places: list[Any]
    positions: list[int]

    def store(self, values: Sequence[Any]) -> None:
        """Write what the places hold at the end: the last of a function's results."""
        n = len(values) - len(self.places)
        for ref, x in zip(self.places, values[n:], strict=True):
            refs.swap_p.bind(ref, x, indexers=())


def open_refs(
    jaxpr: Jaxpr, captured: Sequence[Any], leaves: Sequence[Any] = (), *, what: str, derivatives: bool = False
) -> Opened:
    """A traced function as one of values; as it is where it uses no references.

    Args:
        jaxpr: takes what it captured, then the arguments.
        leaves: the arguments; references among them are only looked at.
        what: the transformation, for messages.
        derivatives: the function is to be differentiated, so rules that are the user's stay.

    Raises:
        ValueError: a reference was freed, or is given twice.
    """
    given = [*captured, *leaves]
    references = [x for x in given if isinstance(x, Ref)]
    if not references and not uses_refs(jaxpr):
        return Opened(jaxpr, list(captured), [], [])
    check_references(references, [f"reference {i}" for i in range(len(references))], what)
    written = written_refs(jaxpr)
    live = live_refs(jaxpr) if derivatives else ()
    found = discharged(jaxpr, written, derivatives=derivatives).jaxpr
    k, n = len(captured), len(given)
    invars = [*found.invars[:k], *found.invars[n:], *found.invars[k:n]]
    values = [refs.get_p.bind(x, indexers=()) if isinstance(x, Ref) else x for x in captured]
    return Opened(
        Jaxpr((), invars, found.outvars, found.eqns), [*values, *(given[i] for i in live)],
        [given[i] for i in written], list(written),
    )  # fmt: skip


def write_of(jaxpr: Jaxpr, position: int) -> Source | None:
    """The line of the first equation that writes to an input, or of one that may."""
    ref = jaxpr.invars[position]
    writes = [e for e in jaxpr.eqns if ref in e.inputs and not e.effects.isdisjoint((WRITE_EFFECT, ADD_EFFECT))]
    for eqn in writes:
        if eqn.primitive.family == "refs":
            return eqn.source
    inner = [e for w in writes for e in all_eqns(_alone(w)) if e.primitive in (refs.swap_p, refs.addupdate_p)]
    return inner[0].source if inner else None


def _alone(eqn: Any) -> Jaxpr:
    return Jaxpr((), [], [], [eqn])


def refuse_differentiated(opened: Opened, nonzeros: Sequence[bool], jaxpr: Jaxpr, what: str) -> None:
    """Raise ValueError where what is written to a reference from outside has a derivative.

    `nonzeros` marks the results of `opened.jaxpr` that have one; `jaxpr` is the function before.
    """
    n = len(nonzeros) - len(opened.places)
    for ref, position, nonzero in zip(opened.places, opened.positions, nonzeros[n:], strict=True):
        if nonzero and ref.aval.kind is None:
            raise ValueError(
                f"{what}: a value that is differentiated is written to the reference {ref.aval.short()}, which comes from "
                f"outside{where(write_of(jaxpr, position) or current_source())}: write lax.stop_gradient of it, make the "
                "reference within the function, or with new_ref(..., kind='no_grad_no_remat')"
            )


def refuse_mapped(opened: Opened, count: int, jaxpr: Jaxpr, what: str) -> None:
    """Raise ValueError where a function under vmap writes to one of the first `count` inputs, which are not mapped."""
    for ref, position in zip(opened.places, opened.positions, strict=True):
        if position < count:
            raise ValueError(
                f"{what}: the function writes to the reference {ref.aval.short()}, which is not mapped"
                f"{where(write_of(jaxpr, position) or current_source())}: every lane would write to one place. Make it an "
                "argument that is mapped, or make it within the function"
            )


__all__ = ["Opened", "open_refs", "refuse_differentiated", "refuse_mapped", "write_of"]
