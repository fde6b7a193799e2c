"""Slices, pads and concatenations as one operation: boxes of some arrays put at places of a result.

Before a program is partitioned its slices (that step by one), pads (without interior padding), splits and concatenations
become `assemble` equations, and one of another one becomes one of what that is made of: ``pad(u, 1)[:-2]`` is u moved by one
row, ``roll(u, 1)`` is two boxes of u. Along a divided dimension each device then gets the border that it lacks from its
neighbours (`halos`), and a small box of a divided dimension is added up from the device that has it. `assemble` is known to
this package alone; on parts it is slices, pads and concatenations again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var, has_nested, map_nested
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.primitives.shard_map import shard_map_p

from .halos import Slide, Window, exists, extended
from .rules import Builder, Factors, emission, factors

Avals = Sequence[ShapedArray]
MOST_PIECES = 8


class Piece(NamedTuple):
    """A box of an operand: from `starts` up to `limits`, put at `offsets` of the result."""

    operand: int
    starts: tuple[int, ...]
    limits: tuple[int, ...]
    offsets: tuple[int, ...]

    def size(self) -> int:
        """The number of its elements."""
        return math.prod(b - a for a, b in zip(self.starts, self.limits))


def _assemble(*operands: ShapedArray, pieces: tuple[Piece, ...], shape: tuple[int, ...], covered: bool) -> ShapedArray:
    """Boxes of the operands, which do not overlap, in a result that holds the last operand, a scalar, elsewhere.

    `covered`: there is no elsewhere.
    """
    return operands[0].update(shape=shape)


assemble_p = Primitive("assemble", _assemble, weight=0)


# -- making them --------------------------------------------------------------------------------------------------


class _Made(NamedTuple):
    pieces: tuple[tuple[Atom, Piece], ...]
    fill: Atom
    shape: tuple[int, ...]

    def covered(self) -> bool:
        return sum(p.size() for _, p in self.pieces) == math.prod(self.shape)


def assembled(jaxpr: Jaxpr) -> Jaxpr:
    """The jaxpr, and those in it, with `assemble` equations."""
    made: dict[Var, _Made] = {}
    eqns: list[Eqn] = []
    for eqn in jaxpr.eqns:
        found = _of(eqn)
        if found is not None:
            for v, m in zip(eqn.outputs, found, strict=True):
                m = _composed(m, made)
                made[v] = m
                eqns.append(_equation(m, v, eqn))
            continue
        if eqn.params and has_nested(eqn.params) and eqn.primitive is not shard_map_p:
            params = map_nested(eqn.params, _nested)
            eqn = eqn if params is eqn.params else eqn.replace(params=params)
        eqns.append(eqn)
    return Jaxpr(jaxpr.constvars, jaxpr.invars, jaxpr.outvars, eqns)


def _nested(closed: ClosedJaxpr) -> ClosedJaxpr:
    return ClosedJaxpr(assembled(closed.jaxpr), closed.consts)


def _of(eqn: Eqn) -> list[_Made] | None:
    """What the results of an equation are assembled of; None for another one."""
    rule = _RULES.get(eqn.primitive)
    if rule is None or any(not v.aval.size for v in (*eqn.inputs, *eqn.outputs)):
        return None
    return rule(eqn)


def _zero(aval: ShapedArray) -> Literal:
    return Literal(aval.dtype.type(0), ShapedArray((), aval.dtype))


def _slice(eqn: Eqn) -> list[_Made] | None:
    if eqn.params["strides"] is not None and any(s != 1 for s in eqn.params["strides"]):
        return None
    out = eqn.outputs[0].aval
    p = Piece(0, tuple(eqn.params["start_indices"]), tuple(eqn.params["limit_indices"]), (0,) * out.ndim)
    return [_Made(((eqn.inputs[0], p),), _zero(out), out.shape)]


def _pad(eqn: Eqn) -> list[_Made] | None:
    config = eqn.params["padding_config"]
    if any(i for _, _, i in config):
        return None
    x = eqn.inputs[0].aval.shape
    starts = tuple(max(0, -lo) for lo, _, _ in config)
    limits = tuple(n - max(0, -hi) for n, (_, hi, _) in zip(x, config))
    if any(a >= b for a, b in zip(starts, limits)):  # nothing of x is left
        return None
    p = Piece(0, starts, limits, tuple(max(0, lo) for lo, _, _ in config))
    return [_Made(((eqn.inputs[0], p),), eqn.inputs[1], eqn.outputs[0].aval.shape)]


def _concatenate(eqn: Eqn) -> list[_Made] | None:
    d: int = eqn.params["dimension"]
    out = eqn.outputs[0].aval
    pieces: list[tuple[Atom, Piece]] = []
    at = 0
    for a in eqn.inputs:
        shape = a.aval.shape
        pieces.append((a, Piece(0, (0,) * len(shape), shape, tuple(at if i == d else 0 for i in range(len(shape))))))
        at += shape[d]
    return [_Made(tuple(pieces), _zero(out), out.shape)]


def _split(eqn: Eqn) -> list[_Made] | None:
    d: int = eqn.params["axis"]
    x = eqn.inputs[0].aval
    out: list[_Made] = []
    at = 0
    for v in eqn.outputs:
        n = v.aval.shape[d]
        starts = tuple(at if i == d else 0 for i in range(x.ndim))
        limits = tuple(at + n if i == d else m for i, m in enumerate(x.shape))
        out.append(_Made(((eqn.inputs[0], Piece(0, starts, limits, (0,) * x.ndim)),), _zero(v.aval), v.aval.shape))
        at += n
    return out


_RULES: Mapping[Primitive, Any] = {
    st.slice_p: _slice,
    st.pad_p: _pad,
    st.concatenate_p: _concatenate,
    st.split_p: _split,
}


def _same(a: Atom, b: Atom) -> bool:
    if isinstance(a, Literal) and isinstance(b, Literal):
        return np.asarray(a.value).tobytes() == np.asarray(b.value).tobytes() and a.aval.dtype == b.aval.dtype
    return a is b


def _composed(m: _Made, made: Mapping[Var, _Made]) -> _Made:
    """The same, of what its operands are assembled of where that is possible."""
    pieces: list[tuple[Atom, Piece]] = []
    fill, covered = m.fill, m.covered()
    for atom, p in m.pieces:
        source = made.get(atom) if isinstance(atom, Var) else None
        found = None if source is None else _inside(p, source)
        if source is None or found is None:
            pieces.append((atom, p))
            continue
        whole = sum(q.size() for _, q in found) == p.size()
        if not whole and not _same(source.fill, fill):
            if not covered or len(m.pieces) > 1:
                pieces.append((atom, p))
                continue
            fill = source.fill
        pieces += found
    if len(pieces) > MOST_PIECES or not pieces:
        return m
    return _Made(tuple(pieces), fill, m.shape)


def _inside(p: Piece, source: _Made) -> list[tuple[Atom, Piece]] | None:
    """The boxes that a box of an assembled array consists of; None where it is all filled."""
    out: list[tuple[Atom, Piece]] = []
    for atom, q in source.pieces:
        low = [max(a, o) for a, o in zip(p.starts, q.offsets)]
        high = [min(b, o + n - s) for b, o, s, n in zip(p.limits, q.offsets, q.starts, q.limits)]
        if any(a >= b for a, b in zip(low, high)):
            continue
        starts = tuple(s + a - o for s, a, o in zip(q.starts, low, q.offsets))
        limits = tuple(s + b - o for s, b, o in zip(q.starts, high, q.offsets))
        out.append((atom, Piece(0, starts, limits, tuple(o + a - s for o, a, s in zip(p.offsets, low, p.starts)))))
    return out or None


def _equation(m: _Made, v: Var, eqn: Eqn) -> Eqn:
    atoms: list[Atom] = []
    pieces: list[Piece] = []
    for atom, p in m.pieces:
        k = next((i for i, a in enumerate(atoms) if a is atom), len(atoms))
        if k == len(atoms):
            atoms.append(atom)
        pieces.append(p._replace(operand=k))
    params = {"pieces": tuple(pieces), "shape": m.shape, "covered": m.covered()}
    return Eqn([*atoms, m.fill], [v], assemble_p, params, source=eqn.source)


# -- partitioning them --------------------------------------------------------------------------------------------


def _trivial(p: Piece, d: int, n: int, m: int) -> bool:
    """Whether a box takes all of a dimension and fills all of the result's."""
    return p.starts[d] == 0 and p.offsets[d] == 0 and p.limits[d] == n == m


