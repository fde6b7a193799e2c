"""Products: matmul, dot, tensordot, einsum (through opt_einsum) and their kin, all made of `dot_general`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import opt_einsum

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..arrays.explicit import takes_out_sharding
from ..arrays.operands import (
    Value,
    as_axis,
    broadcast_shapes,
    broadcast_to,
    cast,
    ensure,
    no_out,
    promote_dtypes,
    user_dtype,
)
from .creation import filled
from .diagonals import diagonal
from .elementwise import multiply
from .joining import stack
from .reductions import sum as sum_
from .shapes import moveaxis, ravel

DimensionPairs = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


def _operands(name: str, *args: Any) -> list[Value]:
    return promote_dtypes(*[ensure(name, a, i) for i, a in enumerate(args)])


def _factors(name: str, preferred: Any, *values: Value) -> list[Value]:
    """Operands of a product in one dtype: that of all together, or the preferred one, where theirs differ or are bools.

    In the dtype of all together some would be rounded or wrapped before they are in the preferred one. Raises TypeError for a
    preferred dtype that is narrower than integer operands.
    """
    if preferred is not None:
        wanted = user_dtype(name, preferred)
        found = {v.aval.dtype for v in values}
        mixed = len(found) > 1 or any(map(dtypes.is_bool, found))
        if mixed and (dtypes.is_complex(wanted) or not any(map(dtypes.is_complex, found))):
            for dtype in () if any(map(dtypes.is_float, found)) else found:
                ct.contraction_dtype(f"quire.numpy.{name}", dtype, wanted)  # raises where it is wider than wanted
            return [cast(v, wanted) for v in values]
    return promote_dtypes(*values)


def _contract(x: Value, y: Value, dims: DimensionPairs, precision: Any, preferred: Any, name: str) -> Value:
    """`dot_general` in the result's dtype; bool is computed as and/or."""
    wanted: DType | None = None if preferred is None else user_dtype(name, preferred)
    out: DType = x.aval.dtype
    weak = x.aval.weak_type and y.aval.weak_type
    if dtypes.is_bool(out):
        x, y = cast(x, dtypes.int32), cast(y, dtypes.int32)
        return ew.ne_p.bind(ct.dot_general(x, y, dims, precision), np.int32(0))
    result = ct.dot_general(x, y, dims, precision, wanted)
    return cast(result, result.aval.dtype, True) if weak and wanted is None and not result.aval.weak_type else result


