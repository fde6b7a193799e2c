"""Index vectors of gather and scatter inside a kernel: read from memory, or computed from what the program has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Jaxpr
from quire.ir.primitives import structural as st

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.shapes import row_major
from ..core.values import Value
from ..elements.operations import Elements, Expand
from ..lazy.gathering import components
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

    def opened(self, b: KernelBuilder, first: int) -> Components:
        """It in a kernel, whose operands from ``first`` on are its own."""
        ...


@dataclass(frozen=True)
class Components:
    """The components of index vectors inside one kernel, as nodes."""

    elements: Elements
    nodes: Sequence[Node]

    def component(self, place: Sequence[Value], k: int) -> Value:
        """Component ``k`` of the vector at a place, one index for each of the other dimensions."""
        node = self.nodes[k]
        out = self.elements.lift(Reader(self.elements)(node, tuple(map(Ix.of, place)), None), node.dtype)
        assert isinstance(out, Value)
        return out

    def window(
        self, place: Sequence[Value], dims: Sequence[int], shape: Sequence[int], sizes: Sequence[int], moved: bool,
        component: int = 0,
    ) -> tuple[Value | None, Value, Value]:  # fmt: skip
        """Of the window that a vector says: whether it lies inside, where it begins, and one component, as far as it does.

        The components are indices of these dimensions of a row-major array of `shape`, the window has these `sizes`.
        With ``moved`` a window is moved inside, and None says that all are there.
        """
        b, strides = self.elements.b, row_major(shape)
        at, along, inside = b.index(0), b.index(0), None
        # Shaders need not have numbers of 64 bits, which are not faster on a CPU where there are some.
        narrow = b.target.kind == "gpu" and all(n.dtype.itemsize <= 4 for n in self.nodes) and math.prod(shape) < 2**31
        word = "i32" if narrow else "i64"
        for k, d in enumerate(dims):
            signed, limit = not dtypes.is_unsigned(self.nodes[k].dtype), shape[d] - sizes[d]
            index = b.cast(self.component(place, k), word, signed=signed)
            if not moved:
                fits = b.cmp("ule", index, limit)  # a negative index is a huge unsigned one
                inside = fits if inside is None else inside & fits
            else:
                index = b.smin(b.smax(index, 0), limit) if signed else b.umin(index, limit)
            index = b.cast(index, "index")
            along = index if k == component else along
            at = at + index * strides[d]
        return inside, at, along


@dataclass(frozen=True)
class StoredVectors:
    """Index vectors in memory."""

    spec: Spec

    @property
    def operands(self) -> list[Spec]:
        """The array itself."""
        return [self.spec]

    def opened(self, b: KernelBuilder, first: int) -> Components:
        """It in a kernel."""
        elements = Elements(b, lambda p, operands, params: None)
        array = Array.of(elements, first, ShapedArray(self.spec.shape, self.spec.dtype.numpy()))
        return Components(elements, components(array))


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

    def opened(self, b: KernelBuilder, first: int) -> Components:
        """It in a kernel."""
        elements = Elements(b, self.expand)
        args = [Array.of(elements, first + i, v.aval) for i, v in enumerate(self.jaxpr.invars)]
        *_, last = self.jaxpr.eqns
        rank = len(self.spec.shape)
        parts = last.primitive is st.concatenate_p and last.params["dimension"] == rank - 1
        if parts and any(a.aval.shape[-1] != 1 for a in last.inputs):
            raise NoKernel("index vectors joined of other index vectors")
        outvars = last.inputs if parts else self.jaxpr.outvars
        eqns = self.jaxpr.eqns[:-1] if parts else self.jaxpr.eqns
        nodes = Program(elements, cheap=math.inf).run(Jaxpr((), self.jaxpr.invars, outvars, eqns), args)
        pending = list(nodes)
        while pending:
            x = pending.pop()
            if not isinstance(x, Array | Elementwise | Iota | Number | View):
                raise NoKernel("indices that are not computed element by element")
            pending += x.inputs
        return Components(elements, [part for node in nodes for part in components(node)])
