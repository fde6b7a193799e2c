"""Jaxprs as lazy arrays: which of them are put into memory, where, and in which order.

Elementwise operations and views stay lazy and are computed by the nests that store or reduce them. Put into memory
are: results of reductions and contractions, of what is written region by region (concatenate, pad, updates), and what
is expensive and used more than once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir.dtypes import DType
from quire.ir.jaxpr import Eqn, Jaxpr, Literal, Var
from quire.ir.primitive import Primitive

from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.shapes import row_major
from ..elements.memory import Memory
from ..elements.operations import Element, Elements
from .nests import Nests
from .nodes import ZERO, Array, Elementwise, Ix, Node, Number, Reader, leaves, view
from .random import RANDOM
from .schedule import Rules, Schedule, number
from .views import VIEWS

#: What costs more operations an element than this is not computed twice.
CHEAP = 8.0
#: Arrays of up to so many bytes are on the stack of the workgroup, others are scratch memory of the kernel.
STACK_ARRAY = 4096
#: The stack that one kernel may take.
STACK_TOTAL = 24576

#: How primitives that are not elementwise are done on lazy arrays.
RULES = Rules({**VIEWS, **RANDOM})
rule = RULES.of


@dataclass(frozen=True, eq=False)
class Built(Node):
    """An array that is written region by region: a copy of `source` (or nothing), then what `fill` writes.

    ``reads`` are the nodes that ``fill(to, reads)`` reads. ``region`` is the part that it writes, where that is one
    rectangle (first places, sizes) at places known now: the rest is all that needs a copy of the source. ``joined``: the
    nodes that it puts side by side along the last dimension, where each has one element there: components of vectors.
    """

    source: Node | None
    reads: tuple[Node, ...]
    fill: Callable[[Array, Sequence[Node]], None]
    region: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    joined: tuple[Node, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.reads if self.source is None else (self.source, *self.reads)

    def read(self, reader: Reader, index: Any, vec: Any) -> Element:
        raise AssertionError("arrays written by regions are put into memory before they are read")


def outside(
    region: tuple[tuple[int, ...], tuple[int, ...]], shape: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Rectangles (first places, sizes) that cover a shape but for a rectangle in it."""
    starts, sizes = region
    low, size = [0] * len(shape), list(shape)
    for d, n in enumerate(shape):
        for first, count in ((0, starts[d]), (starts[d] + sizes[d], n - starts[d] - sizes[d])):
            if count > 0:
                yield [*low[:d], first, *low[d + 1 :]], [*size[:d], count, *size[d + 1 :]]
        low[d], size[d] = starts[d], sizes[d]


