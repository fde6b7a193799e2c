"""How arrays are divided, as the partitioner computes with it: for each dimension the mesh axes, the major one first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from quire.ir.sharding import PartitionSpec, axes_of

Axis = Any
Axes = tuple[Axis, ...]
Spec = tuple[Axes, ...]
Sizes = Mapping[Axis, int]
"""The number of devices along each mesh axis."""


def from_partition_spec(spec: PartitionSpec, ndim: int) -> Spec:
    """The axes of each of `ndim` dimensions; what is unconstrained is not divided.

    Raises:
        ValueError: the spec has more entries than dimensions.
    """
    if len(spec) > ndim:
        raise ValueError(f"partition: {spec} has more entries than an array of {ndim} dimensions")
    return tuple(axes_of(e) for e in (*spec, *[None] * (ndim - len(spec))))


def to_partition_spec(spec: Spec) -> PartitionSpec:
    """The same as a user writes it, without entries for the last dimensions that are not divided."""
    entries = [axes if axes else None for axes in spec]
    while entries and entries[-1] is None:
        entries.pop()
    return PartitionSpec(*entries)


def replicated(ndim: int) -> Spec:
    """The spec of an array of which each device holds all."""
    return ((),) * ndim


def parts(axes: Axes, sizes: Sizes) -> int:
    """Into how many parts some axes divide a dimension."""
    return math.prod(sizes[a] for a in axes)


def local_shape(shape: Sequence[int], spec: Spec, sizes: Sizes) -> tuple[int, ...]:
    """The shape of each device's part: ceil(n / k) along each dimension."""
    return tuple(-(-n // parts(axes, sizes)) for n, axes in zip(shape, spec, strict=True))


def used(spec: Spec) -> set[Axis]:
    """The axes that divide some dimension."""
    return {a for axes in spec for a in axes}


def is_prefix(a: Axes, b: Axes) -> bool:
    """Whether the axes `a` are the first ones of `b`."""
    return b[: len(a)] == a


def show(spec: Spec) -> str:
    """A spec for messages."""
    return repr(to_partition_spec(spec))
