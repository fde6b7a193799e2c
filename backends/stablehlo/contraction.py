"""StableHLO lowering of contractions.

IREE sign-extends narrow unsigned operands of contractions, also when they come from a conversion (200 becomes -56);
f16 and bf16 would be summed in their own precision; convolutions with features before the spatial dimensions are
35-50 times slower on its CPU; negative padding reads outside the buffer. Each is put right here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import contraction as ct

from .. import kernels
from ..kernels import Kernel, KernelChain, KernelTarget, NoKernel, Spec
from . import hlo, padding, types
from .kernel_calls import call, chosen
from .lowering import Ctx, lowering
from .single_windows import single_windows

_SIGNED = dict(zip(dtypes.UNSIGNED, dtypes.SIGNED))


# -- operands -------------------------------------------------------------------------------------------------------------


def widen_unsigned(x: Any, source: DType, target: DType) -> Any:
    """An unsigned or bool x in another dtype, by a masked signed extension, which a contraction cannot take for another."""
    if dtypes.is_bool(source):
        middle = dtypes.int32
        return hlo.convert(hlo.and_(hlo.convert(x, middle), hlo.full_like(x, 1, middle)), target)
    if dtypes.is_integer(target) and target.itemsize <= source.itemsize:
        return hlo.convert(hlo.bitcast(x, _SIGNED[source]), target)
    if source.itemsize == 8 or (source.itemsize == 4 and not dtypes.is_integer(target)):
        return hlo.optimization_barrier(hlo.convert(x, target))[0]
    middle = dtypes.int64 if source.itemsize == 4 or target.itemsize == 8 else dtypes.int32
    mask = hlo.full_like(x, (1 << (8 * source.itemsize)) - 1, middle)
    return hlo.convert(hlo.and_(hlo.convert(hlo.bitcast(x, _SIGNED[source]), middle), mask), target)


def as_operand(x: Any, source: DType, target: DType) -> Any:
    """x converted for a contraction in `target`, a signed, float or complex dtype."""
    if source == target:
        return guard_conversion(x)
    if dtypes.is_unsigned(source) or dtypes.is_bool(source):
        return widen_unsigned(x, source, target)
    if dtypes.is_complex(target) and not dtypes.is_complex(source):
        re = as_operand(x, source, dtypes.real_dtype(target))
        return hlo.complex(re, hlo.full_like(re, 0, dtypes.real_dtype(target)))
    return hlo.convert(hlo.widened(guard_conversion(x)), target)


_STRUCTURAL = frozenset(
    "stablehlo." + n for n in ("reshape", "transpose", "broadcast_in_dim", "slice", "reverse", "concatenate", "pad")
)


def guard_conversion(x: Any) -> Any:
    """x, behind a barrier if it was converted from unsigned integers or bools, at last or before other conversions.

    IREE folds conversions into a contraction, all of them, and then takes what they were of for signed.
    """
    owner = x.owner
    while not isinstance(owner, mlir.Block) and (owner.name in _STRUCTURAL or owner.name == "stablehlo.convert"):
        source = owner.operands[0]
        element = mlir.RankedTensorType(source.type).element_type
        if owner.name == "stablehlo.convert" and isinstance(element, mlir.IntegerType):
            if element.is_unsigned or element.width == 1:
                return hlo.optimization_barrier(x)[0]
        owner = source.owner
    return x


def computing_dtype(operands: DType, result: DType) -> tuple[DType, DType]:
    """The dtypes that operands get and that products are summed in: signed, float or complex ones.

    Unsigned integers are computed as signed ones: the bits are the same, modulo the width.
    """
    if dtypes.is_bool(result):
        return dtypes.int32, dtypes.int32
    total = _SIGNED.get(result, result)
    if result in (dtypes.float16, dtypes.bfloat16):
        total = dtypes.float32
    if operands in (dtypes.float16, dtypes.bfloat16) and total == dtypes.float32:
        return operands, total
    if dtypes.is_signed(operands) and dtypes.is_signed(total) and operands.itemsize < total.itemsize:
        return operands, total
    return total, total


def from_computed(ctx: Ctx, x: Any, total: DType) -> Any:
    """A contraction's result in the dtype asked for."""
    result = ctx.avals_out[0].dtype
    if dtypes.is_bool(result):
        return hlo.compare(x, hlo.full_like(x, 0, total), "NE")
    if dtypes.is_unsigned(result):
        return hlo.bitcast(x, result)
    # IREE fails to compile some elementwise operations fused into complex contractions, and to store bfloat16 in SPIR-V.
    if dtypes.is_complex(total) or (result == dtypes.bfloat16 and ctx.target.spirv):
        x = hlo.optimization_barrier(x)[0]
    return hlo.convert(x, result)


