"""Reduction clusters over short rows: the lanes of a vector are neighbouring rows, and a loop goes along all of them.

What is read and written along the rows is gathered and scattered, an element a lane; everything in between is vectors.
"""

from __future__ import annotations

from ..core.builder import STACK_BYTES, KernelBuilder
from ..core.values import Operand, Value
from ..elements.memory import Memory
from .reduction_cluster import ReductionCluster
from .reduction_values import Accumulator, Frame, Kept, ReductionEmitter


def keep_columns(emitter: ReductionEmitter, cluster: ReductionCluster, width: int) -> None:
    """Keep on the stack what later passes read and is dear, a vector for each place along the rows."""
    left = STACK_BYTES // 2
    for v in cluster.kept():
        count = cluster.space.reduced * width
        left -= count * v.aval.dtype.itemsize
        if left < 0:
            return  # computed again
        emitter.saved[v] = Kept(Memory.on_stack(emitter.elements, count, v.aval.dtype), True, False)


def several_rows(emitter: ReductionEmitter, first: Operand, width: int) -> None:
    """All passes over as many rows as a vector has lanes, and their results."""
    cluster = emitter.cluster
    emitter.rows = {}
    for level in range(cluster.levels):
        todo = [e for e in cluster.reductions if cluster.level[e.outputs[0]] == level + 1]
        writes = any(cluster.full(v) and cluster.level[v] == level for v in (*cluster.outvars, *emitter.saved))
        if todo or writes:
            emitter.prepare(Frame(first, 0, 0, width, level, across=True))
            _pass(emitter, [Accumulator(emitter, e) for e in todo], first, width, level)
    last = Frame(first, 0, 0, width, cluster.levels, across=True)
    for v, memory in zip(cluster.outvars, emitter.outputs):
        if not cluster.full(v):
            memory.store(emitter.value(v, last), first, width)


def _pass(emitter: ReductionEmitter, todo: list[Accumulator], first: Operand, width: int, level: int) -> None:
    b: KernelBuilder = emitter.b
    sizes = [len(a.start(width)) for a in todo]

    def parted(values: list[Value]) -> list[list[Value]]:
        rest = iter(values)
        return [[next(rest) for _ in range(n)] for n in sizes]

    with b.for_(0, emitter.cluster.space.reduced, 1, [x for a in todo for x in a.start(width)]) as loop:
        at = Frame(first, loop.index, 0, width, level, across=True)
        after = [a.add(s, at, loop.index) for a, s in zip(todo, parted(loop.carried))]
        emitter.store_full(at)
        if todo:
            loop.yield_(*(x for state in after for x in state))
    for a, state in zip(todo, parted(loop.results)):
        emitter.rows[a.e.outputs[0]] = a.result(state)
