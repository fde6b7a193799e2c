"""What the comparator of a sort of StableHLO means, found out by what it says of all sorts of values.

A comparator that is made of comparisons and choices alone, with no other numbers than zeros, NaN and the like, depends on
nothing but the order of its operands, and on which of them are special. So it is tried on all special values and some
ordinary ones, and is taken for the order that says the same of them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.dtypes import DType
from quire.ir.jaxpr import ClosedJaxpr, Literal
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.tracing import eval_jaxpr, no_trace

from ..transforms.vectorization import vmap

Value = Any
_ORDERING = frozenset(
    ("lt", "le", "gt", "ge", "eq", "ne", "select_n", "and", "or", "not", "xor", "bitcast_convert_type", "is_finite", "real",
     "imag", "sub", "convert_element_type", "copy", "neg", "max", "min")
)  # fmt: skip


def ordered(x: Value, dtype: DType) -> Value:
    """Integers that compare as the bits of floats do in IEEE's total order: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    if not dtypes.is_float(dtype):
        return x
    signed = np.dtype(f"int{8 * dtype.itemsize}")
    bits = ew.bitcast_convert_type(x, signed)
    flipped = ew.bitwise_xor(bits, np.asarray(np.iinfo(signed).max, signed)[()])
    return ew.where(ew.lt(bits, np.zeros((), signed)[()]), flipped, bits)


@dataclass(frozen=True)
class Order:
    """How a sort compares: by its first `keys` operands; by the bits of floats (`total`); the largest first."""

    keys: int
    total: bool
    descending: bool


def _samples(dtype: DType) -> np.ndarray[Any, Any]:
    if dtypes.is_bool(dtype):
        return np.array([False, True])
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        return np.array(sorted({info.min, info.max, 0, 1, 2, max(info.min, -1)}), dtype)
    if dtypes.is_complex(dtype):
        parts = [-1.0, -0.0, 0.0, 1.0, np.nan]
        return np.array([complex(a, b) for a in parts for b in parts], dtype)
    numbers = np.array([-np.inf, -2.0, -1.0, -0.0, 0.0, 1.0, 2.0, np.inf, np.nan]).astype(dtype)
    return np.concatenate([numbers, -numbers[-1:]])


def _tuples(types: Sequence[DType]) -> list[np.ndarray[Any, Any]]:
    """Arrays of operands as a comparator takes them, two of each type: all pairs of the first, the others in between."""
    rng = np.random.default_rng(0)
    pools = [_samples(d) for d in types]
    n = 4096
    columns: list[np.ndarray[Any, Any]] = []
    for i, pool in enumerate(pools):
        a, b = rng.integers(0, len(pool), (2, n))
        if i == 0:
            pairs = len(pool) ** 2
            a, b = np.arange(n) % pairs // len(pool), np.arange(n) % len(pool)
        else:  # ties of the earlier keys let the later ones speak
            b = np.where(rng.integers(0, 3, n) == 0, a, b)
        columns += [pool[a], pool[b]]
    if len(pools) > 1:
        same = rng.integers(0, 2, n) == 0
        columns[1] = np.where(same, columns[0], columns[1])
    return columns


def _less(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], total: bool) -> tuple[Any, Any]:
    """Whether a is before b, and whether they are equal, by quire's order or by the bits."""
    if dtypes.is_complex(a.dtype):
        first, alike = _less(a.real.copy(), b.real.copy(), total)
        second, equal = _less(a.imag.copy(), b.imag.copy(), total)
        return first | (alike & second), alike & equal
    if not dtypes.is_float(a.dtype):
        return a < b, a == b
    if not total:
        nan_a, nan_b = np.isnan(a), np.isnan(b)
        return (a < b) | (~nan_a & nan_b), (a == b) | (nan_a & nan_b)
    bits = f"i{a.dtype.itemsize}"
    x, y = a.view(bits), b.view(bits)
    top = np.iinfo(bits).max
    x, y = np.where(x < 0, x ^ top, x), np.where(y < 0, y ^ top, y)
    return x < y, x == y


def _expected(order: Order, columns: Sequence[np.ndarray[Any, Any]]) -> Any:
    found: Any = np.zeros(columns[0].shape, bool)
    for k in range(order.keys - 1, -1, -1):
        a, b = columns[2 * k : 2 * k + 2]
        less, equal = _less(b, a, order.total) if order.descending else _less(a, b, order.total)
        found = less | (equal & found)
    return found


def order_of(comparator: ClosedJaxpr, types: Sequence[DType]) -> Order | None:
    """The order by which a comparator (a, a', b, b', ... to bool) sorts; None where it is another function."""
    for eqn in comparator.eqns:
        if eqn.primitive.name not in _ORDERING:
            return None
        for a in eqn.inputs:
            ordinary = isinstance(a, Literal) and dtypes.is_float(a.aval.dtype)
            if ordinary and np.isfinite(a.value) and a.value != 0:  # pyright: ignore[reportAttributeAccessIssue]
                return None
    columns = _tuples(types)
    with no_trace(), np.errstate(all="ignore"):
        out = np.asarray(vmap(lambda *xs: eval_jaxpr(comparator.jaxpr, (), xs)[0])(*columns))
    special = [np.isnan(c) if dtypes.is_inexact(c.dtype) else np.zeros(c.shape, bool) for c in columns]
    any_nan = np.logical_or.reduce(special)
    for ignoring_nan in (False, True):
        # A plain `a < b` says nothing of NaN: it puts them anywhere, and so at the end.
        where = ~any_nan if ignoring_nan else np.ones_like(any_nan)
        for descending in (False, True):
            for total in (False, True):
                for keys in range(1, len(types) + 1):
                    order = Order(keys, total, descending)
                    if np.array_equal(out[where], _expected(order, columns)[where]):
                        return order
    return None


def sort_by(order: Order, operands: Sequence[Value], types: Sequence[DType], dimension: int) -> list[Value]:
    """Arrays sorted by an order; equal elements keep theirs."""
    if not order.total and not order.descending:
        return so.sort(operands, dimension, True, order.keys)
    keys: list[Value] = []
    for x, d in zip(operands[: order.keys], types):
        for part in [ew.real(x), ew.imag(x)] if dtypes.is_complex(d) else [x]:
            keys.append(_key(part, dtypes.real_dtype(d), order))
    return so.sort([*keys, *operands], dimension, True, len(keys))[len(keys) :]


def _key(x: Value, dtype: DType, order: Order) -> Value:
    """Integers in the order's order."""
    if dtypes.is_float(dtype) and not order.total:
        zero, nan = np.zeros((), dtype)[()], np.asarray(np.nan, dtype)[()]
        x = ew.select_n(ew.eq(x, zero), x, _like(x, zero))
        x = ew.select_n(ew.ne(x, x), x, _like(x, nan))
    bits = ew.convert_element_type(x, np.uint8) if dtypes.is_bool(dtype) else ordered(x, dtype)
    return ew.bitwise_not(bits) if order.descending else bits


def _like(x: Value, scalar: Any) -> Value:
    return st.full_like(x, scalar)