def precision_config(precision: ct.PrecisionPair) -> dict[str, Any]:
    """The attribute of a contraction's precision, as keyword arguments; none for the default."""
    if precision is None:
        return {}
    config = [hlo.parse_attr(f"#stablehlo<precision {p.name}>") for p in precision]
    return {"precision_config": mlir.ArrayAttr.get(config)}


def _prepare(ctx: Ctx, lhs: Any, rhs: Any) -> tuple[Any, Any, DType]:
    """The operands in the dtype in which they are multiplied, and the dtype of the sum."""
    x, y = (a.dtype for a in ctx.avals_in)
    ranks = ct.dtype_rank(x), ct.dtype_rank(y)
    operands, total = computing_dtype(x if ranks[0] >= ranks[1] else y, ctx.avals_out[0].dtype)
    if x != y and not (
        dtypes.is_signed(x) and dtypes.is_signed(y)
    ):  # a half has no place for 257, int16 none for 40000
        operands = total
    if operands == dtypes.bfloat16 and ctx.target.spirv:
        # IREE loads bfloat16 as vectors of float32, which it cannot write in SPIR-V where a product reads them.
        wide = dtypes.float32
        return *hlo.optimization_barrier(as_operand(lhs, x, wide), as_operand(rhs, y, wide)), total
    if operands == dtypes.bfloat16 and total == dtypes.float32 and ctx.target.backend == "llvm-cpu":
        # What a program has made is not rounded where IREE multiplies it in the same dispatch: see `hlo.widened`.
        if not all(isinstance(v.owner, mlir.Block) for v in (lhs, rhs)):
            return hlo.widened(lhs), hlo.widened(rhs), total
    return as_operand(lhs, x, operands), as_operand(rhs, y, operands), total


@dataclass(frozen=True)
class Following:
    """What a kernel computes of a contraction's result before it is stored, and the operands it reads for that."""

    epilogue: kernels.Epilogue
    operands: Sequence[Any]


def with_epilogue(ctx: Ctx, lhs: Any, rhs: Any, following: Following) -> list[Any] | None:
    """The contraction of `ctx` and its epilogue by one kernel; None, with the reason recorded, where there is none."""
    out, p = ctx.avals_out[0], ctx.eqn.params
    if not out.size or not ctx.avals_in[0].size:
        return None
    lhs, rhs, total = _prepare(ctx, lhs, rhs)
    if total != out.dtype and not dtypes.is_float(total):
        ctx.chose(f"no epilogue of a result of {out.dtype} summed in {total}")
        return None
    if ctx.eqn.primitive is ct.dot_general_p:
        return _dot_kernel(ctx, lhs, rhs, p["dimension_numbers"], total, following)
    if p["batch_group_count"] != 1:
        ctx.chose("no epilogue with groups of images")
        return None
    return _conv_kernel(ctx, lhs, rhs, Geometry.of(p), total, following)


def _by_kernel(
    ctx: Ctx, make: Callable[[KernelTarget], list[Any]], following: Following | None = None
) -> list[Any] | None:
    """The results that `make` has of a kernel, or None; the reason is recorded."""
    return chosen(ctx, make, "StableHLO" if following is None else "no epilogue")


def _called(ctx: Ctx, kernel: Kernel | KernelChain, operands: Sequence[Any]) -> list[Any]:
    """The results of a kernel; that it was chosen, and why, is recorded."""
    ctx.chose(f"kernel {kernel.name}: {kernel.reason}")
    return call(ctx, kernel, operands)


# -- dot_general ------------------------------------------------------------------------------------------------------------


