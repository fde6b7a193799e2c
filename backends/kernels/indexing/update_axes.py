"""The dimensions of a scatter's updates: which loops go over them, and where their elements belong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from quire.ir.primitives.indexing import ScatterDimensionNumbers

from ..core.kernel import Spec
from ..core.shapes import row_major
from ..core.values import Value
from ..elements.combiner import Op

ScatterOp = Literal["set", "add", "mul", "min", "max"]
#: What becomes of a window that does not lie inside the operand: it is left out whole, or moved inside.
Mode = Literal["drop", "clip"]

#: How the elements of an operation are combined; ``set`` combines nothing.
OPS: dict[str, Op] = {"add": "sum", "mul": "prod", "min": "min", "max": "max"}


@dataclass(frozen=True)
class Axis:
    """One loop over the updates: its length and its stride in updates and operand (elements).

    ``role``: a scatter position, a window dimension, or one in which updates cannot meet (free). ``batch`` is the
    dimension of the index vectors' array that it goes over, if any.
    """

    size: int
    update: int
    operand: int
    role: Literal["scatter", "window", "free"]
    batch: int | None = None


def window_sizes(operand: Spec, updates: Spec, dims: ScatterDimensionNumbers) -> list[int]:
    """The size of one window along each dimension of the operand."""
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    sizes = iter(updates.shape[d] for d in dims.update_window_dims)
    return [1 if d in single else next(sizes) for d in range(len(operand.shape))]


def are_elements(operand: Spec, updates: Spec, dims: ScatterDimensionNumbers) -> bool:
    """Whether windows have one place along each dimension that is indexed: different ones have no element in common."""
    sizes = window_sizes(operand, updates, dims)
    return all(sizes[d] == 1 for d in dims.scatter_dims_to_operand_dims)


def update_axes(operand: Spec, updates: Spec, dims: ScatterDimensionNumbers) -> list[Axis]:
    """One axis for each dimension of the updates. Free are batching dimensions and those of windows that no index moves."""
    strides_u, strides_o = row_major(updates.shape), row_major(operand.shape)
    batching = dict(zip(dims.scatter_indices_batching_dims, dims.operand_batching_dims))
    single = {*dims.inserted_window_dims, *dims.operand_batching_dims}
    windows = iter(d for d in range(len(operand.shape)) if d not in single)
    axes: list[Axis] = []
    batch = 0
    for d, size in enumerate(updates.shape):
        if d in dims.update_window_dims:
            o = next(windows)
            role = "window" if o in dims.scatter_dims_to_operand_dims else "free"
            axes.append(Axis(size, strides_u[d], strides_o[o], role))
        else:
            o = batching.get(batch)
            role, stride = ("scatter", 0) if o is None else ("free", strides_o[o])
            axes.append(Axis(size, strides_u[d], stride, role, batch))
            batch += 1
    return axes


def merged(axes: Sequence[Axis]) -> list[Axis]:
    """Neighbouring window axes that are one contiguous axis in updates and operand become one."""
    out: list[Axis] = []
    for axis in axes:
        last = out[-1] if out else None
        if last and last.update == axis.update * axis.size and last.operand == axis.operand * axis.size:
            out[-1] = replace(axis, size=last.size * axis.size)
        else:
            out.append(axis)
    return out


@dataclass(frozen=True)
class Place:
    """Flat places in updates and operand, and the index vector's place in each dimension met so far."""

    update: Value
    operand: Value
    vector: dict[int, Value] = field(default_factory=dict[int, Value])

    def moved(self, steps: Value, axis: Axis) -> Place:
        """The place ``steps`` further along ``axis``."""

        def move(at: Value, stride: int) -> Value:
            return at + steps * stride if stride else at

        vector = self.vector if axis.batch is None else {**self.vector, axis.batch: steps}
        return Place(move(self.update, axis.update), move(self.operand, axis.operand), vector)

    def at(self, axes: Sequence[Axis], number: Value) -> Place:
        """The place of a number in the order of these axes' indices."""
        place, b = self, number.builder
        for axis in reversed(axes):
            first = axis is axes[0]
            place = place.moved(number if first else b.urem(number, axis.size), axis)
            number = number if first else b.udiv(number, axis.size)
        return place
