"""Gather of single elements, and of windows of a few: the places are computed as vectors, the elements are read one by one.

The result is a node (`lazy.nodes.Gather`) that a nest of loops stores: what computes the index vectors, their bounds and what is
read outside are done for a vector of results at a time, in the same loop.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from quire.ir.avals import ShapedArray
from quire.ir.primitives.indexing import GatherDimensionNumbers

from ..core.builder import KernelBuilder
from ..core.errors import NoKernel
from ..core.kernel import Kernel, Spec
from ..core.target import KernelTarget, workgroups
from ..lazy.gathering import gathered
from ..lazy.nests import Nests
from ..lazy.nodes import Array
from ..lazy.shares import stored
from .index_vectors import IndexVectors, StoredVectors

#: Results of fewer elements are left to IREE, which fuses them with what reads them.
LEAST = 1024
#: So many elements are worth a workgroup of their own.
WORK = 1 << 13


def elements(
    operand: Spec, indices: IndexVectors, dims: GatherDimensionNumbers, sizes: Sequence[int], shape: tuple[int, ...],
    target: KernelTarget, fill: Any,
) -> Kernel:  # fmt: skip
    """The kernel of the operand and what the indices are made of, with a result of `shape`.

    A window that is not wholly inside is ``fill``, or is moved inside where that is None. Raises :class:`NoKernel` for few
    elements, and where the indices cannot be computed.
    """
    count = math.prod(shape)
    if count < LEAST:
        raise NoKernel(f"fewer than {LEAST} elements one by one")
    result = Spec(shape, operand.dtype)
    b = KernelBuilder("gather_elements", [operand, *indices.operands], [result], target)
    opened = indices.opened(b, 1)
    aval = ShapedArray(operand.shape, operand.dtype.numpy())
    node = gathered(Array.of(opened.elements, 0, aval), opened.nodes, dims, sizes, shape, fill)
    to = Array.of(opened.elements, 0, ShapedArray(shape, aval.dtype), result=True)
    groups = target.groups(count, WORK)
    stored(Nests(opened.elements), node, to, groups, groups, 0)
    made = "" if isinstance(indices, StoredVectors) else ", the indices computed here"
    outside = "moved inside" if fill is None else "filled"
    return b.build(
        (groups,), f"gather of {operand.dtype.name} elements{made}; outside: {outside}; {workgroups(groups)}"
    )
