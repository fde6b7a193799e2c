"""Values that one operation would read in two ways.

IREE 3.13 puts a reduction into one dispatch with what reads its result. Where that reads the result along different
dimensions (``s[None, :] - s[:, None]``), the numbers are wrong, at every optimisation level and without a word. A
barrier in all ways but the first keeps the reduction apart.

Arrays of one shape that elementwise equations connect are read alike and form a component; an equation that moves
elements (a broadcast, a transpose) or reduces them leads from one component to another. Two paths that lead from the
component of a reduction to the same component and place its dimensions differently are a crossing.

So is a path to an array that is reduced in its turn, along dimensions of the first one's result: ``s = sum(x, 0)``,
``sum(x - s)``. Where s is stored too, it would be added up several times. And so is one to a reduction of the same kind along
other dimensions, ``s = sum(x, 1)``, ``sum(x - s[:, None], 1)``, where others read s.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Jaxpr, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

FREE_FAMILIES = frozenset(("elementwise", "structural", "indexing"))
"""Families whose results IREE computes anew for each reader."""

Dims = tuple[int | None, ...]
"""Where the dimensions of an array are in another: a position for each, None for those of one element."""


class Mixed(NamedTuple):
    """Two steps of which one is a slice, a reversal, a repetition, or a reshape that splits or joins dimensions."""

    first: Any
    then: Any


Map = Dims | Mixed


def is_modelled(e: Eqn) -> bool:
    """Whether `crossings` knows how the elements of an equation's results come from its operands.

    What all other equations give has to be a value of its own, that is stored.
    """
    known = e.primitive.family == "elementwise" or (e.primitive.family == "reductions" and "axes" in e.params)
    return known or e.primitive is ct.dot_general_p or bool(_maps_of(e))


def crossings(jaxpr: Jaxpr, reduced: Sequence[Var] = ()) -> frozenset[int]:
    """The numbers of the equations whose operand needs a barrier. `reduced`: the inputs that are computed by reductions."""
    if not reduced and all(e.primitive.family in FREE_FAMILIES for e in jaxpr.eqns):
        return frozenset()
    components = _Components()
    for e in jaxpr.eqns:
        if e.primitive.family == "elementwise":
            components.connect(e)
    hot = {
        components.of(v) for e in jaxpr.eqns if e.primitive.family not in FREE_FAMILIES for v in e.outputs
    } | {components.of(v) for v in reduced}  # fmt: skip
    stored = _stored_reductions(jaxpr, components)
    # For each component, the hot ones that it is made of, and how.
    made_of: dict[Var, dict[Var, Map]] = {}
    found: set[int] = set()
    steps: dict[tuple[Var, Var], set[int]] = {}
    for i, e in enumerate(jaxpr.eqns):
        if e.primitive.family == "reductions" and "axes" in e.params:
            for last in (components.of(operand) for operand in e.inputs if isinstance(operand, Var)):
                for a, m in made_of.get(last, {}).items():
                    if _reduced_again(m, e.params["axes"]) or e.primitive in stored.get(a, ()):
                        found |= steps[last, a]
        for operand, result, step in _maps_of(e):
            first, last = components.of(operand), components.of(result)
            ways = {a: _composed(m, step) for a, m in made_of.get(first, {}).items()}
            if first in hot:
                ways[first] = step
            have = made_of.setdefault(last, {})
            if any(_crosses(a, m, last, have) for a, m in ways.items()):
                found.add(i)
            else:
                have.update(ways)
                for a in ways:
                    steps.setdefault((last, a), set()).add(i)
    return frozenset(found)


def stored_softmaxes(jaxpr: Jaxpr) -> frozenset[Var]:
    """Values that a softmax reads, and others too: IREE 3.13 finds no code for a dispatch that computes and stores one.

    A barrier keeps what computes them apart.
    """
    largest = {e.outputs[0]: e.inputs[0] for e in jaxpr.eqns if e.primitive is rd.reduce_max_p}
    if not largest:
        return frozenset()
    made = {v: e for e in jaxpr.eqns for v in e.outputs if e.primitive.family in FREE_FAMILIES}
    spread = {e.outputs[0]: e.inputs[0] for e in jaxpr.eqns if e.primitive is st.broadcast_in_dim_p}
    differences = {e.outputs[0]: e for e in jaxpr.eqns if e.primitive is ew.sub_p}
    readers = Counter(a for e in jaxpr.eqns for a in dict.fromkeys(e.inputs) if isinstance(a, Var))
    readers.update(a for a in jaxpr.outvars if isinstance(a, Var))
    found: set[Var] = set()
    for e in jaxpr.eqns:
        if e.primitive is ew.exp_p and isinstance(d := e.inputs[0], Var) and d in differences:
            x, m = differences[d].inputs
            of = largest.get(spread.get(m)) if isinstance(m, Var) else None  # pyright: ignore[reportArgumentType, reportCallIssue]
            if of is x and isinstance(x, Var) and x in made and readers[x] > 2:
                found.add(x)
    return frozenset(found)


def _stored_reductions(jaxpr: Jaxpr, components: _Components) -> dict[Var, set[Primitive]]:
    """The reductions of each component whose result more than one equation reads, or the caller.

    One dispatch of two such reductions, the second over what the first is part of, stores both: both begin with the same
    array of neutral elements, and IREE 3.13 lets the second write over the first.
    """
    readers = Counter(a for e in jaxpr.eqns for a in dict.fromkeys(e.inputs) if isinstance(a, Var))
    readers.update(a for a in jaxpr.outvars if isinstance(a, Var))
    for e in reversed(jaxpr.eqns):  # an array of the same elements is read with it
        if e.primitive.family == "structural" and len(e.inputs) == 1 and isinstance(x := e.inputs[0], Var):
            if x.aval.size == e.outputs[0].aval.size:
                readers[x] += readers[e.outputs[0]] - 1
    found: dict[Var, set[Primitive]] = {}
    for e in jaxpr.eqns:
        # What is computed of a complex sum reads its real and its imaginary part, several times each.
        several = any(readers[v] > 1 or dtypes.is_complex(v.aval.dtype) for v in e.outputs)
        if e.primitive.family == "reductions" and several:
            found.setdefault(components.of(e.outputs[0]), set()).add(e.primitive)
    return found


def _reduced_again(way: Map, axes: tuple[int, ...]) -> bool:
    """Whether a reduction along these axes goes over dimensions of the source."""
    return isinstance(way, Mixed) or any(i in axes for i in way)


def _crosses(source: Var, way: Map, last: Var, have: dict[Var, Map]) -> bool:
    if source is last:
        return way != _identity(last.aval.shape)
    return have.get(source, way) != way


class _Components:
    """Union-find over variables of more than one element."""

    def __init__(self) -> None:
        self._parent: dict[Var, Var] = {}

    def of(self, v: Var) -> Var:
        root = v
        while (parent := self._parent.get(root)) is not None:
            root = parent
        while v is not root:  # the next search is shorter
            self._parent[v], v = root, self._parent[v]
        return root

    def connect(self, e: Eqn) -> None:
        out = e.outputs[0]
        for a in (*e.inputs, *e.outputs[1:]):
            if isinstance(a, Var) and a.aval.shape == out.aval.shape:
                one, other = self.of(a), self.of(out)
                if one is not other:
                    self._parent[one] = other


def _identity(shape: tuple[int, ...]) -> Map:
    return tuple(None if n == 1 else i for i, n in enumerate(shape))


def _maps_of(e: Eqn) -> list[tuple[Var, Var, Map]]:
    """Operands and results of an equation that moves elements, and where it puts dimensions; nothing of other equations."""
    out = e.outputs[0] if e.outputs else None
    if out is None or not e.inputs:
        return []
    if e.primitive is ct.dot_general_p:
        return [(a, out, m) for a, m in zip(e.inputs, _maps_of_product(e)) if isinstance(a, Var)]
    if not isinstance(x := e.inputs[0], Var):
        return []
    if e.primitive is st.split_p:
        return [(x, part, Mixed(("split", k), e.params["axis"])) for k, part in enumerate(e.outputs)]
    step = _map_of(e)
    return [] if step is None else [(x, out, step)]


def _maps_of_product(e: Eqn) -> list[Dims]:
    """The result's dimensions are those of the batch, then the others of either operand."""
    contracted, batch = e.params["dimension_numbers"]
    out: list[Dims] = []
    at = len(batch[0])
    for operand, summed, shared in zip(e.inputs, contracted, batch):
        positions: list[int | None] = []
        for d, n in enumerate(operand.aval.shape):
            if d in shared:
                positions.append(None if n == 1 else shared.index(d))
            elif d in summed:
                positions.append(None)
            else:
                positions.append(None if n == 1 else at)
                at += 1
        out.append(tuple(positions))
    return out