@takes_out_sharding
def matmul(
    a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Value:
    """The matrix product, ``a @ b``.

    Args:
        a, b: arrays of at least one dimension; leading dimensions broadcast; a vector counts as a row (a) or a
            column (b) that the result doesn't have.
        precision: None, "default", "high" or "highest" (or a pair of them).
        preferred_element_type: the dtype in which to accumulate, and of the result.

    Raises:
        ValueError: scalars. TypeError: sizes that do not fit.

    Follows `numpy.matmul`.

    >>> quire.numpy.matmul(quire.numpy.array([[1, 2], [3, 4]]), quire.numpy.array([1, 1]))
    Array([3, 7], dtype=int32)
    """
    x, y = ensure("matmul", a, 0), ensure("matmul", b, 1)
    sx, sy = x.aval.shape, y.aval.shape
    for i, v in enumerate((x, y)):
        if v.aval.ndim == 0:
            raise ValueError(
                f"quire.numpy.matmul: input operand {i} must have ndim at least 1, but it has ndim 0: use * for scalars"
            )
    if sx[-1] != sy[max(len(sy) - 2, 0)]:
        raise TypeError(
            f"quire.numpy.matmul: {x.aval.short()} @ {y.aval.short()}: the last dimension of the first operand ({sx[-1]}) "
            f"and the {'first' if len(sy) == 1 else 'last but one'} of the second ({sy[max(len(sy) - 2, 0)]}) must be equal"
        )
    same = x.aval.dtype is y.aval.dtype and x.aval.weak_type == y.aval.weak_type
    if not same or preferred_element_type is not None:
        x, y = _factors("matmul", preferred_element_type, x, y)
    nx, ny = len(sx), len(sy)
    if nx <= 2 and ny <= 2 or ny <= 2:  # the second operand has no batch: its columns become the last dimension
        return _contract(x, y, (((nx - 1,), (max(ny - 2, 0),)), ((), ())), precision, preferred_element_type, "matmul")
    if nx == 1:
        out = _contract(y, x, (((ny - 2,), (0,)), ((), ())), precision, preferred_element_type, "matmul")
        return out
    batch = broadcast_shapes("matmul", sx[:-2], sy[:-2])
    nb = len(batch)
    # Batch dimensions that only one operand has are free ones of it; those of both go along.
    xs = (1,) * (nb - (nx - 2)) + sx[:-2]
    ys = (1,) * (nb - (ny - 2)) + sy[:-2]
    both = [i for i in range(nb) if xs[i] == ys[i] != 1]
    x = st.reshape(x, tuple(n for n in xs if n != 1) + sx[-2:])
    y = st.reshape(y, tuple(n for n in ys if n != 1) + sy[-2:])
    in_x = [i for i in range(nb) if xs[i] != 1]
    in_y = [i for i in range(nb) if ys[i] != 1]
    dims: DimensionPairs = (
        ((x.aval.ndim - 1,), (y.aval.ndim - 2,)),
        ([in_x.index(i) for i in both], [in_y.index(i) for i in both]),
    )
    out = _contract(x, y, dims, precision, preferred_element_type, "matmul")
    # The result's dimensions: both, those of x alone, rows, those of y alone, columns.
    labels: list[Any] = [
        *both,
        *[i for i in in_x if i not in both],
        "row",
        *[i for i in in_y if i not in both],
        "column",
    ]
    kept = [i for i in range(nb) if i in labels]
    out = st.transpose(out, [labels.index(k) for k in [*kept, "row", "column"]])
    return st.reshape(out, (*batch, sx[-2], sy[-1]))


@takes_out_sharding
def dot(
    a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None, out_sharding: Any = None
) -> Value:
    """The dot product: over the last axis of a and the last but one of b; a product for scalars.

    Args: as `matmul`. Follows `numpy.dot`.

    Raises TypeError where the sizes of the axes summed over differ.

    >>> quire.numpy.dot(quire.numpy.array([1, 2]), quire.numpy.array([3, 4])).item()
    11
    """
    x, y = _factors("dot", preferred_element_type, ensure("dot", a, 0), ensure("dot", b, 1))
    nx, ny = x.aval.ndim, y.aval.ndim
    if nx == 0 or ny == 0:
        out = multiply(x, y)
        return out if preferred_element_type is None else cast(out, user_dtype("dot", preferred_element_type))
    if x.aval.shape[-1] != y.aval.shape[max(ny - 2, 0)]:
        raise TypeError(
            f"quire.numpy.dot: the contracted dimensions of {x.aval.short()} and {y.aval.short()} must be equal"
        )
    dims: DimensionPairs = (((nx - 1,), (max(ny - 2, 0),)), ((), ()))
    return _contract(x, y, dims, precision, preferred_element_type, "dot")


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The dot product of the flattened arrays, the first conjugated. Follows `numpy.vdot`.

    Raises TypeError for arrays of different sizes.

    >>> quire.numpy.vdot(quire.numpy.array([1j]), quire.numpy.array([1j])).item()
    (1+0j)
    """
    x, y = ensure("vdot", a), ensure("vdot", b)
    if x.aval.size != y.aval.size:
        raise TypeError(f"quire.numpy.vdot: the sizes of {x.aval.short()} and {y.aval.short()} must be equal")
    if dtypes.is_complex(x.aval.dtype):
        x = ew.conj_p.bind(x)
    return dot(ravel(x), ravel(y), precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The dot products along an axis, the first argument conjugated. Follows `numpy.vecdot`.

    Raises ValueError where the sizes along the axis differ.

    >>> quire.numpy.vecdot(quire.numpy.ones((2, 3)), quire.numpy.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x, y = ensure("vecdot", x1, 0), ensure("vecdot", x2, 1)
    x = moveaxis(x, as_axis("vecdot", axis, x.aval.ndim), -1)
    y = moveaxis(y, as_axis("vecdot", axis, y.aval.ndim), -1)
    if x.aval.shape[-1] != y.aval.shape[-1]:
        raise ValueError(f"quire.numpy.vecdot: sizes along the axis differ: {x.aval.short()} and {y.aval.short()}")
    if dtypes.is_complex(x.aval.dtype):
        x = ew.conj_p.bind(x)
    x, y = _factors("vecdot", preferred_element_type, x, y)
    row = st.reshape(x, (*x.aval.shape[:-1], 1, x.aval.shape[-1]))
    column = st.reshape(y, (*y.aval.shape, 1))
    out = matmul(row, column, precision=precision, preferred_element_type=preferred_element_type)
    return st.reshape(out, out.aval.shape[:-2])


def _fits(name: str, x: Value, y: Value, i: int, j: int) -> None:
    if x.aval.shape[i] != y.aval.shape[j]:
        raise TypeError(
            f"quire.numpy.{name}: the contracted dimensions of {x.aval.short()} and {y.aval.short()} must be equal, "
            f"got {x.aval.shape[i]} and {y.aval.shape[j]}"
        )


def matvec(x1: Any, x2: Any, /) -> Value:
    """Matrices times vectors, over broadcast leading dimensions. Follows `numpy.matvec`.

    Raises ValueError where x1 has fewer than 2 dimensions or x2 has none, TypeError where their last dimensions
    differ in size.

    >>> quire.numpy.matvec(quire.numpy.ones((2, 3)), quire.numpy.ones(3))
    Array([3., 3.], dtype=float32)
    """
    x, y = ensure("matvec", x1, 0), ensure("matvec", x2, 1)
    if x.aval.ndim < 2 or y.aval.ndim < 1:
        raise ValueError(
            f"quire.numpy.matvec: expected matrices and vectors, got {x.aval.short()} and {y.aval.short()}"
        )
    _fits("matvec", x, y, -1, -1)
    out = matmul(x, st.reshape(y, (*y.aval.shape, 1)))
    return st.reshape(out, out.aval.shape[:-1])


def vecmat(x1: Any, x2: Any, /) -> Value:
    """Conjugated vectors times matrices, over broadcast leading dimensions. Follows `numpy.vecmat`.

    Raises ValueError where x1 has no dimension or x2 fewer than 2, TypeError where the vectors have not as many
    components as the matrices have rows.

    >>> quire.numpy.vecmat(quire.numpy.ones(2), quire.numpy.ones((2, 3)))
    Array([2., 2., 2.], dtype=float32)
    """
    x, y = ensure("vecmat", x1, 0), ensure("vecmat", x2, 1)
    if x.aval.ndim < 1 or y.aval.ndim < 2:
        raise ValueError(
            f"quire.numpy.vecmat: expected vectors and matrices, got {x.aval.short()} and {y.aval.short()}"
        )
    _fits("vecmat", x, y, -1, -2)
    if dtypes.is_complex(x.aval.dtype):
        x = ew.conj_p.bind(x)
    out = matmul(st.reshape(x, (*x.aval.shape[:-1], 1, x.aval.shape[-1])), y)
    return st.reshape(out, (*out.aval.shape[:-2], out.aval.shape[-1]))


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The sum of products over the last axes. Follows `numpy.inner`.

    Raises TypeError where the sizes of the last axes differ.

    >>> quire.numpy.inner(quire.numpy.array([1, 2]), quire.numpy.array([3, 4])).item()
    11
    """
    x, y = _factors("inner", preferred_element_type, ensure("inner", a, 0), ensure("inner", b, 1))
    if x.aval.ndim == 0 or y.aval.ndim == 0:
        return dot(x, y, preferred_element_type=preferred_element_type)
    if x.aval.shape[-1] != y.aval.shape[-1]:
        raise TypeError(
            f"quire.numpy.inner: the last dimensions of {x.aval.short()} and {y.aval.short()} must be equal"
        )
    dims: DimensionPairs = (((x.aval.ndim - 1,), (y.aval.ndim - 1,)), ((), ()))
    return _contract(x, y, dims, precision, preferred_element_type, "inner")


def outer(a: Any, b: Any, out: None = None) -> Value:
    """All products of the elements of two flattened arrays. Follows `numpy.outer`.

    >>> quire.numpy.outer(quire.numpy.array([1, 2]), quire.numpy.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    no_out("outer", out)
    x, y = _operands("outer", a, b)
    return multiply(st.reshape(x, (x.aval.size, 1)), st.reshape(y, (1, y.aval.size)))


def kron(a: Any, b: Any) -> Value:
    """The Kronecker product. Follows `numpy.kron`.

    >>> quire.numpy.kron(quire.numpy.array([1, 10]), quire.numpy.array([1, 2]))
    Array([ 1,  2, 10, 20], dtype=int32)
    """
    x, y = _operands("kron", a, b)
    n = max(x.aval.ndim, y.aval.ndim)
    sx = (1,) * (n - x.aval.ndim) + x.aval.shape
    sy = (1,) * (n - y.aval.ndim) + y.aval.shape
    x = st.reshape(x, [k for s in sx for k in (s, 1)])
    y = st.reshape(y, [k for s in sy for k in (1, s)])
    return st.reshape(multiply(x, y), [p * q for p, q in zip(sx, sy)])


@takes_out_sharding
def tensordot(
    a: Any,
    b: Any,
    axes: Any = 2,
    *,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Value:
    """The sum of products over some axes.

    Args:
        a, b: arrays.
        axes: how many of the last axes of a and first axes of b are summed over; or a pair of (sequences of) axes.

    Raises:
        TypeError: axes is negative or larger than the number of dimensions of a or b; the sequences of axes differ in
            length; or the sizes of two axes that are summed over together differ.
        ValueError: an array has no such axis.

    Follows `numpy.tensordot`.

    >>> quire.numpy.tensordot(quire.numpy.ones((2, 3)), quire.numpy.ones((3, 2)), 1)
    Array([[3., 3.],
           [3., 3.]], dtype=float32)
    """
    x, y = _factors("tensordot", preferred_element_type, ensure("tensordot", a, 0), ensure("tensordot", b, 1))
    nx, ny = x.aval.ndim, y.aval.ndim
    try:
        n = operator.index(axes)
    except TypeError:
        ax, ay = axes
        cx = [ax] if not isinstance(ax, Sequence) else list(ax)
        cy = [ay] if not isinstance(ay, Sequence) else list(ay)
        if len(cx) != len(cy):
            raise TypeError(f"quire.numpy.tensordot: axes lists must have the same length, got {axes}") from None
        cx = [as_axis("tensordot", i, nx, "axes") for i in cx]
        cy = [as_axis("tensordot", i, ny, "axes") for i in cy]
    else:
        if not 0 <= n <= min(nx, ny):
            raise TypeError(f"quire.numpy.tensordot: axes {n} is too large for {x.aval.short()} and {y.aval.short()}")
        cx, cy = list(range(nx - n, nx)), list(range(n))
    for i, j in zip(cx, cy):
        if x.aval.shape[i] != y.aval.shape[j]:
            raise TypeError(
                f"quire.numpy.tensordot: axis {i} of {x.aval.short()} and axis {j} of {y.aval.short()} differ in size"
            )
    return _contract(x, y, ((cx, cy), ((), ())), precision, preferred_element_type, "tensordot")


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Value:
    """The cross product of vectors of 2 or 3 components. Follows `numpy.cross`.

    Raises ValueError for vectors of another number of components.

    >>> quire.numpy.cross(quire.numpy.array([1, 0, 0]), quire.numpy.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = _operands("cross", a, b)
    x = moveaxis(x, as_axis("cross", axisa, x.aval.ndim, "axisa"), -1)
    y = moveaxis(y, as_axis("cross", axisb, y.aval.ndim, "axisb"), -1)
    if x.aval.shape[-1] not in (2, 3) or y.aval.shape[-1] not in (2, 3):
        raise ValueError(
            f"quire.numpy.cross: vectors must have 2 or 3 components, got {x.aval.short()} and {y.aval.short()}"
        )
    shape = broadcast_shapes("cross", x.aval.shape[:-1], y.aval.shape[:-1])
    if x.aval.shape[-1] == 2 and y.aval.shape[-1] == 2:
        return x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0]
    zero = filled(shape, 0, x.aval.dtype)

    def parts(v: Value) -> list[Value]:
        return [broadcast_to(v[..., i], shape) if i < v.aval.shape[-1] else zero for i in range(3)]

    (x0, x1, x2), (y0, y1, y2) = parts(x), parts(y)
    out = stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1)
    return moveaxis(out, -1, axisc)


