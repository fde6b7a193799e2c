"""Contractions: dot_general and conv_general_dilated.

Both sum products over shared dimensions. f16 and bf16 accumulate in f32; integers wrap; bool is or of ands.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np

from .. import dtypes
from ..avals import ShapedArray, aval_of
from ..config import config
from ..dtypes import DType
from ..jaxpr import Eqn
from ..primitive import primitive
from .common import check_same_dtype
from .elementwise import convert_element_type

Value = Any
DotDimensionNumbers: TypeAlias = tuple[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]


class Precision(enum.Enum):
    """How exactly the products of floats are computed, for targets that have faster, coarser units."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    def __str__(self) -> str:
        return self.name


PrecisionPair: TypeAlias = tuple[Precision, Precision] | None

_PRECISION_NAMES = {
    "default": Precision.DEFAULT, "fastest": Precision.DEFAULT, "bfloat16": Precision.DEFAULT,
    "high": Precision.HIGH, "bfloat16_3x": Precision.HIGH, "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST, "float32": Precision.HIGHEST,
}  # fmt: skip


def canonicalize_precision(precision: Any) -> PrecisionPair:
    """None, a `Precision`, its name, or a pair of these (one an operand), as a pair or None.

    None takes `config.default_matmul_precision`. Raises ValueError for anything else.
    """
    if precision is None:
        precision = config.options.default_matmul_precision
        if precision is None:
            return None
    pair = cast("Sequence[Any]", precision) if isinstance(precision, tuple | list) else (precision, precision)
    found: list[Precision] = []
    for p in pair:
        named = _PRECISION_NAMES.get(p) if isinstance(p, str) else Precision.DEFAULT if p is None else p
        if not isinstance(named, Precision):
            raise ValueError(
                f"precision: got {precision!r}, expected None, a lax.Precision, one of "
                f"{', '.join(map(repr, _PRECISION_NAMES))}, or a pair of these"
            )
        found.append(named)
    if len(found) != 2:
        raise ValueError(f"precision: got {len(found)} values, expected one or a pair")
    return (found[0], found[1])


# -- result dtypes ------------------------------------------------------------------------------------------------------


@cache
def dtype_rank(d: DType) -> tuple[bool, int, int, int, bool]:
    """Order of dtypes in mixed contractions: complex over float over integer, then exponent, mantissa, width, sign."""
    part = dtypes.real_dtype(d)
    if dtypes.is_float(part):
        info = cast("Any", ml_dtypes.finfo(part))
        return dtypes.is_complex(d), int(info.maxexp), int(info.nmant), part.itemsize * 8, True
    return False, -1, -1, 1 if dtypes.is_bool(d) else d.itemsize * 8, not dtypes.is_unsigned(d)


def _bits(d: DType) -> int:
    return 1 if dtypes.is_bool(d) else dtypes.real_dtype(d).itemsize * 8


def contraction_dtype(name: str, operand: DType, preferred: DType | None) -> DType:
    """The result's dtype: the preferred one, which may be narrower than the operands' for floats only.

    Raises:
        TypeError: the preferred dtype is narrower than that of operands which are no floats, real for complex operands,
            or not inexact for inexact ones.
    """
    if preferred is None or preferred == operand:
        return operand
    if not dtypes.is_float(operand) and _bits(preferred) < _bits(operand):
        raise TypeError(
            f"{name}: preferred_element_type {preferred} is narrower than the operands' dtype {operand}: leave it out "
            "and convert the result with lax.convert_element_type"
        )
    if dtypes.is_complex(operand) and not dtypes.is_complex(preferred):
        raise TypeError(f"{name}: preferred_element_type {preferred} cannot hold products of dtype {operand}")
    if dtypes.is_inexact(operand) and not dtypes.is_inexact(preferred):
        raise TypeError(f"{name}: preferred_element_type {preferred} cannot hold products of dtype {operand}")
    return preferred


# -- dot_general --------------------------------------------------------------------------------------------------------