def _map_of(e: Eqn) -> Map | None:
    """Where an equation that moves elements of its only array puts its dimensions; None for all other equations."""
    shape = e.inputs[0].aval.shape
    if math.prod(shape) <= 1:
        return None
    if e.primitive is st.broadcast_in_dim_p:
        return tuple(None if n == 1 else d for n, d in zip(shape, e.params["broadcast_dimensions"]))
    if e.primitive is st.transpose_p:
        permutation = tuple(e.params["permutation"])
        return tuple(None if n == 1 else permutation.index(i) for i, n in enumerate(shape))
    if e.primitive in (st.reshape_p, st.squeeze_p):
        out = e.outputs[0].aval.shape
        if [n for n in shape if n > 1] != [n for n in out if n > 1]:
            return Mixed(shape, out)
        positions = iter([i for i, n in enumerate(out) if n > 1])
        return tuple(None if n == 1 else next(positions) for n in shape)
    if e.primitive in _OTHERWISE:
        return Mixed(e.primitive.name, tuple(sorted(e.params.items())))
    if e.primitive.family == "reductions" and "axes" in e.params:
        kept = [d for d in range(len(shape)) if d not in e.params["axes"]]
        return tuple(kept.index(d) if d in kept and n > 1 else None for d, n in enumerate(shape))
    return None


_OTHERWISE = frozenset((st.slice_p, st.rev_p, st.tile_p, st.pad_p, ix.gather_p, ix.dynamic_slice_p))
"""What IREE computes with its reader as it does a broadcast, beside what only places dimensions."""


def _composed(first: Map, then: Map) -> Map:
    if isinstance(first, Mixed) or isinstance(then, Mixed):
        return Mixed(first, then)
    return tuple(None if i is None else then[i] for i in first)
