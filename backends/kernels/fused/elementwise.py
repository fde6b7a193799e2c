"""Clusters of elementwise equations as one kernel: one loop over the elements, in which all of them are computed.

The elements have a flat, row-major index. Operands of the cluster's own size are read at it; of others (broadcasts)
the place is made of it. Where the trailing dimensions are long, the loop goes over them, and there each operand is
contiguous or one number; otherwise broadcast operands are gathered lane by lane. So is what a gather of single elements reads
at places that the cluster computes, or that index vectors say. A cluster without broadcasts and gathers takes the number of
elements as an operand, so that one executable serves arrays of any size.

The last vector is moved back inside the array: some elements are computed twice, none needs a mask or a loop of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Eqn, Jaxpr, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.rectangles import joins_components
from quire.ir.weights import weight

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.shapes import place_of, spread
from ..core.target import KernelTarget, workgroups
from ..core.values import Buffer, Operand
from ..elements.memory import Memory
from ..elements.operations import BRANCHING, Element, Expand
from .cluster import Cluster, Reading, Space
from .values import Frame, Values, Views

#: So many operations are worth a workgroup of their own.
WORK = 1 << 16
#: Rows of fewer vectors than this are not gone over one by one: broadcast operands are gathered.
LEAST_VECTORS = 2
#: Arrays from this size on are computed two vectors at a time, unless that would spill registers.
LARGE, MODERATE_WORK = 1 << 15, 400
#: Shorter vectors than this are not worth going over rows.
LEAST_LANES = 4
#: Blocks of short rows have so many vectors and equations, the one times the other, at most.
MOST_IN_BLOCK = 256
#: Functions of arrays of fewer complex numbers are not worth a kernel.
LEAST_COMPLEX = 4096


@dataclass(frozen=True)
class ElementwiseKernel:
    """A kernel, and the index numbers that it takes after its operands."""

    kernel: Kernel
    scalars: tuple[int, ...]


@memoized(256)
def elementwise_kernel(
    jaxpr: Jaxpr, shape: tuple[int, ...], target: KernelTarget, expand: Expand, work: int
) -> ElementwiseKernel:
    """The kernel of a cluster whose values have as many elements as `shape`, or are scalars.

    Its operands are the jaxpr's inputs, its results the jaxpr's outputs; `work` is an estimate of the operations of one
    element. Raises :class:`NoKernel` with the reason where there is none.
    """
    cluster = ElementwiseCluster(jaxpr, math.prod(shape))
    if target.kind == "gpu":
        return _by_threads(cluster, target, expand)
    width = vector_lanes(cluster, target, expand, work, cluster.size)
    row = math.gcd(cluster.size, *(x.run[0] for x in cluster.broadcasts.values()))
    groups = target.groups(cluster.size * work * min(element_bits(cluster), 32) // 32, WORK)
    if row < cluster.size:
        if row < LEAST_VECTORS * width and cluster.in_blocks(row, width):
            return _by_blocks(cluster, target, expand, width, row, groups)
        narrow = width
        while narrow > LEAST_LANES and row < LEAST_VECTORS * narrow:
            narrow //= 2
        if row >= LEAST_VECTORS * narrow > 0:
            return _by_rows(cluster, target, expand, narrow, row, groups)
    return _flat(cluster, target, expand, width, groups)


def complex_kernel(
    p: Primitive, params: Params, operands: Sequence[ShapedArray], out: ShapedArray, target: KernelTarget, expand: Expand
) -> ElementwiseKernel:  # fmt: skip
    """The kernel of one function of complex numbers, which IREE computes one at a time. Raises :class:`NoKernel`."""
    if operands[0].dtype != dtypes.complex64:
        raise NoKernel("the kernel of complex functions is for complex64")
    if target.kind != "cpu":
        raise NoKernel("the kernels of complex functions are for CPUs")
    if out.size < LEAST_COMPLEX:
        raise NoKernel(f"fewer than {LEAST_COMPLEX} elements")
    return function_kernel(p, params, operands, out, target, expand)


def function_kernel(
    p: Primitive, params: Params, operands: Sequence[ShapedArray], out: ShapedArray, target: KernelTarget, expand: Expand
) -> ElementwiseKernel:  # fmt: skip
    """The kernel of one elementwise function. Raises :class:`NoKernel`."""
    inputs = [Var(a) for a in operands]
    e = Eqn(inputs, [Var(out)], p, params)
    return elementwise_kernel(Jaxpr((), inputs, e.outputs, [e]), out.shape, target, expand, weight(e))


class ElementwiseCluster(Cluster):
    """A cluster of `size` elements: all its values are full, whatever their shapes, or numbers."""

    def __init__(self, jaxpr: Jaxpr, size: int) -> None:
        super().__init__(jaxpr, Space((size,), 0, 0))
        self.size = size
        self.broadcasts: dict[Var, Reading] = {}  # how operands that are repeated are read, by the broadcast's result
        if size == 0:
            raise NoKernel("arrays without elements")
        if any(v in self.inputs or v.aval.size != size for v in self.outvars):
            raise NoKernel("a result of another size, or that is an operand")
        if any(v.aval.dtype not in dtypes.SHORT for v in (*jaxpr.invars, *self.outvars)):
            raise NoKernel("a dtype without a kernel form")
        self.gathers = any(e.primitive is ix.gather_p for e in jaxpr.eqns)
        for e in jaxpr.eqns:
            if joins_components(e) and math.prod(e.outputs[0].aval.shape[:-1]) == size:
                self.vectors[e.outputs[0]] = e.inputs
                continue
            if len(e.outputs) != 1 or e.outputs[0].aval.size != size:
                raise NoKernel(f"{e.primitive.name} of another size")
            if e.primitive is ix.gather_p and (e.inputs[0] not in self.inputs or e.inputs[0].aval.size >= 1 << 31):
                raise NoKernel("a gather from what the cluster computes, or from more than 2^31 elements")
            if e.primitive is st.broadcast_in_dim_p and e.inputs[0].aval.size not in (1, size):
                x, full = e.inputs[0], e.outputs[0].aval.shape
                if x not in self.inputs:
                    raise NoKernel("a broadcast of what the cluster computes")
                assert isinstance(x, Var)
                self.broadcasts[e.outputs[0]] = Reading(
                    x, full, tuple(spread(x.aval.shape, e.params["broadcast_dimensions"], full))
                )

    def full(self, a: Any) -> bool:
        """Whether a value has as many elements as the cluster."""
        return a.aval.size == self.size

    def reading(self, v: Var) -> Reading | None:
        """How a full value is read from memory: by the flat index, or spread over it; None for what is computed."""
        return Reading(v, (self.size,), (1,)) if v in self.inputs and self.full(v) else self.broadcasts.get(v)

    def in_blocks(self, row: int, width: int) -> bool:
        """Whether rows of `row` elements, a few vectors of whole ones, have each broadcast as one row again and again, or one
        number of an array for each row, in order."""
        vectors = row // math.gcd(row, width) if width else 0
        if not 0 < vectors * len(self.jaxpr.eqns) <= MOST_IN_BLOCK or self.size < vectors * width:
            return False
        return all(
            x.run == (row, step) and x.array.aval.size == (row if step else self.size // row)
            for x in self.broadcasts.values() for step in x.run[1:]
        )  # fmt: skip

    @property
    def base(self) -> str:
        """A name for the kernel: the first few primitives."""
        return "_".join(list(dict.fromkeys(e.primitive.name for e in self.jaxpr.eqns))[:4])


def element_bits(cluster: ElementwiseCluster) -> int:
    """Bits of an element by which vectors are divided: of the widest dtype that is read or written, at least 32.

    Fewer where all that is computed are narrower integers, none of them divided: integer division is one by one.
    """
    jaxpr = cluster.jaxpr
    avals = [v.aval for v in (*jaxpr.invars, *cluster.outvars)]
    made = [*avals, *(v.aval for e in jaxpr.eqns for v in e.outputs)]
    if all(dtypes.is_integer(a.dtype) or dtypes.is_bool(a.dtype) for a in made):
        widest = max(8 * a.dtype.itemsize for a in made)
        if widest < 32 and not any(e.primitive in (ew.div_p, ew.rem_p) for e in jaxpr.eqns):
            return widest
    return max(32, *(8 * dtypes.real_dtype(a.dtype).itemsize for a in avals))


def vector_lanes(cluster: ElementwiseCluster, target: KernelTarget, expand: Expand, work: int, size: int) -> int:
    """Elements of a vector; 0 for scalars."""
    bits = element_bits(cluster)
    pairs = any(dtypes.is_complex(v.aval.dtype) for v in (*cluster.jaxpr.invars, *cluster.outvars))
    width = target.lanes(bits)
    moderate = bits <= 32 and not pairs and work <= MODERATE_WORK
    # Elements that are gathered go one by one through single registers.
    one_by_one = any(e.primitive is ix.gather_p or _in_double(e, expand) for e in cluster.jaxpr.eqns)
    if size >= LARGE and moderate and not one_by_one:
        width *= 2  # two registers a value: polynomials are chains of operations that wait for each other
    while width > size:
        width //= 2
    return width if width > 1 else 0


def _in_double(e: Eqn, expand: Expand) -> bool:
    """Whether an equation's formula, if all elements take it, has steps in float64."""
    if e.primitive.family != "elementwise" or e.primitive in BRANCHING:
        return False
    formula = expand(e.primitive, tuple(a.aval.dtype for a in e.inputs), e.params)
    return formula is not None and any(v.aval.dtype == dtypes.float64 for step in formula.eqns for v in step.outputs)


