"""Derivative rules of contractions: products, so linear in each operand; their transposes are contractions again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .rules import Linear, Value, Zero, add_tangents, is_zero, jvp, transpose


def _bilinear(p: Primitive) -> None:
    def rule(primals: Sequence[Value], tangents: Sequence[Any], **params: Any) -> tuple[Value, Any]:
        (x, y), (tx, ty) = primals, tangents
        out = p.bind(x, y, **params)
        total: Any = Zero(aval_of(out).tangent())
        if not is_zero(tx):
            total = add_tangents(total, p.bind(tx, y, **params))
        if not is_zero(ty):
            total = add_tangents(total, p.bind(x, ty, **params))
        return out, total

    jvp.add(p, rule)


_bilinear(ct.dot_general_p)
_bilinear(ct.conv_general_dilated_p)


def _either_operand(p: Primitive, to_lhs: Callable[..., Value], to_rhs: Callable[..., Value]) -> None:
    def rule(cotangent: Value, lhs: Any, rhs: Any, **params: Any) -> Sequence[Any]:
        if isinstance(lhs, Linear):
            return [to_lhs(cotangent, lhs.aval, rhs, **params), None]
        return [None, to_rhs(cotangent, lhs, rhs.aval, **params)]

    transpose.add(p, rule)


def _like(x: Value, aval: ShapedArray) -> Value:
    """x in the dtype of an operand: the real part where only the other operand was complex."""
    if dtypes.is_complex(aval_of(x).dtype) and not dtypes.is_complex(aval.dtype):
        x = ew.real(x)
    return ew.convert_element_type(x, aval.dtype)


def _preferred(cotangent: Value, other: Value, aval: ShapedArray) -> Any:
    """The preferred_element_type with which a product of cotangent and operand gets the operand's dtype, if any."""
    given = {aval_of(cotangent).dtype, aval_of(other).dtype}
    if given == {aval.dtype} or not dtypes.is_float(aval.dtype) or any(dtypes.is_complex(d) for d in given):
        return None
    return aval.dtype


def _of_one_dtype(x: Value, y: Value) -> tuple[Value, Value]:
    """Both in the dtype that holds either: a convolution's result may be of another dtype than its operands."""
    a, b = aval_of(x).dtype, aval_of(y).dtype
    if a == b:
        return x, y
    both = dtypes.promote_types(a, b)
    return ew.convert_element_type(x, both), ew.convert_element_type(y, both)


# -- dot_general ------------------------------------------------------------------------------------------------------------


