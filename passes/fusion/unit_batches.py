"""Products as stacks of one: what simplification took away, where it stands between products and what lies between them.

A product of arrays with batch dimensions of size 1 is simplified to that of matrices, between reshapes. Elementwise equations and
reductions keep the dimensions, so that between two such products stand reshapes, and attention is not seen.
"""

from __future__ import annotations

from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import structural as st

from .graph import Graph

Shape = tuple[int, ...]


def with_unit_batches(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with products of what was reshaped to have fewer batch dimensions of size 1 as products of that."""
    graph = Graph(jaxpr)
    found = {i: at for i, e in enumerate(jaxpr.eqns) if e.primitive is ct.dot_general_p and (at := _dropped(graph, i))}
    if not found:
        return jaxpr
    eqns: list[Eqn] = []
    known: dict[tuple[Atom, Shape], Atom] = {}  # a value in another shape
    for i, e in enumerate(jaxpr.eqns):
        if i in found:
            eqns += _stacked(graph, e, found[i], known)
        elif e.primitive is st.reshape_p and (e.inputs[0], e.outputs[0].aval.shape) in known:
            eqns.append(e.replace(inputs=[known[e.inputs[0], e.outputs[0].aval.shape]]))
        else:
            eqns.append(e)
    return _without_reshapes_to_the_same(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns))


def _dropped(graph: Graph, i: int) -> Shape:
    """Which batch dimensions of size 1 a product would have: those that all adds that reads it, or of a computed operand."""
    e = graph.eqns[i]
    (v,) = e.outputs
    numbers: ct.DotDimensionNumbers = e.params["dimension_numbers"]
    batch = tuple(range(len(numbers[1][0])))
    if numbers[1] != (batch, batch):
        return ()
    sources = [(a, _source(graph, a)) for a in e.inputs]
    found = [_added(x.aval.shape, a.aval.shape) for a, x in sources if x is not None and _is_computed(graph, x)]
    readers = [graph.eqns[j] for j in graph.readers.get(v, ())]
    if v not in graph.returned and len({r.outputs[0].aval.shape for r in readers}) == 1:
        added = (r.outputs[0] for r in readers if r.primitive is st.reshape_p)
        found += [_added(w.aval.shape, v.aval.shape) for w in added if _is_computed_with(graph, w)]
    fitting = (at for at in found if at and at[-1] < len(batch) + len(at))
    return max(fitting, key=len, default=())


def _is_computed(graph: Graph, x: Atom) -> bool:
    """Whether a value is computed element by element: others are in one shape as well as in another."""
    return isinstance(x, Var) and x in graph.maker and graph.eqns[graph.maker[x]].primitive.family == "elementwise"


def _is_computed_with(graph: Graph, v: Var) -> bool:
    return any(graph.eqns[j].primitive.family in ("elementwise", "reductions") for j in graph.readers.get(v, ()))


def _added(more: Shape, fewer: Shape) -> Shape:
    """The places of the dimensions of size 1 that the first shape has besides the second's; none if it differs otherwise."""
    rest, places = list(fewer), list[int]()
    for d in reversed(range(len(more))):
        if rest and rest[-1] == more[d]:
            rest.pop()
        elif more[d] == 1:
            places.append(d)
        else:
            return ()
    return () if rest else tuple(reversed(places))


def _with(shape: Shape, places: Shape) -> Shape:
    """A shape with dimensions of size 1 at these places of the new one."""
    rest = iter(shape)
    return tuple(1 if d in places else next(rest) for d in range(len(shape) + len(places)))


def _source(graph: Graph, a: Atom) -> Atom | None:
    """What a value is a reshape of."""
    if not isinstance(a, Var) or a not in graph.maker:
        return None
    e = graph.eqns[graph.maker[a]]
    return e.inputs[0] if e.primitive is st.reshape_p else None


def _stacked(graph: Graph, e: Eqn, places: Shape, known: dict[tuple[Atom, Shape], Atom]) -> list[Eqn]:
    """The equations of a product with more batch dimensions: of its operands, itself, and of its result."""
    eqns: list[Eqn] = []
    operands: list[Atom] = []
    for a in e.inputs:
        shape, source = _with(a.aval.shape, places), _source(graph, a)
        if source is not None and source.aval.shape == shape:
            operands.append(source)
            continue
        if (a, shape) not in known:
            wide = Var(a.aval.update(shape=shape))
            eqns.append(_reshape(e, a, wide))
            known[a, shape] = wide
        operands.append(known[a, shape])
    numbers: ct.DotDimensionNumbers = e.params["dimension_numbers"]
    k = len(places)
    contracted = tuple(tuple(d + k for d in dims) for dims in numbers[0])
    batch = tuple(range(len(numbers[1][0]) + k))
    (v,) = e.outputs
    wide = Var(v.aval.update(shape=_with(v.aval.shape, places)))
    known[v, wide.aval.shape] = wide
    params = {**e.params, "dimension_numbers": (contracted, (batch, batch))}
    return [*eqns, e.replace(inputs=operands, outputs=[wide], params=params), _reshape(e, wide, v)]


def _reshape(e: Eqn, x: Atom, out: Var) -> Eqn:
    return Eqn([x], [out], st.reshape_p, {"new_sizes": out.aval.shape}, source=e.source)


def _without_reshapes_to_the_same(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr without reshapes to the operand's own shape, and those that nothing reads."""
    same: dict[Atom, Atom] = {}
    eqns: list[Eqn] = []
    for e in jaxpr.eqns:
        if any(a in same for a in e.inputs if isinstance(a, Var)):
            e = e.replace(inputs=[same.get(a, a) if isinstance(a, Var) else a for a in e.inputs])
        if e.primitive is st.reshape_p and e.inputs[0].aval.shape == e.outputs[0].aval.shape:
            same[e.outputs[0]] = e.inputs[0]
        else:
            eqns.append(e)
    outvars = [same.get(a, a) if isinstance(a, Var) else a for a in jaxpr.outvars]
    read = {a for e in eqns for a in e.inputs if isinstance(a, Var)} | {a for a in outvars if isinstance(a, Var)}
    eqns = [e for e in eqns if e.primitive is not st.reshape_p or e.outputs[0] in read]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, outvars, eqns)


__all__ = ["with_unit_batches"]
