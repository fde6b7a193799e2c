"""All prefixes of a sequence, combined by an associative function.

Three orders of combining are there. The tree takes a logarithmic number of steps on ever shorter arrays (Blelloch, "Prefix Sums and
Their Applications", 1990); it is what JAX does, and what functions of concrete values and of narrow floats get. Traced
sequences are combined one after another: a loop whose state is a few registers, one kernel. Those that are long
are cut into blocks of about as many elements as there are blocks: one loop goes along all blocks at once, one over what the
blocks give, and what comes before a block is combined with each of its prefixes. That is three kernels and three traces of the
function, where the tree has a handful of each for every halving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.config import config
from quire.ir.jaxpr import all_eqns, has_nested
from quire.ir.primitives import structural as st
from quire.ir.tracing import trace_flat
from quire.tree_util import flatten_arrays, tree_unflatten

from ._tracing import check_callable, concrete_value, path, show_tree
from .control_flow import scan

#: So many elements are combined one after another: up to the second number where each has `WIDE` numbers or more.
LEAST_STEPS, MOST_STEPS, MOST_STEPS_OF_WIDE, WIDE = 8, 511, 2048, 16
#: Families of primitives that loops have within one kernel, but for the largest arrays.
IN_KERNELS = frozenset({"elementwise", "structural", "reductions", "contraction"})
#: Other sequences of fewer are combined as a tree.
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
    out = _form(combine, values, axes)(combine, values, axes)
    return tree_unflatten(tree, [st.rev(x, (a,)) for x, a in zip(out, axes)] if reverse else out)


Combine = Callable[[Leaves, Leaves], list[Any]]


def _form(
    combine: Combine, values: Leaves, axes: Sequence[int]
) -> Callable[[Combine, Leaves, Sequence[int]], list[Any]]:
    """The order of combining: a tree where the function may look at values, and of numbers that many additions one after
    another would wear out."""
    n = aval_of(values[0]).shape[axes[0]]
    narrow = any(dtypes.is_float(aval_of(x).dtype) and aval_of(x).dtype.itemsize < 4 for x in values)
    if narrow or config.options.disable_jit or all(concrete_value(x) is not None for x in values):
        return _by_tree
    wide = max(aval_of(x).size for x in values) >= n * WIDE
    if LEAST_STEPS <= n <= (MOST_STEPS_OF_WIDE if wide else MOST_STEPS) and _stays_one_kernel(combine, values, axes):
        return _by_steps
    return _by_blocks if n >= LEAST_IN_BLOCKS else _by_tree


def _stays_one_kernel(combine: Combine, values: Leaves, axes: Sequence[int]) -> bool:
    """Whether the function is of operations that loops have within one kernel; the host would count the turns of others."""
    rows = [a.update(shape=(*a.shape[:d], 1, *a.shape[d + 1 :])) for a, d in zip(map(aval_of, values), axes)]
    jaxpr, _, _ = trace_flat(lambda *xs: combine(xs[: len(rows)], xs[len(rows) :]), [*rows, *rows], name="fn")
    if [(a.shape, a.dtype) for a in jaxpr.out_avals] != [(a.shape, a.dtype) for a in rows]:
        return False  # the tree says what does not fit
    families = {e.primitive.family for e in all_eqns(jaxpr) if not has_nested(e.params)}
    return families <= IN_KERNELS and not any(e.effects for e in all_eqns(jaxpr))


def _by_steps(combine: Combine, xs: Leaves, axes: Sequence[int]) -> list[Any]:
    n = aval_of(xs[0]).shape[axes[0]]
    _, ys = _prefixes(combine, *_first([_apart(x, a, 1, n) for x, a in zip(xs, axes)]))
    return [_together(y, a, 1, n) for y, a in zip(ys, axes)]


def _prefixes(combine: Combine, first: list[Any], rest: list[Any]) -> tuple[list[Any], list[Any]]:
    """The last prefix, and all, of what is stacked along a new first dimension, one element after another."""
    last, ys = scan(_along(combine), first, rest)
    return last, [st.concatenate([st.reshape(f, (1, *aval_of(f).shape)), y], 0) for f, y in zip(first, ys)]


def _along(combine: Combine) -> Callable[[list[Any], list[Any]], tuple[list[Any], list[Any]]]:
    def along(carry: list[Any], x: list[Any]) -> tuple[list[Any], list[Any]]:
        out = combine(carry, x)
        return out, out

    return along


def _by_blocks(combine: Combine, xs: Leaves, axes: Sequence[int]) -> list[Any]:
    n = aval_of(xs[0]).shape[axes[0]]
    length = math.isqrt(n)
    blocks = n // length

    def cut(x: Any, axis: int, start: int, stop: int) -> Any:
        return st.slice_in_dim(x, start, stop, 1, axis)

    # Within the blocks, all at once: (length, ..., blocks, ...).
    rows = [_apart(cut(x, a, 0, blocks * length), a, blocks, length) for x, a in zip(xs, axes)]
    totals, within = _prefixes(combine, *_first(rows))
    flat = [_together(x, a, blocks, length) for x, a in zip(within, axes)]
    # What comes before each block, and the whole: (blocks, ..., 1, ...).
    whole, before = _prefixes(combine, *_first([_apart(t, a, 1, blocks) for t, a in zip(totals, axes)]))
    before = [_together(cut(p, 0, 0, blocks - 1), a, 1, blocks - 1) for p, a in zip(before, axes)]
    spread = [_repeated(p, a, length) for p, a in zip(before, axes)]
    later = combine(spread, [cut(x, a, length, blocks * length) for x, a in zip(flat, axes)])
    parts = [[cut(x, a, 0, length), y] for x, a, y in zip(flat, axes, later)]
    if n > blocks * length:
        rest = n - blocks * length
        _, ys = scan(_along(combine), whole, [_apart(cut(x, a, n - rest, n), a, 1, rest) for x, a in zip(xs, axes)])
        parts = [[*p, _together(y, a, 1, rest)] for p, y, a in zip(parts, ys, axes)]
    return [st.concatenate(p, a) for p, a in zip(parts, axes)]


def _first(rows: list[Any]) -> tuple[list[Any], list[Any]]:
    """The first of what is stacked, and the others."""
    firsts = [st.reshape(st.slice_in_dim(x, 0, 1, 1, 0), aval_of(x).shape[1:]) for x in rows]
    return firsts, [st.slice_in_dim(x, 1, aval_of(x).shape[0], 1, 0) for x in rows]


def _apart(x: Any, axis: int, blocks: int, length: int) -> Any:
    """A dimension of blocks * length, as one of the blocks, the places within them being the first dimension of all."""
    shape = aval_of(x).shape
    if blocks * math.prod(shape[:axis]) == 1:  # already the first
        return st.reshape(x, (length, *shape[:axis], 1, *shape[axis + 1 :]))
    y = st.reshape(x, (*shape[:axis], blocks, length, *shape[axis + 1 :]))
    return st.transpose(y, (axis + 1, *(d for d in range(len(shape) + 1) if d != axis + 1)))


def _together(x: Any, axis: int, blocks: int, length: int) -> Any:
    """What `_apart` has taken apart."""
    shape = aval_of(x).shape[1:]
    if blocks * math.prod(shape[:axis]) == 1:
        return st.reshape(x, (*shape[:axis], length, *shape[axis + 1 :]))
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