# -- einsum -----------------------------------------------------------------------------------------------------------------


@takes_out_sharding
def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    out: None = None,
    optimize: Any = "auto",
    precision: Any = None,
    preferred_element_type: Any = None,
    _dot_general: Any = None,
    out_sharding: Any = None,
) -> Value:
    """Einstein's summation: products of arrays summed over indices.

    Args:
        subscripts: the indices of the operands and of the result: "ij,jk->ik"; or operands and lists of integers in
            turn, as `numpy.einsum` takes them.
        operands: arrays.
        optimize: how opt_einsum chooses the order of contractions: "auto", "optimal", "greedy", True, False, a path.
        precision, preferred_element_type: as in `matmul`.
        _dot_general: multiplies two operands in place of `quire.lax.dot_general`, with its arguments; libraries give it.

    Raises:
        ValueError: the subscripts are malformed, or do not fit the number and the shapes of the operands.

    Follows `numpy.einsum`.

    >>> quire.numpy.einsum("ij,j->i", quire.numpy.ones((2, 3)), quire.numpy.ones(3))
    Array([3., 3.], dtype=float32)
    """
    no_out("einsum", out)
    if isinstance(subscripts, str):
        arrays = [ensure("einsum", x, i) for i, x in enumerate(operands)]
        call: tuple[Any, ...] = (subscripts, *arrays)
    else:
        given = [subscripts, *operands]
        arrays = [ensure("einsum", x, i) for i, x in enumerate(given[: len(given) // 2 * 2 : 2])]
        call = tuple(v for i, x in enumerate(arrays) for v in (x, given[2 * i + 1])) + tuple(
            given[len(given) // 2 * 2 :]
        )
    path_type: Any = {True: "optimal", False: None}.get(optimize, optimize) if isinstance(optimize, bool) else optimize
    shapes = tuple(_Shape(v.aval.shape) if hasattr(v, "aval") else v for v in call)
    try:
        if path_type is None:
            path_type = [tuple(range(len(arrays)))]
        _, info = opt_einsum.contract_path(*shapes, optimize=path_type, use_blas=True)
    except ValueError as error:
        raise ValueError(f"quire.numpy.einsum: {error}") from None
    wanted = None if preferred_element_type is None else user_dtype("einsum", preferred_element_type)
    values = _factors("einsum", wanted, *arrays)
    steps: list[Any] = list(info.contraction_list)
    for step in steps:
        positions, expression = step[0], step[2]
        picked = [values.pop(i) for i in sorted(positions, reverse=True)]
        inputs, output = expression.split("->")
        names = inputs.split(",")
        # opt_einsum lists the operands in the order in which they are popped.
        values.append(_einsum_step(names, output, picked, precision, wanted, _dot_general))
    result = values[0]
    return cast(result, wanted) if wanted is not None else result


class _Shape:
    """An operand of which opt_einsum sees only the shape."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.ndim = len(shape)


def _einsum_step(
    names: list[str], output: str, values: list[Value], precision: Any, wanted: DType | None, product: Any
) -> Value:
    """One contraction of one, two or more operands."""
    operands = [_diagonals(n, v) for n, v in zip(names, values)]
    while len(operands) > 2:
        (n0, v0), (n1, v1), *rest = operands
        later = set(output).union(*[set(n) for n, _ in rest])
        joined = "".join(c for c in dict.fromkeys(n0 + n1) if c in later)
        operands = [(joined, _pair(n0, v0, n1, v1, joined, precision, wanted, product)), *rest]
    if len(operands) == 1:
        name, value = operands[0]
        return _single(name, value, output, wanted)
    (n0, v0), (n1, v1) = operands
    return _pair(n0, v0, n1, v1, output, precision, wanted, product)


def _diagonals(name: str, value: Value) -> tuple[str, Value]:
    """Repeated indices of one operand as diagonals."""
    for c in dict.fromkeys(name):
        while name.count(c) > 1:
            i = name.index(c)
            j = name.index(c, i + 1)
            value = diagonal(value, 0, i, j)
            name = "".join(k for p, k in enumerate(name) if p not in (i, j)) + c
    return name, value


def _single(name: str, value: Value, output: str, wanted: DType | None = None) -> Value:
    gone = tuple(i for i, c in enumerate(name) if c not in output)
    if gone:
        given = value.aval.dtype
        if wanted is not None and (dtypes.is_complex(wanted) or dtypes.is_float(wanted) and not dtypes.is_complex(given)
                                   or not dtypes.is_inexact(given)):  # fmt: skip
            value = cast(value, wanted)
        value = sum_(
            value, axis=gone, dtype=None if not dtypes.is_bool(value.aval.dtype) else bool, promote_integers=False
        )
        name = "".join(c for c in name if c in output)
    return st.transpose(value, [name.index(c) for c in output])


def _pair(
    n0: str, x: Value, n1: str, y: Value, output: str, precision: Any, wanted: DType | None, product: Any = None
) -> Value:
    # A dimension of size 1 that broadcasts against the other operand's is dropped.
    n0, x, n1, y = _squeezed(n0, x, n1, y)
    # What only one operand has and the result doesn't is summed first.
    n0, x = _summed(n0, x, set(n1) | set(output), wanted)
    n1, y = _summed(n1, y, set(n0) | set(output), wanted)
    if x.aval.dtype != y.aval.dtype:  # one was summed in the preferred dtype
        x, y = _factors("einsum", wanted, x, y)
    batch = [c for c in output if c in n0 and c in n1]
    summed = [c for c in n0 if c in n1 and c not in output]
    if output == "".join([*batch, *(c for c in n1 + n0 if c not in batch and c not in summed)]):
        n0, x, n1, y = n1, y, n0, x  # in this order the product needs no transpose
    dims: DimensionPairs = (
        ([n0.index(c) for c in summed], [n1.index(c) for c in summed]),
        ([n0.index(c) for c in batch], [n1.index(c) for c in batch]),
    )
    if product is None:
        value = _contract(x, y, dims, precision, wanted, "einsum")
    else:
        value = product(x, y, dims, precision=precision, preferred_element_type=wanted)
    names = [
        *batch,
        *[c for c in n0 if c not in batch and c not in summed],
        *[c for c in n1 if c not in batch and c not in summed],
    ]
    return st.transpose(value, [names.index(c) for c in output])


def _summed(name: str, value: Value, needed: set[str], wanted: DType | None) -> tuple[str, Value]:
    kept = "".join(c for c in name if c in needed)
    return (kept, _single(name, value, kept, wanted)) if kept != name else (name, value)


def _squeezed(n0: str, x: Value, n1: str, y: Value) -> tuple[str, Value, str, Value]:
    drop0 = [i for i, c in enumerate(n0) if c in n1 and x.aval.shape[i] == 1 != y.aval.shape[n1.index(c)]]
    drop1 = [i for i, c in enumerate(n1) if c in n0 and y.aval.shape[i] == 1 != x.aval.shape[n0.index(c)]]
    for names, shape, other in ((n0, x.aval.shape, (n1, y.aval.shape)),):
        for i, c in enumerate(names):
            if (
                c in other[0]
                and 1 not in (shape[i], other[1][other[0].index(c)])
                and shape[i] != other[1][other[0].index(c)]
            ):
                raise ValueError(
                    f"quire.numpy.einsum: index {c!r} has sizes {shape[i]} and {other[1][other[0].index(c)]}"
                )
    x = st.squeeze(x, drop0)
    y = st.squeeze(y, drop1)
    return (
        "".join(c for i, c in enumerate(n0) if i not in drop0),
        x,
        "".join(c for i, c in enumerate(n1) if i not in drop1),
        y,
    )


def einsum_path(subscripts: Any, /, *operands: Any, optimize: Any = "auto") -> tuple[list[Any], Any]:
    """The order of contractions that `einsum` takes, and its description. Follows `numpy.einsum_path`.

    >>> x = quire.numpy.ones((2, 2))
    >>> quire.numpy.einsum_path("ij,jk->ik", x, x)[0]
    [(0, 1)]
    """
    if isinstance(optimize, bool):
        optimize = "optimal" if optimize else [tuple(range(len(operands)))]
    shapes = [_Shape(v.aval.shape) if hasattr(v, "aval") else v for v in operands]
    path, description = opt_einsum.contract_path(subscripts, *shapes, optimize=optimize)
    return list(path), description


__all__ = [
    "cross", "dot", "einsum", "einsum_path", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot",
    "vecmat",
]  # fmt: skip