def _check_dims(operand: ShapedArray, side: str, contract: tuple[int, ...], batch: tuple[int, ...]) -> None:
    dims = (*contract, *batch)
    if any(not 0 <= d < operand.ndim for d in dims) or len(set(dims)) != len(dims):
        raise TypeError(
            f"dot_general: the {side} dimensions, contracting {contract} and batch {batch}, must be distinct and within "
            f"[0, {operand.ndim}), the rank of {side} {operand.short()}"
        )


def dot_free_dims(ndim: int, contract: Sequence[int], batch: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of an operand that are neither contracted nor batch dimensions."""
    return tuple(i for i in range(ndim) if i not in contract and i not in batch)


@primitive("dot_general")
def dot_general_p(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: DotDimensionNumbers,
    precision: PrecisionPair,
    preferred_element_type: DType | None,
) -> ShapedArray:
    """Sum of products over contracting dimensions.

    ``dimension_numbers = ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))``; the result has the batch
    dimensions, then the other dimensions of lhs, then those of rhs. Operands of two dtypes give the larger one
    (complex over float over integer). Source: StableHLO dot_general.

    Raises:
        TypeError: the dimension numbers name a dimension twice or one that there is not, the sizes of contracting or
            batch dimensions differ, the dtypes differ and neither is the larger one, or `preferred_element_type` cannot
            hold the products.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    _check_dims(lhs, "lhs", lc, lb)
    _check_dims(rhs, "rhs", rc, rb)
    for what, ld, rd in (("contracting", lc, rc), ("batch", lb, rb)):
        left, right = tuple(lhs.shape[i] for i in ld), tuple(rhs.shape[i] for i in rd)
        if left != right:
            raise TypeError(
                f"dot_general: {what} dimensions must have the same sizes, got {left} (dimensions {ld} of lhs "
                f"{lhs.short()}) and {right} (dimensions {rd} of rhs {rhs.short()})"
            )
    ranks = dtype_rank(lhs.dtype), dtype_rank(rhs.dtype)
    if lhs.dtype != rhs.dtype and ranks[0] == ranks[1]:
        check_same_dtype("dot_general", lhs, rhs)
    operand = lhs.dtype if ranks[0] >= ranks[1] else rhs.dtype
    dtype = contraction_dtype("dot_general", operand, preferred_element_type)
    shape = (
        *(lhs.shape[i] for i in lb),
        *(lhs.shape[i] for i in dot_free_dims(lhs.ndim, lc, lb)),
        *(rhs.shape[i] for i in dot_free_dims(rhs.ndim, rc, rb)),
    )
    return ShapedArray(shape, dtype, lhs.weak_type and rhs.weak_type)


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in values)


def _preferred(dtype: Any) -> DType | None:
    return None if dtype is None else dtypes.explicit(dtypes.as_dtype(dtype))


def dot_general(
    lhs: Value, rhs: Value, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None
) -> Value:
    """Sum of products over contracting dimensions, ``((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))``.

    Sums of floats that are asked for as integers are rounded toward 0 once they are summed.
    """
    (lc, rc), (lb, rb) = dimension_numbers
    preferred = _preferred(preferred_element_type)
    whole = None if preferred is None or dtypes.is_inexact(preferred) else preferred
    if whole is not None:
        lhs, rhs, preferred = _factors_of_integers(lhs, rhs, whole)
    total = dot_general_p.bind(
        lhs, rhs,
        dimension_numbers=((_ints(lc), _ints(rc)), (_ints(lb), _ints(rb))),
        precision=canonicalize_precision(precision),
        preferred_element_type=preferred,
    )  # fmt: skip
    return total if whole is None or aval_of(total).dtype == whole else convert_element_type(total, whole)


def _factors_of_integers(lhs: Value, rhs: Value, dtype: DType) -> tuple[Value, Value, DType | None]:
    """Operands of a product of which integers are asked, and the dtype in which it is summed, as in JAX: floats are summed as
    such, those of two dtypes and a float by an integer as integers."""
    left, right = aval_of(lhs).dtype, aval_of(rhs).dtype
    if not (dtypes.is_float(left) or dtypes.is_float(right)) or dtypes.is_complex(left) or dtypes.is_complex(right):
        return lhs, rhs, dtype
    if left == right:
        return lhs, rhs, None
    return convert_element_type(lhs, dtype), convert_element_type(rhs, dtype), dtype


