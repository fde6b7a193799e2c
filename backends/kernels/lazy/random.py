"""Random bits as nodes, in any schedule."""

from __future__ import annotations

import math
from dataclasses import dataclass

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn
from quire.ir.primitives import random as rn

from ..core.values import Value
from ..elements.operations import Element, bits_of, threefry
from .nodes import ZERO, Index, Lane, Node, Reader, Vec
from .schedule import Rules, Schedule

RANDOM = Rules()


@dataclass(frozen=True, eq=False)
class Random(Node):
    """One of the two results of threefry2x32; both are computed together."""

    operands: tuple[Node, ...]
    result: int
    key: object

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.operands

    @property
    def cost(self) -> float:
        return 40.0 + sum(x.cost for x in self.operands)

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        at = (self.key, index, vec)
        if at not in reader.seen:
            xs = [reader(x, index if x.shape else (), vec if x.shape else None) for x in self.operands]
            reader.seen[at] = threefry(reader.elements, xs)  # type: ignore[assignment]
        return reader.seen[at][self.result]  # type: ignore[index]


@RANDOM.of(rn.threefry2x32_p)
def threefry2x32(schedule: Schedule, eqn: Eqn, *xs: Node) -> list[Node]:
    """Two nodes that share the hash of each element."""
    aval, key = eqn.outputs[0].aval, object()
    operands = tuple(schedule.together(xs))
    nodes = [Random(aval.shape, aval.dtype, operands, k, key) for k in range(2)]
    return list(map(schedule.computed, nodes))


@dataclass(frozen=True, eq=False)
class Bits(Node):
    """Random bits of one key for each index of the first dimensions."""

    keys: tuple[Node, ...]
    own_lane: Lane

    @property
    def lane(self) -> Lane:
        return self.own_lane

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.keys

    @property
    def cost(self) -> float:
        return 40.0

    def read(self, reader: Reader, index: Index, vec: Vec | None) -> Element:
        e, b = reader.elements, reader.elements.b
        batch = len(self.keys[0].shape)
        place = ZERO
        for d in range(batch, len(self.shape)):
            place = place + index[d] * math.prod(self.shape[d + 1 :])
        at = place.emit(b)
        number: Element = at if isinstance(at, int) else b.cast(at, "i32")
        key_vec = vec if vec is not None and vec.axis < batch else None
        if vec is not None and key_vec is None:
            stride = vec.step * math.prod(self.shape[vec.axis + 1 :])
            lifted = e.lift(number, dtypes.uint32, vec.width)
            assert isinstance(lifted, Value)
            number = lifted + b.const_vector([k * stride for k in range(vec.width)], "i32")
        keys = [reader(k, index[:batch], key_vec) for k in self.keys]
        return bits_of(e, [*keys, 0, number], self.dtype)


@RANDOM.of(rn.random_bits_p)
def random_bits(schedule: Schedule, eqn: Eqn, k1: Node, k2: Node) -> list[Node]:
    """A node whose elements are hashes of their flat places."""
    aval, batch = eqn.outputs[0].aval, len(k1.shape)
    keys = tuple(schedule.together([schedule.steady(k1), schedule.steady(k2)]))
    own = schedule.lane_of(aval.shape[batch:])
    lane = keys[0].lane or (own and (batch + own[0], own[1]))
    return [schedule.computed(Bits(aval.shape, aval.dtype, keys, lane))]