def emit_dot(
    lhs: Any, rhs: Any, dimension_numbers: ct.DotDimensionNumbers, total: DType, precision: ct.PrecisionPair = None
) -> Any:
    """One stablehlo.dot_general that sums in `total`; four, of the parts, for complex numbers.

    IREE makes four of it as well, after it has put dimensions of one element into the operands. It computes an operand's parts
    for that, and where it then finds them equal to parts that others read, it takes one for the other.
    """
    if dtypes.is_complex(total):
        part = dtypes.real_dtype(total)
        x, y = ((hlo.real(v), hlo.imag(v)) for v in (hlo.convert(lhs, total), hlo.convert(rhs, total)))

        def product(a: Any, b: Any) -> Any:
            return emit_dot(a, b, dimension_numbers, part, precision)

        return hlo.complex(
            hlo.subtract(product(x[0], y[0]), product(x[1], y[1])), hlo.add(product(x[0], y[1]), product(x[1], y[0]))
        )
    (lc, rc), (lb, rb) = dimension_numbers
    lhs, rhs = hlo.no_fill(lhs), hlo.no_fill(rhs)
    x, y = hlo.shape_of(lhs), hlo.shape_of(rhs)
    free = ct.dot_free_dims(len(x), lc, lb), ct.dot_free_dims(len(y), rc, rb)
    shape = [*(x[i] for i in lb), *(x[i] for i in free[0]), *(y[i] for i in free[1])]
    if math.prod(x[i] for i in lc) == 1:
        return _outer(lhs, rhs, (lb, rb), free, shape, total)
    numbers = hlo.parse_attr(
        f"#stablehlo.dot<lhs_batching_dimensions = {list(lb)}, rhs_batching_dimensions = {list(rb)}, "
        f"lhs_contracting_dimensions = {list(lc)}, rhs_contracting_dimensions = {list(rc)}>"
    )
    return hlo.op1(
        "stablehlo.dot_general", [lhs, rhs], types.tensor_type(tuple(shape), total),
        dot_dimension_numbers=numbers, **precision_config(precision),
    )  # fmt: skip


def _outer(
    lhs: Any, rhs: Any, batch: Sequence[Sequence[int]], free: Sequence[Sequence[int]], shape: Sequence[int], total: DType
) -> Any:  # fmt: skip
    """A product that sums nothing, as a multiplication.

    IREE makes one of it too, which for vectors of one element keeps the operands' dtype.
    """
    n_batch, n_left = len(batch[0]), len(free[0])
    spread: list[Any] = []
    for operand, b, f, start in ((lhs, batch[0], free[0], n_batch), (rhs, batch[1], free[1], n_batch + n_left)):
        order = [*b, *f]
        summed = [i for i in range(len(hlo.shape_of(operand))) if i not in order]
        moved = hlo.transpose(hlo.convert(operand, total), [*order, *summed])
        kept = hlo.reshape(moved, hlo.shape_of(moved)[: len(order)])
        spread.append(hlo.broadcast(kept, shape, [*range(n_batch), *range(start, start + len(f))]))
    return hlo.multiply(*spread)


@lowering(ct.dot_general_p)
def dot_general(
    ctx: Ctx, lhs: Any, rhs: Any, *, dimension_numbers: ct.DotDimensionNumbers, precision: ct.PrecisionPair,
    preferred_element_type: Any,
) -> Any:  # fmt: skip
    out = ctx.avals_out[0]
    if not out.size or not ctx.avals_in[0].size:
        return hlo.full(0, out.shape, out.dtype)
    lhs, rhs, total = _prepare(ctx, lhs, rhs)
    if dtypes.is_complex(total):
        product = _complex_dot_kernel(ctx, lhs, rhs, dimension_numbers, total)
        if product is not None:
            return product
        found = None
    else:
        found = _dot_kernel(ctx, lhs, rhs, dimension_numbers, total, precision=precision)
    y = emit_dot(lhs, rhs, dimension_numbers, total, precision) if found is None else found[0]
    return from_computed(ctx, y, total)


def _dot_kernel(
    ctx: Ctx, lhs: Any, rhs: Any, dimension_numbers: ct.DotDimensionNumbers, total: DType,
    following: Following | None = None, precision: ct.PrecisionPair = None,
) -> list[Any] | None:  # fmt: skip
    """The product, and what follows, by a kernel; None where there is none or StableHLO is the better form."""
    if dtypes.is_complex(total):
        return None

    def make(target: KernelTarget) -> list[Any]:
        _, batch = dimension_numbers
        left, left_order = _before_transpose(lhs, batch[0])
        right, right_order = _before_transpose(rhs, batch[1])
        x, y = (Spec.of(a.shape, _element(v)) for a, v in zip(ctx.avals_in, (left, right)))
        sums = kernels.dtype_of(total)
        if target.kind == "cpu" and kernels.widens(x, y, sums, dimension_numbers):
            left, x = hlo.convert(left, total), Spec.of(x.shape, total)
        epilogue, others = (None, ()) if following is None else (following.epilogue, following.operands)
        orders = left_order, right_order
        kernel = kernels.dot(x, y, sums, dimension_numbers, target, orders, epilogue, _is_coarse(precision))
        return _called(ctx, kernel, [left, right, *others])

    return _by_kernel(ctx, make, following)