def _viewed(cluster: ElementwiseCluster, b: KernelBuilder, sized: bool) -> Views:
    """The kernel's operands and results; `sized`: those of the cluster's size have as many elements as scalar 0 says."""

    def view(i: int, v: Var, is_result: bool) -> Buffer:
        elem, numbers = Memory.element(v.aval.dtype), Memory.numbers(v.aval.dtype)
        if sized and v.aval.size == cluster.size:
            return b.sized(i, is_result, elem, numbers)
        return (b.result if is_result else b.operand)(i, (v.aval.size * numbers,), elem)

    return view


def values_of(
    cluster: ElementwiseCluster, b: KernelBuilder, expand: Expand, views: Views
) -> Values[ElementwiseCluster]:
    """The values of a cluster. Operands of one number are read here, before all loops."""
    values = Values(cluster, b, expand, views=views)
    values.rows = {v: memory.load(0) for v, memory in values.inputs.items() if v.aval.size == 1}
    return values


def at_place(
    flat: Operand, width: int, fixed: dict[Any, Element] | None = None, begun: Mapping[Var, Operand] | None = None, number: Operand = 0
) -> Frame:  # fmt: skip
    """The place of a flat index."""
    return Frame(0, 0, flat, width, values=fixed or {}, begun=begun or {}, number=number)


