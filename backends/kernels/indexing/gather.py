"""Gather of rows: windows whose last elements are neighbours in the operand and in the result.

Loops run over the dimensions of the result in their order; neighbouring ones that are strides of one another in all
three arrays are one. The innermost is a run of neighbours, which is copied by vectors; what does not fill one is copied
by a vector moved back, or by shorter ones. The places of the index vectors, their bounds and what is read outside are
settled in the same kernel: no index value of any type makes it read other memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from quire.ir.primitives.indexing import GatherDimensionNumbers

from ..core.builder import KernelBuilder
from ..core.dtypes import DType
from ..core.errors import NoKernel
from ..core.kernel import EMPTY, Kernel, Spec
from ..core.shapes import row_major, shorter
from ..core.target import KernelTarget
from ..core.values import Value
from .elements import elements
from .index_vectors import Components, IndexVectors, StoredVectors

Mode = Literal["fill", "clip"]
#: Writes vectors of so many lanes: to places of the result, from places of the operand.
Write = Callable[[int, Sequence[tuple[Value, Value]]], None]

#: Runs of fewer bytes are read element by element (`elements`).
LEAST_BYTES = 16
#: What a workgroup copies of one run, and how many bytes in all are worth a workgroup.
PIECE_BYTES, GROUP_BYTES = 1 << 15, 1 << 16
#: Vectors that are copied by one turn of a loop.
UNROLLED = 8


@dataclass(frozen=True)
class Axis:
    """One loop over the result: its length, and its stride in the result and the operand (elements).

    ``batch`` gives the dimensions of the index vectors' array that it goes over, none of a window.
    """

    size: int
    result: int
    operand: int
    batch: int | None = None


def result_shape(indices: Spec, dims: GatherDimensionNumbers, sizes: Sequence[int]) -> tuple[int, ...]:
    """The shape of the result of a gather of windows of these sizes."""
    single = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    window = iter(n for d, n in enumerate(sizes) if d not in single)
    batch = iter(indices.shape[:-1])
    rank = len(indices.shape) - 1 + len(dims.offset_dims)
    return tuple(next(window) if d in dims.offset_dims else next(batch) for d in range(rank))


def check(
    operand: Spec, indices: Spec, dims: GatherDimensionNumbers, sizes: Sequence[int], target: KernelTarget
) -> None:
    """Raise :class:`NoKernel` unless the kernel can do the gather."""
    if target.kind != "cpu":
        raise NoKernel("the gather kernel is for CPUs")
    if indices.dtype.kind not in ("int", "uint"):
        raise NoKernel(f"indices must be integers, got {indices.dtype.name}")
    if any(n > size for n, size in zip(sizes, operand.shape)):
        raise NoKernel(f"a window {tuple(sizes)} is larger than the operand {operand}")


def gather(
    operand: Spec,
    indices: Spec | IndexVectors,
    dims: GatherDimensionNumbers,
    sizes: Sequence[int],
    target: KernelTarget,
    *,
    mode: Mode = "fill",
    fill: Any = 0,
) -> Kernel:
    """The kernel of the operand and what the indices are made of; a window that is not wholly inside is ``fill``, or
    moved inside.

    Raises :class:`NoKernel`, also where the indices cannot be computed.
    """
    if isinstance(indices, Spec):
        indices = StoredVectors(indices)
    check(operand, indices.spec, dims, sizes, target)
    operands = [operand, *indices.operands]
    result = Spec(result_shape(indices.spec, dims, sizes), operand.dtype)
    if result.size == 0 or operand.size == 0:
        return Kernel.nothing("gather", operands, [result], [EMPTY], "nothing is gathered")
    axes = _axes(operand, indices.spec, dims, sizes)
    if axes[-1].size * operand.dtype.nbytes < LEAST_BYTES:
        return elements(operand, indices, dims, sizes, result.shape, target, fill if mode == "fill" else None)
    depth = 1 + max((i for i, a in enumerate(axes) if a.batch is not None), default=-1)
    outer, window = axes[:depth], axes[depth:]
    run, window = window[-1], window[:-1]
    words = run.size * operand.dtype.words
    piece = max(1, min(words, PIECE_BYTES * 8 // int(operand.dtype.word[1:])))
    pieces = -(-words // piece)
    count = math.prod(a.size for a in outer) * pieces
    groups = target.groups(result.size * operand.dtype.nbytes, GROUP_BYTES, count)
    b = KernelBuilder("gather", operands, [result], target)
    writer = _Writer(b, operand, result, dims, tuple(sizes), indices, mode, _words(fill, operand.dtype))
    with b.distributed(count, groups) as number:
        part = b.smin(b.urem(number, pieces) * piece, words - piece) if pieces > 1 else b.index(0)
        writer.windows(outer, b.udiv(number, pieces), window, part, piece)
    outside = "filled" if mode == "fill" else "moved inside"
    made = "" if isinstance(indices, StoredVectors) else ", the indices computed here"
    return b.build((groups,), f"gather of runs of {run.size} {operand.dtype.name}{made}; outside: {outside}")


def _words(number: Any, dtype: DType) -> list[int]:
    """An element as the integers that carry it."""
    word = np.dtype(f"uint{int(dtype.word[1:])}")
    return [int(w) for w in np.atleast_1d(np.asarray(number, dtype.numpy())).view(word)]


def _axes(operand: Spec, indices: Spec, dims: GatherDimensionNumbers, sizes: Sequence[int]) -> list[Axis]:
    """The loops over the result. Window dimensions that are one contiguous dimension in both arrays are one axis."""
    shape = result_shape(indices, dims, sizes)
    strides_r, strides_o = row_major(shape), row_major(operand.shape)
    single = {*dims.collapsed_slice_dims, *dims.operand_batching_dims}
    windows = iter(d for d in range(len(operand.shape)) if d not in single)
    batching = dict(zip(dims.start_indices_batching_dims, dims.operand_batching_dims))
    positions = iter(range(len(indices.shape) - 1))
    out: list[Axis] = []
    for d, size in enumerate(shape):
        if d not in dims.offset_dims:
            i = next(positions)
            out.append(Axis(size, strides_r[d], strides_o[batching[i]] if i in batching else 0, i))
            continue
        axis = Axis(size, strides_r[d], strides_o[next(windows)])
        last = out[-1] if out else None
        if size == 1 and last and last.batch is None:
            continue
        if last and last.batch is None and last.size == 1:
            out[-1] = axis
        elif last and last.batch is None and last.operand == axis.operand * size and last.result == axis.result * size:
            out[-1] = replace(axis, size=last.size * size)
        else:
            out.append(axis)
    if not out or out[-1].batch is not None or out[-1].operand != 1 or out[-1].result != 1:
        out.append(Axis(1, 1, 1))
    return out


@dataclass(frozen=True)
class _Writer:
    """Copies windows."""

    b: KernelBuilder
    operand: Spec
    result: Spec
    dims: GatherDimensionNumbers
    sizes: tuple[int, ...]
    indices: IndexVectors
    mode: Mode
    fill: Sequence[int]

    @cached_property
    def vectors(self) -> Components:
        """The index vectors."""
        return self.indices.opened(self.b, 1)

    def windows(self, outer: Sequence[Axis], number: Value, window: Sequence[Axis], part: Value, piece: int) -> None:
        """The window (or slices of one) that the outer axes say, in the order of their indices."""
        b = self.b
        to, at = b.index(0), b.index(0)
        place: dict[int, Value] = {}
        for axis in reversed(outer):
            index = b.urem(number, axis.size) if axis is not outer[0] else number
            number = b.udiv(number, axis.size)
            to, at = to + index * axis.result, at + _scaled(index, axis.operand)
            if axis.batch is not None:
                place[axis.batch] = index
        vector, shape = [place[d] for d in range(len(place))], self.operand.shape
        inside, start, _ = self.vectors.window(
            vector, self.dims.start_index_map, shape, self.sizes, self.mode == "clip"
        )
        to, at = to * self.operand.dtype.words + part, (at + start) * self.operand.dtype.words + part
        if inside is None:
            self._loops(window, to, at, piece, self._copied)
            return
        with b.if_(inside) as branch:
            self._loops(window, to, at, piece, self._copied)
            branch.else_()
            self._loops(window, to, at, piece, self._filled)

    def _loops(self, window: Sequence[Axis], to: Value, at: Value, piece: int, write: Write) -> None:
        words = self.operand.dtype.words
        with ExitStack() as loops:
            for axis in window:
                loop = loops.enter_context(self.b.for_(0, axis.size))
                to = to + loop.index * (axis.result * words)
                at = at + loop.index * (axis.operand * words)
            self._run(to, at, piece, write)

    def _run(self, to: Value, at: Value, piece: int, write: Write) -> None:
        """``piece`` neighbouring words: vectors, the last one moved back; fewer than one vector by halves."""
        b = self.b
        lanes = b.target.lanes(int(self.operand.dtype.word[1:]))
        if piece < lanes:
            for done, n in shorter(0, piece, lanes):
                write(n, [(to + done, at + done)])
            return
        turns, starts = covering(piece, lanes)
        if turns:
            step = UNROLLED * lanes
            with b.for_(0, turns * step, step) as loop:
                first, source = to + loop.index, at + loop.index
                write(lanes, [(first + s, source + s) for s in range(0, step, lanes)])
        write(lanes, [(to + s, at + s) for s in starts])

    def _copied(self, n: int, places: Sequence[tuple[Value, Value]]) -> None:
        b, dtype = self.b, self.operand.dtype
        source = b.operand(0, (self.operand.size * dtype.words,), dtype.word)
        result = b.result(0, (self.result.size * dtype.words,), dtype.word)
        values = [b.vload(n, source, at) for _, at in places]
        for (to, _), x in zip(places, values):
            b.vstore(x, result, to)

    def _filled(self, n: int, places: Sequence[tuple[Value, Value]]) -> None:
        b, dtype = self.b, self.operand.dtype
        result = b.result(0, (self.result.size * dtype.words,), dtype.word)
        count = len(self.fill)
        x = b.const_vector([self.fill[i % count] for i in range(n)], dtype.word)
        for to, _ in places:
            b.vstore(x, result, to)


def covering(piece: int, lanes: int) -> tuple[int, list[int]]:
    """Where vectors cover so many words, at least one vector of them, and no more.

    Returns:
        The turns of a loop over `UNROLLED` vectors each, and where those after it begin: the last is moved back.
    """
    whole = piece // lanes
    turns = whole // UNROLLED if whole >= 2 * UNROLLED else 0
    starts = [*range(turns * UNROLLED * lanes, whole * lanes, lanes)]
    return turns, [*starts, piece - lanes] if piece % lanes else starts


def _scaled(index: Value, stride: int) -> Value | int:
    return index * stride if stride else 0
