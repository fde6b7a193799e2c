"""StableHLO operations as functions: ``hlo.add(x, y)``. Result types follow from the operands where they can.

The dialect has no generated Python classes in these bindings, so the operations are built generically, at the
current insertion point and location.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import iree.compiler.ir as mlir
import numpy as np

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.dtypes import DType

from . import origins, types
from .single_windows import single_windows

Value = Any  # mlir.Value; the bindings are untyped
Type = Any


def op(name: str, operands: Sequence[Value], results: Sequence[Type], regions: int = 0, **attributes: Any) -> Any:
    """Create an operation; returns it."""
    return mlir.Operation.create(
        name, results=list(results), operands=list(operands), attributes=attributes, regions=regions
    )


def op1(name: str, operands: Sequence[Value], result: Type, **attributes: Any) -> Value:
    """Create an operation with one result; returns the result."""
    return mlir.Operation.create(name, results=[result], operands=list(operands), attributes=attributes).result


# -- attributes -----------------------------------------------------------------------------------------------------


def i64_array(values: Sequence[int]) -> Any:
    """An attribute of 64-bit integers."""
    return mlir.DenseI64ArrayAttr.get(list(values))


def i64(value: int) -> Any:
    """An attribute: a 64-bit integer."""
    return mlir.IntegerAttr.get(mlir.IntegerType.get_signless(64), value)


def i32(value: int) -> Any:
    """An attribute: a 32-bit integer."""
    return mlir.IntegerAttr.get(mlir.IntegerType.get_signless(32), value)


def i64_matrix(rows: Sequence[Sequence[int]]) -> Any:
    """A dense [n, 2] attribute, as padding has."""
    return mlir.DenseElementsAttr.get(np.asarray(rows, np.int64).reshape(len(rows), 2))


def boolean(value: bool) -> Any:
    """An attribute: true or false."""
    return mlir.BoolAttr.get(value)


@types.kept
def parse_attr(text: str) -> Any:
    """An attribute from its text, for the dialect's own attributes (``#stablehlo.dot<...>``)."""
    return mlir.Attribute.parse(text)


# -- shapes and constants ---------------------------------------------------------------------------------------------


def shape_of(x: Value) -> tuple[int, ...]:
    """The shape of a value."""
    return tuple(mlir.RankedTensorType(x.type).shape)


def with_shape(x: Value, shape: Sequence[int]) -> Type:
    """The type of x with another shape."""
    return mlir.RankedTensorType.get(list(shape), mlir.RankedTensorType(x.type).element_type)


def with_dtype(x: Value, dtype: DType) -> Type:
    """The type of x with another element type."""
    return mlir.RankedTensorType.get(shape_of(x), types.element_type(dtype))


def constant(value: Any, dtype: DType) -> Value:
    """A constant tensor. Complex ones are made of two real constants (dense complex ones end IREE's process)."""
    array: Any = np.asarray(value, dtype=dtype)
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        return complex(constant(array.real, part), constant(array.imag, part))
    attr = types.dense(array)
    return op1("stablehlo.constant", [], attr.type, value=attr)


def full(value: Any, shape: Sequence[int], dtype: DType) -> Value:
    """A constant tensor with all elements equal."""
    if dtypes.is_complex(dtype):
        part = dtypes.real_dtype(dtype)
        z: Any = np.asarray(value, dtype)
        return complex(full(z.real, shape, part), full(z.imag, shape, part))
    if math.prod(shape) == 0:
        return constant(np.zeros(tuple(shape), dtype), dtype)
    attr = types.dense(np.asarray(value, dtype), tuple(shape))
    return op1("stablehlo.constant", [], attr.type, value=attr)


def full_like(x: Value, value: Any, dtype: DType) -> Value:
    """`full` with the shape of x."""
    return full(value, shape_of(x), dtype)


def made_by(x: Value, name: str) -> bool:
    """Whether an operation of that name gives x."""
    return not isinstance(x.owner, mlir.Block) and x.owner.name == name


