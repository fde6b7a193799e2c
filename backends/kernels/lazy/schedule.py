"""How jaxprs are gone through, whatever is done with their arrays.

A :class:`Schedule` says when elements are computed: `programs.py` puts arrays into memory by nests of loops, `registers/`
holds each element in a register. Both read arrays as nodes, and share the rules of what is only another node (`views.py`,
`random.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from quire.ir import dtypes
from quire.ir.jaxpr import Eqn, Jaxpr, Literal
from quire.ir.primitive import Primitive

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.values import Value
from ..elements.operations import CALLS, Element, Elements, called, is_number, literal
from .nodes import Lane, Node, Number

Rule = Callable[..., "Sequence[Node]"]


class Rules(dict[Primitive, Rule]):
    """How primitives are done by a schedule: ``rule(schedule, eqn, *nodes)`` gives the equation's outputs."""

    def of(self, *primitives: Primitive) -> Callable[[Rule], Rule]:
        """Decorator: register the rule of some primitives."""

        def register(f: Rule) -> Rule:
            self.update(dict.fromkeys(primitives, f))
            return f

        return register


class Schedule(ABC):
    """Emits jaxprs on nodes."""

    rules: ClassVar[Rules]

    def __init__(self, elements: Elements) -> None:
        self.elements = elements

    @property
    def b(self) -> KernelBuilder:
        """The builder."""
        return self.elements.b

    @abstractmethod
    def run(self, jaxpr: Jaxpr, args: Sequence[Node]) -> Sequence[Node]:
        """The outputs of a jaxpr."""

    @abstractmethod
    def elementwise(self, eqn: Eqn, nodes: Sequence[Node]) -> Node:
        """An elementwise equation. Raises NoKernel for others."""

    @abstractmethod
    def computed(self, node: Node) -> Node:
        """A node whose elements may be read later, each as often as there are readers."""

    @abstractmethod
    def steady(self, node: Node) -> Node:
        """A node that costs nothing to read often: for what loops use unchanged."""

    def together(self, nodes: Sequence[Node]) -> Sequence[Node]:
        """Nodes of one shape (scalars aside) with the same dimensions as lanes."""
        return nodes

    def lane_of(self, shape: tuple[int, ...]) -> Lane:
        """The dimensions of a shape that would be lanes."""
        return None

    @abstractmethod
    def element(self, node: Node) -> Element:
        """The element of a scalar node."""

    def equation(self, eqn: Eqn, nodes: Sequence[Node]) -> Sequence[Node]:
        """One equation's outputs."""
        self.b.check_length()
        if eqn.effects:
            raise NoKernel(f"{eqn.primitive.name} has an effect")
        if eqn.primitive in CALLS:
            return self.run(called(eqn.params), nodes)
        if any(0 in x.shape for x in nodes) or any(0 in v.aval.shape for v in eqn.outputs):
            raise NoKernel("an array has no elements")
        found = self.rules.get(eqn.primitive)
        if found is not None:
            return found(self, eqn, *nodes)
        if len(eqn.outputs) != 1 or eqn.primitive.multiple_results:
            raise NoKernel(eqn.primitive.name)
        return [self.elementwise(eqn, nodes)]


def branches(schedule: Schedule, eqn: Eqn, index: Node) -> tuple[list[Jaxpr], Value | None]:
    """The branches of a ``cond`` that a scalar may choose, and the scalar (i32) unless it is known which."""
    found = [c.jaxpr for c in eqn.params["branches"]]
    which = schedule.element(index)
    if len(found) == 1 or is_number(which):
        k = 0 if len(found) == 1 else min(max(int(which), 0), len(found) - 1)  # type: ignore[arg-type]
        return [found[k]], None
    lifted = schedule.elements.lift(which, dtypes.int32)
    assert isinstance(lifted, Value)
    return found, lifted


def chosen(
    b: KernelBuilder, index: Value, types: Sequence[str], last: int, branch: Callable[[int], list[Value]]
) -> list[Value]:
    """The values of the branch of a number, as ``scf.if``: the last one's if it is at least ``last``, else one before."""
    if last == 0:
        return branch(0)
    with b.if_(b.cmp("sge", index, last), types) as arm:
        arm.yield_(*branch(last))
        arm.else_()
        arm.yield_(*chosen(b, index, types, last - 1, branch))
    return arm.results


def number(a: Literal) -> Number:
    """A literal as a node."""
    return Number((), a.aval.dtype, literal(a))
