"""Batching of collectives: over their own axis they become operations on the batch dimension.

Along another axis the batch dimension passes through. A collective over several axes, of which one is batched, and one in
groups are taken apart into collectives over single axes, which are then batched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.avals import aval_of
from quire.ir.axes import axis_sizes, named_axis
from quire.ir.primitive import Primitive
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.tracing import trace_flat

from .batch import batch_eval, lane_aval
from .rules import Axis, Dim, batching, broadcast_batch, move_dim, sum_of_equal, to_front

Value = Any


def _batched(axis: Axis, x: Value, d: Dim, f: Callable[[Value], Value]) -> tuple[Value, Dim]:
    """A function of one lane, made of collectives over single axes, for all lanes."""
    with named_axis(axis.name, axis.size):
        jaxpr, captured, _ = trace_flat(lambda *xs: [f(*xs)], [lane_aval(x, d)], name="collective")
    outs, dims = batch_eval(jaxpr, [*captured, x], [*[None] * len(captured), d], axis)
    return outs[0], dims[0]


def _in_groups(
    axis: Axis, x: Value, d: Dim, groups: Any, f: Callable[[Value], Value], names: Sequence[Any] = ()
) -> tuple[Value, Dim]:
    """A collective within groups of lanes: over the lanes of a group, for each group; `f` is one over the batched axis.

    Groups of different sizes are taken one by one; then all must give results of one shape. With several `names`, which
    count as one axis, all slices are gathered, and each takes its own.
    """
    if len(names) > 1:
        return _through_all(axis, x, d, names, groups, f), 0
    rows = [i for g in groups for i in g]
    if sorted(rows) != list(range(axis.size)):
        raise ValueError(f"axis_index_groups must hold each index below {axis.size} once, got {groups}")
    x = _take_rows(to_front(x, d, axis.size), np.asarray(rows))
    sizes = {len(g) for g in groups}
    rest = aval_of(x).shape[1:]

    def one(part: Value, size: int, dims: int) -> Value:
        inner = Axis(size, axis.name)
        with named_axis(axis.name, size):
            lane = aval_of(part).update(shape=rest)
            jaxpr, captured, _ = trace_flat(lambda *xs: [f(*xs)], [lane], name="collective")
            if dims == 2:  # [group, member, ...]

                def member(y: Value) -> list[Value]:
                    outs, ds = batch_eval(jaxpr, [*captured, y], [*[None] * len(captured), 0], inner)
                    return [to_front(outs[0], ds[0], size)]

                jaxpr2, captured2, _ = trace_flat(member, [lane.update(shape=(size, *rest))], name="collective")
                outs, ds = batch_eval(jaxpr2, [*captured2, part], [*[None] * len(captured2), 0], Axis(len(groups)))
                return to_front(outs[0], ds[0], len(groups))
            outs, ds = batch_eval(jaxpr, [*captured, part], [*[None] * len(captured), 0], inner)
            return to_front(outs[0], ds[0], size)

    if len(sizes) == 1:
        size = sizes.pop()
        out = one(st.reshape(x, (len(groups), size, *rest)), size, 2)
        shape = aval_of(out).shape
        out = st.reshape(out, (shape[0] * shape[1], *shape[2:]))
    else:
        parts: list[Value] = []
        start = 0
        for g in groups:
            part = st.slice(x, (start, *[0] * len(rest)), (start + len(g), *rest))
            parts.append(one(part, len(g), 1))
            start += len(g)
        out = st.concatenate(parts, 0)
    return _take_rows(out, np.argsort(rows)), 0


def _through_all(axis: Axis, x: Value, d: Dim, names: Sequence[Any], groups: Any, f: Callable[[Value], Value]) -> Value:
    """The lanes' results of a collective in groups over several axes, of which the batched one is one."""
    known = axis_sizes()
    sizes = [axis.size if a == axis.name else known[a] for a in names]
    place, total = names.index(axis.name), math.prod(sizes)
    others = [i for i in range(len(names)) if i != place]
    x = to_front(x, d, axis.size)
    for i in reversed(others):  # [others in order, batch, ...]
        x = co.all_gather_p.bind(x, axis_name=names[i], all_gather_dimension=0, axis_size=sizes[i], tiled=False)
    x = move_dim(x, len(others), place)
    x = st.reshape(x, (total, *aval_of(x).shape[len(names) :]))
    x = _in_groups(Axis(total, axis.name), x, 0, groups, f)[0]
    x = move_dim(st.reshape(x, (*sizes, *aval_of(x).shape[1:])), place, len(others))
    for i in others:
        rest = aval_of(x).shape[1:]
        index = co.axis_index_p.bind(axis_name=names[i])
        x = st.reshape(ix.dynamic_slice(x, [index, *[np.int32(0)] * len(rest)], (1, *rest)), rest)
    return x


