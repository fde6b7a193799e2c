"""Batching rules of contractions: a batch dimension becomes a batch, free, batch or feature-group dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import structural as st

from .rules import Axis, Dim, Value, batching, to_front


def _shift(dims: Sequence[int], batch: int) -> tuple[int, ...]:
    """The numbers of dimensions beside a batch dimension."""
    return tuple(d + (d >= batch) for d in dims)


@batching(ct.dot_general_p)
def dot_general(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, dimension_numbers: ct.DotDimensionNumbers,
    precision: ct.PrecisionPair, preferred_element_type: Any,
) -> tuple[Value, int]:  # fmt: skip
    (x, y), (dx, dy) = operands, dims
    (lc, rc), (lb, rb) = dimension_numbers
    if dx is not None:
        lc, lb = _shift(lc, dx), _shift(lb, dx)
    if dy is not None:
        rc, rb = _shift(rc, dy), _shift(rb, dy)
    if dx is not None and dy is not None:
        lb, rb = (dx, *lb), (dy, *rb)
        out_dim = 0
    else:
        x_free = ct.dot_free_dims(aval_of(x).ndim, lc, lb)
        y_free = ct.dot_free_dims(aval_of(y).ndim, rc, rb)
        out_dim = len(lb) + (x_free.index(dx) if dx is not None else len(x_free) + y_free.index(dy))  # type: ignore[arg-type]
    out = ct.dot_general_p.bind(
        x, y, dimension_numbers=((lc, rc), (lb, rb)), precision=precision, preferred_element_type=preferred_element_type
    )
    return out, out_dim


def _into(x: Value, batch: int, target: int) -> Value:
    """The batch dimension merged, as the slower one, into dimension `target` (numbered without it)."""
    order = [i for i in range(aval_of(x).ndim) if i != batch]
    order.insert(target, batch)
    x = st.transpose(x, order)
    shape = aval_of(x).shape
    return st.reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2 :]))


def _out_of(x: Value, dim: int, size: int) -> Value:
    """Dimension `dim` split in two, the first of the size given."""
    shape = aval_of(x).shape
    return st.reshape(x, (*shape[:dim], size, shape[dim] // size if size else 0, *shape[dim + 1 :]))


@batching(ct.conv_general_dilated_p)
def conv_general_dilated(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, dimension_numbers: ct.ConvDimensionNumbers,
    feature_group_count: int, batch_group_count: int, **params: Any,
) -> tuple[Value, int]:  # fmt: skip
    (x, k), (dx, dk) = operands, dims
    spec, size = dimension_numbers, axis.size

    def conv(x: Value, k: Value, feature_groups: int, batch_groups: int) -> Value:
        return ct.conv_general_dilated_p.bind(
            x, k, dimension_numbers=spec, feature_group_count=feature_groups, batch_group_count=batch_groups, **params
        )

    if not size:  # nothing to compute, and no dimension can be split
        x = to_front(x, dx, 0)
        k = to_front(k, dk, 0)
        one = ct.conv_general_dilated_p.infer(
            [aval_of(v).update(shape=aval_of(v).shape[1:]) for v in (x, k)],
            {"dimension_numbers": spec, "feature_group_count": feature_group_count,
             "batch_group_count": batch_group_count, **params},
        )[0]  # fmt: skip
        return st.zeros((0, *one.shape), one.dtype), 0
    if dx is not None and dk is not None:  # the batch becomes feature groups, or more batch groups
        k = _into(k, dk, spec.rhs_spec[0])
        if batch_group_count > 1:
            x = _into(x, dx, spec.lhs_spec[0])
            out = conv(x, k, feature_group_count, size * batch_group_count)
        else:
            x = _into(x, dx, spec.lhs_spec[1])
            out = conv(x, k, size * feature_group_count, batch_group_count)
        return _out_of(out, spec.out_spec[1], size), spec.out_spec[1]
    if dx is not None:  # more images
        if batch_group_count == 1:
            out = conv(_into(x, dx, spec.lhs_spec[0]), k, feature_group_count, 1)
            return _out_of(out, spec.out_spec[0], size), spec.out_spec[0]
        # (g, batch, n) as the images, so that the groups stay the slowest
        d = spec.lhs_spec[0]
        split = _out_of(x, d + (d >= dx), batch_group_count)  # the group dimension stands before the images
        moved = dx + (dx > d)
        group = d + (d >= dx)
        order = [i for i in range(aval_of(split).ndim) if i not in (moved, group, group + 1)]
        order[d:d] = [group, moved, group + 1]
        split = st.transpose(split, order)
        shape = aval_of(split).shape
        x = st.reshape(split, (*shape[:d], shape[d] * shape[d + 1] * shape[d + 2], *shape[d + 3 :]))
        out = conv(x, k, feature_group_count, batch_group_count)
        return _out_of(out, spec.out_spec[0], size), spec.out_spec[0]
    assert dk is not None
    groups = max(feature_group_count, batch_group_count)
    if groups == 1:  # more output features
        out = conv(x, _into(k, dk, spec.rhs_spec[0]), feature_group_count, batch_group_count)
        return _out_of(out, spec.out_spec[1], size), spec.out_spec[1]
    # (g, batch, o) as the output features, so that the groups stay the slowest
    d = spec.rhs_spec[0]
    at = d + (d >= dk)
    k = _out_of(k, at, groups)
    moved = dk + (dk > at)
    order = [i for i in range(aval_of(k).ndim) if i not in (moved, at, at + 1)]
    order[d:d] = [at, moved, at + 1]
    k = st.transpose(k, order)
    shape = aval_of(k).shape
    k = st.reshape(k, (*shape[:d], shape[d] * shape[d + 1] * shape[d + 2], *shape[d + 3 :]))
    out = conv(x, k, feature_group_count, batch_group_count)
    out = _out_of(out, spec.out_spec[1], groups)
    out = _out_of(out, spec.out_spec[1] + 1, size)  # g, batch, o
    shape, e = aval_of(out).shape, spec.out_spec[1]
    order = [i for i in range(len(shape)) if i != e + 1]
    out = st.transpose(out, (e + 1, *order))
    shape = aval_of(out).shape
    return st.reshape(out, (*shape[: e + 1], shape[e + 1] * shape[e + 2], *shape[e + 3 :])), 0
