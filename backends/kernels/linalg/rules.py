"""Linear algebra within programs on lazy arrays: loops whose steps factor small matrices stay one kernel."""

from __future__ import annotations

from typing import Any

from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn

from ..elements.memory import Memory
from ..lazy.nodes import Array, Node
from ..lazy.programs import Program
from ..lazy.rules import reshaped
from .batches import OPERATIONS, checked, emit_batch, stacked, work_of


def linear_algebra(program: Program, eqn: Eqn, *nodes: Node) -> list[Node]:
    """A primitive of linear algebra, its results in memory. Raises NoKernel for what `checked` refuses."""
    p, operation = eqn.primitive, OPERATIONS[eqn.primitive]
    checked(p, eqn.params, [x.shape for x in nodes])
    ins = [_in_memory(program, x, rank) for x, rank in zip(nodes, operation.ranks)]
    outs = [program.wanted(v) for v in eqn.outputs]
    stacks = [stacked(a, rank) for a, rank in zip(ins, operation.ranks)]

    def memory(count: int, dtype: DType) -> Memory:
        return program.temp((count,), dtype).memory

    def shares(pieces: int) -> Any:
        return program.b.distributed(pieces, 1)

    lanes = emit_batch(program.elements, p, eqn.params, ins, outs, memory, shares)
    nests = program.nests
    nests.work += nests.trips * work_of(p, stacks) * stacks[0].shape[0] / max(lanes, 2)
    return list(outs)


def _in_memory(program: Program, x: Node, rank: int) -> Array:
    """A node as an array whose matrices lie at one stride."""
    array = program.in_memory(x)
    if len(array.shape) > rank + 1 and not array.contiguous:
        flat = reshaped(program, array, (array.size,))
        assert isinstance(flat, Array)
        array = flat.viewed(array.shape)
    return array


Program.rules.update(dict.fromkeys(OPERATIONS, linear_algebra))
