"""Passes of a reduction cluster over its rows: loops in which reductions accumulate and full values are written.

Vectors go along a row, or, where rows are short, across as many neighbouring rows as there are lanes: what is read and
written along these is gathered and scattered, an element a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from quire.ir.jaxpr import Eqn, Var

from ..core.builder import LONGEST_CHAIN, STACK_BYTES
from ..core.errors import NoKernel
from ..core.values import Operand, Value, element, lanes
from ..elements.memory import Memory
from .accumulator import Accumulator
from .cluster import ReductionCluster
from .values import Frame, Kept, Values

#: Bytes of the stack that rows may be kept in.
ROW_BYTES = STACK_BYTES // 2
#: The state of each of some reductions.
States = list[list[Value]]


def unrolled(cluster: ReductionCluster) -> int:
    """Vectors that one turn of the loop takes: more hide the latency of the accumulators."""
    n = sum(1 for e in cluster.jaxpr.eqns if e.outputs and cluster.full(e.outputs[0])) + 2 * len(cluster.reductions)
    return 4 if n <= 8 else 2 if n <= 24 else 1


def folded(
    emitter: Values[ReductionCluster], todo: Sequence[Accumulator], span: tuple[Operand, Operand, int], init: Sequence[States],
    frames: Callable[[Value], Iterable[Frame]], turns: int,
) -> list[States]:  # fmt: skip
    """The states after a loop; `frames` are the places of a turn, each of which adds to states of its own (`init`).

    There are up to `turns` turns: where sums of floats would be long chains, parts are summed and their sums added.
    """
    b, sizes = emitter.b, [[len(state) for state in states] for states in init]

    def parted(values: Sequence[Value]) -> list[States]:
        rest = iter(values)
        return [[[next(rest) for _ in range(n)] for n in group] for group in sizes]

    def joined(groups: Iterable[States]) -> list[Value]:
        return [x for states in groups for state in states for x in state]

    def run(start: Operand, stop: Operand, states: Sequence[States]) -> list[States]:
        with b.for_(start, stop, span[2], joined(states)) as loop:
            turn = zip(frames(loop.index), parted(loop.carried))
            after = joined(added(emitter, todo, states, at) for at, states in turn)
            if after:
                loop.yield_(*after)
        return parted(loop.results)

    start, stop, step = span
    if turns <= LONGEST_CHAIN or not any(a.rounds for a in todo):
        return run(start, stop, init)
    end = b.index(stop) if isinstance(stop, int) else stop
    with b.for_(start, stop, LONGEST_CHAIN * step, joined(init)) as parts:
        fresh = [[a.start(lanes(state[0].type)) for a, state in zip(todo, states)] for states in init]
        sums = run(parts.index, b.smin(parts.index + LONGEST_CHAIN * step, end), fresh)
        both = zip(parted(parts.carried), sums)
        parts.yield_(*joined([a.merge(x, y) for a, x, y in zip(todo, mine, more)] for mine, more in both))
    return parted(parts.results)


def added(emitter: Values[ReductionCluster], todo: Sequence[Accumulator], states: States, at: Frame) -> States:
    """The states with a place's values; what is full is written there."""
    out = [a.add(s, at) for a, s in zip(todo, states)]
    emitter.store_full(at)
    return out


def passes_over(emitter: Values[ReductionCluster], row: Operand, width: int, *, across: bool = False) -> None:
    """All passes over one row by vectors of this width, or over as many rows at once."""
    cluster = emitter.cluster
    emitter.rows = {}
    for level in range(cluster.levels):
        todo = [e for e in cluster.reductions if cluster.level[e.outputs[0]] == level + 1]
        writes = any(cluster.full(v) and cluster.level[v] == level for v in (*cluster.outvars, *emitter.saved))
        if todo or writes:
            at = Frame(row, 0, 0, width if across else 0, level, across=across)
            emitter.prepare(at)
            (_over_rows if across else over_a_row)(emitter, todo, at, width)


