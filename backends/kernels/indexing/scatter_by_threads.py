"""Scatter on GPUs: a thread for each element that updates go to, which applies them in their order.

What an index vector moves together is a *unit*: the update's elements that lie along dimensions of the operand which no
index moves are its *lanes*, and one thread has one lane of one unit. Each unit has a *key*, the flat place in the operand of
its first lane; beyond the operand where the unit is dropped. No atomic operations are needed, and equal programs give
equal numbers:

- Units are alone (one unit, or the program promises unique indices): a thread writes its lane.
- A few units: the thread of the first of those with one key looks for the others, and applies them all.
- Many units: keys are sorted, with each unit's number, stably. Units of one key are then a *run*; the thread of its first applies
  all. Where many units go to few places a run would keep one thread busy: units are cut into chunks, each chunk's part
  of a run that began before it is combined by another thread beforehand, and the run's thread combines these parts.

Only sums and products of floats depend on where chunks are cut, in their rounding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from quire.ir.primitives.indexing import ScatterDimensionNumbers

from ..core.builder import KernelBuilder
from ..core.dtypes import dtype_of
from ..core.errors import NoKernel
from ..core.kernel import ChainOf, Kernel, KernelChain, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Value
from ..elements.combiner import Combiner, State
from ..ordering.by_threads import sorted_with_places
from ..ordering.radix_sort import load_words, store_words, word_view
from .index_vectors import Components, IndexVectors
from .update_axes import OPS, Axis, Mode, Place, ScatterOp, are_elements, merged, update_axes, window_sizes

#: Units that are compared with each other, each with each, and the comparisons of all lanes together.
FEW, FEW_COMPARISONS = 32, 1 << 20
#: Units of a chunk, and the most chunks: loops over either are short.
CHUNK, CHUNKS = 256, 1 << 15


def scatter_by_threads(
    op: ScatterOp, operand: Spec, indices: IndexVectors, updates: Spec, dims: ScatterDimensionNumbers,
    target: KernelTarget, *, mode: Mode, unique: bool,
) -> Kernel | KernelChain:  # fmt: skip
    """The kernels of a scatter on a GPU; see `quire.backends.kernels.indexing.scatter.scatter`.

    Raises :class:`NoKernel` for operands or updates whose places are no 32-bit numbers.
    """
    if max(operand.size, updates.size) >= 2**31:
        raise NoKernel("places are 32-bit")
    s = _Scatter(op, operand, indices, updates, dims, target, mode)
    alone = s.units == 1 or (unique and mode == "drop" and are_elements(operand, updates, dims))
    if alone or (s.units <= FEW and s.units**2 * s.lanes <= FEW_COMPARISONS):
        return _at_once(s, alone)
    return _sorted(s)


@dataclass(frozen=True)
class _Scatter:
    """What is scattered, and how its elements are numbered: by unit and lane."""

    op: ScatterOp
    operand: Spec
    indices: IndexVectors
    updates: Spec
    dims: ScatterDimensionNumbers
    target: KernelTarget
    mode: Mode

    @cached_property
    def axes(self) -> tuple[list[Axis], list[Axis]]:
        """The axes of the updates that units are numbered along, those of the index vectors first, and those of lanes."""
        axes = [a for a in update_axes(self.operand, self.updates, self.dims) if a.size > 1]
        vectors = [a for a in axes if a.batch is not None]
        windows = [a for a in axes if a.role == "window"]
        lanes = [a for a in axes if a.role == "free" and a.batch is None]
        return [*vectors, *windows], merged(lanes)

    @property
    def units(self) -> int:
        """How many units there are."""
        return math.prod(a.size for a in self.axes[0])

    @property
    def lanes(self) -> int:
        """The lanes of a unit."""
        return math.prod(a.size for a in self.axes[1])

    @property
    def chunk(self) -> int:
        """Units of a chunk."""
        return max(CHUNK, -(-self.units // CHUNKS))

    @property
    def chunks(self) -> int:
        """How many chunks there are."""
        return -(-self.units // self.chunk)

    @property
    def keys(self) -> Spec:
        """The array of keys, and that of units' numbers."""
        return Spec.of((self.units,), "i32")

    @property
    def what(self) -> str:
        """The scatter in words."""
        where = "outside: dropped" if self.mode == "drop" else "outside: clipped"
        return f"scatter {self.op} of {self.updates} in place ({where})"

    def key(self, b: KernelBuilder, vectors: Components, unit: Value) -> Value:
        """Where the unit's first lane belongs in the operand; the operand's size for a unit that is dropped."""
        place = _origin(b).at(self.axes[0], unit)
        rank = len(self.updates.shape) - len(self.dims.update_window_dims)
        inside, start, _ = vectors.window(
            [place.vector.get(d, b.index(0)) for d in range(rank)],
            self.dims.scatter_dims_to_operand_dims,
            self.operand.shape,
            window_sizes(self.operand, self.updates, self.dims),
            self.mode == "clip",
        )
        key = place.operand + start
        if inside is not None:
            key = b.select(inside, key, b.index(self.operand.size))
        return b.cast(key, "i32")