def _sum(x: ShapedArray) -> str:
    return "or" if dtypes.is_bool(x.dtype) else "add"


@factors(assemble_p)
def _assemble_factors(
    in_avals: Avals, out_avals: Avals, *, pieces: tuple[Piece, ...], shape: tuple[int, ...], covered: bool
) -> Factors:
    b = Builder()
    result = b.dims(shape)
    operands: list[list[tuple[int, ...]]] = []
    for k, x in enumerate(in_avals[:-1]):
        mine = [p for p in pieces if p.operand == k]
        dims: list[tuple[int, ...]] = []
        for d, (n, m) in enumerate(zip(x.shape, shape)):
            if all(_trivial(p, d, n, m) for p in mine):
                dims.append(result[d])
            elif 1 < n <= 2 * m and 1 < m <= 2 * n:
                dims.append(result[d])
                b.slides += [_slide(k, d, result[d][0], p, m) for p in mine]
            elif len(pieces) == 1 and covered and n > 1:
                dims.append((b.new(n, reduced=_sum(x)),))
                b.masked.add(dims[-1][0])
            else:
                dims.append((b.new(n, whole=True),))
        operands.append(dims)
    return b.done([*operands, []], [result])


def _is(s: Slide, p: Piece, d: int) -> bool:
    """Whether a slide is that of a box along a dimension."""
    if (s.operand, s.dim, s.low, s.high) != (p.operand, d, p.starts[d], p.limits[d]):
        return False
    return s.spans(1)[0].first == p.starts[d] - p.offsets[d]


