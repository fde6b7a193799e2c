"""The meaning of a per-rank program: every rank interpreted with NumPy, and the collectives between them.

A rank is a generator that yields where it meets a collective and gets the collective's result. A group of ranks goes on
when all of them wait at the same equation. Nothing here is shared with the rules that batch collectives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir import dtypes
from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Params, Var, all_eqns, nested_jaxprs
from quire.ir.primitives import calls
from quire.ir.primitives import collectives as co
from quire.ir.primitives import control_flow as cf
from quire.ir.primitives import shard_map as sm
from quire.ir.sharding import AbstractMesh, Mesh, PartitionSpec, axes_of
from quire.ir.source import where

from .engine import Place, evaluate, exactly

Array = np.ndarray[Any, Any]
Position = tuple[int, ...]


class RankError(RuntimeError):
    """Ranks of one program that take different ways, or that give different values where they must be equal."""


@dataclass
class Wait:
    """A rank that waits at a collective."""

    eqn: Eqn
    operands: list[Array]


Rank = Generator[Wait, list[Array], list[Array]]


# -- arrays and their parts ---------------------------------------------------------------------------------------


def hostile(dtype: Any) -> Any:
    """What the padding of uneven parts is filled with: NaN, the largest integer, True."""
    if dtypes.is_inexact(dtype):
        return np.asarray(np.nan, dtypes.real_dtype(dtype)).astype(dtype)[()]
    return np.bool_(True) if dtypes.is_bool(dtype) else np.asarray(np.iinfo(dtype).max, dtype)[()]


class _Grid:
    """The ranks of a mesh by their positions."""

    def __init__(self, mesh: Mesh | AbstractMesh) -> None:
        self.names = mesh.axis_names
        self.sizes = dict(mesh.shape)
        self.positions: list[Position] = list(itertools.product(*(range(n) for n in mesh.axis_sizes)))

    def index(self, position: Position, axes: Sequence[Any]) -> int:
        """The number of a rank along some axes, the first of which is the major one."""
        number = 0
        for a in axes:
            number = number * self.sizes[a] + position[self.names.index(a)]
        return number

    def group(self, position: Position, axes: Sequence[Any]) -> list[Position]:
        """The ranks that differ from one along these axes at most, in their order along them."""
        free = [self.names.index(a) for a in axes]
        out: list[Position] = []
        for place in itertools.product(*(range(self.sizes[a]) for a in axes)):
            found = list(position)
            for d, i in zip(free, place):
                found[d] = i
            out.append(tuple(found))
        return out

    def parts(self, spec: PartitionSpec, ndim: int) -> list[tuple[Any, ...]]:
        """The axes along which each dimension is divided. Raises ValueError for an entry without a dimension."""
        if len(spec) > ndim:
            raise ValueError(f"eval_ranks: {spec} has more entries than an array of {ndim} dimensions")
        return [axes_of(e) for e in (*spec, *[None] * (ndim - len(spec)))]

    def count(self, axes: Sequence[Any]) -> int:
        return math.prod(self.sizes[a] for a in axes)

    def part(self, x: Array, spec: PartitionSpec, position: Position, fill: Callable[[Any], Any]) -> Array:
        """What a rank holds of an array: parts of ceil(n / k) elements, filled up where the array ends."""
        for d, axes in enumerate(self.parts(spec, x.ndim)):
            if not axes:
                continue
            size = -(-x.shape[d] // self.count(axes))
            start = self.index(position, axes) * size
            found = x[(slice(None),) * d + (slice(min(start, x.shape[d]), start + size),)]
            if found.shape[d] < size:
                missing = list(found.shape)
                missing[d] = size - found.shape[d]
                found = np.concatenate([found, np.full(missing, fill(x.dtype), x.dtype)], d)
            x = found
        return np.array(x)

    def whole(
        self, results: dict[Position, Array], spec: PartitionSpec, shape: tuple[int, ...] | None, name: str
    ) -> Array:
        """The array whose parts the ranks hold.

        Raises:
            RankError: ranks that hold the same part hold different values.
        """
        first = results[self.positions[0]]
        entries = self.parts(spec, first.ndim)
        local = first.shape
        sizes = tuple(n * self.count(axes) for n, axes in zip(local, entries))
        out = np.zeros(sizes, first.dtype)
        seen: dict[Position, Position] = {}
        inside = tuple(slice(0, n) for n in (shape or sizes))
        for position in self.positions:
            block = tuple(self.index(position, axes) for axes in entries)
            at = tuple(slice(b * n, b * n + n) for b, n in zip(block, local))
            other = seen.setdefault(block, position)
            if other is position:
                out[at] = results[position]
                continue
            valid = tuple(
                slice(0, max(0, min(n, m.stop - b * n))) for b, n, m in zip(block, local, inside)
            )  # padding may differ
            if not _equal(results[other][valid], results[position][valid]):
                raise RankError(
                    f"{name} is {spec}, so the ranks {self.show(other)} and {self.show(position)} must hold equal "
                    f"values, got {_short(results[other])} and {_short(results[position])}"
                )
        return np.array(out[inside])

    def show(self, position: Position) -> str:
        """A rank for messages: ``(x=0, y=1)``."""
        return f"({', '.join(f'{n}={i}' for n, i in zip(self.names, position))})"


def _equal(a: Array, b: Array) -> bool:
    if dtypes.is_inexact(a.dtype):
        return bool(np.all((a == b) | ((a != a) & (b != b))))
    return bool(np.array_equal(a, b))


def _short(x: Array) -> str:
    return np.array2string(x, threshold=6, edgeitems=2).replace("\n", "")


# -- one rank -------------------------------------------------------------------------------------------------------


class _Ranks:
    def __init__(self, grid: _Grid, around: Mapping[Any, tuple[int, int]] | None = None) -> None:
        self.grid = grid
        #: The axes of a shard_map around: the index of the rank that runs this one, and the number of ranks.
        self.around = dict(around or {})
        self._communicates: dict[int, tuple[Params, bool]] = {}

    def communicates(self, eqn: Eqn) -> bool:
        """Whether the jaxprs of an equation hold collectives."""
        found = self._communicates.get(id(eqn.params))
        if found is None:
            inner = (j.jaxpr if isinstance(j, ClosedJaxpr) else j for j in nested_jaxprs(eqn.params))
            any_ = any(e.primitive.family == "collectives" for j in inner for e in all_eqns(j))
            found = self._communicates[id(eqn.params)] = (eqn.params, any_)
        return found[1]

    def run(self, program: ClosedJaxpr | Jaxpr, args: Sequence[Any], position: Position) -> Rank:
        """A rank's results of a jaxpr."""
        consts: Sequence[Any] = ()
        jaxpr = program
        if isinstance(program, ClosedJaxpr):
            jaxpr, consts = program.jaxpr, program.consts
        assert isinstance(jaxpr, Jaxpr)
        env: dict[Var, Any] = {}
        for v, x in zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True):
            env[v] = x if type(x) is Place else np.asarray(x, dtype=v.aval.dtype)
        for eqn in jaxpr.eqns:
            operands = [a.value if isinstance(a, Literal) else env[a] for a in eqn.inputs]
            results = yield from self.equation(eqn, operands, position)
            env.update(zip(eqn.outputs, results, strict=True))
        return [a.value if isinstance(a, Literal) else env[a] for a in jaxpr.outvars]

    def index(self, position: Position, axes: Sequence[Any]) -> int:
        """The number of a rank along some axes, which may be those of a shard_map around."""
        number = 0
        for a in axes:
            i, n = self.around[a] if a in self.around else (self.grid.index(position, (a,)), self.grid.sizes[a])
            number = number * n + i
        return number

    def equation(self, eqn: Eqn, operands: list[Array], position: Position) -> Rank:
        """A rank's results of an equation. Raises NotImplementedError for nested programs of an unknown kind."""
        p = eqn.primitive
        if p is co.axis_index_p:
            return [np.asarray(self.index(position, co.names_of(eqn.params["axis_name"])), np.int32)]
        if p in COLLECTIVES:
            outside = [a for a in co.axis_names(eqn.params) if a in self.around]
            if outside:
                raise NotImplementedError(
                    f"{p.name} over {outside[0]!r}, an axis of a shard_map around the one that it is in: the interpreter of "
                    f"ranks runs the inner one by itself{where(eqn.source)}"
                )
            results = yield Wait(eqn, operands)
            return results
        if not eqn.params or not self.communicates(eqn):
            return evaluate(p, operands, eqn.params, [v.aval for v in eqn.outputs])
        rule = NESTED.get(p.name)
        if rule is None:
            raise NotImplementedError(f"{p.name} holds collectives, and the interpreter of ranks does not know it")
        results = yield from rule(self, operands, position, **eqn.params)
        return [exactly(p, x, v.aval) for x, v in zip(results, eqn.outputs, strict=True)]


