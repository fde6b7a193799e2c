"""Finding attention: a product, a reduction cluster over its rows, and the product that sums over those rows.

The rows in between (the scores of a query and all keys) need not be stored where one kernel does the three.
"""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import structural as st

from .clusters import Cluster, is_seed, reduction_clusters
from .graph import Graph, Group, Order
from .order import replaced


@dataclass(frozen=True)
class _Products:
    """The equations before and after a cluster, and which operand of the second one the rows are."""

    first: int
    second: int
    side: int


def with_attention(jaxpr: Jaxpr, least: int) -> tuple[Jaxpr, int]:
    """The jaxpr with such products and clusters as one `fusion` equation each, and how many there are.

    Inside is the cluster's own `fusion` equation between the two products.
    """
    products = sum(e.primitive is ct.dot_general_p for e in jaxpr.eqns)
    if products < 2 or not any(is_seed(e, least) for e in jaxpr.eqns):
        return jaxpr, 0
    jaxpr, middle = _clusters(_untransposed(jaxpr), least)
    if not middle:
        return jaxpr, 0
    jaxpr = replaced(jaxpr, middle)
    graph = Graph(jaxpr)
    order = Order(graph)
    found: list[Cluster] = []
    taken: set[int] = set()
    for i, e in enumerate(jaxpr.eqns):
        if e.primitive.name != "fusion" or e.params["kind"] != "reduction":
            continue
        inside = Cluster("reduction", frozenset((i,)), i, e.params["space"], e.params["axes"])
        products = _products(graph, inside)
        if products is None:
            continue
        # A product between two clusters is the end of one attention or the start of the next, not both.
        if products.first in taken or products.second in taken:
            continue
        group = Group(graph, i)
        for j in (products.first, products.second):
            if group.may_take(j):
                group.take(j)
        eqns = frozenset(group.members)
        if len(eqns) == 3 and order.join(eqns):
            found.append(Cluster("attention", eqns, i, inside.space, inside.axes))
            taken |= eqns
    return replaced(jaxpr, found), len(found)


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


def _products(graph: Graph, cluster: Cluster) -> _Products | None:
    """The product whose result only the cluster reads, and the one that alone reads the cluster's only result."""
    group = set(cluster.eqns)
    if cluster.axes != (len(cluster.space) - 1,) or len(cluster.space) < 2:
        return None
    results = [v for i in group for v in graph.eqns[i].outputs if graph.read_outside(v, group)]
    if len(results) != 1 or results[0] in graph.returned or results[0].aval.shape != cluster.space:
        return None
    readers = [j for j in graph.readers[results[0]] if j not in group]
    if len(readers) != 1:
        return None
    side = _summed_side(graph.eqns[readers[0]], results[0])
    if side is None:
        return None
    operands = {a for i in group for a in graph.eqns[i].inputs if isinstance(a, Var) and a.aval.shape == cluster.space}
    for v in sorted(operands & graph.maker.keys(), key=graph.maker.__getitem__):
        j = graph.maker[v]
        if j not in group and not graph.read_outside(v, group) and _makes_rows(graph.eqns[j]):
            return _Products(j, readers[0], side)
    return None


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
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars)


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
                eqns.append(Eqn(st.transpose_p, [w], [v], params, source=e.source))
        elif e.inputs and isinstance(x := e.inputs[0], Var) and x in composed:
            order = _swapped(x.aval.ndim)
            permutation: tuple[int, ...] = e.params["permutation"]
            eqns.append(e.replace(inputs=[composed[x]], params={"permutation": tuple(order[d] for d in permutation)}))
        else:
            eqns.append(e)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, eqns, jaxpr.outvars)


def _swapped(n: int) -> tuple[int, ...]:
    return (*range(n - 2), n - 1, n - 2)


__all__ = ["with_attention"]