def matmul(lhs: Value, rhs: Value, **options: Any) -> Value:
    """``lhs @ rhs`` for operands with the same leading batch dimensions (matrices in the last two)."""
    n = aval_of(lhs).ndim
    batch = tuple(range(n - 2))
    return dot_general(lhs, rhs, (((n - 1,), (n - 2,)), (batch, batch)), **options)


# -- convolution ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConvDimensionNumbers:
    """Which dimensions of a convolution are which.

    Attributes:
        lhs_spec: dimensions of lhs: batch, feature, spatial ...
        rhs_spec: dimensions of rhs: output feature, input feature, spatial ...
        out_spec: dimensions of the result: batch, feature, spatial ...
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]

    def __iter__(self) -> Any:
        return iter((self.lhs_spec, self.rhs_spec, self.out_spec))


Pads: TypeAlias = tuple[tuple[int, int], ...]


def dilated(size: int, dilation: int) -> int:
    """The size of a dimension with ``dilation - 1`` holes between neighbours."""
    return 0 if size == 0 else 1 + (size - 1) * dilation


def conv_out_size(n: int, k: int, stride: int, pads: tuple[int, int], n_dilation: int, k_dilation: int) -> int:
    """The size of one spatial dimension of a convolution's result."""
    room = dilated(n, n_dilation) + pads[0] + pads[1] - dilated(k, k_dilation)
    return max(room // stride + 1, 0)


def _check_conv_params(
    n: int, spec: ConvDimensionNumbers, ndim: tuple[int, int], params: dict[str, Sequence[Any]]
) -> None:
    for side, given, rank in (
        ("lhs", spec.lhs_spec, ndim[0]),
        ("rhs", spec.rhs_spec, ndim[1]),
        ("out", spec.out_spec, n + 2),
    ):
        if sorted(given) != list(range(rank)) or rank != n + 2:
            raise ValueError(
                f"conv_general_dilated: dimension_numbers.{side}_spec {given} must hold each of 0..{n + 1} once: "
                f"batch, feature and {n} spatial dimensions"
            )
    for name, values in params.items():
        if len(values) != n:
            raise ValueError(
                f"conv_general_dilated: {name} {tuple(values)} must have {n} entries, one a spatial dimension"
            )
        if name != "padding" and any(v < 1 for v in values):
            raise ValueError(f"conv_general_dilated: {name} {tuple(values)} must be positive")


@primitive("conv_general_dilated")
def conv_general_dilated_p(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    window_strides: tuple[int, ...],
    padding: Pads,
    lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...],
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    precision: PrecisionPair,
    preferred_element_type: DType | None,
) -> ShapedArray:
    """Convolution (without reversal of the kernel) over spatial dimensions.

    lhs is dilated and padded (negative padding cuts), rhs dilated, and windows step by `window_strides`. With
    feature_group_count g, features fall into g groups that see only their own inputs; with batch_group_count the
    batch does. Source: StableHLO convolution.

    Raises:
        ValueError: the ranks differ or are below 2; the dimension numbers, strides, dilations or pads do not fit them;
            a group count is not positive, both are above 1, or one does not divide the features or the batch; or the
            features of lhs are not those that rhs takes.
        TypeError: the dtypes differ, or `preferred_element_type` cannot hold the products.
    """
    name = "conv_general_dilated"
    if lhs.ndim != rhs.ndim or lhs.ndim < 2:
        raise ValueError(f"{name}: lhs {lhs.short()} and rhs {rhs.short()} must have one rank, at least 2")
    n = lhs.ndim - 2
    spec = dimension_numbers
    _check_conv_params(
        n, spec, (lhs.ndim, rhs.ndim),
        {"window_strides": window_strides, "padding": padding, "lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation},
    )  # fmt: skip
    check_same_dtype(name, lhs, rhs)
    batch, features = (lhs.shape[i] for i in spec.lhs_spec[:2])
    out_features, in_features = (rhs.shape[i] for i in spec.rhs_spec[:2])
    if feature_group_count < 1 or batch_group_count < 1:
        raise ValueError(
            f"{name}: feature_group_count {feature_group_count} and batch_group_count {batch_group_count} must be positive"
        )
    if feature_group_count > 1 and batch_group_count > 1:
        raise ValueError(
            f"{name}: only one of feature_group_count {feature_group_count} and batch_group_count {batch_group_count} "
            "may be above 1"
        )
    if features != in_features * feature_group_count:
        raise ValueError(
            f"{name}: lhs {lhs.short()} has {features} features (dimension {spec.lhs_spec[1]}), rhs {rhs.short()} takes "
            f"{in_features} (dimension {spec.rhs_spec[1]}) times feature_group_count {feature_group_count}"
        )
    for what, count, size in (
        ("feature_group_count", feature_group_count, out_features),
        ("batch_group_count", batch_group_count, out_features),
    ):
        if size % count:
            raise ValueError(f"{name}: {what} {count} must divide the {size} output features of rhs {rhs.short()}")
    if batch % batch_group_count:
        raise ValueError(
            f"{name}: batch_group_count {batch_group_count} must divide the batch of {batch} of lhs {lhs.short()}"
        )
    sizes = [
        conv_out_size(lhs.shape[spec.lhs_spec[i + 2]], rhs.shape[spec.rhs_spec[i + 2]], window_strides[i], padding[i],
                      lhs_dilation[i], rhs_dilation[i])
        for i in range(n)
    ]  # fmt: skip
    shape = [0] * lhs.ndim
    for d, size in zip(spec.out_spec, (batch // batch_group_count, out_features, *sizes)):
        shape[d] = size
    dtype = contraction_dtype(name, lhs.dtype, preferred_element_type)
    return ShapedArray(tuple(shape), dtype, lhs.weak_type and rhs.weak_type)


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Any spelling of a convolution's dimension numbers as `ConvDimensionNumbers`.

    None is NCHW, OIHW, NCHW for any number of spatial dimensions. Strings name the dimensions: N, C for lhs and the
    result, O, I for rhs, and any other letters, the same in all three, for the spatial ones (``("NHWC", "HWIO",
    "NHWC")``).

    Raises:
        TypeError: the ranks of the shapes differ, or there are not three entries.
    """
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    n = len(lhs_shape)
    if n != len(rhs_shape):
        raise TypeError(
            f"convolution: lhs shape {tuple(lhs_shape)} and rhs shape {tuple(rhs_shape)} must have one rank"
        )
    if dimension_numbers is None:
        iota = tuple(range(n))
        return ConvDimensionNumbers(iota, iota, iota)
    specs = tuple(dimension_numbers)
    if len(specs) != 3:
        raise TypeError(f"convolution: dimension_numbers {dimension_numbers!r} must have three entries: lhs, rhs, out")
    if all(isinstance(s, str) for s in specs):
        return ConvDimensionNumbers(*_letters_to_dims(specs, n))
    return ConvDimensionNumbers(*(_ints(s) for s in specs))


def _letters_to_dims(specs: tuple[str, str, str], n: int) -> list[tuple[int, ...]]:
    spatial: list[str] | None = None
    out: list[tuple[int, ...]] = []
    # The order of the spatial dimensions is the kernel's.
    for which, spec, first in ((1, specs[1], "OI"), (0, specs[0], "NC"), (2, specs[2], "NC")):
        letters = [c for c in spec if c not in first]
        if len(spec) != n or len(set(spec)) != n or not all(c in spec for c in first):
            raise ValueError(
                f"convolution: dimension_numbers[{which}] {spec!r} must have {n} different letters, among them "
                f"{first[0]} and {first[1]}"
            )
        if spatial is None:
            spatial = letters
        elif set(spatial) != set(letters):
            raise ValueError(
                f"convolution: the spatial letters of dimension_numbers {specs!r} must be the same in all three"
            )
        out.append(tuple(spec.index(c) for c in (*first, *spatial)))
    return [out[1], out[0], out[2]]


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """The pads that ``"SAME"``, ``"SAME_LOWER"`` or ``"VALID"`` stand for; window_shape is the dilated one.

    Raises:
        RuntimeError: `padding` is another name.
    """
    kind = padding.upper()
    if kind == "VALID":
        return [(0, 0)] * len(in_shape)
    if kind not in ("SAME", "SAME_LOWER"):
        raise RuntimeError(
            f"padding {padding!r} is unknown: expected 'SAME', 'SAME_LOWER', 'VALID' or pairs (low, high)"
        )
    pads: list[tuple[int, int]] = []
    for n, k, s in zip(in_shape, window_shape, window_strides):
        total = int(max((-(-n // s) - 1) * s + k - n, 0))  # sizes may be NumPy's
        small, large = total // 2, total - total // 2
        pads.append((small, large) if kind == "SAME" else (large, small))
    return pads


def conv_general_dilated(
    lhs: Value,
    rhs: Value,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Value:
    """Convolution over spatial dimensions; see `conv_general_dilated_p`.

    Raises:
        ValueError: `padding` is a name, and the strides or dilations have not one entry for each spatial dimension, or
            `lhs_dilation` is not 1.
    """
    lhs_shape, rhs_shape = aval_of(lhs).shape, aval_of(rhs).shape
    spec = conv_dimension_numbers(lhs_shape, rhs_shape, dimension_numbers)
    n = len(lhs_shape) - 2
    strides = _ints(window_strides)
    lhs_dilation = (1,) * n if lhs_dilation is None else _ints(lhs_dilation)
    rhs_dilation = (1,) * n if rhs_dilation is None else _ints(rhs_dilation)
    if isinstance(padding, str):
        if len(strides) != n or len(rhs_dilation) != n or len(lhs_dilation) != n:
            raise ValueError(
                f"conv_general_dilated: window_strides {strides}, lhs_dilation {lhs_dilation} and rhs_dilation "
                f"{rhs_dilation} must have {n} entries, one a spatial dimension"
            )
        if any(d != 1 for d in lhs_dilation):
            # "SAME" as what? The dilated operand, and the result of the convolution whose transpose it is, are two sizes.
            raise ValueError(
                f"conv_general_dilated: padding {padding!r} with lhs_dilation {lhs_dilation}: of a transposed convolution padding "
                "has no name here; give pairs (low, high) of the dilated operand, or call lax.conv_transpose"
            )
        window = [dilated(rhs_shape[d], s) for d, s in zip(spec.rhs_spec[2:], rhs_dilation)]
        inner = [lhs_shape[d] for d in spec.lhs_spec[2:]]
        padding = padtype_to_pads(inner, window, strides, padding)
    return conv_general_dilated_p.bind(
        lhs, rhs,
        window_strides=strides,
        padding=tuple((int(np.asarray(lo)), int(np.asarray(hi))) for lo, hi in padding),
        lhs_dilation=lhs_dilation,
        rhs_dilation=rhs_dilation,
        dimension_numbers=spec,
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
        precision=canonicalize_precision(precision),
        preferred_element_type=_preferred(preferred_element_type),
    )  # fmt: skip


# -- work --------------------------------------------------------------------------------------------------------------


def operations(e: Eqn) -> int:
    """Multiplications and additions of a contraction."""
    x, y = (a.aval for a in e.inputs)
    out = e.outputs[0].aval
    if e.primitive is dot_general_p:
        numbers: DotDimensionNumbers = e.params["dimension_numbers"]
        return 2 * out.size * math.prod(x.shape[d] for d in numbers[0][0])
    spec: ConvDimensionNumbers = e.params["dimension_numbers"]
    return 2 * out.size * y.size // max(1, y.shape[spec.rhs_spec[0]])  # the kernel without its features