def _call(self: _Ranks, operands: list[Array], position: Position, **params: Any) -> Rank:
    program = params["call_jaxpr"] if "call_jaxpr" in params else params["jaxpr"]
    results = yield from self.run(program, operands, position)
    return results


def _cond(self: _Ranks, operands: list[Array], position: Position, *, branches: Any, **_: Any) -> Rank:
    branch = branches[min(max(int(operands[0]), 0), len(branches) - 1)]
    results = yield from self.run(branch, operands[1:], position)
    return results


def _while(
    self: _Ranks,
    operands: list[Array],
    position: Position,
    *,
    cond_jaxpr: Any,
    body_jaxpr: Any,
    cond_nconsts: int,
    body_nconsts: int,
    max_steps: int | None = None,
) -> Rank:
    n = cond_nconsts + body_nconsts
    cond_consts, body_consts, carry = operands[:cond_nconsts], operands[cond_nconsts:n], operands[n:]
    steps = 0
    while steps != max_steps:
        going = yield from self.run(cond_jaxpr, (*cond_consts, *carry), position)
        if not going[0]:
            break
        carry = yield from self.run(body_jaxpr, (*body_consts, *carry), position)
        steps += 1
    return carry


def _scan(
    self: _Ranks,
    operands: list[Array],
    position: Position,
    *,
    jaxpr: Any,
    length: int,
    reverse: bool,
    num_consts: int,
    num_carry: int,
    **_: Any,
) -> Rank:
    n = num_consts + num_carry
    consts, carry, xs = operands[:num_consts], operands[num_consts:n], operands[n:]
    ys = [np.zeros((length, *a.shape), a.dtype) for a in jaxpr.out_avals[num_carry:]]
    for i in reversed(range(length)) if reverse else range(length):
        out = yield from self.run(jaxpr, (*consts, *carry, *(x[i] for x in xs)), position)
        carry = out[:num_carry]
        for y, value in zip(ys, out[num_carry:], strict=True):
            y[i] = value
    return [*carry, *ys]


