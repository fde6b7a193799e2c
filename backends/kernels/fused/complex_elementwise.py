"""Functions of complex arrays, element by element: real and imaginary parts in vectors of their own.

IREE computes with complex numbers one at a time, which matters where a function is more than a few operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quire.ir import dtypes
from quire.ir.avals import ShapedArray
from quire.ir.primitive import Primitive

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget
from ..core.values import Buffer, Value
from ..elements.memory import Memory
from ..elements.operations import Elements, Expand

#: Fewer elements are not worth a dispatch of their own.
LEAST = 4096
#: Elements a workgroup takes at least.
GRAIN = 8192


def check(operands: Sequence[ShapedArray], target: KernelTarget) -> None:
    """Raise :class:`NoKernel` unless :func:`complex_elementwise` takes these operands."""
    if target.kind != "cpu":
        raise NoKernel("the kernel of complex functions is for CPUs")
    if operands[0].dtype != dtypes.complex64:
        raise NoKernel("the kernel of complex functions is for complex64")
    if max(a.size for a in operands) < LEAST:
        raise NoKernel(f"fewer than {LEAST} elements")


def complex_elementwise(
    p: Primitive,
    params: Mapping[str, Any],
    operands: Sequence[ShapedArray],
    out: ShapedArray,
    target: KernelTarget,
    expand: Expand,
) -> Kernel:
    """The kernel of one elementwise primitive; operands are of the result's shape, or scalars.

    Raises :class:`NoKernel`, also for primitives that ``Elements`` does not know.
    """
    check(operands, target)
    b = KernelBuilder(p.name, [Spec.of(a.shape, a.dtype) for a in operands], [Spec.of(out.shape, out.dtype)], target)
    elements = Elements(b, expand)

    def view(a: ShapedArray, made: Any) -> Memory:
        buffer: Buffer = made((a.size * Memory.numbers(a.dtype),), Memory.element(a.dtype))
        return Memory(elements, buffer, a.dtype)

    sources = [view(a, lambda shape, elem, i=i: b.operand(i, shape, elem)) for i, a in enumerate(operands)]
    result = view(out, lambda shape, elem: b.result(0, shape, elem))
    lanes, size = target.lanes(32), out.size
    scalars = {i: sources[i].load(0) for i, a in enumerate(operands) if not a.shape}
    steps = -(-size // lanes)
    groups = target.groups(size, GRAIN)

    def step(number: Value) -> None:
        at = b.moved_inside(number * lanes, lanes, size)
        xs = [scalars[i] if i in scalars else s.load(at, lanes) for i, s in enumerate(sources)]
        y = elements.apply(p, params, [a.dtype for a in operands], out.dtype, xs)
        result.store(y, at, lanes)

    with b.distributed(steps, groups) as number:
        step(number)
    return b.build((groups,), f"{p.name}: {lanes} complex numbers a vector, {groups} workgroups")