def passes_over_block(emitter: Values[ReductionCluster], first: Operand, width: int) -> None:
    """All passes over as many neighbouring rows as vectors have lanes, along each by vectors.

    What rows have one of is computed for all of them at once. So are the totals of vectors that accumulate along each row: these
    are turned, so that the rows are the lanes. No row may be shorter than a vector, nor may results be where values are kept.
    """
    cluster, b, n = emitter.cluster, emitter.b, emitter.cluster.space.reduced
    places: dict[Var, Memory] = {}  # where each row finds its own
    known: dict[Any, Any] = {}  # the rows' values, a vector of each
    for level in range(cluster.levels):
        todo = [e for e in cluster.reductions if cluster.level[e.outputs[0]] == level + 1]
        writes = any(cluster.full(v) and cluster.level[v] == level for v in (*cluster.outvars, *emitter.saved))
        if not (todo or writes):
            continue
        emitter.rows = known
        at = Frame(first, 0, 0, width, level, across=True)
        numbers: dict[Any, Any] = {}
        for v in cluster.read_of_rows(level):
            x = emitter.value(v, at)
            if not v.aval.shape:
                numbers[v] = x
            elif v not in places:
                places[v] = Memory.on_stack(emitter.elements, width, v.aval.dtype)
                places[v].store(x, 0, width)
        accumulators = [Accumulator(emitter, e) for e in todo]
        kept = [[b.stack((width * width,), element(x.type)) for x in a.start(width)] for a in accumulators]
        with b.for_(0, width) as loop:
            here = {v: memory.load(loop.index) for v, memory in places.items()}
            emitter.rows, emitter.saved_start = {**numbers, **here}, loop.index * n
            row = Frame(b.index(first) + loop.index, 0, 0, 0, level)
            emitter.prepare(row, rows=False)
            # Rows overlap: fewer vectors of one need to.
            states, rest = _along_a_row(emitter, accumulators, row, width, max(1, unrolled(cluster) // 2))
            assert rest == n
            for buffers, state in zip(kept, states):
                for buffer, x in zip(buffers, state):
                    b.vstore(x, buffer, loop.index * width)
        for a, buffers in zip(accumulators, kept):
            rows = [[b.vload(width, buffer, r * width) for buffer in buffers] for r in range(width)]
            known[a.e.outputs[0]] = a.result(_total_of_each(a, rows))
    emitter.rows, emitter.saved_start = known, 0


def _total_of_each(a: Accumulator, states: States) -> list[Value]:
    """The totals of as many states as their vectors have lanes, the first one's in lane 0: halves of two are merged at a time."""
    b, n = a.b, len(states)
    while len(states) > 1:
        h = len(states) // 2
        low = [lane + n - h if lane & h else lane for lane in range(n)]
        high = [lane + n if lane & h else lane + h for lane in range(n)]

        def halves(x: Sequence[Value], y: Sequence[Value], lanes: Sequence[int]) -> list[Value]:
            return [b.shuffle(p, q, lanes) for p, q in zip(x, y)]

        pairs = list(zip(states[:h], states[h:]))
        states = [a.merge(halves(x, y, low), halves(x, y, high)) for x, y in pairs]
    return states[0]


def store_rows(emitter: Values[ReductionCluster], row: Operand, width: int = 0) -> None:
    """Write what a row has one of, or as many rows as the width."""
    cluster = emitter.cluster
    at = Frame(row, 0, 0, width, cluster.levels, across=width > 0)
    for v, memory in zip(cluster.outvars, emitter.outputs):
        if not cluster.full(v):
            memory.store(emitter.value(v, at), row, width)


def _over_rows(emitter: Values[ReductionCluster], todo: Sequence[Eqn], at: Frame, width: int) -> None:
    """One pass over several rows; their reductions' values are kept as the rows'."""
    accumulators = [Accumulator(emitter, e) for e in todo]
    starts = [[a.start(width) for a in accumulators]]
    span = (0, emitter.cluster.space.reduced, 1)
    turns = emitter.cluster.space.reduced
    (totals,) = folded(emitter, accumulators, span, starts, lambda i: [at.along(i, width)], turns)
    emitter.rows.update({a.e.outputs[0]: a.result(s) for a, s in zip(accumulators, totals)})


def over_a_row(
    emitter: Values[ReductionCluster], todo: Sequence[Eqn], row: Frame, width: int, span: tuple[Value, Value] | None = None,
    last: Value | None = None,
) -> None:  # fmt: skip
    """One pass over a row: its reductions' values (kept as the row's), and what is written.

    `span` is the (start, stop) of this workgroup's whole vectors, `last` whether it takes what is beyond them.
    """
    b, n = emitter.b, emitter.cluster.space.reduced
    accumulators = [Accumulator(emitter, e) for e in todo]
    states, at = _along_a_row(emitter, accumulators, row, width, unrolled(emitter.cluster), span, last)
    totals = [a.across(s) for a, s in zip(accumulators, states)]
    if at < n:
        first = at if last is None else b.select(last, b.index(at), b.index(n))
        (totals,) = folded(emitter, accumulators, (first, n, 1), [totals], lambda i: [row.along(i, 0)], n - at)
    emitter.rows.update({a.e.outputs[0]: a.result(s) for a, s in zip(accumulators, totals)})


def _along_a_row(
    emitter: Values[ReductionCluster], accumulators: Sequence[Accumulator], row: Frame, width: int, unroll: int,
    span: tuple[Value, Value] | None = None, last: Value | None = None,
) -> tuple[States, int]:  # fmt: skip
    """The states of a pass over a row, vectors, and where the elements begin that are not in them: the end, or less than a vector
    before it."""
    cluster, b = emitter.cluster, emitter.b
    n = cluster.space.reduced
    at = whole = n // (width * unroll) * (width * unroll)
    states = [[a.start(width) for a in accumulators] for _ in range(unroll)]
    if whole or span is not None:
        start, stop = span or (0, whole)
        states = folded(
            emitter, accumulators, (start, stop, width * unroll), states,
            lambda i: (row.along(i + k * width, width) for k in range(unroll)), n // (width * unroll),
        )  # fmt: skip
    while span is None and n - at >= width:
        k = (at - whole) // width
        states[k % unroll] = added(emitter, accumulators, states[k % unroll], row.along(b.index(at), width))
        at += width
    merged = states[0]
    for other in states[1:]:
        merged = [a.merge(x, y) for a, x, y in zip(accumulators, merged, other)]
    if last is not None and n - at >= width:
        whole = n - (n - at) % width
        vectors = b.select(last, b.index(at), b.index(whole)), whole, width
        (merged,) = folded(
            emitter, accumulators, vectors, [merged], lambda i: [row.along(i, width)], (whole - at) // width
        )
        at = whole
    if at < n and n >= width and _may_repeat(emitter):
        # The last vector is moved back inside: some of its elements are computed twice, and counted once.
        counted = width - (n - at)
        if last is None:
            return added(emitter, accumulators, merged, row.along(b.index(n - width), width, counted)), n
        vector = b.select(last, b.index(n - width), b.index(n)), n, width
        (merged,) = folded(emitter, accumulators, vector, [merged], lambda i: [row.along(i, width, counted)], 1)
        return merged, n
    return merged, at


def _may_repeat(emitter: Values[ReductionCluster]) -> bool:
    """Whether elements of a row may be computed again: no result takes the place of what it is computed of."""
    return all(kept.on_stack or kept.is_result for kept in emitter.saved.values())


# -- what is kept between passes ----------------------------------------------------------------------------------------


def keep(
    emitter: Values[ReductionCluster],
    cluster: ReductionCluster,
    row_memory: Callable[[Var], Memory] | None = None,
    rows: int = 1,
) -> None:
    """Choose the memory of values that later passes read: the stack, for so many rows, or a result that is written later.

    In the place of the stack `row_memory` may give rows of the workgroup's own.
    """
    free = [(v, memory) for v, memory in zip(cluster.outvars, emitter.outputs) if cluster.full(v)]
    bytes_left = ROW_BYTES
    kept = cluster.kept()
    last = _last_uses(cluster, kept)
    for v in kept:
        own = next((m for o, m in free if o is v), None)
        later = next(
            (
                (o, m) for o, m in free
                if o.aval.dtype == v.aval.dtype and cluster.level[o] >= last.get(v, 0) > cluster.level[v]
            ),
            None,
        )  # fmt: skip
        nbytes = cluster.space.reduced * rows * v.aval.dtype.itemsize
        if own is not None:
            memory, on_stack = own, False
        elif row_memory is None and nbytes <= bytes_left:
            bytes_left -= nbytes
            memory, on_stack = Memory.on_stack(emitter.elements, cluster.space.reduced * rows, v.aval.dtype), True
        elif later is not None:
            free.remove(later)
            memory, on_stack = later[1], False
        elif row_memory is not None:
            memory, on_stack = row_memory(v), False
        else:
            raise NoKernel("its rows are too long to be kept between passes")
        emitter.saved[v] = Kept(memory, on_stack, own is not None)


def _last_uses(cluster: ReductionCluster, kept: Sequence[Var]) -> dict[Any, int]:
    """The last pass that reads each value: what is made of it and not kept itself is computed again where it is read."""
    last: dict[Any, int] = {}
    for e in reversed(cluster.jaxpr.eqns):
        (made, *_) = e.outputs
        if cluster.full(made):
            until = max(cluster.level[made], 0 if made in kept else last.get(made, 0))
            last.update({a: max(until, last.get(a, 0)) for a in e.inputs if isinstance(a, Var)})
    return last


def keep_columns(emitter: Values[ReductionCluster], cluster: ReductionCluster, width: int) -> None:
    """Keep on the stack what later passes read and is dear, a vector for each place along the rows."""
    left = ROW_BYTES
    for v in cluster.kept():
        count = cluster.space.reduced * width
        left -= count * v.aval.dtype.itemsize
        if left < 0:
            return  # computed again
        emitter.saved[v] = Kept(Memory.on_stack(emitter.elements, count, v.aval.dtype), True, False)