def _is_coarse(precision: ct.PrecisionPair) -> bool:
    """Whether a program asks for less than float32: it says so for both operands. The default is float32 in full."""
    return precision is not None and ct.Precision.HIGHEST not in precision


def _complex_dot_kernel(ctx: Ctx, lhs: Any, rhs: Any, dimension_numbers: ct.DotDimensionNumbers, total: DType) -> Any:
    """The product of complex matrices by a kernel, which reads them row by row; None where there is none."""
    (lc, rc), (lb, rb) = dimension_numbers
    x, y = (a.shape for a in ctx.avals_in)
    left, right = ct.dot_free_dims(len(x), lc, lb), ct.dot_free_dims(len(y), rc, rb)
    b, m, k, n = (
        math.prod(shape[d] for d in dims) for shape, dims in ((x, lb), (x, left), (x, lc), (y, right))
    )  # fmt: skip

    def make(target: KernelTarget) -> list[Any]:
        kernel = kernels.complex_dot(Spec.of((b, m, k), total), Spec.of((b, k, n), total), target)
        one = hlo.reshape(hlo.transpose(lhs, [*lb, *left, *lc]), (b, m, k))
        other = hlo.reshape(hlo.transpose(rhs, [*rb, *rc, *right]), (b, k, n))
        return _called(ctx, kernel, [one, other])

    found = _by_kernel(ctx, make)
    return None if found is None else hlo.reshape(found[0], ctx.avals_out[0].shape)


def attention(
    ctx: Ctx, dots: Sequence[Eqn], operands: Sequence[Any], rows: kernels.AttentionRows, others: Sequence[Any]
) -> list[Any] | None:
    """Products and the cluster between them by one kernel; None, with the reason recorded, where there is none.

    `dots` are the products that the cluster reads, then the one that reads it; `operands` both of the former, and the
    right one of the latter.
    """
    numbers = [e.params["dimension_numbers"] for e in dots]
    given = [(a.aval, batch) for e, (_, sides) in zip(dots, numbers) for a, batch in zip(e.inputs, sides)]
    del given[-2]  # the last product's left operand is the cluster's rows
    read = [_before_transpose(x, batch) for x, (_, batch) in zip(operands, given)]
    out = dots[-1].outputs[0].aval

    def make(target: KernelTarget) -> list[Any]:
        if not all(a.size and dtypes.is_float(a.dtype) for a, _ in given):
            raise NoKernel("operands that are no floats, or empty")
        kernel = kernels.attention_of(
            tuple(Spec.of(a.shape, a.dtype) for a, _ in given),
            tuple(order for _, order in read),
            tuple(numbers),
            rows,
            kernels.dtype_of(dots[0].outputs[0].aval.dtype),
            Spec.of(out.shape, out.dtype),
            target,
        )
        return _called(ctx, kernel, [*(x for x, _ in read), *others])

    return chosen(ctx, make, "no attention kernel")


def _before_transpose(x: Any, batch: Sequence[int]) -> tuple[Any, tuple[int, ...] | None]:
    """What x is a transposition of, and its order, if a kernel can as well read that; else x and None."""
    owner = x.owner
    if isinstance(owner, mlir.Block) or owner.name != "stablehlo.transpose":
        return x, None
    order = tuple(mlir.DenseI64ArrayAttr(owner.attributes["permutation"]))
    if not kernels.reads_in_place(hlo.shape_of(x), order, batch):
        return x, None
    return owner.operands[0], order


def _element(x: Any) -> str:
    """The kernels' name of a signed, float or bool element."""
    return str(mlir.RankedTensorType(x.type).element_type)


# -- convolution --------------------------------------------------------------------------------------------------------------


def cut_negative_padding(x: Any, dtype: DType, dims: Sequence[int], padding: ct.Pads, dilation: Sequence[int]) -> Any:
    """x padded, dilated and cut by hand: what a convolution with negative padding reads."""
    low, high, interior = ([0] * len(hlo.shape_of(x)) for _ in range(3))
    for d, (lo, hi), n in zip(dims, padding, dilation):
        low[d], high[d], interior[d] = lo, hi, n - 1
    return pad(x, dtype, low, high, interior)


