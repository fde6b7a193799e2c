"""The table of batching rules, and the helpers that make the rule of a family one line.

A rule keeps the operation batched: it never loops over the batch. It is written with ordinary traced operations. Where
some operands cannot be batched it raises NotImplementedError with the primitive's name and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from quire.ir.avals import aval_of
from quire.ir.primitive import Primitive, RuleTable
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import structural as st

Value: TypeAlias = Any
Dim: TypeAlias = int | None


@dataclass(frozen=True)
class Axis:
    """The mapped axis: its size, its name (None if anonymous), and the mesh axis it is spread over, if any.

    Of `devices`: its lanes stand for those of a mesh, each of which has an order of its own.
    """

    size: int
    name: Any = None
    spmd_name: Any = None
    devices: bool = False

    @property
    def explicit_mesh_axis(self) -> Any:
        """The mesh axis of type Explicit that the mapped one is divided along: rules are never told of one."""
        return None


# rule(axis, operands, dims, **params) -> (results, result dims). dims[i] is the batch dimension of operand i, None
# where it is not batched; at least one is. One result: a value and a dim; multiple_results: a list of each.
BatchRule: TypeAlias = Callable[..., tuple[Any, Any]]
batching: RuleTable[BatchRule] = RuleTable("batching", "vectorisation over a mapped axis")


def sum_of_equal(x: Value, size: int) -> Value:
    """The sum over `size` lanes of what is the same in each, which may be a Python number."""
    aval = aval_of(x)
    return ew.mul(x, ew.convert_element_type(size, aval.dtype, weak_type=aval.weak_type))


def move_dim(x: Value, source: int, destination: int) -> Value:
    """x with one dimension moved."""
    if source == destination:
        return x
    order = [i for i in range(aval_of(x).ndim) if i != source]
    order.insert(destination, source)
    return st.transpose(x, order)


def broadcast_batch(x: Value, size: int, dim: int = 0) -> Value:
    """x repeated along a new batch dimension."""
    shape = list(aval_of(x).shape)
    shape.insert(dim, size)
    return st.broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i != dim])


def to_front(x: Value, dim: Dim, size: int) -> Value:
    """x with its batch dimension first; made by repetition where x has none."""
    return broadcast_batch(x, size) if dim is None else move_dim(x, dim, 0)


def define_elementwise(*primitives: Primitive) -> None:
    """The rule of elementwise primitives: operands of one shape, or scalars."""

    def make(p: Primitive) -> BatchRule:
        def rule(axis: Axis, operands: Sequence[Value], dims: Sequence[Dim], **params: Any) -> tuple[Any, Any]:
            ranks = [aval_of(x).ndim - (d is not None) for x, d in zip(operands, dims)]
            rank = max(ranks)
            batched = [d for d, r in zip(dims, ranks) if d is not None and r == rank]
            if (
                batched
                and all(d == batched[0] for d in batched)
                and all(d == batched[0] if r == rank else (r == 0 and d is None) for d, r in zip(dims, ranks))
            ):
                return p.bind(*operands, **params), batched[0]  # no operand needs to be moved
            out: list[Value] = []
            for x, d, r in zip(operands, dims, ranks):
                if d is None and r == 0:
                    out.append(x)
                    continue
                x = to_front(x, d, axis.size)
                if r < rank:  # a batched scalar beside operands of higher rank
                    full = next(
                        (axis.size, *(n for i, n in enumerate(aval_of(y).shape) if i != e))
                        for y, e, q in zip(operands, dims, ranks)
                        if q == rank
                    )
                    x = st.broadcast_in_dim(x, full, (0,))
                out.append(x)
            return p.bind(*out, **params), 0

        return rule

    for p in primitives:
        batching.add(p, make(p))