def broadcast(x: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
    """broadcast_in_dim; nothing when the shape is the same."""
    if shape_of(x) == tuple(shape) and tuple(dims) == tuple(range(len(shape))):
        return x
    return op1(
        "stablehlo.broadcast_in_dim", [_taken(x, shape)], with_shape(x, shape), broadcast_dimensions=i64_array(dims)
    )


def iota(shape: Sequence[int], dimension: int, dtype: DType) -> Value:
    """0, 1, ... along one dimension."""
    return op1("stablehlo.iota", [], types.tensor_type(tuple(shape), dtype), iota_dimension=i64(dimension))


def reshape(x: Value, shape: Sequence[int]) -> Value:
    """x in another shape; x itself where it has it already."""
    return x if shape_of(x) == tuple(shape) else op1("stablehlo.reshape", [_taken(x, shape)], with_shape(x, shape))


def _taken(x: Value, shape: Sequence[int]) -> Value:
    """x, apart from the slice of one element that it is, where it gets more dimensions of one element.

    IREE 3.13 makes one slice of both, which may not have more dimensions than what it is cut from.
    """
    if math.prod(shape) != 1 or len(shape) <= len(shape_of(x)):
        return x
    return optimization_barrier(x)[0] if origins.is_part(base_of(x, moved=True)) else x


def transpose(x: Value, permutation: Sequence[int]) -> Value:
    """x with its dimensions in another order; a transpose of a transpose is one, or none."""
    inner = transposed(x)
    if inner is not None:
        x, before = inner
        permutation = [before[i] for i in permutation]
    if list(permutation) == list(range(len(permutation))):
        return x
    shape = shape_of(x)
    result = with_shape(x, [shape[i] for i in permutation])
    return op1("stablehlo.transpose", [x], result, permutation=i64_array(permutation))


def transposed(x: Value) -> tuple[Value, list[int]] | None:
    """The operand and permutation of the transpose that x is the result of; None if it is of none."""
    made = x.owner
    if not isinstance(made, mlir.Operation | mlir.OpView) or made.name != "stablehlo.transpose":
        return None
    return made.operands[0], [int(i) for i in mlir.DenseI64ArrayAttr(made.attributes["permutation"])]


def slice(x: Value, start: Sequence[int], limit: Sequence[int], strides: Sequence[int] | None = None) -> Value:
    """A range of x along each dimension; `strides` are 1 if None."""
    strides = [1] * len(start) if strides is None else strides
    shape = [-((a - b) // s) for a, b, s in zip(start, limit, strides)]
    return op1(
        "stablehlo.slice", [x], with_shape(x, shape),
        start_indices=i64_array(start), limit_indices=i64_array(limit), strides=i64_array(strides),
    )  # fmt: skip


def pad(x: Value, value: Value, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Value:
    """pad, `low` and `high` in number of elements; see `to_be_padded`.

    What crops (a number below 0) is a slice beside a pad: IREE reads one of both as a window that it moves where the
    elements' types and ranks no longer agree.
    """
    n = shape_of(x)
    if any(lo < 0 or hi < 0 for lo, hi in zip(low, high)):
        crop_low, crop_high = ([max(-k, 0) for k in edge] for edge in (low, high))
        low, high = ([max(k, 0) for k in edge] for edge in (low, high))
        of_all = any(interior) or any(a + b > k for k, a, b in zip(n, crop_low, crop_high))
        if of_all:
            x = pad(x, value, low, high, interior)
        x = slice(x, crop_low, [k - b for k, b in zip(shape_of(x), crop_high)])
        return x if of_all else pad(x, value, low, high, interior)
    if not (any(low) or any(high) or any(interior)):
        return x
    shape = [lo + hi + k + max(k - 1, 0) * i for k, lo, hi, i in zip(n, low, high, interior, strict=True)]
    if 0 in n:  # nothing but padding
        return broadcast(value, shape, ())
    x = to_be_padded(x, inside=any(interior))
    if origins.is_padded_with_other(x, value):  # IREE fills, computes and fills in one dispatch, and refuses it
        x = optimization_barrier(x)[0]
    return origins.put_into_splat(
        op1(
            "stablehlo.pad", [x, value], with_shape(x, shape),
            edge_padding_low=i64_array(low), edge_padding_high=i64_array(high), interior_padding=i64_array(interior),
        )
    )  # fmt: skip


def to_be_padded(x: Value, *, inside: bool) -> Value:
    """x for an operation that pads it, `inside`: between elements; windows of what is dilated do.

    Behind a barrier where it is padded already: IREE makes one of a pad of a pad or of an update, with the interior
    padding of one of the two only.
    """
    return optimization_barrier(x)[0] if origins.is_padded(x, inside=not inside) else x


def reverse(x: Value, dimensions: Sequence[int]) -> Value:
    """reverse; IREE cannot translate that of a slice with strides in one dispatch."""
    x = optimization_barrier(x)[0] if origins.takes_strides(x) else x
    return op1("stablehlo.reverse", [x], x.type, dimensions=i64_array(dimensions))


def concatenate(xs: Sequence[Value], dimension: int) -> Value:
    """The arrays one after the other along a dimension."""
    shape = list(shape_of(xs[0]))
    shape[dimension] = sum(shape_of(x)[dimension] for x in xs)
    return op1("stablehlo.concatenate", xs, with_shape(xs[0], shape), dimension=i64(dimension))


# -- elementwise --------------------------------------------------------------------------------------------------------


def same_type(name: str) -> Callable[..., Value]:
    """The builder of an operation whose result has its operands' type."""
    full_name = "stablehlo." + name

    def build(*operands: Value) -> Value:
        return mlir.Operation.create(full_name, results=[operands[0].type], operands=list(operands)).result

    build.__name__ = name
    return build


_add, _multiply, subtract, divide, remainder, power, atan2 = map(
    same_type, ("add", "multiply", "subtract", "divide", "remainder", "power", "atan2")
)
maximum, minimum, and_, or_, xor = map(same_type, ("maximum", "minimum", "and", "or", "xor"))
shift_left, shift_right_logical, shift_right_arithmetic = map(
    same_type, ("shift_left", "shift_right_logical", "shift_right_arithmetic")
)
negate, sign, floor, ceil, not_, popcnt, clz = map(
    same_type, ("negate", "sign", "floor", "ceil", "not", "popcnt", "count_leading_zeros")
)
exponential, log, log_plus_one = map(same_type, ("exponential", "log", "log_plus_one"))
sqrt, rsqrt, cbrt, round_even, round_away = map(
    same_type, ("sqrt", "rsqrt", "cbrt", "round_nearest_even", "round_nearest_afz")
)


def is_bool(x: Value) -> bool:
    """Whether a value's elements are bools."""
    element = mlir.RankedTensorType(x.type).element_type
    return isinstance(element, mlir.IntegerType) and mlir.IntegerType(element).width == 1


def add(x: Value, y: Value) -> Value:
    """x + y; "or" of bools, of which IREE takes the sum modulo 2."""
    return or_(x, y) if is_bool(x) else _add(x, y)


def multiply(x: Value, y: Value) -> Value:
    """x * y; "and" of bools."""
    return and_(x, y) if is_bool(x) else _multiply(x, y)


def abs(x: Value) -> Value:
    """Absolute value; real for complex x."""
    element = mlir.RankedTensorType(x.type).element_type
    if isinstance(element, mlir.ComplexType):
        return op1("stablehlo.abs", [x], mlir.RankedTensorType.get(shape_of(x), mlir.ComplexType(element).element_type))
    return op1("stablehlo.abs", [x], x.type)


def complex(re: Value, im: Value) -> Value:
    """Complex numbers of their parts."""
    element = mlir.ComplexType.get(mlir.RankedTensorType(re.type).element_type)
    return op1("stablehlo.complex", [re, im], mlir.RankedTensorType.get(shape_of(re), element))


def _part(name: str, x: Value) -> Value:
    element = mlir.ComplexType(mlir.RankedTensorType(x.type).element_type).element_type
    return op1(name, [x], mlir.RankedTensorType.get(shape_of(x), element))


def real(x: Value) -> Value:
    """The real part."""
    return _part("stablehlo.real", x)


def imag(x: Value) -> Value:
    """The imaginary part."""
    return _part("stablehlo.imag", x)


def select(pred: Value, on_true: Value, on_false: Value) -> Value:
    """One of two values for each element; pred may be a scalar."""
    return op1("stablehlo.select", [pred, on_true, on_false], on_true.type)


def clamp(low: Value, x: Value, high: Value) -> Value:
    """x, but at least `low` and at most `high`."""
    return op1("stablehlo.clamp", [low, x, high], x.type)


def widened(x: Value) -> Value:
    """x; bfloat16 numbers as the float32 ones that they are.

    IREE computes them in float32, and does not round what is used in the same dispatch: `x.astype(bfloat16)` would be x
    there, and what is stored, such as a maximum, equal to none of the numbers that it was taken from. Asked for its bits, a
    number is rounded.
    """
    if x.type != with_dtype(x, dtypes.bfloat16):
        return x
    if isinstance(x.owner, mlir.Block):
        return convert(x, dtypes.float32)
    bits = convert(bitcast(x, dtypes.uint16), dtypes.uint32)
    return bitcast(shift_left(bits, full_like(bits, 16, dtypes.uint32)), dtypes.float32)


def convert(x: Value, dtype: DType) -> Value:
    """The plain conversion, which is wrong for floats outside an integer's range (see elementwise lowering).

    A bool becomes an inexact number by a selection: IREE makes another one of the product of a converted bool, in which
    false times NaN or infinity is 0. What were integers becomes bfloat16 by its bits: IREE joins the conversions, integer to
    float32 to bfloat16, to one for which its code calls a function that is not linked.
    """
    result = with_dtype(x, dtype)
    if result == x.type:
        return x
    if dtype == dtypes.bfloat16 and origins.were_integers(x):
        return _rounded_to_bfloat16(convert(x, dtypes.float32))
    if dtypes.is_inexact(dtype) and x.type == with_dtype(x, dtypes.bool_):
        return select(x, full(1, shape_of(x), dtype), full(0, shape_of(x), dtype))
    return op1("stablehlo.convert", [x], result)


def _rounded_to_bfloat16(x: Value) -> Value:
    """A float32 as bfloat16, by operations of integers; NaN stays NaN."""
    word = dtypes.uint32
    bits = bitcast(x, word)
    high = shift_right_logical(bits, full_like(x, 16, word))
    even = add(and_(high, full_like(x, 1, word)), full_like(x, 0x7FFF, word))
    rounded = shift_right_logical(add(bits, even), full_like(x, 16, word))
    rounded = select(compare(x, x, "NE"), or_(high, full_like(x, 0x40, word)), rounded)
    return bitcast(convert(rounded, dtypes.uint16), dtypes.bfloat16)


def bitcast(x: Value, dtype: DType) -> Value:
    """bitcast_convert between dtypes of one width."""
    result = with_dtype(x, dtype)
    return x if result == x.type else op1("stablehlo.bitcast_convert", [x], result)


def compare(x: Value, y: Value, direction: str, kind: str | None = None) -> Value:
    """Compare: direction EQ NE LT LE GT GE; kind FLOAT TOTALORDER SIGNED UNSIGNED (from the type when None)."""
    if kind is None:
        element = mlir.RankedTensorType(x.type).element_type
        if isinstance(element, mlir.IntegerType):
            it = mlir.IntegerType(element)
            kind = "UNSIGNED" if it.is_unsigned or it.width == 1 else "SIGNED"
        else:
            kind = "FLOAT"
    return op1(
        "stablehlo.compare", [x, y], with_dtype(x, dtypes.bool_),
        comparison_direction=parse_attr(f"#stablehlo<comparison_direction {direction}>"),
        compare_type=parse_attr(f"#stablehlo<comparison_type {kind}>"),
    )  # fmt: skip


def is_finite(x: Value) -> Value:
    """Where x is neither infinite nor NaN."""
    return op1("stablehlo.is_finite", [x], with_dtype(x, dtypes.bool_))


def optimization_barrier(*xs: Value) -> list[Value]:
    """The values as they are, which IREE computes apart from what reads them."""
    return list(op("stablehlo.optimization_barrier", xs, [x.type for x in xs]).results)


# -- regions --------------------------------------------------------------------------------------------------------------


def add_block(region: Any, arg_types: Sequence[Type], body: Callable[..., Sequence[Value]]) -> None:
    """Fill a region with one block: `body` gets the block's arguments and returns what it yields."""
    block = mlir.Block.create_at_start(region, list(arg_types))
    with mlir.InsertionPoint(block):
        op("stablehlo.return", list(body(*block.arguments)), [])


def reduce(
    operands: Sequence[Value],
    inits: Sequence[Value],
    dimensions: Sequence[int],
    body: Callable[..., Sequence[Value]],
) -> list[Value]:
    """Reduce some operands together; `body` gets the accumulators, then the elements, as scalars."""
    operands, inits = [no_fill(x) for x in operands], list(inits)
    shape = shape_of(operands[0])
    out = [n for i, n in enumerate(shape) if i not in dimensions]
    operation = op(
        "stablehlo.reduce", [*operands, *inits], [with_shape(x, out) for x in operands],
        regions=1, dimensions=i64_array(dimensions),
    )  # fmt: skip
    scalars = [i.type for i in inits]
    add_block(operation.regions[0], [*scalars, *scalars], body)
    return _apart(list(operation.results))


def fit_window(x: Value, fill: Value, kept: Sequence[int], padding: Sequence[tuple[int, int]]) -> Value:
    """x cut to the elements that single windows reach (see `single_windows`); `fill` where they reach padding alone."""
    shape = shape_of(x)
    x = slice(x, [0] * len(shape), [max(n, 1) for n in kept])
    if all(kept):
        return x
    low, high = zip(*((0, 0) if n else (sum(p), -1) for n, p in zip(kept, padding)))
    return pad(x, fill, low, high, [0] * len(shape))


def no_fill(x: Value) -> Value:
    """x for an operation that sums it; behind a barrier where IREE would take one element for all.

    Complex numbers in their parts: IREE fills those with a dispatch, and may give two values the memory of one.
    """
    if not origins.is_uniform(x):
        return x
    if _is_complex(x):
        return complex(*optimization_barrier(real(x), imag(x)))
    return optimization_barrier(x)[0]


def _is_complex(x: Value) -> bool:
    return isinstance(mlir.RankedTensorType(x.type).element_type, mlir.ComplexType)


def _apart(results: list[Value]) -> list[Value]:
    """The results of one reduction; several behind a barrier: IREE moves a reader's transpose into it and loses one."""
    return results if len(results) == 1 else optimization_barrier(*results)


def aval_full(aval: ShapedArray, value: Any) -> Value:
    """A constant of an aval's shape and dtype with all elements equal."""
    return full(value, aval.shape, aval.dtype)


def reduce_window(
    operands: Sequence[Value],
    inits: Sequence[Value],
    body: Callable[..., Sequence[Value]],
    out_shape: Sequence[int],
    *,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int],
    window_dilation: Sequence[int],
) -> list[Value]:
    """Reduce each window of some operands together; `body` gets the accumulators, then the elements, as scalars.

    What is padded is stored first where it is a slice with strides: of two elements IREE has no code for the two in one.
    """
    if any(n for pair in padding for n in pair):
        operands = [optimization_barrier(x)[0] if origins.takes_strides(x) else x for x in operands]
    shape = shape_of(operands[0])
    cut = single_windows(shape, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    if cut is not None:
        operands = [fit_window(x, i, *cut) for x, i in zip(operands, inits)]
        padding = [p if n else (0, 0) for n, p in zip(*cut)]
        base_dilation = [
            dilation if n else 1 for n, dilation in zip(cut[0], base_dilation)
        ]  # padding alone has no gaps
    sizes = zip(shape_of(operands[0]), window_dimensions, padding, base_dilation)
    apart = [dilated == 1 and _looks_cumulative(n, w, p) for n, w, p, dilated in sizes]
    if any(apart):
        low, high = zip(*(p if a else (0, 0) for a, p in zip(apart, padding)))
        operands = [pad(x, i, low, high, [0] * len(apart)) for x, i in zip(operands, inits)]
        padding = [(0, 0) if a else p for a, p in zip(apart, padding)]
    operands = [to_be_padded(no_fill(x), inside=any(n != 1 for n in base_dilation)) for x in operands]
    # Each operand is stored, with its initial value. Equal initial values would become one array of them, and where another
    # operation has it too (as padding, or as initial value) IREE has no code for the windows. Where it computes the operand
    # in the windows, of one that is stored too it stores no more than windows of one element read.
    stored = [optimization_barrier(x, i) for x, i in zip(operands, inits)]
    operands, inits = [x for x, _ in stored], [i for _, i in stored]
    operation = op(
        "stablehlo.reduce_window", [*operands, *inits], [with_shape(x, out_shape) for x in operands], regions=1,
        window_dimensions=i64_array(window_dimensions), window_strides=i64_array(window_strides),
        base_dilations=i64_array(base_dilation), window_dilations=i64_array(window_dilation),
        padding=i64_matrix(padding),
    )  # fmt: skip
    scalars = [i.type for i in inits]
    add_block(operation.regions[0], [*scalars, *scalars], body)
    # IREE takes equal pairs of operand and initial value for one, and has no code then for windows that write into a larger array.
    return optimization_barrier(*operation.results)


def _looks_cumulative(n: int, window: int, padding: tuple[int, int]) -> bool:
    """Whether IREE 3.13 takes windows for a cumulative sum by the padding on one side, and fails on that of the other."""
    return window == n > 1 and n - 1 in padding and any(p not in (0, n - 1) for p in padding)


def while_(
    inits: Sequence[Value], cond: Callable[..., Sequence[Value]], body: Callable[..., Sequence[Value]]
) -> list[Value]:
    """A loop: `cond` and `body` get the carried values."""
    kinds = [x.type for x in inits]
    operation = op("stablehlo.while", inits, kinds, regions=2)
    add_block(operation.regions[0], kinds, cond)
    add_block(operation.regions[1], kinds, body)
    return list(operation.results)


def gather(
    x: Value,
    indices: Value,
    numbers: str,
    slice_sizes: Sequence[int],
    out_shape: Sequence[int],
    is_sorted: bool = False,
) -> Value:
    """gather; `numbers` is the text of its dimension numbers. IREE does not clamp the indices.

    Of one element it takes a slice, with the wrong rank where that element is a slice of another shape. Of a part of a larger
    array it would gather from the larger one in place, with strides, and fails to translate the vectors that it makes of that
    ("LLVM Translation failed for operation: builtin.unrealized_conversion_cast"), and so of what is computed of a part with gaps.
    These are behind a barrier.
    """
    if math.prod(shape_of(x)) == 1 or origins.is_part(base_of(x, moved=True)) or origins.takes_strides(x):
        x = optimization_barrier(x)[0]
    return op1(
        "stablehlo.gather", [x, indices], with_shape(x, out_shape), slice_sizes=i64_array(slice_sizes),
        dimension_numbers=parse_attr(f"#stablehlo.gather<{numbers}>"), indices_are_sorted=boolean(is_sorted),
    )  # fmt: skip


def take(x: Value, positions: Value) -> Value:
    """Elements of a vector at positions that are known to be inside; the result has the positions' shape."""
    shape = shape_of(positions)
    numbers = f"collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {len(shape)}"
    return gather(x, positions, numbers, [1], shape)


def scatter(
    x: Value, indices: Value, updates: Value, numbers: str, body: Callable[..., Sequence[Value]],
    *, is_sorted: bool = False, unique: bool = False,
) -> Value:  # fmt: skip
    """scatter; `body` gets (old element, update). IREE writes anywhere for indices outside, and in place.

    Of the operations on scalars that a body is made of IREE has no code here for the rounding to even numbers.
    """
    operation = op(
        "stablehlo.scatter", [x, indices, updates], [x.type], regions=1,
        scatter_dimension_numbers=parse_attr(f"#stablehlo.scatter<{numbers}>"),
        indices_are_sorted=boolean(is_sorted), unique_indices=boolean(unique),
    )  # fmt: skip
    scalar = mlir.RankedTensorType.get([], mlir.RankedTensorType(x.type).element_type)
    add_block(operation.regions[0], [scalar, scalar], body)
    for made in list(operation.regions[0].blocks[0].operations):
        if made.name == "stablehlo.round_nearest_even":
            with mlir.InsertionPoint(made), made.location:
                made.result.replace_all_uses_with(_rounded_to_even(made.operands[0]))
            made.erase()
    return operation.result


def _rounded_to_even(x: Value) -> Value:
    """x rounded to an integer, the even one of two as near; 0 with the sign of x, infinities and NaN as they are."""
    half, one, zero = (op1("stablehlo.convert", [constant(v, dtypes.float32)], x.type) for v in (0.5, 1, 0))
    below = op1("stablehlo.floor", [x], x.type)
    over = subtract(x, below)
    halved = multiply(below, half)
    odd = compare(op1("stablehlo.floor", [halved], x.type), halved, "NE")
    up = or_(compare(over, half, "GT"), and_(compare(over, half, "EQ"), odd))
    out = select(up, add(below, one), below)
    return select(compare(out, zero, "EQ"), multiply(x, zero), out)


def dynamic_slice(x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
    """A range of static sizes at starts that are values, which are clamped."""
    return op1("stablehlo.dynamic_slice", [x, *starts], with_shape(x, sizes), slice_sizes=i64_array(sizes))


def dynamic_update_slice(x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """dynamic_update_slice, which IREE does in place.

    What is computed of x itself gets a barrier: IREE 3.13 would compute it in the dispatch that writes, from elements
    some of which are new already, or copy between overlapping ranges. Starts that are numbers get none: IREE would compute
    them in a dispatch, and have the host read them.
    """
    new = [update, *starts]
    if any(_computed_of(v, x) for v in new):
        held = [v for v in new if origins.integer(v) is None or v is update]
        kept = iter(optimization_barrier(*held))
        new = [next(kept) if origins.integer(v) is None or v is update else v for v in new]
    elif origins.is_padded(update, inside=True):  # as in `pad`
        new[0] = optimization_barrier(update)[0]
    return origins.put_into_splat(op1("stablehlo.dynamic_update_slice", [x, *new], x.type))


_COMPUTED_APART = frozenset(("stablehlo.optimization_barrier", "stablehlo.while", "flow.dispatch"))
"""Operations that IREE never puts into one dispatch with a reader of their results."""
_LOOKED_AT = 200
"""The operations that `_computed_of` looks at, at the most."""


_MOVING = frozenset(
    f"stablehlo.{name}"
    for name in ("transpose", "broadcast_in_dim", "slice", "dynamic_slice", "pad", "concatenate", "reverse", "gather")
)


def _may_be_view(x: Value) -> bool:
    """Whether x may have the memory of the first operand of the operation that makes it: of as many elements, as they are."""
    if not isinstance(x.owner, mlir.Operation | mlir.OpView) or x.owner.name not in VIEWS | _MOVING:
        return False
    return math.prod(shape_of(x)) == math.prod(shape_of(x.owner.operands[0]))


def _computed_of(value: Value, x: Value) -> bool:
    """Whether x may be read by the dispatch that computes a value; True where finding out takes long."""
    same = {x}
    while _may_be_view(x):
        x = x.owner.operands[0]
        same.add(x)
    pending, seen = [value], set[Any]()
    while pending:
        v = pending.pop()
        if v in seen:
            continue
        if v in same:
            return True
        seen.add(v)
        if len(seen) > _LOOKED_AT:
            return True
        if isinstance(v.owner, mlir.Operation | mlir.OpView) and v.owner.name not in _COMPUTED_APART:
            pending.extend(v.owner.operands)
    return False


VIEWS = frozenset(
    ("stablehlo.reshape", "stablehlo.bitcast_convert", "stablehlo.optimization_barrier", "stablehlo.convert")
)
"""Operations whose result may be the same memory as their first operand."""


def base_of(x: Any, moved: bool = False) -> Any:
    """The value whose memory x is a view of; with `moved`, whose elements it is, in whatever order."""
    while isinstance(x.owner, mlir.Operation | mlir.OpView):
        if (same := origins.passed_on(x)) is not None:
            x = same
            continue
        if not (x.owner.name in VIEWS or _only_expands(x) or (moved and x.owner.name == "stablehlo.transpose")):
            break
        x = x.owner.operands[0]
    return x


def _only_expands(x: Any) -> bool:
    """Whether x is its operand with more dimensions, of one element each."""
    if x.owner.name != "stablehlo.broadcast_in_dim":
        return False
    dims = list(mlir.DenseI64ArrayAttr(x.owner.attributes["broadcast_dimensions"]))
    return math.prod(shape_of(x)) == math.prod(shape_of(x.owner.operands[0])) and dims == sorted(dims)