def _slide(operand: int, d: int, factor: int, p: Piece, m: int) -> Slide:
    def spans(count: int) -> tuple[Window, int]:
        part = -(-m // count)
        return Window(part, p.starts[d] - p.offsets[d]), part

    return Slide(operand, d, factor, p.starts[d], p.limits[d], spans)


@emission(assemble_p)
def _emit(place: Any, operands: Sequence[Any], eqn: Eqn) -> Sequence[Any]:
    pieces: tuple[Piece, ...] = eqn.params["pieces"]
    fill = operands[-1]
    joined = _joined(place, operands, eqn)
    if joined is not None:
        return [joined]
    out: Any = None
    for p in pieces:
        value, masks = _placed(place, operands[p.operand], p, fill, eqn, first=out is None)
        inside: Any = None
        for mask in masks:
            inside = mask if inside is None else ew.bitwise_and(inside, mask)
        if inside is not None:
            rest = st.broadcast_in_dim(fill, place.result_shapes[0], ()) if out is None else out
            value = ew.select_n(inside, rest, value)
        out = value
    return [out]


def _joined(place: Any, operands: Sequence[Any], eqn: Eqn) -> Any:
    """Boxes that follow one another along one dimension, which nothing divides; None for others."""
    pieces: tuple[Piece, ...] = eqn.params["pieces"]
    shape = eqn.params["shape"]
    if len(pieces) < 2 or not eqn.params["covered"]:
        return None
    moving = {
        d for p in pieces for d, (n, m) in enumerate(zip(eqn.inputs[p.operand].aval.shape, shape)) if not _trivial(p, d, n, m)
    }  # fmt: skip
    if len(moving) != 1:
        return None
    (d,) = moving
    if place.result_specs[0][d] or any(place.operand_specs[p.operand][d] for p in pieces):
        return None
    parts: list[Any] = []
    for p in sorted(pieces, key=lambda p: p.offsets[d]):
        x = operands[p.operand]
        n = aval_of(x).shape
        starts = [p.starts[d] if i == d else 0 for i in range(len(n))]
        parts.append(st.slice(x, starts, [p.limits[d] if i == d else m for i, m in enumerate(n)]))
    return st.concatenate(parts, d)


def _placed(place: Any, x: Any, p: Piece, fill: Any, eqn: Eqn, first: bool) -> tuple[Any, list[Any]]:
    """A box in an array of the result's local shape, and masks that say where it is; the first one is filled around."""
    shape: tuple[int, ...] = eqn.params["shape"]
    whole = eqn.inputs[p.operand].aval.shape
    masks: list[Any] = []
    still = [d for d, axes in enumerate(place.operand_specs[p.operand]) if not axes]
    # What is cut first is not sent.
    x = _cut(x, {d: (p.starts[d], p.limits[d]) for d in still})
    for d, (n, m) in enumerate(zip(whole, shape)):
        if d in still or _trivial(p, d, n, m):
            continue
        factor = place.factors.operands[p.operand][d][0]
        if factor == place.factors.results[0][d][0]:
            slide = next(s for s in place.factors.slides if _is(s, p, d))
            x = extended(place, x, slide)
            mask = exists(place, x, slide)
        else:
            x, mask = _own(place, x, p, d, factor)
        if mask is not None:
            masks.append((d, mask))
    config = [(0, 0, 0)] * len(shape)
    cut: dict[int, Any] = {}
    for d in still:
        before, size = p.offsets[d], p.limits[d] - p.starts[d]
        after = shape[d] - before - size
        axes = place.result_specs[0][d]
        if axes:  # a device takes its part of what all of them hold
            local = place.result_shapes[0][d]
            after += local * place.emitter_count(axes) - shape[d]
            cut[d] = place.start(0, d)
        if before or after:
            config[d] = (before, after, 0)
            if not first:
                cut.setdefault(d, None)
    x = st.pad(x, fill, config)
    for d, start in cut.items():
        n = aval_of(x).shape
        if start is not None:
            starts = [start if i == d else np.int32(0) for i in range(len(n))]
            sizes = [place.result_shapes[0][d] if i == d else k for i, k in enumerate(n)]
            x = ix.dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes))
        if not first:
            masks.append((d, (p.offsets[d], p.offsets[d] + p.limits[d] - p.starts[d], start)))
    local = aval_of(x).shape
    return x, [_mask(mask, d, local) for d, mask in masks]


