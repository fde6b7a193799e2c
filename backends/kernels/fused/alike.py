"""Several elementwise clusters that compute the same formula on arrays of different sizes, as one kernel.

Each cluster is a *part* of the kernel: each leaf of an optimizer's tree is one. The kernel counts the elements of all parts
in one range: part 0 comes first, part 1 follows it, and so on. A part begins at a multiple of the vector's width. Each
workgroup has one share of the range, and all shares are equal.

A workgroup goes over all parts. For each part it computes where its share begins and ends inside the part; where that is
empty it goes on. The loop over the elements stands in the text once. The number of the part picks, by an
`scf.index_switch`, the memory that the loop reads and writes. The sizes of the parts are operands of the kernel, so
kernels of parts of other sizes have the same text.

A part's size need not be a multiple of the width. The last vector of the part is then moved back inside the part, and some
elements are computed twice. That is wrong where the part is updated in place, because the second time reads what the first
time has written. It is impossible where the part is shorter than a vector. In both cases the remaining elements are
computed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

from quire.ir.jaxpr import Jaxpr, Var
from quire.ir.primitives import structural as st

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Spec
from ..core.memoized import memoized
from ..core.target import KernelTarget, workgroups
from ..core.values import Buffer, Value
from ..elements.memory import Memory
from ..elements.operations import Expand
from .elementwise import ElementwiseCluster, ElementwiseKernel, at_place, values_of, vector_lanes

#: The least operations of a workgroup. The value is larger than that of one cluster's kernel. With the same value, four
#: clusters that are kernels of one workgroup each would become a kernel of several workgroups, and a program of kernels of
#: one workgroup runs on the calling thread. Eight leaves of 4096 elements, Adam: 70 us of processor time, 125 us with the
#: smaller value.
WORK = 1 << 18


@dataclass(frozen=True)
class Part:
    """One of the clusters.

    Attributes:
        size: the number of its elements.
        operands: for each input of the formula's jaxpr, which operand of the kernel it is.
        results: for each output of the formula's jaxpr, which result of the kernel it is.
    """

    size: int
    operands: tuple[int, ...]
    results: tuple[int, ...]


@memoized(256)
def alike_kernel(
    jaxpr: Jaxpr, parts: tuple[Part, ...], operands: tuple[Spec, ...], results: tuple[Spec, ...], in_place: bool,
    target: KernelTarget, expand: Expand, work: int,
) -> ElementwiseKernel:  # fmt: skip
    """The kernel of clusters that all compute the formula `jaxpr`.

    Args:
        jaxpr: the formula, with the shapes of a largest part.
        parts: each cluster's size, operands and results.
        operands, results: of the kernel.
        in_place: whether the first results of each part are its first operands, updated.
        work: an estimate of the operations of one element.

    Raises :class:`NoKernel` for targets other than CPUs, and for formulas in which an element's place matters.
    """
    if target.kind != "cpu":
        raise NoKernel("elementwise kernels are for CPUs")
    size = max(p.size for p in parts)
    cluster = ElementwiseCluster(jaxpr, size)
    if cluster.broadcasts or any(e.primitive is st.iota_p for e in jaxpr.eqns):
        raise NoKernel("broadcasts of arrays, or places, in clusters side by side")
    width = max(1, vector_lanes(cluster, target, expand, work, size))
    moved = width > 1 and not in_place and all(p.size >= width for p in parts)
    # A power of two, so that sets of leaves of other sizes often ask for the same text.
    groups = 1 << (target.groups(sum(p.size for p in parts) * work, WORK).bit_length() - 1)
    tied = {r: o for p in parts for r, o in zip(p.results, p.operands)} if in_place else {}
    b = KernelBuilder("alike", operands, results, target, tied=tied, scalars=len(parts))

    read = {a for e in jaxpr.eqns for a in e.inputs}
    arrays = [(i, v, False) for i, v in enumerate(jaxpr.invars) if v in read]
    arrays += [(k, v, True) for k, v in enumerate(cluster.outvars)]

    def memory(number: int, i: int, v: Var, is_result: bool) -> Buffer:
        elem, numbers = Memory.element(v.aval.dtype), Memory.numbers(v.aval.dtype)
        own = (parts[number].results if is_result else parts[number].operands)[i]
        if v.aval.size == size > 1:
            return b.sized(own, is_result, elem, numbers, number)
        return (b.result if is_result else b.operand)(own, (numbers,), elem)

    cases: list[list[Value | Buffer]] = []
    end = b.index(0)
    for k in range(len(parts)):
        cases.append([b.scalar(k), end, *(memory(k, *a) for a in arrays)])
        end = end + b.udiv(b.scalar(k) + (width - 1), width) * width
    share = b.udiv(end + (groups * width - 1), groups * width) * width if groups > 1 else end
    low = b.workgroup_id() * share if groups > 1 else b.index(0)
    with b.for_(0, len(parts)) as loop:
        count, first, *buffers = b.switch(loop.index, cases)
        assert isinstance(count, Value) and isinstance(first, Value)
        start = b.smax(low - first, 0)
        stop = b.smin(low + share - first, count)
        with b.if_(b.cmp("slt", start, stop)):
            picked = {(i, is_result): x for (i, _, is_result), x in zip(arrays, buffers) if isinstance(x, Buffer)}
            values = values_of(cluster, b, expand, lambda i, _, is_result: picked[i, is_result])
            whole = start
            if width > 1:
                whole = stop if moved else start + b.udiv(stop - start, width) * width
                with b.for_(start, whole, width) as inner:
                    at = b.smin(inner.index, count - width) if moved else inner.index
                    values.compute_all(at_place(at, width))
            if not moved:
                with b.for_(whole, stop) as inner:
                    values.compute_all(at_place(inner.index, 0))
    sizes = sorted(p.size for p in parts)
    of = f"{sizes[0]}" if sizes[0] == sizes[-1] else f"{sizes[0]} to {sizes[-1]}"
    where = workgroups(groups)
    if in_place:
        where += ", updated in place"
    what = f"{len(jaxpr.eqns)} elementwise equations ({cluster.base})"
    reason = f"{len(parts)} clusters alike, of {of} elements, side by side: {what}, {where}"
    return ElementwiseKernel(b.build((groups,), reason), tuple(p.size for p in parts))