def pad(x: Any, dtype: DType, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Any:
    """x padded with zeros; complex128 in its parts, which IREE cannot pad."""
    if dtype == dtypes.complex128:
        zero = hlo.constant(0, dtypes.float64)
        return hlo.complex(*(hlo.pad(part, zero, low, high, interior) for part in (hlo.real(x), hlo.imag(x))))
    return hlo.pad(x, hlo.constant(0, dtype), low, high, interior)


def emit_conv(
    x: Any, k: Any, n: int, strides: Sequence[int], padding: ct.Pads, lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int], spec: ct.ConvDimensionNumbers, feature_groups: int, batch_groups: int,
    shape: Sequence[int], total: DType, precision: ct.PrecisionPair,
) -> Any:  # fmt: skip
    """One stablehlo.convolution."""
    spatial = spec.lhs_spec[2:]
    taps = [hlo.shape_of(k)[d] for d in spec.rhs_spec[2:]]
    cut = single_windows([hlo.shape_of(x)[d] for d in spatial], taps, strides, padding, lhs_dilation, rhs_dilation)
    if cut is not None:
        sizes, padding = cut[0], tuple(cut[1])
        if not all(sizes):  # windows of padding alone
            return hlo.full(0, shape, total)
        limits = list(hlo.shape_of(x))
        for d, size in zip(spatial, sizes):
            limits[d] = size
        x = hlo.slice(x, [0] * len(limits), limits)
    if feature_groups == shape[spec.out_spec[1]] > 1:  # for these IREE takes the kernel's element type for the result's
        x, k = _converted(x, total), _converted(k, total)
    x, k = hlo.to_be_padded(hlo.no_fill(x), inside=any(n != 1 for n in lhs_dilation)), hlo.no_fill(k)

    def letters(dims: Sequence[int], first: str) -> str:
        names = [""] * len(dims)
        for d, name in zip(dims, (*first, *map(str, range(n)))):
            names[d] = name
        return ", ".join(names)

    numbers = hlo.parse_attr(
        f"#stablehlo.conv<[{letters(spec.lhs_spec, 'bf')}]x[{letters(spec.rhs_spec, 'oi')}]->"
        f"[{letters(spec.out_spec, 'bf')}]>"
    )
    return hlo.op1(
        "stablehlo.convolution", [x, k], types.tensor_type(tuple(shape), total),
        window_strides=hlo.i64_array(strides), padding=hlo.i64_matrix(padding),
        lhs_dilation=hlo.i64_array(lhs_dilation), rhs_dilation=hlo.i64_array(rhs_dilation),
        window_reversal=mlir.DenseBoolArrayAttr.get([False] * n), dimension_numbers=numbers,
        feature_group_count=hlo.i64(feature_groups), batch_group_count=hlo.i64(batch_groups),
        **precision_config(precision),
    )  # fmt: skip


def _converted(x: Any, dtype: DType) -> Any:
    """x as a dtype, behind a barrier if it had another: IREE takes conversions into a convolution."""
    y = hlo.convert(x, dtype)
    return x if y is x else hlo.optimization_barrier(y)[0]


def _last_features(n: int) -> ct.ConvDimensionNumbers:
    """NHWC, HWIO, NHWC."""
    spatial = tuple(range(1, n + 1))
    return ct.ConvDimensionNumbers((0, n + 1, *spatial), (n + 1, n, *range(n)), (0, n + 1, *spatial))


def relayout(x: Any, source: Sequence[int], target: Sequence[int]) -> Any:
    """x with dimension source[i] moved to target[i]."""
    permutation = [source[list(target).index(i)] for i in range(len(source))]
    if permutation == list(range(len(permutation))):
        return x
    shape = hlo.shape_of(x)
    if sum(shape[i] > 1 for i in range(len(shape))) < 2:  # no element moves
        return hlo.reshape(x, [shape[i] for i in permutation])
    # Without barriers IREE folds the transposes back into the convolution.
    return hlo.transpose(x, permutation)