def _mask(mask: Any, d: int, shape: tuple[int, ...]) -> Any:
    """A mask of a result's local shape: from one along a dimension, or the bounds along it."""
    if isinstance(mask, tuple):
        low, high, start = cast("tuple[int, int, Any]", mask)
        numbers = st.iota_p.bind(dtype=dtypes.int32, shape=shape, dimension=d)
        if start is not None:
            numbers = ew.add(numbers, st.broadcast_in_dim(start, shape, ()))
        return ew.bitwise_and(ew.ge(numbers, np.int32(low)), ew.lt(numbers, np.int32(high)))
    n = aval_of(mask).shape
    if n == shape:
        return mask
    line = st.slice(mask, [0] * len(n), [m if i == d else 1 for i, m in enumerate(n)])
    return st.broadcast_in_dim(st.squeeze(line, [i for i in range(len(n)) if i != d]), shape, (d,))


def _cut(x: Any, bounds: Mapping[int, tuple[int, int]]) -> Any:
    shape = aval_of(x).shape
    return st.slice(
        x,
        [bounds[d][0] if d in bounds else 0 for d in range(len(shape))],
        [bounds[d][1] if d in bounds else n for d, n in enumerate(shape)],
    )


def _own(place: Any, x: Any, p: Piece, d: int, factor: int) -> tuple[Any, Any]:
    """What a device's own part has of a box that all of them get as a sum; the rest is zero."""
    shape = aval_of(x).shape
    block, m = shape[d], place.result_shapes[0][d]
    zero = aval_of(x).dtype.type(0)
    x = st.pad(x, zero, [(m, m, 0) if i == d else (0, 0, 0) for i in range(len(shape))])
    at = ew.sub(np.int32(p.starts[d]), place.begin(factor))
    if place.result_specs[0][d]:
        at = ew.add(at, place.start(0, d))
    start = ew.clamp(np.int32(0), ew.add(at, np.int32(m)), np.int32(block + m))
    starts = [start if i == d else np.int32(0) for i in range(len(shape))]
    size = (*shape[:d], m, *shape[d + 1 :])
    x = ix.dynamic_slice_p.bind(x, *starts, slice_sizes=size)
    numbers = ew.add(st.iota_p.bind(dtype=dtypes.int32, shape=size, dimension=d), st.broadcast_in_dim(at, size, ()))
    here = ew.bitwise_and(ew.ge(numbers, np.int32(0)), ew.lt(numbers, np.int32(block)))
    return x, here
