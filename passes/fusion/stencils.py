"""Finding what computes an array of shifted, padded and joined parts of others: stencils, rolls, reflections, halves.

A stencil grows backwards from one equation, its root, over elementwise equations and views (`quire.ir.rectangles`). Views are
copied where others read them too; elementwise equations are taken only if nothing else reads them. What is dear is not
taken where it would be computed at several places: it is an array of its own that the stencil reads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import structural as st
from quire.ir.primitives.calls import fusion_p
from quire.ir.rectangles import joins_elements, moves, regions
from quire.ir.weights import weight

from ..dce import dce_eqns
from .forms import HasForm

#: Rows of fewer elements are: loops over vectors along them would be loops over single elements.
LEAST_ROW = 16
#: Equations, regions, operands, and elements computed in all regions together: the size of the code.
MOST_EQNS, MOST_REGIONS, MOST_ARRAYS, MOST_CODE = 96, 27, 24, 900
#: Operations an element that are done again, at other places, rather than stored.
MOST_AGAIN = 16
#: Transposes of fewer elements stay with IREE, which fuses them with what reads them: where rows become columns, and where whole
#: rows are moved.
LEAST_TURNED, LEAST_ROWS = 1 << 14, 1 << 18
#: What moves elements to other places.
SHIFTS = (st.slice_p, st.rev_p, st.concatenate_p, st.pad_p, st.split_p)


def with_stencils(jaxpr: Jaxpr, has_form: HasForm, least: int) -> tuple[Jaxpr, int]:
    """The jaxpr with each stencil of at least so many elements as one equation, and how many there are."""
    if not any(e.primitive in (*SHIFTS, st.broadcast_in_dim_p, st.transpose_p) for e in jaxpr.eqns):
        return jaxpr, 0
    found = _Finding(jaxpr, has_form, least)
    eqns, count = list(jaxpr.eqns), 0
    for i in reversed(range(len(eqns))):
        e = eqns[i]
        if e.primitive is fusion_p or any(v in found.inside for v in e.outputs) or not found.may_be_root(e):
            continue
        stencil = found.stencil(i)
        if stencil is not None:
            eqns[i] = stencil.equation(e)
            found.inside |= stencil.inner
            count += 1
    if not count:
        return jaxpr, 0
    return dce_eqns(Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)), count


@dataclass(frozen=True)
class _Stencil:
    """The equations of a stencil, the last one its root, and the values that only it reads."""

    eqns: tuple[Eqn, ...]
    inner: frozenset[Var]

    @property
    def body(self) -> Jaxpr:
        made = {v for e in self.eqns for v in e.outputs}
        leaves = dict.fromkeys(a for e in self.eqns for a in e.inputs if isinstance(a, Var) and a not in made)
        return Jaxpr((), list(leaves), self.eqns[-1].outputs, self.eqns)

    def equation(self, root: Eqn) -> Eqn:
        """The equation that stands for it."""
        body = self.body
        new = {v: Var(v.aval) for v in (*body.invars, *(v for e in self.eqns for v in e.outputs))}

        def named(a: Atom) -> Atom:
            return new[a] if isinstance(a, Var) else a

        eqns = [e.replace(inputs=[*map(named, e.inputs)], outputs=[new[v] for v in e.outputs]) for e in self.eqns]
        inner = Jaxpr((), [new[v] for v in body.invars], [new[v] for v in root.outputs], eqns)
        params = {"kind": "stencil", "jaxpr": ClosedJaxpr(inner), "space": root.outputs[0].aval.shape, "axes": ()}
        return Eqn(body.invars, root.outputs, fusion_p, params, fusion_p.effects(params), root.source)


def _row(found: _Stencil) -> int:
    """How many neighbours of the result are never parted: the extent of its last dimensions, of which nothing is moved but the
    first."""
    shape = found.eqns[-1].outputs[0].aval.shape
    first = max((d for e in found.eqns for d in _moved(e, len(shape))), default=0)
    return math.prod(shape[first:])


def _moved(e: Eqn, rank: int) -> Iterator[int]:
    """The dimensions along which an equation moves elements, of arrays of one rank; the last one where that changes."""
    p, params = e.primitive, e.params
    if e.primitive.family == "elementwise":
        return
    if any(v.aval.shape and v.aval.ndim != rank for v in (*e.inputs, *e.outputs)):
        yield rank - 1
    elif p is st.slice_p:
        steps = params["strides"] or (1,) * rank
        x = e.inputs[0].aval.shape
        taken = zip(x, params["start_indices"], params["limit_indices"], steps)
        yield from (d for d, (n, start, limit, step) in enumerate(taken) if (start, limit, step) != (0, n, 1))
    elif p is st.rev_p:
        yield from params["dimensions"]
    elif p is st.pad_p:
        yield from (d for d, (low, high, _) in enumerate(params["padding_config"]) if low or high)
    elif p is st.concatenate_p:
        yield params["dimension"]
    elif p is st.split_p:
        yield params["axis"]
    elif p is st.transpose_p:
        yield from (d for d, k in enumerate(params["permutation"]) if d != k)
    else:
        yield rank - 1


def _joins_rows(e: Eqn) -> bool:
    """Whether an equation joins arrays row by row, or element by element."""
    return e.primitive is st.concatenate_p and any(n > 1 for n in e.outputs[0].aval.shape[: e.params["dimension"]])


class _Finding:
    """The program, and which of its values only stencils read."""

    def __init__(self, jaxpr: Jaxpr, has_form: HasForm, least: int) -> None:
        self.eqns = jaxpr.eqns
        self.least = least
        self.has_form = has_form
        self.maker = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.outputs}
        self.readers: dict[Var, set[int]] = {}
        for i, e in enumerate(jaxpr.eqns):
            for a in e.inputs:
                if isinstance(a, Var):
                    self.readers.setdefault(a, set()).add(i)
        self.returned = {a for a in jaxpr.outvars if isinstance(a, Var)}
        self.inside: set[Var] = set()

    def may_be_root(self, e: Eqn) -> bool:
        """Whether an equation computes an array that is large enough, with rows that are long enough."""
        if (
            e.effects
            or len(e.outputs) != 1
            or not (
                self._computes(e)
                or e.primitive in (st.concatenate_p, st.pad_p, st.rev_p)
                and moves(e)
                or self._repeats(e)
                or self._turns(e)
            )
        ):
            return False
        (v,) = e.outputs
        if joins_elements(e) and any(self.eqns[i].primitive.family == "indexing" for i in self.readers.get(v, ())):
            return False  # index vectors, whose components a kernel of gathers computes itself
        return bool(v.aval.shape) and v.aval.size >= self.least

    def _repeats(self, e: Eqn) -> bool:
        """Whether an equation repeats an array for a result of the program: what others read they repeat themselves."""
        if e.primitive is not st.broadcast_in_dim_p or not e.inputs[0].aval.shape:
            return False
        (v,) = e.outputs
        while v not in self.returned:
            readers = [self.eqns[i] for i in self.readers.get(v, ())]
            if len(readers) != 1 or readers[0].primitive is not st.reshape_p:
                return False
            (v,) = readers[0].outputs
        return True

    def _turns(self, e: Eqn) -> bool:
        """Whether an equation transposes a large array that something else than a product reads, which reads it in place."""
        if e.primitive is not st.transpose_p:
            return False
        order = [d for d in e.params["permutation"] if e.inputs[0].aval.shape[d] != 1]
        if not order or e.outputs[0].aval.size < (LEAST_ROWS if order[-1] == max(order) else LEAST_TURNED):
            return False
        readers = self.readers.get(e.outputs[0], set())
        products = (ct.dot_general_p, ct.conv_general_dilated_p)
        return order != sorted(order) and not (readers and all(self.eqns[i].primitive in products for i in readers))

    def _computes(self, e: Eqn) -> bool:
        return (
            e.primitive.family == "elementwise" and not e.effects and len(e.outputs) == 1
            and self.has_form(e.primitive, e.inputs[0].aval.dtype)
        )  # fmt: skip

    def stencil(self, root: int) -> _Stencil | None:
        """What grows from an equation, if that is worth a kernel."""
        apart: set[int] = set()  # equations that are arrays of their own
        for _ in range(8):
            found = self._grown(root, apart)
            body = found.body
            side_by_side = joins_elements(self.eqns[root])
            short = _row(found) < min(LEAST_ROW, self.least)
            if not self._worth(root, found) or short and not side_by_side:
                return None
            parts = regions(body, MOST_REGIONS) if len(body.invars) <= MOST_ARRAYS else None
            if parts is not None and short and len(parts) != len(self.eqns[root].inputs):
                parts = None  # an array's elements are read at several places
            if parts is None or sum(len(p) for read in parts for p in read.values()) > MOST_CODE:
                last = next(
                    (i for i in self._numbers(found) if self.eqns[i].primitive in SHIFTS[2:4] and i != root), None
                )
                if last is None:
                    return None
                apart.add(last)
                continue
            again = {
                i: weight(self.eqns[i]) * (len(parts[0].get(self.eqns[i].outputs[0], ())) - 1)
                for i in self._numbers(found)
            }
            if sum(again.values()) <= MOST_AGAIN:
                return found
            apart.add(max(again, key=lambda i: again[i]))
        return None

    def _worth(self, root: int, found: _Stencil) -> bool:
        """Whether one pass is better than several: it reads two moved arrays, or pads what it computes; or elements go backwards."""
        if any(e.primitive is st.rev_p for e in found.eqns):
            return True  # which IREE reads one by one
        if any(map(self._turns, found.eqns)):
            return True  # which IREE does element by element where rows become columns
        if self._repeats(self.eqns[root]) or any(map(_joins_rows, found.eqns)):
            return True  # and writes one by one, or with a call of a copy for each row
        if self.eqns[root].primitive is st.pad_p:
            return any(self._computes(e) for e in found.eqns)
        read = {a for e in found.eqns for a in (*e.inputs, *found.eqns[-1].outputs)}
        return sum(v in read for e in found.eqns if e.primitive in SHIFTS for v in e.outputs) > 1

    def _numbers(self, found: _Stencil) -> Sequence[int]:
        return [self.maker[e.outputs[0]] for e in found.eqns]

    def _grown(self, root: int, apart: set[int]) -> _Stencil:
        taken, wanted = {root}, {a for a in self.eqns[root].inputs if isinstance(a, Var)}
        inner: set[Var] = set()
        for i in reversed(range(root)):
            e = self.eqns[i]
            if i in apart or len(taken) >= MOST_EQNS or not any(v in wanted for v in e.outputs):
                continue
            own = all(self.readers.get(v, set()) <= taken and v not in self.returned for v in e.outputs)
            if not (self._moves(e) or own and self._computes(e) and e.outputs[0].aval.shape):
                continue
            taken.add(i)
            wanted |= {a for a in e.inputs if isinstance(a, Var)}
            if own:
                inner |= set(e.outputs)
        return _Stencil(tuple(self.eqns[i] for i in sorted(taken)), frozenset(inner))

    def _moves(self, e: Eqn) -> bool:
        return not e.effects and moves(e) and all(v.aval.size for v in (*e.inputs, *e.outputs))


__all__ = ["with_stencils"]
