"""Rules for slices: of what is repeated, moved or computed element by element, only the slice is.

A slice goes towards where its elements come from, so that nothing outside of it is computed or stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn
from quire.ir.primitive import PRIMITIVES, Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .rewriter import Rewrite, Rewriter, rule

# One dimension's bounds: the first element, the end, the step.
Bound = tuple[int, int, int]

#: Elementwise primitives of which a slice is computed for itself; scalars beside arrays stay as they are.
_COMPUTED = tuple(
    p for p in PRIMITIVES.values()
    if p.family == "elementwise" and not p.apart and (not p.params or p in (
        ew.convert_element_type_p, ew.integer_pow_p, ew.round_p, ew.reduce_precision_p, ew.select_n_p, ew.clamp_p
    ))
)  # fmt: skip


def _bounds(e: Eqn) -> list[Bound]:
    strides: Sequence[int] = e.params["strides"] or (1,) * len(e.params["start_indices"])
    return list(zip(e.params["start_indices"], e.params["limit_indices"], strides, strict=True))


def _sliced(r: Rewriter, x: Atom, bounds: Sequence[Bound], beside: Eqn | None = None) -> Atom:
    """A slice of x, in place of a slice of what is made of it; `beside` is that slice where others may read the same."""
    if beside is not None and not r.single_use(beside.inputs[0]):
        r.read_again(x)
    if all((start, limit, step) == (0, n, 1) for (start, limit, step), n in zip(bounds, x.aval.shape, strict=True)):
        return x
    key = ("slice", x, tuple(bounds))
    if key not in r.made:
        starts, limits, steps = zip(*bounds, strict=True)
        strides = None if all(s == 1 for s in steps) else steps
        r.made[key] = r.emit(st.slice_p, [x], start_indices=starts, limit_indices=limits, strides=strides)
    return r.made[key]


def _alone(r: Rewriter, e: Eqn) -> bool:
    """Whether the slice alone reads its array, as far as can be known: equal arrays are one after cse."""
    return r.slices and r.single_use(e.inputs[0])


def _of(p: Primitive) -> Callable[[Callable[[Rewriter, Eqn, Eqn], Rewrite]], object]:
    """A rule for slices of what `p` makes, which is given both equations; none where explicit mesh axes divide arrays."""

    def register(f: Callable[[Rewriter, Eqn, Eqn], Rewrite]) -> object:
        def apply(r: Rewriter, e: Eqn) -> Rewrite:
            inner = r.producer(e.inputs[0], p)
            if inner is None or any(a.aval.division for a in inner.inputs):
                return None
            return f(r, e, inner)

        apply.__name__ = f.__name__
        return rule(st.slice_p, when=(p,))(apply)

    return register


@_of(st.broadcast_in_dim_p)
def slice_of_broadcast(r: Rewriter, e: Eqn, inner: Eqn) -> Rewrite:
    """A slice of what is repeated is repeated from a slice."""
    (x,) = inner.inputs
    if not x.aval.shape:  # simpler: `moving_of_scalar_broadcast`
        return None
    bounds = _bounds(e)
    dims: tuple[int, ...] = inner.params["broadcast_dimensions"]
    own: list[Bound] = [
        bounds[d] if n == inner.params["shape"][d] else (0, 1, 1) for d, n in zip(dims, x.aval.shape, strict=True)
    ]
    part = _sliced(r, x, own, beside=e)
    return r.emit(st.broadcast_in_dim_p, [part], shape=e.outputs[0].aval.shape, broadcast_dimensions=dims)


@_of(st.transpose_p)
def slice_of_transpose(r: Rewriter, e: Eqn, inner: Eqn) -> Rewrite:
    """A slice of a transpose is the transpose of a slice, if nothing else reads the transpose."""
    if not _alone(r, e):
        return None
    bounds = _bounds(e)
    permutation: tuple[int, ...] = inner.params["permutation"]
    part = _sliced(r, inner.inputs[0], [bounds[permutation.index(d)] for d in range(len(permutation))])
    return r.emit(st.transpose_p, [part], permutation=permutation)


@_of(st.concatenate_p)
def slice_of_concatenate(r: Rewriter, e: Eqn, inner: Eqn) -> Rewrite:
    """A slice that lies within one of the parts is the part's; of more parts if nothing else reads them together."""
    axis: int = inner.params["dimension"]
    first = 0
    bounds = _bounds(e)
    start, limit, step = bounds[axis]
    parts: list[tuple[Atom, list[Bound]]] = []
    for x in inner.inputs:
        end = first + x.aval.shape[axis]
        begin, stop = max(start, first), min(limit, end)
        if begin < stop:
            within = step == 1 or first <= start < limit <= end
            if not within:
                return None
            bounds[axis] = (begin - first, stop - first, step)
            parts.append((x, [*bounds]))
        first = end
    if len(parts) == 1:
        return _sliced(r, *parts[0], beside=e)
    if not parts or not _alone(r, e):
        return None
    return r.emit(st.concatenate_p, [_sliced(r, x, own) for x, own in parts], dimension=axis)


@_of(st.pad_p)
def slice_of_pad(r: Rewriter, e: Eqn, inner: Eqn) -> Rewrite:
    """A slice of a padded array is a slice of the array, padded by what the slice has of the padding."""
    x, value = inner.inputs
    bounds: list[Bound] = []
    padding: list[Bound] = []
    for (low, _, interior), (start, limit, step), n in zip(
        inner.params["padding_config"], _bounds(e), x.aval.shape, strict=True
    ):
        if interior or low < 0:
            return None
        begin, end = max(start - low, 0), min(limit - low, n)
        if begin >= end or step != 1 and (start < low or limit > low + n):
            return None
        bounds.append((begin, end, step))
        padding.append((begin + low - start, limit - low - end, 0))
    if not any(low or high for low, high, _ in padding):
        return _sliced(r, x, bounds, beside=e)
    if not _alone(r, e):
        return None
    return r.emit(st.pad_p, [_sliced(r, x, bounds), value], padding_config=tuple(padding))


@rule(st.slice_p, when=(st.iota_p,))
def slice_of_iota(r: Rewriter, e: Eqn) -> Rewrite:
    """A slice of the numbers from 0 on is numbers in steps."""
    inner = r.producer(e.inputs[0], st.iota_p)
    if inner is None or not dtypes.is_integer(inner.params["dtype"]):
        return None
    dimension: int = inner.params["dimension"]
    start, _, step = _bounds(e)[dimension]
    aval = e.outputs[0].aval
    out = r.emit(st.iota_p, [], **{**inner.params, "shape": aval.shape})
    if step != 1:
        out = r.emit(ew.mul_p, [out, r.literal(step, aval)])
    return out if start == 0 else r.emit(ew.add_p, [out, r.literal(start, aval)])


def _of_computed(p: Primitive) -> None:
    def slice_of_elementwise(r: Rewriter, e: Eqn, inner: Eqn) -> Rewrite:
        """Of what only a slice is read of, only the slice is computed."""
        if not _alone(r, e):
            return None
        bounds = _bounds(e)
        parts = [_sliced(r, x, bounds) if x.aval.shape else x for x in inner.inputs]
        return r.emit(p, parts, **inner.params)

    _of(p)(slice_of_elementwise)


for _p in _COMPUTED:
    _of_computed(_p)
