"""Finding what gathers and scatters compute their index vectors of: light equations, done where the indices are read.

A negative index counted from the end, a clamp, a conversion, components joined into vectors: a few operations for each
window, which a kernel does while it copies the window before. Equations that others read too are copied, not moved.
"""

from __future__ import annotations

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.calls import fusion_p
from quire.ir.rectangles import joins_components
from quire.ir.weights import weight

from ..dce import dce_eqns
from .broadcasts import merge
from .forms import HasForm
from .gathers import is_gather_of_elements

#: The equations that windows are read or written by, all of operands (array, indices, ...).
SEEDS = (
    ix.gather_p, ix.scatter_p, ix.scatter_add_p, ix.scatter_mul_p, ix.scatter_min_p, ix.scatter_max_p,
)  # fmt: skip
#: Operations an index that are done again for each window.
MOST_WEIGHT = 40
#: Arrays that indices are made of.
MOST_ARRAYS = 8


def with_indices(jaxpr: Jaxpr, has_form: HasForm, least_gathered: int) -> tuple[Jaxpr, int]:
    """The jaxpr with each gather and scatter and what computes its indices as one equation, and how many there are.

    Gathers of so many single elements, or more, are in clusters of elementwise equations (`elementwise`).
    """
    if not any(e.primitive in SEEDS for e in jaxpr.eqns):
        return jaxpr, 0
    makers = {v: e for e in jaxpr.eqns for v in e.outputs}
    count, eqns = 0, list(jaxpr.eqns)
    for i, e in enumerate(eqns):
        if (
            e.primitive in SEEDS
            and not is_gather_of_elements(e, least_gathered)
            and (joined := _joined(e, makers, has_form)) is not None
        ):
            eqns[i] = joined
            count += 1
    if not count:
        return jaxpr, 0
    return dce_eqns(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)), count


def _joined(e: Eqn, makers: dict[Var, Eqn], has_form: HasForm) -> Eqn | None:
    """A gather or scatter with what computes its indices as one equation; None where nothing is joined."""
    x, indices, *rest = e.inputs
    if not all(isinstance(a, Var) for a in e.inputs) or any(v.aval.size == 0 for v in (*e.inputs, *e.outputs)):
        return None
    made = _made_of(indices, makers, has_form)
    if not any(weight(m) for m in made):  # views alone cost nothing as they are
        return None
    inside = {v for m in made for v in m.outputs}
    leaves = list(dict.fromkeys(a for m in made for a in m.inputs if isinstance(a, Var) and a not in inside))
    if len(leaves) > MOST_ARRAYS or x in leaves:  # what is written in place must not be read for the indices
        return None
    inner = {v: Var(v.aval) for v in (*leaves, *inside)}
    array, others = Var(x.aval), [Var(a.aval) for a in rest]
    out = [Var(v.aval) for v in e.outputs]
    eqns = [
        m.replace(inputs=[inner[a] if isinstance(a, Var) else a for a in m.inputs], outputs=[inner[v] for v in m.outputs])
        for m in made
    ]  # fmt: skip
    assert isinstance(indices, Var)
    eqns.append(e.replace(inputs=[array, inner[indices], *others], outputs=out))
    body = merge(Jaxpr((), [array, *(inner[v] for v in leaves), *others], out, eqns))
    params = {"kind": "indexing", "jaxpr": ClosedJaxpr(body), "space": indices.aval.shape, "axes": ()}
    return Eqn([x, *leaves, *rest], e.outputs, fusion_p, params, fusion_p.effects(params), e.source)


def _made_of(indices: Atom, makers: dict[Var, Eqn], has_form: HasForm) -> list[Eqn]:
    """The equations, in order, that compute index vectors and that a kernel can do at any one place."""
    found: dict[Var, Eqn] = {}  # by result, in the order in which they are met
    most = indices.aval.size

    def visit(a: Atom, left: int) -> int:
        """Take what makes a value if the operations left allow it; returns what is left."""
        if not isinstance(a, Var) or a in found or a not in makers:
            return left
        m = makers[a]
        if not (_fits(m, most, has_form) or a is indices and joins_components(m)) or weight(m) > left:
            return left
        left -= weight(m)
        for b in m.inputs:
            left = visit(b, left)
        found[a] = m
        return left

    visit(indices, MOST_WEIGHT)
    return list(found.values())


def _fits(m: Eqn, most: int, has_form: HasForm) -> bool:
    """Whether an equation's elements can be computed one by one, of operands that are no larger than the indices."""
    if m.effects or len(m.outputs) != 1 or m.outputs[0].aval.size > most:
        return False
    p, out = m.primitive, m.outputs[0].aval
    if p in (st.broadcast_in_dim_p, st.iota_p):
        return True
    if p in (st.reshape_p, st.squeeze_p):
        return [n for n in m.inputs[0].aval.shape if n != 1] == [n for n in out.shape if n != 1]
    return p.family == "elementwise" and has_form(p, m.inputs[0].aval.dtype)


__all__ = ["with_indices"]
