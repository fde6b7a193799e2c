"""Collectives along a named axis of `vmap`: psum and others, on pytrees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.axes import axis_size as _axis_size
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .. import tree_util


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _no_groups(name: str, groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(f"{name}: axis_index_groups is not supported, expected None")


def _map(f: Callable[[Any], Any], x: Any) -> Any:
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, [f(leaf) for leaf in leaves])


def _size(names: tuple[Any, ...]) -> int:
    n = 1
    for name in names:
        n *= _axis_size(name)
    return n


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sum over one or several named axes. A Python number gives the number times the axes' size, at once."""
    _no_groups("psum", axis_index_groups)
    names = _names(axis_name)
    size = _size(names)

    def one(leaf: Any) -> Any:
        if isinstance(leaf, int | float | complex) and not isinstance(leaf, bool):
            return leaf * size
        if aval_of(leaf).dtype == bool:
            leaf = ew.convert_element_type(leaf, int)
        return co.psum(leaf, names)

    return _map(one, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Mean over one or several named axes."""
    n = _size(_names(axis_name))
    return _map(lambda leaf: leaf / n, psum(x, axis_name, axis_index_groups=axis_index_groups))


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Maximum over one or several named axes."""
    _no_groups("pmax", axis_index_groups)
    return _map(lambda leaf: co.pmax(leaf, _names(axis_name)), x)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Minimum over one or several named axes."""
    _no_groups("pmin", axis_index_groups)
    return _map(lambda leaf: co.pmin(leaf, _names(axis_name)), x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send the slice at source to destination for each (source, destination); slices that get nothing are zero.

    Raises ValueError where a source or a destination occurs twice or is out of range.
    """
    pairs = tuple((int(a), int(b)) for a, b in perm)
    n = _axis_size(axis_name)
    for what, indices in (("source", [a for a, _ in pairs]), ("destination", [b for _, b in pairs])):
        if len(set(indices)) != len(indices) or any(not 0 <= i < n for i in indices):
            raise ValueError(
                f"ppermute: each {what} must occur once and lie in [0, {n}), the size of axis {axis_name!r}, got {perm}"
            )
    return _map(lambda leaf: co.ppermute_p.bind(leaf, axis_name=axis_name, perm=pairs), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Slice i of the result is slice ``perm[i]`` of x."""
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange the named axis with dimension `axis`, which has its size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def all_gather(x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False) -> Any:
    """All slices, along a new dimension at `axis` or (tiled) concatenated along dimension `axis`."""
    _no_groups("all_gather", axis_index_groups)
    n = _axis_size(axis_name)

    def one(leaf: Any) -> Any:
        rank = aval_of(leaf).ndim + (not tiled)
        return co.all_gather_p.bind(
            leaf, axis_name=axis_name, all_gather_dimension=axis % rank, axis_size=n, tiled=bool(tiled)
        )

    return _map(one, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over the axis, of which each slice keeps its own part along `scatter_dimension`."""
    _no_groups("psum_scatter", axis_index_groups)
    n = _axis_size(axis_name)

    def one(leaf: Any) -> Any:
        return co.reduce_scatter_p.bind(
            leaf, axis_name=axis_name, scatter_dimension=scatter_dimension % aval_of(leaf).ndim, axis_size=n,
            tiled=bool(tiled),
        )  # fmt: skip

    return _map(one, x)


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """Split dimension `split_axis` over the slices and concatenate what comes from them along `concat_axis`.

    Not tiled, dimension `split_axis` has the axis's size and disappears, and a new one of that size appears at
    `concat_axis`.
    """
    _no_groups("all_to_all", axis_index_groups)
    n = _axis_size(axis_name)

    def one(leaf: Any) -> Any:
        aval = aval_of(leaf)
        split, concat = split_axis % aval.ndim, concat_axis % aval.ndim
        if tiled:
            return co.all_to_all_p.bind(leaf, axis_name=axis_name, split_axis=split, concat_axis=concat, axis_size=n)
        if aval.shape[split] != n:
            raise ValueError(
                f"all_to_all: dimension {split} of {aval.short()} must have the size {n} of axis {axis_name!r} "
                "(or pass tiled=True)"
            )
        # A dimension of size 1 where the slices are to be concatenated, one left over where they were split.
        position = concat if concat < split else concat + 1
        shape = list(aval.shape)
        shape.insert(position, 1)
        source = split + (position <= split)
        out = co.all_to_all_p.bind(
            st.reshape(leaf, shape), axis_name=axis_name, split_axis=source, concat_axis=position, axis_size=n
        )
        rest = [m for i, m in enumerate(aval_of(out).shape) if i != source]
        return st.reshape(out, rest)

    return _map(one, x)


def axis_index(axis_name: Any) -> Any:
    """The index of the slice along the named axis (row-major over several)."""
    names = _names(axis_name)
    index: Any = None
    for name in names:
        n = _axis_size(name)
        i = co.axis_index_p.bind(axis_name=name)
        index = i if index is None else index * n + i
    return index


def axis_size(axis_name: Any) -> int:
    """The size of a named axis (the product for several)."""
    return _size(_names(axis_name))


__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin", "ppermute", "pshuffle", "psum",
    "psum_scatter", "pswapaxes",
]  # fmt: skip