def _reduction(
    p: Primitive, reduce: Callable[[Value, Sequence[int]], Value], unbatched: Callable[[Value, int], Value]
) -> None:
    def rule(
        axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axes: tuple[Any, ...],
        axis_index_groups: co.Groups = None,
    ) -> tuple[Value, Dim]:  # fmt: skip
        (x,), (d,) = operands, dims
        if axis.name not in axes:
            params: dict[str, Any] = {} if axis_index_groups is None else {"axis_index_groups": axis_index_groups}
            return p.bind(x, axes=axes, **params), d
        if axis_index_groups is not None:
            return _in_groups(axis, x, d, axis_index_groups, lambda y: p.bind(y, axes=(axis.name,)), axes)
        rest = tuple(a for a in axes if a != axis.name)
        out = unbatched(x, axis.size) if d is None else reduce(x, (d,))
        return (p.bind(out, axes=rest) if rest else out), None

    batching.add(p, rule)


_reduction(co.psum_p, rd.reduce_sum, sum_of_equal)
_reduction(co.pmax_p, rd.reduce_max, lambda x, n: x)
_reduction(co.pmin_p, rd.reduce_min, lambda x, n: x)


@batching(co.pvary_p)
def pvary(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axes: tuple[Any, ...]) -> tuple[Value, Dim]:
    # A value that is the same in all lanes stays one value.
    rest = tuple(a for a in axes if a != axis.name)
    return (co.pvary_p.bind(*operands, axes=rest) if rest else operands[0]), dims[0]


@batching(co.pcast_p)
def pcast(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axes: tuple[Any, ...], to: str
) -> tuple[Value, Dim]:
    return co.pcast_p.bind(*operands, axes=axes, to=to), dims[0]


@batching(co.axis_index_p)
def axis_index(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any) -> tuple[Value, Dim]:
    names = co.names_of(axis_name)
    if axis.name not in names:
        return co.axis_index_p.bind(axis_name=axis_name), None
    iota = st.iota(dtypes.int32, axis.size)
    if len(names) == 1:
        return iota, 0
    known = axis_sizes()
    index: Any = np.int32(0)
    for name in names:  # row-major
        index = ew.mul(index, np.int32(axis.size if name == axis.name else known[name]))
        index = ew.add(index, iota if name == axis.name else co.axis_index_p.bind(axis_name=name))
    return index, 0


@batching(co.ppermute_p)
def ppermute(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, perm: tuple[tuple[int, int], ...]
) -> tuple[Value, Dim]:
    (x,), (d,) = operands, dims
    names = co.names_of(axis_name)
    if axis.name not in names:
        return co.ppermute_p.bind(x, axis_name=axis_name, perm=perm), d
    if len(names) > 1:
        return _ppermute_of_several(axis, x, d, names, perm)
    x = to_front(x, d, axis.size)
    return _permuted(x, perm, axis.size), 0


def _permuted(x: Value, perm: tuple[tuple[int, int], ...], size: int) -> Value:
    """The rows of x, each at its destination; zeros where none goes."""
    source = np.full(size, -1)
    for a, b in perm:
        source[b] = a
    return _take_rows(x, source)