@dataclass(frozen=True)
class _Memory:
    """Operand and updates inside one kernel, whose operand number `source` the updates are."""

    s: _Scatter
    b: KernelBuilder
    source: int

    @property
    def combiner(self) -> Combiner:
        """How elements are combined."""
        return Combiner(self.b, OPS[self.s.op], self.s.operand.dtype)

    def belongs(self, key: Value) -> Value:
        """Whether units of a key are not dropped."""
        return self.b.cmp("ult", key, self.s.operand.size)

    def update(self, unit: Value, lane: Value) -> State:
        """A lane of a unit."""
        memory = self.b.operand(self.source, *self._view(self.s.updates))
        return self.combiner.load(1, memory, self._update_place(unit, lane))

    def element(self, key: Value, lane: Value) -> State:
        """The operand's element that a lane of units of this key belongs to."""
        memory = self.b.result(0, *self._view(self.s.operand))
        return self.combiner.load(1, memory, self._element_place(key, lane))

    def store(self, state: State, key: Value, lane: Value) -> None:
        """Write that element."""
        memory = self.b.result(0, *self._view(self.s.operand))
        self.combiner.store(state, memory, self._element_place(key, lane))

    def move(self, unit: Value, key: Value, lane: Value) -> None:
        """Write that element as it is in the updates."""
        source = word_view(self.b, self.source, self.s.updates)
        words = load_words(self.b, source, self.s.updates, self._update_place(unit, lane))
        to = word_view(self.b, 0, self.s.operand, result=True)
        store_words(self.b, words, to, self._element_place(key, lane))

    def _view(self, spec: Spec) -> tuple[tuple[int], str]:
        return (spec.size * spec.dtype.parts,), self.combiner.memory

    def _update_place(self, unit: Value, lane: Value) -> Value:
        units, lanes = self.s.axes
        return _origin(self.b).at(units, unit).update + _origin(self.b).at(lanes, lane).update

    def _element_place(self, key: Value, lane: Value) -> Value:
        return self.b.cast(key, "index") + _origin(self.b).at(self.s.axes[1], lane).operand


def _origin(b: KernelBuilder) -> Place:
    return Place(b.index(0), b.index(0))


# -- alone, or a few --------------------------------------------------------------------------------------------------


