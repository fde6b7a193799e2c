"""Ranks: what runs a program of its own, and how the ranks lie on a mesh of devices.

A rank is a process under MPI, or a thread that stands for one. Each holds a box of the mesh, all boxes of one shape. So an
axis of the mesh is an axis of ranks, the major one, and one of the devices of a rank, the minor one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .sharding import AxisName, Mesh, PartitionSpec, axes_of

Box = tuple[slice, ...]


@dataclass(frozen=True)
class RankGrid:
    """The ranks of a mesh.

    Attributes:
        names: the mesh's axes.
        sizes: the number of ranks along each.
        inner: the number of devices of a rank along each.
        ranks: the rank at each position, row-major.
    """

    names: tuple[AxisName, ...]
    sizes: tuple[int, ...]
    inner: tuple[int, ...]
    ranks: tuple[int, ...]

    @cached_property
    def positions(self) -> Mapping[int, tuple[int, ...]]:
        """Where each rank is."""
        return dict(zip(self.ranks, np.ndindex(*self.sizes), strict=True))

    def axis(self, name: AxisName) -> RankAxis:
        """The axis of ranks along an axis of the mesh."""
        return RankAxis(name, self)

    def outer_size(self, name: AxisName) -> int:
        """The number of ranks along an axis of the mesh."""
        return self.sizes[self.names.index(name)]

    def inner_size(self, name: AxisName) -> int:
        """The number of devices of each rank along an axis of the mesh."""
        return self.inner[self.names.index(name)]

    def index(self, rank: int, axes: Sequence[AxisName]) -> int:
        """The number of a rank along some axes, the first of which is the major one."""
        position = self.positions[rank]
        number = 0
        for a in axes:
            d = self.names.index(a)
            number = number * self.sizes[d] + position[d]
        return number

    def members(self, rank: int, axes: Sequence[AxisName]) -> tuple[int, ...]:
        """The ranks that differ from one along these axes at most, in their order along them."""
        position = list(self.positions[rank])
        dims = [self.names.index(a) for a in axes]
        found: list[int] = []
        for place in np.ndindex(*(self.sizes[d] for d in dims)):
            for d, i in zip(dims, place, strict=True):
                position[d] = i
            found.append(self.ranks[int(np.ravel_multi_index(position, self.sizes))])
        return tuple(found)

    def box(self, rank: int, spec: PartitionSpec, shape: Sequence[int]) -> Box:
        """The part of an array that a rank's devices hold together.

        Raises:
            ValueError: it is no contiguous box, or a dimension does not divide evenly.
        """
        index: list[slice] = []
        for d, n in enumerate(shape):
            axes = axes_of(spec[d]) if d < len(spec) else ()
            parts = math.prod(self.outer_size(a) for a in axes)
            if parts == 1:
                index.append(slice(0, n))
                continue
            # Only if the axes of which a rank has several devices come last, its parts follow one another.
            several = False
            for a in axes:
                if several and self.outer_size(a) > 1:
                    raise ValueError(
                        f"{spec} divides dimension {d} over {axes}, so that the devices of a process hold parts of it that "
                        f"do not follow one another: processes hold {self.shown} devices of the mesh each. Name the axes "
                        "in another order, or order the devices of the mesh otherwise"
                    )
                several = several or self.inner_size(a) > 1
            if n % parts:
                raise ValueError(
                    f"dimension {d} of shape {tuple(shape)} does not divide evenly among {parts} processes"
                )
            size = n // parts
            start = self.index(rank, axes) * size
            index.append(slice(start, start + size))
        return tuple(index)

    @property
    def shown(self) -> str:
        """The devices of a rank for messages: ``x=1, y=2``."""
        return ", ".join(f"{n}={k}" for n, k in zip(self.names, self.inner))


@dataclass(frozen=True)
class RankAxis:
    """A named axis of ranks: what collectives that communicate between ranks name.

    Attributes:
        name: the axis of the mesh.
        grid: the ranks.
    """

    name: AxisName
    grid: RankGrid

    @property
    def size(self) -> int:
        """The number of ranks along it."""
        return self.grid.outer_size(self.name)

    def __repr__(self) -> str:
        g = self.grid
        sizes = ",".join(f"{n}={k}" for n, k in zip(g.names, g.sizes))
        return f"{self.name}@ranks({sizes}:{','.join(map(str, g.ranks))})"


def rank_grid(mesh: Mesh, owners: Any) -> RankGrid:
    """The ranks of a mesh.

    Args:
        mesh: the devices.
        owners: the rank of each device, an int array of the mesh's shape.

    Raises:
        ValueError: the devices of some rank are no contiguous box of the mesh, or the boxes differ in shape.
    """
    owners = np.asarray(owners).reshape(mesh.axis_sizes)
    first = np.nonzero(owners == owners.flat[0])
    inner = tuple(int(i.max()) + 1 for i in first)
    sizes = tuple(n // k if n % k == 0 else 0 for n, k in zip(mesh.axis_sizes, inner))
    ranks: list[int] = []
    fits = all(sizes)
    if fits:
        for boxed in _boxes(owners, sizes, inner):
            ranks.append(int(boxed.flat[0]))
            fits = fits and bool((boxed == boxed.flat[0]).all())
    if not fits or len(set(ranks)) != len(ranks):
        raise ValueError(
            f"the devices of each process must be a contiguous box of the mesh, all boxes of one shape; {mesh!s} has devices "
            f"of the processes {owners.tolist()}. quire.make_mesh over all devices gives such a mesh"
        )
    return RankGrid(mesh.axis_names, sizes, inner, tuple(ranks))


def _boxes(owners: Any, sizes: Sequence[int], inner: Sequence[int]) -> Iterator[Any]:
    for position in np.ndindex(*sizes):
        yield owners[tuple(slice(p * k, p * k + k) for p, k in zip(position, inner))]


__all__ = ["Box", "RankAxis", "RankGrid", "rank_grid"]
