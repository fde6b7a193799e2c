"""From one division of an array to another: the steps, what they cost, and the operations that do them.

Slicing comes first where it can, since it makes what is sent smaller; then dimensions are exchanged (all_to_all); what is
left is gathered. A dimension that does not divide evenly is gathered whole, cut to its size, and divided anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from quire.ir.avals import ShapedArray, aval_of
from quire.ir.primitives import collectives as co
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st

from .costs import Machine, received
from .specs import Axes, Sizes, Spec, is_prefix, local_shape, parts, used


@dataclass(frozen=True)
class Step:
    """One step of a move.

    Attributes:
        kind: all_gather, all_to_all, crop, slice.
        axes: the mesh axes.
        dim: the dimension that is gathered, cut or divided; of all_to_all the one that is put together.
        other: the dimension that all_to_all divides.
        before: the local shape before the step.
    """

    kind: str
    axes: Axes
    dim: int
    other: int
    before: tuple[int, ...]


def plan(shape: Sequence[int], source: Spec, target: Spec, sizes: Sizes) -> list[Step]:
    """The steps from one spec of an array of that shape to another."""
    if source == target:
        return []
    now = list(source)
    local = list(local_shape(shape, source, sizes))
    steps: list[Step] = []
    uneven = {
        d
        for d, n in enumerate(shape)
        if now[d] != target[d] and (n % parts(now[d], sizes) or n % parts(target[d], sizes))
    }

    def slices() -> None:
        for d, axes in enumerate(target):
            while d not in uneven and now[d] != axes and is_prefix(now[d], axes):
                a = axes[len(now[d])]
                if a in used(tuple(now)):
                    break
                steps.append(Step("slice", (a,), d, d, tuple(local)))
                now[d] = (*now[d], a)
                local[d] //= sizes[a]

    def gather(d: int) -> None:
        a = now[d][-1]
        steps.append(Step("all_gather", (a,), d, d, tuple(local)))
        now[d] = now[d][:-1]
        local[d] *= sizes[a]

    def exchanged() -> bool:
        for d, axes in enumerate(now):
            if d in uneven or not axes or is_prefix(axes, target[d]):
                continue
            for e, wanted in enumerate(target):
                if e != d and e not in uneven and is_prefix(now[e], wanted) and wanted[len(now[e]) :][:1] == axes[-1:]:
                    steps.append(Step("all_to_all", axes[-1:], d, e, tuple(local)))
                    now[d], now[e] = axes[:-1], (*now[e], axes[-1])
                    local[d] *= sizes[axes[-1]]
                    local[e] //= sizes[axes[-1]]
                    return True
        return False

    while True:
        slices()
        if exchanged():
            continue
        for d in range(len(now)):
            if now[d] and (d in uneven or not is_prefix(now[d], target[d])):
                gather(d)
                if d in uneven and not now[d] and local[d] != shape[d]:
                    steps.append(Step("crop", (), d, d, tuple(local)))
                    local[d] = shape[d]
                break
        else:
            break
    for d in sorted(uneven):
        if target[d]:
            steps.append(Step("slice", target[d], d, d, tuple(local)))
            now[d] = target[d]
            local[d] = -(-shape[d] // parts(target[d], sizes))
    assert tuple(now) == target, (source, target, now)
    return steps


COMMUNICATING = ("all_gather", "all_to_all")


def step_bytes(step: Step, itemsize: int, sizes: Sizes) -> int:
    """What a device receives in a step."""
    if step.kind not in COMMUNICATING:
        return 0
    size = itemsize
    for n in step.before:
        size *= n
    return received(step.kind, size, parts(step.axes, sizes))


def seconds(steps: Sequence[Step], aval: ShapedArray, sizes: Sizes, machine: Machine) -> float:
    """The estimated time of some steps."""
    return sum(machine.message(step_bytes(s, aval.dtype.itemsize, sizes)) for s in steps if s.kind in COMMUNICATING)


def moved(steps: Sequence[Step]) -> bool:
    """Whether some step communicates."""
    return any(s.kind in COMMUNICATING for s in steps)


# -- operations -------------------------------------------------------------------------------------------------------


def block_index(axes: Axes, sizes: Sizes) -> Any:
    """The number of a device's part along some axes, an int32 scalar."""
    index: Any = None
    for a in axes:
        i = co.axis_index_p.bind(axis_name=a)
        index = i if index is None else ew.add(ew.mul(index, np.int32(sizes[a])), i)
    return index


def sliced(x: Any, axes: Axes, dim: int, sizes: Sizes) -> Any:
    """A device's part of what it holds whole along a dimension, filled up with zeros at the end."""
    shape = aval_of(x).shape
    k = parts(axes, sizes)
    size = -(-shape[dim] // k)
    if size * k != shape[dim]:
        config = [(0, size * k - n if d == dim else 0, 0) for d, n in enumerate(shape)]
        x = st.pad(x, aval_of(x).dtype.type(0), config)
    start = ew.mul(block_index(axes, sizes), np.int32(size))
    starts = [start if d == dim else np.int32(0) for d in range(len(shape))]
    return ix.dynamic_slice_p.bind(x, *starts, slice_sizes=(*shape[:dim], size, *shape[dim + 1 :]))


def apply(x: Any, steps: Sequence[Step], shape: Sequence[int], sizes: Sizes) -> Any:
    """Take the steps with a local value."""
    for s in steps:
        if s.kind == "slice":
            x = sliced(x, s.axes, s.dim, sizes)
        elif s.kind == "crop":
            limits = [shape[d] if d == s.dim else n for d, n in enumerate(s.before)]
            x = st.slice(x, (0,) * len(limits), limits)
        elif s.kind == "all_gather":
            (a,) = s.axes
            x = co.all_gather_p.bind(x, axis_name=a, all_gather_dimension=s.dim, axis_size=sizes[a], tiled=True)
        else:
            (a,) = s.axes
            x = co.all_to_all_p.bind(x, axis_name=a, split_axis=s.other, concat_axis=s.dim, axis_size=sizes[a])
    return x
