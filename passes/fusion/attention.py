"""Finding attention: products, a reduction cluster over their rows, and a product that sums over those rows.

The rows in between (the scores of a query and all keys) need not be stored where one kernel does the three. In the
gradient rows are read by other products too, which sum over the queries: they are stored once, and still multiplied
before. The cluster may read several products: scores, and the gradient by the weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import structural as st

from .clusters import Cluster, is_seed, reduction_clusters
from .graph import Graph, Group, Order
from .order import replaced
from .unit_batches import with_unit_batches

#: Products of longer sums than this, or into more columns, are better by their own kernels if the rows are stored anyway.
MOST_DEPTH = 128


@dataclass(frozen=True)
class _Products:
    """The equations before and after a cluster, and which operand of the one after it the rows are."""

    firsts: tuple[int, ...]
    second: int
    side: int


def with_attention(jaxpr: Jaxpr, least: int) -> tuple[Jaxpr, int]:
    """The jaxpr with such products and clusters as one `fusion` equation each, and how many there are.

    Inside is the cluster's own `fusion` equation between the products.
    """
    products = sum(e.primitive is ct.dot_general_p for e in jaxpr.eqns)
    if products < 2 or not any(is_seed(e, least) for e in jaxpr.eqns):
        return jaxpr, 0
    given = jaxpr
    jaxpr, middle = _clusters(_with_transposed_operands(_untransposed(with_unit_batches(jaxpr))), least)
    if not middle:
        return given, 0
    jaxpr = replaced(jaxpr, middle)
    graph = Graph(jaxpr)
    order = Order(graph)
    found: list[Cluster] = []
    taken: set[int] = set()
    for i, e in enumerate(jaxpr.eqns):
        if e.primitive.name != "fusion" or e.params["kind"] != "reduction":
            continue
        inside = Cluster("reduction", frozenset((i,)), i, e.params["space"], e.params["axes"])
        products = _products(graph, inside, taken)
        if products is None:
            continue
        group = Group(graph, i)
        needed = (*products.firsts, products.second)
        for j in needed:
            if group.may_take(j):
                group.take(j)
        eqns = frozenset(group.members)
        if eqns.issuperset(needed) and order.join(eqns):
            found.append(Cluster("attention", eqns, i, inside.space, inside.axes))
            taken |= eqns
    return (replaced(jaxpr, found), len(found)) if found else (given, 0)


def _clusters(jaxpr: Jaxpr, least: int) -> tuple[Jaxpr, list[Cluster]]:
    """The clusters between two products, and a jaxpr in which their rows are the second one's left operand."""
    for _ in range(2):
        graph = Graph(jaxpr)
        middle = {
            c: found
            for c in reduction_clusters(graph, Order(graph), least)
            if (found := _products(graph, c)) is not None
        }
        turned = {found.second for found in middle.values() if found.side == 1}
        if not turned:
            return jaxpr, list(middle)
        jaxpr = _turned(jaxpr, graph, turned)
    return jaxpr, []


def _products(graph: Graph, cluster: Cluster, taken: Set[int] = frozenset()) -> _Products | None:
    """The products whose results only the cluster reads, and one that sums over its rows, except those taken.

    A product between two clusters is the end of one attention or the start of the next, not both.
    """
    group = set(cluster.eqns)
    if cluster.axes != (len(cluster.space) - 1,) or len(cluster.space) < 2:
        return None
    results = [v for i in group for v in graph.eqns[i].outputs if graph.read_outside(v, group)]
    if not results or any(v.aval.shape != cluster.space for v in results):
        return None
    operands = {a for i in group for a in graph.eqns[i].inputs if isinstance(a, Var) and a.aval.shape == cluster.space}
    made = sorted({graph.maker[v] for v in operands & graph.maker.keys() if not graph.read_outside(v, group)})
    firsts = tuple(j for j in made if j not in group and j not in taken and _makes_rows(graph.eqns[j]))
    if not firsts:
        return None
    small = all(_sums(graph.eqns[j]) <= MOST_DEPTH for j in firsts)
    # Of several rows rather those that nobody else reads, which then are not stored.
    for v in sorted(results, key=lambda v: (v in graph.returned, len(graph.readers.get(v, ())))):
        stored = len(results) > 1 or v in graph.returned or len(graph.readers[v]) > 1
        for j in graph.readers.get(v, ()):
            side = None if j in group or j in taken else _summed_side(graph.eqns[j], v)
            if side is not None and (not stored or (small and _columns(graph.eqns[j], 1 - side) <= MOST_DEPTH)):
                return _Products(firsts, j, side)
    return None


def _sums(e: Eqn) -> int:
    """The products that a product sums up for one element."""
    numbers: ct.DotDimensionNumbers = e.params["dimension_numbers"]
    return math.prod(e.inputs[0].aval.shape[d] for d in numbers[0][0])


def _columns(e: Eqn, side: int) -> int:
    """The elements along the free dimensions of an operand of a product."""
    (contracted, batch), shape = e.params["dimension_numbers"], e.inputs[side].aval.shape
    return math.prod(shape[d] for d in ct.dot_free_dims(len(shape), contracted[side], batch[side]))


def _makes_rows(e: Eqn) -> bool:
    """Whether an equation is a product of floats, whose last two dimensions are one of lhs and one of rhs."""
    if e.primitive is not ct.dot_general_p or not dtypes.is_float(e.outputs[0].aval.dtype):
        return False
    (lc, rc), (lb, rb) = e.params["dimension_numbers"]
    x, y = (a.aval.ndim for a in e.inputs)
    return all(len(d) == 1 for d in (lc, ct.dot_free_dims(x, lc, lb), ct.dot_free_dims(y, rc, rb)))