def _shard_map(self: _Ranks, operands: list[Array], position: Position, **params: Any) -> Rank:
    """The ranks of a shard_map over other axes than this one's, all run by each rank."""
    yield from ()
    around = {a: (self.grid.index(position, (a,)), n) for a, n in self.grid.sizes.items()}
    return eval_shard_map(operands, around={**self.around, **around}, **params)


NESTED: dict[str, Callable[..., Rank]] = {
    sm.shard_map_p.name: _shard_map,
    cf.cond_p.name: _cond,
    cf.while_p.name: _while,
    cf.bounded_while_p.name: _while,
    cf.scan_p.name: _scan,
    calls.jit_p.name: _call,
    calls.checkpoint_p.name: _call,
    calls.fusion_p.name: _call,
    calls.custom_jvp_call_p.name: _call,
    calls.custom_vjp_call_p.name: _call,
    calls.custom_vmap_call_p.name: _call,
}


# -- the collectives ------------------------------------------------------------------------------------------------


def _reduced(combine: Callable[[Array, Array], Array]) -> Callable[..., list[Array]]:
    def rule(xs: list[Array], **_: Any) -> list[Array]:
        total = xs[0]
        for x in xs[1:]:
            total = combine(total, x).astype(xs[0].dtype)
        return [total] * len(xs)

    return rule


