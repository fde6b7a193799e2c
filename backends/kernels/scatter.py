"""Scatter in place: set, add, mul, min, max of windows of updates at indexed places of the operand.

Updates are applied one after the other in the order of the scatter dimensions (of equal places the last write
wins, sums are deterministic). A window that does not lie inside the operand is left out whole (``drop``) or
moved inside (``clip``); no index value of any type makes the kernel touch other memory. Loops run over the
dimensions of the updates in their order; neighbouring window dimensions that are contiguous in both arrays
become one, and the innermost run is vectorised. Dimensions in which updates cannot meet (batching, and
leading window dimensions that no index moves) are spread over workgroups.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Literal

from .builder import KernelBuilder
from .combine import Combiner, Op
from .kernel import Kernel, Spec
from .target import KernelTarget
from .values import Value

ScatterOp = Literal["set", "add", "mul", "min", "max"]
Mode = Literal["drop", "clip"]

_OPS: dict[str, Op] = {"add": "sum", "mul": "prod", "min": "min", "max": "max"}


@dataclass(frozen=True)
class ScatterDims:
    """StableHLO's scatter dimension numbers (JAX's, whose ``index_vector_dim`` is always the last: None)."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()
    index_vector_dim: int | None = None


@dataclass(frozen=True)
class Axis:
    """One loop over the updates: its length and its stride in updates, operand and indices (elements).

    ``role``: a scatter position, a window dimension, or a window dimension in which no index moves (free).
    """

    size: int
    update: int
    operand: int
    indices: int
    role: Literal["scatter", "window", "free"]


def rows(operand: Spec, indices: Spec, updates: Spec) -> ScatterDims:
    """The dimension numbers of ``operand[indices[m], ...] op= updates[m, ...]`` (indices of shape [M, 1])."""
    return ScatterDims(tuple(range(1, len(operand.shape))), (0,), (0,))


def applies(operand: Spec, indices: Spec, updates: Spec, dims: ScatterDims, target: KernelTarget) -> str | None:
    """None where the kernel can do the scatter, else why not."""
    if target.kind != "cpu":
        return "the scatter kernel applies updates one after the other: CPUs only"
    if indices.dtype.kind not in ("int", "uint"):
        return f"indices must be integers, got {indices.dtype.name}"
    if operand.dtype != updates.dtype:
        return f"operand and updates differ: {operand.dtype.name} and {updates.dtype.name}"
    if not dims.scatter_dims_to_operand_dims:
        return "no dimension is indexed"
    sizes = window_sizes(operand, updates, dims)
    if any(w > d for w, d in zip(sizes, operand.shape)):
        return f"a window {sizes} is larger than the operand {operand}"
    return None


def window_sizes(operand: Spec, updates: Spec, dims: ScatterDims) -> list[int]:
    """The size of one window along each dimension of the operand."""
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    sizes = iter(updates.shape[d] for d in dims.update_window_dims)
    return [1 if d in single else next(sizes) for d in range(len(operand.shape))]


def scatter(
    op: ScatterOp,
    operand: Spec,
    indices: Spec,
    updates: Spec,
    dims: ScatterDims,
    target: KernelTarget,
    *,
    mode: Mode = "drop",
) -> Kernel:
    """The kernel with operands (operand, indices, updates); its one result is the operand, updated in place.

    ``tied`` says so: an operand that must keep its value has to be copied by whoever calls. Raises
    ``ValueError`` where :func:`applies` says so.
    """
    why = applies(operand, indices, updates, dims, target)
    if why is not None:
        raise ValueError(f"scatter into {operand}: {why}")
    operands = [operand, indices, updates]
    if updates.size == 0 or operand.size == 0:
        return Kernel.nothing(f"scatter_{op}", operands, [operand], [0], "no updates")
    axes = _axes(operand, indices, updates, dims)
    leading = 0
    while leading < len(axes) and axes[leading].role == "free":
        leading += 1
    spread = math.prod(a.size for a in axes[:leading])
    groups = max(1, min(spread, target.workgroups, updates.size // 2048))
    b = KernelBuilder(f"scatter_{op}", operands, [operand], target, tied={0: 0})
    writer = _Writer(b, op, operand, indices, updates, dims, mode)
    with b.spread(spread, groups) as number:
        place = writer.origin()
        rest: Value = number
        for axis in reversed(axes[:leading]):
            place = place.moved(b.urem(rest, axis.size), axis)
            rest = b.udiv(rest, axis.size)
        writer.positions(axes[leading:], place)
    where = "outside: dropped" if mode == "drop" else "outside: clipped"
    return b.build((groups,), f"scatter {op} of {updates} in place, in order of the updates; {where}")


def _axes(operand: Spec, indices: Spec, updates: Spec, dims: ScatterDims) -> list[Axis]:
    """The loops over the updates: free leading ones, scatter positions, then the rest of the window."""
    vector_dim = len(indices.shape) - 1 if dims.index_vector_dim is None else dims.index_vector_dim
    strides_u, strides_o = _strides(updates.shape), _strides(operand.shape)
    strides_i = _strides(indices.shape)
    batching = dict(zip(dims.scatter_indices_batching_dims, dims.operand_batching_dims))
    positions = iter(d for d in range(len(indices.shape)) if d != vector_dim)
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    windows = iter(d for d in range(len(operand.shape)) if d not in single)
    leading: list[Axis] = []
    scatter_axes: list[Axis] = []
    window: list[Axis] = []
    for d, size in enumerate(updates.shape):
        if d in dims.update_window_dims:
            o = next(windows)
            free = o not in dims.scatter_dims_to_operand_dims
            axis = Axis(size, strides_u[d], strides_o[o], 0, "free" if free else "window")
            (leading if free and not scatter_axes else window).append(axis)
        else:
            i = next(positions)
            o = batching.get(i)
            stride = 0 if o is None else strides_o[o]
            axis = Axis(size, strides_u[d], stride, strides_i[i], "scatter" if o is None else "free")
            # A batching dimension separates updates; it may go outside where it already is.
            (leading if o is not None and not scatter_axes else scatter_axes).append(axis)
    scatter_axes = [replace(a, role="scatter") for a in scatter_axes]
    window = [replace(a, role="window") for a in window]
    keep = [a for a in (*leading, *scatter_axes) if a.size > 1]
    return keep + _merged([a for a in window if a.size > 1])


def _merged(axes: Sequence[Axis]) -> list[Axis]:
    """Neighbouring window axes that are one contiguous axis in updates and operand become one."""
    out: list[Axis] = []
    for axis in axes:
        last = out[-1] if out else None
        if last and last.update == axis.update * axis.size and last.operand == axis.operand * axis.size:
            out[-1] = replace(axis, size=last.size * axis.size)
        else:
            out.append(axis)
    return out


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[d + 1 :]) for d in range(len(shape))]