def _summed_side(e: Eqn, rows: Var) -> int | None:
    """The operand of a product that a value is, if the product sums over its last dimension, the others in order."""
    if e.primitive is not ct.dot_general_p or (e.inputs[0] is rows) == (e.inputs[1] is rows):
        return None
    numbers: ct.DotDimensionNumbers = e.params["dimension_numbers"]
    contracted, batch = numbers
    side = 0 if e.inputs[0] is rows else 1
    n, other = rows.aval.ndim, e.inputs[1 - side].aval.ndim
    free = ct.dot_free_dims(other, contracted[1 - side], batch[1 - side])
    ordered = contracted[side] == (n - 1,) and batch[side] == tuple(range(n - 2))
    return side if ordered and len(free) == 1 else None


def _untransposed(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with each product whose result is only transposed, its rows for its columns, as the product so transposed."""
    graph = Graph(jaxpr)
    results: dict[int, Var] = {}
    for e in jaxpr.eqns:
        if e.primitive is not st.transpose_p or not isinstance(x := e.inputs[0], Var) or x not in graph.maker:
            continue
        i = graph.maker[x]
        n = x.aval.ndim
        if n >= 2 and e.params["permutation"] == _swapped(n) and len(graph.readers[x]) == 1 and not graph.returns(i):
            if _makes_rows(graph.eqns[i]):
                results[i] = e.outputs[0]
    if not results:
        return jaxpr
    replaced_by = set(results.values())
    eqns: list[Eqn] = []
    for i, e in enumerate(jaxpr.eqns):
        if i in results:
            eqns.append(_exchanged(e, results[i]))
        elif not (e.outputs and e.outputs[0] in replaced_by):
            eqns.append(e)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _with_transposed_operands(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr with each product of an array with rows for columns as a product of that array."""
    transposed = {
        e.outputs[0]: e.inputs[0]
        for e in jaxpr.eqns
        if e.primitive is st.transpose_p
        and (n := e.outputs[0].aval.ndim) > 1
        and e.params["permutation"] == _swapped(n)
    }
    eqns = [_of_transposed(e, transposed) if e.primitive is ct.dot_general_p else e for e in jaxpr.eqns]
    if all(a is b for a, b in zip(eqns, jaxpr.eqns)):
        return jaxpr
    read = {a for e in eqns for a in e.inputs if isinstance(a, Var)} | {a for a in jaxpr.outvars if isinstance(a, Var)}
    eqns = [e for e in eqns if not (e.outputs and e.outputs[0] in transposed and e.outputs[0] not in read)]
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _of_transposed(e: Eqn, transposed: Mapping[Var, Atom]) -> Eqn:
    """A product with what its operands are transpositions of, where one dimension of each is free."""
    numbers: ct.DotDimensionNumbers = e.params["dimension_numbers"]
    contracted, batch = list(numbers[0]), list(numbers[1])
    inputs = list(e.inputs)
    for side, a in enumerate(e.inputs):
        n = a.aval.ndim
        if (
            not isinstance(a, Var)
            or a not in transposed
            or len(ct.dot_free_dims(n, contracted[side], batch[side])) != 1
        ):
            continue
        order = _swapped(n)
        inputs[side] = transposed[a]
        contracted[side] = tuple(order[d] for d in contracted[side])
        batch[side] = tuple(order[d] for d in batch[side])
    if all(a is b for a, b in zip(inputs, e.inputs)):
        return e
    return e.replace(inputs=inputs, params={**e.params, "dimension_numbers": (tuple(contracted), tuple(batch))})


def _exchanged(e: Eqn, result: Var) -> Eqn:
    """A product with its operands exchanged, which makes the transposed result."""
    numbers: ct.DotDimensionNumbers = e.params["dimension_numbers"]
    precision: ct.PrecisionPair = e.params["precision"]
    params = {
        **e.params,
        "dimension_numbers": (numbers[0][::-1], numbers[1][::-1]),
        "precision": precision and precision[::-1],
    }
    return e.replace(inputs=e.inputs[::-1], outputs=[result], params=params)


def _turned(jaxpr: Jaxpr, graph: Graph, turned: set[int]) -> Jaxpr:
    """The jaxpr with the operands of these products exchanged and the results transposed back.

    A transposition that alone reads the result becomes the only one.
    """
    eqns: list[Eqn] = []
    composed: dict[Var, Var] = {}
    for i, e in enumerate(jaxpr.eqns):
        if i in turned:
            (v,) = e.outputs
            *batch, rows, columns = v.aval.shape
            w = Var(v.aval.update(shape=(*batch, columns, rows)))
            eqns.append(_exchanged(e, w))
            if v not in graph.returned and all(
                graph.eqns[j].primitive is st.transpose_p for j in graph.readers.get(v, [])
            ):
                composed[v] = w
            else:
                params = {"permutation": _swapped(v.aval.ndim)}
                eqns.append(Eqn([w], [v], st.transpose_p, params, source=e.source))
        elif e.inputs and isinstance(x := e.inputs[0], Var) and x in composed:
            order = _swapped(x.aval.ndim)
            permutation: tuple[int, ...] = e.params["permutation"]
            eqns.append(e.replace(inputs=[composed[x]], params={"permutation": tuple(order[d] for d in permutation)}))
        else:
            eqns.append(e)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _swapped(n: int) -> tuple[int, ...]:
    return (*range(n - 2), n - 1, n - 2)


__all__ = ["with_attention"]
