"""All prefixes of a sequence, combined by an associative function.

Two orders of combining are there. The tree takes a logarithmic number of steps on ever shorter arrays (Blelloch, "Prefix Sums and
Their Applications", 1990); it is what JAX does, and what functions of concrete values and of narrow floats get. Traced
sequences that are long are cut into blocks of about as many elements as there are blocks: one loop goes along all blocks at once,
one over what the blocks give, and what comes before a block is combined with each of its prefixes. That is three kernels and
three traces of the function, where the tree has a handful of each for every halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.primitives import structural as st
from quire.tree_util import flatten_arrays, tree_unflatten

from ._tracing import check_callable, concrete_value, path, show_tree
from .control_flow import scan

#: Shorter sequences are combined as a tree.
LEAST_IN_BLOCKS = 512

Leaves = Sequence[Any]


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes combined by an associative function.

    In which order is not said: results of floats may differ from JAX's by rounding.

    Args:
        fn: combines two pytrees of arrays elementwise along `axis`: it gets slices of elems of any length there.
        elems: a pytree of arrays of one size along `axis`.
        reverse: combine suffixes instead.

    Raises TypeError when fn is no function, ValueError when sizes along the axis differ.

    Example: ``lax.associative_scan(lax.add, x)`` is the cumulative sum.
    """
    check_callable("associative_scan", "fn", fn)
    leaves, tree = flatten_arrays(elems)
    if not leaves:
        return elems
    ndims = {aval_of(x).ndim for x in leaves}
    if not all(-n <= axis < n for n in ndims):
        raise ValueError(f"associative_scan: axis {axis} is out of range for elems of ranks {sorted(ndims)}")
    sizes = [aval_of(x).shape[axis] for x in leaves]
    if len(set(sizes)) > 1:
        given = ", ".join(f"elems{path(tree, i)}: {n}" for i, n in enumerate(sizes))
        raise ValueError(f"associative_scan: all elems must have one size along axis {axis}, got {given}")
    axes = [axis % aval_of(x).ndim for x in leaves]

    def combine(a: Leaves, b: Leaves) -> list[Any]:
        out, out_tree = flatten_arrays(fn(tree_unflatten(tree, a), tree_unflatten(tree, b)))
        if out_tree != tree:
            raise TypeError(
                f"associative_scan: fn must return the structure of elems, {show_tree(tree)}, got {show_tree(out_tree)}"
            )
        return out

    values = [st.rev(x, (a,)) for x, a in zip(leaves, axes)] if reverse else list(leaves)
    prefixes = _by_blocks if _suits_blocks(values, sizes[0]) else _by_tree
    out = prefixes(combine, values, axes)
    return tree_unflatten(tree, [st.rev(x, (a,)) for x, a in zip(out, axes)] if reverse else out)


Combine = Callable[[Leaves, Leaves], list[Any]]


def _suits_blocks(values: Leaves, n: int) -> bool:
    """Whether the sequence is long, traced, and of numbers that many additions one after another do not wear out."""
    if n < LEAST_IN_BLOCKS or config.options.disable_jit:
        return False
    narrow = any(dtypes.is_float(aval_of(x).dtype) and aval_of(x).dtype.itemsize < 4 for x in values)
    return not narrow and any(concrete_value(x) is None for x in values)