class Program(Schedule):
    """Emits jaxprs on lazy arrays.

    What costs more than `cheap` operations an element and is used more than once is put into memory, where its equation is
    emitted; with infinity nothing is for that reason: for what a loop that comes later reads element by element.
    """

    rules = RULES

    def __init__(self, elements: Elements, crowded: bool = False, cheap: float = CHEAP) -> None:
        super().__init__(elements)
        self.cheap = cheap
        self.nests = Nests(elements)
        self.crowded = crowded  # all memory beyond the stack is one array

    # -- memory ----------------------------------------------------------------------------------------------

    def temp(self, shape: Sequence[int], dtype: DType, owner: object = None, numbers: int = 0) -> Array:
        """New memory for an array, or for more elements, of which it is the first ones."""
        shape = tuple(shape)
        count = numbers or math.prod(shape)
        size = count * dtype.itemsize
        if size <= STACK_ARRAY and self.b.stack_bytes + size <= STACK_TOTAL:
            memory = Memory.on_stack(self.elements, count, dtype)
        else:
            flat = (count * Memory.numbers(dtype),)
            take = self.b.part_of_scratch if self.crowded else self.b.more_scratch
            buffer = take(Spec.of((count,), dtype), flat, Memory.element(dtype))
            memory = Memory(self.elements, buffer, dtype)
        return Array(shape, dtype, memory, row_major(shape), ZERO, owner)

    def in_memory(self, node: Node, wanted: Array | None = None) -> Array:
        """A node as an array in memory."""
        if isinstance(node, Array):
            return node
        to = self.temp(node.shape, node.dtype) if wanted is None else wanted
        self.write(node, to)
        return to

    def lazy(self, node: Node) -> Node:
        """A node whose elements can be read."""
        return self.in_memory(node) if isinstance(node, Built) else node

    def write(self, node: Node, to: Array) -> None:
        """Compute a node into memory."""
        if not isinstance(node, Built):
            self.nests.store([(node, to)])
            return
        if node.source is not None:
            if node.region is None or isinstance(node.source, Built):
                self.write(node.source, to)
            else:
                for starts, shape in outside(node.region, node.shape):
                    offset = tuple(Ix((), s) for s in starts)
                    part = view(node.source, tuple(shape), range(len(shape)), None, offset)
                    self.nests.store([(part, to.part(offset, tuple(shape)))])
        node.fill(to, node.reads)

    def steady(self, node: Node) -> Node:
        """A node that costs nothing to read often: for what loops use unchanged."""
        return (
            node
            if isinstance(node, Array | Number) or node.cost == 0 and not isinstance(node, Built)
            else self.in_memory(node)
        )

    def element(self, node: Node) -> Element:
        """The element of a scalar node."""
        return Reader(self.elements)(self.lazy(node), (), None)

    def computed(self, node: Node) -> Node:
        """A node, a scalar one as its element, computed here."""
        return node if node.shape else Number((), node.dtype, self.element(node))

    # -- programs --------------------------------------------------------------------------------------------

    def run(self, jaxpr: Jaxpr, args: Sequence[Node], wanted: Mapping[Var, Array] | None = None) -> list[Node]:
        """The outputs of a jaxpr; what has to be put into memory is put where `wanted` says."""
        env: dict[Var, Node] = dict(zip(jaxpr.invars, args, strict=True))
        uses = Counter(a for eqn in jaxpr.eqns for a in set(eqn.inputs) if isinstance(a, Var))
        uses.update(a for a in set(jaxpr.outvars) if isinstance(a, Var))
        places = dict(wanted or {})

        def read(a: Any) -> Node:
            return number(a) if isinstance(a, Literal) else env[a]

        for eqn in jaxpr.eqns:
            nodes: list[Node] = []
            for a in eqn.inputs:
                node = read(a)
                if isinstance(node, Built) and eqn.primitive not in KEEPS_BUILT:
                    node = env[a] = self.in_memory(node, places.pop(a, None))  # type: ignore[index, arg-type]
                nodes.append(node)
            self.places = {v: places[v] for v in eqn.outputs if v in places}
            out = self.equation(eqn, nodes)
            for v, node in zip(eqn.outputs, out, strict=True):
                if node.cost > self.cheap and uses[v] > 1 and not isinstance(node, Built) and node.shape:
                    node = self.in_memory(node, places.pop(v, None))
                env[v] = node
        return [read(a) for a in jaxpr.outvars]

    def wanted(self, v: Var) -> Array:
        """Memory for an equation's output: where it is wanted, or new."""
        found = self.places.pop(v, None)
        return self.temp(v.aval.shape, v.aval.dtype) if found is None else found

    def elementwise(self, eqn: Eqn, nodes: Sequence[Node]) -> Node:
        """A node of an elementwise equation; what is a scalar is computed at once."""
        aval = eqn.outputs[0].aval
        if any(x.shape not in ((), aval.shape) for x in nodes):
            raise NoKernel(eqn.primitive.name)
        node = Elementwise(aval.shape, aval.dtype, eqn.primitive, eqn.params, tuple(nodes))
        if not aval.shape:
            return self.computed(node)
        node.check(self.elements)
        return node


def carries(node: Node) -> set[object]:
    """The carried arrays that a node reads."""
    return {owner for owner, _ in leaves(node)}


KEEPS_BUILT: set[Primitive] = set()
"""Primitives that take arrays written by regions as they are."""