def _dot_to_operand(
    cotangent: Value,
    aval: ShapedArray,
    other: Value,
    *,
    is_lhs: bool,
    dimension_numbers: ct.DotDimensionNumbers,
    precision: ct.PrecisionPair,
    preferred_element_type: Any,
) -> Value:
    """The cotangent of one operand: the result's cotangent times the other operand, over the other's free dimensions.

    The order of the two, and of the batch dimensions, is chosen so that the result needs no transpose where one of
    the orders allows that.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    contract, other_contract = (lc, rc) if is_lhs else (rc, lc)
    batch, other_batch = (lb, rb) if is_lhs else (rb, lb)
    free = ct.dot_free_dims(aval.ndim, contract, batch)
    other_free = ct.dot_free_dims(aval_of(other).ndim, other_contract, other_batch)
    # Dimensions of the cotangent: batch, free ones of lhs, free ones of rhs.
    n, n_lhs = len(batch), len(free) if is_lhs else len(other_free)
    of_lhs, of_rhs = range(n, n + n_lhs), range(n + n_lhs, n + len(free) + len(other_free))
    ct_other = tuple(of_rhs if is_lhs else of_lhs)
    order = sorted(range(n), key=lambda i: batch[i])
    batch_of_ct, batch_of_other = tuple(order), tuple(other_batch[i] for i in order)
    batch_of_operand = [batch[i] for i in order]
    by_other = {o: c for c, o in zip(contract, other_contract)}
    contract_of_operand = [by_other[o] for o in sorted(other_contract)]  # as they come out of `other`
    precision = precision if precision is None or is_lhs else (precision[1], precision[0])
    options = {"preferred_element_type": _preferred(cotangent, other, aval)}
    ct_first = [*batch_of_operand, *free, *contract_of_operand]
    other_first = [*batch_of_operand, *contract_of_operand, *free]
    if other_first == sorted(other_first) and ct_first != sorted(ct_first):
        swapped = precision if precision is None else (precision[1], precision[0])
        out = ct.dot_general(
            other, cotangent, ((other_free, ct_other), (batch_of_other, batch_of_ct)), swapped, **options
        )
        dims = other_first
    else:
        out = ct.dot_general(
            cotangent, other, ((ct_other, other_free), (batch_of_ct, batch_of_other)), precision, **options
        )
        dims = ct_first
    return _like(st.transpose(out, [dims.index(i) for i in range(aval.ndim)]), aval)


def _dot_to_lhs(cotangent: Value, aval: ShapedArray, rhs: Value, **params: Any) -> Value:
    return _dot_to_operand(cotangent, aval, rhs, is_lhs=True, **params)


def _dot_to_rhs(cotangent: Value, lhs: Value, aval: ShapedArray, **params: Any) -> Value:
    return _dot_to_operand(cotangent, aval, lhs, is_lhs=False, **params)


_either_operand(ct.dot_general_p, _dot_to_lhs, _dot_to_rhs)


# -- convolution --------------------------------------------------------------------------------------------------------------
# The cotangent of lhs is a convolution of the result's cotangent, dilated by the strides, with the reversed kernel;
# that of rhs is a convolution of lhs with the cotangent as kernel, in which batch and features change places.


def _out_of(x: Value, dim: int, groups: int) -> Value:
    """Dimension `dim` of g*n as a dimension g before it."""
    shape = aval_of(x).shape
    return st.reshape(x, (*shape[:dim], groups, shape[dim] // groups, *shape[dim + 1 :]))


def _into(x: Value, source: int, target: int) -> Value:
    """Dimension `source` merged into `target` (numbered without it), as the slower one."""
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(target, source)
    x = st.transpose(x, order)
    shape = aval_of(x).shape
    return st.reshape(x, (*shape[:target], shape[target] * shape[target + 1], *shape[target + 2 :]))


def _swap(spec: tuple[int, ...]) -> tuple[int, ...]:
    return (spec[1], spec[0], *spec[2:])


def _sizes(shape: tuple[int, ...], spec: tuple[int, ...], dilation: tuple[int, ...]) -> list[int]:
    return [ct.dilated(shape[d], n) for d, n in zip(spec[2:], dilation)]


def _conv_to_lhs(
    cotangent: Value, aval: ShapedArray, rhs: Value, *, window_strides: tuple[int, ...], padding: ct.Pads,
    lhs_dilation: tuple[int, ...], rhs_dilation: tuple[int, ...], dimension_numbers: ct.ConvDimensionNumbers,
    feature_group_count: int, batch_group_count: int, precision: ct.PrecisionPair, preferred_element_type: Any,
) -> Any:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out_aval, rhs_aval = aval_of(cotangent), aval_of(rhs)
    if not aval.size or not out_aval.size or not rhs_aval.size:
        return Zero(aval)
    groups = max(feature_group_count, batch_group_count)
    kernel = rhs
    if groups > 1:  # (O, I) becomes (O / g, g I): the groups are those of the cotangent's features
        kernel = _into(_out_of(kernel, rhs_spec[0], groups), rhs_spec[0], rhs_spec[1])
    kernel = st.rev(kernel, rhs_spec[2:])
    lhs_sizes = _sizes(aval.shape, lhs_spec, lhs_dilation)
    rhs_sizes = _sizes(rhs_aval.shape, rhs_spec, rhs_dilation)
    out_sizes = _sizes(out_aval.shape, out_spec, window_strides)
    before = [k - lo - 1 for k, (lo, _) in zip(rhs_sizes, padding)]
    after = [n + k - 1 - o - b for n, k, o, b in zip(lhs_sizes, rhs_sizes, out_sizes, before)]
    cotangent, kernel = _of_one_dtype(cotangent, kernel)
    out = ct.conv_general_dilated(
        cotangent, kernel, lhs_dilation, list(zip(before, after)), window_strides, rhs_dilation,
        ct.ConvDimensionNumbers(out_spec, _swap(rhs_spec), lhs_spec), groups, 1, precision,
        _preferred(cotangent, kernel, aval),
    )  # fmt: skip
    if batch_group_count > 1:  # the groups belong to the batch
        out = _into(_out_of(out, lhs_spec[1], batch_group_count), lhs_spec[1], lhs_spec[0])
    return _like(out, aval)


def _conv_to_rhs(
    cotangent: Value, lhs: Value, aval: ShapedArray, *, window_strides: tuple[int, ...], padding: ct.Pads,
    lhs_dilation: tuple[int, ...], rhs_dilation: tuple[int, ...], dimension_numbers: ct.ConvDimensionNumbers,
    feature_group_count: int, batch_group_count: int, precision: ct.PrecisionPair, preferred_element_type: Any,
) -> Any:  # fmt: skip
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    out_aval, lhs_aval = aval_of(cotangent), aval_of(lhs)
    if not aval.size or not out_aval.size or not lhs_aval.size:
        return Zero(aval)
    lhs_sizes = _sizes(lhs_aval.shape, lhs_spec, lhs_dilation)
    rhs_sizes = _sizes(aval.shape, rhs_spec, rhs_dilation)
    out_sizes = _sizes(out_aval.shape, out_spec, window_strides)
    pads = [(lo, o + k - n - 1 - lo) for n, k, o, (lo, _) in zip(lhs_sizes, rhs_sizes, out_sizes, padding)]
    lhs, cotangent = _of_one_dtype(lhs, cotangent)
    out = ct.conv_general_dilated(
        lhs, cotangent, rhs_dilation, pads, lhs_dilation, window_strides,
        ct.ConvDimensionNumbers(_swap(lhs_spec), _swap(out_spec), _swap(rhs_spec)),
        batch_group_count, feature_group_count, precision, _preferred(cotangent, lhs, aval),
    )  # fmt: skip
    return _like(out, aval)


_either_operand(ct.conv_general_dilated_p, _conv_to_lhs, _conv_to_rhs)