def _ppermute_of_several(
    axis: Axis, x: Value, d: Dim, names: tuple[Any, ...], perm: tuple[tuple[int, int], ...]
) -> tuple[Value, Dim]:
    """One ppermute along the other axes for each pair of lanes between which something moves."""
    known = axis_sizes()
    sizes = [axis.size if a == axis.name else known[a] for a in names]
    place = names.index(axis.name)
    rest = tuple(a for a in names if a != axis.name)
    rest_sizes = [known[a] for a in rest]

    def apart(number: int) -> tuple[int, int]:
        """The lane, and the number along the other axes."""
        where = [int(i) for i in np.unravel_index(number, sizes)]
        lane = where.pop(place)
        return lane, int(np.ravel_multi_index(where, rest_sizes))

    stays: dict[tuple[int, int], list[int]] = {}  # (to lane, from lane): where on the other axes
    moves: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for source, destination in perm:
        (a, i), (b, j) = apart(source), apart(destination)
        if i == j:
            stays.setdefault((b, a), []).append(i)
        else:
            moves.setdefault((b, a), []).append((i, j))
    rows = [x if d is None else _row(x, d, i) for i in range(axis.size)]
    name: Any = rest[0] if len(rest) == 1 else rest
    zeros = st.broadcast_in_dim(np.zeros((), aval_of(rows[0]).dtype)[()], aval_of(rows[0]).shape, ())
    index = co.axis_index_p.bind(axis_name=name)
    lanes: list[Value] = []
    for lane in range(axis.size):
        # What comes from elsewhere, zeros where nothing does, and where it is to be taken.
        pieces = [
            (co.ppermute_p.bind(rows[a], axis_name=name, perm=tuple(pairs)), [j for _, j in pairs])
            for (b, a), pairs in moves.items()
            if b == lane
        ]
        pieces += [(rows[a], where) for (b, a), where in stays.items() if b == lane]
        moving = any(b == lane for b, _ in moves)
        whole = len(pieces) == 1 and (moving or len(pieces[0][1]) == math.prod(rest_sizes))
        out = pieces[0][0] if pieces and (moving or whole) else zeros
        for piece, where in pieces[1:] if pieces and (moving or whole) else pieces:
            here: Any = ew.eq(index, np.int32(where[0]))
            for i in where[1:]:
                here = ew.bitwise_or(here, ew.eq(index, np.int32(i)))
            out = ew.select_n(here, out, piece)
        lanes.append(st.reshape(out, (1, *aval_of(out).shape)))
    return st.concatenate(lanes, 0), 0


@batching(co.pbroadcast_p)
def pbroadcast(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, source: int
) -> tuple[Value, Dim]:
    (x,), (d,) = operands, dims
    names = co.names_of(axis_name)
    if axis.name not in names:
        return co.pbroadcast_p.bind(x, axis_name=axis_name, source=source), d
    if len(names) > 1:
        known = axis_sizes()
        rest = tuple(a for a in names if a != axis.name)
        sizes = [axis.size if a == axis.name else known[a] for a in names]
        where = [int(i) for i in np.unravel_index(source, sizes)]
        own = where.pop(names.index(axis.name))
        other = int(np.ravel_multi_index(where, [known[a] for a in rest]))
        if d is not None:
            x = _row(x, d, own)
        return co.pbroadcast_p.bind(x, axis_name=rest[0] if len(rest) == 1 else rest, source=other), None
    return (x if d is None else _row(x, d, source)), None


def _row(x: Value, d: int, i: int) -> Value:
    """One slice of x along a dimension."""
    shape = aval_of(x).shape
    start = [0] * len(shape)
    stop = list(shape)
    start[d], stop[d] = i, i + 1
    return st.reshape(st.slice(x, start, stop), (*shape[:d], *shape[d + 1 :]))