@lowering(ct.conv_general_dilated_p)
def conv_general_dilated(
    ctx: Ctx, lhs: Any, rhs: Any, *, window_strides: tuple[int, ...], padding: ct.Pads, lhs_dilation: tuple[int, ...],
    rhs_dilation: tuple[int, ...], dimension_numbers: ct.ConvDimensionNumbers, feature_group_count: int,
    batch_group_count: int, precision: ct.PrecisionPair, preferred_element_type: Any,
) -> Any:  # fmt: skip
    out = ctx.avals_out[0]
    if not out.size or not all(a.size for a in ctx.avals_in):
        return hlo.full(0, out.shape, out.dtype)
    lhs, rhs, total = _prepare(ctx, lhs, rhs)
    if batch_group_count == 1:
        found = _conv_kernel(ctx, lhs, rhs, Geometry.of(ctx.eqn.params), total)
        if found is not None:
            return found
    operands = ctx.avals_in[0].dtype if hlo.with_dtype(lhs, ctx.avals_in[0].dtype) == lhs.type else total
    spec, n = dimension_numbers, len(window_strides)
    # IREE's compiler crashes on padded complex convolutions.
    if any(lo < 0 or hi < 0 for lo, hi in padding) or dtypes.is_complex(operands):
        lhs = cut_negative_padding(lhs, operands, spec.lhs_spec[2:], padding, lhs_dilation)
        padding, lhs_dilation = ((0, 0),) * n, (1,) * n
    shape = out.shape
    canonical = _last_features(n)
    moved = tuple(spec) != tuple(canonical) and (
        ctx.target.backend == "llvm-cpu" or _grouped_wrong(ctx, feature_group_count)
    )
    if moved:
        lhs = _barrier_if_moved(lhs, relayout(lhs, spec.lhs_spec, canonical.lhs_spec))
        rhs = _barrier_if_moved(rhs, relayout(rhs, spec.rhs_spec, canonical.rhs_spec))
        shape = tuple(out.shape[spec.out_spec[list(canonical.out_spec).index(i)]] for i in range(n + 2))
    layout = canonical if moved else spec
    if feature_group_count > 1 and _grouped_wrong(ctx, feature_group_count):
        y = sum_of_dots(
            lhs, rhs, operands, total, window_strides, padding, lhs_dilation, rhs_dilation, feature_group_count, shape
        )
    else:
        y = emit_conv(
            lhs, rhs, n, window_strides, padding, lhs_dilation, rhs_dilation, layout, feature_group_count,
            batch_group_count, shape, total, precision,
        )  # fmt: skip
    y = from_computed(ctx, y, total)
    if moved:
        y = relayout(hlo.optimization_barrier(y)[0], canonical.out_spec, spec.out_spec)
    return y


@dataclass(frozen=True)
class Geometry:
    """How the windows of a convolution lie."""

    spec: ct.ConvDimensionNumbers
    strides: tuple[int, ...]
    padding: ct.Pads
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    groups: int

    @staticmethod
    def of(params: Mapping[str, Any]) -> Geometry:
        """That of a conv_general_dilated with these parameters."""
        names = "dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation", "feature_group_count"
        return Geometry(*(params[name] for name in names))


