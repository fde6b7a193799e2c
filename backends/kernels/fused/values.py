"""The reading of a cluster: its values at a place of the space, each from memory or from those that it is computed of.

Kernels over all elements and kernels over rows and columns differ in the places that they ask for, and in what they keep.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Literal, Var
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.shapes import last_run, place_of, row_major, step_of
from ..core.values import Buffer, Operand, Value
from ..elements.memory import Memory
from ..elements.monoids import REDUCTIONS
from ..elements.operations import HALF, Element, Elements, Expand, literal
from ..elements.places import both, index_along, moved_inside, where
from .cluster import ARG, Cluster, Reading, Space


@dataclass
class Frame:
    """A place in the space: the flat indices along outer, reduced and inner, and the lanes there (0: a scalar).

    Lanes are neighbours along the rows, or with `across` in neighbouring rows; the first `counted` ones are in the reductions'
    values already. `values` are those known there. `begun` says of
    operands that are repeated where in them the neighbours at hand begin, of which this place is the one of this `number`.
    """

    outer: Operand
    reduced: Operand
    inner: Operand
    width: int
    level: int = 0
    values: dict[Any, Element] = field(default_factory=dict[Any, Element])
    across: bool = False
    counted: int = 0
    begun: Mapping[Var, Operand] = field(default_factory=dict[Var, Operand])
    number: Operand = 0

    def along(self, reduced: Operand, width: int, counted: int = 0) -> Frame:
        """The place at another index along the reduced axes."""
        return Frame(self.outer, reduced, self.inner, width, self.level, across=self.across, counted=counted)


@dataclass(frozen=True)
class Kept:
    """Where a value of an early pass is for later ones: a result's memory, or one row on the stack."""

    memory: Memory
    on_stack: bool
    is_result: bool


#: The memory of an input or output of a cluster: its number, the variable, whether it is an output.
Views = Callable[[int, Var, bool], Buffer]
C = TypeVar("C", bound=Cluster)