def _at_once(s: _Scatter, alone: bool) -> Kernel:
    """One dispatch: a thread for each lane of each unit."""
    operands = [s.operand, *s.indices.operands, s.updates]
    b = KernelBuilder(f"scatter_{s.op}", operands, [s.operand], s.target, tied={0: 0})
    vectors, memory = s.indices.opened(b, 1), _Memory(s, b, len(operands) - 1)
    with b.spread_threads(s.units * s.lanes) as flat:
        unit, lane = b.divmod(flat, s.lanes)
        key = s.key(b, vectors, unit)
        mine = memory.belongs(key)
        if not alone:  # of units with one key the last is what is set; the first combines them all
            start, stop = (unit + 1, b.index(s.units)) if s.op == "set" else (b.index(0), unit)
            with b.for_(start, stop, 1, [b.const(0, "i1")]) as loop:
                loop.yield_(loop.carried[0] | b.cmp("eq", s.key(b, vectors, loop.index), key))
            mine = mine & (loop.results[0] ^ b.const(1, "i1"))
        with b.if_(mine):
            if s.op == "set":
                memory.move(unit, key, lane)
            else:
                state = memory.combiner.combine(memory.element(key, lane), memory.update(unit, lane))
                if not alone:
                    with b.for_(unit + 1, s.units, 1, state) as loop:
                        same = b.cmp("eq", s.key(b, vectors, loop.index), key)
                        new = memory.combiner.combine(loop.carried, memory.update(loop.index, lane))
                        loop.yield_(*(b.select(same, x, y) for x, y in zip(new, loop.carried)))
                    state = loop.results
                memory.store(state, key, lane)
    how = "no two updates of one place" if alone else f"the first of {s.units} with one place combines all"
    return b.build((b.thread_groups(s.units * s.lanes),), f"{s.what}: a thread an element, {how}")


# -- many: runs of sorted keys ----------------------------------------------------------------------------------------


def _sorted(s: _Scatter) -> KernelChain:
    operands = [s.operand, *s.indices.operands, s.updates]
    chain, last = ChainOf(operands), len(operands) - 1
    made = chain.then(_keys(s), range(1, last))
    keys = chain.then(sorted_with_places(s.keys, s.target), made)
    if s.op == "set":
        out = chain.then(_last_of_runs(s), [0, last, *keys])
    else:
        parts = chain.then(_parts(s), [last, *keys]) if s.chunks > 1 else []
        out = chain.then(_runs(s), [0, last, *keys, *parts])
    return chain.finished(out, f"{s.what}: sorted by place, a thread for each place and lane")


def _keys(s: _Scatter) -> Kernel:
    """The key of each unit."""
    b = KernelBuilder("scatter_keys", s.indices.operands, [s.keys], s.target)
    vectors = s.indices.opened(b, 0)
    with b.spread_threads(s.units) as unit:
        b.store(s.key(b, vectors, unit), b.result(0), unit)
    return b.build((b.thread_groups(s.units),), f"{s.what}: where {s.units} updates belong")


def _last_of_runs(s: _Scatter) -> Kernel:
    """The last unit of each run is what remains."""
    b = KernelBuilder("scatter_last", [s.operand, s.updates, s.keys, s.keys], [s.operand], s.target, tied={0: 0})
    memory, keys, numbers = _Memory(s, b, 1), b.operand(2), b.operand(3)
    with b.spread_threads(s.units * s.lanes) as flat:
        i, lane = b.divmod(flat, s.lanes)
        key, after = b.load(keys, i), b.load(keys, b.smin(i + 1, b.index(s.units - 1)))
        ends = b.cmp("ne", key, after) | b.cmp("eq", i, s.units - 1)
        with b.if_(ends & memory.belongs(key)):
            memory.move(b.cast(b.load(numbers, i), "index"), key, lane)
    return b.build((b.thread_groups(s.units * s.lanes),), f"{s.what}: the last of each place")


