"""Arrays as sets: distinct elements, union, intersection, difference. `isin` is among the predicates.

The number of distinct elements depends on the values: where they are traced, `size` gives the result's length; excess
is cut off, and what is missing becomes `fill_value` (by default the least element).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from quire.ir import dtypes
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from ..arrays.operands import Value, as_axis, as_int, broadcast_to, cast, ensure, known_shape_operand, promote_dtypes
from ._ops import select
from .creation import filled
from .elementwise import isnan
from .joining import concatenate
from .positions import nonzero
from .predicates import isin
from .ranges import iota
from .reductions import any as any_
from .reductions import cumsum
from .reductions import sum as sum_
from .shapes import moveaxis, ravel
from .sorting import argsort, lexsort, searchsorted, sort

_ADVICE = "give size=n, the number of elements of the result"


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def _index_dtype() -> Any:
    return dtypes.canonicalize(dtypes.int64)


def _new_rows(rows: Value, equal_nan: bool) -> Value:
    """Of sorted rows, which ones differ from the one before."""
    n = rows.aval.shape[0]
    low, high = st.slice_in_dim(rows, 0, n - 1), st.slice_in_dim(rows, 1, n)
    differ = ew.ne_p.bind(low, high)
    if equal_nan and dtypes.is_inexact(rows.aval.dtype):
        differ = differ & ~(ew.ne_p.bind(low, low) & ew.ne_p.bind(high, high))
    if rows.ndim > 1:
        differ = any_(differ, tuple(range(1, rows.ndim)))
    return concatenate([filled((1,), True, dtypes.bool_), differ])


class _Sorted(NamedTuple):
    rows: Value  # the rows in ascending order
    new: Value  # bool: whether each is the first of its kind
    order: Value  # the position of each in the array


def _sorted(x: Value, equal_nan: bool) -> _Sorted:
    """The rows of an array in order. One NaN part makes a complex number NaN, and so last."""
    n, *rest = x.aval.shape
    if dtypes.is_complex(x.aval.dtype):
        x = select(ew.ne_p.bind(x, x), x.aval.dtype.type(complex(np.nan, 0)), x)
    columns = st.reshape(x, (n, int(np.prod(rest, dtype=int))))
    keys = tuple(columns[:, i] for i in reversed(range(columns.aval.shape[1])))
    order = lexsort(keys)
    rows = x[order]
    return _Sorted(rows, _new_rows(rows, equal_nan), order)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements in ascending order.

    Args:
        ar: an array.
        return_index: also return where each first occurs.
        return_inverse: also return, for each element of `ar`, its place among the distinct ones.
        return_counts: also return how often each occurs.
        axis: take the slices along an axis as elements; None: the elements of the flattened array.
        equal_nan: whether all NaNs are one element.
        size: the number of results, needed where `ar` is traced: excess is cut off.
        fill_value: what missing results are: by default the least element.
        sorted: ignored, they are sorted always.

    Returns:
        The distinct elements; a tuple with what else was asked for, in the order of the arguments.

    Raises:
        ConcretizationTypeError: the values are traced and no size is given.

    Follows `numpy.unique`.

    >>> quire.numpy.unique(quire.numpy.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = ensure("unique", ar)
    shape = x.aval.shape
    d = 0 if axis is None else as_axis("unique", axis, x.ndim)
    rows = ravel(x) if axis is None else moveaxis(x, d, 0)
    if size is None:
        known_shape_operand("unique", x, _ADVICE)
    n = None if size is None else as_int("unique", size, "size")
    values, found = _distinct(rows, n, fill_value, equal_nan)
    out = [moveaxis(values, 0, d)]
    if return_index:
        out.append(found.first)
    if return_inverse:
        out.append(st.reshape(found.inverse, shape) if axis is None else found.inverse)
    if return_counts:
        out.append(found.counts)
    return out[0] if len(out) == 1 else tuple(out)


class _Found(NamedTuple):
    first: Value
    inverse: Value
    counts: Value
    number: Value


def _distinct(x: Value, size: int | None, fill_value: Any, equal_nan: bool) -> tuple[Value, _Found]:
    """The distinct rows of an array, and where and how often they occur."""
    index = _index_dtype()
    n, dtype = x.aval.shape[0], x.aval.dtype
    if not n:
        k = size or 0
        if k and fill_value is None:
            raise ValueError("quire.numpy.unique: an empty array has no element to fill with: give fill_value")
        nothing = filled((k,), 0, index)
        rows = filled((k, *x.aval.shape[1:]), 0, dtype) if not k else _filling("unique", fill_value, x, k)
        return rows, _Found(nothing, filled((0,), 0, index), nothing, filled((), 0, index))
    if x.aval.size:
        rows, new, order = _sorted(x, equal_nan)
    else:  # rows without elements are all equal
        rows, new, order = x, iota((n,), 0, np.dtype(np.int32)) == 0, iota((n,), 0, index)
    places = nonzero(new, size=size, fill_value=n)[0]
    number, last = sum_(cast(new, index)), np.int64(n - 1).astype(index)
    inside = ew.min_p.bind(places, broadcast_to(last, places.aval.shape))
    ends = concatenate([places[1:], filled((1,), n, index)]) if places.aval.size else places
    counts = ends - places
    exists = iota(places.aval.shape, 0, index) < number
    if size is not None:
        inside = select(exists, inside, filled(inside.aval.shape, 0, index))
        counts = _last_count(new, counts, exists, size, n)
    values = rows[inside]
    if size is not None and fill_value is not None and size:
        mask = st.broadcast_in_dim(exists, values.aval.shape, (0,))
        values = select(mask, values, _filling("unique", fill_value, x, size))
    inverse = filled((n,), 0, index).at[order].set(cast(cumsum(cast(new, np.dtype(np.int32))), index) - 1)
    return values, _Found(cast(order[inside], index), inverse, counts, number)


def _last_count(new: Value, counts: Value, exists: Value, size: int, n: int) -> Value:
    """Counts of `size` elements: where more were cut off, the last one ends where the next one begins."""
    index = counts.aval.dtype
    starts = nonzero(new, size=size + 1, fill_value=n)[0]
    return select(exists, starts[1:] - starts[:-1], filled((size,), 0, index))


def _filling(name: str, fill_value: Any, x: Value, size: int) -> Value:
    """Rows of fill_value, in the dtype of x."""
    return cast(_fill_rows(name, fill_value, x, size), x.aval.dtype)


def _fill_rows(name: str, fill_value: Any, x: Value, size: int) -> Value:
    value = ensure(name, fill_value, "fill_value")
    shape = (size, *x.aval.shape[1:])
    if len(value.aval.shape) > len(shape) or any(a not in (1, b) for a, b in zip(value.aval.shape[::-1], shape[::-1])):
        raise ValueError(
            f"quire.numpy.{name}: fill_value {value.aval.short()} must be a scalar, or broadcast to the results' shape {shape}"
        )
    return broadcast_to(value, shape)


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The distinct elements with their indices, inverse and counts; each NaN is distinct. See `unique`.

    Follows `numpy.unique_all`.

    >>> quire.numpy.unique_all(quire.numpy.array([3, 1, 3])).indices
    Array([1, 0], dtype=int32)
    """
    v = ensure("unique_all", x)
    return UniqueAll(*unique(v, True, True, True, equal_nan=False, size=size, fill_value=fill_value))


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The distinct elements and how often each occurs; each NaN is distinct. Follows `numpy.unique_counts`.

    >>> quire.numpy.unique_counts(quire.numpy.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    v = ensure("unique_counts", x)
    return UniqueCounts(*unique(v, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The distinct elements and each element's place among them; each NaN is distinct. Follows `numpy.unique_inverse`.

    >>> quire.numpy.unique_inverse(quire.numpy.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    v = ensure("unique_inverse", x)
    return UniqueInverse(*unique(v, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The distinct elements; each NaN is distinct. Follows `numpy.unique_values`.

    >>> quire.numpy.unique_values(quire.numpy.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    return unique(ensure("unique_values", x), equal_nan=False, size=size, fill_value=fill_value)


# -- two sets -------------------------------------------------------------------------------------------------------------


def _two(name: str, ar1: Any, ar2: Any, size: int | None) -> tuple[Value, Value]:
    """Two arrays, flattened, each of its own dtype."""
    x, y = ensure(name, ar1), ensure(name, ar2, 1)
    if size is None:
        for v in (x, y):
            known_shape_operand(name, v, _ADVICE)
    return ravel(x), ravel(y)


def _two_promoted(name: str, ar1: Any, ar2: Any, size: int | None) -> list[Value]:
    """Two arrays, flattened, of one dtype: that of a result with elements of both."""
    return promote_dtypes(*_two(name, ar1, ar2, size))


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Value:
    """The elements of either array, sorted, each once; `size` and `fill_value` as in `unique`.

    Follows `numpy.union1d`.

    >>> quire.numpy.union1d(quire.numpy.array([3, 1]), quire.numpy.array([2, 1]))
    Array([1, 2, 3], dtype=int32)
    """
    return unique(concatenate(_two_promoted("union1d", ar1, ar2, size)), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Value:
    """The elements of the first array that are not in the second one.

    Args:
        ar1, ar2: arrays, flattened.
        assume_unique: a promise that the elements of each are distinct: the result then keeps their order.
        size, fill_value: the number of results and what missing ones are (0 by default), needed where they are traced.

    Follows `numpy.setdiff1d`.

    >>> quire.numpy.setdiff1d(quire.numpy.array([3, 1, 2]), quire.numpy.array([2]))
    Array([1, 3], dtype=int32)
    """
    x, y = _two("setdiff1d", ar1, ar2, size)
    # All elements are the first array's: they keep its dtype, and only their comparison is in that of both.
    if size is None:
        x = x if assume_unique else unique(x)
        return x[isin(x, y, invert=True)]
    n, fill = as_int("setdiff1d", size, "size"), 0 if fill_value is None else fill_value
    if not x.aval.size:
        return _filling("setdiff1d", fill, x, n)
    if assume_unique:
        chosen = isin(x, y, invert=True)
    else:
        x, new, _ = _sorted(x, True)
        chosen = new & isin(x, y, invert=True)
    return cast(_chosen("setdiff1d", x, chosen, n, fill), x.aval.dtype, x.aval.weak_type)


def _chosen(name: str, x: Value, mask: Value, size: int, fill: Any) -> Value:
    """The first `size` elements that a mask selects; for missing ones `fill`: None for the least of them, 0 if none.

    The result's dtype is that of the elements and of `fill`.
    """
    places, exists = _places(mask, size)
    found = x[places]
    if not size:
        return found
    if fill is None:
        zero = filled((), 0, x.aval.dtype)
        least = select(exists[0], found[0], zero)
        if dtypes.is_float(x.aval.dtype):  # the elements are sorted, but a minimum is NaN where there is one
            least = select(any_(mask & isnan(x)), filled((), np.nan, x.aval.dtype), least)
        return select(exists, found, broadcast_to(least, (size,)))
    return select(exists, *promote_dtypes(found, _fill_rows(name, fill, x, size)))


def _nothing_but(name: str, fill: Any, x: Value, size: int) -> Value:
    """`size` results of no elements: `fill` or 0, in the dtype of the elements and of `fill`."""
    zeros = filled((size,), 0, x.aval.dtype)
    return zeros if fill is None else promote_dtypes(zeros, _fill_rows(name, fill, x, size))[1]


def _places(mask: Value, size: int) -> tuple[Value, Value]:
    """The indices of the first `size` elements that a mask selects, and whether there are so many."""
    index = _index_dtype()
    places = nonzero(mask, size=size, fill_value=0)[0]
    return places, iota((size,), 0, index) < sum_(cast(mask, index))


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None, fill_value: Any = None
) -> Value:
    """The elements of one of the arrays that are not in the other, sorted; arguments as `setdiff1d`'s, where by
    default missing elements are the least of the result.

    Follows `numpy.setxor1d`.

    >>> quire.numpy.setxor1d(quire.numpy.array([3, 1]), quire.numpy.array([2, 1]))
    Array([2, 3], dtype=int32)
    """
    x, y = _two_promoted("setxor1d", ar1, ar2, size)
    if assume_unique:  # then an element of both is one that occurs twice
        both = sort(concatenate([x, y]))
        differs = both[1:] != both[:-1]
        end = filled((1,), True, np.dtype(bool))
        mask = concatenate([end, differs]) & concatenate([differs, end]) if both.aval.size else differs[:0]
        if size is None:
            return both[mask]
        n = as_int("setxor1d", size, "size")
        return (
            _chosen("setxor1d", both, mask, n, fill_value)
            if both.aval.size
            else _nothing_but("setxor1d", fill_value, both, n)
        )
    if size is None:
        x, y = unique(x), unique(y)
        return sort(concatenate([x[isin(x, y, invert=True)], y[isin(y, x, invert=True)]]))  # a NaN of each is two
    n, both = as_int("setxor1d", size, "size"), concatenate([x, y])
    outside = concatenate([isin(x, y, invert=True), isin(y, x, invert=True)])
    if not both.aval.size:
        return _nothing_but("setxor1d", fill_value, both, n)
    rows, new, order = _sorted(both, False)
    return _chosen("setxor1d", rows, new & outside[order], n, fill_value)


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements of both arrays, sorted, each once.

    Args:
        ar1, ar2: arrays, flattened.
        assume_unique: a promise that the elements of each are distinct.
        return_indices: also return where each first occurs in either array.
        size, fill_value: the number of results and what missing ones are (by default the least element of the result;
            missing indices are the array's size), needed where they are traced.

    Follows `numpy.intersect1d`.

    >>> quire.numpy.intersect1d(quire.numpy.array([3, 1, 2]), quire.numpy.array([2, 5, 3]))
    Array([2, 3], dtype=int32)
    """
    x, y = _two_promoted("intersect1d", ar1, ar2, size)
    index = _index_dtype()
    if not x.aval.size or not y.aval.size:
        n = 0 if size is None else as_int("intersect1d", size, "size")
        values = _nothing_but("intersect1d", fill_value, x, n)
        out = (values, filled((n,), x.aval.size, index), filled((n,), y.aval.size, index))
        return out if return_indices else values
    rows, new, order = _sorted(x, False)
    common = new & isin(rows, y)
    if size is None:
        places = nonzero(common)[0]
        values = rows[places]
        if not return_indices:
            return values
        return values, cast(order[places], index), _first_places(y, values)
    n = as_int("intersect1d", size, "size")
    values = _chosen("intersect1d", rows, common, n, fill_value)
    if not return_indices:
        return values
    places, exists = _places(common, n)
    first = select(exists, cast(order[places], index), filled((n,), x.aval.size, index))
    return values, first, select(exists, _first_places(y, rows[places]), filled((n,), y.aval.size, index))


def _first_places(x: Value, values: Value) -> Value:
    """Where each of some values, all present, first occurs in a vector."""
    order = argsort(x)
    return cast(order[searchsorted(x[order], values)], _index_dtype())


__all__ = [
    "intersect1d", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip
