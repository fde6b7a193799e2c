"""Why two equations are not one cluster: what each kind of cluster that one of them could grow asks of the other.

The answers come from the same predicates by which `fuse` forms clusters; nothing is decided here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from quire.ir.jaxpr import Eqn, Jaxpr
from quire.ir.weights import weight

from . import clusters, contractions, elementwise
from .graph import Graph


def why_apart(
    jaxpr: Jaxpr,
    i: int,
    j: int,
    has_form: elementwise.HasForm,
    least_elements: int,
    least_operations: int,
    least_gathered: int,
    least_light: int | None,
) -> list[str]:
    """Why the i-th and the j-th equation of a program, as `fuse` is given it, are not one cluster; from what weighs most."""
    graph = Graph(jaxpr)
    first, second = graph.eqns[i], graph.eqns[j]
    found: list[str] = []
    for e in (first, second):
        if e.effects:
            found.append(
                f"{e.primitive.name} has effects ({', '.join(map(str, e.effects))}): it keeps its place in the order"
            )
    if found:
        return found
    for seed, other in ((i, j), (j, i)):
        for reason in (
            contractions.reason_against(graph, seed, other, least_operations),
            clusters.reason_against(graph, seed, other, least_elements),
        ):
            if reason is not None and reason not in found:
                found.append(reason)
    reason = elementwise.reason_against(jaxpr, graph.readers, i, j, has_form, least_gathered, least_light)
    if reason is not None:
        found.append(f"one kernel of elementwise equations: {reason}")
    path = way(graph, i, j) or way(graph, j, i)
    if path is None:
        found.append("neither is computed from the other: a kernel of both would save no memory traffic")
    elif len(path) > 2:
        between = [graph.eqns[k] for k in path[1:-1]]
        heavy = next((e for e in between if e.primitive.family != "elementwise" and weight(e)), None)
        names = " -> ".join(e.primitive.name for e in between[:6]) + (" -> ..." if len(between) > 6 else "")
        stops = f"; {heavy.primitive.name} between them is computed by itself" if heavy is not None else ""
        found.append(f"between them lie {len(between)} equations ({names}){stops}")
    return found


def way(graph: Graph, i: int, j: int) -> list[int] | None:
    """The shortest path from an equation to one that depends on it; None where there is none."""
    came: dict[int, int] = {i: i}
    pending = deque([i])
    while pending:
        k = pending.popleft()
        if k == j:
            path = [k]
            while path[-1] != i:
                path.append(came[path[-1]])
            return path[::-1]
        for after in graph.after[k]:
            if after not in came:
                came[after] = k
                pending.append(after)
    return None


def members(eqn: Eqn) -> Iterator[Eqn]:
    """The equations within a fusion, those of fusions within it too; another equation is its own."""
    if eqn.primitive.name != "fusion":
        yield eqn
        return
    for e in eqn.params["jaxpr"].jaxpr.eqns:
        yield from members(e)


__all__ = ["members", "way", "why_apart"]