@dataclass(frozen=True)
class _Place:
    """Flat places in the three arrays."""

    update: Value
    operand: Value
    indices: Value

    def moved(self, steps: Value, axis: Axis) -> _Place:
        """The place ``steps`` further along ``axis``."""

        def move(at: Value, stride: int) -> Value:
            return at + steps * stride if stride else at

        return _Place(
            move(self.update, axis.update), move(self.operand, axis.operand), move(self.indices, axis.indices)
        )


@dataclass(frozen=True)
class _Writer:
    """The inner part of a scatter kernel: from a position of the updates to the elements of its window."""

    b: KernelBuilder
    op: ScatterOp
    operand: Spec
    indices: Spec
    updates: Spec
    dims: ScatterDims
    mode: Mode

    def origin(self) -> _Place:
        """The first element of everything."""
        zero = self.b.index(0)
        return _Place(zero, zero, zero)

    def positions(self, axes: Sequence[Axis], place: _Place) -> None:
        """Loop over the scatter positions and apply each window."""
        b = self.b
        with ExitStack() as loops:
            window: list[Axis] = []
            for axis in axes:
                if axis.role == "window":
                    window.append(axis)
                    continue
                loop = loops.enter_context(b.for_(0, axis.size))
                place = place.moved(loop.index, axis)
            inside, place = self._start(place)
            if inside is not None:
                loops.enter_context(b.if_(inside))
            self._window(window, place)

    def _start(self, place: _Place) -> tuple[Value | None, _Place]:
        """Read the index vector: whether its window lies inside (None: always), and where it begins."""
        b, dims = self.b, self.dims
        rank = len(self.indices.shape)
        vector_dim = rank - 1 if dims.index_vector_dim is None else dims.index_vector_dim
        # An index vector of one component may be given without its dimension.
        step = _strides(self.indices.shape)[vector_dim] if vector_dim < rank else 0
        sizes = window_sizes(self.operand, self.updates, dims)
        strides = _strides(self.operand.shape)
        memory = b.operand(1, (self.indices.size,), self.indices.dtype.word)
        signed = self.indices.dtype.kind == "int"
        at = place.operand
        inside: Value | None = None
        for k, d in enumerate(dims.scatter_dims_to_operand_dims):
            index = b.cast(b.load(memory, place.indices + k * step), "i64", signed=signed)
            limit = self.operand.shape[d] - sizes[d]
            if self.mode == "drop":
                fits = b.cmp("ule", index, limit)  # a negative index is a huge unsigned one
                inside = fits if inside is None else inside & fits
            elif signed:
                index = b.smin(b.smax(index, 0), limit)
            else:
                index = b.umin(index, limit)
            at = at + b.cast(index, "index") * strides[d]
        return inside, replace(place, operand=at)

    def _window(self, axes: Sequence[Axis], place: _Place) -> None:
        b = self.b
        with ExitStack() as loops:
            run = 1
            if axes and axes[-1].update == 1 and axes[-1].operand == 1:
                run, axes = axes[-1].size, axes[:-1]
            for axis in axes:
                loop = loops.enter_context(b.for_(0, axis.size))
                place = place.moved(loop.index, axis)
            self._run(run, place)

    def _run(self, length: int, place: _Place) -> None:
        """``length`` contiguous elements: whole vectors, then ever shorter ones."""
        b, dtype = self.b, self.operand.dtype
        lanes = b.target.lanes(dtype.bits if self.op == "set" else max(16, dtype.bits))
        whole = length // lanes * lanes
        if whole == lanes:
            self._elements(lanes, place, 0)
        elif whole:
            with b.for_(0, whole, lanes) as loop:
                self._elements(lanes, place, loop.index)
        done = whole
        while done < length:
            n = 1 << ((length - done).bit_length() - 1)
            self._elements(n, place, done)
            done += n

    def _elements(self, n: int, place: _Place, offset: Value | int) -> None:
        b, dtype = self.b, self.operand.dtype
        to, at = place.operand + offset, place.update + offset
        if self.op == "set":
            words = dtype.words
            target = b.operand(0, (self.operand.size * words,), dtype.word)
            source = b.operand(2, (self.updates.size * words,), dtype.word)
            b.vstore(b.vload(n * words, source, at * words), target, to * words)
            return
        combiner = Combiner(b, _OPS[self.op], dtype)
        target = b.operand(0, (self.operand.size * dtype.parts,), combiner.memory)
        source = b.operand(2, (self.updates.size * dtype.parts,), combiner.memory)
        old, new = combiner.load(n, target, to), combiner.load(n, source, at)
        combiner.store(combiner.combine(old, new), target, to)