def _ppermute(xs: list[Array], *, perm: Sequence[tuple[int, int]], **_: Any) -> list[Array]:
    out = [np.zeros_like(x) for x in xs]
    for source, destination in perm:
        out[destination] = xs[source]
    return out


def _pbroadcast(xs: list[Array], *, source: int, **_: Any) -> list[Array]:
    return [xs[source]] * len(xs)


def _all_gather(xs: list[Array], *, all_gather_dimension: int, tiled: bool, **_: Any) -> list[Array]:
    join = np.concatenate if tiled else np.stack
    return [join(xs, axis=all_gather_dimension)] * len(xs)


def _reduce_scatter(xs: list[Array], *, scatter_dimension: int, tiled: bool, **_: Any) -> list[Array]:
    total = _reduced(np.add)(xs)[0]
    pieces = np.split(total, len(xs), scatter_dimension)
    return pieces if tiled else [np.squeeze(p, scatter_dimension) for p in pieces]


def _all_to_all(xs: list[Array], *, split_axis: int, concat_axis: int, **_: Any) -> list[Array]:
    pieces = [np.split(x, len(xs), split_axis) for x in xs]
    return [np.concatenate([p[j] for p in pieces], concat_axis) for j in range(len(xs))]


COLLECTIVES: dict[Any, Callable[..., list[Array]]] = {
    co.psum_p: _reduced(np.add),
    co.pmax_p: _reduced(np.maximum),
    co.pmin_p: _reduced(np.minimum),
    co.ppermute_p: _ppermute,
    co.pbroadcast_p: _pbroadcast,
    co.all_gather_p: _all_gather,
    co.reduce_scatter_p: _reduce_scatter,
    co.all_to_all_p: _all_to_all,
}


def _group(grid: _Grid, position: Position, eqn: Eqn) -> list[Position]:
    """The ranks that communicate with one in a collective, in their order."""
    found = grid.group(position, co.axis_names(eqn.params))
    groups: co.Groups = eqn.params.get("axis_index_groups")
    if groups is None:
        return found
    mine = found.index(position)
    return [found[i] for g in groups if mine in g for i in g]


def eval_ranks(
    closed: ClosedJaxpr,
    mesh: Mesh | AbstractMesh,
    in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec],
    args: Sequence[Any],
    out_shapes: Sequence[tuple[int, ...]] | None = None,
    fill: Callable[[Any], Any] = hostile,
) -> list[Array]:
    """Run a per-rank program on all ranks of a mesh.

    Args:
        closed: the program, with the shapes of one rank's parts.
        mesh: the ranks.
        in_specs, out_specs: how whole arguments and results are divided.
        args: whole arrays.
        out_shapes: the shapes of the whole results; None: parts times their number, as where everything divides evenly.
        fill: dtype to the value of the padding where an argument does not divide evenly.

    Returns:
        The whole results.

    Raises:
        ValueError: an argument's parts have not the shapes that the program takes.
        RankError: ranks wait at different equations, one ends while others wait, or results that are replicated are not
            equal on all ranks.
    """
    grid = _Grid(mesh)
    ranks = _Ranks(grid)
    arrays = [np.asarray(x, dtype=a.dtype) for x, a in zip(args, closed.in_avals, strict=True)]
    running: dict[Position, Rank] = {}
    for position in grid.positions:
        parts = [grid.part(x, s, position, fill) for x, s in zip(arrays, in_specs, strict=True)]
        for i, (x, a) in enumerate(zip(parts, closed.in_avals)):
            if x.shape != a.shape:
                raise ValueError(
                    f"eval_ranks: argument {i} of shape {arrays[i].shape} divided by {in_specs[i]} has parts of shape "
                    f"{x.shape}, the program takes {a.short()}"
                )
        running[position] = ranks.run(closed, parts, position)
    results = _together(grid, running)
    shapes = out_shapes if out_shapes is not None else [None] * len(closed.out_avals)
    return [
        grid.whole({p: r[i] for p, r in results.items()}, spec, shapes[i], f"result {i}")
        for i, spec in enumerate(out_specs)
    ]