def _conv_kernel(
    ctx: Ctx, lhs: Any, rhs: Any, g: Geometry, total: DType, following: Following | None = None
) -> list[Any] | None:
    """The convolution, and what follows, by kernels, in the layout and dtype of the result.

    None where there is none or StableHLO is the better form.
    """
    n = len(g.strides)
    if dtypes.is_complex(total) or not n:
        return None
    x, k, out = hlo.shape_of(lhs), hlo.shape_of(rhs), ctx.avals_out[0]
    spec = g.spec
    taps, sizes = ([k[d] for d in spec.rhs_spec[2:]], [out.shape[d] for d in spec.out_spec[2:]])
    elements = _element(lhs), _element(rhs), kernels.dtype_of(total)
    # The gradient of a filter is a convolution whose window is as large as the input, and the result is the filter.
    by_sums = g.groups == 1 and math.prod(sizes) < math.prod(taps)
    interior = [1] * n
    windows, pads = list[kernels.Window](), list[tuple[int, int]]()
    for i, d in enumerate(spec.lhs_spec[2:]):
        size, base, low = x[d], g.lhs_dilation[i], g.padding[i][0]
        if base > 1 and (by_sums or g.strides[i] > 1 or g.rhs_dilation[i] > 1):
            size, interior[i], base = ct.dilated(size, base), base, 1
        w, *pad = kernels.window(size, taps[i], sizes[i], g.strides[i], g.rhs_dilation[i], base, low)
        windows.append(w)
        pads.append((pad[0], pad[1]))
    last, inner = n + 1, tuple(range(1, n + 1))
    epilogue = None if following is None else following.epilogue
    if by_sums:
        layout = ct.ConvDimensionNumbers((last, 0, *inner), (last, 0, *inner), (n, last, *range(n)))
        features, batch = x[spec.lhs_spec[1]], x[spec.lhs_spec[0]]
        filled, filters, sums = (
            Spec.of((features, *(w.size for w in windows), batch), elements[0]),
            Spec.of((features, *taps, k[spec.rhs_spec[0]]), elements[1]),
            Spec.of((*sizes, batch, k[spec.rhs_spec[0]]), elements[2]),
        )

        def kernel(target: KernelTarget) -> Kernel | KernelChain:
            return kernels.correlation(filled, filters, sums, tuple(windows), target, epilogue)

    else:
        layout = _last_features(n)
        features = x[spec.lhs_spec[1]]
        c = kernels.Conv(x[spec.lhs_spec[0]], features, k[spec.rhs_spec[0]], g.groups, tuple(windows))

        def kernel(target: KernelTarget) -> Kernel | KernelChain:
            return kernels.convolution(c, kernels.dtype_of(elements[0]), elements[2], target, epilogue)

    def make(target: KernelTarget) -> list[Any]:
        if following is not None and tuple(layout.out_spec) != tuple(spec.out_spec):
            raise NoKernel("the result is in another layout than the kernel's")
        made = kernel(target)
        padded = relayout(lhs, spec.lhs_spec, layout.lhs_spec)
        packed = relayout(rhs, spec.rhs_spec, layout.rhs_spec)
        if any(p != (0, 0) for p in pads) or any(i > 1 for i in interior):
            low, high, holes = ([0] * (n + 2) for _ in range(3))
            for d, (lo, hi), i in zip(layout.lhs_spec[2:], pads, interior):
                low[d], high[d], holes[d] = lo, hi, i - 1
            dtype = np.dtype(kernels.dtype_of(elements[0]).numpy())
            padded = padding.pad(ctx, padded, dtype, np.zeros((), dtype), low, high, holes)
        return _called(ctx, made, [padded, packed, *(() if following is None else following.operands)])

    results = _by_kernel(ctx, make, following)
    if following is not None or results is None:
        return results
    return [relayout(from_computed(ctx, results[0], total), layout.out_spec, spec.out_spec)]


def _barrier_if_moved(before: Any, after: Any) -> Any:
    return after if before is after else hlo.optimization_barrier(after)[0]


def _grouped_wrong(ctx: Ctx, feature_groups: int) -> bool:
    """Whether IREE gets grouped convolutions wrong on this target: through SPIR-V they are all zeros."""
    return feature_groups > 1 and ctx.target.spirv


def sum_of_dots(
    x: Any, k: Any, operands: DType, total: DType, strides: Sequence[int], padding: ct.Pads, lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int], groups: int, shape: Sequence[int],
) -> Any:  # fmt: skip
    """A grouped convolution (NHWC, HWIO) as a sum over the kernel's positions of batched matrix products."""
    n = len(strides)
    x = cut_negative_padding(x, operands, range(1, n + 1), padding, lhs_dilation)
    batch, *sizes, features = hlo.shape_of(x)
    *window, inner, outer = hlo.shape_of(k)
    outs = list(shape[1 : n + 1])
    y: Any = None
    for position in np.ndindex(*window):
        start = [0, *(p * d for p, d in zip(position, rhs_dilation)), 0]
        limit = [batch, *(s + (o - 1) * t + 1 for s, o, t in zip(start[1:], outs, strides)), features]
        part = hlo.slice(x, start, limit, [1, *strides, 1])
        part = hlo.reshape(part, [batch * math.prod(outs), groups, inner])
        kernel = hlo.slice(k, [*position, 0, 0], [*(p + 1 for p in position), inner, outer])
        kernel = hlo.reshape(kernel, [inner, groups, outer // groups])
        term = emit_dot(part, kernel, (((2,), (0,)), ((1,), (1,))), total)  # group, pixel, feature
        y = term if y is None else hlo.add(y, term)
    y = hlo.transpose(y, [1, 0, 2])
    return hlo.reshape(y, shape)
