"""Elementwise equations of shifted, padded and joined arrays as one kernel: stencils, rolls, reflections.

The result is cut into regions in each of which every operand is one rectangle (`quire.ir.rectangles`): for a roll by one in
two dimensions the inside, four edges and four corners. Each region is a nest of loops over views; no slice, padding or
concatenation is ever in memory. Large regions are shared by workgroups along their first dimension.

Arrays that are stacked along a new last dimension are one region: a vector of each is computed, and their lanes are interleaved.
"""

from __future__ import annotations

import math
from dataclasses import replace

from quire.ir import dtypes
from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from quire.ir.primitives import structural as st
from quire.ir.rectangles import Rectangle, axes_of, joins_elements, moves, operands_of, regions

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.target import KernelTarget, workgroups
from ..elements.operations import Elements, Expand
from ..lazy.nodes import Array, Elementwise, Iota, Ix, Node, View, view
from ..lazy.programs import Program
from ..lazy.schedule import number
from ..lazy.shares import interleaved, stored

#: So many operations are worth a workgroup of their own.
WORK = 1 << 15
#: Bytes of the longest vectors of light equations: what is shifted starts anywhere, and a vector as long as a line of the cache
#: always lies in two. The five points of 2048x2048 in float32: 0.84 of the time that vectors of 64 bytes take (Zen 5).
SHIFTED_BYTES, LIGHT = 32, 24
#: More regions than this are never one kernel.
MOST_REGIONS = 64


@memoized(128)
def stencil_kernel(jaxpr: Jaxpr, target: KernelTarget, expand: Expand, work: int) -> Kernel:
    """The kernel of a jaxpr with one result, of views (`rectangles.moves`) and elementwise equations.

    `work` is an estimate of the operations of one element. Raises :class:`NoKernel` with the reason where there is none.
    """
    if target.kind != "cpu":
        raise NoKernel("stencil kernels are for CPUs")
    (out,) = jaxpr.outvars
    if not isinstance(out, Var) or out in jaxpr.invars or out.aval.size == 0:
        raise NoKernel("no result that is computed")
    if any(v.aval.size == 0 for v in jaxpr.invars):
        raise NoKernel("an operand without elements")
    if any(v.aval.dtype not in dtypes.SHORT for v in (*jaxpr.invars, out)):
        raise NoKernel("a dtype without a kernel form")
    found = regions(jaxpr, MOST_REGIONS)
    if found is None:
        raise NoKernel(f"more than {MOST_REGIONS} regions")
    operands = [Spec.of(v.aval.shape, v.aval.dtype) for v in jaxpr.invars]
    if work <= LIGHT:
        target = replace(target, vector_bytes=min(target.vector_bytes, SHIFTED_BYTES))
    b = KernelBuilder("stencil", operands, [Spec.of(out.aval.shape, out.aval.dtype)], target)
    emitter = _Emitter(jaxpr, b, expand)
    groups = target.groups(out.aval.size * work, WORK)
    side_by_side = joins_elements(emitter.makers[out]) and len(found) == len(emitter.makers[out].inputs)
    if side_by_side:
        emitter.interleave(out, groups, work)
    else:
        for k, read in enumerate(found):
            (part,) = read[out]
            emitter.store(out, part, groups, work, k % groups)
    names = "_".join(list(dict.fromkeys(e.primitive.name for e in jaxpr.eqns))[:4])
    several = "side by side" if side_by_side else f"{len(found)} regions" if len(found) > 1 else "one region"
    return b.build((groups,), f"{len(jaxpr.eqns)} equations of moved arrays ({names}): {several}, {workgroups(groups)}")


class _Emitter:
    """Views of parts of a jaxpr's values, and the nests that store the result's."""

    def __init__(self, jaxpr: Jaxpr, b: KernelBuilder, expand: Expand) -> None:
        self.b = b
        self.elements = Elements(b, expand)
        self.program = Program(self.elements)
        self.makers = {v: e for e in jaxpr.eqns for v in e.outputs}
        (out,) = jaxpr.outvars
        self.to = Array.of(self.elements, 0, out.aval, result=True)
        # Scalars are read once, before all loops.
        self.operands = {
            v: self.program.computed(Array.of(self.elements, i, v.aval)) for i, v in enumerate(jaxpr.invars)
        }
        self.known: dict[tuple[Var, Rectangle], Node] = {}

    def store(self, out: Var, part: Rectangle, groups: int, work: int, owner: int) -> None:
        """Compute a part of the result: by all workgroups, or by one if it is small."""
        starts = [Ix((), s) for s in part.starts]
        pieces = math.prod(part.sizes) * work // WORK
        stored(self.program.nests, self.node(out, part), self.to.part(starts, part.sizes), pieces, groups, owner)

    def interleave(self, out: Var, groups: int, work: int) -> None:
        """Compute what lies side by side in the result: the operands of its concatenation, or what is repeated."""
        shape, e = out.aval.shape[:-1], self.makers[out]
        if e.primitive is st.concatenate_p:
            nodes = [self.node(a, Rectangle.whole(a.aval.shape)) for a in e.inputs]
        else:  # one array again and again
            nodes = [self.node(out, Rectangle.whole((*shape, 1)))] * out.aval.shape[-1]
        nodes = [
            view(x, shape, [*range(len(shape)), None]) if x.shape else View(shape, x.dtype, x, (), (), ())
            for x in nodes
        ]
        interleaved(self.program.nests, nodes, self.to, math.prod(out.aval.shape) * work // WORK, groups, 0)

    def node(self, a: Atom, part: Rectangle) -> Node:
        """A part of a value."""
        if isinstance(a, Literal):
            return number(a)
        found = self.known.get((a, part))
        if found is None:
            found = self.known[a, part] = self._node(a, part)
        return found

    def _node(self, v: Var, part: Rectangle) -> Node:
        rank = range(len(part.sizes))
        if v in self.operands:
            x = self.operands[v]
            return view(x, part.sizes, rank, None, [Ix((), s) for s in part.starts]) if v.aval.shape else x
        e = self.makers[v]
        if e.primitive is st.iota_p:
            return view(Iota(v.aval.shape, v.aval.dtype, e.params["dimension"]), part.sizes, rank, None,
                        [Ix((), s) for s in part.starts])  # fmt: skip
        inner = [self.node(a, p) if p is not None else None for a, p in zip(e.inputs, operands_of(e, v, part))]
        if not moves(e):
            return self._elementwise(e, part, inner)
        (x,) = [x for x in inner if x is not None]
        if not x.shape:
            return View(part.sizes, x.dtype, x, (), (), ())
        axes, steps, offset = axes_of(e), [1] * len(x.shape), [Ix()] * len(x.shape)
        if e.primitive is st.slice_p and e.params["strides"]:
            steps = list(e.params["strides"])
        elif e.primitive is st.rev_p:
            for d in e.params["dimensions"]:
                steps[d], offset[d] = -1, Ix((), part.sizes[d] - 1)
        return view(x, part.sizes, axes, steps, offset)

    def _elementwise(self, e: Eqn, part: Rectangle, operands: list[Node | None]) -> Node:
        if e.primitive.family != "elementwise":
            raise NoKernel(f"{e.primitive.name} in a stencil")
        nodes = tuple(x for x in operands if x is not None)
        node = Elementwise(part.sizes, e.outputs[0].aval.dtype, e.primitive, e.params, nodes)
        node.check(self.elements)
        return node
