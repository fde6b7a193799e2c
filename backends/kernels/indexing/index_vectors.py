"""Index vectors of gather and scatter inside a kernel: read from memory, or computed from what the program has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.ir.jaxpr import Jaxpr
from quire.ir.primitives import structural as st

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.shapes import row_major
from ..core.values import Buffer, Value
from ..elements.memory import Memory
from ..elements.operations import Elements, Expand
from ..lazy.nodes import Array, Elementwise, Iota, Ix, Node, Number, Reader, View
from ..lazy.programs import Program


class IndexVectors(Protocol):
    """An array of index vectors, whose last dimension holds the components of each."""

    @property
    def spec(self) -> Spec:
        """Its shape and dtype."""
        ...

    @property
    def operands(self) -> list[Spec]:
        """The operands of the kernel that it is made of."""
        ...

    def opened(self, b: KernelBuilder, first: int) -> OpenedVectors:
        """It in a kernel, whose operands from ``first`` on are its own."""
        ...


class OpenedVectors(Protocol):
    """Index vectors inside one kernel."""

    def component(self, place: Sequence[Value], k: int) -> Value:
        """Component ``k`` of the vector at a place, one index for each of the other dimensions."""
        ...


@dataclass(frozen=True)
class StoredVectors:
    """Index vectors in memory; their components lie along ``vector_dim`` (None: the last dimension).

    Where that is not a dimension of the array, vectors have one component.
    """

    spec: Spec
    vector_dim: int | None = None

    @property
    def operands(self) -> list[Spec]:
        """The array itself."""
        return [self.spec]

    def opened(self, b: KernelBuilder, first: int) -> OpenedVectors:
        """It in a kernel."""
        d = len(self.spec.shape) - 1 if self.vector_dim is None else self.vector_dim
        strides = list(row_major(self.spec.shape))
        step = strides.pop(d) if d < len(strides) else 0
        return _Stored(b, b.operand(first, (self.spec.size,), self.spec.dtype.word), tuple(strides), step)


@dataclass(frozen=True)
class _Stored:
    b: KernelBuilder
    memory: Buffer
    strides: tuple[int, ...]
    step: int

    def component(self, place: Sequence[Value], k: int) -> Value:
        """The number in memory; see :class:`OpenedVectors`."""
        at = self.b.index(k * self.step)
        for index, stride in zip(place, self.strides, strict=True):
            at = at + index * stride
        return self.b.load(self.memory, at)


@dataclass(frozen=True)
class ComputedVectors:
    """Index vectors that the one output of a jaxpr is: elementwise equations, broadcasts, iotas and unit dimensions.

    A concatenation of single components may be the last equation. Raises :class:`NoKernel` when it is opened and
    something else is in it.
    """

    jaxpr: Jaxpr
    expand: Expand

    @property
    def spec(self) -> Spec:
        """The output."""
        (out,) = self.jaxpr.outvars
        return Spec.of(out.aval.shape, out.aval.dtype)

    @property
    def operands(self) -> list[Spec]:
        """The inputs."""
        return [Spec.of(v.aval.shape, v.aval.dtype) for v in self.jaxpr.invars]

    def opened(self, b: KernelBuilder, first: int) -> OpenedVectors:
        """It in a kernel."""
        elements = Elements(b, self.expand)
        args: list[Node] = []
        for i, v in enumerate(self.jaxpr.invars):
            size = v.aval.size * Memory.numbers(v.aval.dtype)
            memory = Memory(elements, b.operand(first + i, (size,), Memory.element(v.aval.dtype)), v.aval.dtype)
            args.append(Array(v.aval.shape, v.aval.dtype, memory, row_major(v.aval.shape)))
        *_, last = self.jaxpr.eqns
        rank = len(self.spec.shape)
        parts = last.primitive is st.concatenate_p and last.params["dimension"] == rank - 1
        if parts and any(a.aval.shape[-1] != 1 for a in last.inputs):
            raise NoKernel("index vectors joined of other index vectors")
        outvars = last.inputs if parts else self.jaxpr.outvars
        eqns = self.jaxpr.eqns[:-1] if parts else self.jaxpr.eqns
        nodes = Program(elements).run(Jaxpr((), self.jaxpr.invars, eqns, outvars), args)
        pending = list(nodes)
        while pending:
            x = pending.pop()
            if not isinstance(x, Array | Elementwise | Iota | Number | View):
                raise NoKernel("indices that are not computed element by element")
            pending += x.inputs
        return _Computed(elements, nodes)


@dataclass(frozen=True)
class _Computed:
    elements: Elements
    nodes: Sequence[Node]  # one of all components, or one of each

    def component(self, place: Sequence[Value], k: int) -> Value:
        """The number, computed; see :class:`OpenedVectors`."""
        node, last = (self.nodes[k], 0) if len(self.nodes) > 1 else (self.nodes[0], k)
        index = (*map(Ix.of, place), Ix((), last))
        out = self.elements.lift(Reader(self.elements)(node, index, None), node.dtype)
        assert isinstance(out, Value)
        return out
