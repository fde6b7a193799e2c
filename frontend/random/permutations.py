"""Permutations, and choices of elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.dtypes import DType

from .. import lax
from .. import numpy as qnp
from ..arrays.key_array import is_keys
from ..arrays.operands import ensure
from .bits import randint, uniform
from .continuous import check_gumbel_mode, gumbel
from .keys import random_bits, sampler, shape_of, split_raw

Array = Any


def _shuffled(key: Array, x: Array, axis: int) -> Array:
    """The elements in a random order along an axis, by sorting random numbers, so often that ties do not matter."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(np.iinfo(np.uint32).max))
    for _ in range(rounds):
        key, now = split_raw(key)
        order = random_bits(now, 32, x.shape)
        x = lax.sort((order, x), dimension=axis, num_keys=1)[1]
    return x


@sampler
def permutation(
    key: Any, x: Any, axis: int = 0, independent: bool = False, *, out_sharding: Any = None
) -> Array:  # fmt: skip
    """An array with its slices along an axis in a random order. Follows `jax.random.permutation`.

    Args:
        x: an array, of keys too, or an integer n for ``arange(n)``.
        independent: give each vector along the axis an order of its own.

    Raises TypeError for a 0-dimensional x that is no integer and for keys in orders of their own, ValueError for an axis
    that x does not have.

    >>> sorted(quire.random.permutation(quire.random.key(0), 5).tolist())
    [0, 1, 2, 3, 4]
    """
    if _is_number("permutation", x):
        return _shuffled(key, qnp.arange(x), 0)
    x = qnp.asarray(x)
    axis = _axis("permutation", axis, x.ndim)
    if is_keys(x) and independent and x.ndim > 1:
        raise TypeError(
            f"quire.random.permutation: keys are moved in one order for all, got {x.dtype}{list(x.shape)} and independent=True"
        )
    if not is_keys(x) and (independent or x.ndim == 1):
        return _shuffled(key, x, axis)
    order = _shuffled(key, qnp.arange(x.shape[axis]), 0)
    return qnp.take(x, order, axis, unique_indices=True)


def _is_number(name: str, x: Any) -> bool:
    """Whether x is an integer that stands for ``arange(x)``, not an array of at least one dimension."""
    if is_keys(x):
        if x.shape:
            return False
        given = f"one key of dtype {x.dtype}"
    else:
        aval = aval_of(x)
        if aval.shape or not isinstance(x, bool) and dtypes.is_integer(aval.dtype):
            return not aval.shape
        given = aval.short()
    raise TypeError(f"quire.random.{name}: expected an integer or an array of at least one dimension, got {given}")


def _axis(name: str, axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise ValueError(f"quire.random.{name}: axis {axis} is out of bounds for an array of dimension {ndim}")
    return axis % ndim


@sampler
def choice(
    key: Any, a: Any, shape: Any = (), replace: bool = True, p: Any = None, axis: int = 0, mode: str | None = None
) -> Array:
    """Random elements of an array. Follows `jax.random.choice`.

    Args:
        a: an array, of keys too, whose slices along `axis` are chosen, or an integer n for ``arange(n)``.
        shape: of the choices; it takes the place of the axis in the result's shape.
        replace: whether a slice may be chosen more than once.
        p: the probability of each slice, 1-dimensional; all equal if None.
        mode: how the Gumbel numbers of weighted choices without replacement are made: "low", "high", "highest" or None.

    Raises ValueError for an empty a, more choices than slices without replacement, a p of another length or another
    mode, TypeError for a 0-dimensional a that is no integer, and for lists.

    >>> quire.random.choice(quire.random.key(0), np.array([10, 20, 30]), (4,)).shape
    (4,)
    """
    shape = shape_of("choice", shape)
    check_gumbel_mode("choice", mode)
    if _is_number("choice", a):
        a, n, axis = int(a), int(a), 0
    else:
        a = qnp.asarray(a)
        axis = _axis("choice", axis, a.ndim)
        n = a.shape[axis]
    draws = math.prod(shape)
    if n < 1 and draws:
        raise ValueError("quire.random.choice: a must not be empty (or an integer below 1) unless nothing is drawn")
    if not replace and draws > n:
        raise ValueError(
            f"quire.random.choice: cannot choose {draws} of {n} elements without replacement; replace=True repeats them"
        )
    if p is None and not replace:
        if isinstance(a, int):
            return permutation(key, n)[:draws].reshape(shape)
        some = lax.slice_in_dim(permutation(key, a, axis), 0, draws, axis=axis)
        return some.reshape(*a.shape[:axis], *shape, *a.shape[axis + 1 :])
    chosen = randint(key, shape, 0, n) if p is None else _weighted(key, shape, n, p, replace, mode)
    return chosen if isinstance(a, int) else qnp.take(a, chosen, axis)


def _weighted(key: Array, shape: tuple[int, ...], n: int, p: Any, replace: bool, mode: str | None) -> Array:
    p = ensure("quire.random.choice", p, "p")
    dt: DType = p.dtype if dtypes.is_float(p.dtype) else dtypes.canonicalize(dtypes.float64)
    p = p.astype(dt)
    if p.shape != (n,):
        raise ValueError(
            f"quire.random.choice: p must be 1-dimensional with one probability for each of the {n} elements, got "
            f"{aval_of(p).short()}"
        )
    if replace:
        total = qnp.cumsum(p)
        r = total[-1] * (np.asarray(1, dt)[()] - uniform(key, shape, dt))
        return qnp.searchsorted(total, r).astype(dtypes.canonicalize(dtypes.int64))
    scores = gumbel(key, (n,), dt, mode) + qnp.log(p)
    return lax.top_k(scores, math.prod(shape))[1].reshape(shape).astype(dtypes.canonicalize(dtypes.int64))
