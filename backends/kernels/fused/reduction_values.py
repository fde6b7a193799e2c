"""Computing the values of a reduction cluster at a place of its space, and accumulating them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Literal, Var
from quire.ir.primitives import reductions as rd
from quire.ir.primitives import structural as st

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.shapes import last_run, place_of, step_of
from ..core.values import Buffer, Operand, Value, lanes
from ..elements.memory import Memory
from ..elements.monoids import REDUCTIONS, neutral
from ..elements.operations import HALF, Element, Elements, Expand, literal
from ..elements.places import index_along
from .reduction_cluster import ARG, Reading, ReductionCluster


@dataclass
class Frame:
    """A place in the space: the flat indices along outer, reduced and inner, and the lanes there (0: a scalar).

    Lanes are neighbours along the rows, or with `across` in neighbouring rows.
    """

    outer: Operand
    reduced: Operand
    inner: Operand
    width: int
    level: int
    values: dict[Any, Element] = field(default_factory=dict)
    across: bool = False

    def along(self, reduced: Operand, width: int) -> Frame:
        """The place at another index along the reduced axes."""
        return Frame(self.outer, reduced, self.inner, width, self.level, across=self.across)


@dataclass(frozen=True)
class Kept:
    """Where a value of an early pass is for later ones: a result's memory, or one row on the stack."""

    memory: Memory
    on_stack: bool
    is_result: bool


class ReductionEmitter:
    """Computes a cluster's values at a place.

    `operands` are the numbers of the kernel's operands that the jaxpr's inputs are: by default all, in order. Inputs
    and outputs in `own` are rows in memory of the workgroup's own; `starts` says where the row at hand begins. `results` are the
    numbers of the kernel's results that the other outputs are: by default the first ones. No vector
    crosses from one part of `run` neighbours to the next (0: there is one part).
    """

    def __init__(
        self, cluster: ReductionCluster, b: KernelBuilder, expand: Expand, operands: Mapping[Var, int] | None = None,
        own: Mapping[Var, Buffer] | None = None, run: int = 0, results: Iterable[int] | None = None,
    ) -> None:  # fmt: skip
        self.cluster = cluster
        self.run = run
        self._located: dict[tuple[Any, ...], Operand | list[Value]] = {}
        self.b = b
        self.elements = Elements(b, expand)
        self.rows: dict[Any, Element] = {}  # reductions and what is computed of them, for the row at hand
        self.saved: dict[Var, Kept] = {}
        jaxpr = cluster.jaxpr
        if operands is None:
            operands = {v: i for i, v in enumerate(jaxpr.invars)}
        self.inputs = {v: Memory.of(self.elements, i, v.aval) for v, i in operands.items()}
        rows = {v: Memory(self.elements, buffer, v.aval.dtype) for v, buffer in (own or {}).items()}
        self.starts: dict[Memory, Operand] = dict.fromkeys(rows.values(), 0)
        self.inputs.update({v: rows[v] for v in jaxpr.invars if v in rows})
        results = itertools.count() if results is None else iter(results)
        self.outputs = [
            rows[v] if v in rows else Memory.of(self.elements, next(results), v.aval, result=True)
            for v in jaxpr.outvars
            if isinstance(v, Var)
        ]

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
        saved = self.saved.get(a)
        if saved is not None and at.level > self.cluster.level[a]:
            out = saved.memory.load(self._kept_place(at, saved), at.width)
        else:
            reading = self._reading(a)
            out = self._compute(self.cluster.producer[a], at) if reading is None else self.load(reading, at)
        at.values[a] = out
        return out

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
        if e.primitive is st.broadcast_in_dim_p:
            return self.value(e.inputs[0], at)
        return self._apply(e, at)

    def _apply(self, e: Eqn, at: Frame) -> Element:
        if e.primitive is st.iota_p:
            return self._iota(e, at)
        if e.primitive.family != "elementwise":
            raise NoKernel(f"{e.primitive.name} in a cluster")
        xs = [self.value(a, at) for a in e.inputs]
        return self.elements.apply(e.primitive, e.params, [a.aval.dtype for a in e.inputs], e.outputs[0].aval.dtype, xs)

    # -- memory ----------------------------------------------------------------------------------------------

    def load(self, reading: Reading, at: Frame) -> Element:
        """What is read from memory at a place."""
        memory = self.inputs[reading.array]
        if memory in self.starts:
            return memory.load(self.place(at, memory), at.width)
        *places, (index, extents, strides) = self._groups(reading.strides, at)
        place = _total([*(self._linear(*group) for group in places), reading.first])
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
            *_, (index, extents, strides) = self._groups(reading.strides, at)
            if any(strides):
                key = (str(index), extents, strides, at.width)
                self._located[key] = self._where(index, extents, strides, at.width)

    def _iota(self, e: Eqn, at: Frame) -> Element:
        """The index along a dimension of the space."""
        dims = tuple(range(len(self.cluster.space.shape)))
        for k, (flat, extents, found) in enumerate(self._groups(dims, at)):
            if e.params["dimension"] not in found:
                continue
            if math.prod(extents) >= 1 << 31:
                raise NoKernel("indices along an array of more than 2^31 elements")
            width = at.width if k == 2 else 0
            index = index_along(self.b, flat, extents, found.index(e.params["dimension"]), width)
            return self.elements.convert(index, dtypes.int32, e.params["dtype"])
        raise AssertionError("a dimension that is in no group")

    def _groups(self, numbers: Sequence[int], at: Frame) -> list[_Group]:
        """Dimensions before the reduced ones, these, and those after, each with its flat index; last those of vectors.

        ``numbers`` are one for each dimension of the space: distances, say.
        """
        space = self.cluster.space
        first, last = 0 if space.flat else space.first, space.last
        groups: list[_Group] = [
            (at.outer, space.shape[:first], tuple(numbers[:first])),
            (at.reduced, space.shape[space.first : last], tuple(numbers[space.first : last])),
            (at.inner, space.of_inner(space.shape), space.of_inner(numbers)),
        ]
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
        return at.reduced * at.width if at.across else at.reduced

    def prepare(self, at: Frame) -> None:
        """Compute what is the same along the row, or rows, before the loop of a pass."""
        cluster = self.cluster
        for e in cluster.jaxpr.eqns:
            (v, *_) = e.outputs
            if v in self.rows or cluster.level[v] > at.level:
                continue
            if e.primitive is st.broadcast_in_dim_p and cluster.full(v):
                reading = self._reading(v)
                if reading is not None and not any(reading.strides[cluster.space.first :]):
                    self.rows[v] = self.load(reading, at)
                    continue
            if e.primitive is st.iota_p and e.params["dimension"] < cluster.space.first and not cluster.space.flat:
                self.rows[v] = self._iota(e, at)
                continue
            if cluster.full(v) or e.primitive in REDUCTIONS or e.primitive in ARG:
                for a in e.inputs:
                    if (
                        isinstance(a, Var)
                        and not cluster.full(a)
                        and (a.aval.shape == () or e.primitive.family == "elementwise")
                    ):
                        self.value(a, at)
            else:
                self.value(v, at)

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


