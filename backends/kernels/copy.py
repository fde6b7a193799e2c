"""A copy that is an operation of its own: calls with different numbers are never taken for the same value."""

from __future__ import annotations

from .builder import KernelBuilder
from .kernel import Kernel, Spec
from .target import KernelTarget

_WORK = 65536


def copy(operand: Spec, target: KernelTarget) -> Kernel:
    """The kernel of a copy; it takes one index number, which it does not use."""
    b = KernelBuilder("copy", [operand], [operand], target, scalars=1)
    size = operand.size * operand.dtype.parts
    source, result = (view(0, (size,), operand.dtype.scalar) for view in (b.operand, b.result))
    lanes = min(8, size)
    groups = max(1, min(target.workgroups, size // _WORK))
    with b.spread(-(-size // lanes), groups) as piece:
        # The last vector is moved back inside: some elements are copied twice.
        at = b.smin(b.index(piece) * lanes, b.index(size - lanes))
        b.vstore(b.vload(lanes, source, at), result, at)
    return b.build((groups,), "a copy of a value that others read too, to be updated in place")
