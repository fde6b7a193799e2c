"""Products and views under the names of quire.numpy.linalg, with the arguments of the Array API standard."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import quire.numpy as qnp

from ...arrays.explicit import takes_out_sharding
from ...arrays.operands import Value, as_axis, plain, promote_dtypes


def matmul(x1: Any, x2: Any, /, *, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The matrix product; `quire.numpy.matmul`. Follows `numpy.linalg.matmul`.

    >>> quire.numpy.linalg.matmul(quire.numpy.ones((2, 3)), quire.numpy.ones(3))
    Array([3., 3.], dtype=float32)
    """
    return qnp.matmul(x1, x2, precision=precision, preferred_element_type=preferred_element_type)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None, preferred_element_type: Any = None) -> Value:
    """The dot products along an axis, the first argument conjugated. Follows `numpy.linalg.vecdot`.

    >>> quire.numpy.linalg.vecdot(quire.numpy.ones((2, 3)), quire.numpy.ones(3))
    Array([3., 3.], dtype=float32)
    """
    return qnp.vecdot(x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type)


@takes_out_sharding
def tensordot(
    x1: Any, x2: Any, /, *, axes: Any = 2, precision: Any = None, preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Value:  # fmt: skip
    """The sum of products over some axes; `quire.numpy.tensordot`. Follows `numpy.linalg.tensordot`.

    >>> quire.numpy.linalg.tensordot(quire.numpy.ones((2, 3)), quire.numpy.ones((2, 3))).item()
    6.0
    """
    return qnp.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


def outer(x1: Any, x2: Any, /) -> Value:
    """All products of the elements of two vectors. Follows `numpy.linalg.outer`.

    Raises ValueError unless both have one dimension.

    >>> quire.numpy.linalg.outer(quire.numpy.array([1, 2]), quire.numpy.array([3, 4]))
    Array([[3, 4],
           [6, 8]], dtype=int32)
    """
    x, y = plain("outer", x1, x2)
    if x.aval.ndim != 1 or y.aval.ndim != 1:
        raise ValueError(
            f"quire.numpy.linalg.outer: both arguments must be vectors, got {x.aval.short()} and {y.aval.short()}"
        )
    return qnp.outer(x, y)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Value:
    """The cross products of vectors of 3 components along an axis. Follows `numpy.linalg.cross`.

    Raises ValueError for vectors of another number of components.

    >>> quire.numpy.linalg.cross(quire.numpy.array([1, 0, 0]), quire.numpy.array([0, 1, 0]))
    Array([0, 0, 1], dtype=int32)
    """
    x, y = plain("cross", x1, x2)
    for v in (x, y):
        if v.aval.shape[as_axis("linalg.cross", axis, v.aval.ndim)] != 3:
            raise ValueError(
                f"quire.numpy.linalg.cross: vectors must have 3 components along axis {axis}, got {x.aval.short()} and "
                f"{y.aval.short()}"
            )
    return qnp.cross(x, y, axis=axis)


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Value:
    """The product of several matrices, in the order that needs the fewest multiplications.

    Args:
        arrays: matrices; the first and the last may be vectors.

    Raises ValueError for arrays of other dimensions. Follows `numpy.linalg.multi_dot`.

    >>> quire.numpy.linalg.multi_dot([quire.numpy.ones((2, 3)), quire.numpy.ones((3, 4)), quire.numpy.ones(4)])
    Array([12., 12.], dtype=float32)
    """
    values = plain("multi_dot", *arrays)
    if not values:
        raise ValueError("quire.numpy.linalg.multi_dot: there must be at least one array, got none")
    last = len(values) - 1
    for i, x in enumerate(values):
        if x.aval.ndim != 2 and not (x.aval.ndim == 1 and i in (0, last)):
            raise ValueError(
                f"quire.numpy.linalg.multi_dot: array {i} must be a matrix{' or a vector' if i in (0, last) else ''}, "
                f"got {x.aval.short()}"
            )
    if last == 0:
        return values[0]
    for i, (x, y) in enumerate(zip(values, values[1:])):
        if x.aval.shape[-1] != y.aval.shape[0]:
            raise ValueError(
                f"quire.numpy.linalg.multi_dot: arrays {i} and {i + 1}, {x.aval.short()} and {y.aval.short()}, do not fit"
            )
    values = promote_dtypes(*values)  # before products of two, which would be of their dtype
    row = [values[0].aval.shape[0] if values[0].aval.ndim == 2 else 1, *(x.aval.shape[0] for x in values[1:])]
    column = values[-1].aval.shape[1] if values[-1].aval.ndim == 2 else 1
    splits = _fewest_multiplications([*row, column])

    def product(i: int, j: int) -> Value:
        """That of the arrays i to j."""
        if i == j:
            return values[i]
        k = splits[i, j]
        return qnp.dot(product(i, k), product(k + 1, j), precision=precision)

    return product(0, last)


def _fewest_multiplications(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """After which matrix to part the product of the matrices i to j, of shapes (sizes[i], sizes[i + 1]).

    In cubic time, where a search through all orders, as einsum's "optimal" is, would not end for a dozen matrices.
    """
    n = len(sizes) - 1
    least = {(i, i): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            costs = [(least[i, k] + least[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            least[i, j], splits[i, j] = min(costs)
    return splits


def matrix_transpose(x: Any, /) -> Value:
    """The matrices transposed; `quire.numpy.matrix_transpose`. Follows `numpy.linalg.matrix_transpose`.

    >>> quire.numpy.linalg.matrix_transpose(quire.numpy.ones((5, 2, 3))).shape
    (5, 3, 2)
    """
    return qnp.matrix_transpose(x)


def diagonal(x: Any, /, *, offset: int = 0) -> Value:
    """The diagonals of matrices (..., m, n). Follows `numpy.linalg.diagonal`.

    >>> quire.numpy.linalg.diagonal(quire.numpy.array([[1, 2], [3, 4]]))
    Array([1, 4], dtype=int32)
    """
    return qnp.diagonal(plain("diagonal", x)[0], offset, -2, -1)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Value:
    """The sums of the diagonals of matrices (..., m, n). Follows `numpy.linalg.trace`.

    >>> quire.numpy.linalg.trace(quire.numpy.array([[1, 2], [3, 4]])).item()
    5
    """
    return qnp.trace(plain("trace", x)[0], offset, -2, -1, dtype)
