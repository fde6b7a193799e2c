"""Which part of each operand a rectangular part of a result is made of, for what only moves elements, or computes one by one.

Slices, reversals, paddings and concatenations of arrays that are read together are one pass over the result, if the result
is cut where one operand of a concatenation ends and the next begins: in each of the regions every operand is one rectangle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .jaxpr import Eqn, Jaxpr, Var
from .primitives import structural as st


@dataclass(frozen=True)
class Rectangle:
    """A part of an array: its first places and its sizes."""

    starts: tuple[int, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def whole(shape: tuple[int, ...]) -> Rectangle:
        """All of an array."""
        return Rectangle((0,) * len(shape), shape)

    def cut(self, d: int, at: int) -> tuple[Rectangle, Rectangle]:
        """The two parts before and from `at`, counted from the rectangle's start, along a dimension."""
        low, high = list(self.sizes), list(self.sizes)
        low[d], high[d] = at, self.sizes[d] - at
        starts = list(self.starts)
        starts[d] += at
        return Rectangle(self.starts, tuple(low)), Rectangle(tuple(starts), tuple(high))


class StraddlesError(Exception):
    """A part is made of different operands on the two sides of a cut, counted from its start."""

    def __init__(self, d: int, at: int) -> None:
        super().__init__(d, at)
        self.d, self.at = d, at


VIEWS = (
    st.slice_p, st.rev_p, st.broadcast_in_dim_p, st.concatenate_p, st.pad_p, st.squeeze_p, st.reshape_p, st.split_p,
    st.iota_p, st.transpose_p,
)  # fmt: skip
"""What moves elements by rectangles (see `moves`)."""
_NAMED = (st.broadcast_in_dim_p, st.squeeze_p, st.reshape_p, st.transpose_p)
"""What gives dimensions other places (see `axes_of`)."""


def moves(eqn: Eqn) -> bool:
    """Whether an equation moves elements by rectangles: of reshapes those that change dimensions of one only."""
    p = eqn.primitive
    if p not in VIEWS:
        return False
    if p is st.reshape_p:
        return _kept(eqn.inputs[0].aval.shape) == _kept(eqn.outputs[0].aval.shape)
    return p is not st.pad_p or all(gap == 0 for _, _, gap in eqn.params["padding_config"])


MOST_SIDE_BY_SIDE = 12


def joins_elements(eqn: Eqn) -> bool:
    """Whether an equation puts arrays side by side along the last dimension: a few that have one element each there, or
    one a few times."""
    if eqn.primitive is st.broadcast_in_dim_p:
        x, shape = eqn.inputs[0].aval.shape, eqn.params["shape"]
        return bool(x) and 1 < shape[-1] <= MOST_SIDE_BY_SIDE and len(shape) - 1 not in axes_of(eqn)
    return 1 < len(eqn.inputs) <= MOST_SIDE_BY_SIDE and joins_components(eqn)


def joins_components(eqn: Eqn) -> bool:
    """Whether an equation joins arrays that have one element each along their last dimension, along that: to vectors."""
    if eqn.primitive is not st.concatenate_p:
        return False
    d: int = eqn.params["dimension"]
    return all(a.aval.ndim == d + 1 and a.aval.shape[d] == 1 for a in eqn.inputs)


def operands_of(eqn: Eqn, v: Var, part: Rectangle) -> tuple[Rectangle | None, ...]:
    """The part of each operand that a part of the result `v` is made of, None where it is not read.

    For `moves` and elementwise equations. Raises StraddlesError where a part is made of more than one operand.
    """
    p, params = eqn.primitive, eqn.params
    if p is st.iota_p:
        return ()
    if p is st.concatenate_p:
        return _of_concatenate(eqn, params["dimension"], part)
    if p is st.pad_p:
        return _of_pad(eqn, part)
    x = eqn.inputs[0].aval.shape
    if p is st.slice_p:
        steps = params["strides"] or (1,) * len(x)
        starts = tuple(s + k * at for s, k, at in zip(params["start_indices"], steps, part.starts))
        return (Rectangle(starts, tuple((n - 1) * k + 1 for n, k in zip(part.sizes, steps))),)
    if p is st.split_p:
        d, before = params["axis"], eqn.outputs[: eqn.outputs.index(v)]
        at = sum(w.aval.shape[d] for w in before)
        return (Rectangle(tuple(s + at if k == d else s for k, s in enumerate(part.starts)), part.sizes),)
    if p is st.rev_p:
        turned = params["dimensions"]
        starts = tuple(n - s - m if d in turned else s for d, (n, s, m) in enumerate(zip(x, part.starts, part.sizes)))
        return (Rectangle(starts, part.sizes),)
    if p in _NAMED:
        to = axes_of(eqn)
        starts = tuple(0 if d is None else part.starts[d] for d in to)
        return (Rectangle(starts, tuple(1 if d is None else part.sizes[d] for d in to)),)
    return tuple(part if a.aval.shape else Rectangle((), ()) for a in eqn.inputs)  # elementwise