def _builder(cluster: ElementwiseCluster, target: KernelTarget, scalars: int) -> KernelBuilder:
    jaxpr = cluster.jaxpr
    operands, results = ([Spec.of(v.aval.shape, v.aval.dtype) for v in vs] for vs in (jaxpr.invars, jaxpr.outvars))
    return KernelBuilder("elementwise", operands, results, target, scalars=scalars)


def _flat(
    cluster: ElementwiseCluster, target: KernelTarget, expand: Expand, width: int, groups: int
) -> ElementwiseKernel:
    """One loop over all elements."""
    places = cluster.gathers or any(e.primitive is st.iota_p for e in cluster.jaxpr.eqns)
    if (places or cluster.broadcasts) and cluster.size >= 1 << 31:
        raise NoKernel("broadcasts in arrays of more than 2^31 elements")
    sized = not places and not cluster.broadcasts and width > 0
    b = _builder(cluster, target, 1 if sized else 0)
    count: Operand = b.scalar(0) if sized else cluster.size
    values = values_of(cluster, b, expand, _viewed(cluster, b, sized))
    if not width:
        groups = 1
        if cluster.size == 1:
            values.compute_all(at_place(0, 0))
        else:
            with b.for_(0, count) as loop:
                values.compute_all(at_place(loop.index, 0))
    else:
        groups = groups if cluster.size >= groups * width else 1
        total = b.index(count)
        last = total - width
        share = b.udiv(total + (groups * width - 1), groups * width) * width if groups > 1 else total
        start = b.workgroup_id() * share if groups > 1 else b.index(0)
        stop = b.smin(start + share, total) if groups > 1 else total
        with b.for_(start, stop, width) as loop:
            values.compute_all(at_place(b.smin(loop.index, last), width))
    how = "of any number of elements" if sized else "gathered broadcasts" if cluster.broadcasts else "over all elements"
    return ElementwiseKernel(_built(cluster, b, groups, how), (cluster.size,) if sized else ())


