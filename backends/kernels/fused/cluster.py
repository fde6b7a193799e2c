"""Clusters of equations: the space of their indices, how operands are read there, and the level of each value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st
from quire.ir.rectangles import joins_components
from quire.ir.weights import DEARER_THAN_A_READ

from ..core.errors import NoKernel
from ..core.shapes import last_run, row_major, spread
from ..elements.monoids import REDUCTIONS

#: Positions of extremes, and the operation that finds the extreme.
ARG: dict[Primitive, Primitive] = {rd.argmax_p: ew.max_p, rd.argmin_p: ew.min_p}


@dataclass(frozen=True)
class Space:
    """The indices of a cluster as (outer, reduced, inner) counts, and the shapes they come from.

    With ``flat`` all indices that are not reduced count as inner ones, also those of dimensions before the reduced axes.
    """

    shape: tuple[int, ...]
    first: int
    last: int
    flat: bool = False

    @staticmethod
    def of(shape: Sequence[int], axes: Sequence[int]) -> Space:
        """The space of an array's indices, of which ``axes`` are reduced. Raises NoKernel unless these are neighbours."""
        if list(axes) != list(range(axes[0], axes[-1] + 1)):
            raise NoKernel("the reduced axes are not neighbours")
        return Space(tuple(shape), axes[0], axes[-1] + 1)

    @property
    def size(self) -> int:
        """The number of indices."""
        return math.prod(self.shape)

    @property
    def outer(self) -> int:
        """The number of indices before the reduced axes."""
        return 1 if self.flat else math.prod(self.shape[: self.first])

    @property
    def reduced(self) -> int:
        """The number of indices along the reduced axes."""
        return math.prod(self.shape[self.first : self.last])

    @property
    def inner(self) -> int:
        """The number of indices after the reduced axes: 1 where these are the last."""
        return math.prod(self.of_inner(self.shape))

    def of_inner(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Those of one number for each dimension that are the inner dimensions'."""
        return (*(numbers[: self.first] if self.flat else ()), *numbers[self.last :])

    def parts(self, numbers: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Those of one number for each dimension that are the outer, the reduced and the inner dimensions'."""
        outer = () if self.flat else tuple(numbers[: self.first])
        return outer, tuple(numbers[self.first : self.last]), self.of_inner(numbers)


@dataclass(frozen=True)
class Reading:
    """How the elements of an operand lie along the dimensions of a space: their distances there, and the first one's place.

    `extents` are the dimensions' sizes: the space's, or others that have the same flat indices.
    """

    array: Var
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    first: int = 0

    @property
    def run(self) -> tuple[int, int]:
        """How many neighbours, from any multiple of that on, lie at one distance, and the distance (0: they are one number)."""
        return last_run(self.extents, self.strides)


class Cluster(ABC):
    """A jaxpr whose values are full (a number for each index of the space), rows (one for each that is not reduced) or scalars.

    What is not full is computed once for all indices at which it is the same.
    """

    def __init__(self, jaxpr: Jaxpr, space: Space) -> None:
        self.jaxpr = jaxpr
        self.space = space
        self.inputs = frozenset(jaxpr.invars)
        self.producer: dict[Var, Eqn] = {v: e for e in jaxpr.eqns for v in e.outputs}
        self.outvars = [v for v in jaxpr.outvars if isinstance(v, Var)]
        if len(self.outvars) < len(jaxpr.outvars):
            raise NoKernel("a result that is a literal")
        self.level: dict[Var, int] = dict.fromkeys((*jaxpr.invars, *self.producer), 0)
        self.used = {a for e in jaxpr.eqns for a in e.inputs if isinstance(a, Var)}
        self.vectors: dict[Var, Sequence[Atom]] = {}  # index vectors that are made here, and their components
        # What a gather reads from where the index vector of a row says, by its result.
        self.windows: dict[Var, Reading] = {}

    @abstractmethod
    def full(self, a: Any) -> bool:
        """Whether a value has one number for each index of the space."""

    @abstractmethod
    def reading(self, v: Var) -> Reading | None:
        """How a full value is read from memory: an operand, one that is repeated, or a part of one; None for what is computed.

        Raises NoKernel for a repeated array whose dimensions are others.
        """

    def read(self) -> list[Reading]:
        """All that is read from memory at the places of the space."""
        values = [*self.jaxpr.invars, *(e.outputs[0] for e in self.jaxpr.eqns if self.full(e.outputs[0]))]
        return [found for v in values if (found := self.reading(v)) is not None]


class ReductionCluster(Cluster):
    """A cluster with reductions: the level of a value is how many of them come before it, one after another."""

    def __init__(self, jaxpr: Jaxpr, space: Space) -> None:
        super().__init__(jaxpr, space)
        self.level: dict[Var, int] = dict.fromkeys(jaxpr.invars, 0)
        self.reductions: list[Eqn] = []
        for e in jaxpr.eqns:
            level = max((self.level[a] for a in e.inputs if isinstance(a, Var)), default=0)
            if e.primitive in REDUCTIONS or e.primitive in ARG:
                if e.inputs[0].aval.shape != space.shape:
                    raise NoKernel("a reduction of another shape")
                self.reductions.append(e)
                level += 1
            elif e.primitive is ix.gather_p and (e.inputs[0] not in self.inputs or e.inputs[0].aval.size >= 1 << 31):
                raise NoKernel("a gather from what the cluster computes, or from more than 2^31 elements")
            elif e.primitive is ix.gather_p and e.params["dimension_numbers"].offset_dims:
                self.windows[e.outputs[0]] = self._window(e)
            elif e.primitive is st.concatenate_p:
                places = e.outputs[0].aval.shape[:-1]
                if not joins_components(e) or places not in (space.shape, space.shape[: space.first]):
                    raise NoKernel("a concatenation")
                self.vectors[e.outputs[0]] = e.inputs
            for v in e.outputs:
                self.level[v] = level
        self.levels = 1 + max((self.level[v] for v in self.level if self.full(v)), default=0)

    def full(self, a: Any) -> bool:
        """Whether a value has the shape of the space, or is a component of index vectors, one for each index of it."""
        shape = self.space.shape
        return a.aval.shape == shape or a.aval.shape == (*shape, 1)

    def reading(self, v: Var) -> Reading | None:
        """How a full value is read from memory; None for what is computed. Raises NoKernel for a repeated array of other dimensions."""
        if v in self.inputs:
            return Reading(v, self.space.shape, row_major(self.space.shape)) if self.full(v) else None
        e = self.producer[v]
        x = e.inputs[0] if e.inputs else None
        if not isinstance(x, Var) or x not in self.inputs or not x.aval.shape or self.full(x):
            return None
        shape = x.aval.shape
        if e.primitive is st.broadcast_in_dim_p:
            dims: tuple[int, ...] = e.params["broadcast_dimensions"]
            if any(n not in (1, self.space.shape[d]) for d, n in zip(dims, shape)):
                raise NoKernel(f"a broadcast of {x.aval.short()}")
            return Reading(x, self.space.shape, tuple(spread(shape, dims, self.space.shape)))
        if e.primitive is st.slice_p:
            strides, steps = row_major(shape), e.params["strides"] or (1,) * len(shape)
            first = sum(start * stride for start, stride in zip(e.params["start_indices"], strides))
            return Reading(x, self.space.shape, tuple(step * stride for step, stride in zip(steps, strides)), first)
        return None

    def _window(self, e: Eqn) -> Reading:
        """How a gather reads a window along a row. Raises NoKernel where its windows do not lie along the reduced axes."""
        space, d, x = self.space, e.params["dimension_numbers"], e.inputs[0]
        if not self.full(e.outputs[0]) or tuple(d.offset_dims) != tuple(range(space.first, len(space.shape))):
            raise NoKernel("windows that are no rows")
        assert isinstance(x, Var)
        gone = {*d.collapsed_slice_dims, *d.operand_batching_dims}
        strides = (s for k, s in enumerate(row_major(x.aval.shape)) if k not in gone)
        return Reading(x, space.shape, (*(0,) * space.first, *strides))

    def run(self, along: Callable[[Sequence[int]], Sequence[int]]) -> int:
        """Neighbours along some dimensions that every operand has in one order in memory, or one number of, from multiples on.

        ``along`` takes those of one number for each dimension of the space that are these dimensions'.
        """
        space = self.space
        extents = along(space.shape)
        each = (last_run(extents, along(reading.strides))[0] for reading in self.read())
        return min(each, default=math.prod(extents))

    def read_of_rows(self, level: int) -> list[Var]:
        """Scalars, and what rows have one of, that full values up to a level are computed of."""
        found: dict[Var, None] = {}
        for e in self.jaxpr.eqns:
            if self.full(e.outputs[0]) and self.level[e.outputs[0]] <= level and self.reading(e.outputs[0]) is None:
                read = e.inputs[1:] if e.outputs[0] in self.windows else e.inputs
                read = [c for a in read for c in (self.vectors.get(a, (a,)) if isinstance(a, Var) else ())]
                numbers = (self.space.outer, 1)
                found.update(
                    dict.fromkeys(a for a in read if isinstance(a, Var) and not self.full(a) and a.aval.size in numbers)
                )
        return list(found)

    def kept(self) -> list[Var]:
        """Full values that a later pass needs and that are dear to compute again."""
        out: list[Var] = []
        for e in self.jaxpr.eqns:
            level = self.level[e.outputs[0]] if e.outputs else 0
            if not (e.outputs and self.full(e.outputs[0])):
                continue
            for a in e.inputs:
                if isinstance(a, Var) and self.full(a) and a in self.producer and self.level[a] < level:
                    if a not in out and self._dear(a):
                        out.append(a)
        return out

    def _dear(self, a: Var) -> bool:
        stack, level = [a], self.level[a]
        while stack:
            e = self.producer.get(stack.pop())
            if e is None:
                continue
            if (e.primitive is ix.gather_p and e.outputs[0] not in self.windows) or (
                e.primitive.family == "elementwise" and e.primitive.weight >= DEARER_THAN_A_READ
            ):
                return True
            stack += [x for x in e.inputs if isinstance(x, Var) and self.full(x) and self.level[x] == level]
        return False
