"""Derivatives of collectives.

Along an axis that types do not speak of (that of a `vmap`, or of a `shard_map` without check) the sum is its own
transpose. Along one along which types say what varies, the transpose of the sum is the cast, and that of the cast the sum. The
cotangent of a value that is reduced is unreduced, and the reverse, so that casts between these and others go back as casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray, Unreduced, aval_of, axes_marked
from quire.ir.primitive import Primitive
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st
from quire.ir.primitives.indexing import dynamic_slice

from .rules import define_linear, define_zero_jvp, jvp, transpose

Value = Any


def _psum(ct: Value, aval: ShapedArray, *, axes: tuple[Any, ...], **groups: Any) -> Value:
    if groups:
        return co.psum_p.bind(ct, axes=axes, **groups)
    due = axes_marked(aval.manual, Unreduced)
    others = tuple(a for a in axes if a not in aval.vma and a not in due)
    if others:
        ct = co.psum_p.bind(ct, axes=others)
    summed = tuple(a for a in axes if a in due)
    if summed:
        ct = co.pcast_p.bind(ct, axes=summed, to="reduced")
    return co.pvary(ct, [a for a in axes if a in aval.vma])


def _pvary(ct: Value, aval: ShapedArray, *, axes: tuple[Any, ...]) -> Value:
    return co.psum_p.bind(co.pvary(ct, axes), axes=axes)


def _pcast(ct: Value, aval: ShapedArray, *, axes: tuple[Any, ...], to: str) -> Value:
    for k in ("invarying", "reduced", "varying"):
        names = tuple(a for a in axes if co.kind(aval, a) == k)
        if not names:
            continue
        if (k, to) == ("invarying", "reduced"):
            ct = co.psum_p.bind(ct, axes=names)
        elif (k, to) == ("reduced", "invarying"):
            ct = co.pcast_p.bind(co.only_at_first(ct, names), axes=names, to="unreduced")
        else:
            ct = co.pcast_p.bind(ct, axes=names, to="unreduced" if to == "varying" else "varying")
    return ct


def _ppermute(ct: Value, aval: ShapedArray, *, axis_name: Any, perm: tuple[tuple[int, int], ...]) -> Value:
    return co.ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((b, a) for a, b in perm))


def _pbroadcast(ct: Value, aval: ShapedArray, *, axis_name: Any, source: int) -> Value:
    names = co.names_of(axis_name)
    total = co.pvary(co.psum_p.bind(ct, axes=names), [a for a in names if a in aval.vma])
    # Of a tuple of axes one name is not enough: each index must be that of the source.
    index: Any = co.axis_index_p.bind(axis_name=axis_name)
    index = co.pvary(index, [a for a in names if a in aval.vma])
    return ew.mul(total, ew.convert_element_type(ew.eq(index, source), aval_of(total).dtype))


def _all_gather(
    ct: Value, aval: ShapedArray, *, axis_name: Any, all_gather_dimension: int, axis_size: int, tiled: bool,
    to: str = "varying", **groups: Any,
) -> Value:  # fmt: skip
    if to == "invarying":  # all devices have the same cotangent: each takes what belongs to its part
        return _own_part(ct, aval, co.names_of(axis_name), all_gather_dimension, tiled)
    return co.reduce_scatter_p.bind(
        ct, axis_name=axis_name, scatter_dimension=all_gather_dimension, axis_size=axis_size, tiled=tiled, **groups
    )


def _own_part(ct: Value, aval: ShapedArray, names: tuple[Any, ...], dim: int, tiled: bool) -> Value:
    ct = co.vary(ct, names)
    index = co.vary(co.axis_index_p.bind(axis_name=names), names)
    width = aval.shape[dim] if tiled else 1
    starts: list[Any] = [0] * aval_of(ct).ndim
    starts[dim] = ew.mul(index, width) if width != 1 else index
    shape = list(aval_of(ct).shape)
    shape[dim] = width
    return st.reshape(dynamic_slice(ct, starts, shape), aval.shape)


def _reduce_scatter(
    ct: Value, aval: ShapedArray, *, axis_name: Any, scatter_dimension: int, axis_size: int, tiled: bool, **groups: Any
) -> Value:
    due = axes_marked(aval.manual, Unreduced).intersection(co.names_of(axis_name))
    to = {"to": "reduced"} if due else {}
    return co.all_gather_p.bind(
        ct,
        axis_name=axis_name,
        all_gather_dimension=scatter_dimension,
        axis_size=axis_size,
        tiled=tiled,
        **groups,
        **to,
    )


def _all_to_all(
    ct: Value, aval: ShapedArray, *, axis_name: Any, split_axis: int, concat_axis: int, axis_size: int, **groups: Any
) -> Value:
    return co.all_to_all_p.bind(
        ct, axis_name=axis_name, split_axis=concat_axis, concat_axis=split_axis, axis_size=axis_size, **groups
    )


define_linear(co.psum_p, _psum)
define_linear(co.pvary_p, _pvary)
define_linear(co.pcast_p, _pcast)
define_linear(co.ppermute_p, _ppermute)
define_linear(co.pbroadcast_p, _pbroadcast)
define_linear(co.all_gather_p, _all_gather)
define_linear(co.reduce_scatter_p, _reduce_scatter)
define_linear(co.all_to_all_p, _all_to_all)


def _extremum(p: Primitive) -> None:
    """The tangent of an extremum: the mean of the tangents of the slices that attain it."""

    def rule(
        primals: Sequence[Value], tangents: Sequence[Value], *, axes: tuple[Any, ...], **groups: Any
    ) -> tuple[Value, Value]:
        (x,), (t,) = primals, tangents
        out = p.bind(x, axes=axes, **groups)
        attained = ew.convert_element_type(ew.eq(x, out), aval_of(t).dtype)
        total = co.psum_p.bind(ew.mul(t, attained), axes=axes, **groups)
        return out, ew.div(total, co.psum_p.bind(attained, axes=axes, **groups))

    jvp.add(p, rule)


_extremum(co.pmax_p)
_extremum(co.pmin_p)
define_zero_jvp(co.axis_index_p)
transpose.absent("not linear", co.pmax_p, co.pmin_p, co.axis_index_p)
