"""Collectives along named axes, those of `vmap`, `shard_map` and `pmap`: psum and others, on pytrees.

`axis_name` is a name or a tuple of names, the first one the major. `axis_index_groups` are lists of indices of the axis:
each group communicates for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quire.ir.avals import aval_of
from quire.ir.axes import axis_size as _axis_size
from quire.ir.axes import checked_axes
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

from .. import tree_util
from ..arrays.key_array import ADVICE, hidden_dimensions, is_keys


def _names(axis_name: Any) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, tuple | list) else (axis_name,)


def _one(names: tuple[Any, ...]) -> Any:
    """The parameter of a primitive: the name of a single axis, else the tuple."""
    return names[0] if len(names) == 1 else names


def _groups(name: str, groups: Any, names: tuple[Any, ...], equal: bool = True) -> co.Groups:
    """`axis_index_groups` as a parameter. Raises ValueError for groups that are no partition, or of different sizes."""
    if groups is None:
        return None
    found = tuple(tuple(int(i) for i in g) for g in groups)
    if len(names) > 1:
        raise NotImplementedError(f"{name}: axis_index_groups over several axes {names}: give one axis")
    n = _size(names)
    if sorted(i for g in found for i in g) != list(range(n)):
        raise ValueError(f"{name}: axis_index_groups must cover all indices exactly once: 0 to {n - 1}, got {groups}")
    if equal and len({len(g) for g in found}) > 1:
        raise ValueError(f"{name}: all axis_index_groups must have the same size, got {groups}")
    return found


def _group_params(groups: co.Groups) -> dict[str, Any]:
    return {} if groups is None else {"axis_index_groups": groups}


def _map(f: Callable[[Any], Any], x: Any) -> Any:
    leaves, tree = tree_util.flatten_arrays(x)
    return tree_util.tree_unflatten(tree, [f(leaf) for leaf in leaves])


def _map_ranks(f: Callable[[Any, int], Any], x: Any) -> Any:
    """`f` of each array and the number of its dimensions that the user sees: the words of keys lie behind these."""
    leaves, tree = tree_util.flatten_arrays(x)
    ranks = [aval_of(leaf).ndim - hidden for leaf, hidden in zip(leaves, hidden_dimensions(x), strict=True)]
    return tree_util.tree_unflatten(tree, [f(leaf, rank) for leaf, rank in zip(leaves, ranks)])


def _map_numbers(name: str, f: Callable[[Any], Any], x: Any) -> Any:
    """`f` of each array. Raises TypeError for keys, which are neither added nor compared."""
    for leaf in tree_util.flatten_arrays(x, is_keys)[0]:
        if is_keys(leaf):
            given = f"{leaf.dtype.name}[{','.join(map(str, leaf.shape))}]"
            raise TypeError(f"{name} does not accept dtype {leaf.dtype.name}, got {given}: {ADVICE}")
    return _map(f, x)


def _dimension(name: str, what: str, axis: int, rank: int, of: str) -> int:
    """A dimension counted from the front. Raises ValueError where there is none such."""
    if not -rank <= axis < rank:
        raise ValueError(f"{name}: {what} {axis} is out of bounds for {of} of rank {rank}")
    return axis % rank


def _size(names: tuple[Any, ...]) -> int:
    n = 1
    for name in names:
        n *= _axis_size(name)
    return n


def psum(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Sum over one or several named axes. A Python number gives the number times the axes' size, at once."""
    names = _names(axis_name)
    groups = _groups("psum", axis_index_groups, names, equal=False)
    size = _size(names) if groups is None else len(groups[0])
    equal = groups is None or len({len(g) for g in groups}) == 1

    def one(leaf: Any) -> Any:
        if equal and isinstance(leaf, int | float | complex) and not isinstance(leaf, bool):
            return leaf * size
        if aval_of(leaf).dtype == bool:
            leaf = ew.convert_element_type(leaf, int)
        return co.psum(leaf, names, groups)

    return _map_numbers("psum", one, x)


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Mean over one or several named axes."""
    n = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return _map(lambda leaf: leaf / n, psum(x, axis_name, axis_index_groups=axis_index_groups))


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Maximum over one or several named axes."""
    names = _names(axis_name)
    groups = _groups("pmax", axis_index_groups, names, equal=False)
    return _map_numbers("pmax", lambda leaf: co.pmax(leaf, names, groups), x)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Any = None) -> Any:
    """Minimum over one or several named axes."""
    names = _names(axis_name)
    groups = _groups("pmin", axis_index_groups, names, equal=False)
    return _map_numbers("pmin", lambda leaf: co.pmin(leaf, names, groups), x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Send the slice at source to destination for each (source, destination); slices that get nothing are zero.

    Raises ValueError where a source or a destination occurs twice or is out of range.
    """
    pairs = tuple((int(a), int(b)) for a, b in perm)
    names = _names(axis_name)
    n = _size(names)
    for what, indices in (("source", [a for a, _ in pairs]), ("destination", [b for _, b in pairs])):
        if len(set(indices)) != len(indices) or any(not 0 <= i < n for i in indices):
            raise ValueError(
                f"ppermute: each {what} must occur once and lie in [0, {n}), the size of axis {axis_name!r}, got {perm}"
            )
    return _map(lambda leaf: co.ppermute_p.bind(co.vary(leaf, names), axis_name=_one(names), perm=pairs), x)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """Every slice gets the slice at index `source` of the axis. Raises ValueError for an index out of range."""
    names = _names(axis_name)
    n = _size(names)
    if not 0 <= source < n:
        raise ValueError(f"pbroadcast: source must lie in [0, {n}), the size of axis {axis_name!r}, got {source}")
    return _map(lambda leaf: co.pbroadcast_p.bind(co.vary(leaf, names), axis_name=_one(names), source=int(source)), x)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """x itself, taken for one of another kind along mesh axes: what changes is how derivatives communicate.

    In the function of a `shard_map` with check_vma, where types say of each axis (`typeof(x).mat`) that a value varies, is the
    same (nothing is said), is the same and *reduced*, so that its cotangent is unreduced, or is *unreduced*, the sum of what the
    devices hold.

    Args:
        x: a pytree of arrays.
        axis_name: an axis, or a tuple of axes along which x is of one kind.
        to: "varying" of what is the same (derivatives are summed) or reduced, "reduced" of what is the same (derivatives are
            left unreduced for a later sum), "unreduced" of what varies.

    Raises:
        ValueError: another `to`, a value that is of several kinds along the axes, or of one that has no such cast.
        TypeError: `axis_name` is a set.
    """
    if isinstance(axis_name, set | frozenset):
        raise TypeError(f"pcast: axis_name must be a tuple or a name, got {axis_name}")
    if to not in ("varying", "reduced", "unreduced"):
        raise ValueError(f"pcast: a value can be cast to='varying', 'reduced' or 'unreduced', got {to!r}")
    names = _names(axis_name)
    checked = checked_axes()

    def one(leaf: Any) -> Any:
        axes = tuple(a for a in names if _axis_size(a) and a in checked)
        if not axes:
            return leaf
        kinds = {co.kind(aval_of(leaf), a) for a in axes}
        if len(kinds) > 1:
            raise ValueError(
                f"pcast can only accept axis_name which are of one kind in the type of the value, got {axes}, along which "
                f"{aval_of(leaf).short()} is {' and '.join(sorted(kinds))}"
            )
        if kinds == {"invarying"} and to == "varying":
            return co.pvary_p.bind(leaf, axes=axes)
        return co.pcast_p.bind(leaf, axes=axes, to=to)

    return _map(one, x)


def pvary(x: Any, axis_name: Any) -> Any:
    """x, taken for one that varies along mesh axes also: `pcast` to "varying", along those along which it does not yet."""
    names = _names(axis_name)
    return _map(lambda leaf: co.vary(leaf, names), x)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """Slice i of the result is slice ``perm[i]`` of x."""
    return ppermute(x, axis_name, [(source, i) for i, source in enumerate(perm)])


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Any = None) -> Any:
    """Exchange the named axis with dimension `axis`, which has its size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def all_gather(
    x: Any, axis_name: Any, *, axis_index_groups: Any = None, axis: int = 0, tiled: bool = False, to: str = "varying"
) -> Any:
    """All slices, along a new dimension at `axis` or (tiled) concatenated along dimension `axis`.

    `to` is what the result, which is equal everywhere, is taken for along mesh axes of which types speak: "varying" (its
    derivatives are summed and divided among the devices), "invarying" (each device takes its part of them), or "reduced"
    (they are unreduced, and summed as they are divided).

    Raises ValueError for another `to`, NotImplementedError for one that is not "varying" with `axis_index_groups`.
    """
    if to not in ("varying", "invarying", "reduced"):
        raise ValueError(f"all_gather: the result is to='varying', 'invarying' or 'reduced', got {to!r}")
    if to != "varying" and axis_index_groups is not None:
        raise NotImplementedError(
            f"all_gather: axis_index_groups and to={to!r} do not go together: within a group only is it equal"
        )
    names = _names(axis_name)
    groups = _groups("all_gather", axis_index_groups, names)
    n = _size(names) if groups is None else len(groups[0])
    kind = {"to": to} if to != "varying" and any(a in checked_axes() for a in names) else {}

    def one(leaf: Any, rank: int) -> Any:
        return co.all_gather_p.bind(
            co.vary(leaf, names), axis_name=_one(names), axis_size=n, tiled=bool(tiled), **_group_params(groups), **kind,
            all_gather_dimension=_dimension("all_gather", "axis", axis, rank + (not tiled), "a result"),
        )  # fmt: skip

    return _map_ranks(one, x)


def psum_scatter(
    x: Any, axis_name: Any, *, scatter_dimension: int = 0, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """The sum over the axis, of which each slice keeps its own part along `scatter_dimension`."""
    names = _names(axis_name)
    groups = _groups("psum_scatter", axis_index_groups, names)
    n = _size(names) if groups is None else len(groups[0])

    def one(leaf: Any) -> Any:
        dimension = _dimension("psum_scatter", "scatter_dimension", scatter_dimension, aval_of(leaf).ndim, "an array")
        return co.reduce_scatter_p.bind(
            co.vary_or_due(leaf, names), axis_name=_one(names), scatter_dimension=dimension, axis_size=n, tiled=bool(tiled),
            **_group_params(groups),
        )  # fmt: skip

    return _map_numbers("psum_scatter", one, x)


def all_to_all(
    x: Any, axis_name: Any, split_axis: int, concat_axis: int, *, axis_index_groups: Any = None, tiled: bool = False
) -> Any:
    """Split dimension `split_axis` over the slices and concatenate what comes from them along `concat_axis`.

    Not tiled, dimension `split_axis` has the axis's size and disappears, and a new one of that size appears at
    `concat_axis`.
    """
    names = _names(axis_name)
    groups = _groups("all_to_all", axis_index_groups, names)
    n = _size(names) if groups is None else len(groups[0])
    params: dict[str, Any] = {"axis_name": _one(names), "axis_size": n, **_group_params(groups)}

    def one(leaf: Any, rank: int) -> Any:
        leaf = co.vary(leaf, names)
        aval = aval_of(leaf)
        split = _dimension("all_to_all", "split_axis", split_axis, rank, "an array")
        concat = _dimension("all_to_all", "concat_axis", concat_axis, rank, "an array")
        if tiled:
            return co.all_to_all_p.bind(leaf, split_axis=split, concat_axis=concat, **params)
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
        out = co.all_to_all_p.bind(st.reshape(leaf, shape), split_axis=source, concat_axis=position, **params)
        rest = [m for i, m in enumerate(aval_of(out).shape) if i != source]
        return st.reshape(out, rest)

    return _map_ranks(one, x)


def axis_index(axis_name: Any) -> Any:
    """The index of the slice along the named axis (row-major over several)."""
    names = _names(axis_name)
    index: Any = None
    for name in names:
        n = _axis_size(name)
        i = co.axis_index(name)
        index = i if index is None else index * n + i
    return index


def axis_size(axis_name: Any) -> int:
    """The size of a named axis (the product for several)."""
    return _size(_names(axis_name))


__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pcast", "pmax", "pmean", "pmin", "ppermute",
    "pshuffle", "psum", "psum_scatter", "pswapaxes", "pvary",
]  # fmt: skip