#: The flat index of neighbouring dimensions, their sizes, and a number for each, an array's stride along it say.
_Group = tuple[Operand, tuple[int, ...], tuple[int, ...]]


def _is_zero(x: Operand) -> bool:
    return isinstance(x, int) and x == 0


def _total(parts: Sequence[Operand]) -> Operand:
    total: Operand = 0
    for part in parts:
        total = part if _is_zero(total) else total if _is_zero(part) else total + part
    return total


class Accumulator:
    """The running value of one reduction: one element, or a value and its index for argmax and argmin."""

    def __init__(self, emitter: ReductionEmitter, e: Eqn) -> None:
        self.emitter, self.e = emitter, e
        self.b, self.elements = emitter.b, emitter.elements
        self.arg = e.primitive in ARG
        self.combine = ARG[e.primitive] if self.arg else REDUCTIONS[e.primitive]
        dtype = e.inputs[0].aval.dtype
        self.wide = dtypes.float32 if dtype in HALF else dtypes.int8 if self.arg and dtypes.is_bool(dtype) else dtype
        self.source = dtype
        self.rounds = e.primitive is rd.reduce_sum_p and dtypes.is_inexact(dtype)
        """Whether the order matters in which it is computed: a sum of floats."""
        self.out = e.outputs[0].aval.dtype
        if self.arg and dtypes.is_complex(dtype):
            raise NoKernel(f"{e.primitive.name} of {dtypes.SHORT[dtype]}")
        if dtypes.is_complex(dtype) and e.primitive is not rd.reduce_sum_p:
            raise NoKernel(f"{e.primitive.name} of complex numbers")

    def start(self, width: int) -> list[Value]:
        """The values before the first element."""
        parts = self.elements.parts(neutral(self.combine, self.wide), self.wide, width)
        if self.arg:
            index = self.elements.parts(2**31 - 1, dtypes.int32, width)
            return [*parts, *index]
        return parts

    def add(self, state: Sequence[Value], at: Frame) -> list[Value]:
        """With the operand's value at a place."""
        x = self.elements.lift(self.emitter.value(self.e.inputs[0], at), self.source, at.width)
        if self.source != self.wide:
            x = self.elements.convert(x, self.source, self.wide)
        if not self.arg:
            return self.merge(state, self.elements.parts(x, self.wide, at.width))
        i = self.b.cast(self.b.index(at.reduced), "i32")
        if at.width:
            i = self.b.broadcast(i, at.width)
            if self.emitter.cluster.space.inner == 1 and not at.across:
                i = i + self.b.const_vector(range(at.width), "i32")
        return self.merge(state, [*self.elements.parts(x, self.wide, at.width), i])

    def merge(self, x: Sequence[Value], y: Sequence[Value]) -> list[Value]:
        """Of two parts of the data."""
        if not self.arg:
            e = self.elements
            out = e.binary(self.combine, self.wide, e.joined(list(x)), e.joined(list(y)))
            return self.elements.parts(out, self.wide, lanes(x[0].type))
        (v, i), (w, j) = x, y
        b = self.b
        is_float = dtypes.is_float(self.wide)
        more = "gt" if self.e.primitive is rd.argmax_p else "lt"
        kind = "o" if is_float else "u" if dtypes.is_unsigned(self.wide) else "s"
        better = b.cmp(kind + more, w, v)
        same = b.cmp("oeq" if is_float else "eq", w, v)
        if is_float:  # NaN is the most extreme of all
            w_nan, v_nan = b.cmp("uno", w, w), b.cmp("uno", v, v)
            not_nan = b.cmp("oeq", v, v)
            better = b.or_(b.and_(better, not_nan), b.and_(w_nan, not_nan))
            same = b.or_(same, b.and_(w_nan, v_nan))
        better = b.or_(better, b.and_(same, b.cmp("slt", j, i)))
        return [b.select(better, w, v), b.select(better, j, i)]

    def across(self, state: Sequence[Value]) -> list[Value]:
        """All lanes as one."""
        return self.b.across(state, self.merge)

    def result(self, state: Sequence[Value]) -> Element:
        """The reduction's value."""
        if self.arg:
            return self.elements.convert(state[1], dtypes.int32, self.out)
        x = self.elements.joined(list(state))
        return self.elements.convert(x, self.wide, self.out) if self.wide != self.out else x
