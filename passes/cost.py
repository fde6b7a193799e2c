"""An estimate of a jaxpr's work: floating-point operations and bytes moved, if every equation were a kernel.

A fusion, or a kernel of the user's, is one kernel: it moves what goes into it and comes out of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol

from quire.ir.jaxpr import ClosedJaxpr, Eqn, Jaxpr, has_nested, nested_jaxprs
from quire.ir.primitive import Primitive
from quire.ir.primitives import contraction as ct
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import sorting as so
from quire.ir.primitives import structural as st
from quire.ir.weights import weight


class Machine(Protocol):
    """What the estimate needs of a target."""

    @property
    def bytes_per_second(self) -> float:
        """How much memory it reads or writes."""
        ...

    @property
    def flops_per_second(self) -> float:
        """How many operations on float32 it does."""
        ...


class Threads(Machine, Protocol):
    """What the time of one of its threads needs."""

    @property
    def workers(self) -> int:
        """How many threads reach its `flops_per_second` together."""
        ...

    @property
    def cached_bytes_per_second(self) -> float:
        """How much one thread reads or writes of what the processor's caches hold."""
        ...


@dataclass(frozen=True)
class Cost:
    """The work of a program.

    Attributes:
        flops: operations.
        bytes: read and written.
        products: those of the operations that are of matrix products and convolutions.
        cached: those of the bytes that equations move whose operands and results the processor's caches hold.
    """

    flops: float
    bytes: float
    products: float = 0.0
    cached: float = 0.0

    def seconds(self, machine: Machine) -> float:
        """The time by the larger of both terms."""
        return max(self.flops / machine.flops_per_second, self.bytes / machine.bytes_per_second)

    def seconds_of_one_thread(self, machine: Threads) -> float:
        """The time on one thread, which does not reach the machine's peaks."""
        peak = machine.flops_per_second / max(machine.workers, 1)
        products, others = self.products / (PRODUCTS * peak), (self.flops - self.products) / (OTHERS * peak)
        near, far = self.cached / machine.cached_bytes_per_second, (self.bytes - self.cached) / machine.bytes_per_second
        return max(products + others, near + far)

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops, self.bytes + other.bytes, self.products + other.products,
            self.cached + other.cached,
        )  # fmt: skip

    def __mul__(self, n: float) -> Cost:
        return Cost(self.flops * n, self.bytes * n, self.products * n, self.cached * n)


PRODUCTS, OTHERS = 0.5, 0.15
"""The parts of its peak that one thread reaches: in small matrix products, and in functions of elements."""
CACHE_BYTES = 16 << 20
"""What an equation reads and writes stays in the processor's caches from one to the next up to so much."""


# The trip count that a loop with a data-dependent end is taken to have.
UNKNOWN_TRIPS = 32


#: The same memory with other dimensions, or read several times.
_VIEWS = (st.reshape_p, st.squeeze_p, st.broadcast_in_dim_p)
#: Parts of memory, of which only what is taken is read.
_PARTS = (st.slice_p, ix.dynamic_slice_p)


def _cost(eqn: Eqn, flops: float, products: float = 0.0) -> Cost:
    bytes = _bytes(eqn)
    return Cost(flops, bytes, products, bytes if bytes <= CACHE_BYTES else 0.0)


def _bytes(eqn: Eqn) -> float:
    if eqn.primitive in _VIEWS:
        return 0.0
    total = 0
    for a in (*(eqn.outputs if eqn.primitive in _PARTS else eqn.inputs), *eqn.outputs):
        total += getattr(a.aval, "nbytes", 0)
    return float(total)


def _sort_flops(eqn: Eqn) -> float:
    size = max(eqn.inputs[0].aval.size, 1)
    return 8.0 * size * math.log2(size + 1)


_SPECIAL: dict[Primitive, Callable[[Eqn], float]] = {
    ct.dot_general_p: ct.operations, ct.conv_general_dilated_p: ct.operations, so.sort_p: _sort_flops,
    so.top_k_p: _sort_flops,
}  # fmt: skip


def estimate_eqn(eqn: Eqn, once: Container[int] = ()) -> Cost:
    """The work of one equation, nested jaxprs included; `once` as in :func:`estimate`."""
    name = eqn.primitive.name
    if eqn.params and has_nested(eqn.params):
        nested = [j.jaxpr if isinstance(j, ClosedJaxpr) else j for j in nested_jaxprs(eqn.params)]
        inner = [estimate(j, once) for j in nested]
        if id(eqn) in once:
            return sum(inner, Cost(0, 0)) * eqn.params.get("unroll", 1)
        if name == "scan":
            return inner[0] * eqn.params["length"]
        if name == "while":
            return sum(inner, Cost(0, 0)) * UNKNOWN_TRIPS
        if name == "cond":
            return max(inner, key=lambda c: (c.bytes, c.flops))
        if name.startswith("reduce") or name.startswith("scatter"):
            return _cost(eqn, sum(a.aval.size for a in eqn.inputs))
        if name in ("fusion", "kernel_call") and _bytes(eqn) < inner[0].bytes:
            return _cost(eqn, inner[0].flops, inner[0].products)
        return sum(inner, Cost(0, 0))
    special = _SPECIAL.get(eqn.primitive)
    if special is not None:
        flops = special(eqn)
        return _cost(eqn, flops, flops if special is ct.operations else 0.0)
    elements = 0
    for a in (*eqn.inputs, *eqn.outputs):
        elements = max(elements, getattr(a.aval, "size", 0))
    return _cost(eqn, float(weight(eqn) * elements))


def estimate(jaxpr: Jaxpr, once: Container[int] = ()) -> Cost:
    """The work of a jaxpr.

    Args:
        once: the identities of loop equations of which one turn counts.
    """
    flops = bytes = products = cached = 0.0
    for e in jaxpr.eqns:
        cost = estimate_eqn(e, once)
        flops += cost.flops
        bytes += cost.bytes
        products += cost.products
        cached += cost.cached
    return Cost(flops, bytes, products, cached)


def has_unknown_trips(jaxpr: Jaxpr) -> bool:
    """Whether a loop's end depends on data: then the estimate says little."""
    for e in jaxpr.eqns:
        if e.primitive.name == "while":
            return True
        if e.params and has_nested(e.params):
            for j in nested_jaxprs(e.params):
                if has_unknown_trips(j.jaxpr if isinstance(j, ClosedJaxpr) else j):
                    return True
    return False
