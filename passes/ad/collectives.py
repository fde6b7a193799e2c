"""Derivatives of collectives. The sum over an axis is its own transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew

from .rules import define_linear, define_zero_jvp, jvp, transpose

Value = Any


def _psum(ct: Value, aval: ShapedArray, *, axes: tuple[Any, ...]) -> Value:
    return co.psum_p.bind(ct, axes=axes)


def _ppermute(ct: Value, aval: ShapedArray, *, axis_name: Any, perm: tuple[tuple[int, int], ...]) -> Value:
    return co.ppermute_p.bind(ct, axis_name=axis_name, perm=tuple((b, a) for a, b in perm))


def _all_gather(
    ct: Value, aval: ShapedArray, *, axis_name: Any, all_gather_dimension: int, axis_size: int, tiled: bool
) -> Value:
    return co.reduce_scatter_p.bind(
        ct, axis_name=axis_name, scatter_dimension=all_gather_dimension, axis_size=axis_size, tiled=tiled
    )


def _reduce_scatter(
    ct: Value, aval: ShapedArray, *, axis_name: Any, scatter_dimension: int, axis_size: int, tiled: bool
) -> Value:
    return co.all_gather_p.bind(
        ct, axis_name=axis_name, all_gather_dimension=scatter_dimension, axis_size=axis_size, tiled=tiled
    )


def _all_to_all(
    ct: Value, aval: ShapedArray, *, axis_name: Any, split_axis: int, concat_axis: int, axis_size: int
) -> Value:
    return co.all_to_all_p.bind(
        ct, axis_name=axis_name, split_axis=concat_axis, concat_axis=split_axis, axis_size=axis_size
    )


define_linear(co.psum_p, _psum)
define_linear(co.ppermute_p, _ppermute)
define_linear(co.all_gather_p, _all_gather)
define_linear(co.reduce_scatter_p, _reduce_scatter)
define_linear(co.all_to_all_p, _all_to_all)


def _extremum(p: Primitive) -> None:
    """The tangent of an extremum: the mean of the tangents of the slices that attain it."""

    def rule(primals: Sequence[Value], tangents: Sequence[Value], *, axes: tuple[Any, ...]) -> tuple[Value, Value]:
        (x,), (t,) = primals, tangents
        out = p.bind(x, axes=axes)
        attained = ew.convert_element_type(ew.eq(x, out), aval_of(t).dtype)
        return out, ew.div(co.psum_p.bind(ew.mul(t, attained), axes=axes), co.psum_p.bind(attained, axes=axes))

    jvp.add(p, rule)


_extremum(co.pmax_p)
_extremum(co.pmin_p)
define_zero_jvp(co.axis_index_p)
transpose.absent("not linear", co.pmax_p, co.pmin_p, co.axis_index_p)