def eval_shard_map(
    operands: Sequence[Array], *, mesh: Mesh | AbstractMesh, in_specs: Sequence[PartitionSpec],
    out_specs: Sequence[PartitionSpec], jaxpr: ClosedJaxpr, check_vma: bool, manual_axes: frozenset[Any],
    around: Mapping[Any, tuple[int, int]] | None = None,
) -> list[Array]:  # fmt: skip
    """A shard_map equation on whole arrays.

    Of a result that is not divided along a manual axis the part at its index 0 is taken, as types have promised that all are
    equal, or nobody asked.

    Raises:
        RankError: ranks wait at different equations, or one ends while others wait.
    """
    del check_vma  # types were checked when the program was made
    names = [a for a in mesh.axis_names if a in manual_axes]
    grid = _Grid(AbstractMesh([mesh.shape[a] for a in names], names))
    ranks = _Ranks(grid, around)
    running: dict[Position, Rank] = {}
    for position in grid.positions:
        parts = [grid.part(np.asarray(x), s, position, hostile) for x, s in zip(operands, in_specs, strict=True)]
        running[position] = ranks.run(jaxpr, parts, position)
    results = _together(grid, running)
    out: list[Array] = []
    for i, spec in enumerate(out_specs):
        first = {p: results[tuple(k if a in spec.axes else 0 for a, k in zip(names, p))][i] for p in grid.positions}
        out.append(grid.whole(first, spec, None, f"result {i}"))
    return out


def _together(grid: _Grid, running: dict[Position, Rank]) -> dict[Position, list[Array]]:
    """Run all ranks to their ends; returns their results. Raises RankError where they cannot go on."""
    waiting: dict[Position, Wait] = {}
    results: dict[Position, list[Array]] = {}

    def advance(position: Position, value: list[Array] | None) -> None:
        try:
            waiting[position] = running[position].send(value)  # pyright: ignore[reportArgumentType]
        except StopIteration as end:
            results[position] = end.value

    for position in grid.positions:
        advance(position, None)
    while waiting:
        for position in list(waiting):
            wait = waiting.get(position)
            if wait is None:
                continue
            group = _group(grid, position, wait.eqn)
            if all(p in waiting and waiting[p].eqn is wait.eqn for p in group):
                break
        else:
            raise _divergence(grid, waiting)
        operands = [waiting.pop(p).operands for p in group]
        with np.errstate(all="ignore"):
            outs = COLLECTIVES[wait.eqn.primitive]([x[0] for x in operands], **wait.eqn.params)
        aval = wait.eqn.outputs[0].aval
        for p, x in zip(group, outs, strict=True):
            advance(p, [exactly(wait.eqn.primitive, x, aval)])
    return results


def _divergence(grid: _Grid, waiting: dict[Position, Wait]) -> RankError:
    """The error for ranks of which none can go on: two that should meet, and do not."""
    for position, wait in waiting.items():
        for p in _group(grid, position, wait.eqn):
            other = waiting.get(p)
            if other is not None and other.eqn is wait.eqn:
                continue
            there = "has ended" if other is None else f"waits at {other.eqn.primitive.name}{where(other.eqn.source)}"
            return RankError(
                f"ranks disagree on the collective: rank {grid.show(position)} waits at "
                f"{wait.eqn.primitive.name}{where(wait.eqn.source)} over {co.axis_names(wait.eqn.params)}, rank {grid.show(p)} {there}"
            )
    raise AssertionError("a group that is complete was not taken")