def _by_blocks(combine: Combine, xs: Leaves, axes: Sequence[int]) -> list[Any]:
    n = aval_of(xs[0]).shape[axes[0]]
    length = math.isqrt(n)
    blocks = n // length

    def cut(x: Any, axis: int, start: int, stop: int) -> Any:
        return st.slice_in_dim(x, start, stop, 1, axis)

    def along(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        out = combine(carry, x)
        return out, out

    def prefixes(first: list[Any], rest: list[Any]) -> tuple[list[Any], list[Any]]:
        """The last prefix, and all, of what is stacked along a new first dimension."""
        last, ys = scan(along, first, rest)
        return last, [st.concatenate([st.reshape(f, (1, *aval_of(f).shape)), y], 0) for f, y in zip(first, ys)]

    # Within the blocks, all at once: (length, ..., blocks, ...).
    rows = [_apart(cut(x, a, 0, blocks * length), a, blocks, length) for x, a in zip(xs, axes)]
    totals, within = prefixes(*_first(rows))
    flat = [_together(x, a, blocks, length) for x, a in zip(within, axes)]
    # What comes before each block, and the whole: (blocks, ..., 1, ...).
    whole, before = prefixes(*_first([_apart(t, a, 1, blocks) for t, a in zip(totals, axes)]))
    before = [_together(cut(p, 0, 0, blocks - 1), a, 1, blocks - 1) for p, a in zip(before, axes)]
    spread = [_repeated(p, a, length) for p, a in zip(before, axes)]
    later = combine(spread, [cut(x, a, length, blocks * length) for x, a in zip(flat, axes)])
    parts = [[cut(x, a, 0, length), y] for x, a, y in zip(flat, axes, later)]
    if n > blocks * length:
        rest = n - blocks * length
        _, ys = scan(along, whole, [_apart(cut(x, a, n - rest, n), a, 1, rest) for x, a in zip(xs, axes)])
        parts = [[*p, _together(y, a, 1, rest)] for p, y, a in zip(parts, ys, axes)]
    return [st.concatenate(p, a) for p, a in zip(parts, axes)]


def _first(rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """The first of what is stacked, and the others."""
    firsts = [st.reshape(st.slice_in_dim(x, 0, 1, 1, 0), aval_of(x).shape[1:]) for x in rows]
    return firsts, [st.slice_in_dim(x, 1, aval_of(x).shape[0], 1, 0) for x in rows]


def _apart(x: Any, axis: int, blocks: int, length: int) -> Any:
    """A dimension of blocks * length, as one of the blocks, the places within them being the first dimension of all."""
    shape = aval_of(x).shape
    y = st.reshape(x, (*shape[:axis], blocks, length, *shape[axis + 1 :]))
    return st.transpose(y, (axis + 1, *(d for d in range(len(shape) + 1) if d != axis + 1)))


def _together(x: Any, axis: int, blocks: int, length: int) -> Any:
    """What `_apart` has taken apart."""
    shape = aval_of(x).shape[1:]
    rank = len(shape) + 1
    order = [*range(1, axis + 2), 0, *range(axis + 2, rank)]
    return st.reshape(st.transpose(x, order), (*shape[:axis], blocks * length, *shape[axis + 1 :]))


def _repeated(x: Any, axis: int, length: int) -> Any:
    """Each element along a dimension, so many times."""
    shape = aval_of(x).shape
    full = (*shape[: axis + 1], length, *shape[axis + 1 :])
    wide = st.broadcast_in_dim(x, full, [d for d in range(len(full)) if d != axis + 1])
    return st.reshape(wide, (*shape[:axis], shape[axis] * length, *shape[axis + 1 :]))


def _by_tree(combine: Combine, xs: Leaves, axes: Sequence[int]) -> list[Any]:
    n = aval_of(xs[0]).shape[axes[0]]
    if n < 2:
        return list(xs)

    def cut(values: Leaves, start: int, limit: int) -> list[Any]:
        return [st.slice_in_dim(x, start, limit, 1, a) for x, a in zip(values, axes)]

    m = n // 2
    pairs = [_pairs(x, m, a) for x, a in zip(xs, axes)]
    first, second = [p[0] for p in pairs], [p[1] for p in pairs]
    odd = _by_tree(combine, combine(first, second), axes)  # the prefixes that end at an odd index
    # Those that end at an even index: the prefix before, combined with the element.
    rest = [st.slice_in_dim(x, 1, m, 1, a) for x, a in zip(first, axes)]
    left = cut(odd, 0, m - 1)
    if n % 2:
        last = cut(xs, n - 1, n)
        rest, left = [st.concatenate([r, t], a) for r, t, a in zip(rest, last, axes)], odd
    even = cut(xs, 0, 1)
    if n > 2:
        even = [st.concatenate([e, r], a) for e, r, a in zip(even, combine(left, rest), axes)]
    return [_interleave(e, o, a) for e, o, a in zip(even, odd, axes)]


def _pairs(x: Any, m: int, axis: int) -> tuple[Any, Any]:
    """The elements at even and at odd indices below 2 m; by a reshape, whose derivative is cheaper than a stride's."""
    shape = aval_of(x).shape
    pairs = st.reshape(st.slice_in_dim(x, 0, 2 * m, 1, axis), (*shape[:axis], m, 2, *shape[axis + 1 :]))
    part = (*shape[:axis], m, *shape[axis + 1 :])
    return (
        st.reshape(st.slice_in_dim(pairs, 0, 1, 1, axis + 1), part),
        st.reshape(st.slice_in_dim(pairs, 1, 2, 1, axis + 1), part),
    )


def _interleave(a: Any, b: Any, axis: int) -> Any:
    """a[0], b[0], a[1], ...; a has as many elements along the axis as b, or one more."""
    n, shape = aval_of(a).shape[axis], aval_of(b).shape
    m = shape[axis]
    column = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    both = st.concatenate([st.reshape(st.slice_in_dim(a, 0, m, 1, axis), column), st.reshape(b, column)], axis + 1)
    out = st.reshape(both, (*shape[:axis], 2 * m, *shape[axis + 1 :]))
    return out if n == m else st.concatenate([out, st.slice_in_dim(a, m, n, 1, axis)], axis)


__all__ = ["associative_scan"]
