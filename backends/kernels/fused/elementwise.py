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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.jaxpr import Atom, Eqn, Jaxpr, Literal, Params, Var
from quire.ir.primitive import Primitive
from quire.ir.primitives import elementwise as ew
from quire.ir.primitives import indexing as ix
from quire.ir.primitives import structural as st
from quire.ir.weights import weight

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.memoized import memoized
from ..core.shapes import place_of, row_major, spread
from ..core.target import KernelTarget, workgroups
from ..core.values import Buffer, Operand, Value
from ..elements.memory import Memory
from ..elements.operations import BRANCHING, HALF, Element, Elements, Expand, literal
from ..elements.places import both, flat_indices, index_along, moved_inside, where

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
    row = math.gcd(cluster.size, *(x.run for x in cluster.broadcasts.values()))
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


@dataclass(frozen=True)
class _Broadcast:
    """A broadcast operand: the strides of its dimensions in the shape that it is spread over.

    `run` neighbours, from any multiple of it on, are read one after another, or are all one number.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    run: int
    contiguous: bool

    def place(self, b: KernelBuilder, flat: Value) -> Value:
        """The place in the operand of a flat index."""
        return place_of(b, flat, self.shape, self.strides)


class ElementwiseCluster:
    """What a cluster computes, and how its broadcasts are read."""

    def __init__(self, jaxpr: Jaxpr, size: int) -> None:
        self.jaxpr = jaxpr
        self.size = size
        self.broadcasts: dict[Var, _Broadcast] = {}  # by the broadcast's result
        if size == 0:
            raise NoKernel("arrays without elements")
        inputs = set(jaxpr.invars)
        self.outvars = [v for v in jaxpr.outvars if isinstance(v, Var) and v not in inputs and v.aval.size == size]
        if len(self.outvars) < len(jaxpr.outvars):
            raise NoKernel("a result of another size, or that is an operand")
        if any(v.aval.dtype not in dtypes.SHORT for v in (*jaxpr.invars, *self.outvars)):
            raise NoKernel("a dtype without a kernel form")
        self.vectors: dict[Var, Sequence[Atom]] = {}  # index vectors that are made here, and their components
        self.gathers = any(e.primitive is ix.gather_p for e in jaxpr.eqns)
        for e in jaxpr.eqns:
            if e.primitive is st.concatenate_p and is_vectors(e, size):
                self.vectors[e.outputs[0]] = e.inputs
                continue
            if len(e.outputs) != 1 or e.outputs[0].aval.size != size:
                raise NoKernel(f"{e.primitive.name} of another size")
            if e.primitive is ix.gather_p and (e.inputs[0] not in inputs or e.inputs[0].aval.size >= 1 << 31):
                raise NoKernel("a gather from what the cluster computes, or from more than 2^31 elements")
            if e.primitive is st.broadcast_in_dim_p and e.inputs[0].aval.size not in (1, size):
                x = e.inputs[0]
                if x not in inputs:
                    raise NoKernel("a broadcast of what the cluster computes")
                self.broadcasts[e.outputs[0]] = _broadcast(x.aval.shape, e.params["broadcast_dimensions"], e.outputs[0])

    def in_blocks(self, row: int, width: int) -> bool:
        """Whether rows of `row` elements, a few vectors of whole ones, have each broadcast as one row again and again, or one
        number of an array for each row, in order."""
        vectors = row // math.gcd(row, width) if width else 0
        if not 0 < vectors * len(self.jaxpr.eqns) <= MOST_IN_BLOCK or self.size < vectors * width:
            return False
        sizes = {e.outputs[0]: e.inputs[0].aval.size for e in self.jaxpr.eqns if e.outputs[0] in self.broadcasts}
        return all(
            x.run == row and sizes[v] == (row if x.contiguous else self.size // row) for v, x in self.broadcasts.items()
        )

    @property
    def base(self) -> str:
        """A name for the kernel: the first few primitives."""
        return "_".join(list(dict.fromkeys(e.primitive.name for e in self.jaxpr.eqns))[:4])


def is_vectors(e: Eqn, size: int) -> bool:
    """Whether a concatenation joins single components to so many index vectors."""
    shape = e.outputs[0].aval.shape
    return (
        e.params["dimension"] == len(shape) - 1 and math.prod(shape[:-1]) == size
        and all(a.aval.shape[-1] == 1 for a in e.inputs)
    )  # fmt: skip


def _broadcast(shape: Sequence[int], dims: Sequence[int], out: Var) -> _Broadcast:
    full = out.aval.shape
    strides = spread(shape, dims, full)
    run, contiguous = 1, None
    for d in reversed(range(len(full))):
        if full[d] == 1:
            continue
        if contiguous is None:
            contiguous = strides[d] == 1
        if strides[d] != (run if contiguous else 0):
            break
        run *= full[d]
    return _Broadcast(full, tuple(strides), run, bool(contiguous))


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


@dataclass
class Place:
    """Where a turn of the loop is: the flat index, and the bases of broadcast operands (None: gathered)."""

    flat: Operand
    width: int
    row: Operand | None = None  # the index in the row
    bases: dict[Var, Operand] = field(default_factory=dict)
    fixed: dict[Var, Element] = field(default_factory=dict)  # broadcasts that are one number in this row


#: The memory of an operand or result of a cluster: its number, the variable, whether it is a result.
View = Callable[[int, Var, bool], Buffer]


def _viewed(cluster: ElementwiseCluster, b: KernelBuilder, sized: bool) -> View:
    """The kernel's operands and results; `sized`: those of the cluster's size have as many elements as scalar 0 says."""

    def view(i: int, v: Var, is_result: bool) -> Buffer:
        elem, numbers = Memory.element(v.aval.dtype), Memory.numbers(v.aval.dtype)
        if sized and v.aval.size == cluster.size:
            return b.sized(i, is_result, elem, numbers)
        return (b.result if is_result else b.operand)(i, (v.aval.size * numbers,), elem)

    return view


class ElementwiseEmitter:
    """Computes a cluster at a place."""

    def __init__(self, cluster: ElementwiseCluster, b: KernelBuilder, expand: Expand, view: View) -> None:
        self.cluster, self.b = cluster, b
        self.elements = Elements(b, expand)
        jaxpr = cluster.jaxpr
        read = {a for e in jaxpr.eqns for a in e.inputs}
        self.inputs = {v: self._memory(view(i, v, False), v) for i, v in enumerate(jaxpr.invars) if v in read}
        self.outputs = [self._memory(view(i, v, True), v) for i, v in enumerate(cluster.outvars)]
        # Operands of one number are read once, before the loop.
        self.numbers = {v: self.inputs[v].load(0) for v in self.inputs if v.aval.size == 1}

    def _memory(self, buffer: Buffer, v: Var) -> Memory:
        return Memory(self.elements, buffer, v.aval.dtype)

    def run(self, at: Place) -> None:
        """Compute and store all results at a place."""
        env: dict[Any, Element] = dict(self.numbers)

        def read(a: Any) -> Element:
            if isinstance(a, Literal):
                return literal(a)
            if a not in env:
                env[a] = self.inputs[a].load(at.flat, at.width)
            return env[a]

        for e in self.cluster.jaxpr.eqns:
            (v,) = e.outputs
            if v in self.cluster.broadcasts:
                env[v] = self._broadcast(e, at)
            elif e.primitive is st.iota_p:
                env[v] = self._iota(e, at)
            elif e.primitive in (st.broadcast_in_dim_p, st.reshape_p):
                env[v] = read(e.inputs[0])
            elif e.primitive is ix.gather_p:
                env[v] = self._gather(e, at, read)
            elif v in self.cluster.vectors:
                continue  # its components are read where it is
            elif e.primitive.family != "elementwise":
                raise NoKernel(f"{e.primitive.name} in a cluster")
            else:
                types = [a.aval.dtype for a in e.inputs]
                xs = [read(a) for a in e.inputs]
                env[v] = self.elements.apply(e.primitive, e.params, types, v.aval.dtype, xs)
        for v, memory in zip(self.cluster.outvars, self.outputs):
            memory.store(env[v], at.flat, at.width)

    # -- places ----------------------------------------------------------------------------------------------

    def _broadcast(self, e: Eqn, at: Place) -> Element:
        x, v = e.inputs[0], e.outputs[0]
        if v in at.fixed:
            return at.fixed[v]
        assert isinstance(x, Var)
        memory, broadcast = self.inputs[x], self.cluster.broadcasts[v]
        if v in at.bases:
            assert at.row is not None
            return memory.load(at.bases[v] + at.row if isinstance(at.bases[v], Value) else at.row, at.width)
        places = broadcast.place(self.b, flat_indices(self.b, at.flat, at.width))
        return memory.gathered(places, at.width)

    def _gather(self, e: Eqn, at: Place, read: Callable[[Any], Element]) -> Element:
        """Elements at the places that index vectors say."""
        x, vectors = e.inputs
        b, p, d = self.b, e.params, e.params["dimension_numbers"]
        assert isinstance(x, Var)
        shape, strides = x.aval.shape, row_major(x.aval.shape)
        dtype, count = vectors.aval.dtype, len(d.start_index_map)
        if vectors in self.cluster.vectors:
            components = [read(a) for a in self.cluster.vectors[vectors]]
        elif count == 1:
            components = [read(vectors)]
        else:
            assert isinstance(vectors, Var)
            first = b.index(at.flat) * count
            components = [self.inputs[vectors].load(first + k, at.width, count) for k in range(count)]
        fill: Element | None = None
        if p["mode"] is ix.GatherScatterMode.FILL_OR_DROP:
            number = ix.fill_scalar(p["fill_value"], x.aval.dtype)
            fill = float(number) if x.aval.dtype in HALF else number.item()
        place: Value | None = None
        inside: Value | None = None
        for k, component in zip(d.start_index_map, components):
            number = self.elements.lift(component, dtype, at.width)
            assert isinstance(number, Value)
            index, fits = moved_inside(self.elements, number, dtype, shape[k] - 1, fill is not None)
            inside = both(inside, fits)
            term = b.cast(index, "i32") * strides[k]
            place = term if place is None else place + term
        for k, along in zip(d.operand_batching_dims, d.start_indices_batching_dims):
            term = index_along(b, at.flat, e.outputs[0].aval.shape, along, at.width) * strides[k]
            place = term if place is None else place + term
        memory = self.inputs[x]
        assert place is not None or not at.width
        found = memory.load(0) if place is None else memory.gathered(place, at.width)
        return where(self.elements, inside, found, fill, memory.dtype)

    def _iota(self, e: Eqn, at: Place) -> Element:
        index = index_along(self.b, at.flat, e.params["shape"], e.params["dimension"], at.width)
        return self.elements.convert(index, dtypes.int32, e.params["dtype"])


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
    emitter = ElementwiseEmitter(cluster, b, expand, _viewed(cluster, b, sized))
    if not width:
        groups = 1
        if cluster.size == 1:
            emitter.run(Place(0, 0))
        else:
            with b.for_(0, count) as loop:
                emitter.run(Place(loop.index, 0))
    else:
        groups = groups if cluster.size >= groups * width else 1
        total = b.index(count)
        last = total - width
        share = b.udiv(total + (groups * width - 1), groups * width) * width if groups > 1 else total
        start = b.workgroup_id() * share if groups > 1 else b.index(0)
        stop = b.smin(start + share, total) if groups > 1 else total
        with b.for_(start, stop, width) as loop:
            emitter.run(Place(b.smin(loop.index, last), width))
    how = "of any number of elements" if sized else "gathered broadcasts" if cluster.broadcasts else "over all elements"
    return ElementwiseKernel(_built(cluster, b, groups, how), (cluster.size,) if sized else ())


def _by_threads(cluster: ElementwiseCluster, target: KernelTarget, expand: Expand) -> ElementwiseKernel:
    """A thread for each element (GPU)."""
    if cluster.size >= 1 << 31:
        raise NoKernel("arrays of more than 2^31 elements")
    b = _builder(cluster, target, 0)
    emitter = ElementwiseEmitter(cluster, b, expand, _viewed(cluster, b, False))
    with b.spread_threads(cluster.size) as i:
        emitter.run(Place(i, 0))
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
    emitter = ElementwiseEmitter(cluster, b, expand, _viewed(cluster, b, False))
    with b.distributed(rows * pieces, groups) as piece:
        number = b.udiv(piece, pieces)
        start = b.urem(piece, pieces) * part if pieces > 1 else b.index(0)
        stop = b.smin(start + part, b.index(row)) if pieces > 1 else b.index(row)
        begin = number * row
        bases: dict[Var, Operand] = {}
        fixed: dict[Var, Element] = {}
        at_row = b.cast(begin, "i32")
        for e in cluster.jaxpr.eqns:
            broadcast = cluster.broadcasts.get(e.outputs[0])
            if broadcast is not None:
                base = b.cast(broadcast.place(b, at_row), "index")
                if broadcast.contiguous:
                    bases[e.outputs[0]] = base
                else:
                    fixed[e.outputs[0]] = emitter.inputs[e.inputs[0]].load(base)  # type: ignore[index]
        with b.for_(start, stop, width) as loop:
            i = b.moved_inside(loop.index, width, row)
            emitter.run(Place(begin + i, width, i, bases, fixed))
    return ElementwiseKernel(_built(cluster, b, groups, f"rows of {row} elements"), ())


def _by_blocks(
    cluster: ElementwiseCluster, target: KernelTarget, expand: Expand, width: int, row: int, groups: int
) -> ElementwiseKernel:
    """A loop over blocks of short rows: as many rows as fill vectors. Which lane is of which row is known as the text is written."""
    b = _builder(cluster, target, 0)
    emitter = ElementwiseEmitter(cluster, b, expand, _viewed(cluster, b, False))
    if cluster.size >= 1 << 31:
        raise NoKernel("broadcasts in arrays of more than 2^31 elements")
    vectors = row // math.gcd(row, width)
    block = vectors * width
    spread = [
        (e.outputs[0], emitter.inputs[x])
        for e in cluster.jaxpr.eqns
        if e.outputs[0] in cluster.broadcasts and isinstance(x := e.inputs[0], Var)
    ]
    repeated = {
        v: [memory.each([b.index((k * width + lane) % row) for lane in range(width)]) for k in range(vectors)]
        for v, memory in spread if cluster.broadcasts[v].contiguous
    }  # fmt: skip
    groups = min(groups, cluster.size // block)
    with b.distributed(-(-cluster.size // block), groups) as number:
        # The size and the block are whole rows, and so is what is before a block that is moved back inside.
        first = b.moved_inside(number * block, block, cluster.size)
        numbers = {
            v: (memory, memory.load(b.udiv(first, row), block // row))
            for v, memory in spread if not cluster.broadcasts[v].contiguous
        }  # fmt: skip
        for k in range(vectors):
            fixed = {v: each[k] for v, each in repeated.items()}
            for v, (memory, x) in numbers.items():
                lanes = [(k * width + lane) // row for lane in range(width)]
                parts = emitter.elements.parts(x, memory.dtype, block // row)
                fixed[v] = emitter.elements.joined([b.shuffle(part, part, lanes) for part in parts])
            emitter.run(Place(first + k * width, width, fixed=fixed))
    return ElementwiseKernel(_built(cluster, b, groups, f"blocks of {block // row} rows of {row} elements"), ())


def _built(cluster: ElementwiseCluster, b: KernelBuilder, groups: int, how: str) -> Kernel:
    n = len(cluster.jaxpr.eqns)
    return b.build((groups,), f"{n} elementwise equations ({cluster.base}): {how}, {workgroups(groups)}")