class Values(Generic[C]):
    """Computes a cluster's values at a place.

    `operands` are the numbers of the kernel's operands that the jaxpr's inputs are: by default all, in order. Inputs
    and outputs in `own` are rows in memory of the workgroup's own; `starts` says where the row at hand begins. `results` are the
    numbers of the kernel's results that the other outputs are: by default the first ones. `views`, where given, says all of
    that. No vector crosses from one part of `run` neighbours to the next (0: there is one part).
    """

    def __init__(
        self, cluster: C, b: KernelBuilder, expand: Expand, operands: Mapping[Var, int] | None = None,
        own: Mapping[Var, Buffer] | None = None, run: int = 0, results: Iterable[int] | None = None,
        views: Views | None = None,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.run = run
        self._located: dict[tuple[Any, ...], Operand | list[Value]] = {}
        self.b = b
        self.elements = Elements(b, expand)
        self.rows: dict[Any, Any] = {}  # of the row at hand: its elements, and where its windows begin
        self.saved: dict[Var, Kept] = {}
        self.saved_start: Operand = 0  # where the row at hand begins in what is kept on the stack
        jaxpr = cluster.jaxpr
        if views is not None:
            own = {v: views(i, v, False) for i, v in enumerate(jaxpr.invars) if v in cluster.used}
        rows = {v: Memory(self.elements, buffer, v.aval.dtype) for v, buffer in (own or {}).items()}
        self.starts: dict[Memory, Operand] = {} if views is not None else dict.fromkeys(rows.values(), 0)
        if operands is None:
            operands = {v: i for i, v in enumerate(jaxpr.invars) if views is None}
        self.inputs = {v: Memory.of(self.elements, i, v.aval) for v, i in operands.items()}
        self.inputs.update({v: rows[v] for v in jaxpr.invars if v in rows})
        results = itertools.count() if results is None else iter(results)
        self.outputs = [
            Memory(self.elements, views(i, v, True), v.aval.dtype) if views is not None
            else rows[v] if v in rows else Memory.of(self.elements, next(results), v.aval, result=True)
            for i, v in enumerate(cluster.outvars)
        ]  # fmt: skip

    # -- values ----------------------------------------------------------------------------------------------

    def value(self, a: Any, at: Frame) -> Element:
        """A full value at a place, or a row's value."""
        if isinstance(a, Literal):
            return literal(a)
        known = self.rows.get(a)
        if known is None:
            known = at.values.get(a)
        if known is not None:
            return known
        if not self.cluster.full(a):
            out = self.rows[a] = self._row(a, at)
            return out
        at.values[a] = out = self._full(a, at)
        return out

    def _full(self, a: Var, at: Frame) -> Element:
        saved = self.saved.get(a)
        if saved is not None and at.level > self.cluster.level[a]:
            return saved.memory.load(self._kept_place(at, saved), at.width)
        reading = self._reading(a)
        if reading is None:
            return self._compute(self.cluster.producer[a], at)
        begun = at.begun.get(a)
        if begun is not None:
            return self.inputs[reading.array].load(_total([begun, at.number]), at.width)
        return self.load(reading, at)

    def _row(self, a: Var, at: Frame) -> Element:
        """A scalar, or a value that is the same along the reduced axes: computed once for the row."""
        e = self.cluster.producer.get(a)
        if e is None:
            if a.aval.shape == ():
                return self.inputs[a].load(0)
            if a.aval.size != self.cluster.space.outer:
                raise NoKernel(f"an operand {a.aval.short()} of rows")
            return self.inputs[a].load(at.outer, at.width if at.across else 0)
        if e.primitive in (st.broadcast_in_dim_p, st.reshape_p):
            x = e.inputs[0]
            if x.aval.shape and x.aval.size != a.aval.size:
                raise NoKernel(f"{e.primitive.name} to {a.aval.short()}")
            return self.value(x, at)
        return self._apply(e, at)

    def _reading(self, a: Var) -> Reading | None:
        """How a full value is read from memory; None for what is computed, also where its operand is one of the row's."""
        e = self.cluster.producer.get(a)
        return None if e is not None and e.inputs and e.inputs[0] in self.rows else self.cluster.reading(a)

    def _compute(self, e: Eqn, at: Frame) -> Element:
        if e.primitive is st.broadcast_in_dim_p or (e.primitive is st.reshape_p and self.cluster.full(e.inputs[0])):
            return self.value(e.inputs[0], at)
        return self._apply(e, at)

    def _apply(self, e: Eqn, at: Frame) -> Element:
        if e.primitive is st.iota_p:
            return self._iota(e, at)
        if e.primitive is ix.gather_p:
            return self._gather(e, at)
        if e.primitive.family != "elementwise":
            raise NoKernel(f"{e.primitive.name} in a cluster")
        xs = [self.value(a, at) for a in e.inputs]
        return self.elements.apply(e.primitive, e.params, [a.aval.dtype for a in e.inputs], e.outputs[0].aval.dtype, xs)

    # -- memory ----------------------------------------------------------------------------------------------

    def load(self, reading: Reading, at: Frame, begin: Operand = 0) -> Element:
        """What is read from memory at a place, of what begins there in the array."""
        memory = self.inputs[reading.array]
        if memory in self.starts:
            return memory.load(self.place(at, memory), at.width)
        *places, (index, extents, strides) = self._groups(reading.extents, reading.strides, at)
        place = _total([*(self._linear(*group) for group in places), reading.first, begin])
        if not at.width or not any(strides):
            return memory.load(_total([place, self._linear(index, extents, strides)]))
        where = self._where(index, extents, strides, at.width)
        if isinstance(where, list):
            return memory.each([lane + place for lane in where])
        place, (_, step) = _total([place, where]), last_run(extents, strides)
        return memory.load(place, at.width, step) if step else memory.load(place)

    def locate(self, at: Frame) -> None:
        """Compute, before a loop over the reduced axes, where the vectors of a frame are along the other dimensions."""
        for reading in self.cluster.read():
            *_, (index, extents, strides) = self._groups(reading.extents, reading.strides, at)
            if any(strides):
                key = (str(index), extents, strides, at.width)
                self._located[key] = self._where(index, extents, strides, at.width)

    def _iota(self, e: Eqn, at: Frame) -> Element:
        index = self._along(e.params["shape"], e.params["dimension"], at)
        return self.elements.convert(index, dtypes.int32, e.params["dtype"])

    def _along(self, extents: Sequence[int], dimension: int, at: Frame) -> Value:
        """The index along a dimension (i32): of each lane, or where all have one, that."""
        for k, (flat, sizes, found) in enumerate(self._groups(extents, range(len(extents)), at)):
            if dimension not in found:
                continue
            if math.prod(sizes) >= 1 << 31:
                raise NoKernel("indices along an array of more than 2^31 elements")
            return index_along(self.b, flat, sizes, found.index(dimension), at.width if k == 2 else 0)
        raise AssertionError("a dimension that is in no group")

    def _gather(self, e: Eqn, at: Frame) -> Element:
        """Elements of an operand at the places that index vectors say, or of windows that begin there, one for each row."""
        fill, v = _fill(e), e.outputs[0]
        memory = self.inputs[e.inputs[0]]  # type: ignore[index]
        window = self.cluster.windows.get(v)
        if window is None:
            place, inside = self._begin(e, at, at.width)
            found = memory.load(0) if place is None else memory.gathered(place, at.width)
            return where(self.elements, inside, found, fill, memory.dtype)
        if (v, "begun") not in self.rows:
            self.rows[v, "begun"] = self._begin(e, at, at.width if at.across else 0)
        place, inside = self.rows[v, "begun"]
        if place is not None and at.across:
            offset = self.b.cast(self.b.index(self._linear(at.reduced, *_reduced(self.cluster.space, window))), "i32")
            found = memory.gathered(place + self.b.broadcast(offset, at.width), at.width)
        else:
            found = self.load(window, at, 0 if place is None else self.b.cast(place, "index"))
        if inside is not None and at.width and not at.across:
            inside = self.b.broadcast(inside, at.width)
        return where(self.elements, inside, found, fill, memory.dtype)

    def _begin(self, e: Eqn, at: Frame, width: int) -> tuple[Value | None, Value | None]:
        """Where the index vector at a place says (i32; None: at the first element), and whether that is inside, if it matters."""
        x, vectors = e.inputs
        p, d = e.params, e.params["dimension_numbers"]
        shape, strides, dtype = x.aval.shape, row_major(x.aval.shape), vectors.aval.dtype
        asked = p["mode"] is ix.GatherScatterMode.FILL_OR_DROP
        place: Value | None = None
        inside: Value | None = None
        for k, component in zip(d.start_index_map, self._components(vectors, len(d.start_index_map), at)):
            number = self.elements.lift(component, dtype, width)
            assert isinstance(number, Value)
            index, fits = moved_inside(self.elements, number, dtype, shape[k] - p["slice_sizes"][k], asked)
            inside = both(inside, fits)
            term = self.b.cast(index, "i32") * strides[k]
            place = term if place is None else place + term
        for k, along in zip(d.operand_batching_dims, d.start_indices_batching_dims):
            index = self.elements.lift(self._along(vectors.aval.shape[:-1], along, at), dtypes.int32, width)
            assert isinstance(index, Value)
            place = index * strides[k] if place is None else place + index * strides[k]
        assert place is not None or not width
        return place, inside

    def _components(self, vectors: Any, count: int, at: Frame) -> list[Element]:
        """The components of the index vectors at a place."""
        joined = self.cluster.vectors.get(vectors)
        if joined is not None:
            return [self.value(a, at) for a in joined]
        if count == 1:
            return [self.value(vectors, at)]
        shape = vectors.aval.shape
        return [self.load(Reading(vectors, shape[:-1], row_major(shape)[:-1], k), at) for k in range(count)]

    def _groups(self, extents: Sequence[int], numbers: Sequence[int], at: Frame) -> list[_Group]:
        """Dimensions before the reduced ones, these, and those after, each with its flat index; last those of vectors.

        `extents` and `numbers` are a size and a number for each dimension, distances, say.
        """
        space = self.cluster.space
        groups = list(zip((at.outer, at.reduced, at.inner), space.parts(extents), space.parts(numbers)))
        groups.append(groups.pop(0 if at.across else 1 if space.inner == 1 else 2))
        return groups

    def _where(self, index: Operand, shape: Sequence[int], strides: Sequence[int], width: int) -> Operand | list[Value]:
        """Where a vector begins along dimensions, or the place of each lane where these are not one distance apart."""
        known = self._located.get((str(index), tuple(shape), tuple(strides), width))
        if known is not None:
            return known
        run, _ = last_run(shape, strides)
        if run == math.prod(shape) or run % width == 0 or (self.run and run % self.run == 0 and self.run >= width):
            return self._linear(index, shape, strides)
        b = self.b
        if math.prod(shape) >= 1 << 31 or sum((n - 1) * s for n, s in zip(shape, strides)) >= 1 << 31:
            raise NoKernel("an array of more than 2^31 elements that is read element by element")
        indices = b.broadcast(b.cast(b.index(index), "i32"), width) + b.const_vector(range(width), "i32")
        places = place_of(b, indices, shape, strides)
        return [b.cast(b.extract(places, lane), "index", signed=False) for lane in range(width)]

    def _linear(self, index: Operand, shape: Sequence[int], strides: Sequence[int]) -> Operand:
        """The flat place of the index of some dimensions."""
        if not any(strides):
            return 0
        step = step_of(shape, strides)
        return place_of(self.b, self.b.index(index), shape, strides) if step is None else index * step

    def place(self, at: Frame, memory: Memory | None = None) -> Operand:
        """The flat place of a frame in an array of the space, or in a row of the workgroup's own."""
        space = self.cluster.space
        if memory in self.starts:
            return self.b.index(self.starts[memory]) + at.reduced
        outer = at.outer * (space.reduced * space.inner) if not _is_zero(at.outer) else 0
        along = at.reduced * space.inner if not _is_zero(at.reduced) else 0
        return _total([at.inner, along, outer])

    def _kept_place(self, at: Frame, kept: Kept) -> Operand:
        if not kept.on_stack:
            return self.place(at, kept.memory)
        return at.reduced * at.width if at.across else _total([self.saved_start, at.reduced])

    def prepare(self, at: Frame, rows: bool = True) -> None:
        """Read and compute what is the same along the row, or rows, before the loop of a pass; with ``rows`` also what rows have
        one of."""
        cluster = self.cluster
        for e in cluster.jaxpr.eqns:
            (v, *_) = e.outputs
            if v in self.rows or v in cluster.vectors or cluster.level[v] > at.level:
                continue
            if e.primitive is st.broadcast_in_dim_p and cluster.full(v):
                reading = self._reading(v)
                if reading is not None and not any(reading.strides[cluster.space.first :]):
                    self.rows[v] = self.load(reading, at)
                    continue
            if e.primitive is st.iota_p and e.params["dimension"] < cluster.space.first and not cluster.space.flat:
                self.rows[v] = self._iota(e, at)
                continue
            if v in cluster.windows:
                self.rows[v, "begun"] = self._begin(e, at, at.width if at.across else 0)
            elif cluster.full(v) or e.primitive in REDUCTIONS or e.primitive in ARG:
                for a in e.inputs:
                    if (
                        isinstance(a, Var)
                        and not cluster.full(a)
                        and (a.aval.shape == () or e.primitive.family == "elementwise")
                    ):
                        self.value(a, at)
            elif rows:
                self.value(v, at)

    def compute_all(self, at: Frame) -> None:
        """Compute all values at a place, one after another, and write the results."""
        for e in self.cluster.jaxpr.eqns:
            if e.outputs[0] not in self.cluster.vectors:  # whose components are read where they are
                self.value(e.outputs[0], at)
        self.store_full(at)

    def store_full(self, at: Frame) -> None:
        """Write the full results of the frame's level, and what later passes read."""
        stride = self.cluster.space.reduced if at.across else 1
        for v, kept in self.saved.items():
            if self.cluster.level[v] == at.level and not kept.is_result:
                kept.memory.store(self.value(v, at), self._kept_place(at, kept), at.width)
        outputs = [
            (memory, self.value(v, at))
            for v, memory in zip(self.cluster.outvars, self.outputs)
            if self.cluster.full(v) and self.cluster.level[v] == at.level
        ]
        # All are computed before any is written: one may have the place of a kept value that another reads.
        for memory, x in outputs:
            memory.store(x, self.place(at, memory), at.width, stride)


def _fill(e: Eqn) -> Element | None:
    """What a gather gives for places outside; None where these are moved inside."""
    if e.params["mode"] is not ix.GatherScatterMode.FILL_OR_DROP:
        return None
    dtype = e.inputs[0].aval.dtype
    number = ix.fill_scalar(e.params["fill_value"], dtype)
    return float(number) if dtype in HALF else number.item()


def _reduced(space: Space, window: Reading) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return space.parts(window.extents)[1], space.parts(window.strides)[1]


#: The flat index of neighbouring dimensions, their sizes, and a number for each, an array's stride along it say.
_Group = tuple[Operand, tuple[int, ...], tuple[int, ...]]


def _is_zero(x: Operand) -> bool:
    return isinstance(x, int) and x == 0


def _total(parts: Sequence[Operand]) -> Operand:
    total: Operand = 0
    for part in parts:
        total = part if _is_zero(total) else total if _is_zero(part) else total + part
    return total