def axes_of(eqn: Eqn) -> tuple[int | None, ...]:
    """The dimension of the result that each dimension of the operand is; None where the operand has one element."""
    x, out = eqn.inputs[0].aval.shape, eqn.outputs[0].aval.shape
    if eqn.primitive is st.broadcast_in_dim_p:
        given = eqn.params["broadcast_dimensions"]
        return tuple(None if n == 1 and out[d] != 1 else d for n, d in zip(x, given))
    if eqn.primitive is st.transpose_p:
        order = eqn.params["permutation"]
        return tuple(order.index(d) for d in range(len(x)))
    if eqn.primitive in (st.squeeze_p, st.reshape_p):
        places = iter(d for d, n in enumerate(out) if n != 1)
        return tuple(None if n == 1 else next(places) for n in x)
    return tuple(range(len(x)))


def _kept(shape: tuple[int, ...]) -> list[int]:
    return [n for n in shape if n != 1]


def _of_concatenate(eqn: Eqn, d: int, part: Rectangle) -> tuple[Rectangle | None, ...]:
    first, last = part.starts[d], part.starts[d] + part.sizes[d]
    found: list[Rectangle | None] = []
    at = 0
    for a in eqn.inputs:
        end = at + a.aval.shape[d]
        if first < end < last:
            raise StraddlesError(d, end - first)
        inside = at <= first < end
        starts = tuple(s - at if k == d else s for k, s in enumerate(part.starts))
        found.append(Rectangle(starts, part.sizes) if inside else None)
        at = end
    return tuple(found)


def _of_pad(eqn: Eqn, part: Rectangle) -> tuple[Rectangle | None, ...]:
    starts: list[int] = []
    inside = True
    for d, ((low, _, _), n) in enumerate(zip(eqn.params["padding_config"], eqn.inputs[0].aval.shape)):
        first, last = part.starts[d], part.starts[d] + part.sizes[d]
        for edge in (low, low + n):
            if first < edge < last:
                raise StraddlesError(d, edge - first)
        inside = inside and low <= first < low + n
        starts.append(first - low)
    return (Rectangle(tuple(starts), part.sizes), None) if inside else (None, Rectangle((), ()))


def cut_of_result(eqn: Eqn, part: Rectangle, operand: int, cut: StraddlesError) -> StraddlesError:
    """Where a part of the result is to be cut if its part of an operand is cut there."""
    d, at, p = cut.d, cut.at, eqn.primitive
    if p is st.slice_p and eqn.params["strides"]:
        at = -(-at // eqn.params["strides"][d])
    elif p is st.rev_p and d in eqn.params["dimensions"]:
        at = part.sizes[d] - at
    elif p in _NAMED:
        to = axes_of(eqn)[d]
        assert to is not None, "one element is not cut"
        d = to
    return StraddlesError(d, at)


def regions(jaxpr: Jaxpr, most: int) -> list[dict[Var, set[Rectangle]]] | None:
    """The regions of the only result of a jaxpr in each of which every value is read in rectangles, largest first.

    For each region the parts of all values that are read for it, the result's own included. None for more regions than
    `most`.
    """
    (out,) = jaxpr.outvars
    assert isinstance(out, Var)
    makers = {v: e for e in jaxpr.eqns for v in e.outputs}
    pending, found = [Rectangle.whole(out.aval.shape)], list[dict[Var, set[Rectangle]]]()
    while pending:
        part = pending.pop()
        read: dict[Var, set[Rectangle]] = {}
        try:
            _read(makers, out, part, read)
            found.append(read)
        except StraddlesError as cut:
            pending += part.cut(cut.d, cut.at)
        if len(found) + len(pending) > most:
            return None

    def size(read: dict[Var, set[Rectangle]]) -> int:
        (part,) = read[out]
        total = 1
        for n in part.sizes:
            total *= n
        return total

    return sorted(found, key=size, reverse=True)


def _read(makers: Mapping[Var, Eqn], v: Var, part: Rectangle, read: dict[Var, set[Rectangle]]) -> None:
    known = read.setdefault(v, set())
    if part in known:
        return
    known.add(part)
    eqn = makers.get(v)
    if eqn is None:
        return
    for k, (a, inner) in enumerate(zip(eqn.inputs, operands_of(eqn, v, part))):
        if inner is not None and isinstance(a, Var):
            try:
                _read(makers, a, inner, read)
            except StraddlesError as cut:
                raise cut_of_result(eqn, part, k, cut) from None