@dataclass(frozen=True)
class _Run:
    """Sorted units inside one kernel."""

    memory: _Memory
    keys: Buffer
    numbers: Buffer

    def starts(self, i: Value, key: Value) -> Value:
        """Whether a run of this key begins at place `i`."""
        b = self.memory.b
        before = b.load(self.keys, b.smax(i - 1, b.index(0)))
        return b.cmp("ne", key, before) | b.cmp("eq", i, 0)

    def goes_on(self, i: Value, key: Value) -> Value:
        """Whether there is a unit at place `i`, and it has this key."""
        b, count = self.memory.b, self.memory.s.units
        return b.cmp("slt", i, count) & b.cmp("eq", b.load(self.keys, b.smin(i, b.index(count - 1))), key)

    def combined(self, i: Value, key: Value, lane: Value, state: State) -> State:
        """The state after the units of this key from place `i` to the end of its chunk."""
        b, s = self.memory.b, self.memory.s
        stop = (b.udiv(i, s.chunk) + 1) * s.chunk
        with b.while_([i, *state]) as loop:
            at = loop.before[0]
            loop.condition(b.cmp("slt", at, stop) & self.goes_on(at, key), *loop.before)
            at, *state = loop.after
            unit = b.cast(b.load(self.numbers, at), "index")
            loop.yield_(at + 1, *self.memory.combiner.combine(state, self.memory.update(unit, lane)))
        return loop.results[1:]


def _part_spec(s: _Scatter, combiner: Combiner) -> Spec:
    return Spec((s.chunks * s.lanes * len(combiner.identity(1)),), dtype_of(combiner.elem))


def _parts(s: _Scatter) -> Kernel:
    """For each chunk what it adds to the run that began before it."""
    spec = _part_spec(s, Combiner(KernelBuilder("parts", [], [], s.target), OPS[s.op], s.operand.dtype))
    b = KernelBuilder("scatter_parts", [s.updates, s.keys, s.keys], [spec], s.target)
    run = _Run(_Memory(s, b, 0), b.operand(1), b.operand(2))
    combiner = run.memory.combiner
    with b.spread_threads(s.chunks * s.lanes) as flat:
        number, lane = b.divmod(flat, s.lanes)
        first = number * s.chunk
        key = b.load(run.keys, first)
        with b.if_(run.memory.belongs(key) & (run.starts(first, key) ^ b.const(1, "i1"))):
            state = run.combined(first, key, lane, combiner.identity(1))
            for k, x in enumerate(state):
                b.vstore(x, b.result(0), flat * len(state) + k)
    return b.build((b.thread_groups(s.chunks * s.lanes),), f"{s.what}: what {s.chunks} chunks begin with")


def _runs(s: _Scatter) -> Kernel:
    """Each run is applied by the thread of its first unit."""
    combiner = Combiner(KernelBuilder("runs", [], [], s.target), OPS[s.op], s.operand.dtype)
    parts = [_part_spec(s, combiner)] if s.chunks > 1 else []
    operands = [s.operand, s.updates, s.keys, s.keys, *parts]
    b = KernelBuilder(f"scatter_{s.op}_runs", operands, [s.operand], s.target, tied={0: 0})
    run = _Run(_Memory(s, b, 1), b.operand(2), b.operand(3))
    memory = run.memory
    with b.spread_threads(s.units * s.lanes) as flat:
        i, lane = b.divmod(flat, s.lanes)
        key = b.load(run.keys, i)
        with b.if_(memory.belongs(key) & run.starts(i, key)):
            state = run.combined(i, key, lane, memory.element(key, lane))
            if parts:
                state = _with_parts(run, b.udiv(i, s.chunk) + 1, key, lane, state)
            memory.store(state, key, lane)
    return b.build((b.thread_groups(s.units * s.lanes),), f"{s.what}: runs of one place")


def _with_parts(run: _Run, number: Value, key: Value, lane: Value, state: State) -> State:
    """The state after the parts of a run in the chunks from `number` on."""
    b, s = run.memory.b, run.memory.s
    with b.while_([number, *state]) as loop:
        loop.condition(run.goes_on(loop.before[0] * s.chunk, key), *loop.before)
        number, *state = loop.after
        at = (number * s.lanes + lane) * len(state)
        part = [b.vload(1, b.operand(4), at + k) for k in range(len(state))]
        loop.yield_(number + 1, *run.memory.combiner.combine(state, part))
    return loop.results[1:]