def _take_rows(x: Value, rows: np.ndarray[Any, Any]) -> Value:
    """The rows of x in another, constant order: slices, one for each run of neighbours; zeros for runs of -1."""
    aval = aval_of(x)
    shape = aval.shape
    pieces: list[Value] = []
    start = 0
    for i in range(1, len(rows) + 1):
        empty = rows[start] < 0
        if i < len(rows) and (rows[i] < 0 if empty else rows[i] == rows[i - 1] + 1):
            continue
        lo, hi = int(rows[start]), int(rows[i - 1]) + 1
        if empty:
            piece = st.broadcast_in_dim(np.zeros((), aval.dtype)[()], (i - start, *shape[1:]), ())
        elif lo == 0 and hi == shape[0]:
            piece = x
        else:
            piece = st.slice(x, (lo, *[0] * (len(shape) - 1)), (hi, *shape[1:]))
        pieces.append(piece)
        start = i
    return pieces[0] if len(pieces) == 1 else st.concatenate(pieces, 0)


def _sizes(axis: Axis, names: Sequence[Any], total: int) -> list[int]:
    """The sizes of the axes: the batched one's is known, that of one other follows from the total."""
    others = [a for a in names if a != axis.name]
    if len(others) == 1:
        return [axis.size if a == axis.name else total // axis.size for a in names]
    known = axis_sizes()
    return [axis.size if a == axis.name else known[a] for a in names]


def _apart(
    axis: Axis, x: Value, d: Dim, p: Primitive, axis_name: Any, groups: co.Groups, along: str, k: int, params: Mapping[str, Any]
) -> tuple[Value, Dim] | None:  # fmt: skip
    """A collective along dimension `k` (the parameter `along`) where the batch is none of its axes, or over groups of lanes; None
    where it is one over whole axes, the batch among them."""
    names = co.names_of(axis_name)
    if axis.name not in names:
        # The new dimension goes in front of the batch dimension or behind it.
        assert d is not None
        grouped = params if groups is None else {**params, "axis_index_groups": groups}
        return p.bind(move_dim(x, d, 0), axis_name=axis_name, **{along: k + 1}, **grouped), 0
    if groups is None:
        return None
    return _in_groups(axis, x, d, groups, lambda y: p.bind(y, axis_name=axis.name, **{along: k}, **params), names)


@batching(co.all_gather_p)
def all_gather(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, all_gather_dimension: int,
    axis_size: int, tiled: bool, axis_index_groups: co.Groups = None, **to: str,
) -> tuple[Value, Dim]:  # fmt: skip
    (x,), (d,) = operands, dims
    k = all_gather_dimension
    names = co.names_of(axis_name)
    params: dict[str, Any] = {"axis_size": axis_size, "tiled": tiled, **to}
    apart = _apart(axis, x, d, co.all_gather_p, axis_name, axis_index_groups, "all_gather_dimension", k, params)
    if apart is not None:
        return apart
    if len(names) > 1:
        sizes = _sizes(axis, names, axis_size)

        def several(y: Value) -> Value:
            if not tiled:
                y = st.reshape(y, (*aval_of(y).shape[:k], 1, *aval_of(y).shape[k:]))
            for name, n in reversed(list(zip(names, sizes))):
                y = co.all_gather_p.bind(y, axis_name=name, all_gather_dimension=k, axis_size=n, tiled=True)
            return y

        return _batched(axis, x, d, several)
    x = broadcast_batch(x, axis.size, k) if d is None else move_dim(x, d, k)
    if tiled:
        shape = aval_of(x).shape
        x = st.reshape(x, (*shape[:k], shape[k] * shape[k + 1], *shape[k + 2 :]))
    return x, None


@batching(co.reduce_scatter_p)
def reduce_scatter(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, scatter_dimension: int,
    axis_size: int, tiled: bool, axis_index_groups: co.Groups = None,
) -> tuple[Value, Dim]:  # fmt: skip
    (x,), (d,) = operands, dims
    k = scatter_dimension
    names = co.names_of(axis_name)
    params: dict[str, Any] = {"axis_size": axis_size, "tiled": tiled}
    apart = _apart(axis, x, d, co.reduce_scatter_p, axis_name, axis_index_groups, "scatter_dimension", k, params)
    if apart is not None:
        return apart
    if len(names) > 1:
        sizes = _sizes(axis, names, axis_size)

        def several(y: Value) -> Value:
            for name, n in zip(names, sizes):
                y = co.reduce_scatter_p.bind(y, axis_name=name, scatter_dimension=k, axis_size=n, tiled=True)
            if not tiled:
                y = st.reshape(y, (*aval_of(y).shape[:k], *aval_of(y).shape[k + 1 :]))
            return y

        return _batched(axis, x, d, several)
    total = sum_of_equal(x, axis.size) if d is None else rd.reduce_sum(x, (d,))
    if tiled:
        shape = aval_of(total).shape
        total = st.reshape(total, (*shape[:k], axis_size, shape[k] // axis_size, *shape[k + 1 :]))
    return total, k


@batching(co.all_to_all_p)
def all_to_all(
    axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], *, axis_name: Any, split_axis: int, concat_axis: int,
    axis_size: int, axis_index_groups: co.Groups = None,
) -> tuple[Value, Dim]:  # fmt: skip
    (x,), (d,) = operands, dims
    names = co.names_of(axis_name)
    if axis.name not in names:
        assert d is not None
        x = move_dim(x, d, 0)
        params: dict[str, Any] = {} if axis_index_groups is None else {"axis_index_groups": axis_index_groups}
        out = co.all_to_all_p.bind(
            x, axis_name=axis_name, split_axis=split_axis + 1, concat_axis=concat_axis + 1, axis_size=axis_size,
            **params,
        )  # fmt: skip
        return out, 0
    if axis_index_groups is not None:
        return _in_groups(
            axis, x, d, axis_index_groups,
            lambda y: co.all_to_all_p.bind(
                y, axis_name=axis.name, split_axis=split_axis, concat_axis=concat_axis, axis_size=axis_size
            ),
            names,
        )  # fmt: skip
    if len(names) > 1:
        return _batched(
            axis,
            x,
            d,
            lambda y: _all_to_all_of_several(y, names, _sizes(axis, names, axis_size), split_axis, concat_axis),
        )
    x = to_front(x, d, axis.size)  # [source, ...]
    shape = aval_of(x).shape
    s = split_axis + 1
    x = st.reshape(
        x, (*shape[:s], axis_size, shape[s] // axis_size, *shape[s + 1 :])
    )  # [source, ..., part, piece, ...]
    x = move_dim(x, s, 0)  # [part = destination, source, ...]
    x = move_dim(x, 1, concat_axis + 1)  # [destination, ..., source, concat, ...]
    shape = aval_of(x).shape
    c = concat_axis + 1
    return st.reshape(x, (*shape[:c], shape[c] * shape[c + 1], *shape[c + 2 :])), 0


def _all_to_all_of_several(
    y: Value, names: Sequence[Any], sizes: Sequence[int], split_axis: int, concat_axis: int
) -> Value:
    """Over one axis after the other: the part's number is written as one dimension an axis, exchanged in place."""
    n = len(names)
    shape = aval_of(y).shape
    parts = [*shape[:split_axis], *sizes, shape[split_axis] // math.prod(sizes), *shape[split_axis + 1 :]]
    y = st.reshape(y, parts)
    for i, (name, size) in enumerate(zip(names, sizes)):  # afterwards dimension i holds the source
        y = co.all_to_all_p.bind(
            y, axis_name=name, split_axis=split_axis + i, concat_axis=split_axis + i, axis_size=size
        )
    rank = len(shape)
    order = [i for i in range(rank + n) if not split_axis <= i < split_axis + n]
    order[concat_axis:concat_axis] = range(split_axis, split_axis + n)
    y = st.transpose(y, order)
    shape = aval_of(y).shape
    merged = math.prod(shape[concat_axis : concat_axis + n + 1])
    return st.reshape(y, (*shape[:concat_axis], merged, *shape[concat_axis + n + 1 :]))
