"""Derivatives of collectives.

Along an axis that types do not speak of (that of a `vmap`, or of a `shard_map` without check) the sum is its own
transpose. Along one along which types say what varies, the transpose of the sum is the cast, and that of the cast the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew

from .rules import define_linear, define_zero_jvp, jvp, transpose

Value = Any


def _psum(ct: Value, aval: ShapedArray, *, axes: tuple[Any, ...], **groups: Any) -> Value:
    if groups:
        return co.psum_p.bind(ct, axes=axes, **groups)
    others = tuple(a for a in axes if a not in aval.vma)
    if others:
        ct = co.psum_p.bind(ct, axes=others)
    return co.pvary(ct, [a for a in axes if a in aval.vma])


def _pvary(ct: Value, aval: ShapedArray, *, axes: tuple[Any, ...]) -> Value:
    return co.psum_p.bind(co.pvary(ct, axes), axes=axes)


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
    **groups: Any,
) -> Value:  # fmt: skip
    return co.reduce_scatter_p.bind(
        ct, axis_name=axis_name, scatter_dimension=all_gather_dimension, axis_size=axis_size, tiled=tiled, **groups
    )


def _reduce_scatter(
    ct: Value, aval: ShapedArray, *, axis_name: Any, scatter_dimension: int, axis_size: int, tiled: bool, **groups: Any
) -> Value:
    return co.all_gather_p.bind(
        ct, axis_name=axis_name, all_gather_dimension=scatter_dimension, axis_size=axis_size, tiled=tiled, **groups
    )


def _all_to_all(
    ct: Value, aval: ShapedArray, *, axis_name: Any, split_axis: int, concat_axis: int, axis_size: int, **groups: Any
) -> Value:
    return co.all_to_all_p.bind(
        ct, axis_name=axis_name, split_axis=concat_axis, concat_axis=split_axis, axis_size=axis_size, **groups
    )


define_linear(co.psum_p, _psum)
define_linear(co.pvary_p, _pvary)
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