def _by_threads(cluster: ElementwiseCluster, target: KernelTarget, expand: Expand) -> ElementwiseKernel:
    """A thread for each element (GPU)."""
    if cluster.size >= 1 << 31:
        raise NoKernel("arrays of more than 2^31 elements")
    b = _builder(cluster, target, 0)
    values = values_of(cluster, b, expand, _viewed(cluster, b, False))
    with b.spread_threads(cluster.size) as i:
        values.compute_all(at_place(i, 0))
    return ElementwiseKernel(_built(cluster, b, b.thread_groups(cluster.size), "a thread for each element"), ())


def _by_rows(
    cluster: ElementwiseCluster, target: KernelTarget, expand: Expand, width: int, row: int, groups: int
) -> ElementwiseKernel:
    """A loop over rows of neighbours along which each broadcast operand is contiguous or one number."""
    rows = cluster.size // row
    pieces = max(1, min(groups // rows, row // (LEAST_VECTORS * width)))  # parts of a row, where there are few rows
    part = -(-row // (pieces * width)) * width
    pieces = -(-row // part)
    groups = max(1, min(groups, rows * pieces))
    if cluster.size >= 1 << 31:
        raise NoKernel("broadcasts in arrays of more than 2^31 elements")
    b = _builder(cluster, target, 0)
    values = values_of(cluster, b, expand, _viewed(cluster, b, False))
    with b.distributed(rows * pieces, groups) as piece:
        number = b.udiv(piece, pieces)
        start = b.urem(piece, pieces) * part if pieces > 1 else b.index(0)
        stop = b.smin(start + part, b.index(row)) if pieces > 1 else b.index(row)
        begin = number * row
        begun: dict[Var, Operand] = {}
        fixed: dict[Var, Element] = {}
        at_row = b.cast(begin, "i32")
        for v, reading in cluster.broadcasts.items():
            base = b.cast(place_of(b, at_row, reading.extents, reading.strides), "index")
            if reading.run[1]:
                begun[v] = base
            else:
                fixed[v] = values.inputs[reading.array].load(base)
        with b.for_(start, stop, width) as loop:
            i = b.moved_inside(loop.index, width, row)
            values.compute_all(at_place(begin + i, width, dict(fixed), begun, i))
    return ElementwiseKernel(_built(cluster, b, groups, f"rows of {row} elements"), ())


def _by_blocks(
    cluster: ElementwiseCluster, target: KernelTarget, expand: Expand, width: int, row: int, groups: int
) -> ElementwiseKernel:
    """A loop over blocks of short rows: as many rows as fill vectors. Which lane is of which row is known as the text is written."""
    b = _builder(cluster, target, 0)
    values = values_of(cluster, b, expand, _viewed(cluster, b, False))
    if cluster.size >= 1 << 31:
        raise NoKernel("broadcasts in arrays of more than 2^31 elements")
    vectors = row // math.gcd(row, width)
    block = vectors * width
    repeated = {
        v: [values.inputs[x.array].each([b.index((k * width + lane) % row) for lane in range(width)]) for k in range(vectors)]
        for v, x in cluster.broadcasts.items() if x.run[1]
    }  # fmt: skip
    groups = min(groups, cluster.size // block)
    with b.distributed(-(-cluster.size // block), groups) as number:
        # The size and the block are whole rows, and so is what is before a block that is moved back inside.
        first = b.moved_inside(number * block, block, cluster.size)
        numbers = {
            v: values.inputs[x.array].load(b.udiv(first, row), block // row)
            for v, x in cluster.broadcasts.items() if not x.run[1]
        }  # fmt: skip
        for k in range(vectors):
            fixed = {v: each[k] for v, each in repeated.items()}
            for v, x in numbers.items():
                lanes = [(k * width + lane) // row for lane in range(width)]
                parts = values.elements.parts(x, v.aval.dtype, block // row)
                fixed[v] = values.elements.joined([b.shuffle(part, part, lanes) for part in parts])
            values.compute_all(at_place(first + k * width, width, fixed))
    return ElementwiseKernel(_built(cluster, b, groups, f"blocks of {block // row} rows of {row} elements"), ())


def _built(cluster: ElementwiseCluster, b: KernelBuilder, groups: int, how: str) -> Kernel:
    n = len(cluster.jaxpr.eqns)
    return b.build((groups,), f"{n} elementwise equations ({cluster.base}): {how}, {workgroups(groups)}")
